"""The scenario's own questions on the page of its run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from replica.trace.events import TraceRow
from replica.wording import duration
from scenarios.language.steps import AnswerFromTrace, ScenarioQuestion
from scenarios.observe.view import ClusterView, PartitionView
from scenarios.view.places import NOTHING
from scenarios.view.tape import Tape

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
