"""Creates the questions that the page asks its reader before decisive moments. The trace has all answers.

1. A question lists all steps between its own moment and that of its answer, and is not asked if they are too many. It
   reveals nothing else that the reader has not seen.
2. An answer must not reveal the answer to another question. `known` is the index on the tape of the event from which
   the run itself shows the answer.
3. Options that earlier events have refuted are left out.
4. No two questions have the same subject. For example, only one asks which records are lost.
5. Steps, elections and truncated logs come first. A run with few of them also gets questions about everyday events: a
   change of an ISR, the time until a follower learns a high watermark, the fate of a record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from replica.ids import INTERNAL_TOPICS, TopicPartition
from replica.trace import events as trace
from replica.trace.events import EVENT_NAMES, TraceRow
from replica.trace.listening import Listener, on
from replica.trace.ranges import format_record_names
from replica.wording import duration
from scenarios.language.spec import Scenario
from scenarios.language.steps import AnswerFromTrace, ScenarioQuestion
from scenarios.language.write.describe import unlabelled_sentence
from scenarios.observe.view import ClusterView, PartitionView
from scenarios.view.places import NOTHING
from scenarios.view.tape import Tape, partition_name

Answered = tuple[Sequence[str], str, str]
"""(options, correct option, reason)."""

QUESTIONS_MAX = 8
FEW = 2
"""Number of questions below which a run also gets questions about everyday events."""
NO_BROKER = "no broker"
_ENDS = {"kill": "be killed", "power_off": "lose its power", "died": "be killed from outside"}
"""Text in a question about a node that is about to stop, by the way in which it stops."""
STEPS_TOLD_MAX = 3
"""Largest number of future steps that a question may list. A scenario's own questions have no limit."""
OF_STEPS = (trace.FaultBegan, trace.FaultEnded, trace.NodeStopped, trace.NodeStarted)


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a run.

    Attributes:
        before: index on the tape of the event before which the page asks the question.
        answer: index of the correct option.
        because: reason for the answer.
        known: index on the tape of the event that shows the answer.
        partition: index on the tape of the partition in question, NOTHING if there is none.
    """

    before: int
    ask: str
    options: tuple[str, ...]
    answer: int
    because: str
    known: int
    partition: int

    def as_json(self) -> list[Any]:
        return [self.before, self.ask, list(self.options), self.answer, self.because, self.known, self.partition]


def questions_of(
    rows: Sequence[TraceRow], tape: Tape, summary: Mapping[str, Any], scenario: Scenario | None = None
) -> list[Question]:
    """Return at most QUESTIONS_MAX questions for a run, in order of time. The scenario's own questions come first."""
    asker = _Asker(tape, tuple(summary["records"]["lost"]), _Plan(rows, tape, scenario))
    for question in scenario.questions if scenario else ():
        index, found = place_of(question, tape), answered(question, rows, summary)
        if index is not None and found is not None:
            asker.ask_of_scenario(index, question, found, rows)
    room = QUESTIONS_MAX - len(asker.found)
    asker.found, chosen = [], asker.found
    for row in rows:
        asker(row)
    chosen += sorted(asker.found, key=lambda question: question.before)[:room]
    if len(chosen) < FEW:
        everyday = _Everyday(tape, asker.plan, summary)
        for row in rows:
            everyday(row)
        chosen += everyday.found
    return sorted(chosen, key=lambda question: question.before)


class _Plan:
    """The steps of the timeline, with the times at which they were performed in this run."""

    def __init__(self, rows: Sequence[TraceRow], tape: Tape, scenario: Scenario | None) -> None:
        self._began = [
            (row.at_us, tape.places.get(row.seq, NOTHING), row.event)
            for row in rows
            if isinstance(row.event, trace.FaultBegan)
        ]
        self._steps = {step.name: step for step in (scenario.timeline if scenario else ())}

    def still_to_come(self, index: int, after_us: int, until_us: int) -> list[str] | None:
        """Return sentences about the future steps between two times, without the nodes that a selector will match.

        Args:
            index: index on the tape of the event before which a question is asked.

        Returns:
            The sentences, or None if a future step is not in the scenario.
        """
        found: list[str] = []
        targets = {event.fault: ", ".join(event.targets) for _, at, event in self._began if at < index}
        timeline = list(self._steps.values())
        for at_us, at, event in self._began:
            if after_us <= at_us <= until_us and at >= index:
                if event.fault not in self._steps:
                    return None
                sentence = unlabelled_sentence(self._steps[event.fault], timeline, targets)
                found.append(f"{sentence} at {duration(at_us)}")
        return found


class _Questions(Listener):
    """Base class of the listeners that follow a run and create questions about its events."""

    def __init__(self, tape: Tape, plan: _Plan) -> None:
        self.tape = tape
        self.plan = plan
        self.found: list[Question] = []
        self._of_steps = [tape.kinds.known(EVENT_NAMES[kind]) for kind in OF_STEPS]
        self._partitions = tape.partitions_with_records()

    def __call__(self, row: TraceRow) -> None:
        if getattr(row.event, "topic", None) not in INTERNAL_TOPICS and self._place_of(row) in self._partitions:
            super().__call__(row)

    def _place_of(self, row: TraceRow) -> int:
        return self.tape.partitions.known(partition_name(row.event))

    def _ask(self, row: TraceRow, ask: str, options: Sequence[str], answer: str, because: str) -> None:
        """Add a question that the event of this row answers."""
        index = self.tape.places.get(row.seq)
        if index is not None:
            self._put(self._before(index), ask, (options, answer, because), index, self._place_of(row))

    def _put(self, index: int, ask: str, found: Answered, known: int, partition: int = NOTHING) -> None:
        options, answer, because = found
        distinct = tuple(dict.fromkeys(options))
        if len(distinct) > 1:
            self.found.append(Question(index, ask, distinct, distinct.index(answer), because, known, partition))

    def _before(self, index: int) -> int:
        """Return the index on the tape before which to ask about the event at `index`.

        Earlier events with the same time come after the question, since they may reveal the answer. Steps do not.
        """
        tape = self.tape
        while index > 0 and tape.at_us[index - 1] == tape.at_us[index] and tape.kind[index - 1] not in self._of_steps:
            index -= 1
        return index


class _Asker(_Questions):
    """Listener that creates questions about steps, elections and truncated logs."""

    def __init__(self, tape: Tape, lost: tuple[str, ...], plan: _Plan) -> None:
        super().__init__(tape, plan)
        self.lost = lost
        self.view = ClusterView((), ())
        self.seen = ClusterView((), ())
        """The state before all events with the current time, which the reader has not seen when the page asks."""
        self._instant: list[TraceRow] = []
        self._acked: dict[TopicPartition, dict[str, int]] = {}
        self._has_asked_of_survival = False
        self._has_asked_of_keeping = False
        self._following: dict[tuple[str, TopicPartition], trace.FollowingBegan] = {}
        """The event with which each replica became a follower, until its log changes."""

    def __call__(self, row: TraceRow) -> None:
        if self._instant and self._instant[-1].at_us != row.at_us:
            for earlier in self._instant:
                self.seen(earlier)
            self._instant = []
        super().__call__(row)
        self.view(row)
        self._instant.append(row)

    @on(trace.RecordAcked)
    def _record_acked(self, row: TraceRow, event: trace.RecordAcked) -> None:
        self._acked.setdefault(TopicPartition(event.topic, event.partition), {})[event.record] = event.offset

    def ask_of_scenario(
        self, index: int, question: ScenarioQuestion, found: Answered, rows: Sequence[TraceRow]
    ) -> None:
        """Add a question of the scenario file.

        Args:
            index: index on the tape of the event before which the question is asked.
            found: the options and the answer.
        """
        options, answer, because = found
        asked, before = question.answer_from, self._before(index)
        until_us = self.tape.end_us if asked is None or asked.by_us is None else asked.by_us
        to_come = self.plan.still_to_come(before, self.tape.at_us[index], until_us)
        if to_come is None:
            return
        if asked is not None:
            seen_us = self.tape.at_us[before - 1] if before else NOTHING
            options = _not_refuted(asked, options, answer, [row for row in rows if row.at_us <= seen_us], bool(to_come))
        known = bisect_right(self.tape.at_us, until_us) - 1
        self._has_asked_of_survival |= asked is not None and asked.kind in ("fate", "number_of")
        partition = self.tape.partitions.known(asked.of if asked else None)
        self._put(before, _with_steps(question.ask, to_come), (options, answer, because), known, partition)

    @on(trace.NodeStopped)
    def _leader_dies(self, row: TraceRow, event: trace.NodeStopped) -> None:
        """Ask which of the acked records will survive, when the first leader in the run dies."""
        for name, partition in self.view.partitions.items() if event.how != "stop" else ():
            replica = partition.replicas.get(event.node)
            acked = self._acked.get(name)
            if partition.leader != event.node or replica is None or not acked or self._has_asked_of_survival:
                continue
            self._has_asked_of_survival = True
            index = self.tape.places.get(row.seq)
            to_come = self.plan.still_to_come(0, row.at_us + 1, self.tape.end_us)
            if index is None or to_come is None or len(to_come) > STEPS_TOLD_MAX:
                continue
            at_risk = [record for record, offset in acked.items() if offset >= replica.high_watermark]
            gone = [record for record in acked if record in self.lost]
            # If no record is at risk, offer the loss of the latest record as an option.
            thinkable = [[], at_risk or list(acked)[-1:], gone, list(acked)]
            if any(end > min(acked.values()) for end in self._ends_of_followers(name, event.node)):
                thinkable.pop()  # The reader has seen that a follower has some of the records, so not all can be lost.
            options = [_all_but(names, len(acked)) for names in sorted(thinkable, key=len)]
            ends = _ENDS.get(event.how, "end")
            ask = (
                f"{event.node}, the leader of {name}, is about to {ends}. Its LEO is {replica.log_end_offset}, its HW"
                f" {replica.high_watermark}. Which of the {len(acked)} acked records are in the log at the end?"
            )
            lasting = f"Lost at the end: {format_record_names(gone)}" if gone else "Every acked record is in the log"
            asked, end = _with_steps(ask, to_come), len(self.tape) - 1
            found = options, _all_but(gone, len(acked)), lasting
            self._put(self._before(index), asked, found, end, self.tape.partitions.known(str(name)))

    def _ends_of_followers(self, name: TopicPartition, leader: str) -> list[int]:
        partition = self.seen.partitions.get(name)
        replicas = partition.replicas if partition else {}
        return [replica.log_end_offset for node, replica in replicas.items() if node != leader]

    @on(trace.LeaderElected)
    def _elected(self, row: TraceRow, event: trace.LeaderElected) -> None:
        self._ask_who_leads(row, TopicPartition(event.topic, event.partition), event.broker)

    @on(trace.PartitionWentOffline)
    def _offline(self, row: TraceRow, event: trace.PartitionWentOffline) -> None:
        self._ask_who_leads(row, TopicPartition(event.topic, event.partition), None)

    def _ask_who_leads(self, row: TraceRow, name: TopicPartition, leader: str | None) -> None:
        partition = self.seen.partitions.get(name)
        if partition is None:
            return
        ends = [f"{node} {replica.log_end_offset}" for node, replica in partition.replicas.items() if replica.open]
        ask = f"Who leads {name} next? ISR {{{', '.join(partition.isr)}}}" + (
            f"; LEO: {', '.join(ends)}" if ends else ""
        )
        possible = [node for node in partition.assigned if node == leader or self.view.running(node)]
        self._ask(row, ask, [*possible, NO_BROKER], leader or NO_BROKER, row.event.sentence())

    @on(trace.FollowingBegan)
    def _follows(self, row: TraceRow, event: trace.FollowingBegan) -> None:
        self._following[event.node, TopicPartition(event.topic, event.partition)] = event

    @on(trace.LogTruncated)
    def _truncated(self, row: TraceRow, event: trace.LogTruncated) -> None:
        before, after = event.previous_log_end_offset, event.log_end_offset
        self._following.pop((event.node, TopicPartition(event.topic, event.partition)), None)
        if before != after:
            self._ask_of_log(row, event.leader_epoch, before, {after, event.previous_high_watermark, 0}, after)

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        """Ask once per run about a follower's log that is not truncated, so that truncation is not always the answer.

        The log must be longer than its high watermark, to which followers truncated their logs before KIP-101.
        """
        began = self._following.pop((event.node, TopicPartition(event.topic, event.partition)), None)
        if began is None or self._has_asked_of_keeping or not 0 < began.high_watermark < began.log_end_offset:
            return
        if began.log_end_offset == event.base_offset and began.leader_epoch > 0:
            self._has_asked_of_keeping = True
            end = began.log_end_offset
            self._ask_of_log(row, began.leader_epoch, end, {began.high_watermark, 0}, end)

    def _ask_of_log(self, row: TraceRow, epoch: int, before: int, cuts: set[int], after: int) -> None:
        """Ask whether a follower truncates its log or keeps it.

        Args:
            epoch: leader epoch in which the replica follows.
            before: log end offset before the event.
            cuts: possible log end offsets after a truncation.
            after: real log end offset after the event, one of `cuts` or `before`.
        """
        event = row.event
        assert isinstance(event, trace.LogTruncated | trace.BatchAppended)
        words = {end: f"it truncates its log to {end}" for end in sorted(cuts - {before})} | {
            before: f"it keeps its log up to {before}"
        }
        name = f"{event.topic}-{event.partition}"
        ask = f"{event.node} becomes a follower in epoch {epoch}, with LEO {before}. What happens to its log of {name}?"
        self._ask(row, ask, list(words.values()), words[after], event.sentence())


LAGS = ((10_000, "within 10 ms"), (100_000, "within 100 ms"), (1_000_000, "within a second"))
LATER = "later than a second"


class _Everyday(_Questions):
    """Listener that creates questions about everyday events, one for each kind of event."""

    def __init__(self, tape: Tape, plan: _Plan, summary: Mapping[str, Any]) -> None:
        super().__init__(tape, plan)
        self._view = ClusterView((), ())
        self._summary = summary
        records = summary["records"]
        self._wanted = next((name for kind in ("lost", "missing", "failed") for name in records.get(kind, ())), None)
        self._advanced: dict[TopicPartition, TraceRow] = {}
        self._kinds: set[str] = set()

    def __call__(self, row: TraceRow) -> None:
        super().__call__(row)
        self._view(row)

    def _is_first(self, kind: str) -> bool:
        is_first = kind not in self._kinds
        self._kinds.add(kind)
        return is_first

    @on(trace.RecordSent)
    def _sent(self, row: TraceRow, event: trace.RecordSent) -> None:
        """Ask about the fate of the first record that is lost, missing or failed."""
        index = self.tape.places.get(row.seq)
        if event.record != self._wanted or index is None or not self._is_first("fate"):
            return
        to_come = self.plan.still_to_come(index, row.at_us, self.tape.end_us)
        if to_come is not None and len(to_come) <= STEPS_TOLD_MAX:
            found = _fate(AnswerFromTrace("fate", event.record), (), self._summary)
            about = f"{event.client} is about to send {event.record} with acks={_acks(event.acks)}."
            ask = f"{about} What happens to {event.record}?"
            self._put(index, _with_steps(ask, to_come), found, len(self.tape) - 1, self._place_of(row))

    @on(trace.IsrCommitted)
    def _isr_committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        name = TopicPartition(event.topic, event.partition)
        before, after = event.previous_isr, event.isr
        if set(before) == set(after) or not row.at_us or not self._is_first("isr"):
            return
        partition = self._view.partitions.get(name)
        assigned, leader = (partition.assigned, partition.leader) if partition else ((), None)
        fewer = [tuple(node for node in before if node != item) for item in before if item != leader]
        more = [(*before, item) for item in assigned if item not in before]
        options = sorted(", ".join(sorted(isr)) for isr in (after, *fewer, *more))
        ask = f"The ISR of {name} is {{{', '.join(before)}}}. It is about to change. Which brokers does it have then?"
        self._ask(row, ask, options, ", ".join(sorted(after)), row.event.sentence())

    @on(trace.HighWatermarkAdvanced)
    def _advanced_on_leader(self, row: TraceRow, event: trace.HighWatermarkAdvanced) -> None:
        self._advanced.setdefault(TopicPartition(event.topic, event.partition), row)

    @on(trace.HighWatermarkLearned)
    def _learned(self, row: TraceRow, event: trace.HighWatermarkLearned) -> None:
        """Ask how long a follower takes to learn a high watermark that its leader has reached."""
        began = self._advanced.get(TopicPartition(event.topic, event.partition))
        known = self.tape.places.get(row.seq)
        if began is None or known is None or row.at_us == began.at_us:
            return
        leads = began.event
        assert isinstance(leads, trace.HighWatermarkAdvanced)
        if event.high_watermark < leads.high_watermark or not self._is_first("hw"):
            return
        index, lag_us = bisect_right(self.tape.at_us, began.at_us), row.at_us - began.at_us
        to_come = self.plan.still_to_come(index, began.at_us + 1, row.at_us)
        if to_come is None or len(to_come) > STEPS_TOLD_MAX:
            return
        ask = (
            f"{leads.node}, the leader of {leads.name}, has moved its HW to {leads.high_watermark}. How soon does its"
            f" follower {event.node} have this HW?"
        )
        answer = next((words for limit_us, words in LAGS if lag_us <= limit_us), LATER)
        because = f"{event.sentence()}, {duration(lag_us)} later"
        found = [*(words for _, words in LAGS), LATER], answer, because
        self._put(index, _with_steps(ask, to_come), found, known, self._place_of(row))


def _acks(acks: int) -> str:
    return "all" if acks < 0 else str(acks)


def _all_but(gone: Sequence[str], count: int) -> str:
    """Return text about the survivors of `count` acked records, such as `all but r3`.

    Args:
        gone: names of the lost records.
    """
    if not gone:
        return "all of them"
    return "none of them" if len(gone) == count else f"all but {format_record_names(gone)}"


def _with_steps(ask: str, to_come: Sequence[str]) -> str:
    return f"{ask} Next steps: {'; '.join(to_come)}." if to_come else ask


# -------------------------------------------------------------------------------------------- questions of the scenario
#
# Finds the moments and the answers of the questions in a scenario file.

NONE = "none"
_FATES = {
    (True, True): "it is acked, and in the log at the end",
    (True, False): "it is acked, but lost",
    (False, True): "it is not acked, but in the log at the end",
    (False, False): "it is not acked, and not in the log at the end",
}
"""Sentences about the fate of a record, by (acked, in the log at the end)."""


def place_of(question: ScenarioQuestion, tape: Tape) -> int | None:
    """Return the index on the tape of the event before which a question is asked, None if the run has no such event."""
    kind = tape.kinds.known(question.before)
    for index, at_us in enumerate(tape.at_us):
        if question.at_us is not None and at_us >= question.at_us:
            return index
        if kind != NOTHING and tape.kind[index] == kind:
            return index
    return None


def answered(question: ScenarioQuestion, rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> Answered | None:
    """Return the options and the answer of a scenario's question, or None if the run does not answer the question.

    An answer that is written in the file is used only if the run has met the file's expectations.
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
    """Yield the state of the partition in question after each event, and True if the event counts for the answer."""
    view = ClusterView((), ())
    for row in rows:
        view(row)
        partition = next((item for name, item in view.partitions.items() if str(name) == asked.of), None)
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
    return options, found, f"{_moment(asked)} the leader of {asked.of} is {found}"


def _isr(asked: AnswerFromTrace, rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> Answered | None:
    found: str | None = None
    options: dict[str, None] = {}
    for partition, counts in _states(asked, rows):
        text = ", ".join(sorted(partition.isr)) or NONE
        options.update(dict.fromkeys((", ".join(sorted(partition.assigned)), partition.assigned[0], text)))
        found = text if counts else found
    if found is None:
        return None
    return sorted(options, key=lambda text: (-text.count(","), text)), found, f"{_moment(asked)} the ISR is {found}"


def _hw(asked: AnswerFromTrace, rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> Answered | None:
    found, end = None, 0
    for partition, counts in _states(asked, rows):
        replica = partition.replicas.get(partition.leader or "")
        if counts and replica is not None:
            found, end = replica.high_watermark, max(end, replica.log_end_offset)
    if found is None:
        return None
    # Half of the correct value is another option.
    return _numbers(found, end, found // 2), str(found), f"{_moment(asked)} the high watermark of {asked.of} is {found}"


def _fate(asked: AnswerFromTrace, rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> Answered:
    is_acked = asked.of in summary["records"]["acked"]
    is_there = any(asked.of in log for log in summary["logs"].values())
    answer = _FATES[is_acked, is_there]
    return list(_FATES.values()), answer, f"{asked.of}: {answer}"


def _number_of(asked: AnswerFromTrace, rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> Answered | None:
    count = len(summary["records"].get(asked.of, ()))  # A summary has expired records only if there are any.
    sent = int(summary["records"]["sent"])
    return _numbers(count, sent, max(1, count // 2)), str(count), f"{count} of {sent} records are {asked.of}"


def _not_refuted(
    asked: AnswerFromTrace, options: Sequence[str], answer: str, seen: Sequence[TraceRow], more_is_to_come: bool
) -> list[str]:
    """Return the options that are still possible after the events that the reader has seen.

    Args:
        more_is_to_come: True if steps follow, which may start a stopped broker.
    """
    refuted: set[str] = set()
    if asked.kind == "fate":
        kinds = {type(row.event) for row in seen if getattr(row.event, "record", None) == asked.of}
        is_acked = trace.RecordAcked in kinds
        refuted = {
            text
            for (acked, _), text in _FATES.items()
            if (is_acked or trace.RecordFailed in kinds) and acked != is_acked
        }
    elif asked.kind == "number_of" and asked.of in _COUNTED:
        least = len({row.event.record for row in seen if isinstance(row.event, _COUNTED[asked.of])})
        options = _at_least(least, options, answer)
    elif asked.kind in ("leader", "isr") and not more_is_to_come:
        view = ClusterView((), ())
        for row in seen:
            view(row)
        down = {node for node in view.brokers if not view.running(node)}
        current = next((item for name, item in view.partitions.items() if str(name) == asked.of), None)
        stays = set(current.isr) if current is not None and asked.kind == "isr" else set()
        refuted = {option for option in options if down & ({*option.split(", ")} - stays)}
    elif asked.kind == "hw":
        least = max((row.event.high_watermark for row in seen if _advances(row.event, asked.of)), default=0)
        options = _at_least(least, options, answer)
    return [option for option in options if option == answer or option not in refuted]


def _at_least(least: int, options: Sequence[str], answer: str) -> list[str]:
    """Replace options below `least`, which the reader knows to be too small, by `least`, except for the answer."""
    return list(dict.fromkeys(option if option == answer else str(max(int(option), least)) for option in options))


def _advances(event: trace.TraceEvent, partition: str) -> TypeGuard[trace.HighWatermarkAdvanced]:
    return (
        isinstance(event, trace.HighWatermarkAdvanced)
        and str(TopicPartition(event.topic, event.partition)) == partition
    )


_COUNTED: Mapping[str, type[trace.RecordAcked] | type[trace.RecordFailed]] = {
    "acked": trace.RecordAcked,
    "failed": trace.RecordFailed,
}
"""The event for each outcome whose number of records can only grow during a run."""


def _numbers(*values: int) -> list[str]:
    return [str(value) for value in sorted({0, *values})]


_ANSWERS: dict[str, Callable[[AnswerFromTrace, Sequence[TraceRow], Mapping[str, Any]], Answered | None]] = {
    "leader": _leader,
    "isr": _isr,
    "hw": _hw,
    "fate": _fate,
    "number_of": _number_of,
}
