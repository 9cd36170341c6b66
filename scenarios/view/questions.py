"""The page's questions before a decisive moment. Every answer is read from the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica.ids import INTERNAL_TOPICS, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from replica.trace.ranges import format_record_names
from replica.wording import duration
from scenarios.language.steps import AnswerFromTrace, ScenarioQuestion
from scenarios.observe.view import ClusterView, PartitionView
from scenarios.view.places import NOTHING
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


class _Asker(Listener):
    """Follows the run and asks before what a reader can work out."""

    def __init__(self, tape: Tape, lost: tuple[str, ...]) -> None:
        self.tape = tape
        self.lost = lost
        self.found: list[Question] = []
        self.view = ClusterView((), ())
        self._acked: dict[TopicPartition, dict[str, int]] = {}
        self._has_asked_of_survival = False

    def __call__(self, row: TraceRow) -> None:
        if getattr(row.event, "topic", None) not in INTERNAL_TOPICS:
            super().__call__(row)
        self.view(row)

    @on(trace.RecordAcked)
    def _record_acked(self, row: TraceRow, event: trace.RecordAcked) -> None:
        self._acked.setdefault(TopicPartition(event.topic, event.partition), {})[event.record] = event.offset

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

    @on(trace.NodeStopped)
    def _leader_dies(self, row: TraceRow, event: trace.NodeStopped) -> None:
        """Once a run: which of the acked records survive?"""
        for name, partition in self.view.partitions.items() if event.how != "stop" else ():
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

    @on(trace.LeaderElected)
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
        self._ask(row, ask, [*partition.assigned, "no broker"], event.broker or "no broker", event.sentence())

    @on(trace.PartitionWentOffline)
    def _offline(self, row: TraceRow, event: trace.PartitionWentOffline) -> None:
        partition = self.view.partitions.get(TopicPartition(event.topic, event.partition))
        if partition is not None:
            ask = f"Who leads {event.topic}-{event.partition} next? ISR {{{', '.join(partition.isr)}}}"
            self._ask(row, ask, [*partition.assigned, "no broker"], "no broker", event.sentence())

    @on(trace.LogTruncated)
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
        self._ask(row, ask, options, f"it cuts its log back to {after}", event.sentence())


# -------------------------------------------------------------------------------------------- questions of the scenario
#
# The scenario's own questions on the page of its run.

Answered = tuple[list[str], str, str]
"""(options, the right one, why)"""

NONE = "none"
_FATES = {
    (True, True): "it is acked, and in the log at the end",
    (True, False): "it is acked, and lost",
    (False, True): "it is not acked, and in the log all the same",
    (False, False): "it is not acked, and not in the log",
}
"""By (acked, in the log)."""


def place_of(question: ScenarioQuestion, tape: Tape) -> int | None:
    """The place on the tape that the page stops in front of; None if the run has no such moment."""
    kind = tape.kinds.known(question.before)
    for place, at_us in enumerate(tape.at_us):
        if question.at_us is not None and at_us >= question.at_us:
            return place
        if kind != NOTHING and tape.kind[place] == kind:
            return place
    return None


def answered(question: ScenarioQuestion, rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> Answered | None:
    """None if the run does not answer it.

    A written answer is about the run that the file describes, so it counts only where the file's expectations held.
    """
    asked = question.answer_from
    found: Answered | None = None
    if asked is not None:
        found = _ANSWERS[asked.kind](asked, rows, summary)
    elif question.answer is not None and summary.get("held"):
        found = list(question.choices), question.answer, question.answer
    if found is None:
        return None
    options, answer, why = found
    return options, answer, (question.because or why).rstrip(".")


def _moment(asked: AnswerFromTrace) -> str:
    return "At the end of the run" if asked.by_us is None else f"At {duration(asked.by_us)}"


def _states(asked: AnswerFromTrace, rows: Sequence[TraceRow]) -> Iterator[tuple[PartitionView, bool]]:
    """The partition after each event, and whether that is at or before the moment of the answer."""
    view = ClusterView((), ())
    for row in rows:
        view(row)
        partition = next((one for name, one in view.partitions.items() if str(name) == asked.of), None)
        if partition is not None:
            yield partition, asked.by_us is None or row.at_us <= asked.by_us


def _leader(asked: AnswerFromTrace, rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> Answered | None:
    found: str | None = None
    assigned: tuple[str, ...] = ()
    for partition, counts in _states(asked, rows):
        assigned = partition.assigned
        found = partition.leader or NONE if counts else found
    if found is None:
        return None
    options = list(dict.fromkeys([*assigned, NONE, found]))
    return options, found, f"{_moment(asked)} the leader of {asked.of} is: {found}"


def _isr(asked: AnswerFromTrace, rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> Answered | None:
    found: str | None = None
    options: dict[str, None] = {}
    for partition, counts in _states(asked, rows):
        text = ", ".join(sorted(partition.isr)) or NONE
        options.update(dict.fromkeys((", ".join(sorted(partition.assigned)), partition.assigned[0], text)))
        found = text if counts else found
    if found is None:
        return None
    return sorted(options, key=lambda text: (-text.count(","), text)), found, f"{_moment(asked)} the ISR is: {found}"


def _hw(asked: AnswerFromTrace, rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> Answered | None:
    found, end = None, 0
    for partition, counts in _states(asked, rows):
        replica = partition.replicas.get(partition.leader or "")
        if counts and replica is not None:
            found, end = replica.high_watermark, max(end, replica.log_end_offset)
    if found is None:
        return None
    # The shortest and the longest log are the answers of a reader who guesses.
    return _numbers(found, end, found // 2), str(found), f"{_moment(asked)} the high watermark of {asked.of} is {found}"


def _fate(asked: AnswerFromTrace, rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> Answered | None:
    is_acked = asked.of in summary["records"]["acked"]
    is_there = any(asked.of in log for log in summary["logs"].values())
    answer = _FATES[is_acked, is_there]
    return list(_FATES.values()), answer, f"{asked.of}: {answer}"


def _number_of(asked: AnswerFromTrace, rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> Answered | None:
    count = len(summary["records"].get(asked.of, ()))  # Of expired ones a run says something only if it has some.
    sent = int(summary["records"]["sent"])
    return _numbers(count, sent, max(1, count // 2)), str(count), f"{count} of {sent} records are {asked.of}"


def _numbers(*values: int) -> list[str]:
    return [str(value) for value in sorted({0, *values})]


_ANSWERS: dict[str, Callable[[AnswerFromTrace, Sequence[TraceRow], Mapping[str, Any]], Answered | None]] = {
    "leader": _leader,
    "isr": _isr,
    "hw": _hw,
    "fate": _fate,
    "number_of": _number_of,
}
