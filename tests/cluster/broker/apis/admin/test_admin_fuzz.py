"""The broker answers every admin request in its form, or closes that client's connection alone."""

from __future__ import annotations

import pytest
from broker_world import B1, B2, BrokerWorld, batch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from request_strategies import fields

from cluster.protocol.cold import decode_response, encode_request, make, request_class
from cluster.protocol.versions import (
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_QUORUM,
    DESCRIBE_TOPIC_PARTITIONS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    LIST_PARTITION_REASSIGNMENTS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    VERSIONS,
    api_name,
)
from tests.soak import examples

APIS = (
    CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, DELETE_RECORDS, DESCRIBE_CONFIGS, ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS, ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS,
    DESCRIBE_CLUSTER, DESCRIBE_LOG_DIRS, DESCRIBE_PRODUCERS, DESCRIBE_QUORUM, DESCRIBE_TOPIC_PARTITIONS, METADATA,
    INIT_PRODUCER_ID, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH,
)  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = BrokerWorld(tmp_path_factory.mktemp("fuzz")).start()
    world.run(100)
    world.join(B2)
    return world


@pytest.mark.parametrize("api", APIS, ids=api_name)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_request_is_answered(world, api, data):
    version = data.draw(st.integers(*VERSIONS[api]))
    for topic in ("t", "u"):
        if topic not in world.controller.state.image.topics:
            world.create(B1, B2, topic=topic)
    other, client = world.call("other"), world.call("fuzzer")
    client.produce(batch("r0"), acks=0)
    client.answers.clear()
    entity = make(request_class(api, version), **data.draw(fields(request_class(api, version))))
    client.send(encode_request(api, version, 7, "fuzzer", entity))
    if not client.answers and not client.closed:
        world.run(1_000)
    if client.answers:
        decode_response(api, version, client.answers[-1])
    assert client.answers or client.closed or api == DELETE_RECORDS, "only a deletion waits, and for its timeout"
    assert other.ask(DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=False).brokers
