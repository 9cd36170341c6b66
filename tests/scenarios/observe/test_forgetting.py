"""What is forgotten to bound memory is forgotten whole: the verdict is the one without forgetting, at any moment."""

from __future__ import annotations

import random
from typing import Any

import pytest

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceLog
from scenarios.check.expectations import RunSight, logs_now
from scenarios.check.verdict import Verdict, judge
from scenarios.observe.availability import REPLICAS_MIN, GoneTopics
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.story import Story
from scenarios.observe.view import ClusterView

TOPICS_ALIVE = 4
STEPS = 1500


class Observers:
    def __init__(self, *, forget: bool) -> None:
        self.view = ClusterView(("b1",), ("c1",))
        self.mirror = LogMirror()
        self.ledger = RecordLedger(self.mirror.deleted)
        story = Story(self.view)
        self.listeners = [self.view, self.ledger, self.mirror, story]
        if forget:
            self.listeners.append(GoneTopics(self.view, self.mirror, (self.mirror, self.ledger, story)))

    def verdict(self) -> Verdict:
        """If the run were over now."""
        self.ledger.final = logs_now(RunSight(self.view, self.ledger, self.mirror, {}))
        self.ledger.close()
        return judge(self.ledger)


class Session:
    """One broker; topics come, are written and read with jumps, go, and come again under the same names."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.both = [Observers(forget=False), Observers(forget=True)]
        self.log = TraceLog([listener for one in self.both for listener in one.listeners])
        self.ends: dict[str, int] = {}
        self.records = 0
        self.log.emit(trace.NodeStarted(node="b1", role="broker", reason="starts"))

    def step(self) -> None:
        if len(self.ends) < TOPICS_ALIVE or self.random.random() < 0.1:
            self._create(f"t{self.random.randrange(200)}")
        topic = self.random.choice(list(self.ends))
        self.random.choices((self._produce, self._read, self._delete), (5, 5, 2))[0](topic)
        self.log.at_us += 1000

    def _emit(self, kind: type, topic: str, **fields: Any) -> None:
        self.log.emit(kind(topic=topic, partition=0, **fields))

    def _create(self, topic: str) -> None:
        if topic in self.ends:
            return
        self.ends[topic] = 0
        self._emit(
            trace.PartitionCreated, topic, node="c1", broker="b1", replicas=("b1",), isr=("b1",), leader_epoch=0,
            partition_epoch=0, min_isr=1, reason="made",
        )  # fmt: skip
        self._emit(
            trace.LeadershipBegan, topic, node="b1", leader_epoch=0, partition_epoch=0, isr=("b1",), log_end_offset=0,
            high_watermark=0, reason="b1 leads",
        )  # fmt: skip

    def _produce(self, topic: str) -> None:
        record, offset, crc = f"r{self.records}", self.ends[topic], 1000 + self.records
        self.records += 1
        self.ends[topic] += 1
        self._emit(trace.RecordSent, topic, client="p1", record=record, acks=-1)
        self._emit(
            trace.BatchSent, topic, client="p1", peer="b1", records=(record,), crc=crc, attempt=1, acks=-1,
            producer_id=-1, base_sequence=-1,
        )  # fmt: skip
        self._emit(
            trace.BatchAppended, topic, node="b1", role="leader", leader_epoch=0, base_offset=offset,
            last_offset=offset, log_end_offset=offset + 1, size_bytes=100, crc=crc, producer_id=-1, producer_epoch=-1,
            base_sequence=-1,
        )  # fmt: skip
        self._emit(
            trace.HighWatermarkAdvanced, topic, node="b1", role="leader", leader_epoch=0, high_watermark=offset + 1,
            log_end_offset=offset + 1,
            previous_high_watermark=offset, reason="alone",
        )  # fmt: skip
        self._emit(
            trace.RecordAcked, topic, client="p1", peer="b1", record=record, offset=offset, acks=-1, latency_us=10
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
                reason="seeks",
            )  # fmt: skip

    def _delete(self, topic: str) -> None:
        end = self.ends.pop(topic)
        self.log.emit(trace.TopicDeleted(node="c1", topic=topic, reason="by an operator"))
        self._emit(trace.ReplicaDeleted, topic, node="b1", previous_log_end_offset=end, reason="its topic is gone")


@pytest.mark.parametrize("seed", range(6))
def test_the_verdict_is_the_one_without_forgetting(seed: int) -> None:
    session = Session(seed)
    for step in range(STEPS):
        session.step()
        if step % 100 == 0 or step == STEPS - 1:
            kept, forgotten = (one.verdict() for one in session.both)
            assert (kept.kinds, kept.anomalies) == (forgotten.kinds, forgotten.anomalies)
            assert {kind: list(names) for kind, names in kept.records.items()} == {
                kind: list(names) for kind, names in forgotten.records.items()
            }
    kept_logs, left = (len(one.mirror.logs) for one in session.both)
    assert kept_logs > REPLICAS_MIN > left
