"""What the coordinator reads of an assignment, which a client has written, and what the trace says of it."""

from __future__ import annotations

import struct
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.clocks import WallClock
from cluster.groups.desk import GroupDesk, GroupSettings
from cluster.groups.rebalance import ASSIGNMENT_BYTES_MAX, Rebalances
from cluster.groups.state.group import Group, Member
from cluster.protocol.consumer_protocol import assigned_partitions
from replica.ids import TopicPartition
from replica.trace.events import Emit, GroupMemberAssigned, TraceEvent


def assignment(version: int = 0, **topics: tuple[int, ...]) -> bytes:
    """As consumers write it."""
    data = struct.pack(">hi", version, len(topics))
    for topic, numbers in topics.items():
        data += (
            struct.pack(">h", len(topic)) + topic.encode() + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        )
    return data + struct.pack(">i", -1)


@given(
    topics=st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.lists(st.integers(0, 2**31 - 1), max_size=5)
    )
)
def test_an_assignment_is_read_as_it_was_written(topics: dict[str, list[int]]) -> None:
    data = assignment(version=3, **{topic: tuple(numbers) for topic, numbers in topics.items()})
    written = [TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers]
    assert assigned_partitions(data) == written


@given(data=st.binary(max_size=60))
def test_any_bytes_are_an_assignment_or_none(data: bytes) -> None:
    found = assigned_partitions(data)
    assert found is None or len(found) * 4 <= len(data)


def events_of(protocol_type: str, data: bytes) -> list[TraceEvent]:
    group = Group("g")
    group.protocol_type, group.generation = protocol_type, 3
    group.members["m-1"] = Member(
        member_id="m-1", instance_id=None, client_id="c1", client_host="h", rebalance_timeout_ms=1,
        session_timeout_ms=1, protocol_type=protocol_type, protocols=(), assignment=data,
    )  # fmt: skip
    desk = GroupDesk(node="b1", settings=GroupSettings(), clock=WallClock(), new_uuid=uuid4, partition_of=len)
    Rebalances(desk).tell_assigned(group)
    told = [action.event for action in desk.take() if isinstance(action, Emit)]
    return [event for event in told if isinstance(event, GroupMemberAssigned)]


def test_the_trace_says_which_partitions_a_member_is_to_read() -> None:
    (event,) = events_of("consumer", assignment(t=(0, 2), u=(1,)))
    assert isinstance(event, GroupMemberAssigned)
    assert (event.member, event.client_id, event.generation, event.partitions) == (
        "m-1",
        "c1",
        3,
        ("t-0", "t-2", "u-1"),
    )
    assert event.sentence() == "member m-1 of group g was assigned t-0, t-2, u-1 in generation 3"


def test_a_sentence_lists_a_few_partitions_and_counts_the_others() -> None:
    (event,) = events_of("consumer", assignment(t=tuple(range(10))))
    assert isinstance(event, GroupMemberAssigned)
    assert event.sentence().endswith("t-6, t-7 and 2 more in generation 3") and len(event.partitions) == 10


@pytest.mark.parametrize(
    ("protocol_type", "data"),
    [
        ("connect", assignment(t=(0,))),
        ("consumer", b"\0\0\0"),
        ("consumer", assignment(t=tuple(range(ASSIGNMENT_BYTES_MAX // 4)))),
    ],
    ids=["of Kafka Connect", "not an assignment", "longer than the trace keeps"],
)
def test_the_trace_does_not_say_what_cannot_be_read(protocol_type: str, data: bytes) -> None:
    assert events_of(protocol_type, data) == []
