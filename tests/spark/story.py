"""Runs made by hand for the reports: the steps of a partition t-0 on b1, b2, b3, each as all its events.

This is not a second simulator: a step only looks at what each replica has, so that one line can state its events.
"""

from __future__ import annotations

from pathlib import Path

from replica.trace import events as t
from scenarios.observe.trace_writer import TraceWriter
from tests.trace_builder import BROKERS, TraceBuilder


class Story(TraceBuilder):
    """Steps at the time set by `at`, written to disk; `finish` states what the disks hold and ends the run."""

    def __init__(self, run_dir: Path, min_isr: int = 2) -> None:
        self.writer = TraceWriter(run_dir / "trace")
        super().__init__([self.writer])
        self.min_isr = min_isr
        self.running = set(self.brokers)

    def begin(self, scenario: str = "a-story", variant: str | None = None) -> None:
        self.emit(
            t.RunStarted(scenario=scenario, variant=variant, seed=1, profile="kafka-3.9", title="the scenario was run")
        )
        for node in self.brokers:
            self.start(node, incarnation=1)
        self.create(self.min_isr)
        self._roles("the controller created the partition")

    def _roles(self, reason: str) -> None:
        for node in self.brokers:
            if node == self.leader and node in self.running:
                self.leads(node, self.epoch)
            elif node in self.running:
                self.follows(node, self.leader, self.epoch)

    def write(self, node: str, record: str, epoch: int) -> None:
        """Append at the end of the node's log."""
        self.append(node, self.ends[node], record, epoch=epoch)

    def produce(self, record: str, client: str = "p1", ack: bool = True) -> None:
        """Send, append on the leader, and (by default) ack a millisecond later."""
        offset = self.ends[self.leader]
        self.send(record, client=client)
        self.request(record, self.leader, client=client)
        self.write(self.leader, record, self.epoch)
        if ack:
            self.log.at_us += 1000
            self.ack(record, offset, self.leader, client=client, latency_us=1000)

    def replicate(self, follower: str) -> None:
        """The follower fetches once, from its end, and appends all that it lacks."""
        end = self.ends[follower]
        self.fetch(follower, end, in_isr=follower in self.isr)
        for offset, (record, epoch) in self.logs[self.leader].items():
            if offset >= end:
                self.append(follower, offset, record, epoch=epoch)

    def commit(self) -> None:
        """The leader's high watermark moves to the smallest end in the ISR, and its followers learn it."""
        new = min(self.ends[node] for node in self.isr)
        for node in (self.leader, *(n for n in self.brokers if n != self.leader and n in self.running)):
            if new <= self.high_watermarks[node] or new > self.ends[node]:
                continue
            if node == self.leader:
                self.advance(new)
            else:
                self.learn(node, new)

    def take_down(self, node: str, how: str = "kill") -> None:
        self.running.discard(node)
        self.stop(node, how)

    def restart(self, node: str) -> None:
        self.running.add(node)
        self.start(node)
        self.recover(node, self.ends[node], hw=self.high_watermarks[node])
        self._roles(f"{node} registered")

    def change_leader(self, leader: str, isr: tuple[str, ...], clean: bool = True) -> None:
        """The controller elects a leader and writes the ISR; all that run learn of it at once."""
        before = self.isr
        self.elect(leader, *isr, clean=clean)
        self.leader, self.epoch = leader, self.epoch + 1
        self.commit_isr(*isr, partition_epoch=self.partition_epoch, previous=before)
        self._roles("the controller said so")

    def change_isr(self, isr: tuple[str, ...]) -> None:
        """The leader proposes; the controller, which does not know why, writes the ISR."""
        self.propose(isr)
        self.commit_isr(*isr, by=self.leader)

    def finish(self) -> None:
        for node in self.brokers:
            entries = list(self.logs[node].values())
            running = node in self.running
            self.find(
                node, *(record for record, _ in entries), epochs=[epoch for _, epoch in entries],
                hw=self.high_watermarks[node], leader=running and node == self.leader, in_isr=node in self.isr,
                running=running,
            )  # fmt: skip
        self.emit(t.RunFinished(lasted_us=0))
        self.writer.close()


def leader_kill(run_dir: Path) -> None:
    """acks=1: r3 and r4 are acked by b1 alone, b1 dies, b2 leads without them; b1 comes back and truncates."""
    story = Story(run_dir)
    story.begin("acks1-leader-kill")
    for i in range(3):
        story.at(1 + i).produce(f"r{i}")
        story.at(1.1 + i).replicate("b2")
        story.replicate("b3")
        story.at(1.2 + i).replicate("b2")
        story.replicate("b3")
        story.commit()
    for i in range(3):
        story.at(4 + i / 10).read(f"r{i}", i, by="c1r")
    story.at(5).fault("hold", "b1", "b2", "b3", name="freeze", effect="fetch answers from b1 are held")
    story.at(5.1).produce("r3")
    story.at(5.2).produce("r4")
    story.at(5.5).fault("kill", "b1", name="victim", effect="b1 is killed: its process ends, its disk stays")
    story.take_down("b1")
    story.at(6).send("r5")
    story.at(6.1).refuse("r5", "NETWORK_EXCEPTION", message="the connection to b1 is gone")
    story.at(14).change_leader("b2", ("b2", "b3"))
    story.at(14.2)
    story.write("b2", "r5", 1)
    story.at(14.201).ack("r5", 3, "b2", latency_us=8_201_000)
    story.at(14.3).replicate("b3")
    story.at(14.4).replicate("b3")
    story.commit()
    story.at(14.5).read("r5", 3, by="c1r")
    story.at(20).fault("start", "b1", name="start-1", effect="b1 is started")
    story.restart("b1")
    story.at(20.1).truncate("b1", 3)
    story.at(20.2).replicate("b1")
    story.at(20.3).replicate("b1")
    story.commit()
    story.at(20.4).change_isr(BROKERS)
    story.at(30).fault_ends("hold", "b1", "b2", "b3", name="freeze", effect="the hold is over")
    story.finish()
