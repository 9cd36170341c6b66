"""The content of a run's screen: its key events with their reasons, and how each partition stood over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from replica.errors import RETRIABLE, ErrorCode
from replica.ids import INTERNAL_TOPICS, TopicPartition
from replica.trace import events as trace
from replica.trace.alike import Told, together
from replica.trace.columns import GroupEvent
from replica.trace.events import EVENT_NAMES, TraceEvent, TraceRow
from replica.trace.listening import Handler, Listener, on
from replica.trace.ranges import ranges_of_partitions
from replica.trace.signs import sign_of
from replica.wording import duration
from scenarios.language.verbs.every import TOLD_BY_THEIR_NODE
from scenarios.observe.availability import IsGone, drop
from scenarios.observe.partition_histories import PartitionHistories, PartitionHistory
from scenarios.observe.taken_records import LateBatches, after_its_end
from scenarios.observe.view import ClusterView
from scenarios.observe.wording import with_error

_NO_SUCH_OFFSET = ("OFFSET_OUT_OF_RANGE", "NO_OFFSET_FOR_PARTITION")
"""Errors that move a position, or with auto.offset.reset=none end the reading."""


class StoryLine(NamedTuple):
    """One key event. sign: a name of signs.SIGNS"""

    at_us: int
    sign: str
    text: str


REFUSALS_MAX = 500
LONG_US = 1_000_000
"""So long after a decision its markers are late, and so long is a last stable offset held up."""
LINES_COMPARED = 8
"""A line is said once, if it is among the last few."""


_OF_COORDINATORS = (GroupEvent, trace.TransactionsLoaded, trace.TransactionsUnloaded)


def is_internal(event: trace.TraceEvent) -> bool:
    """Of one of the many partitions of a coordinator's topic; the events of what is kept there say what it means."""
    return getattr(event, "topic", None) in INTERNAL_TOPICS and not isinstance(event, _OF_COORDINATORS)


class Story(Listener):
    """Listener, after the view it is given. `lines` in order; `histories` per partition, made on request."""

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.lines: list[StoryLine] = []
        self.partitions_of_lines: list[list[TopicPartition]] = []
        """for each line the partitions of which it is true"""
        self.end_us = 0
        self._histories = PartitionHistories(view)
        self.parts = (self._histories,)
        self._stopped: dict[str, None] = {}
        """nodes that have stopped: a client's first start is not worth a line, its return is"""
        self._refused: dict[tuple[str, str, str], None] = {}
        self._left: dict[str, None] = {}
        """groups that have lost a member"""
        self._decided: dict[str, tuple[int, trace.TransactionStateChanged]] = {}
        self._held: dict[TopicPartition, tuple[int, trace.LastStableOffsetMoved]] = {}
        self._late = LateBatches()
        self._read: dict[tuple[str, int], None] = {}
        """partitions of which a client has read a record"""
        self._begun_late: dict[TopicPartition, tuple[int, str]] = {}
        """the latest transaction that a late batch has begun: its offset, and its transactional.id"""
        self._proposals: dict[tuple[str, int, str], tuple[frozenset[str], str]] = {}

    @classmethod
    def of(cls, view: ClusterView, rows: Iterable[TraceRow]) -> Self:
        """From a finished trace; `view` is fed along."""
        story = cls(view)
        for row in rows:
            view(row)
            story(row)
        return story

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        found = super().handlers_of(kind)

        def take(row: TraceRow, event: TraceEvent) -> None:
            self.end_us = row.at_us
            if not is_internal(event):
                for handler in found:
                    handler(row, event)

        return (take,) if found else ()

    def __call__(self, row: TraceRow) -> None:
        super().__call__(row)
        self.end_us = row.at_us

    # ------------------------------------------------------------------------------------------------------- lines

    def _say(self, row: TraceRow, text: str) -> None:
        event = row.event
        sign = sign_of(EVENT_NAMES[type(event)], getattr(event, "verb", None), getattr(event, "how", None))
        line = StoryLine(row.at_us, sign, text)
        topic, number = getattr(event, "topic", None), getattr(event, "partition", None)
        partitions = [] if topic is None or number is None else [TopicPartition(topic, number)]
        recent = self.lines[-LINES_COMPARED:]
        if line in recent:  # the same words at the same moment, of another partition
            known = self.partitions_of_lines[len(self.lines) - len(recent) + recent.index(line)]
            known += [partition for partition in partitions if partition not in known]
        else:
            self.lines.append(line)
            self.partitions_of_lines.append(partitions)

    @on(
        trace.ControllerResigned,
        trace.PartitionWentOffline,
        trace.ElectionRefused,
        trace.ReassignmentBegan,
        trace.ReassignmentCompleted,
        trace.ReassignmentCancelled,
        trace.TopicDeleted,
        trace.LogTruncated,
        trace.DataLost,
        trace.BatchCorrupted,
        trace.LogDirFailed,
        trace.GroupsLoaded,
        trace.GroupMigrated,
        trace.GroupRebalanced,
        trace.TransactionsLoaded,
    )
    def _say_why(self, row: TraceRow, event: Any) -> None:
        self._say(row, event.sentence())

    @on(trace.FaultBegan, trace.FaultEnded)
    def _fault(self, row: TraceRow, event: trace.FaultBegan | trace.FaultEnded) -> None:
        if event.verb not in TOLD_BY_THEIR_NODE:
            self._say(row, event.sentence())

    @on(trace.NodeStopped)
    def _node_stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        self._stopped[event.node] = None
        self._say(row, event.sentence())

    @on(trace.NodeStarted)
    def _node_started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        if row.at_us > 0 and (event.role in ("broker", "controller") or event.node in self._stopped):
            self._say(row, event.sentence())

    @on(trace.QuorumLeaderElected)
    def _controller_elected(self, row: TraceRow, event: trace.QuorumLeaderElected) -> None:
        if len(self.view.controllers) > 1:
            self._say(row, event.sentence())

    @on(trace.BrokerFenced)
    def _broker_fenced(self, row: TraceRow, event: trace.BrokerFenced) -> None:
        if self.view.partitions:
            self._say(row, event.sentence())

    @on(trace.LeaderElected)
    def _elected(self, row: TraceRow, event: trace.LeaderElected) -> None:
        self._say(row, f"{event.sentence()} (epoch {event.leader_epoch})")

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        if event.topic not in self.view.deleted_topics:
            self._say(row, event.sentence())

    @on(trace.LogStartOffsetAdvanced, trace.RecordsExpired)
    def _log_start_advanced(self, row: TraceRow, event: trace.LogStartOffsetAdvanced | trace.RecordsExpired) -> None:
        if event.role == "leader":
            self._say(row, event.sentence())

    @on(trace.LogCompacted)
    def _log_compacted(self, row: TraceRow, event: trace.LogCompacted) -> None:
        if event.role == "leader":
            self._say(row, event.sentence())

    @on(trace.IsrProposed)
    def _isr_proposed(self, row: TraceRow, event: trace.IsrProposed) -> None:
        self._proposals[event.topic, event.partition, event.node] = (frozenset(event.isr), event.sentence())

    @on(trace.IsrCommitted)
    def _isr_committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        """The controller's word; the reason is the leader's, if the leader asked for the change."""
        key = (event.topic, event.partition, event.proposed_by or "")
        isr, reason = self._proposals.pop(key, (None, ""))
        why = reason if isr == frozenset(event.isr) else event.sentence()
        self._say(row, f"ISR {{{', '.join(event.isr)}}}: {why}")

    @on(trace.ElrCommitted)
    def _elr_committed(self, row: TraceRow, event: trace.ElrCommitted) -> None:
        self._say(row, f"ELR {{{', '.join(event.elr)}}}: {event.sentence()}")

    @on(trace.IsrRejected)
    def _isr_rejected(self, row: TraceRow, event: trace.IsrRejected) -> None:
        self._say(row, with_error(event.error, event.sentence()))

    @on(trace.LogRecovered)
    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        if event.size_bytes:
            self._say(row, event.sentence())

    @on(trace.ProduceRefused)
    def _produce_refused(self, row: TraceRow, event: trace.ProduceRefused) -> None:
        """The first refusal of its kind; the others are counted elsewhere."""
        kind = (event.node, f"{event.topic}-{event.partition}", event.error)
        self._say_once(row, kind, with_error(event.error, event.sentence()))

    @on(trace.ConnectionClosed, trace.RequestCrashed)
    def _connection_closed(self, row: TraceRow, event: trace.ConnectionClosed | trace.RequestCrashed) -> None:
        """The first of each peer; the trace has all."""
        self._say_once(row, (event.node, event.peer, EVENT_NAMES[type(event)]), event.sentence())

    @on(trace.RecordRead)
    def _record_read(self, row: TraceRow, event: trace.RecordRead) -> None:
        self._read[event.topic, event.partition] = None

    @on(trace.PositionReset)
    def _position_reset(self, row: TraceRow, event: trace.PositionReset) -> None:
        """Where the first reader of a partition begins is no news."""
        goes_on = event.previous_offset >= 0 or (event.topic, event.partition) in self._read
        if event.error is not None and goes_on:
            # Reasons tell of each partition; the same sentence of several partitions is one line.
            kind = (event.client, f"{event.topic}-{event.partition} {event.offset}", event.sentence())
            self._say_once(row, kind, f"{event.client} goes to offset {event.offset}: {event.sentence()}")

    @on(trace.FetchFailed)
    def _fetch_failed(self, row: TraceRow, event: trace.FetchFailed) -> None:
        if event.error in _NO_SUCH_OFFSET:
            where = f" at offset {event.offset}" if event.offset >= 0 else ""
            text = f"{event.client} gets {event.error}{where} of {event.topic}-{event.partition}"
            self._say_once(row, (event.client, f"{event.topic}-{event.partition}", event.error), text)

    @on(trace.RequestRefused)
    def _request_refused(self, row: TraceRow, event: trace.RequestRefused) -> None:
        if isinstance(event, trace.OffsetCommitRefused) or ErrorCode[event.error] not in RETRIABLE:
            self._say_once(row, (event.client, f"{event.api} {event.group or ''}", event.error), event.sentence())

    @on(trace.DeserializationFailed)
    def _not_deserialized(self, row: TraceRow, event: trace.DeserializationFailed) -> None:
        self._say_once(row, (event.client, event.record, ""), event.sentence())

    @on(trace.ClientThrottled)
    def _throttled(self, row: TraceRow, event: trace.ClientThrottled) -> None:
        self._say_once(row, (event.node, event.peer, event.key), event.sentence())

    def _say_once(self, row: TraceRow, kind: tuple[str, str, str], text: str) -> None:
        """Clients make such events, as many as they like: the first of a kind is shown, and only so many kinds."""
        if kind not in self._refused and len(self._refused) < REFUSALS_MAX:
            self._refused[kind] = None
            self._say(row, text)

    @on(trace.CheckMade)
    def _check_made(self, row: TraceRow, event: trace.CheckMade) -> None:
        if not event.held:
            self._say(row, event.sentence())

    @on(trace.InvariantBroken)
    def _invariant_broken(self, row: TraceRow, event: trace.InvariantBroken) -> None:
        self._say(row, f"invariant {event.invariant} is broken: {event.sentence()}")

    @on(trace.GroupMemberJoined)
    def _member_joined(self, row: TraceRow, event: trace.GroupMemberJoined) -> None:
        """Of a group that has lost a member: who comes back, or comes instead. How a group begins is no news."""
        if event.group in self._left:
            self._say(row, event.sentence())

    @on(trace.GroupMemberLeft)
    def _member_left(self, row: TraceRow, event: trace.GroupMemberLeft) -> None:
        self._left[event.group] = None
        self._say(row, event.sentence())

    @on(trace.GroupRemoved)
    def _group_removed(self, row: TraceRow, event: trace.GroupRemoved) -> None:
        self._left.pop(event.group, None)

    @on(trace.TransactionStateChanged)
    def _transaction_changed(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        """What a coordinator does by itself; that a producer aborts; and an end that was decided long before, or by
        another coordinator."""
        self._late.changed(event)
        decided = self._decided.pop(event.transactional_id, None)
        if event.state.startswith("Prepare"):
            self._decided[event.transactional_id] = (row.at_us, event)
        if event.fences:
            self._say(row, event.sentence())
        elif event.state == "PrepareAbort":
            self._say_once(row, (event.transactional_id, event.state, ""), event.sentence())
        elif decided is not None:
            at_us, before = decided
            ago, by = row.at_us - at_us, "" if before.node == event.node else f" by {before.node}"
            if by or before.fences or ago >= LONG_US:
                self._say(row, f"{event.sentence()}; {before.state} was decided {duration(ago)} before{by}")

    @on(trace.TransactionMarkerWritten)
    def _marker_written(self, row: TraceRow, event: trace.TransactionMarkerWritten) -> None:
        """The abort in each partition; once where it found records to abort, and once where it found none."""
        self._late.marked(event)
        if not event.committed:
            found = "none" if event.first_offset is None else "records"
            self._say_once(row, (f"{event.topic}-{event.partition}", str(event.producer_id), found), event.sentence())

    @on(trace.BatchAppended)
    def _batch_appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        overtaken = self._late.overtaken(event) if event.producer_id >= 0 else None
        if overtaken is None:
            return
        transactional_id, marker = overtaken
        name = TopicPartition(event.topic, event.partition)
        if self._begun_late.get(name, (-1, ""))[0] >= marker.offset:  # More of the same.
            return
        self._begun_late[name] = (event.base_offset, transactional_id)
        late = f"{event.node} appends a late batch of transactional.id {transactional_id} in {name} at"
        held = f"the last stable offset cannot pass {event.base_offset} until a marker ends it"
        self._say(row, f"{late} {event.base_offset}: {after_its_end(marker)}; {held}")

    def _begins_at(self, name: TopicPartition, offset: int) -> str:
        """What a last stable offset stands before, where that is worth a word."""
        begun, transactional_id = self._begun_late.get(name, (-1, ""))
        return f", before the late batch of {transactional_id}," if begun == offset else ""

    @on(trace.TransactionFailed)
    def _transaction_failed(self, row: TraceRow, event: trace.TransactionFailed) -> None:
        left = "it can only be closed" if event.fatal else "the transaction can only be aborted"
        self._say(row, f"{event.client}: {event.sentence()}; {left}")

    @on(trace.LastStableOffsetMoved)
    def _last_stable_offset_moved(self, row: TraceRow, event: trace.LastStableOffsetMoved) -> None:
        """Only what it has held up for long."""
        name = TopicPartition(event.topic, event.partition)
        since = self._held.pop(name, None)
        if event.last_stable_offset < event.high_watermark:
            self._held[name] = (row.at_us, event)
        if since is not None and row.at_us - since[0] >= LONG_US:
            offset = since[1].last_stable_offset
            held = f"it had stood at {offset}{self._begins_at(name, offset)} for {duration(row.at_us - since[0])}"
            self._say(row, f"{event.sentence()}; {held}")

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        """A leader states its last stable offset just afterwards, if that is below its high watermark."""
        name = TopicPartition(event.topic, event.partition)
        since = self._held.pop(name, None)
        if since is not None and row.at_us - since[0] >= LONG_US:
            stood = f"the last stable offset of {name} had stood at {since[1].last_stable_offset}"
            self._say(row, f"{event.sentence()}; at {since[1].node} {stood} for {duration(row.at_us - since[0])}")

    @on(trace.RunFinished)
    def _run_finished(self, row: TraceRow, event: trace.RunFinished) -> None:
        for name, (at_us, held) in self._held.items():
            if row.at_us - at_us >= LONG_US:
                stands = f"the last stable offset of {name} still stands at {held.last_stable_offset}"
                before = self._begins_at(name, held.last_stable_offset) or ","
                since = duration(row.at_us - at_us)
                self._say(row, f"{stands}{before} for {since} now: readers of committed records wait there")

    def forget(self, is_gone: IsGone) -> None:
        """As Forgetful; what was said stays said."""
        self._histories.forget(is_gone)
        drop(is_gone, self._proposals, self._held, self._begun_late, self._read)
        self._late.forget(is_gone)

    @property
    def histories(self) -> dict[TopicPartition, PartitionHistory]:
        """How every partition stood until now."""
        return self._histories.until_now()


# --------------------------------------------------------------------------------------------------------- story groups
#
# Key events that say the same of many partitions at once, as one line: of six elections when a broker is fenced.


@dataclass(frozen=True, slots=True)
class StoryGroup:
    """Lines that are one. first: the earliest     said: its words     is_merged: they are several"""

    first: StoryLine
    said: str
    partitions: Sequence[TopicPartition]
    is_merged: bool = False

    def text(self, *, names_partitions: bool) -> str:
        """names_partitions: false where there is one only"""
        if not names_partitions or not self.partitions:
            return self.said
        if len(self.partitions) == 1 and str(self.partitions[0]) in self.said:
            return self.said
        return f"{ranges_of_partitions(self.partitions)}: {self.said}"


def grouped(story: Story) -> list[StoryGroup]:
    """Every line of the story is in one group, and the groups are in the order of their first lines."""
    view = story.view
    names = {*view.nodes, *(partition.topic for partition in view.partitions), *view.deleted_topics}
    groups = []
    for alike in together(_told(story), names):
        partitions = [TopicPartition(*place) for place in alike.places]
        groups.append(StoryGroup(story.lines[alike.first.number], alike.text, partitions, len(set(alike.numbers)) > 1))
    return groups


def _told(story: Story) -> Iterator[Told]:
    for number, (line, partitions) in enumerate(zip(story.lines, story.partitions_of_lines, strict=True)):
        for partition in partitions or (None,):
            yield Told(line.at_us, line.text, partition, number, line.sign)


def ungrouped(story: Story, first: int = 0) -> list[StoryGroup]:
    """One group for every line, from the line `first` on."""
    lines = zip(story.lines[first:], story.partitions_of_lines[first:], strict=True)
    return [StoryGroup(line, line.text, list(partitions)) for line, partitions in lines]
