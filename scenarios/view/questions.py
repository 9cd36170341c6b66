"""The page's questions before a decisive moment. Every answer is read from the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica.ids import INTERNAL_TOPICS, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.ranges import format_record_names
from scenarios.language.steps import ScenarioQuestion
from scenarios.observe.view import ClusterView
from scenarios.view.own_questions import answered, place_of
from scenarios.view.tape import Tape

QUESTIONS_MAX = 8


@dataclass(frozen=True, slots=True)
class Question:
    """before: the place on the tape that the page stops in front of; answer: place in options"""

    before: int
    ask: str
    options: tuple[str, ...]
    answer: int
    because: str

    def as_json(self) -> list[Any]:
        return [self.before, self.ask, list(self.options), self.answer, self.because]


def questions_of(
    rows: Sequence[TraceRow], tape: Tape, summary: Mapping[str, Any], own: Sequence[ScenarioQuestion] = ()
) -> list[Question]:
    """In the order of the run, at most QUESTIONS_MAX. own: those of the scenario, which come before the others"""
    asker = _Asker(tape, tuple(summary["records"]["lost"]))
    for question in own:
        place, found = place_of(question, tape), answered(question, rows, summary)
        if place is not None and found is not None:
            asker.ask_at(place, question.ask, *found)
    room = QUESTIONS_MAX - len(asker.found)
    asker.found, chosen = [], asker.found
    for row in rows:
        asker(row)
    chosen += sorted(asker.found, key=lambda question: question.before)[:room]
    return sorted(chosen, key=lambda question: question.before)


class _Asker:
    """Follows the run and asks before what a reader can work out."""

    def __init__(self, tape: Tape, lost: tuple[str, ...]) -> None:
        self.tape = tape
        self.lost = lost
        self.found: list[Question] = []
        self.view = ClusterView((), ())
        self._acked: dict[TopicPartition, dict[str, int]] = {}
        self._has_asked_of_survival = False

    def __call__(self, row: TraceRow) -> None:
        event = row.event
        if getattr(event, "topic", None) not in INTERNAL_TOPICS:
            if isinstance(event, trace.RecordAcked):
                name = TopicPartition(event.topic, event.partition)
                self._acked.setdefault(name, {})[event.record] = event.offset
            elif isinstance(event, trace.NodeStopped) and event.how != "stop":
                self._leader_dies(row, event)
            elif isinstance(event, trace.LeaderElected):
                self._elected(row, event)
            elif isinstance(event, trace.PartitionWentOffline):
                self._offline(row, event)
            elif isinstance(event, trace.LogTruncated):
                self._truncated(row, event)
        self.view(row)

    def _ask(self, row: TraceRow, ask: str, options: Sequence[str], answer: str, because: str) -> None:
        place = self.tape.places.get(row.seq)
        if place is not None:
            self.ask_at(place, ask, options, answer, because)

    def ask_at(self, place: int, ask: str, options: Sequence[str], answer: str, because: str) -> None:
        if len(set(options)) < 2:
            return
        while place > 0 and self.tape.at_us[place - 1] == self.tape.at_us[place]:
            place -= 1  # Events of the same instant would give the answer away.
        distinct = tuple(dict.fromkeys(options))
        self.found.append(Question(place, ask, distinct, distinct.index(answer), because))

    def _leader_dies(self, row: TraceRow, event: trace.NodeStopped) -> None:
        """Once a run: which of the acked records survive?"""
        for name, partition in self.view.partitions.items():
            replica = partition.replicas.get(event.node)
            acked = self._acked.get(name)
            if partition.leader != event.node or replica is None or not acked or self._has_asked_of_survival:
                continue
            self._has_asked_of_survival = True
            at_risk = [record for record, offset in acked.items() if offset >= replica.high_watermark]
            gone = [record for record in acked if record in self.lost]
            options = ["all of them", "none of them"]
            if at_risk and len(at_risk) < len(acked):
                options.insert(1, f"all but {format_record_names(at_risk)}")
            answer = "all of them"
            if gone:
                answer = "none of them" if len(gone) == len(acked) else f"all but {format_record_names(gone)}"
            if answer not in options:
                options.insert(1, answer)
            ask = (
                f"{event.node}, the leader of {name}, is about to go down. Its LEO is {replica.log_end_offset}, its HW"
                f" {replica.high_watermark}. Which of the {len(acked)} acked records are in the log at the end?"
            )
            lasting = f"Lost at the end: {format_record_names(gone)}" if gone else "Every acked record is in the log"
            self._ask(row, ask, options, answer, lasting)

    def _elected(self, row: TraceRow, event: trace.LeaderElected) -> None:
        partition = self.view.partitions.get(TopicPartition(event.topic, event.partition))
        if partition is None:
            return
        ends = ", ".join(
            f"{node} {replica.log_end_offset}" for node, replica in partition.replicas.items() if replica.open
        )
        ask = f"Who leads {event.topic}-{event.partition} next? ISR {{{', '.join(partition.isr)}}}" + (
            f"; LEO: {ends}" if ends else ""
        )
        self._ask(row, ask, [*partition.assigned, "no broker"], event.broker or "no broker", event.reason)

    def _offline(self, row: TraceRow, event: trace.PartitionWentOffline) -> None:
        partition = self.view.partitions.get(TopicPartition(event.topic, event.partition))
        if partition is not None:
            ask = f"Who leads {event.topic}-{event.partition} next? ISR {{{', '.join(partition.isr)}}}"
            self._ask(row, ask, [*partition.assigned, "no broker"], "no broker", event.reason)

    def _truncated(self, row: TraceRow, event: trace.LogTruncated) -> None:
        before, after = event.previous_log_end_offset, event.log_end_offset
        if before == after:
            return
        name = f"{event.topic}-{event.partition}"
        ends = sorted({after, event.previous_high_watermark, 0} - {before})
        options = [f"it keeps all {before}", *(f"it cuts its log back to {end}" for end in ends)]
        ask = (
            f"{event.node} follows in epoch {event.leader_epoch}, with LEO {before}. What happens to its log of {name}?"
        )
        self._ask(row, ask, options, f"it cuts its log back to {after}", event.reason)
