"""Writes traces by hand: a cluster of b1, b2, b3 with partition t-0, in short verbs, one event each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from replica.ids import TopicPartition
from replica.rules import PROFILES, Rules
from replica.trace import events as trace
from replica.trace.events import TraceEvent, TraceLog, TraceRow
from scenarios.check.invariants.checker import InvariantChecker
from scenarios.check.verdict import Verdict, judge
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.view import ClusterView

T0 = TopicPartition("t", 0)
HERE: dict[str, Any] = {"topic": "t", "partition": 0}
BROKERS = ("b1", "b2", "b3")
CRC_OF_FIRST = 1000


class TraceScript:
    """Every verb emits one event and returns its seq. Records are batches of one; a record's crc is 1000 + its
    number."""

    def __init__(
        self,
        *,
        min_isr: int = 2,
        brokers: Sequence[str] = BROKERS,
        begin: bool = True,
        rules: Rules = PROFILES["kafka-3.9"],
    ) -> None:
        self.view = ClusterView(brokers, ("c1",), ("p1", "r1"))
        self.mirror = LogMirror()
        self.ledger = RecordLedger(self.mirror.deleted)
        self.checker = InvariantChecker(self.view, self.mirror, rules)
        self.rows: list[TraceRow] = []
        listeners: list[Callable[[TraceRow], None]] = [
            self.view,
            self.mirror,
            self.ledger,
            self.checker,
            self.rows.append,
        ]
        self.log = TraceLog(listeners)
        self.epoch, self.partition_epoch, self.leader = 0, 0, brokers[0]
        self.brokers = tuple(brokers)
        if begin:
            self._begin(min_isr)

    def _begin(self, min_isr: int) -> None:
        self.emit(trace.RunStarted(scenario="by-hand", variant=None, seed=1, profile="kafka-3.9", reason="begins"))
        self.emit(trace.NodeStarted(node="c1", role="controller", reason="c1 starts"))
        for number, node in enumerate(self.brokers):
            self.emit(trace.NodeStarted(node=node, role="broker", reason=f"{node} starts"))
            self.emit(trace.BrokerRegistered(node="c1", broker=node, broker_epoch=number, reason="registers"))
            self.emit(trace.BrokerUnfenced(node="c1", broker=node, reason=f"{node} is caught up"))
        self.emit(
            trace.PartitionCreated(
                node="c1", **HERE, broker=self.leader, replicas=self.brokers, isr=self.brokers, leader_epoch=0,
                partition_epoch=0, min_isr=min_isr, reason="t-0 is created",
            )
        )  # fmt: skip
        self.leads(self.leader, 0, 0)
        for node in self.brokers[1:]:
            self.follows(node, self.leader, 0, 0)
        self.at(1)

    # ---------------------------------------------------------------------------------------------------- the clock

    def at(self, seconds: float) -> None:
        self.log.at_us = round(seconds * 1_000_000)
        self.log.cause = None

    def emit(self, event: TraceEvent, *causes: int) -> int:
        return self.log.emit(event, *causes)

    # ---------------------------------------------------------------------------------------------------- producers

    def send(self, *names: str, acks: int = 1, client: str = "p1") -> None:
        for name in names:
            self.emit(trace.RecordSent(client=client, **HERE, record=name, acks=acks))

    def request(self, name: str, to: str = "b1", *, attempt: int = 1, acks: int = 1, client: str = "p1") -> int:
        return self.emit(
            trace.BatchSent(
                client=client, peer=to, **HERE, records=(name,), crc=crc_of(name), attempt=attempt, acks=acks,
                producer_id=-1, base_sequence=-1,
            )
        )  # fmt: skip

    def ack(self, name: str, offset: int, by: str = "b1", *, acks: int = 1, client: str = "p1") -> int:
        return self.emit(
            trace.RecordAcked(
                client=client, peer=by, **HERE, record=name, offset=offset, acks=acks, latency_us=2000
            )
        )  # fmt: skip

    def hand_over(self, name: str, to: str = "b1") -> int:
        return self.emit(trace.RecordHandedOver(client="p1", peer=to, **HERE, record=name, acks=0, latency_us=100))

    def fail(self, name: str, error: str, *, definite: bool) -> int:
        return self.emit(
            trace.RecordFailed(
                client="p1",
                **HERE,
                record=name,
                acks=-1,
                error=error,
                definite=definite,
                latency_us=1,
                reason="gives up",
            )
        )

    def refuse(self, name: str, error: str, *, by: str = "b1", will_retry: bool = True) -> int:
        return self.emit(
            trace.BatchRefused(
                client="p1", peer=by, **HERE, records=(name,), crc=crc_of(name), attempt=1, error=error,
                will_retry=will_retry, reason="was refused",
            )
        )  # fmt: skip

    # --------------------------------------------------------------------------------------------------------- logs

    def append(
        self,
        node: str,
        offset: int,
        name: str,
        *,
        epoch: int | None = None,
        role: str | None = None,
        crc: int | None = None,
        producer: tuple[int, int, int] = (-1, -1, -1),
        end: int | None = None,
    ) -> int:
        return self.emit(
            trace.BatchAppended(
                node=node,
                role=role or ("leader" if node == self.leader else "follower"),
                **HERE,
                leader_epoch=self.epoch if epoch is None else epoch,
                base_offset=offset,
                last_offset=offset,
                log_end_offset=offset + 1 if end is None else end,
                size_bytes=100,
                crc=crc_of(name) if crc is None else crc,
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=producer[2],
            )
        )

    def fetch(self, follower: str, offset: int, *, leader: str | None = None) -> int:
        leader = leader or self.leader
        replica = self.view.replica(T0, leader)
        assert replica is not None
        return self.emit(
            trace.FollowerFetched(
                node=leader, peer=follower, **HERE, leader_epoch=self.epoch, fetch_offset=offset,
                log_end_offset=replica.log_end_offset, high_watermark=replica.high_watermark, in_isr=True,
            )
        )  # fmt: skip

    def advance(
        self, hw: int, *, node: str | None = None, epoch: int | None = None, previous: int | None = None
    ) -> int:
        node = node or self.leader
        replica = self.view.replica(T0, node)
        assert replica is not None
        return self.emit(
            trace.HighWatermarkAdvanced(
                node=node, role="leader", **HERE, leader_epoch=self.epoch if epoch is None else epoch,
                high_watermark=hw, previous_high_watermark=replica.high_watermark if previous is None else previous,
                log_end_offset=replica.log_end_offset, reason=f"every in-sync replica has fetched up to {hw}",
            )
        )  # fmt: skip

    def learn(self, node: str, hw: int, *, epoch: int | None = None) -> int:
        replica = self.view.replica(T0, node)
        assert replica is not None
        return self.emit(
            trace.HighWatermarkLearned(
                node=node, role="follower", **HERE, leader_epoch=self.epoch if epoch is None else epoch,
                high_watermark=hw, previous_high_watermark=replica.high_watermark,
                log_end_offset=replica.log_end_offset, reason="the leader says so",
            )
        )  # fmt: skip

    def truncate(self, node: str, end: int, *, hw: int | None = None) -> int:
        replica = self.view.replica(T0, node)
        assert replica is not None
        hw = min(replica.high_watermark, end) if hw is None else hw
        return self.emit(
            trace.LogTruncated(
                node=node, **HERE, leader_epoch=self.epoch, log_end_offset=end,
                previous_log_end_offset=replica.log_end_offset, high_watermark=hw,
                previous_high_watermark=replica.high_watermark, reason=f"{node} cuts its log back to {end}",
            )
        )  # fmt: skip

    def replicate(self, *names: str, acks: int = 1, via: Sequence[str] = ("b2", "b3")) -> None:
        """The ordinary life of records: sent, appended, copied, committed, acked."""
        leader = self.leader
        for name in names:
            offset = self.mirror.log(T0, leader).end
            self.send(name, acks=acks)
            self.request(name, leader, acks=acks)
            self.append(leader, offset, name)
            for follower in via:
                self.append(follower, offset, name)
                self.fetch(follower, offset + 1)
            self.advance(offset + 1)
            self.ack(name, offset, leader, acks=acks)

    # --------------------------------------------------------------------------------------------------- membership

    def leads(self, node: str, epoch: int, partition_epoch: int | None = None, *, hw: int | None = None) -> int:
        replica = self.view.replica(T0, node)
        end = self.mirror.log(T0, node).end
        self.epoch, self.leader = epoch, node
        return self.emit(
            trace.LeadershipBegan(
                node=node, **HERE, leader_epoch=epoch,
                partition_epoch=self.partition_epoch if partition_epoch is None else partition_epoch,
                isr=self.view.isr(T0), log_end_offset=end,
                high_watermark=(replica.high_watermark if replica else 0) if hw is None else hw, reason=f"{node} leads",
            )
        )  # fmt: skip

    def follows(self, node: str, leader: str | None, epoch: int, partition_epoch: int | None = None) -> int:
        replica = self.view.replica(T0, node)
        return self.emit(
            trace.FollowingBegan(
                node=node, broker=leader, **HERE, leader_epoch=epoch,
                partition_epoch=self.partition_epoch if partition_epoch is None else partition_epoch,
                log_end_offset=self.mirror.log(T0, node).end, high_watermark=replica.high_watermark if replica else 0,
                reason=f"{node} follows {leader}",
            )
        )  # fmt: skip

    def propose(
        self, isr: Sequence[str], *, by: str | None = None, epoch: int | None = None, on: int | None = None
    ) -> int:
        return self.emit(
            trace.IsrProposed(
                node=by or self.leader, **HERE, leader_epoch=self.epoch if epoch is None else epoch,
                partition_epoch=self.partition_epoch if on is None else on, isr=tuple(isr),
                previous_isr=self.view.isr(T0), reason="proposes",
            )
        )  # fmt: skip

    def commit_isr(
        self, *isr: str, epoch: int | None = None, partition_epoch: int | None = None, by: str | None = None
    ) -> int:
        """by: the leader that proposed it"""
        previous = self.view.isr(T0)
        self.partition_epoch = self.partition_epoch + 1 if partition_epoch is None else partition_epoch
        gone = [node for node in previous if node not in isr]
        return self.emit(
            trace.IsrCommitted(
                node="c1", **HERE, leader_epoch=self.epoch if epoch is None else epoch,
                partition_epoch=self.partition_epoch, isr=isr, previous_isr=previous, proposed_by=by,
                reason=f"{', '.join(gone)} left the ISR" if gone else "the ISR grows",
            )
        )  # fmt: skip

    def commit_elr(self, *elr: str, alone: bool = False) -> int:
        """Part of the latest decision, or a separate decision."""
        self.partition_epoch += alone
        return self.emit(
            trace.ElrCommitted(
                node="c1", **HERE, leader_epoch=self.epoch, partition_epoch=self.partition_epoch, elr=elr,
                previous_elr=self.view.partitions[T0].elr, last_known_leader=None, reason="the ELR changes",
            )
        )  # fmt: skip

    def register(self, node: str, epoch: int = 9) -> int:
        return self.emit(trace.BrokerRegistered(node="c1", broker=node, broker_epoch=epoch, reason="registers"))

    def elect(self, node: str, *isr: str, epoch: int | None = None, clean: bool = True) -> int:
        """The controller's choice, with the ISR it sets; `leads` and `follows` say when brokers learn of it."""
        self.partition_epoch += 1
        previous = self.view.leader(T0)
        return self.emit(
            trace.LeaderElected(
                node="c1", broker=node, previous_leader=previous, **HERE,
                leader_epoch=self.epoch + 1 if epoch is None else epoch, partition_epoch=self.partition_epoch, isr=isr,
                clean=clean, reason=f"{node} is elected{'' if clean else ' uncleanly'}",
            )
        )  # fmt: skip

    def go_offline(self, *isr: str) -> int:
        """The leader is gone, and no broker takes its place."""
        self.epoch, self.partition_epoch = self.epoch + 1, self.partition_epoch + 1
        previous = self.view.leader(T0)
        return self.emit(
            trace.PartitionWentOffline(
                node="c1", previous_leader=previous, **HERE, leader_epoch=self.epoch,
                partition_epoch=self.partition_epoch, isr=isr, reason="nobody can lead",
            )
        )  # fmt: skip

    def wipe(self, node: str) -> int:
        return self.emit(
            trace.FaultBegan(fault="wipe-1", verb="wipe", targets=(node,), reason=f"{node} gets a new disk")
        )

    def fence(self, node: str) -> int:
        return self.emit(trace.BrokerFenced(node="c1", broker=node, reason=f"{node} was fenced"))

    def unfence(self, node: str) -> int:
        return self.emit(trace.BrokerUnfenced(node="c1", broker=node, reason=f"{node} is caught up"))

    def stop(self, node: str, how: str = "kill") -> int:
        return self.emit(trace.NodeStopped(node=node, how=how, reason=f"{node} is killed"))

    def start(self, node: str) -> int:
        return self.emit(trace.NodeStarted(node=node, role="broker", reason=f"{node} starts again"))

    def lose(self, node: str, size_bytes: int = 100) -> int:
        return self.emit(trace.DataLost(node=node, **HERE, size_bytes=size_bytes, reason=f"{node} lost bytes"))

    def recover(self, node: str, end: int, *, hw: int = 0, start: int = 0) -> int:
        return self.emit(
            trace.LogRecovered(
                node=node, **HERE, clean=False, log_start_offset=start, log_end_offset=end, high_watermark=hw,
                size_bytes=0, reason=f"{node} opens its log, which ends at {end}",
            )
        )  # fmt: skip

    def fail_over(self, node: str, *isr: str, clean: bool = True) -> None:
        """The leader dies; `node` is elected with `isr` and everybody alive learns of it."""
        old = self.leader
        self.stop(old)
        self.fence(old)
        self.elect(node, *isr, clean=clean)
        self.leads(node, self.epoch + 1)
        for other in self.brokers:
            if other not in (old, node):
                self.follows(other, node, self.epoch)
        self.at(self.log.at_us / 1_000_000 + 1)

    # ---------------------------------------------------------------------------------------------------- consumers

    def read(self, name: str, offset: int, *, by: str = "r1", peer: str | None = None, epoch: int | None = None) -> int:
        return self.emit(
            trace.RecordRead(
                client=by, peer=peer or self.leader, **HERE, offset=offset, record=name,
                leader_epoch=self.epoch if epoch is None else epoch,
            )
        )  # fmt: skip

    def reset(self, offset: int, *, error: str | None, client: str = "r1") -> int:
        return self.emit(
            trace.PositionReset(
                client=client, peer="b1", **HERE, offset=offset, previous_offset=0, error=error, reason="moves"
            )
        )  # fmt: skip

    def end_offset(self, offset: int, *, error: str | None = None) -> int:
        return self.emit(trace.EndOffsetSeen(client="r1", peer="b1", **HERE, offset=offset, error=error))

    # ------------------------------------------------------------------------------------------------------ the end

    def find(
        self,
        node: str,
        *names: str,
        hw: int | None = None,
        leader: bool | None = None,
        in_isr: bool = True,
        running: bool = True,
        crcs: Sequence[int] = (),
        epoch: int = 0,
    ) -> None:
        """The content of `node`'s disk; by default it runs, b1 leads, and everything is below the high watermark."""
        for offset, name in enumerate(names):
            crc = crcs[offset] if crcs else crc_of(name)
            self.emit(trace.LogEntryFound(node=node, **HERE, offset=offset, record=name, leader_epoch=epoch, crc=crc))
        self.emit(
            trace.ReplicaFound(
                node=node, **HERE, log_start_offset=0, log_end_offset=len(names),
                high_watermark=len(names) if hw is None else hw, is_leader=node == "b1" if leader is None else leader,
                in_isr=in_isr, running=running,
            )
        )  # fmt: skip

    def verdict(self) -> Verdict:
        self.ledger.close()
        return judge(self.ledger, [violation.event for violation in self.checker.violations])

    def broken(self) -> list[str]:
        """Names of the invariants that did not hold, in the order found; judges the end of the run too."""
        self.at(self.log.at_us / 1_000_000 + 1)
        self.checker.end()
        return [violation.invariant for violation in self.checker.violations]


def crc_of(name: str) -> int:
    return CRC_OF_FIRST + int(name[1:])
