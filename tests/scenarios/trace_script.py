"""Traces written by hand for the judges: the invariants, the verdict, what a run explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from replica.ids import TopicPartition
from replica.rules import PROFILES, Rules
from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.check.invariants.checker import InvariantChecker
from scenarios.check.verdict import Verdict, judge
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.view import ClusterView
from tests.trace_builder import BROKERS, CONTROLLER, TraceBuilder

T0 = TopicPartition("t", 0)
HERE: dict[str, Any] = {"topic": "t", "partition": 0}
CRC_OF_FIRST = 1000


class TraceScript(TraceBuilder):
    """A trace that the judges of a run listen to. A record's crc is 1000 + its number."""

    def __init__(
        self,
        *,
        min_isr: int = 2,
        brokers: Sequence[str] = BROKERS,
        begin: bool = True,
        rules: Rules = PROFILES["kafka-3.9"],
        producer_expiration_us: int | None = None,
    ) -> None:
        self.view = ClusterView(brokers, (CONTROLLER,), ("p1", "r1"))
        self.mirror = LogMirror()
        self.ledger = RecordLedger(self.mirror.deleted, self.mirror.sent.names)
        self.checker = InvariantChecker(self.view, self.mirror, rules, producer_expiration_us=producer_expiration_us)
        self.rows: list[TraceRow] = []
        listeners: list[Callable[[TraceRow], None]] = [
            self.view,
            self.mirror,
            self.ledger,
            self.checker,
            self.rows.append,
        ]
        super().__init__(listeners, brokers)
        if begin:
            self._begin(min_isr)

    def _begin(self, min_isr: int) -> None:
        self.emit(trace.RunStarted(scenario="by-hand", variant=None, seed=1, profile="kafka-3.9", title="begins"))
        self.start(CONTROLLER, "controller", incarnation=1)
        for number, node in enumerate(self.brokers):
            self.start(node, incarnation=1)
            self.register(node, number)
            self.unfence(node)
        self.create(min_isr)
        self.leads(self.leader, 0, 0)
        for node in self.brokers[1:]:
            self.follows(node, self.leader, 0, 0)
        self.at(1)

    def crc(self, record: str) -> int:
        return crc_of(record)

    def replicate(self, *names: str, acks: int = 1, via: Sequence[str] = ("b2", "b3")) -> None:
        """The ordinary life of records: sent, appended, copied, committed, acked."""
        leader = self.leader
        for name in names:
            offset = self.ends[leader]
            self.send(name, acks=acks)
            self.request(name, leader, acks=acks)
            self.append(leader, offset, name)
            for follower in via:
                self.append(follower, offset, name)
                self.fetch(follower, offset + 1)
            self.advance(offset + 1)
            self.ack(name, offset, leader, acks=acks)

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
