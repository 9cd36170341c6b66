"""A client that may do nothing: each of its requests is answered in its form, or its connection closes."""

from __future__ import annotations

import pytest
from acl_world import BOB, AclWorld, rule
from broker_world import B1
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from request_strategies import fields

from cluster.authorization.guards import GUARDS
from cluster.protocol.cold import decode_response, encode_request, make, request_class
from cluster.protocol.versions import VERSIONS, api_name
from controller.access import Operation, ResourceType
from tests.soak import examples


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = AclWorld(tmp_path_factory.mktemp("fuzz"))
    for topic in ("t", "u"):
        world.create(B1, topic=topic)
    # Of some names something is allowed, so that requests are taken apart.
    world.allow(rule(BOB, Operation.DESCRIBE), rule(BOB, Operation.READ, ResourceType.GROUP, "1"))
    return world


@pytest.mark.soak
@pytest.mark.parametrize("api", GUARDS, ids=api_name)
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_request_is_answered(world, api, data):
    version = data.draw(st.integers(*VERSIONS[api]))
    client = world.user(BOB)
    before = len(client.caller.answers)
    entity = make(request_class(api, version), **data.draw(fields(request_class(api, version))))
    client.caller.send(encode_request(api, version, 7, "fuzzer", entity))
    world.run(100)
    for answer in client.caller.answers[before:]:
        decode_response(api, version, answer)
    assert client.closed or len(client.caller.answers) == before + 1
    client.caller.hang_up()
