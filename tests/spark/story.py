"""Small traces made by hand from the real events: a partition t-0 on b1, b2, b3, step by step.

This is not a second simulator: it keeps each replica's records, so that one line can state the events of a step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replica.trace import events as t
from scenarios.observe.trace_writer import TraceWriter

NODES = ("b1", "b2", "b3")


class Story:
    """Steps state events at the time set by `at`; `finish` writes down the disks and ends the run."""

    def __init__(self, run_dir: Path, acks: int = 1, min_isr: int = 2) -> None:
        self.writer = TraceWriter(run_dir / "trace")
        self.log = t.TraceLog([self.writer])
        self.acks, self.min_isr = acks, min_isr
        self.logs: dict[str, list[tuple[str, int]]] = {node: [] for node in NODES}
        self.high_watermarks = dict.fromkeys(NODES, 0)
        self.leader: str | None = "b1"
        self.epoch, self.partition_epoch = 0, 0
        self.isr: tuple[str, ...] = NODES
        self.running = set(NODES)

    def emit(self, event: t.TraceEvent) -> int:
        return self.log.emit(event)

    def at(self, seconds: float) -> Story:
        self.log.at_us = round(seconds * 1_000_000)
        self.log.cause = None
        return self

    def begin(self, scenario: str = "a-story", variant: str | None = None) -> None:
        self.emit(
            t.RunStarted(scenario=scenario, variant=variant, seed=1, profile="kafka-3.9", reason="the scenario was run")
        )
        for node in NODES:
            self.emit(t.NodeStarted(node=node, role="broker", reason="it is part of the cluster"))
        self.emit(
            t.PartitionCreated(
                node="c1", topic="t", partition=0, broker="b1", replicas=NODES, isr=NODES, leader_epoch=0,
                partition_epoch=0, min_isr=self.min_isr, reason="the scenario assigns it",
            )
        )  # fmt: skip
        self._roles("the controller created the partition")

    def _roles(self, reason: str) -> None:
        for node in NODES:
            if node not in self.running:
                continue
            ends: dict[str, Any] = {
                "log_end_offset": len(self.logs[node]),
                "high_watermark": self.high_watermarks[node],
            }
            place: dict[str, Any] = {"topic": "t", "partition": 0, "leader_epoch": self.epoch}
            place["partition_epoch"] = self.partition_epoch
            if node == self.leader:
                self.emit(t.LeadershipBegan(node=node, isr=self.isr, reason=reason, **place, **ends))
            else:
                self.emit(t.FollowingBegan(node=node, broker=self.leader, reason=reason, **place, **ends))

    def append(self, node: str, record: str, epoch: int) -> None:
        self.logs[node].append((record, epoch))
        end = len(self.logs[node])
        self.emit(
            t.BatchAppended(
                node=node, role="leader" if node == self.leader else "follower", topic="t", partition=0,
                leader_epoch=epoch, base_offset=end - 1, last_offset=end - 1, log_end_offset=end, size_bytes=100,
                crc=self.crc(record), producer_id=-1, producer_epoch=-1, base_sequence=-1,
            )
        )  # fmt: skip

    @staticmethod
    def crc(record: str) -> int:
        return int.from_bytes(record.encode().ljust(4, b"-")[-4:], "big")

    def send(self, record: str, client: str = "p1") -> None:
        self.emit(t.RecordSent(client=client, topic="t", partition=0, record=record, acks=self.acks))

    def produce(self, record: str, client: str = "p1", ack: bool = True) -> None:
        """Send, append on the leader, and (by default) ack a millisecond later."""
        assert self.leader
        self.send(record, client)
        self.emit(
            t.BatchSent(
                client=client, peer=self.leader, topic="t", partition=0, records=(record,), crc=self.crc(record),
                attempt=1, acks=self.acks, producer_id=-1, base_sequence=-1,
            )
        )  # fmt: skip
        self.append(self.leader, record, self.epoch)
        if ack:
            self.log.at_us += 1000
            self.ack(record, client)

    def ack(self, record: str, client: str = "p1", latency_us: int = 1000) -> None:
        assert self.leader
        offset = [name for name, _ in self.logs[self.leader]].index(record)
        self.emit(
            t.RecordAcked(
                client=client, peer=self.leader, topic="t", partition=0, record=record, offset=offset, acks=self.acks,
                latency_us=latency_us,
            )
        )  # fmt: skip

    def fetch(self, follower: str) -> None:
        """One round of replication: the follower asks, gets what it lacks, and learns the high watermark."""
        assert self.leader
        have, leader_log = len(self.logs[follower]), self.logs[self.leader]
        self.emit(
            t.FollowerFetched(
                node=self.leader, peer=follower, topic="t", partition=0, leader_epoch=self.epoch, fetch_offset=have,
                log_end_offset=len(leader_log), high_watermark=self.high_watermarks[self.leader],
                in_isr=follower in self.isr,
            )
        )  # fmt: skip
        for record, epoch in leader_log[have:]:
            self.append(follower, record, epoch)

    def commit(self, reason: str = "every in-sync replica has these records") -> None:
        """The leader's high watermark moves to the smallest end in the ISR, and its followers learn it."""
        assert self.leader
        new = min(len(self.logs[node]) for node in self.isr)
        for node in (self.leader, *(n for n in NODES if n != self.leader and n in self.running)):
            if new <= self.high_watermarks[node] or new > len(self.logs[node]):
                continue
            kind = t.HighWatermarkAdvanced if node == self.leader else t.HighWatermarkLearned
            self.emit(
                kind(
                    node=node, role="leader" if node == self.leader else "follower", topic="t", partition=0,
                    leader_epoch=self.epoch, high_watermark=new, previous_high_watermark=self.high_watermarks[node],
                    log_end_offset=len(self.logs[node]), reason=reason,
                )
            )  # fmt: skip
            self.high_watermarks[node] = new

    def fault(self, verb: str, *targets: str, name: str, reason: str) -> None:
        self.emit(t.FaultBegan(fault=name, verb=verb, targets=targets, reason=reason))

    def fault_ends(self, verb: str, *targets: str, name: str, reason: str) -> None:
        self.emit(t.FaultEnded(fault=name, verb=verb, targets=targets, reason=reason))

    def stop(self, node: str, how: str = "kill") -> None:
        self.running.discard(node)
        self.emit(t.NodeStopped(node=node, how=how, reason=f"the scenario's {how} of {node}"))

    def start(self, node: str) -> None:
        self.running.add(node)
        self.emit(t.NodeStarted(node=node, role="broker", reason=f"the scenario starts {node} again"))
        self.emit(
            t.LogRecovered(
                node=node, topic="t", partition=0, clean=False, log_start_offset=0,
                log_end_offset=len(self.logs[node]), high_watermark=self.high_watermarks[node], size_bytes=0,
                reason="the log was scanned: every batch is whole",
            )
        )  # fmt: skip
        self._roles(f"{node} registered")

    def elect(self, leader: str, isr: tuple[str, ...], reason: str, clean: bool = True) -> None:
        previous, before = self.leader, self.isr
        self.leader, self.isr = leader, isr
        self.epoch += 1
        self.partition_epoch += 1
        self.emit(
            t.LeaderElected(
                node="c1", broker=leader, previous_leader=previous, topic="t", partition=0, leader_epoch=self.epoch,
                partition_epoch=self.partition_epoch, isr=isr, clean=clean, reason=reason,
            )
        )  # fmt: skip
        self._isr_committed(before, reason)
        self._roles("the controller said so")

    def change_isr(self, isr: tuple[str, ...], reason: str) -> None:
        """The leader proposes with `reason`; the controller, which does not know the reason, writes the ISR."""
        before, self.isr = self.isr, isr
        self.emit(
            t.IsrProposed(
                node=self.leader, topic="t", partition=0, leader_epoch=self.epoch, partition_epoch=self.partition_epoch,
                isr=isr, previous_isr=before, reason=reason,
            )
        )  # fmt: skip
        self.partition_epoch += 1
        self._isr_committed(before, f"{self.leader} proposed it as leader", proposed_by=self.leader)

    def _isr_committed(self, before: tuple[str, ...], reason: str, proposed_by: str | None = None) -> None:
        self.emit(
            t.IsrCommitted(
                node="c1", topic="t", partition=0, leader_epoch=self.epoch, partition_epoch=self.partition_epoch,
                isr=self.isr, previous_isr=before, proposed_by=proposed_by, reason=reason,
            )
        )  # fmt: skip

    def truncate(self, node: str, end: int, reason: str) -> None:
        before = len(self.logs[node])
        del self.logs[node][end:]
        hw = min(end, self.high_watermarks[node])
        self.emit(
            t.LogTruncated(
                node=node, topic="t", partition=0, leader_epoch=self.epoch, log_end_offset=end,
                previous_log_end_offset=before, high_watermark=hw,
                previous_high_watermark=self.high_watermarks[node], reason=reason,
            )
        )  # fmt: skip
        self.high_watermarks[node] = hw

    def read(self, offset: int, record: str, client: str = "c1r") -> None:
        self.emit(
            t.RecordRead(
                client=client, peer=self.leader or "b1", topic="t", partition=0, offset=offset, record=record,
                leader_epoch=self.epoch,
            )
        )  # fmt: skip

    def finish(self) -> None:
        for node in NODES:
            for offset, (record, epoch) in enumerate(self.logs[node]):
                self.emit(
                    t.LogEntryFound(
                        node=node, topic="t", partition=0, offset=offset, record=record, leader_epoch=epoch,
                        crc=self.crc(record),
                    )
                )  # fmt: skip
            self.emit(
                t.ReplicaFound(
                    node=node, topic="t", partition=0, log_start_offset=0, log_end_offset=len(self.logs[node]),
                    high_watermark=self.high_watermarks[node],
                    is_leader=node == self.leader and node in self.running,
                    in_isr=node in self.isr, running=node in self.running,
                )
            )  # fmt: skip
        self.emit(t.RunFinished(reason="the scenario's time is over"))
        self.writer.close()


def leader_kill(run_dir: Path) -> None:
    """acks=1: r3 and r4 are acked by b1 alone, b1 dies, b2 leads without them; b1 comes back and truncates."""
    story = Story(run_dir)
    story.begin("acks1-leader-kill")
    for i in range(3):
        story.at(1 + i).produce(f"r{i}")
        story.at(1.1 + i).fetch("b2")
        story.fetch("b3")
        story.at(1.2 + i).fetch("b2")
        story.fetch("b3")
        story.commit()
    for i in range(3):
        story.at(4 + i / 10).read(i, f"r{i}")
    story.at(5).fault("hold", "b1", "b2", "b3", name="freeze", reason="fetch answers from b1 are held")
    story.at(5.1).produce("r3")
    story.at(5.2).produce("r4")
    story.at(5.5).fault("kill", "b1", name="victim", reason="b1 is killed: its process ends, its disk stays")
    story.stop("b1")
    story.at(6).send("r5")
    story.at(6.1).emit(
        t.BatchRefused(
            client="p1", peer="b1", topic="t", partition=0, records=("r5",), crc=Story.crc("r5"), attempt=1,
            error="NETWORK_EXCEPTION", will_retry=True, reason="the connection to b1 is gone",
        )
    )  # fmt: skip
    story.at(14).elect("b2", ("b2", "b3"), "b1 was fenced; b2 is the first live replica of the ISR {b1, b2, b3}")
    story.at(14.2)
    story.append("b2", "r5", 1)
    story.at(14.201).ack("r5", latency_us=8_201_000)
    story.at(14.3).fetch("b3")
    story.at(14.4).fetch("b3")
    story.commit()
    story.at(14.5).read(3, "r5")
    story.at(20).fault("start", "b1", name="start-1", reason="b1 is started")
    story.start("b1")
    story.at(20.1).truncate("b1", 3, "epoch 0 ends at 3 on the leader b2: r3 and r4 are not part of its log")
    story.at(20.2).fetch("b1")
    story.at(20.3).fetch("b1")
    story.commit()
    story.at(20.4).change_isr(NODES, "b1 has caught up with the leader's end")
    story.at(30).fault_ends("hold", "b1", "b2", "b3", name="freeze", reason="the hold is over")
    story.finish()
