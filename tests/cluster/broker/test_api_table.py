"""Each API is in the module that the table says; brokers offer and answer it."""

import sys
from importlib import import_module
from types import ModuleType

import pytest
from broker_world import BrokerWorld

from cluster.broker import api_table
from cluster.broker.apis import offered
from cluster.protocol.primitives import INT32
from cluster.protocol.versions import API_VERSIONS, GET_TELEMETRY_SUBSCRIPTIONS
from replica.errors import ErrorCode
from replica.rules import PROFILES, KafkaRelease

TOY = """
from cluster.broker.apis.refusals import ABSENT, Refused, always
from cluster.protocol.versions import GET_TELEMETRY_SUBSCRIPTIONS

APIS = {GET_TELEMETRY_SUBSCRIPTIONS: Refused(always({"error_code": ABSENT}))}
"""


def test_a_handler_and_two_rows_make_an_api_that_brokers_offer_and_answer(tmp_path, monkeypatch):
    toy = ModuleType("toy")
    exec(TOY, toy.__dict__)
    monkeypatch.setitem(sys.modules, f"{api_table.FOLDER}.toy", toy)
    monkeypatch.setattr(api_table, "APIS", {**api_table.APIS, GET_TELEMETRY_SUBSCRIPTIONS: "toy"})
    monkeypatch.setitem(offered.HIGHEST, GET_TELEMETRY_SUBSCRIPTIONS, {KafkaRelease(4, 1): 0})
    world = BrokerWorld(tmp_path, PROFILES["kafka-4.1"]).start()
    world.run(100)
    seen = {one.api_key: (one.min_version, one.max_version) for one in world.call("c").ask(API_VERSIONS, 4).api_keys}
    assert seen[GET_TELEMETRY_SUBSCRIPTIONS] == (0, 0)
    assert world.call("c").ask(GET_TELEMETRY_SUBSCRIPTIONS, 0).error_code is ErrorCode.UNSUPPORTED_VERSION


def test_each_module_has_the_apis_that_the_table_says():
    named = sorted((key, module) for module, keys in api_table._KEYS.items() for key in keys)
    assert dict(named) == api_table.APIS and len(named) == len(api_table.APIS)
    for module, keys in api_table._KEYS.items():
        assert sorted(import_module(f"{api_table.FOLDER}.{module}").APIS) == sorted(keys), module


@pytest.mark.parametrize("profile", PROFILES)
def test_a_broker_offers_all_of_its_era_that_it_serves(profile, tmp_path):
    """An API is imported with its first request, so what a broker offers must not depend on what was asked before."""
    world = BrokerWorld(tmp_path, PROFILES[profile]).start()
    world.run(100)
    apis = world.broker._apis
    before = dict(apis.offered)
    assert before and all(apis._handler(key) is not None for key in before)
    in_era = offered.offered_under(PROFILES[profile])
    assert before == {key: versions for key, versions in in_era.items() if apis._handler(key) is not None}


def test_equal_answers_about_versions_have_the_correlation_id_of_their_request(tmp_path):
    world = BrokerWorld(tmp_path, PROFILES["kafka-4.1"]).start()
    world.run(100)
    caller = world.call("c")
    for version in (3, 4, 3, 4):
        caller.ask(API_VERSIONS, version)
    one, two, three, four = map(bytes, caller.answers)
    size = INT32.size
    assert [INT32.unpack_from(answer, 0)[0] for answer in (one, two, three, four)] == [1, 2, 3, 4]
    assert (one[size:], two[size:]) == (three[size:], four[size:]) and one[size:] != two[size:]
