"""The content of a run's screen: its key events with their reasons, and how each partition stood over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from replica.errors import RETRIABLE, ErrorCode
from replica.ids import INTERNAL_TOPICS, TopicPartition
from replica.trace import events as trace
from replica.trace.alike import Told, together
from replica.trace.columns import GroupEvent
from replica.trace.events import EVENT_NAMES, Handler, TraceEvent, TraceRow
from replica.trace.ranges import ranges_of_partitions
from replica.trace.signs import sign_of
from replica.wording import duration
from scenarios.language.verbs.every import TOLD_BY_THEIR_NODE
from scenarios.observe.availability import IsGone, drop
from scenarios.observe.partition_histories import PartitionHistories, PartitionHistory
from scenarios.observe.taken_records import LateBatches, after_its_end
from scenarios.observe.view import ClusterView
from scenarios.observe.wording import with_error

# --------------------------------------------------------------------------------------------------------- client turns
#
# What turns the work of a client: a request of it is refused, its position is moved, a record has no meaning for it,
# or it has to wait for its quota. The timeline has the first of a kind; the trace has all.

Kind = tuple[str, str, str]
"""What the timeline has once."""

_NO_SUCH_OFFSET = ("OFFSET_OUT_OF_RANGE", "NO_OFFSET_FOR_PARTITION")
"""Errors that move a position, or with auto.offset.reset=none end the reading."""


class ClientTurns:
    WANTED: ClassVar[tuple[type[TraceEvent], ...]] = (
        trace.RecordRead,
        trace.PositionReset,
        trace.FetchFailed,
        trace.RequestRefused,
        trace.OffsetCommitRefused,
        trace.DeserializationFailed,
        trace.ClientThrottled,
    )

    def __init__(self) -> None:
        self._read: dict[tuple[str, int], None] = {}
        """partitions of which a client has read a record"""

    def told(self, event: TraceEvent) -> tuple[Kind, str] | None:
        match event:
            case trace.RecordRead():
                self._read[event.topic, event.partition] = None
            case trace.PositionReset() if event.error is not None and self._goes_on(event):
                # Reasons tell of each partition; the same sentence of several partitions is one line.
                text = f"{event.client} goes to offset {event.offset}: {event.sentence()}"
                return (event.client, f"{event.topic}-{event.partition} {event.offset}", event.sentence()), text
            case trace.FetchFailed() if event.error in _NO_SUCH_OFFSET:
                where = f" at offset {event.offset}" if event.offset >= 0 else ""
                text = f"{event.client} gets {event.error}{where} of {event.topic}-{event.partition}"
                return (event.client, f"{event.topic}-{event.partition}", event.error), text
            case trace.RequestRefused() if (
                isinstance(event, trace.OffsetCommitRefused) or ErrorCode[event.error] not in RETRIABLE
            ):
                return (event.client, f"{event.api} {event.group or ''}", event.error), event.sentence()
            case trace.DeserializationFailed():
                return (event.client, event.record, ""), event.sentence()
            case trace.ClientThrottled():
                return (event.node, event.peer, event.key), event.sentence()
        return None

    def forget(self, is_gone: IsGone) -> None:
        drop(is_gone, self._read)

    def _goes_on(self, event: trace.PositionReset) -> bool:
        """A client has read of the partition: where its first reader begins is no news."""
        return event.previous_offset >= 0 or (event.topic, event.partition) in self._read


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


class Story:
    """Listener, after the view it is given. `lines` in order; `histories` per partition, made on request."""

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.lines: list[StoryLine] = []
        self.partitions_of_lines: list[list[TopicPartition]] = []
        """for each line the partitions of which it is true"""
        self.end_us = 0
        self._histories = PartitionHistories(view)
        self._stopped: dict[str, None] = {}
        """nodes that have stopped: a client's first start is not worth a line, its return is"""
        self._refused: dict[tuple[str, str, str], None] = {}
        self._left: dict[str, None] = {}
        """groups that have lost a member"""
        self._decided: dict[str, tuple[int, trace.TransactionStateChanged]] = {}
        self._held: dict[TopicPartition, tuple[int, trace.LastStableOffsetMoved]] = {}
        self._late = LateBatches()
        self._turns = ClientTurns()
        self._begun_late: dict[TopicPartition, tuple[int, str]] = {}
        """the latest transaction that a late batch has begun: its offset, and its transactional.id"""
        self._proposals: dict[tuple[str, int, str], tuple[frozenset[str], str]] = {}
        self._handlers: dict[type, Handler] = {
            trace.FaultBegan: self._fault_began,
            trace.FaultEnded: self._fault_ended,
            trace.NodeStopped: self._node_stopped,
            trace.NodeStarted: self._node_started,
            trace.QuorumLeaderElected: self._controller_elected,
            trace.ControllerResigned: self._controller_resigned,
            trace.BrokerFenced: self._broker_fenced,
            trace.LeaderElected: self._elected,
            trace.PartitionWentOffline: self._went_offline,
            trace.ElectionRefused: self._election_refused,
            trace.ReassignmentBegan: self._reassigned,
            trace.ReassignmentCompleted: self._reassigned,
            trace.ReassignmentCancelled: self._reassigned,
            trace.ReplicaDeleted: self._replica_deleted,
            trace.TopicDeleted: self._topic_deleted,
            trace.LogStartOffsetAdvanced: self._log_start_advanced,
            trace.RecordsExpired: self._log_start_advanced,
            trace.LogCompacted: self._log_compacted,
            trace.IsrProposed: self._isr_proposed,
            trace.IsrCommitted: self._isr_committed,
            trace.ElrCommitted: self._elr_committed,
            trace.IsrRejected: self._isr_rejected,
            trace.LogRecovered: self._recovered,
            trace.LogTruncated: self._truncated,
            trace.DataLost: self._data_lost,
            trace.BatchCorrupted: self._data_lost,
            trace.LogDirFailed: self._data_lost,
            trace.ProduceRefused: self._produce_refused,
            trace.ConnectionClosed: self._connection_closed,
            trace.RequestCrashed: self._connection_closed,
            trace.CheckMade: self._check_made,
            trace.InvariantBroken: self._invariant_broken,
            trace.GroupsLoaded: self._group_event,
            trace.GroupMemberJoined: self._member_joined,
            trace.GroupMemberLeft: self._member_left,
            trace.GroupRemoved: self._group_removed,
            trace.GroupMigrated: self._group_event,
            trace.GroupRebalanced: self._group_event,
            trace.TransactionsLoaded: self._group_event,
            trace.TransactionStateChanged: self._transaction_changed,
            trace.TransactionMarkerWritten: self._marker_written,
            trace.BatchAppended: self._batch_appended,
            trace.TransactionFailed: self._transaction_failed,
            trace.LastStableOffsetMoved: self._last_stable_offset_moved,
            trace.LeadershipBegan: self._leadership_began,
            trace.RunFinished: self._run_finished,
            trace.PartitionCreated: self._histories.changed,
            trace.HighWatermarkAdvanced: self._histories.high_watermark,
            **dict.fromkeys(ClientTurns.WANTED, self._client_event),
        }

    @classmethod
    def of(cls, view: ClusterView, rows: Iterable[TraceRow]) -> Self:
        """From a finished trace; `view` is fed along."""
        story = cls(view)
        for row in rows:
            view(row)
            story(row)
        return story

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        return (self._take,) if kind in self._handlers else ()

    def __call__(self, row: TraceRow) -> None:
        self.end_us = row.at_us
        if type(row.event) in self._handlers:
            self._take(row, row.event)

    def _take(self, row: TraceRow, event: TraceEvent) -> None:
        self.end_us = row.at_us
        if not is_internal(event):
            self._handlers[type(event)](row, event)

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

    def _fault_began(self, row: TraceRow, event: trace.FaultBegan) -> None:
        self._histories.nodes_changed(row)
        if event.verb not in TOLD_BY_THEIR_NODE:
            self._say(row, event.sentence())

    def _fault_ended(self, row: TraceRow, event: trace.FaultEnded) -> None:
        self._histories.nodes_changed(row)
        if event.verb not in TOLD_BY_THEIR_NODE:
            self._say(row, event.sentence())

    def _node_stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        self._histories.nodes_changed(row)
        self._stopped[event.node] = None
        self._say(row, event.sentence())

    def _node_started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        self._histories.nodes_changed(row)
        if row.at_us > 0 and (event.role in ("broker", "controller") or event.node in self._stopped):
            self._say(row, event.sentence())

    def _controller_elected(self, row: TraceRow, event: trace.QuorumLeaderElected) -> None:
        if len(self.view.controllers) > 1:
            self._say(row, event.sentence())

    def _controller_resigned(self, row: TraceRow, event: trace.ControllerResigned) -> None:
        self._say(row, event.sentence())

    def _broker_fenced(self, row: TraceRow, event: trace.BrokerFenced) -> None:
        if self.view.partitions:
            self._say(row, event.sentence())

    def _elected(self, row: TraceRow, event: trace.LeaderElected) -> None:
        self._histories.changed(row, event)
        self._say(row, f"{event.sentence()} (epoch {event.leader_epoch})")

    def _went_offline(self, row: TraceRow, event: trace.PartitionWentOffline) -> None:
        self._histories.changed(row, event)
        self._say(row, event.sentence())

    def _election_refused(self, row: TraceRow, event: trace.ElectionRefused) -> None:
        self._say(row, event.sentence())

    def _reassigned(self, row: TraceRow, event: Any) -> None:
        self._histories.changed(row, event)
        self._say(row, event.sentence())

    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        if event.topic not in self.view.deleted_topics:
            self._say(row, event.sentence())

    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        self._histories.topic_deleted(row, event.topic)
        self._say(row, event.sentence())

    def _log_start_advanced(self, row: TraceRow, event: trace.LogStartOffsetAdvanced | trace.RecordsExpired) -> None:
        if event.role == "leader":
            self._say(row, event.sentence())

    def _log_compacted(self, row: TraceRow, event: trace.LogCompacted) -> None:
        if event.role == "leader":
            self._say(row, event.sentence())

    def _isr_proposed(self, row: TraceRow, event: trace.IsrProposed) -> None:
        self._proposals[event.topic, event.partition, event.node] = (frozenset(event.isr), event.sentence())

    def _isr_committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        """The controller's word; the reason is the leader's, if the leader asked for the change."""
        self._histories.changed(row, event)
        key = (event.topic, event.partition, event.proposed_by or "")
        isr, reason = self._proposals.pop(key, (None, ""))
        why = reason if isr == frozenset(event.isr) else event.sentence()
        self._say(row, f"ISR {{{', '.join(event.isr)}}}: {why}")

    def _elr_committed(self, row: TraceRow, event: trace.ElrCommitted) -> None:
        self._histories.changed(row, event)
        self._say(row, f"ELR {{{', '.join(event.elr)}}}: {event.sentence()}")

    def _isr_rejected(self, row: TraceRow, event: trace.IsrRejected) -> None:
        self._say(row, with_error(event.error, event.sentence()))

    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        if event.size_bytes:
            self._say(row, event.sentence())

    def _truncated(self, row: TraceRow, event: trace.LogTruncated) -> None:
        self._say(row, event.sentence())

    def _data_lost(self, row: TraceRow, event: trace.DataLost | trace.BatchCorrupted | trace.LogDirFailed) -> None:
        self._say(row, event.sentence())

    def _produce_refused(self, row: TraceRow, event: trace.ProduceRefused) -> None:
        """The first refusal of its kind; the others are counted elsewhere."""
        kind = (event.node, f"{event.topic}-{event.partition}", event.error)
        self._say_once(row, kind, with_error(event.error, event.sentence()))

    def _connection_closed(self, row: TraceRow, event: trace.ConnectionClosed | trace.RequestCrashed) -> None:
        """The first of each peer; the trace has all."""
        self._say_once(row, (event.node, event.peer, EVENT_NAMES[type(event)]), event.sentence())

    def _client_event(self, row: TraceRow, event: trace.TraceEvent) -> None:
        if told := self._turns.told(event):
            self._say_once(row, *told)

    def _say_once(self, row: TraceRow, kind: tuple[str, str, str], text: str) -> None:
        """Clients make such events, as many as they like: the first of a kind is shown, and only so many kinds."""
        if kind not in self._refused and len(self._refused) < REFUSALS_MAX:
            self._refused[kind] = None
            self._say(row, text)

    def _check_made(self, row: TraceRow, event: trace.CheckMade) -> None:
        if not event.held:
            self._say(row, event.sentence())

    def _invariant_broken(self, row: TraceRow, event: trace.InvariantBroken) -> None:
        self._say(row, f"invariant {event.invariant} is broken: {event.sentence()}")

    def _group_event(self, row: TraceRow, event: Any) -> None:
        self._say(row, event.sentence())

    def _member_joined(self, row: TraceRow, event: trace.GroupMemberJoined) -> None:
        """Of a group that has lost a member: who comes back, or comes instead. How a group begins is no news."""
        if event.group in self._left:
            self._say(row, event.sentence())

    def _member_left(self, row: TraceRow, event: trace.GroupMemberLeft) -> None:
        self._left[event.group] = None
        self._say(row, event.sentence())

    def _group_removed(self, row: TraceRow, event: trace.GroupRemoved) -> None:
        self._left.pop(event.group, None)

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

    def _marker_written(self, row: TraceRow, event: trace.TransactionMarkerWritten) -> None:
        """The abort in each partition; once where it found records to abort, and once where it found none."""
        self._late.marked(event)
        if not event.committed:
            found = "none" if event.first_offset is None else "records"
            self._say_once(row, (f"{event.topic}-{event.partition}", str(event.producer_id), found), event.sentence())

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

    def _transaction_failed(self, row: TraceRow, event: trace.TransactionFailed) -> None:
        left = "it can only be closed" if event.fatal else "the transaction can only be aborted"
        self._say(row, f"{event.client}: {event.sentence()}; {left}")

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

    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        """A leader states its last stable offset just afterwards, if that is below its high watermark."""
        name = TopicPartition(event.topic, event.partition)
        since = self._held.pop(name, None)
        if since is not None and row.at_us - since[0] >= LONG_US:
            stood = f"the last stable offset of {name} had stood at {since[1].last_stable_offset}"
            self._say(row, f"{event.sentence()}; at {since[1].node} {stood} for {duration(row.at_us - since[0])}")

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
        drop(is_gone, self._proposals, self._held, self._begun_late)
        self._late.forget(is_gone)
        self._turns.forget(is_gone)

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
