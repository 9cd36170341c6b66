"""Writes traces by hand: partition t-0 of one small cluster, in short verbs, one event each.

A verb has parameters for what a test chooses. The other columns say what the partition is at this point of the trace:
its leader, epochs and ISR, the end and the high watermark of the replica that states the event. No rule is enforced,
so that a trace can break any of Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Self

from replica.causes import (
    DataLossCause,
    ElectionCause,
    FailureCause,
    HighWatermarkCause,
    IsrCause,
    IsrCommitCause,
    PlacementCause,
    ResetCause,
    UnfencingCause,
)
from replica.trace import events as t

BROKERS = ("b1", "b2", "b3")
CONTROLLER = "c1"
# Of a batch of one record, from a producer without idempotence.
USUAL: dict[str, Any] = {
    "topic": "t", "partition": 0, "size_bytes": 100, "attempt": 1, "producer_id": -1, "producer_epoch": -1,
    "base_sequence": -1,
}  # fmt: skip


class TraceBuilder:
    """Every verb emits one event and returns its seq. Records are batches of one.

    leader, epoch: as brokers know them, since `leads`; elected: the controller's choice, None while offline
    logs: by node and offset, (record, leader epoch); ends: log end offsets as the nodes stated them last
    """

    def __init__(self, listeners: Sequence[Callable[[t.TraceRow], None]], brokers: Sequence[str] = BROKERS) -> None:
        self.log = t.TraceLog(listeners)
        self.brokers = tuple(brokers)
        self.leader = self.brokers[0]
        self.elected: str | None = self.leader
        self.epoch, self.partition_epoch = 0, 0
        self.isr: tuple[str, ...] = self.brokers
        self.elr: tuple[str, ...] = ()
        self.logs: dict[str, dict[int, tuple[str, int]]] = {node: {} for node in self.brokers}
        self.ends, self.high_watermarks = dict.fromkeys(self.brokers, 0), dict.fromkeys(self.brokers, 0)

    def crc(self, record: str) -> int:
        """Of a batch with this record alone."""
        return int.from_bytes(record.encode().ljust(4, b"-")[-4:], "big")

    def at(self, seconds: float) -> Self:
        self.log.at_us = round(seconds * 1_000_000)
        self.log.cause = None
        return self

    def emit(self, event: t.TraceEvent, *causes: int) -> int:
        return self.log.emit(event, *causes)

    def state(self, kind: type[t.TraceEvent], **columns: Any) -> int:
        """Emit an event of this kind; a column that is not given, or None, has its value at this point of the trace."""
        node = columns.get("node", "")
        known: dict[str, Any] = {
            **USUAL, "leader_epoch": self.epoch, "partition_epoch": self.partition_epoch, "isr": self.isr,
            "previous_isr": self.isr, "role": "leader" if node == self.leader else "follower",
        }  # fmt: skip
        if node in self.ends:
            known["log_end_offset"] = known["previous_log_end_offset"] = self.ends[node]
            known["high_watermark"] = known["previous_high_watermark"] = self.high_watermarks[node]
        given = {name: value for name, value in columns.items() if value is not None or name not in known}
        event: Any = kind(**{field.name: known[field.name] for field in fields(kind) if field.name in known} | given)
        if node in self.ends:
            self.ends[node] = getattr(event, "log_end_offset", self.ends[node])
            self.high_watermarks[node] = getattr(event, "high_watermark", self.high_watermarks[node])
        return self.emit(event)

    # ---------------------------------------------------------------------------------------------------- producers

    def send(self, *names: str, acks: int = 1, client: str = "p1") -> None:
        for name in names:
            self.state(t.RecordSent, client=client, record=name, acks=acks)

    def request(
        self, name: str, to: str = "b1", *, attempt: int = 1, acks: int = 1, client: str = "p1", producer_id: int = -1
    ) -> int:
        return self.state(
            t.BatchSent, client=client, peer=to, records=(name,), crc=self.crc(name), attempt=attempt, acks=acks,
            producer_id=producer_id,
        )  # fmt: skip

    def ack(
        self, name: str, offset: int, by: str = "b1", *, acks: int = 1, client: str = "p1", latency_us: int = 2000
    ) -> int:
        return self.state(
            t.RecordAcked, client=client, peer=by, record=name, offset=offset, acks=acks, latency_us=latency_us
        )

    def hand_over(self, name: str, to: str = "b1") -> int:
        return self.state(t.RecordHandedOver, client="p1", peer=to, record=name, acks=0, latency_us=100)

    def fail(self, name: str, error: str, *, definite: bool) -> int:
        return self.state(
            t.RecordFailed, client="p1", record=name, acks=-1, error=error, definite=definite, latency_us=1
        )  # fmt: skip

    def refuse(
        self,
        name: str,
        error: str,
        *,
        by: str = "b1",
        will_retry: bool = True,
        message: str = "was refused",
        client: str = "p1",
    ) -> int:
        return self.state(
            t.BatchRefused, client=client, peer=by, records=(name,), crc=self.crc(name), error=error,
            will_retry=will_retry, cause=FailureCause.CONNECTION_LOST, message=message,
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
        """producer: id, epoch and base sequence of an idempotent one"""
        self.logs[node][offset] = (name, self.epoch if epoch is None else epoch)
        return self.state(
            t.BatchAppended, node=node, role=role, leader_epoch=epoch, base_offset=offset, last_offset=offset,
            log_end_offset=offset + 1 if end is None else end, crc=self.crc(name) if crc is None else crc,
            producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2],
        )  # fmt: skip

    def fetch(self, follower: str, offset: int, *, leader: str | None = None, in_isr: bool = True) -> int:
        return self.state(
            t.FollowerFetched, node=leader or self.leader, peer=follower, fetch_offset=offset, in_isr=in_isr
        )

    def advance(
        self,
        hw: int,
        *,
        node: str | None = None,
        epoch: int | None = None,
        previous: int | None = None,
    ) -> int:
        return self.state(
            t.HighWatermarkAdvanced, node=node or self.leader, role="leader", leader_epoch=epoch, high_watermark=hw,
            previous_high_watermark=previous, holders=self.isr,
        )  # fmt: skip

    def learn(self, node: str, hw: int, *, epoch: int | None = None) -> int:
        return self.state(
            t.HighWatermarkLearned,
            node=node,
            role="follower",
            leader_epoch=epoch,
            high_watermark=hw,
            cause=HighWatermarkCause.LEADER,
            leader=self.leader,
            leader_high_watermark=hw,
        )

    def truncate(self, node: str, end: int, *, hw: int | None = None) -> int:
        self._cut(node, end)
        return self.state(
            t.LogTruncated, node=node, log_end_offset=end,
            high_watermark=min(self.high_watermarks[node], end) if hw is None else hw,
        )  # fmt: skip

    def empty(self, node: str) -> None:
        """Its disk holds nothing from here on, which no event states."""
        self._cut(node, 0)
        self.ends[node] = 0

    def lose(self, node: str, size_bytes: int = 100, cause: DataLossCause = DataLossCause.NOT_FLUSHED) -> int:
        self.empty(node)
        return self.state(t.DataLost, node=node, size_bytes=size_bytes, log_end_offset=0, cause=cause)

    def recover(self, node: str, end: int, *, hw: int = 0, start: int = 0, clean: bool = False) -> int:
        self._cut(node, end)
        return self.state(
            t.LogRecovered, node=node, clean=clean, log_start_offset=start, log_end_offset=end, high_watermark=hw,
            size_bytes=0,
        )  # fmt: skip

    def _cut(self, node: str, end: int) -> None:
        self.logs[node] = {offset: record for offset, record in self.logs[node].items() if offset < end}

    # -------------------------------------------------------------------------------------------------- controller

    def create(self, min_isr: int) -> int:
        return self.state(
            t.PartitionCreated, node=CONTROLLER, broker=self.leader, replicas=self.brokers, isr=self.brokers,
            min_isr=min_isr, cause=PlacementCause.ASSIGNED,
        )  # fmt: skip

    def register(self, node: str, epoch: int = 9) -> int:
        return self.state(t.BrokerRegistered, node=CONTROLLER, broker=node, broker_epoch=epoch)

    def fence(self, node: str) -> int:
        return self.state(t.BrokerFenced, node=CONTROLLER, broker=node)

    def unfence(self, node: str) -> int:
        return self.state(t.BrokerUnfenced, node=CONTROLLER, broker=node, cause=UnfencingCause.CAUGHT_UP)

    def unregister(self, node: str) -> int:
        return self.state(t.BrokerUnregistered, node=CONTROLLER, broker=node)

    def elect(self, node: str, *isr: str, epoch: int | None = None, clean: bool = True) -> int:
        """The controller's choice, with the ISR it sets; `leads` and `follows` say when brokers learn of it."""
        self.partition_epoch += 1
        before = {"previous_leader": self.elected, "previous_isr": self.isr}
        self.elected, self.isr = node, isr
        return self.state(
            t.LeaderElected, node=CONTROLLER, broker=node,
            leader_epoch=self.epoch + 1 if epoch is None else epoch, clean=clean,
            cause=ElectionCause.FIRST_LIVE if clean else ElectionCause.UNCLEAN, **before,
        )  # fmt: skip

    def go_offline(self, *isr: str) -> int:
        """The leader is gone, and no broker takes its place."""
        self.epoch, self.partition_epoch = self.epoch + 1, self.partition_epoch + 1
        previous, self.elected, self.isr = self.elected, None, isr
        return self.state(t.PartitionWentOffline, node=CONTROLLER, previous_leader=previous)

    def commit_isr(
        self,
        *isr: str,
        epoch: int | None = None,
        partition_epoch: int | None = None,
        by: str | None = None,
        previous: Sequence[str] | None = None,
    ) -> int:
        """by: the leader that proposed it"""
        before = self.isr if previous is None else tuple(previous)
        self.isr = isr
        self.partition_epoch = self.partition_epoch + 1 if partition_epoch is None else partition_epoch
        return self.state(
            t.IsrCommitted, node=CONTROLLER, leader_epoch=epoch, previous_isr=before, proposed_by=by,
            cause=IsrCommitCause.DECIDED if by is None else IsrCommitCause.PROPOSED,
        )  # fmt: skip

    def commit_elr(self, *elr: str, alone: bool = False) -> int:
        """Part of the latest decision, or a separate decision."""
        self.partition_epoch += alone
        previous, self.elr = self.elr, elr
        return self.state(
            t.ElrCommitted, node=CONTROLLER, elr=elr, previous_elr=previous, last_known_leader=None,
        )  # fmt: skip

    def set_level(self, feature: str, level: int) -> int:
        return self.emit(t.ConfigAltered(node=CONTROLLER, key=feature, value=str(level)))

    # ------------------------------------------------------------------------------------------------------ brokers

    def start(self, node: str, role: str = "broker", *, incarnation: int = 2) -> int:
        return self.state(t.NodeStarted, node=node, role=role, incarnation=incarnation)

    def stop(self, node: str, how: str = "kill") -> int:
        return self.state(t.NodeStopped, node=node, how=how, role="broker")

    def fault(self, verb: str, *targets: str, name: str, effect: str) -> int:
        return self.state(t.FaultBegan, fault=name, verb=verb, targets=targets, effect=effect)

    def fault_ends(self, verb: str, *targets: str, name: str, effect: str) -> int:
        return self.state(t.FaultEnded, fault=name, verb=verb, targets=targets, effect=effect)

    def wipe(self, node: str) -> int:
        return self.fault("wipe", node, name="wipe-1", effect=f"{node} gets a new disk")

    def leads(
        self,
        node: str,
        epoch: int,
        partition_epoch: int | None = None,
        *,
        hw: int | None = None,
    ) -> int:
        self.epoch, self.leader = epoch, node
        return self.state(t.LeadershipBegan, node=node, partition_epoch=partition_epoch, high_watermark=hw)

    def follows(
        self,
        node: str,
        leader: str | None,
        epoch: int,
        partition_epoch: int | None = None,
    ) -> int:
        return self.state(
            t.FollowingBegan, node=node, broker=leader, leader_epoch=epoch, partition_epoch=partition_epoch
        )

    def propose(
        self,
        isr: Sequence[str],
        *,
        by: str | None = None,
        epoch: int | None = None,
        on: int | None = None,
    ) -> int:
        """on: the partition epoch that the leader knows"""
        cause = IsrCause.CAUGHT_UP if len(isr) > len(self.isr) else IsrCause.LAG
        return self.state(
            t.IsrProposed, node=by or self.leader, leader_epoch=epoch, partition_epoch=on, isr=tuple(isr), cause=cause
        )

    # ---------------------------------------------------------------------------------------------------- consumers

    def read(self, name: str, offset: int, *, by: str = "r1", peer: str | None = None, epoch: int | None = None) -> int:
        return self.state(
            t.RecordRead, client=by, peer=peer or self.leader, offset=offset, record=name, leader_epoch=epoch
        )

    def reset(self, offset: int, *, error: str | None, client: str = "r1") -> int:
        return self.state(
            t.PositionReset, client=client, peer="b1", offset=offset, previous_offset=0, error=error,
            cause=ResetCause.COMMITTED_OFFSET,
        )  # fmt: skip

    def end_offset(self, offset: int, *, error: str | None = None) -> int:
        return self.state(t.EndOffsetSeen, client="r1", peer="b1", offset=offset, error=error)

    # ------------------------------------------------------------------------------------------------------ the end

    def find(
        self,
        node: str,
        *names: str,
        hw: int | None = None,
        leader: bool | None = None,
        in_isr: bool = True,
        in_elr: bool = False,
        running: bool = True,
        crcs: Sequence[int] = (),
        epoch: int = 0,
        epochs: Sequence[int] = (),
        start: int = 0,
    ) -> None:
        """The content of `node`'s disk from `start` on; by default it runs, b1 leads, and all is committed."""
        for i, name in enumerate(names):
            self.state(
                t.LogEntriesFound, node=node, offset=start + i, records=(name,),
                leader_epoch=epochs[i] if epochs else epoch, crc=crcs[i] if crcs else self.crc(name),
            )  # fmt: skip
        end = start + len(names)
        self.state(
            t.ReplicaFound, node=node, log_start_offset=start, log_end_offset=end,
            high_watermark=end if hw is None else hw, is_leader=node == "b1" if leader is None else leader,
            in_isr=in_isr, running=running, in_elr=in_elr,
            leader_epoch=(epochs[-1] if epochs else epoch) if names else -1,
        )  # fmt: skip
