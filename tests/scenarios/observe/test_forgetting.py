"""What is forgotten to bound memory is forgotten whole: the verdict is the one without forgetting, at any moment."""

from __future__ import annotations

import random
from typing import Any

import pytest

from replica.causes import JoinCause, LeaveCause, RemovalCause, ResetCause, TransactionCause
from replica.ids import TopicPartition
from replica.rules import PROFILES
from replica.trace import events as trace
from replica.trace.events import TraceLog
from scenarios.check.expectations import RunSight, logs_now
from scenarios.check.invariants.checker import InvariantChecker
from scenarios.check.verdict import Verdict, judge
from scenarios.observe.availability import REPLICAS_MIN, GoneTopics
from scenarios.observe.groups import UnreadTimes
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.story import Story
from scenarios.observe.view import ClusterView
from tests.entries import entries_in

TOPICS_ALIVE = 4
TOPICS, PRODUCERS, GROUPS = 120, 10, 20
"""So many names, which come again: what is known of one may stay."""
STEPS = 2000


class Observers:
    def __init__(self, *, forget: bool) -> None:
        self.view = ClusterView(("b1",), ("c1",))
        self.mirror = LogMirror()
        self.ledger = RecordLedger(self.mirror.deleted, self.mirror.sent.names)
        self.story = Story(self.view)
        self.unread = UnreadTimes(self.view)
        self.checker = InvariantChecker(self.view, self.mirror, PROFILES["kafka-4.1"])
        forgetful = (self.mirror, self.ledger, self.story, self.checker)
        self.listeners = [self.view, self.ledger, self.mirror, self.checker, self.unread, self.story]
        if forget:
            self.listeners.append(GoneTopics(self.view, self.mirror, forgetful))

    def entries(self) -> int:
        """What is kept, but for what stays: records, batches, lines, and times without a reader."""
        stays = (self.ledger.records, self.mirror.sent.names, self.story.lines)
        return entries_in(
            [self.ledger, self.mirror.logs, self.mirror.sent._partitions, self.story, self.unread._groups,
             self.unread._now, *self.checker.invariants],
            {id(one) for one in (*stays, self.view, self.checker, self.mirror, self.ledger.taken_by)},
        )  # fmt: skip

    def verdict(self) -> Verdict:
        """If the run were over now."""
        self.ledger.final = logs_now(RunSight(self.view, self.ledger, self.mirror, {}))
        self.ledger.close()
        return judge(self.ledger)


class Session:
    """One broker; topics come, are written and read with jumps, go, and come again under the same names.

    Groups and their members come and go, and records are written in transactions that are committed and aborted.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.both = [Observers(forget=False), Observers(forget=True)]
        self.log = TraceLog([listener for one in self.both for listener in one.listeners])
        self.ends: dict[str, int] = {}
        self.records = self.joined = 0
        self.producers: dict[int, int] = {}
        """By producer id, how many transactions it has had."""
        self.groups: dict[str, dict[str, tuple[str, str | None]]] = {}
        self.log.emit(trace.NodeStarted(node="b1", role="broker", incarnation=1))

    def step(self) -> None:
        if len(self.ends) < TOPICS_ALIVE or self.random.random() < 0.1:
            self._create(f"t{self.random.randrange(TOPICS)}")
        topic = self.random.choice(list(self.ends))
        kinds = (self._produce, self._read, self._delete, self._transact, self._join_and_leave)
        self.random.choices(kinds, (5, 5, 2, 3, 3))[0](topic)
        self.log.at_us += 1000

    def _emit(self, kind: type, topic: str, **fields: Any) -> None:
        self.log.emit(kind(topic=topic, partition=0, **fields))

    def _create(self, topic: str) -> None:
        if topic in self.ends:
            return
        self.ends[topic] = 0
        self._emit(
            trace.PartitionCreated, topic, node="c1", broker="b1", replicas=("b1",), isr=("b1",), leader_epoch=0,
            partition_epoch=0, min_isr=1,
        )  # fmt: skip
        self._emit(
            trace.LeadershipBegan, topic, node="b1", leader_epoch=0, partition_epoch=0, isr=("b1",), log_end_offset=0,
            high_watermark=0,
        )  # fmt: skip

    def _transact(self, topic: str) -> None:
        """The next transaction of some producer."""
        number = self.random.randrange(PRODUCERS)
        sequence = self.producers.get(number, 0)
        self.producers[number] = sequence + 1
        client, epoch = f"t{number}", 0
        committed = self.random.random() < 0.6
        name: dict[str, Any] = {"transactional_id": client, "producer_id": number, "producer_epoch": epoch}
        self.log.emit(trace.TransactionBegan(client=client, number=sequence, **name))
        self._change(name, "Empty", "Ongoing", (f"{topic}-0",))
        self._produce(topic, client, number, sequence)
        self.log.emit(trace.TransactionEndAsked(client=client, number=sequence, committed=committed, **name))
        kind = "Commit" if committed else "Abort"
        self._change(name, "Ongoing", f"Prepare{kind}", (f"{topic}-0",))
        if self.random.random() < 0.8:  # Else its topic may be deleted before.
            offset = self.ends[topic]
            self.ends[topic] += 1
            self._append(topic, offset, 7 * self.records, number, -1)
            self._emit(
                trace.TransactionMarkerWritten, topic, node="b1", leader_epoch=0, offset=offset,
                first_offset=offset - 1, producer_id=number, producer_epoch=epoch, coordinator_epoch=0,
                committed=committed,
            )  # fmt: skip
        self._change(name, f"Prepare{kind}", f"Complete{kind}", ())
        self.log.emit(trace.TransactionEnded(client=client, number=sequence, committed=committed, **name))

    def _change(self, name: dict[str, Any], before: str, state: str, partitions: tuple[str, ...]) -> None:
        self.log.emit(
            trace.TransactionStateChanged(
                node="b1", previous_state=before, state=state, partitions=partitions, fences=False,
                cause=TransactionCause.COMMIT, **name,
            )
        )  # fmt: skip

    def _join_and_leave(self, topic: str) -> None:
        """A member of a group, and at times the last one, after which the group is removed."""
        group = f"g{self.random.randrange(GROUPS)}"
        members = self.groups.setdefault(group, {})
        here: dict[str, Any] = {"node": "b1", "group": group, "generation": len(members)}
        if not members or self.random.random() < 0.3:
            self.joined += 1
            member: dict[str, Any] = {"member": f"m{self.joined}", "client_id": f"c{self.joined % 9}"}
            instance = self.random.choice((None, f"i{self.joined % 50}"))
            self.log.emit(trace.GroupMemberJoined(instance=instance, cause=JoinCause.NEW, **member, **here))
            self.log.emit(trace.GroupMemberReconciled(partitions=(f"{topic}-0",), revoking=(), **member, **here))
            members[member["member"]] = (member["client_id"], instance)
        while members and self.random.random() < 0.9:
            name, (client_id, instance) = members.popitem()
            about: dict[str, Any] = {"client_id": client_id, "instance": instance, "cause": LeaveCause.LEAVE_REQUEST}
            self.log.emit(trace.GroupMemberLeft(member=name, **about, **here))
        if not members:
            del self.groups[group]
            self.log.emit(trace.GroupRemoved(node="b1", group=group, generation=0, cause=RemovalCause.EMPTY))

    def _append(self, topic: str, offset: int, crc: int, producer_id: int, sequence: int) -> None:
        self._emit(
            trace.BatchAppended, topic, node="b1", role="leader", leader_epoch=0, base_offset=offset,
            last_offset=offset, log_end_offset=offset + 1, size_bytes=100, crc=crc, producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1, base_sequence=sequence,
        )  # fmt: skip

    def _produce(self, topic: str, client: str = "p1", producer_id: int = -1, sequence: int = -1) -> None:
        record, offset, crc = f"r{self.records}", self.ends[topic], 1000 + self.records
        self.records += 1
        self.ends[topic] += 1
        self._emit(trace.RecordSent, topic, client=client, record=record, acks=-1)
        self._emit(
            trace.BatchSent, topic, client=client, peer="b1", records=(record,), crc=crc, attempt=1, acks=-1,
            producer_id=producer_id, base_sequence=sequence,
        )  # fmt: skip
        self._append(topic, offset, crc, producer_id, sequence)
        self._emit(
            trace.HighWatermarkAdvanced, topic, node="b1", role="leader", leader_epoch=0, high_watermark=offset + 1,
            log_end_offset=offset + 1,
            previous_high_watermark=offset,
        )  # fmt: skip
        self._emit(
            trace.RecordAcked, topic, client=client, peer="b1", record=record, offset=offset, acks=-1, latency_us=10
        )

    def _read(self, topic: str) -> None:
        """At any offset: a reader that jumps skips records."""
        if not self.ends[topic]:
            return
        mirror, offset = self.both[0].mirror, self.random.randrange(self.ends[topic])
        record = next(name for at, name, _ in mirror.records(TopicPartition(topic, 0), "b1") if at == offset)
        client = f"c{self.random.randrange(5)}"
        self._emit(trace.RecordRead, topic, client=client, peer="b1", offset=offset, record=record, leader_epoch=0)
        if self.random.random() < 0.3:
            self._emit(
                trace.PositionReset, topic, client=client, peer="b1", offset=0, previous_offset=offset + 1, error=None,
                cause=ResetCause.SEEK,
            )  # fmt: skip

    def _delete(self, topic: str) -> None:
        end = self.ends.pop(topic)
        self.log.emit(trace.TopicDeleted(node="c1", topic=topic))
        self._emit(trace.ReplicaDeleted, topic, node="b1", previous_log_end_offset=end)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_the_verdict_is_the_one_without_forgetting(seed: int) -> None:
    session = Session(seed)
    entries = []
    for step in range(STEPS):
        session.step()
        if step in (STEPS // 2, STEPS - 1):
            entries.append([one.entries() for one in session.both])
        if step % 100 == 0 or step == STEPS - 1:
            kept, forgotten = (one.verdict() for one in session.both)
            assert (kept.kinds, kept.anomalies) == (forgotten.kinds, forgotten.anomalies)
            assert {kind: list(names) for kind, names in kept.records.items()} == {
                kind: list(names) for kind, names in forgotten.records.items()
            }
            assert session.both[0].unread.found == session.both[1].unread.found
            assert session.both[0].story.lines == session.both[1].story.lines
            one, other = (
                [(found.invariant, found.sentence) for found in both.checker.violations] for both in session.both
            )
            assert one == other
    kept_logs, left = (len(one.mirror.logs) for one in session.both)
    assert kept_logs > REPLICAS_MIN > left
    (kept_then, then), (kept_now, now) = entries
    assert kept_now - kept_then > 1000 and now - then < 400
