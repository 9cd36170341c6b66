"""An API is one file, which the table finds; brokers offer and answer it. Clashes and wrong names are refused."""

import pytest
from broker_world import BrokerWorld

from cluster.broker import api_table
from cluster.broker.apis import offered
from cluster.protocol.primitives import INT32
from cluster.protocol.versions import API_VERSIONS, GET_TELEMETRY_SUBSCRIPTIONS
from replica.errors import ErrorCode
from replica.rules import PROFILES

TOY = """
from cluster.broker.apis.refusals import ABSENT, Refused, always

API = Refused(always({"error_code": ABSENT}))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A package for APIs beside that of the broker; its name is this test's alone."""
    name = f"apis_of_{tmp_path.name}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / name


def test_one_file_makes_an_api_that_brokers_offer_and_answer(folder, tmp_path, monkeypatch):
    (folder / "api_71_get_telemetry_subscriptions.py").write_text(TOY)
    monkeypatch.setattr(api_table, "APIS", {**api_table.APIS, **api_table.collect(folder.name)})
    monkeypatch.setitem(offered.HIGHEST, GET_TELEMETRY_SUBSCRIPTIONS, {"4.1": 0})
    world = BrokerWorld(tmp_path, PROFILES["kafka-4.1"]).start()
    world.run(100)
    seen = {one.api_key: (one.min_version, one.max_version) for one in world.call("c").ask(API_VERSIONS, 4).api_keys}
    assert seen[GET_TELEMETRY_SUBSCRIPTIONS] == (0, 0)
    assert world.call("c").ask(GET_TELEMETRY_SUBSCRIPTIONS, 0).error_code is ErrorCode.UNSUPPORTED_VERSION


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


def test_a_key_of_another_file_is_refused(folder):
    (folder / "api_00_produce.py").write_text(TOY)
    with pytest.raises(ValueError, match=r"api_00_produce and cluster\.broker\.apis\.api_00_produce are both API 0"):
        api_table.collect(api_table.FOLDER, folder.name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("api_71_telemetry", "GetTelemetrySubscriptions: it should be named api_71_get_telemetry_subscriptions"),
        ("api_72_get_telemetry_subscriptions", "PushTelemetry: it should be named api_72_push_telemetry"),
    ],
)
def test_a_name_that_does_not_say_which_api_it_is_is_refused(folder, name, told):
    (folder / f"{name}.py").write_text(TOY)
    with pytest.raises(ValueError, match=f"{name} is {told}"):
        api_table.collect(folder.name)


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
