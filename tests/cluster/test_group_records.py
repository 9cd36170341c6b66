"""The records of the offsets topic: what is written is read back, and what a disk has damaged stops nobody."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster.groups.group import Group, State
from cluster.groups.loading import Replay
from cluster.groups.member import Member
from cluster.groups.offsets import OffsetAndMetadata
from cluster.groups.records import (
    GroupKey,
    OffsetKey,
    UnknownKey,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group_value,
    read_key,
    read_offset_value,
)
from replica.ids import TopicPartition

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
NAMES = st.builds(TopicPartition, TEXT, INT32)
OFFSETS = st.builds(OffsetAndMetadata, INT64, INT32, TEXT, INT64, st.just(-1))
OLD_OFFSETS = st.builds(OffsetAndMetadata, INT64, st.just(-1), TEXT, INT64, st.integers(0, 2**63 - 1))
MEMBERS = st.builds(
    Member,
    member_id=TEXT,
    instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=INT32,
    session_timeout_ms=INT32,
    protocol_type=st.just("consumer"),
    protocols=st.binary(max_size=40).map(lambda metadata: (("range", metadata), ("sticky", b"other"))),
    assignment=st.binary(max_size=40),
)


@st.composite
def groups(draw: st.DrawFn) -> Group:
    members = draw(st.lists(MEMBERS, max_size=3, unique_by=(lambda one: one.member_id, lambda one: one.instance_id)))
    group = Group(draw(TEXT), State.STABLE if members else State.EMPTY, now_ms=draw(st.none() | st.integers(0, 2**62)))
    for member in members:
        group.add(member)
    group.protocol_type, group.generation = "consumer", draw(INT32)
    group.protocol = "range" if members else None
    return group


@given(group_id=TEXT, name=NAMES, value=OFFSETS | OLD_OFFSETS)
def test_a_committed_offset_is_read_back(group_id: str, name: TopicPartition, value: OffsetAndMetadata) -> None:
    assert read_key(offset_key(group_id, name)) == OffsetKey(group_id, name)
    assert read_offset_value(offset_value(value)) == value


@given(group=groups())
def test_a_group_is_read_back(group: Group) -> None:
    assignments = {member_id: member.assignment for member_id, member in group.members.items()}
    assert read_key(group_key(group.group_id)) == GroupKey(group.group_id)
    found = read_group_value(group.group_id, group_value(group, assignments))
    for name in ("group_id", "state", "since_ms", "protocol_type", "protocol", "generation", "leader_id"):
        assert getattr(found, name) == getattr(group, name), name
    assert list(found.members) == list(group.members) and found.static_members == group.static_members
    for one, other in zip(found.members.values(), group.members.values(), strict=True):
        assert (one.assignment, one.metadata("range")) == (other.assignment, other.metadata("range"))
        assert (one.client_id, one.client_host, one.instance_id) == (
            other.client_id,
            other.client_host,
            other.instance_id,
        )
        assert one.session_timeout_ms == other.session_timeout_ms


@given(key=st.binary(max_size=30), value=st.none() | st.binary(max_size=80), offset=OFFSETS, group=groups())
def test_what_cannot_be_read_is_passed_over(
    key: bytes, value: bytes | None, offset: OffsetAndMetadata, group: Group
) -> None:
    replay = Replay()
    whole = group_value(group, {member_id: b"" for member_id in group.members})
    for damaged in (value, whole[: len(whole) // 2], whole[:6] + whole[7:], offset_value(offset)[:-1]):
        replay.record(0, group_key("g"), damaged)
        replay.record(1, offset_key("g", TopicPartition("t", 0)), damaged)
        replay.record(2, key, damaged)
    replay.record(3, None, b"")
    assert replay.unreadable > 0
    replay.record(4, offset_key("h", TopicPartition("t", 0)), offset_value(offset))
    assert next(one for one in replay.groups(0) if one.group_id == "h").offsets.committed


def test_keys_of_a_later_kafka_are_passed_over() -> None:
    """Versions 3 and up: groups of the new protocol (KIP-848)."""
    assert read_key(b"\0\3\0\1g") == UnknownKey(3)
    replay = Replay()
    replay.record(0, b"\0\3\0\1g", b"\0\0")
    assert replay.groups(0) == () and replay.unreadable == 0
