"""KIP-848's groups, beyond their transcript: members in any order of steps, both assignors, and what the log keeps."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from coordinator_world import SECOND, CoordinatorWorld
from hypothesis import given
from hypothesis import strategies as st

from cluster.config import BrokerConfig
from cluster.groups.inputs import ConsumerHeartbeatResult
from cluster.groups.service import group_settings
from cluster.groups.state.assignors import (
    Assign,
    AssignableMember,
    GroupSpecification,
    Targets,
    TopicIdPartition,
    assign_ranges,
    assign_uniformly,
)
from cluster.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from cluster.groups.state.consumer_member import ConsumerMember, MemberState, reconciled
from cluster.groups.state.consumer_records import CONSUMER_KEYS, encode, read_consumer_key, read_consumer_record
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.rules import PROFILES

TOPICS = tuple(UUID(int=number) for number in (1, 2, 3))


class Client:
    """A consumer of the group: it reads what it was given, and gives up what it is to give up."""

    def __init__(self, world: CoordinatorWorld, name: str) -> None:
        self.world, self.name, self.lives = world, name, 0
        self.epoch, self.reads, self.is_in = 0, frozenset[TopicIdPartition](), False

    @property
    def member_id(self) -> str:
        return f"{self.name}-life-{self.lives}"

    def beat(self) -> None:
        owned = tuple(f"t-{one.partition}" for one in sorted(self.reads))
        self.world.beat(self.member_id, self.epoch, owned=owned)
        result = self.world.answers[len(self.world.requests)]
        assert isinstance(result, ConsumerHeartbeatResult)
        if result.error is ErrorCode.NONE:
            self.epoch, self.is_in = result.member_epoch, True
            if result.assigned is not None:
                self.reads = frozenset(result.assigned)
        else:
            assert result.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
            self.begin_anew()

    def begin_anew(self) -> None:
        self.epoch, self.reads, self.is_in = 0, frozenset(), False
        self.lives += 1

    def leave(self) -> None:
        if self.is_in:
            self.world.beat(self.member_id, -1)
        self.begin_anew()


def group_of(world: CoordinatorWorld) -> ConsumerGroup:
    return world.coordinator.index.consumer_groups["g"]


def hold(clients: list[Client]) -> list[TopicIdPartition]:
    return sorted(one for client in clients for one in client.reads)


def perform(world: CoordinatorWorld, client: Client, what: str, partitions: int) -> int:
    """One step. partitions: of the topic, before and (returned) after"""
    match what:
        case "beat":
            client.beat()
        case "leave":
            client.leave()
        case "vanish":
            client.begin_anew()
        case "grow" if partitions < 9:
            partitions += 1
            world.make_topic("t", partitions)
        case "move":
            world.resign()
            world.elect()
        case "wait":
            world.at(world.now_us + 4 * SECOND)
    return partitions


@given(steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["beat", "beat", "beat", "leave", "grow", "move"]))))
def test_no_partition_is_read_by_two_and_in_the_end_each_by_one(steps: list[tuple[int, str]]) -> None:
    world = CoordinatorWorld()
    clients = [Client(world, f"m{number}") for number in range(4)]
    partitions = 3
    for number, what in steps:
        partitions = perform(world, clients[number], what, partitions)
        assert len(set(hold(clients))) == len(hold(clients))
    for _ in range(8):
        for client in clients:
            client.beat()
            assert len(set(hold(clients))) == len(hold(clients))
    assert [one.partition for one in hold(clients)] == list(range(partitions))
    assert group_of(world).state is ConsumerGroupState.STABLE
    sizes = [len(client.reads) for client in clients]
    assert max(sizes) - min(sizes) <= 1
    live = group_of(world)
    world.resign()
    world.elect()
    assert group_of(world).kept() == live.kept(), "the log has the group as it was"


class Epochs:
    """What the coordinator says of the group, step by step: one owner, and epochs that never fall."""

    def __init__(self, world: CoordinatorWorld) -> None:
        self.world = world
        self.group, self.target = 0, 0
        self.members: dict[str, int] = {}

    def look(self) -> None:
        group = self.world.coordinator.index.consumer_groups.get("g")
        if group is None:
            return
        owned = [one for member in group.members.values() for one in (*member.assigned, *member.pending_revocation)]
        assert len(set(owned)) == len(owned), "a partition has two owners"
        assert group.epoch >= self.group
        assert self.target <= group.target_epoch <= group.epoch
        for name, member in group.members.items():
            assert self.members.get(name, 0) <= member.epoch <= group.epoch
        self.group, self.target = group.epoch, group.target_epoch
        self.members |= {name: member.epoch for name, member in group.members.items()}


@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from(["beat", "beat", "beat", "leave", "vanish", "grow", "move", "wait"])
        )
    )
)
def test_a_partition_has_one_owner_and_no_epoch_falls(steps: list[tuple[int, str]]) -> None:
    """Members that fall silent are taken out: after their session, or where they do not give up partitions in time."""
    world = CoordinatorWorld(consumer_session_timeout_ms=10_000)
    clients = [Client(world, f"m{number}") for number in range(4)]
    epochs, partitions = Epochs(world), 3
    for number, what in steps:
        partitions = perform(world, clients[number], what, partitions)
        epochs.look()
    for _ in range(20):
        world.at(world.now_us + 2 * SECOND)
        for client in clients:
            client.beat()
            epochs.look()
    group = group_of(world)
    assert group.state is ConsumerGroupState.STABLE
    assert sorted(group.members) == sorted(client.member_id for client in clients)
    owned = [one.partition for member in group.members.values() for one in member.assigned]
    assert sorted(owned) == list(range(partitions))
    assert [one.partition for one in hold(clients)] == list(range(partitions))


@st.composite
def specifications(draw: st.DrawFn) -> GroupSpecification:
    """With targets from an earlier assignment, as after a change of members, topics or subscriptions."""
    counts = {topic: draw(st.integers(1, 7)) for topic in TOPICS}
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))
    every = [TopicIdPartition(topic, number) for topic in TOPICS for number in range(counts[topic])]
    owners = {one: draw(st.sampled_from([*names, None])) for one in every}
    same = draw(st.booleans())
    some_topics = st.lists(st.sampled_from(TOPICS), min_size=1, unique=True).map(tuple)
    shared = draw(some_topics)
    members = {
        name: AssignableMember(
            instance_id=draw(st.none() | st.just(f"i-{name}")),
            topics=shared if same else draw(some_topics),
            target=tuple(one for one in every if owners[one] == name),
        )
        for name in names
    }
    return GroupSpecification(members=members, partition_counts=counts)


def check_each_has_one_reader(group: GroupSpecification, targets: Targets) -> None:
    assert list(targets) == list(group.members) or set(targets) == set(group.members)
    wanted = {topic for member in group.members.values() for topic in member.topics}
    given = sorted(one for partitions in targets.values() for one in partitions)
    assert given == sorted(one for topic in wanted for one in group.partitions_of(topic))
    for name, partitions in targets.items():
        assert all(one.topic_id in group.members[name].topics for one in partitions)
        assert list(partitions) == sorted(partitions)


@pytest.mark.parametrize("assign", [assign_uniformly, assign_ranges])
@given(group=specifications())
def test_an_assignor_gives_each_partition_to_one_that_reads_it(assign: Assign, group: GroupSpecification) -> None:
    check_each_has_one_reader(group, assign(group))


@given(group=specifications())
def test_uniform_is_even_and_leaves_what_it_can(group: GroupSpecification) -> None:
    targets = assign_uniformly(group)
    for name, partitions in targets.items():
        for one in partitions:
            for other, member in group.members.items():
                if one.topic_id in member.topics:
                    assert len(partitions) <= len(targets[other]) + 1, f"{other} could read what {name} has"
    if group.is_homogeneous:
        again = assign_uniformly(
            GroupSpecification(
                members={
                    name: AssignableMember(instance_id=None, topics=member.topics, target=targets[name])
                    for name, member in group.members.items()
                },
                partition_counts=group.partition_counts,
            )
        )
        assert again == targets, "nothing moves where nothing has changed"


def test_range_gives_neighbours_and_puts_static_members_first() -> None:
    member = AssignableMember(instance_id=None, topics=TOPICS[:2], target=())
    static = AssignableMember(instance_id="i", topics=TOPICS[:2], target=())
    group = GroupSpecification(members={"a": member, "z": static}, partition_counts=dict.fromkeys(TOPICS[:2], 3))
    targets = assign_ranges(group)
    assert [(one.topic_id.int, one.partition) for one in targets["z"]] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert [(one.topic_id.int, one.partition) for one in targets["a"]] == [(1, 2), (2, 2)]


@given(version=st.sampled_from(CONSUMER_KEYS), value=st.binary(max_size=60), rest=st.binary(max_size=60))
def test_any_bytes_are_a_record_or_a_violation(version: int, value: bytes, rest: bytes) -> None:
    for damaged in (value, b"\0\0" + value, b"\0\0\2" + TOPICS[0].bytes + rest):
        try:
            record = read_consumer_record(version, "m", damaged)
        except PeerViolation:
            continue
        assert encode("g", record)[1] is not None


def test_every_record_reads_as_it_was_written() -> None:
    world = CoordinatorWorld()
    world.beat("m1", 0, instance="i", assignor="range")
    world.beat("m2", 0, pattern="t.*")
    world.at(0)
    world.beat("m1", 1, instance="i")
    assert {read_consumer_key(key)[0] for _, key, _ in world.log} == {3, 5, 6, 7, 8, 16}
    for _, key, value in world.log:
        version, group_id, member_id = read_consumer_key(key)
        record = read_consumer_record(version, member_id, value)
        assert encode(group_id, record) == (key, value)


def test_what_is_in_the_log_stays_though_it_was_not_replicated_in_time() -> None:
    world = CoordinatorWorld(consumer_session_timeout_ms=10_000)
    world.beat("m1", 0)
    world.hold()
    world.beat("m2", 0)
    world.release("REQUEST_TIMED_OUT")
    assert list(group_of(world).members) == ["m1", "m2"]
    live = group_of(world)
    world.resign()
    world.elect()
    assert group_of(world).kept() == live.kept()


def test_a_session_that_ends_when_nothing_can_be_written_ends_half_a_second_later() -> None:
    world = CoordinatorWorld(consumer_session_timeout_ms=10_000)
    world.beat("m1", 0)
    world.hold()
    world.at(10_000_000)
    world.release("NOT_ENOUGH_REPLICAS")
    assert list(group_of(world).members) == ["m1"]
    world.at(10_500_000)
    assert list(group_of(world).members) == []


def answered(world: CoordinatorWorld) -> ConsumerHeartbeatResult:
    """The last heartbeat."""
    result = world.answers[len(world.requests)]
    assert isinstance(result, ConsumerHeartbeatResult)
    return result


@pytest.mark.parametrize("moves", [False, True])
def test_who_does_not_give_up_in_time_is_out_and_nobody_else(moves: bool) -> None:
    """A new coordinator gives it as much time again (onLoaded)."""
    world = CoordinatorWorld()
    for name, epoch in (("m1", 0), ("m2", 0), ("m1", 1), ("m2", 2)):
        world.beat(name, epoch)
    end = 60
    if moves:
        world.at(20 * SECOND)
        world.resign()
        world.elect()
        end = 80
    for second in (30, 59, end - 1):
        world.at(second * SECOND)
        world.beat("m1", 1)
        world.beat("m2", 2)
    world.at(end * SECOND - 1)
    assert list(group_of(world).members) == ["m1", "m2"]
    world.at(end * SECOND)
    assert list(group_of(world).members) == ["m2"]


@pytest.mark.parametrize("again", [False, True])
def test_who_gives_up_in_time_stays(again: bool) -> None:
    """again: it is to give up more by then, which it does not, and its time begins anew."""
    world = CoordinatorWorld(consumer_session_timeout_ms=200_000)
    for name, epoch in (("m1", 0), ("m2", 0), ("m1", 1)):
        world.beat(name, epoch)
    world.at(40 * SECOND)
    if again:
        world.beat("m3", 0)
    world.beat("m1", 1, owned=("t-0", "t-1"))
    world.at(100 * SECOND - 1)
    assert "m1" in group_of(world).members
    world.at(100 * SECOND)
    assert ("m1" in group_of(world).members) is not again


@pytest.mark.parametrize(("raises", "left"), [(True, ["m1"]), (False, [])])
def test_the_time_for_a_step_that_was_not_written_is_that_of_its_epoch(raises: bool, left: list[str]) -> None:
    """Before 4.2 it is another epoch, which no member has."""
    world = CoordinatorWorld(revoking_raises_epoch=raises)
    for name, epoch in (("m1", 0), ("m2", 0), ("m1", 1), ("m3", 0)):
        world.beat(name, epoch)
    world.hold()
    world.beat("m1", 1, owned=("t-0", "t-1"))
    world.beat("m4", 0)
    world.release("NOT_ENOUGH_REPLICAS")
    assert list(group_of(world).members) == ["m1", "m2", "m3"]
    for second in (30, 60):
        world.at(second * SECOND)
        world.beat("m1", 1)
    world.at(70 * SECOND)
    assert list(group_of(world).members) == left, "m4 is not missed either"


@pytest.mark.parametrize(("raises", "epoch"), [(True, 2), (False, 1)])
def test_giving_up_raises_the_epoch_before_4_2(raises: bool, epoch: int) -> None:
    """CurrentAssignmentBuilder.build. m1 is to give up more by the time it has given up what it should."""
    world = CoordinatorWorld(revoking_raises_epoch=raises)
    for name, known in (("m1", 0), ("m2", 0), ("m1", 1), ("m3", 0)):
        world.beat(name, known)
    world.beat("m1", 1, owned=("t-0", "t-1"))
    assert group_of(world).members["m1"].epoch == epoch


@pytest.mark.parametrize(("pending", "state"), [(True, MemberState.STABLE), (False, MemberState.UNRELEASED_PARTITIONS)])
def test_what_a_member_gives_up_itself_is_free_for_it(pending: bool, state: MemberState) -> None:
    """Before 4.1.2 it waited for itself."""
    one = TopicIdPartition(TOPICS[0], 0)
    member = ConsumerMember(
        member_id="m1", epoch=1, state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=(one,) if pending else ()
    )
    after = reconciled(member, 3, (one,), lambda _: False, (), revoking_raises_epoch=False)
    assert (after.state, after.assigned) == (state, (one,) if pending else ())


@pytest.mark.parametrize("then", ["resigned", "back"])
def test_who_is_given_up_is_not_given_up_again(then: str) -> None:
    world = CoordinatorWorld(consumer_session_timeout_ms=10_000)
    world.beat("m1", 0)
    world.hold()
    world.at(10 * SECOND)
    if then == "back":
        world.beat("m1", 0)
        world.release()
    else:
        world.resign()
        world.release("NOT_LEADER_OR_FOLLOWER")
    assert world.at(11 * SECOND) == []


def test_a_group_is_assigned_by_what_most_of_its_members_ask_for() -> None:
    world = CoordinatorWorld()
    world.make_topic("u", 3)
    world.beat("m1", 0, topics=("t", "u"), assignor="range")
    world.beat("m2", 0, topics=("t", "u"), assignor="range")
    assert sorted(len(target) for target in group_of(world).targets.values()) == [2, 4]
    world.beat("m3", 0, topics=("t", "u"), assignor="uniform")
    world.beat("m4", 0, topics=("t", "u"), assignor="uniform")
    world.beat("m5", 0, topics=("t", "u"), assignor="uniform")
    assert sorted(len(target) for target in group_of(world).targets.values()) == [1, 1, 1, 1, 2]


def test_who_asks_for_no_assignor_has_no_vote() -> None:
    world = CoordinatorWorld()
    world.make_topic("u", 3)
    for name, assignor in (("m1", "range"), ("m2", None), ("m3", None)):
        world.beat(name, 0, topics=("t", "u"), assignor=assignor)
    assert group_of(world).preferred_assignor() == "range"


def test_a_member_waits_for_what_another_one_has() -> None:
    group = ConsumerGroup("g")
    both = TopicIdPartition(TOPICS[0], 0), TopicIdPartition(TOPICS[0], 1)
    member = ConsumerMember(member_id="a", assigned=both[:1])
    group.targets["a"] = both
    for other, waits in ((both[1:], True), ((), False)):
        group.members = {"a": member, "b": ConsumerMember(member_id="b", assigned=other)}
        assert group.waits_for_others(member) is waits


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        ({"rebalance": 1, "topics": ("t",), "owned": ()}, True),
        ({"rebalance": 1, "pattern": "", "owned": ()}, True),
        ({"topics": ("t",), "owned": ()}, False),
        ({"rebalance": 1, "owned": ()}, False),
        ({"rebalance": 1, "topics": ("t",)}, False),
    ],
    ids=["topics", "pattern", "no timeout", "no subscription", "no partitions"],
)
def test_a_member_that_says_all_is_told_what_it_reads(said: dict[str, Any], is_told: bool) -> None:
    world = CoordinatorWorld()
    world.beat("m1", 0)
    assert answered(world).assigned is not None
    world.beat("m1", 1, **said)
    assert (answered(world).assigned is not None) is is_told


def test_what_a_heartbeat_leaves_out_stays_as_it_was() -> None:
    world = CoordinatorWorld()
    world.beat("m1", 0, instance="i", rack="r1", assignor="range", topics=("t", "u"))
    before = group_of(world).members["m1"]
    assert (before.instance_id, before.rack_id, before.assignor) == ("i", "r1", "range")
    written = len(world.log)
    world.beat("m1", 1)
    assert (group_of(world).members["m1"], len(world.log)) == (before, written)
    world.beat("m1", 1, instance="i", rack="r2", assignor="uniform")
    after = group_of(world).members["m1"]
    assert (after.rack_id, after.assignor, after.topics) == ("r2", "uniform", ("t", "u"))


def test_a_static_member_leaves_for_good_or_for_a_while() -> None:
    world = CoordinatorWorld()
    for name, epoch, instance in (("m1", 0, "i"), ("m2", 0, "j"), ("m1", 1, "i")):
        world.beat(name, epoch, instance=instance)
    world.beat("m1", 1, instance="i", owned=("t-0", "t-1"))
    world.beat("m1", -2, instance="i")
    assert list(group_of(world).members) == ["m1", "m2"]
    world.beat("m1", 1, instance="i", owned=())
    assert answered(world).error is ErrorCode.FENCED_MEMBER_EPOCH, "it has left, whichever epoch it had before"
    world.beat("m1", -1, instance="i")
    assert list(group_of(world).members) == ["m2"]


@pytest.mark.parametrize("one_coordinator", [False, True])
@pytest.mark.parametrize(("topics", "pattern"), [(("t",), None), ((), "t.*"), ((), "")])
def test_a_member_joins_without_a_topic_since_4_0(
    one_coordinator: bool, topics: tuple[str, ...], pattern: str | None
) -> None:
    world = CoordinatorWorld(one_coordinator=one_coordinator)
    world.beat("m1", 0, topics=topics, pattern=pattern)
    may_join = one_coordinator or bool(topics or pattern)
    assert answered(world).error is (ErrorCode.NONE if may_join else ErrorCode.INVALID_REQUEST)


def test_a_member_may_become_a_static_one_whatever_its_epoch() -> None:
    """source: getOrMaybeSubscribeStaticConsumerGroupMember, "New static member" """
    world = CoordinatorWorld()
    for name, epoch in (("m1", 0), ("m2", 0), ("m1", 1)):
        world.beat(name, epoch)
    world.beat("m1", 1, owned=("t-0", "t-1"))
    world.beat("m1", 0, instance="i")
    assert (answered(world).error, answered(world).member_epoch) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize("error", ["NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER"])
def test_what_is_not_written_is_answered_with_an_error_alone(error: str) -> None:
    world = CoordinatorWorld()
    world.hold()
    world.beat("m1", 0)
    world.release(error)
    assert answered(world) == ConsumerHeartbeatResult(answered(world).error)
    world.resign()
    world.beat("m1", 0)
    assert answered(world) == ConsumerHeartbeatResult(ErrorCode.NOT_COORDINATOR)


def test_a_group_has_its_own_heartbeat_interval_and_session_timeout() -> None:
    world = CoordinatorWorld()
    config = world.topics.cache.image.group_config
    member = Client(world, "m1")
    member.beat()

    def interval_ms() -> int:
        result = world.answers[len(world.requests)]
        assert isinstance(result, ConsumerHeartbeatResult)
        return result.heartbeat_interval_ms

    assert interval_ms() == 5000
    config["g"] = {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "60000"}
    config["other"] = {"consumer.heartbeat.interval.ms": "9000"}
    world.at(1 * SECOND)
    member.beat()
    assert interval_ms() == 7000
    assert not [line for line in world.at(60 * SECOND) if "own" in line], (
        "its session lasts 60 s from its last heartbeat on"
    )
    assert [line for line in world.at(62 * SECOND) if "the group's own consumer.session.timeout.ms=60000" in line]


def test_a_full_group_takes_no_new_member_and_keeps_whom_it_has() -> None:
    world = CoordinatorWorld(consumer_max_size=1)
    member = Client(world, "m1")
    member.beat()
    world.beat("m2", 0)
    refused = world.answers[len(world.requests)]
    assert isinstance(refused, ConsumerHeartbeatResult)
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    member.beat()
    assert list(group_of(world).members) == [member.member_id]


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        ("m1", 1, None),
        ("m1", 0, ErrorCode.STALE_MEMBER_EPOCH),
        ("m2", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m1", -1, ErrorCode.STALE_MEMBER_EPOCH),
        (None, 0, ErrorCode.UNKNOWN_SERVER_ERROR),
        (None, -1, None),
    ],
    ids=["present", "earlier", "stranger", "without", "nobody", "unnamed"],
)
def test_offsets_are_told_to_members_of_the_present_epoch(
    member_id: str | None, epoch: int, error: ErrorCode | None
) -> None:
    world = CoordinatorWorld()
    world.beat("m1", 0)
    found: ErrorCode | None = None
    try:
        world.coordinator.offsets("g", None, stable=True, member_id=member_id, member_epoch=epoch)
    except KafkaError as refused:
        found = refused.code
    assert found is error


@pytest.mark.parametrize("older_epochs_count", [True, False])
@pytest.mark.parametrize("is_elected_anew", [True, False])
def test_an_older_epoch_commits_what_was_had_since_then(older_epochs_count: bool, is_elected_anew: bool) -> None:
    """Source: KIP-1251, ConsumerGroup.createAssignmentEpochValidator (4.3)"""
    world = CoordinatorWorld(older_epochs_count=older_epochs_count)
    world.beat("m1", 0)
    world.beat("m2", 0)
    world.beat("m1", 1, owned=("t-0", "t-1", "t-2"))
    member = group_of(world).members["m1"]
    (kept, other), (given,) = member.assigned, member.pending_revocation
    assert member.assignment_epoch(given) == 1, "it still reads it"
    world.beat("m1", 1, owned=(f"t-{kept.partition}", f"t-{other.partition}"))
    world.beat("m2", 2, owned=())
    if is_elected_anew:
        world.restart()
        world.elect()
    accepted = {
        (member, epoch, partition): not any("STALE" in line for line in world.commit(member, epoch, **{name: 5}))  # type: ignore[arg-type]
        for member, epoch, partition in (
            ("m1", 1, kept),
            ("m1", 2, kept),
            ("m1", 1, given),
            ("m2", 1, given),
            ("m2", 3, given),
        )
        for name in [f"t_{partition.partition}"]
    }
    assert accepted == {
        ("m1", 1, kept): older_epochs_count,
        ("m1", 2, kept): True,
        ("m1", 1, given): False,
        ("m2", 1, given): False,
        ("m2", 3, given): False,
    }


@pytest.mark.parametrize("is_elected_anew", [True, False])
def test_targets_are_computed_once_an_interval(is_elected_anew: bool) -> None:
    """Source: KIP-1263, GroupMetadataManager.canComputeNextTargetAssignment (4.3)"""
    world = CoordinatorWorld(consumer_assignment_interval_ms=1000)
    world.at(10 * SECOND)
    world.beat("m1", 0)
    assert group_of(world).target_epoch == 1, "the first one is due at once"
    world.at(10 * SECOND + 999_000)
    world.beat("m2", 0)
    assert (group_of(world).epoch, group_of(world).target_epoch) == (2, 1)
    assert group_of(world).members["m2"].epoch == 1
    if is_elected_anew:
        world.restart()
        world.elect()
    world.beat("m1", 1)
    assert group_of(world).target_epoch == 1
    world.at(11 * SECOND)
    assert group_of(world).target_epoch == 1, "no timer: a heartbeat computes it"
    world.beat("m1", 1)
    assert group_of(world).target_epoch == 2


@pytest.mark.parametrize(("era", "epoch"), [("kafka-4.2", 1), ("kafka-4.3", 2)])
def test_the_first_member_of_a_group_gets_the_epoch_of_its_release(era: str, epoch: int) -> None:
    """Source: ModernGroup's constructor (4.2.1, 4.3.1)"""
    world = CoordinatorWorld(first_epoch=group_settings(BrokerConfig(), PROFILES[era]).first_epoch)
    world.beat("m1", 0)
    assert (group_of(world).epoch, group_of(world).target_epoch, group_of(world).members["m1"].epoch) == (epoch,) * 3


@pytest.mark.parametrize(("era", "epoch"), [("kafka-4.3", 1), ("kafka-4.4", 2)])
def test_another_assignor_raises_the_epoch_since_4_4(era: str, epoch: int) -> None:
    """The default assignor, named, is no other one. Source: hasPreferredServerAssignorChanged (4.4.0)"""
    of_era = group_settings(BrokerConfig(), PROFILES[era])
    world = CoordinatorWorld(assignor_raises_epoch=of_era.assignor_raises_epoch)
    world.beat("m1", 0)
    world.beat("m1", 1, assignor="uniform")
    assert group_of(world).epoch == 1
    world.beat("m1", 1, assignor="range")
    assert (group_of(world).epoch, group_of(world).target_epoch) == (epoch, epoch)


@pytest.mark.parametrize(
    ("era", "before", "assigned"), [("kafka-4.3", ["m1"], 0), ("kafka-4.4", ["m1"], 3), ("kafka-4.4", ["m0", "m1"], 0)]
)
def test_the_interval_does_not_hold_up_who_joins_an_empty_group(era: str, before: list[str], assigned: int) -> None:
    """Source: consumerGroupFenceMembers (4.3.1, 4.4.0)"""
    of_era = group_settings(BrokerConfig(), PROFILES[era])
    world = CoordinatorWorld(consumer_assignment_interval_ms=1000, empty_is_assigned=of_era.empty_is_assigned)
    world.at(10 * SECOND)
    for member in before:
        world.beat(member, 0)
    world.beat("m1", -1)
    world.beat("m2", 0)
    assert len(group_of(world).targets.get("m2", ())) == assigned
