"""APIs that are offered because Kafka offers them: every request of every version gets an answer that can be read."""

import pytest
from broker_world import B1, BrokerWorld
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_strategies import plain_fields

from cluster.broker.api_table import APIS, serve_of
from cluster.broker.apis.refusals import Refused
from cluster.protocol import versions as v
from cluster.protocol.cold import request_class
from cluster.protocol.versions import VERSIONS
from replica.errors import ErrorCode
from replica.rules import PROFILES

REFUSED = [key for key in APIS if isinstance(serve_of(key), Refused)]
SILENT = {v.LIST_TRANSACTIONS}
"""APIs with nothing to list, and no error."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = BrokerWorld(tmp_path_factory.mktemp("absent"), PROFILES["kafka-4.1"]).start()
    world.run(100)
    world.create(B1)
    return world


def codes(answer):
    """Every error code in an answer, however deep."""
    for name in answer.__dataclass_fields__:
        value = getattr(answer, name)
        if name.endswith("error_code"):
            yield value
        elif isinstance(value, tuple):
            for one in value:
                if hasattr(one, "__dataclass_fields__"):
                    yield from codes(one)


@pytest.mark.parametrize("api", REFUSED)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_asked_is_answered_and_refused(world, api, data):
    version = data.draw(st.integers(*VERSIONS[api]))
    answer = world.call("admin").ask(api, version, **data.draw(plain_fields(request_class(api, version))))
    told = [code for code in codes(answer) if code is not ErrorCode.NONE]
    if api in SILENT:
        assert told == []
    elif hasattr(answer, "error_code") and api not in (v.ADD_PARTITIONS_TO_TXN, v.DESCRIBE_USER_SCRAM_CREDENTIALS):
        assert answer.error_code is not ErrorCode.NONE


def listed(world, *types, version=1):
    answer = world.call("admin").ask(v.LIST_CONFIG_RESOURCES, version, resource_types=types)
    return [(one.resource_type, one.resource_name) for one in answer.config_resources]


def test_what_has_settings_is_listed(world):
    assert listed(world, 2) == [(2, "t")]
    assert listed(world) == [(2, "t"), (4, "1"), (8, "1")]
    assert listed(world, 16, 32) == []
    unknown = world.call("admin").ask(v.LIST_CONFIG_RESOURCES, 1, resource_types=[2, 64])
    assert unknown.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert world.call("admin").ask(v.LIST_CONFIG_RESOURCES, 0).config_resources == ()


def test_a_group_without_a_coordinator_here_is_not_described(world):
    (group,) = world.call("admin").ask(v.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"]).groups
    assert (group.group_id, group.error_code) == ("g", ErrorCode.NOT_COORDINATOR)
