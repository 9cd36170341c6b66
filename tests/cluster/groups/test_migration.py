"""Classic members and members of KIP-848 in one group, beyond their transcripts: in any order of steps no partition is
read by two, and in the end each is read by one; and what is written of a group is read again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import pytest
from coordinator_world import SECOND, CoordinatorWorld, subscription
from hypothesis import given
from hypothesis import strategies as st

from cluster.groups.inputs import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    Leaving,
    SyncGroup,
    SyncResult,
)
from cluster.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from cluster.groups.state.consumer_member import ClassicMetadata, ConsumerMember
from cluster.groups.state.consumer_records import MemberRecord, encode, read_consumer_key, read_consumer_record
from cluster.groups.state.group import Group, State
from cluster.protocol.consumer_protocol import (
    assigned_partitions,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from replica.errors import ErrorCode, PeerViolation
from replica.ids import TopicPartition

PARTITIONS = 4
Protocol = Literal["eager", "cooperative", "consumer"]


class Client:
    """A consumer that can begin anew with the other protocol, as after a rolling restart.

    reads: numbers of the partitions that it reads     request: that waits for its answer
    """

    def __init__(self, world: CoordinatorWorld, name: str, protocol: Protocol) -> None:
        self.world, self.name, self.protocol = world, name, protocol
        self.lives = 0
        self.begin_anew(protocol)

    def begin_anew(self, protocol: Protocol) -> None:
        self.protocol, self.lives = protocol, self.lives + 1
        self.member_id = f"{self.name}-life-{self.lives}" if protocol == "consumer" else ""
        self.generation, self.reads = 0 if protocol == "consumer" else -1, frozenset[int]()
        self.request: int | None = None
        self.is_stable = False

    def act(self) -> None:
        """Its next step: an answer that is there is taken, or the next request is sent."""
        if self.protocol == "consumer":
            self._beat()
        elif self.request is not None:
            answer = self.world.answers.get(self.request)
            if isinstance(answer, JoinResult):
                self._joined(answer)
            elif isinstance(answer, SyncResult):
                self._synced(answer)
        elif self.is_stable:
            self._heartbeat()
        else:
            self._join()

    def leave(self) -> None:
        if self.protocol == "consumer":
            self._send_beat(-1)
        elif self.member_id:
            event = LeaveGroup(
                now_us=self.world.now_us, request=self._ask(), group_id="g", members=(Leaving(self.member_id),)
            )
            self.world.step(event)

    def _ask(self) -> int:
        number = len(self.world.requests) + 1
        self.world.requests[number] = self.name
        return number

    # -------------------------------------------------------------------------------------------------------- KIP-848

    def _send_beat(self, epoch: int) -> int:
        topic_id = self.world.topics.cache.image.topics["t"].topic_id
        owned = self.world.topics.with_ids(TopicPartition("t", number) for number in self.reads)
        assert all(one.topic_id == topic_id for one in owned)
        request = self._ask()
        event = ConsumerHeartbeat(
            now_us=self.world.now_us,
            request=request,
            group_id="g",
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            client_id=self.name,
            client_host="/host",
            rebalance_timeout_ms=60_000,
            topics=("t",),
            topic_regex=None,
            assignor=None,
            owned=owned,
        )
        self.world.step(event)
        return request

    def _beat(self) -> None:
        result = self.world.answers[self._send_beat(self.generation)]
        assert isinstance(result, ConsumerHeartbeatResult)
        if result.error is ErrorCode.NONE:
            self.generation = result.member_epoch
            if result.assigned is not None:
                self.reads = frozenset(one.partition for one in result.assigned)
        elif result.error is ErrorCode.UNKNOWN_SERVER_ERROR:
            assert not self.reads, "the group has no generation yet"
        else:
            fenced = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
            assert result.error in fenced
            self.begin_anew("consumer")

    # -------------------------------------------------------------------------------------------------------- classic

    def _join(self) -> None:
        if self.protocol == "eager":
            self.reads = frozenset()
        owned = tuple(f"t-{number}" for number in sorted(self.reads)) if self.protocol == "cooperative" else None
        self.request = self._ask()
        event = JoinGroup(
            now_us=self.world.now_us,
            request=self.request,
            group_id="g",
            member_id=self.member_id,
            instance_id=None,
            client_id=self.name,
            client_host="/host",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(("range", subscription("t", owned=owned)),),
            requires_member_id=True,
            may_skip_assignment=True,
            reason="",
        )
        self.world.step(event)

    def _joined(self, result: JoinResult) -> None:
        self.request = None
        if result.error is ErrorCode.NONE:
            self.member_id, self.generation = result.member_id, result.generation
            if result.leader_id:  # A classic group: whoever leads gives all partitions out.
                self.reads = frozenset()
            self._sync([one.member_id for one in result.members])
        elif result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
        elif result.error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.begin_anew(self.protocol)
        else:
            assert result.error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)

    def _sync(self, members: list[str]) -> None:
        shares = {
            member_id: write_assignment(
                [TopicPartition("t", number) for number in range(PARTITIONS) if number % len(members) == place], 0
            )
            for place, member_id in enumerate(members)
        }
        self.request = self._ask()
        event = SyncGroup(
            now_us=self.world.now_us,
            request=self.request,
            group_id="g",
            generation=self.generation,
            member_id=self.member_id,
            instance_id=None,
            protocol_type="consumer",
            protocol="range",
            assignments=shares,
        )
        self.world.step(event)

    def _synced(self, result: SyncResult) -> None:
        self.request = None
        if result.error is ErrorCode.NONE:
            found = assigned_partitions(result.assignment)
            assert found is not None
            before, self.reads, self.is_stable = self.reads, frozenset(one.partition for one in found), True
            if self.protocol == "cooperative" and before - self.reads:
                self.is_stable = False  # It has given up some, and joins again at once (KIP-429).
        else:
            self._again(result.error)

    def _heartbeat(self) -> None:
        request = self._ask()
        event = Heartbeat(
            now_us=self.world.now_us,
            request=request,
            group_id="g",
            generation=self.generation,
            member_id=self.member_id,
            instance_id=None,
        )
        self.world.step(event)
        result = self.world.answers[request]
        assert isinstance(result, HeartbeatResult)
        if result.error is not ErrorCode.NONE:
            self._again(result.error)

    def _again(self, error: ErrorCode) -> None:
        self.is_stable = False
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.begin_anew(self.protocol)
        elif error is ErrorCode.ILLEGAL_GENERATION:
            self.reads = frozenset()
        else:
            assert error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


def group_of(world: CoordinatorWorld) -> Group | ConsumerGroup | None:
    return world.coordinator.index.find("g")


def hold(world: CoordinatorWorld, clients: list[Client]) -> list[int]:
    """What clients read that the coordinator counts as members: one that it has given up may not know so."""
    group = group_of(world)
    members = () if group is None else group.members
    return sorted(number for client in clients if client.member_id in members for number in client.reads)


STEPS = st.tuples(st.integers(0, 3), st.sampled_from(["act"] * 6 + ["leave", "restart", "die", "wait", "move"]))
PROTOCOLS: st.SearchStrategy[Protocol] = st.sampled_from(["eager", "cooperative", "consumer"])


@given(first=st.lists(PROTOCOLS, min_size=4, max_size=4), steps=st.lists(STEPS, max_size=60), data=st.data())
def test_no_partition_is_read_by_two_and_in_the_end_each_by_one(
    first: list[Protocol], steps: list[tuple[int, str]], data: st.DataObject
) -> None:
    world = CoordinatorWorld()
    world.make_topic("t", PARTITIONS)
    clients = [Client(world, f"c{number}", protocol) for number, protocol in enumerate(first)]
    for number, what in steps:
        client = clients[number]
        match what:
            case "act":
                client.act()
            case "leave":
                client.leave()
                client.begin_anew(client.protocol)
            case "restart":
                client.leave()
                client.begin_anew(data.draw(PROTOCOLS))
            case "die":
                client.begin_anew(client.protocol)
            case "wait":
                world.at(world.now_us + 4 * SECOND)
            case "move":
                world.resign()
                world.elect()
        assert len(set(hold(world, clients))) == len(hold(world, clients))
    for _ in range(60):
        world.at(world.now_us + 2 * SECOND)
        for client in clients:
            client.act()
            assert len(set(hold(world, clients))) == len(hold(world, clients))
    assert hold(world, clients) == list(range(PARTITIONS))
    group = group_of(world)
    assert group is not None
    assert sorted(group.members) == sorted(client.member_id for client in clients)
    if any(client.protocol == "consumer" for client in clients):
        assert isinstance(group, ConsumerGroup)
        assert group.state is ConsumerGroupState.STABLE
        world.resign()
        world.elect()
        again = group_of(world)
        assert isinstance(again, ConsumerGroup)
        assert again.kept() == group.kept(), "the log has the group as it was"
    else:
        assert isinstance(group, Group)
        assert group.state is State.STABLE


def test_a_classic_members_record_is_kafkas() -> None:
    kafkas = bytes.fromhex(
        "0000036931000263032f68020274000000ea60000100120100002710020672616e6765040102030000"
    )  # ConsumerGroupMemberMetadataValue of Kafka 4.1.0
    member = ConsumerMember(
        member_id="m",
        instance_id="i1",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=60_000,
        topics=("t",),
        topic_regex=None,
        classic=ClassicMetadata(10_000, (("range", b"\1\2\3"),)),
    )
    key, value = encode("g", MemberRecord("m", member))
    assert value == kafkas
    version, group_id, member_id = read_consumer_key(key)
    assert (group_id, read_consumer_record(version, member_id, value)) == ("g", MemberRecord("m", member))


@given(data=st.binary(max_size=60), cut=st.integers(0, 41))
def test_a_damaged_record_is_a_violation_and_nothing_else(data: bytes, cut: int) -> None:
    protocols = (("range", b"\1\2\3"), ("sticky", b""))
    member = ConsumerMember(member_id="m", topics=("t",), classic=ClassicMetadata(10_000, protocols))
    _, value = encode("g", MemberRecord("m", member))
    assert value is not None
    for damaged in (value[:cut], value[:cut] + data, data):
        with suppress(PeerViolation):
            read_consumer_record(5, "m", damaged)


SUBSCRIPTIONS = {  # of Kafka 4.1.0: topics t and u, t-0 and t-2, generation 7, rack r1
    0: "000000000002000174000175ffffffff",
    1: "000100000002000174000175ffffffff00000001000174000000020000000000000002",
    2: "000200000002000174000175ffffffff0000000100017400000002000000000000000200000007",
    3: "000300000002000174000175ffffffff000000010001740000000200000000000000020000000700027231",
}


@pytest.mark.parametrize("version", SUBSCRIPTIONS)
def test_a_subscription_is_read_as_kafka_writes_it(version: int) -> None:
    data = bytes.fromhex(SUBSCRIPTIONS[version])
    found = read_subscription(data)
    owned = (TopicPartition("t", 0), TopicPartition("t", 2)) if version else ()
    assert found == (("t", "u"), owned, "r1" if version == 3 else None)
    assert read_version(data) == version
    for size in range(len(data)):
        with pytest.raises(PeerViolation):
            read_subscription(data[:size])


def test_a_later_version_is_read_as_the_highest_one() -> None:
    data = bytes.fromhex("0009" + SUBSCRIPTIONS[3][4:] + "ff")
    assert read_subscription(data).rack_id == "r1"
    assert read_version(data) == 3
    with pytest.raises(PeerViolation):
        read_version(b"\xff\xff")


def test_an_assignment_is_as_kafka_writes_it() -> None:
    kafkas = bytes.fromhex("0001000000020001740000000200000000000000020001750000000100000001ffffffff")
    partitions = (TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1))
    assert write_assignment(partitions, 1) == kafkas
    assert read_assignment(kafkas) == (partitions, 0)
    assert read_assignment(bytes.fromhex("00030000000100017400000001000000000000000109")).user_data_bytes == 1


def test_a_classic_member_has_its_time_from_what_it_was_told_first_until_it_joins() -> None:
    world = CoordinatorWorld()
    client: dict[str, Any] = {
        "protocols": ("cooperative-sticky", "range"),
        "session": 100 * SECOND,
        "rebalance": 20 * SECOND,
    }
    world.join("c1", version=3, owned=(), **client)
    world.at(3 * SECOND)
    world.sync("c1-1", 1, gives=("c1-1:t-0+t-1+t-2",))
    world.beat("m1", 0)
    for second in (3, 10):
        world.at(second * SECOND)
        assert world.heartbeat("c1-1", 1) == ["c1-1 heartbeat <- REBALANCE_IN_PROGRESS"]
    world.at(12 * SECOND)
    world.join("c1", member="c1-1", version=3, owned=("t-0", "t-1", "t-2"), **client)
    world.sync("c1-1", 1)
    world.at(20 * SECOND)
    assert world.heartbeat("c1-1", 1) == ["c1-1 heartbeat <- REBALANCE_IN_PROGRESS"]
    world.beat("m1", 2)
    assert not [line for line in world.at(40 * SECOND - 1) if "rebalance" in line]
    assert [line for line in world.at(40 * SECOND) if "did not join again within its rebalance timeout" in line]


def classic_group(*names: str, **settings: int) -> CoordinatorWorld:
    """With these members, at 6 s, of whom the first has all partitions."""
    world = CoordinatorWorld(**settings)
    for name in names:
        world.join(name, version=3)
    world.at(6 * SECOND)
    for number, name in enumerate(names, start=1):
        world.sync(f"{name}-{number}", 1, gives=(f"{names[0]}-1:t-0+t-1+t-2",) if number == 1 else ())
    return world


def test_after_an_upgrade_a_classic_member_still_has_its_session() -> None:
    world = classic_group("c1")
    world.beat("m1", 0)
    assert not [line for line in world.at(16 * SECOND - 1) if "no heartbeat arrived" in line]
    assert [
        line for line in world.at(16 * SECOND) if "no heartbeat arrived within its session.timeout.ms=10000" in line
    ]


@pytest.mark.parametrize(
    ("limit", "error"), [(1, "GROUP_ID_NOT_FOUND: Cannot upgrade"), (2, "GROUP_MAX_SIZE_REACHED"), (3, "m1 at epoch 2")]
)
def test_a_classic_group_beyond_the_size_of_a_consumer_group_stays_classic(limit: int, error: str) -> None:
    world = classic_group("c1", "c2", consumer_max_size=limit)
    assert world.beat("m1", 0)[-1].startswith(f"m1 beat <- {error}")


def test_a_classic_client_that_makes_a_classic_group_has_one_session() -> None:
    world = CoordinatorWorld()
    world.beat("m1", 0, instance="i")
    world.join("c1", instance="i", session=10 * SECOND)
    (member,) = world.coordinator.index.groups["g"].members
    world.sync(member, 1, instance="i")
    told = world.at(200 * SECOND)
    assert [line for line in told if "no request from it arrived for 10 s" in line]
    assert not [line for line in told if "no heartbeat arrived" in line]


def mixed_group() -> CoordinatorWorld:
    """c1, classic and static, has all partitions at epoch 1; m1 has come since."""
    world = CoordinatorWorld(consumer_session_timeout_ms=200_000)
    world.join("c1", instance="i", session=100 * SECOND)
    world.at(6 * SECOND)
    world.sync("i-1", 1, instance="i", gives=("i-1:t-0+t-1+t-2",))
    world.beat("m1", 0)
    return world


@pytest.mark.parametrize(
    ("kind", "protocol", "error"),
    [
        ("consumer", "range", ErrorCode.REBALANCE_IN_PROGRESS),
        (None, None, ErrorCode.REBALANCE_IN_PROGRESS),
        ("connect", "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "roundrobin", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_classic_member_is_to_join_again_before_it_asks_for_what_it_has(
    kind: str | None, protocol: str | None, error: ErrorCode
) -> None:
    world = mixed_group()
    world.requests[9] = "sync"
    event = SyncGroup(
        now_us=world.now_us,
        request=9,
        group_id="g",
        generation=1,
        member_id=world.member_id("i-1"),
        instance_id="i",
        protocol_type=kind,
        protocol=protocol,
        assignments={},
    )
    world.step(event)
    assert world.answers[9] == SyncResult(error)
    in_time = [line for line in world.at(66 * SECOND) if "did not join again within its rebalance timeout" in line]
    assert bool(in_time) is (error is ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_join_that_leaves_out_what_is_known_changes_nothing() -> None:
    world = mixed_group()
    group = world.coordinator.index.consumer_groups["g"]
    member_id = world.member_id("i-1")
    before = group.members[member_id]
    world.join("c1", member="i-1", rebalance=-1000, session=100 * SECOND, owned=("t-0", "t-1", "t-2"))
    after = group.members[member_id]
    assert (after.instance_id, after.rebalance_timeout_ms) == ("i", before.rebalance_timeout_ms) == ("i", 60_000)
    world.join(
        "c1",
        member="i-1",
        session=100 * SECOND,
        metadata=subscription("t").hex().replace("0000", "0003", 1) + "00000000" + "ffffffff" + "0001" + "72",
    )
    assert group.members[member_id].rack_id == "r"
    world.join("c1", member="i-1", session=100 * SECOND)
    assert group.members[member_id].rack_id == "r"


@pytest.mark.parametrize(
    ("member", "instance", "error"),
    [
        ("", "i", ErrorCode.NONE),
        ("i-1", "i", ErrorCode.NONE),
        ("i-1", None, ErrorCode.NONE),
        ("m1", None, ErrorCode.NONE),
        ("m1", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("", "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("i-1", "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m2", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_leave_a_consumer_group_by_leave_group(member: str, instance: str | None, error: ErrorCode) -> None:
    world = mixed_group()
    world.requests[9] = "leave"
    leaving = (Leaving(world.member_id(member), instance, "tired"), Leaving("nobody"))
    told = world.step(LeaveGroup(now_us=world.now_us, request=9, group_id="g", members=leaving))
    result = world.answers[9]
    assert isinstance(result, LeaveResult)
    assert (result.error, [found for _, found in result.members]) == (
        ErrorCode.NONE,
        [error, ErrorCode.UNKNOWN_MEMBER_ID],
    )
    assert bool([line for line in told if "a LeaveGroup request named it (tired)" in line]) is (error is ErrorCode.NONE)


def test_a_leave_that_is_not_written_names_no_member() -> None:
    world = mixed_group()
    world.hold()
    world.leave("m1")
    world.release("NOT_ENOUGH_REPLICAS")
    assert world.answers[len(world.requests)] == LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize("is_downgrade", [False, True])
def test_a_change_that_is_not_written_brings_nothing_back_where_another_coordinates(is_downgrade: bool) -> None:
    world = classic_group("c1")
    if is_downgrade:
        world.beat("m1", 0)
    world.hold()
    world.beat("m1", -1 if is_downgrade else 0)
    world.resign()
    world.release("NOT_LEADER_OR_FOLLOWER")
    assert world.show() == ["no group g"]


@pytest.mark.parametrize("limit", [1, 2])
def test_a_consumer_group_beyond_the_size_of_a_classic_group_stays_one(limit: int) -> None:
    world = classic_group("c1", "c2")
    world.beat("m1", 0)
    world.set_max_size(limit)
    world.beat("m1", -1)
    assert ("g" in world.coordinator.index.groups) is (limit == 2)


@pytest.mark.parametrize(("policy", "limit"), [("bidirectional", 1), ("upgrade", 1), ("bidirectional", 0)])
def test_a_classic_client_in_place_of_the_last_member_makes_a_classic_group_where_it_may(
    policy: str, limit: int
) -> None:
    world = CoordinatorWorld()
    world.beat("m1", 0, instance="i")
    world.set_max_size(limit)
    world.policy(policy)
    world.join("c1", instance="i")
    assert ("g" in world.coordinator.index.groups) is (policy == "bidirectional" and limit == 1)


def test_a_change_that_is_refused_at_once_takes_no_upgrade_back() -> None:
    world = classic_group("c1")
    world.hold()
    world.beat("m1", 0)
    upgrade = world.take_held()
    world.hold()
    world.beat("m2", 0)
    world.release("NOT_ENOUGH_REPLICAS")
    world.answer_held(upgrade)
    groups = world.coordinator.index.consumer_groups.values()
    assert [list(group.members) for group in groups] == [[world.member_id("c1-1"), "m1"]]


@pytest.mark.parametrize("is_stable", [True, False])
def test_a_group_whose_upgrade_is_not_written_goes_on(is_stable: bool) -> None:
    """One that waited for its assignments begins anew."""
    world = CoordinatorWorld()
    world.join("c1", version=3, session=100 * SECOND)
    world.at(3 * SECOND)
    if is_stable:
        world.sync("c1-1", 1, gives=("c1-1:t-0+t-1+t-2",))
    world.hold()
    world.beat("m1", 0)
    world.release("NOT_ENOUGH_REPLICAS")
    group = world.coordinator.index.groups["g"]
    assert group.state is (State.STABLE if is_stable else State.PREPARING_REBALANCE)
    world.at(80 * SECOND)
    assert group.state is (State.STABLE if is_stable else State.EMPTY)


@pytest.mark.parametrize("has", ["members", "empty", "none"])
def test_who_has_a_session_timeout_out_of_bounds_changes_nothing(has: str) -> None:
    world = CoordinatorWorld()
    if has != "none":
        world.beat("m1", 0)
    if has == "empty":
        world.beat("m1", -1)
    before = world.show()
    assert world.join("c1", version=3, session=SECOND) == ["c1 join <- INVALID_SESSION_TIMEOUT"]
    assert world.show() == before
