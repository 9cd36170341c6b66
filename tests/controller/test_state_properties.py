"""For any actions of brokers, leaders and operators the controller's safety rules hold (S1, S12, S13, S18, S19)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from controller_world import heartbeat, new_state, register, start_brokers
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.messages.quorum import decode_snapshot, encode_snapshot
from controller import partitions
from controller.image import MetadataImage, PartitionRegistration
from controller.inputs import (
    Action,
    AlterPartition,
    AlterPartitionReply,
    AlterReassignment,
    AppendRecord,
    ControllerInput,
    CreateTopic,
    ElectLeader,
    EmitNumbered,
    IsrProposal,
)
from controller.metadata import PartitionChangeRecord, decode_record, encode_record
from controller.quorum.messages import OffsetAndEpoch
from controller.snapshot import snapshot_of
from controller.state import ControllerState
from replica.errors import ErrorCode
from replica.ids import NO_BROKER, TopicPartition
from replica.rules import PROFILES, Rules
from replica.trace import events as trace
from tests.soak import examples

BROKERS = (1, 2, 3)
_BROKER = st.sampled_from(BROKERS)
_PARTITION = st.sampled_from([TopicPartition("clean", 0), TopicPartition("clean", 1), TopicPartition("unclean", 0)])

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 12)),
        st.tuples(st.just("heartbeat"), _BROKER, st.booleans(), st.booleans(), st.integers(0, 20)),
        st.tuples(st.just("register"), _BROKER, st.sampled_from(["first", "second", "third"]), st.booleans()),
        st.tuples(
            st.just("alter"), _BROKER, _PARTITION, st.sets(_BROKER, min_size=1), st.booleans(), st.integers(-1, 1)
        ),
        st.tuples(st.just("reassign"), _PARTITION, st.none() | st.permutations((1, 2, 3)).map(lambda ids: ids[:2])),
        st.tuples(st.just("elect"), _PARTITION, st.sampled_from(["preferred", "unclean"]), st.none() | _BROKER),
    ),
    max_size=60,
)


@dataclass
class Told:
    """A partition as the events alone describe it."""

    leader: str | None
    isr: tuple[str, ...]
    leader_epoch: int
    partition_epoch: int
    elr: tuple[str, ...] = ()
    last_known_leader: str | None = None


@dataclass
class Checker:
    """Follows the controller by its records (as a broker does) and by its events (as a reader of the trace does)."""

    rules: Rules
    state: ControllerState = field(init=False)
    now_us: int = 0
    copy: MetadataImage = field(default_factory=MetadataImage)
    told: dict[TopicPartition, Told] = field(default_factory=dict)
    leaders: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    events: int = 0
    records: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = new_state(self.rules)

    def take(self, actions: list[Action]) -> None:
        first_event = self.events
        for action in actions:
            match action:
                case AppendRecord():
                    self._apply(action)
                case EmitNumbered():
                    assert action.number == self.events
                    assert action.cause is None or first_event <= action.cause < action.number
                    self.events += 1
                    self._read(action.event)
        for topic_partition, partition in self.state.image.partitions():
            self._check(topic_partition, partition)
            assert self.told[topic_partition] == _as_told(partition), "the events do not tell the whole story"
        assert self.copy.brokers == self.state.image.brokers
        assert self.copy.topics == self.state.image.topics

    def _apply(self, action: AppendRecord) -> None:
        data = encode_record(action.record)
        self.records.append(data)
        record = decode_record(data)
        before = None
        if isinstance(record, PartitionChangeRecord):
            before = self.copy.partition(record.topic, record.partition)
        self.copy.apply(record, action.offset)
        if isinstance(record, PartitionChangeRecord) and before is not None:
            after = self.copy.partition(record.topic, record.partition)
            assert after is not None
            assert after.partition_epoch == before.partition_epoch + 1
            lost_one = any(replica not in after.replicas for replica in before.replicas)
            assert after.leader_epoch == before.leader_epoch + (lost_one or after.leader != before.leader), "S13, R36"

    def _read(self, event: trace.TraceEvent) -> None:
        if not isinstance(
            event,
            trace.PartitionCreated
            | trace.LeaderElected
            | trace.PartitionWentOffline
            | trace.IsrCommitted
            | trace.ElrCommitted
            | trace.ReassignmentBegan
            | trace.ReassignmentCompleted
            | trace.ReassignmentCancelled,
        ):
            return
        known = self.told.setdefault(TopicPartition(event.topic, event.partition), Told(None, (), 0, 0))
        known.leader_epoch, known.partition_epoch = event.leader_epoch, event.partition_epoch
        match event:
            case trace.PartitionCreated() | trace.LeaderElected():
                known.leader, known.isr, known.last_known_leader = event.broker, event.isr, None
            case trace.PartitionWentOffline():
                known.leader, known.isr = None, event.isr
            case trace.IsrCommitted():
                known.isr = event.isr
            case trace.ElrCommitted():
                assert event.previous_elr == known.elr
                known.elr, known.last_known_leader = event.elr, event.last_known_leader

    def _check(self, topic_partition: TopicPartition, partition: PartitionRegistration) -> None:
        image, isr = self.state.image, partition.in_sync_replicas
        assert len(dict.fromkeys(isr)) == len(isr), "S1"
        assert all(member in partition.replicas for member in isr), "S1"
        leader = self.leaders.setdefault((topic_partition, partition.leader_epoch), partition.leader)
        assert leader == partition.leader, "S12"
        if partition.has_leader:
            assert partition.leader in isr, "S1"
            assert image.is_active(partition.leader), "S19"
            assert not partition.last_known_elr
        else:
            valid = (*isr, *partition.elr)
            assert not any(image.is_active(member) for member in valid), "a valid leader is elected at once"
            if topic_partition.topic == "unclean":
                assert not any(image.is_active(replica) for replica in partition.replicas)
        assert not partition.recovering or len(isr) == 1 or not partition.has_leader, "KIP-704"
        if self.rules.elr:
            self._check_elr(topic_partition, partition)
        else:
            assert isr and not partition.elr and not partition.last_known_elr
            assert len(isr) == 1 or all(image.is_active(member) for member in isr), "S19"

    def _check_elr(self, topic_partition: TopicPartition, partition: PartitionRegistration) -> None:
        image, isr, elr = self.state.image, partition.in_sync_replicas, partition.elr
        assert all(image.is_active(member) for member in isr), "S19"
        assert list(elr) == sorted(set(elr)) and set(elr) <= set(partition.replicas) - set(isr), "S20"
        if len(isr) >= image.topics[topic_partition.topic].effective_min_isr:
            assert not elr, "S20"
        if not isr:
            assert elr or partition.last_known_elr, "somebody is always worth waiting for"
            assert len(partition.last_known_elr) == 1
            if not elr:
                assert not image.is_active(partition.last_known_elr[0]), "the last known leader is elected at once"

    def request(self, given: ControllerInput) -> Action:
        actions = self.state.step(given)
        replies = [action for action in actions if not isinstance(action, AppendRecord | EmitNumbered)]
        assert replies == actions[-1:], "one reply, after all records"
        self.take(actions)
        return actions[-1]


def _as_told(partition: PartitionRegistration) -> Told:
    return Told(
        leader=None if partition.leader == NO_BROKER else f"b{partition.leader}",
        isr=tuple(f"b{member}" for member in partition.in_sync_replicas),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        elr=tuple(f"b{member}" for member in partition.elr),
        last_known_leader=f"b{partition.last_known_elr[0]}" if partition.last_known_elr else None,
    )


def new_checker(rules: Rules) -> Checker:
    checker = Checker(rules)
    for broker_id in BROKERS:
        checker.request(register(broker_id))
    for broker_id in BROKERS:
        checker.take(heartbeat(checker.state, broker_id))
    both = ((1, 2, 3), (2, 3, 1))
    checker.request(CreateTopic(now_us=0, name="clean", assignment=both, config={"min.insync.replicas": 2}))
    checker.request(
        CreateTopic(now_us=0, name="unclean", assignment=((3, 1),), config={"unclean.leader.election.enable": True})
    )
    return checker


def alter(
    checker: Checker, sender: int, topic_partition: TopicPartition, isr: set[int], recovering: bool, skew: int
) -> None:
    """A proposal as some broker might send it; only the leader's, with the right epochs, may get through (S18)."""
    image = checker.state.image
    before = image.partition(*topic_partition)
    assert before is not None
    proposal = IsrProposal(
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        leader_epoch=before.leader_epoch,
        partition_epoch=before.partition_epoch + skew,
        in_sync_replicas=tuple(sorted(isr)),
        broker_epochs=tuple(image.brokers[member].broker_epoch for member in sorted(isr)),
        recovering=recovering,
    )
    epoch = image.brokers[sender].broker_epoch
    reply = checker.request(
        AlterPartition(now_us=checker.now_us, broker_id=sender, broker_epoch=epoch, partitions=(proposal,))
    )
    assert isinstance(reply, AlterPartitionReply)
    if reply.partitions[0].error is ErrorCode.NONE:
        assert (sender, skew) == (before.leader, 0)
    else:
        assert image.partition(*topic_partition) == before


def register_again(checker: Checker, broker_id: int, incarnation: str, was_clean: bool) -> None:
    image = checker.state.image
    before = image.brokers[broker_id]
    previous = before.broker_epoch if was_clean else -1
    checker.request(register(broker_id, at=checker.now_us, incarnation=incarnation, previous_broker_epoch=previous))
    after = image.brokers[broker_id]
    if after.incarnation_id != before.incarnation_id and checker.rules.elr and not was_clean:
        for _, partition in image.partitions():
            assert broker_id not in (*partition.in_sync_replicas, *partition.elr), "S21"


def survives_as_snapshot(image: MetadataImage) -> None:
    """Image -> records -> bytes -> records -> image; only registrations move to the snapshot's end."""
    snapshot = snapshot_of(image, OffsetAndEpoch(7, image.offset + 1), 0)
    data = encode_snapshot(snapshot, 0)
    loaded = decode_snapshot(snapshot.end, data).image()
    assert loaded.offset == image.offset
    assert loaded.brokers == {
        broker_id: replace(broker, registration_offset=image.offset) for broker_id, broker in image.brokers.items()
    }
    assert (loaded.topics, loaded.topic_names) == (image.topics, image.topic_names)
    assert (loaded.broker_config, loaded.directories) == (image.broker_config, image.directories)
    assert (list(loaded.topics), list(loaded.brokers)) == (list(image.topics), list(image.brokers))
    assert encode_snapshot(snapshot_of(loaded, snapshot.end, 0), 0) == data


@pytest.mark.parametrize("profile", ["kafka-3.9", "kafka-4.1"])
@settings(max_examples=examples(150), deadline=None)
@given(steps=STEPS)
def test_safety(profile: str, steps: list[tuple[object, ...]]) -> None:
    checker = new_checker(PROFILES[profile])
    for step in steps:
        match step:
            case ("wait", int() as seconds):
                checker.now_us += seconds * 1_000_000
                checker.take(checker.state.tick(checker.now_us))
            case ("heartbeat", int() as broker_id, bool() as fence, bool() as shutdown, int() as behind):
                offset = checker.state.image.offset - behind
                actions = heartbeat(
                    checker.state,
                    broker_id,
                    at=checker.now_us,
                    metadata_offset=offset,
                    want_fence=fence and shutdown,
                    want_shut_down=shutdown,
                )
                checker.take(actions)
            case ("register", int() as broker_id, str() as incarnation, bool() as was_clean):
                register_again(checker, broker_id, incarnation, was_clean)
            case ("alter", int() as sender, TopicPartition() as tp, set() as isr, bool() as recovering, int() as skew):
                alter(checker, sender, tp, isr, recovering, skew)
            case ("elect", TopicPartition() as tp, "preferred" | "unclean" as kind, desired):
                assert desired is None or isinstance(desired, int)
                event = ElectLeader(
                    now_us=checker.now_us, topic=tp.topic, partition=tp.partition, kind=kind, desired=desired
                )
                checker.request(event)
            case ("reassign", TopicPartition() as tp, replicas):
                assert replicas is None or isinstance(replicas, Iterable)
                target = None if replicas is None else tuple(replicas)
                checker.request(
                    AlterReassignment(now_us=checker.now_us, topic=tp.topic, partition=tp.partition, replicas=target)
                )
            case _:
                raise AssertionError(step)
    survives_as_snapshot(checker.state.image)
    successor = new_state(PROFILES[profile])
    successor.load([decode_record(data) for data in checker.records], checker.now_us)
    assert successor.image.topics == checker.state.image.topics
    assert successor.image.brokers == checker.state.image.brokers


def test_every_deadline_is_met_and_passes() -> None:
    """Brokers that never speak again are all fenced, and then only the sweep of leaderless partitions remains."""
    state = new_state()
    start_brokers(state, 1, 2, 3)
    state.step(CreateTopic(now_us=0, name="t", assignment=((1, 2, 3),)))
    assert state.next_deadline_us == 9_000_000
    state.tick(9_000_000)
    assert all(broker.fenced for broker in state.image.brokers.values())
    assert state.next_deadline_us == 309_000_000
    assert state.tick(309_000_000) == []
    assert state.next_deadline_us == 609_000_000


def test_a_successor_gives_everybody_a_new_session() -> None:
    state = new_state()
    actions = state.step(register(1))
    actions += heartbeat(state, 1)
    successor = new_state()
    successor.load([action.record for action in actions if isinstance(action, AppendRecord)], 5_000_000)
    assert successor.next_deadline_us is None, "it has heard of nobody yet"
    successor.step(register(2, at=6_000_000))
    assert successor.next_deadline_us == 14_000_000
    assert successor.next_offset == state.next_offset + 1


def leaders_away_from_their_preferred_replica(state: ControllerState) -> None:
    """Two partitions that b1 leads although b2 comes first; b2 is back in their ISR since 1.2 s."""
    start_brokers(state, 1, 2)
    state.step(CreateTopic(now_us=0, name="t", assignment=((2, 1), (2, 1))))
    heartbeat(state, 2, at=1_000_000, want_fence=True)
    heartbeat(state, 2, at=1_100_000)
    for number in (0, 1):
        join = IsrProposal(
            topic="t",
            partition=number,
            leader_epoch=1,
            partition_epoch=1,
            in_sync_replicas=(1, 2),
            broker_epochs=(0, 1),
        )
        state.step(AlterPartition(now_us=1_200_000, broker_id=1, broker_epoch=0, partitions=(join,)))


def leaders(state: ControllerState) -> list[int]:
    return [partition.leader for _, partition in state.image.partitions()]


@pytest.mark.parametrize(("interval_us", "expected"), [(300_000_000, [2, 2]), (None, [1, 1])])
def test_leader_rebalance_can_be_switched_off(interval_us: int | None, expected: list[int]) -> None:
    state = new_state(rebalance_interval_us=interval_us, session_timeout_us=1_000_000_000)
    leaders_away_from_their_preferred_replica(state)
    state.tick(300_999_999)
    assert leaders(state) == [1, 1]
    state.tick(301_000_000)
    assert leaders(state) == expected
    assert state.next_deadline_us == 1_000_000_000, "no check is planned while there is nothing to do"


@pytest.mark.parametrize(("era", "due_us"), [("kafka-3.9", 301_000_000), ("kafka-4.1", 300_000_000)])
def test_since_4_0_the_controller_looks_at_the_balance_by_the_time_since_its_activation(era: str, due_us: int) -> None:
    state = new_state(PROFILES[era], session_timeout_us=1_000_000_000)
    state.load((), 0)
    leaders_away_from_their_preferred_replica(state)
    state.tick(due_us - 1)
    assert leaders(state) == [1, 1]
    state.tick(due_us)
    assert leaders(state) == [2, 2]


def test_a_sweep_at_its_limit_goes_on_10_ms_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MAX_ELECTIONS_PER_SWEEP", 1)
    state = new_state(session_timeout_us=1_000_000_000)
    leaders_away_from_their_preferred_replica(state)
    state.tick(301_000_000)
    assert leaders(state) == [2, 1]
    assert state.next_deadline_us == 301_010_000
    state.tick(301_010_000)
    assert leaders(state) == [2, 2]
