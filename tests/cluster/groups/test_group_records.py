"""The records of the offsets topic: written records are read back, and damaged ones do not stop the coordinator."""

from __future__ import annotations

import pytest
from coordinator_world import SECOND, CoordinatorWorld, subscription
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.groups.state.group import Group, Member, State
from cluster.groups.state.loading import Replay
from cluster.groups.state.offsets import OffsetAndMetadata
from cluster.groups.state.records import (
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
    value_versions,
)
from cluster.protocol.primitives import INT16, INT32
from replica.ids import TopicPartition
from replica.rules import PROFILES, KafkaRelease

GROUP_VERSION = 3
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INT32S, INT64S = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
NAMES = st.builds(TopicPartition, TEXT, INT32S)
OFFSETS = st.builds(OffsetAndMetadata, INT64S, INT32S, TEXT, INT64S, st.just(-1))
OLD_OFFSETS = st.builds(OffsetAndMetadata, INT64S, st.just(-1), TEXT, INT64S, st.integers(0, 2**63 - 1))
MEMBERS = st.builds(
    Member,
    member_id=TEXT,
    instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=INT32S,
    session_timeout_ms=INT32S,
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
    group.protocol_type, group.generation = "consumer", draw(INT32S)
    group.protocol = "range" if members else None
    return group


@given(group_id=TEXT, name=NAMES, value=OFFSETS | OLD_OFFSETS, version=st.sampled_from([3, 4]))
def test_a_committed_offset_is_read_back(
    group_id: str, name: TopicPartition, value: OffsetAndMetadata, version: int
) -> None:
    assert read_key(offset_key(group_id, name)) == OffsetKey(group_id, name)
    has_topic_id = version == 4 and value.expires_ms == -1
    assert read_offset_value(offset_value(value, version)) == (value if has_topic_id else value._replace(topic_id=None))


OFFSET_OF_EACH_VERSION = {
    1: "0001 000000000000000a 0001 6d 000001a213e0d459 000001a213e0d45a",
    3: "0003 000000000000000a 00000007 0001 6d 000001a213e0d459",
    4: "0004 000000000000000a 00000007 02 6d 000001a213e0d459 00",
}
_MEMBER_OF_EACH_VERSION = {
    0: "0001 6d 0001 63 0001 68 00000014 00000001 61 00000001 62",
    1: "0001 6d 0001 63 0001 68 0000000a 00000014 00000001 61 00000001 62",
    2: "0001 6d 0001 63 0001 68 0000000a 00000014 00000001 61 00000001 62",
    3: "0001 6d 0001 69 0001 63 0001 68 0000000a 00000014 00000001 61 00000001 62",
}
_HEAD = "0001 63 00000005 0001 72 0001 6d"
GROUP_OF_EACH_VERSION = {
    version: f"{version:04} {_HEAD} {'0000000000000063' if version >= 2 else ''} 00000001 {member}"
    for version, member in _MEMBER_OF_EACH_VERSION.items()
}


@pytest.mark.parametrize("release", [rules.release for rules in PROFILES.values()], ids=str)
def test_a_committed_offset_is_written_as_its_release_writes_it(release: KafkaRelease) -> None:
    """OffsetCommitValue.json. An expiry that a client has given is in version 1 in every release."""
    versions = value_versions(release)
    expires_ms = 0x1A213E0D45A if versions.each_offset_expires else -1
    value = OffsetAndMetadata(10, 7, "m", 0x1A213E0D459, expires_ms)
    assert offset_value(value, versions.offset) == bytes.fromhex(OFFSET_OF_EACH_VERSION[versions.offset])
    given = value._replace(expires_ms=0x1A213E0D45A)
    assert offset_value(given, versions.offset) == bytes.fromhex(OFFSET_OF_EACH_VERSION[1])


def test_a_committed_offset_is_read_and_written_as_kafka_4_1_has_it() -> None:
    """From the log of a broker of 4.1.0."""
    value = bytes.fromhex("0004000000000000000affffffff01000001a213e0d45900")
    offset = OffsetAndMetadata(10, -1, "", 0x1A213E0D459)
    assert read_offset_value(value) == offset
    assert offset_value(offset, value_versions(KafkaRelease(4, 1)).offset) == value


@pytest.mark.parametrize("version", GROUP_OF_EACH_VERSION)
def test_a_group_of_each_version(version: int) -> None:
    """GroupMetadataValue.json: 1 rebalance timeout, 2 time of the last state, 3 group.instance.id"""
    group = Group("g", State.STABLE, now_ms=99)
    group.add(
        Member(
            member_id="m",
            instance_id="i",
            client_id="c",
            client_host="h",
            rebalance_timeout_ms=10,
            session_timeout_ms=20,
            protocol_type="c",
            protocols=(("r", b"a"),),
            assignment=b"b",
        )
    )
    group.protocol_type, group.protocol, group.generation, group.leader_id = "c", "r", 5, "m"
    written = bytes.fromhex(GROUP_OF_EACH_VERSION[version])
    assert group_value(group, {"m": b"b"}, version) == written
    found = read_group_value("g", written)
    assert (found.since_ms, found.generation) == (99 if version >= 2 else None, 5)
    member = found.members["m"]
    assert member.instance_id == ("i" if version >= 3 else None)
    assert member.rebalance_timeout_ms == (10 if version >= 1 else 20), (
        "that of the session, as JoinGroup 0 has no other"
    )


@given(group=groups())
def test_a_group_is_read_back(group: Group) -> None:
    assignments = {member_id: member.assignment for member_id, member in group.members.items()}
    assert read_key(group_key(group.group_id)) == GroupKey(group.group_id)
    found = read_group_value(group.group_id, group_value(group, assignments, GROUP_VERSION))
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
    whole = group_value(group, {member_id: b"" for member_id in group.members}, GROUP_VERSION)
    for damaged in (value, whole[: len(whole) // 2], whole[:6] + whole[7:], offset_value(offset, 3)[:-1]):
        replay.record(0, group_key("g"), damaged)
        replay.record(1, offset_key("g", TopicPartition("t", 0)), damaged)
        replay.record(2, key, damaged)
    replay.record(3, None, b"")
    assert replay.unreadable > 0
    replay.record(4, offset_key("h", TopicPartition("t", 0)), offset_value(offset, 3))
    assert next(one for one in replay.groups(0) if one.group_id == "h").offsets.committed


def test_keys_and_values_of_a_later_kafka_are_passed_over() -> None:
    """Keys of versions 9 and up, of share groups for example."""
    assert read_key(b"\0\x0b\0\1g") == UnknownKey(11)
    replay = Replay()
    replay.record(0, b"\0\x0b\0\1g", b"\0\0")
    replay.record(1, group_key("g"), b"\0\4" + group_value(Group("g"), {}, GROUP_VERSION)[2:])
    replay.record(2, offset_key("g", TopicPartition("t", 0)), b"\0\5" + bytes(40))
    assert replay.groups(0) == () and replay.unreadable == 3


NUMBERS = st.sampled_from([0, 1, -1, 5, 10_000, 2**31 - 1, -(2**31)])
SESSIONS_MS = st.sampled_from([0, 1, -1, 5, 10_000, -(2**31)])
SINCE = bytes(8)
WORDS = st.sampled_from([None, "", "m", "n", "consumer", "range"])


def text(value: str | None) -> bytes:
    return INT16.pack(-1) if value is None else INT16.pack(len(value)) + value.encode()


@st.composite
def made_up_groups(draw: st.DrawFn) -> bytes:
    """Values that are whole, and need not make sense: an admin client may write anything into the topic."""
    blobs = st.sampled_from([b"", subscription("t"), b"zz"]).map(lambda data: INT32.pack(len(data)) + data)
    members = [
        b"".join([text(draw(WORDS)) for _ in range(4)])
        + INT32.pack(draw(NUMBERS))
        + INT32.pack(draw(SESSIONS_MS))
        + draw(blobs)
        + draw(blobs)
        for _ in range(draw(st.integers(0, 3)))
    ]
    head = [INT16.pack(3), text(draw(WORDS)), INT32.pack(draw(NUMBERS)), text(draw(WORDS)), text(draw(WORDS))]
    return b"".join([*head, SINCE, INT32.pack(len(members)), *members])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(value=made_up_groups(), data=st.data())
def test_no_group_in_the_log_stops_its_coordinator(value: bytes, data: st.DataObject) -> None:
    world = CoordinatorWorld()
    world.log.append((0, group_key("g"), value))
    world.restart()
    for _ in range(data.draw(st.integers(1, 4))):
        member, instance = data.draw(st.sampled_from(["", "m", "n"])), data.draw(st.sampled_from([None, "m", "n"]))
        generation = data.draw(NUMBERS)
        calls = [
            lambda: world.join("c1", version=3),
            lambda: world.join("c1", member, instance),  # noqa: B023
            lambda: world.sync(member, generation, instance=instance),  # noqa: B023
            lambda: world.heartbeat(member, generation, instance),  # noqa: B023
            lambda: world.leave(member, instance),  # noqa: B023
            lambda: world.commit(member, generation, instance, t_0=4),  # noqa: B023
        ]
        data.draw(st.sampled_from(calls))()
        world.at(world.now_us + data.draw(st.sampled_from([0, 1, 60, 604_800])) * SECOND)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(("s", "s", "m", "n", "m"), id="one instance twice"),
        pytest.param((None, None, "m", "m", "m"), id="one member twice"),
        pytest.param((None, None, "m", "n", "x"), id="a leader who is no member"),
    ],
)
def test_a_group_that_cannot_be_is_passed_over_and_told(value: tuple[str | None, ...]) -> None:
    one, two, first, second, leader = value
    members = [
        text(member) + text(instance) + text("c") + text("/h") + INT32.pack(10) * 2 + bytes(8)
        for member, instance in ((first, one), (second, two))
    ]
    head = [INT16.pack(3), text("consumer"), INT32.pack(1), text("range"), text(leader)]
    world = CoordinatorWorld()
    world.log += [
        (0, group_key("g"), b"".join([*head, SINCE, INT32.pack(2), *members])),
        (1, offset_key("g", TopicPartition("t", 0)), offset_value(OffsetAndMetadata(7, -1, "", 0), 3)),
    ]
    world.resign()
    (told,) = world.elect()
    assert "1 group with 1 committed offset (1 unreadable record skipped)" in told
    assert world.show() == ["g is Empty, generation 0", "  t-0 at 7"]


def test_static_members_with_hardly_any_rebalance_timeout_are_waited_for_until_their_sessions_end() -> None:
    """No client request makes the coordinator check the same thing over and over."""
    group = Group("g", State.STABLE)
    for name in ("m", "n"):
        member = Member(
            member_id=name,
            instance_id=name,
            client_id=name,
            client_host="/h",
            rebalance_timeout_ms=1,  # with 0 it would be for ever
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(("range", b""),),
        )
        group.add(member)
    group.protocol, group.generation = "range", 1
    world = CoordinatorWorld()
    world.log.append((0, group_key("g"), group_value(group, {"m": b"", "n": b""}, GROUP_VERSION)))
    world.restart()
    world.leave(instance="m")
    steps = 0
    while world.show()[0].startswith("g is PreparingRebalance"):
        steps += 1
        assert steps < 100, "hardly any time passes"
        world.now_us = world.coordinator.next_deadline_us or 0
        world.coordinator.tick(world.now_us)
    assert world.now_us == 10 * SECOND and world.show() == ["g is Empty, generation 2"]
