"""The broker answers every admin request in its form, or closes that client's connection alone."""

from __future__ import annotations

import pytest
from broker_world import B1, B2, BrokerWorld, batch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.protocol.cold import decode_response, encode_request, make, request_class
from cluster.protocol.entities import Shape, shapes
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
from replica.errors import ErrorCode
from tests.soak import examples

APIS = (
    CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, DELETE_RECORDS, DESCRIBE_CONFIGS, ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS, ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS,
    DESCRIBE_CLUSTER, DESCRIBE_LOG_DIRS, DESCRIBE_PRODUCERS, DESCRIBE_QUORUM, DESCRIBE_TOPIC_PARTITIONS, METADATA,
    INIT_PRODUCER_ID, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH,
)  # fmt: skip
NAMES = st.sampled_from(["t", "u", "", "a/b", "1", "2", "-1", "__cluster_metadata", "__consumer_offsets"])
KEYS = st.sampled_from(["segment.bytes", "cleanup.policy", "min.insync.replicas", "nonsense"])
TEXT = NAMES | KEYS | st.sampled_from(["2", "compact", "delete,compact", "-5"]) | st.text(max_size=3)
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32}


def value(shape: Shape) -> st.SearchStrategy:
    """Mostly what could mean something."""
    kind = shape.kafka_type
    if shape.entity is not None:
        one = fields(shape.entity)
    elif kind in BITS:
        half = 1 << (BITS[kind] - 1)
        one = st.sampled_from([-1, 0, 1, 2, 3]) | st.sampled_from([-half, half - 1, -2, -3, 7, 40])
    else:
        one = {
            "bool": st.booleans(),
            "string": TEXT,
            "uuid": st.none() | st.uuids(),
            "error_code": st.just(ErrorCode.NONE),
            "uint16": st.integers(0, 65535),
        }[kind]
    if shape.is_array:
        one = st.lists(one, max_size=3)
    return st.one_of(st.none(), one) if shape.is_nullable and shape.tag is None else one


def fields(entity_type: type) -> st.SearchStrategy:
    return st.fixed_dictionaries({name: value(shape) for name, shape in shapes(entity_type).items()})


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
