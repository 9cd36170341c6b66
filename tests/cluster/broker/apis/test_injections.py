"""Faults of requests: a broker answers each API with the error that a step asks for, before or after it acts."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from broker_world import B1, B2, batch

from cluster.protocol import cold
from cluster.protocol import versions as v
from cluster.protocol.answer_errors import ERRORS
from cluster.request_faults import RequestFault, RequestFaults
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.trace.events import ResponseInjected

ONE = [{"partition_index": 0}]
GROUP = {"group_id": "g", "member_id": "m"}
TRANSACTION = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
REQUESTS: dict[int, dict[str, Any]] = {
    v.LIST_OFFSETS: {"topics": [{"name": "t", "partitions": ONE}]},
    v.OFFSET_FOR_LEADER_EPOCH: {"topics": [{"topic": "t", "partitions": [{"partition": 0}]}]},
    v.METADATA: {"topics": [{"name": "t"}]},
    v.FIND_COORDINATOR: {"key": "g", "coordinator_keys": ["g"]},
    v.OFFSET_COMMIT: {**GROUP, "topics": [{"name": "t", "partitions": ONE}]},
    v.OFFSET_FETCH: {
        "group_id": "g",
        "topics": [{"name": "t", "partition_indexes": [0]}],
        "groups": [{"group_id": "g"}],
    },
    v.JOIN_GROUP: {**GROUP, "protocol_type": "consumer", "session_timeout": 10_000},
    v.SYNC_GROUP: GROUP,
    v.HEARTBEAT: GROUP,
    v.LEAVE_GROUP: GROUP,
    v.CONSUMER_GROUP_HEARTBEAT: GROUP,
    v.INIT_PRODUCER_ID: {"transactional_id": None},
    v.ADD_PARTITIONS_TO_TXN: {
        "v3_and_below_transactional_id": "x",
        "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
    },
    v.ADD_OFFSETS_TO_TXN: {**TRANSACTION, "group_id": "g"},
    v.END_TXN: TRANSACTION,
    v.TXN_OFFSET_COMMIT: {**TRANSACTION, **GROUP, "topics": [{"name": "t", "partitions": ONE}]},
    v.CREATE_TOPICS: {"topics": [{"name": "n", "num_partitions": 1, "replication_factor": 1}]},
    v.DELETE_TOPICS: {"topic_names": ["t"], "topics": [{"name": "t"}]},
    v.CREATE_PARTITIONS: {"topics": [{"name": "t", "count": 2}]},
    v.DELETE_RECORDS: {"topics": [{"name": "t", "partitions": ONE}]},
}
T1 = TopicPartition("t", 1)
MADE = ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.fixture
def client(world):
    world.create(B1)
    return world.call("k1")


def rule(api: int, *errors: ErrorCode, **fields: object) -> RequestFault:
    return RequestFault(fault="fail-1", api=api, brokers=("b1",), spared=("b2", "c1"), errors=errors, **fields)  # type: ignore[arg-type]


def errors_in(value: object) -> Iterator[ErrorCode]:
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from errors_in(one)
    for name in getattr(value, "__dataclass_fields__", ()):
        found = getattr(value, name)
        if name in ("error_code", "partition_error_code"):
            yield ErrorCode(found)
        yield from errors_in(found)


def versions_of(api: int) -> list[int]:
    low, high = v.VERSIONS[api]
    return [low, 3 if api == v.ADD_PARTITIONS_TO_TXN else high]  # Later ones are those of brokers.


@pytest.mark.parametrize("api", REQUESTS, ids=v.api_name)
def test_each_api_has_the_error_before_and_after(world, client, api: int) -> None:
    for is_applied in (False, True) if api not in v.FORWARDED else (False,):
        for version in versions_of(api):
            world.faults.rules[:] = [rule(api, MADE, is_applied=is_applied, number=version)]
            answer = client.ask(api, version, **REQUESTS[api])
            assert MADE in list(errors_in(answer)), (is_applied, version, answer)
    events = [row.event for row in world.rows if isinstance(row.event, ResponseInjected)]
    assert len(events) == 2 * (1 if api in v.FORWARDED else 2)
    assert {(one.peer, one.api, one.error, one.fault) for one in events} == {
        ("k1", v.api_name(api), MADE.name, "fail-1")
    }


def test_all_apis_with_errors_are_tried() -> None:
    assert set(REQUESTS) | {v.PRODUCE, v.FETCH} == set(ERRORS)


@pytest.mark.parametrize("is_applied", [False, True])
def test_a_batch_is_appended_or_not(world, client, is_applied: bool) -> None:
    world.faults.rules[:] = [rule(v.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER, is_applied=is_applied)]
    client.produce(batch("r0"), acks=1)
    assert client.produced().error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.broker.replicas.partitions["t", 0].log.log_end_offset == int(is_applied)
    client.produce(batch("r0"), acks=1)
    assert client.produced().error is ErrorCode.NONE


def test_with_acks_0_the_connection_ends(world, client) -> None:
    world.faults.rules[:] = [rule(v.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    client.produce(batch("r0"), acks=0)
    assert client.closed


@pytest.mark.parametrize("is_applied", [False, True])
def test_a_fetch_is_answered_at_once_and_the_trace_knows_why(world, client, is_applied: bool) -> None:
    world.faults.rules[:] = [rule(v.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE, is_applied=is_applied)]
    client.fetch(0, max_wait_ms=10_000)
    assert client.fetched().error is ErrorCode.OFFSET_OUT_OF_RANGE
    (event,) = (row.event for row in world.rows if isinstance(row.event, ResponseInjected))
    assert (event.api, event.error, event.fault) == ("Fetch", "OFFSET_OUT_OF_RANGE", "fail-1")


def test_followers_are_left_alone(world, client) -> None:
    world.faults.rules[:] = [rule(v.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert world.follower(B2)(0, max_wait_ms=0).error is not ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.soak
@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize(
    ("api", "version", "topic", "number"),
    [
        (v.LIST_OFFSETS, 7, "name", "partition_index"),
        (v.OFFSET_FOR_LEADER_EPOCH, 4, "topic", "partition"),
        (v.OFFSET_COMMIT, 8, "name", "partition_index"),
    ],
)
def test_other_partitions_are_served(
    world, client, api: int, version: int, topic: str, number: str, is_applied: bool
) -> None:
    world.faults.rules[:] = [rule(api, MADE, is_applied=is_applied, partitions=(T1,))]
    group = GROUP if api == v.OFFSET_COMMIT else {}
    answer = client.ask(api, version, **group, topics=[{topic: "t", "partitions": [{number: 0}, {number: 1}]}])
    found = {int(getattr(part, number)): part.error_code for one in answer.topics for part in one.partitions}
    assert found[1] is MADE
    assert found[0] is not MADE


def test_a_request_without_the_partition_is_not_met(world, client) -> None:
    world.faults.rules[:] = [rule(v.LIST_OFFSETS, MADE, partitions=(T1,))]
    assert list(errors_in(client.ask(v.LIST_OFFSETS, 7, **REQUESTS[v.LIST_OFFSETS]))) == [ErrorCode.NONE]


def test_errors_come_in_order_and_rounds() -> None:
    faults = RequestFaults()
    one, two = ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD
    faults.rules[:] = [rule(v.PRODUCE, one, two, rounds=2), rule(v.PRODUCE, MADE, rounds=None, number=2)]
    met = [faults.meet("b1", "p1", v.PRODUCE, None) for _ in range(6)]
    assert [found and found.error for found in met] == [one, two, one, two, MADE, MADE]
    assert faults.meet("b2", "p1", v.PRODUCE, None) is None
    assert faults.meet("b1", "b2", v.PRODUCE, None) is None


def test_what_has_no_field_for_it_is_never_needed() -> None:
    """Every API has a field for an error in every version that brokers serve."""

    def has_error(fields: Mapping[str, object]) -> bool:
        return any(
            name in ("error_code", "partition_error_code") or (isinstance(kind, dict) and has_error(kind))
            for name, kind in fields.items()
        )

    old = {v.OFFSET_FETCH: 2}
    for api in ERRORS:
        low, high = v.VERSIONS[api]
        for version in range(max(low, old.get(api, 0)), high + 1):
            assert has_error(cold.field_names(cold.response_class(api, version))), (v.api_name(api), version)
