"""The story of a run (key events with reasons), and the state of each partition over time, for screens and reports."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from replica.errors import RETRIABLE, ErrorCode
from replica.ids import INTERNAL_TOPICS, TopicPartition
from replica.trace import events as trace
from replica.trace.alike import Alike, ShownEvent, together
from replica.trace.columns import GroupEvent
from replica.trace.events import EVENT_NAMES, TraceEvent, TraceRow
from replica.trace.listening import Handler, Listener, on
from replica.trace.signs import sign_of
from replica.wording import duration
from scenarios.language.verbs.every import TOLD_BY_THEIR_NODE
from scenarios.observe.availability import IsGone, drop
from scenarios.observe.partition_histories import PartitionHistories, PartitionHistory
from scenarios.observe.taken_records import LateBatches, after_its_end
from scenarios.observe.view import ClusterView

_NO_SUCH_OFFSET = ("OFFSET_OUT_OF_RANGE", "NO_OFFSET_FOR_PARTITION")
"""Errors that move a consumer's position or, with auto.offset.reset=none, end its reading."""


class StoryLine(NamedTuple):
    """A line about a key event.

    Attributes:
        sign: a name in signs.SIGNS.
        event: event whose sentence is the text, None for any other text. Equal events may share a line.
    """

    at_us: int
    sign: str
    text: str
    event: TraceEvent | None = None


REFUSALS_MAX = 500
LONG_US = 1_000_000
"""From this duration on, in microseconds, a marker is late, and a blocked last stable offset gets a line."""

_OF_COORDINATORS = (GroupEvent, trace.ShareStatesLoaded, trace.TransactionsLoaded, trace.TransactionsUnloaded)


def is_internal(event: trace.TraceEvent) -> bool:
    """Return True for an event of an internal topic that is not about the groups or transactions stored in it."""
    return getattr(event, "topic", None) in INTERNAL_TOPICS and not isinstance(event, _OF_COORDINATORS)


class Story(Listener):
    """Listener that writes the story of a run. It must be called after the view.

    Attributes:
        lines: lines of the story in order.
        histories: history of each partition, created on request.
    """

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.lines: list[StoryLine] = []
        self.end_us = 0
        self._histories = PartitionHistories(view)
        self.parts = (self._histories,)
        self._stopped: dict[str, None] = {}
        """Nodes that have stopped. A client gets a line when it starts again, but not for its first start."""
        self._refused: dict[Hashable, None] = {}
        self._left: dict[str, None] = {}
        """Groups that have lost a member."""
        self._decided: dict[str, tuple[int, trace.TransactionStateChanged]] = {}
        self._held: dict[TopicPartition, tuple[int, trace.LastStableOffsetMoved]] = {}
        self._late = LateBatches()
        self._read: dict[tuple[str, int], None] = {}
        """Partitions (topic, number) of which a client has read a record."""
        self._begun_late: dict[TopicPartition, tuple[int, str]] = {}
        """Offset and transactional.id of the last late batch that began a transaction, by partition."""
        self._proposals: dict[tuple[str, int, str], trace.IsrProposed] = {}

    @classmethod
    def of(cls, view: ClusterView, rows: Iterable[TraceRow]) -> Self:
        """Return the story of a finished trace, whose events are also passed to `view`."""
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

    def _say(self, row: TraceRow, event: TraceEvent, more: str = "") -> None:
        """Add a line with the sentence of `event`, followed by `more`. Usually it is the event of `row`."""
        self._write(row, event.sentence() + more, None if more else event)

    def _write(self, row: TraceRow, text: str, event: TraceEvent | None = None) -> None:
        kind = row.event
        sign = sign_of(EVENT_NAMES[type(kind)], getattr(kind, "verb", None), getattr(kind, "how", None))
        self.lines.append(StoryLine(row.at_us, sign, text, event))

    @on(
        trace.ControllerResigned,
        trace.VotersChanged,
        trace.VoterChangeFailed,
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
        trace.ShareStatesLoaded,
        trace.ShareStateReset,
        trace.LeaderElected,
        trace.ElrCommitted,
        trace.IsrRejected,
    )
    def _say_why(self, row: TraceRow, event: Any) -> None:
        self._say(row, event)

    @on(trace.FaultBegan, trace.FaultEnded)
    def _fault(self, row: TraceRow, event: trace.FaultBegan | trace.FaultEnded) -> None:
        shown_by_step = isinstance(event, trace.FaultEnded) and event.ended_by is not None
        if event.verb not in TOLD_BY_THEIR_NODE and not shown_by_step:
            self._say(row, event)

    @on(trace.NodeStopped)
    def _node_stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        self._stopped[event.node] = None
        self._say(row, event)

    @on(trace.NodeStarted)
    def _node_started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        if row.at_us > 0 and (event.role in ("broker", "controller") or event.node in self._stopped):
            self._say(row, event)

    @on(trace.QuorumLeaderElected)
    def _controller_elected(self, row: TraceRow, event: trace.QuorumLeaderElected) -> None:
        if len(self.view.controllers) > 1:
            self._say(row, event)

    @on(trace.BrokerFenced)
    def _broker_fenced(self, row: TraceRow, event: trace.BrokerFenced) -> None:
        if self.view.partitions:
            self._say(row, event)

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        if event.topic not in self.view.deleted_topics:
            self._say(row, event)

    @on(trace.LogStartOffsetAdvanced, trace.RecordsExpired, trace.LogCompacted)
    def _records_removed(self, row: TraceRow, event: Any) -> None:
        if event.role == "leader":
            self._say(row, event)

    @on(trace.IsrProposed)
    def _isr_proposed(self, row: TraceRow, event: trace.IsrProposed) -> None:
        self._proposals[event.topic, event.partition, event.node] = event

    @on(trace.IsrCommitted)
    def _isr_committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        """Add a line for a new ISR. If its leader proposed it, the line is about the proposal, which has a reason."""
        proposal = self._proposals.pop((event.topic, event.partition, event.proposed_by or ""), None)
        is_it = proposal is not None and set(proposal.isr) == set(event.isr)
        self._say(row, proposal if proposal is not None and is_it else event)

    @on(trace.LogRecovered)
    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        if event.size_bytes:
            self._say(row, event)

    @on(trace.ProduceRefused)
    def _produce_refused(self, row: TraceRow, event: trace.ProduceRefused) -> None:
        """Add a line for the first refusal with each error by a broker in a partition, since there may be many."""
        self._say_once(row, (event.node, event.name, event.error), event)

    @on(trace.ConnectionClosed, trace.RequestCrashed)
    def _connection_closed(self, row: TraceRow, event: trace.ConnectionClosed | trace.RequestCrashed) -> None:
        """Add a line for the first event of each kind that a node reports about a peer. The trace has every event."""
        self._say_once(row, (event.node, event.peer, EVENT_NAMES[type(event)]), event)

    @on(trace.RecordRead)
    def _record_read(self, row: TraceRow, event: trace.RecordRead) -> None:
        self._read[event.topic, event.partition] = None

    @on(trace.PositionReset)
    def _position_reset(self, row: TraceRow, event: trace.PositionReset) -> None:
        """Add a line if an error moved a consumer's position, unless the partition's first reader has just started."""
        goes_on = event.previous_offset >= 0 or (event.topic, event.partition) in self._read
        if event.error is not None and goes_on:
            self._say_once(row, event, event)

    @on(trace.FetchFailed)
    def _fetch_failed(self, row: TraceRow, event: trace.FetchFailed) -> None:
        if event.error in _NO_SUCH_OFFSET:
            self._say_once(row, (event.client, f"{event.topic}-{event.partition}", event.error), event)

    @on(trace.RequestRefused)
    def _request_refused(self, row: TraceRow, event: trace.RequestRefused) -> None:
        if isinstance(event, trace.OffsetCommitRefused) or ErrorCode[event.error] not in RETRIABLE:
            self._say_once(row, (event.client, f"{event.api} {event.group or ''}", event.error), event)

    @on(trace.DeserializationFailed)
    def _not_deserialized(self, row: TraceRow, event: trace.DeserializationFailed) -> None:
        self._say_once(row, (event.client, event.record, ""), event)

    @on(trace.ResponseInjected)
    def _response_injected(self, row: TraceRow, event: trace.ResponseInjected) -> None:
        """Add a line for the first response that a fault injects for a client. The trace has every response."""
        self._say_once(row, (event.node, event.peer, event.fault), event)

    @on(trace.ClientThrottled)
    def _throttled(self, row: TraceRow, event: trace.ClientThrottled) -> None:
        self._say_once(row, (event.node, event.peer, event.key), event)

    def _say_once(self, row: TraceRow, kind: Hashable, event: TraceEvent) -> None:
        if self._is_first(kind):
            self._say(row, event)

    def _is_first(self, kind: Hashable) -> bool:
        """Return True for the first event of a kind. After REFUSALS_MAX kinds, return False for every new kind."""
        if kind in self._refused or len(self._refused) >= REFUSALS_MAX:
            return False
        self._refused[kind] = None
        return True

    @on(trace.CheckMade)
    def _check_made(self, row: TraceRow, event: trace.CheckMade) -> None:
        if not event.held:
            self._say(row, event)

    @on(trace.InvariantBroken)
    def _invariant_broken(self, row: TraceRow, event: trace.InvariantBroken) -> None:
        self._write(row, f"invariant {event.invariant} was broken: {event.sentence()}")

    @on(trace.GroupMemberJoined, trace.ShareMemberJoined)
    def _member_joined(self, row: TraceRow, event: trace.GroupMemberJoined | trace.ShareMemberJoined) -> None:
        """Add a line for a member that joins after another member has left. The first members get no line."""
        if event.group in self._left:
            self._say(row, event)

    @on(trace.GroupMemberLeft, trace.ShareMemberLeft)
    def _member_left(self, row: TraceRow, event: trace.GroupMemberLeft | trace.ShareMemberLeft) -> None:
        self._left[event.group] = None
        self._say(row, event)

    @on(trace.GroupRemoved)
    def _group_removed(self, row: TraceRow, event: trace.GroupRemoved) -> None:
        self._left.pop(event.group, None)

    @on(trace.SharePartitionLoaded)
    def _share_loaded(self, row: TraceRow, event: trace.SharePartitionLoaded) -> None:
        """Add a line for each leader of a partition that begins to serve a share group, except for the first."""
        if not self._is_first((event.group, event.name)):
            self._say(row, event)

    @on(trace.ShareRecordsAcquired)
    def _share_acquired(self, row: TraceRow, event: trace.ShareRecordsAcquired) -> None:
        """Add a line when a record of a partition is the first to reach a delivery count above 1."""
        if event.delivery_count > 1:
            self._say_once(row, (event.group, event.name, event.delivery_count), event)

    @on(trace.ShareRecordsSettled)
    def _share_settled(self, row: TraceRow, event: trace.ShareRecordsSettled) -> None:
        """Add a line for the first records of a partition with each state and cause, unless they were accepted."""
        if event.state != "acknowledged":
            self._say_once(row, (event.group, event.name, event.state, event.share_cause), event)

    @on(trace.ShareDeadLettersSent)
    def _dead_letters_sent(self, row: TraceRow, event: trace.ShareDeadLettersSent) -> None:
        self._say_once(row, (event.group, event.name, event.outcome, event.error), event)

    @on(trace.ShareAcknowledgementFailed)
    def _share_acknowledgement_failed(self, row: TraceRow, event: trace.ShareAcknowledgementFailed) -> None:
        self._say_once(row, (event.client, event.name, event.error), event)

    @on(trace.TransactionStateChanged)
    def _transaction_changed(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        """Add a line if a coordinator acts by itself, a producer aborts, or a transaction ends late.

        An end is late if it was decided long before, or by another broker.
        """
        self._late.changed(event)
        decided = self._decided.pop(event.transactional_id, None)
        if event.state.startswith("Prepare"):
            self._decided[event.transactional_id] = (row.at_us, event)
        if event.fences:
            self._say(row, event)
        elif event.state == "PrepareAbort":
            self._say_once(row, (event.transactional_id, event.state, ""), event)
        elif decided is not None:
            at_us, before = decided
            ago, by = row.at_us - at_us, "" if before.node == event.node else f" by {before.node}"
            if by or before.fences or ago >= LONG_US:
                self._say(row, event, f"; {before.state} was decided {duration(ago)} earlier{by}")

    @on(trace.TransactionMarkerWritten)
    def _marker_written(self, row: TraceRow, event: trace.TransactionMarkerWritten) -> None:
        """Add a line for a producer's first abort in a partition with records, and for its first without records."""
        self._late.marked(event)
        if not event.committed:
            found = "none" if event.first_offset is None else "records"
            self._say_once(row, (f"{event.topic}-{event.partition}", str(event.producer_id), found), event)

    @on(trace.BatchAppended)
    def _batch_appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        overtaken = self._late.overtaken(event) if event.producer_id >= 0 else None
        if overtaken is None:
            return
        transactional_id, marker = overtaken
        name = TopicPartition(event.topic, event.partition)
        if self._begun_late.get(name, (-1, ""))[0] >= marker.offset:  # Another batch of the same transaction.
            return
        self._begun_late[name] = (event.base_offset, transactional_id)
        late = f"{event.node} appended a late batch of transactional.id {transactional_id} in {name} at"
        held = f"the last stable offset cannot pass {event.base_offset} until a marker ends the transaction"
        self._write(row, f"{late} {event.base_offset}: {after_its_end(marker)}; {held}")

    def _begins_at(self, name: TopicPartition, offset: int) -> str:
        """Return a note if the last stable offset is blocked by the last late batch, otherwise ""."""
        begun, transactional_id = self._begun_late.get(name, (-1, ""))
        return f", before the late batch of {transactional_id}," if begun == offset else ""

    @on(trace.TransactionFailed)
    def _transaction_failed(self, row: TraceRow, event: trace.TransactionFailed) -> None:
        self._say(row, event)

    @on(trace.LastStableOffsetMoved)
    def _last_stable_offset_moved(self, row: TraceRow, event: trace.LastStableOffsetMoved) -> None:
        """Add a line if the last stable offset was blocked for at least LONG_US."""
        name = TopicPartition(event.topic, event.partition)
        since = self._held.pop(name, None)
        if event.last_stable_offset < event.high_watermark:
            self._held[name] = (row.at_us, event)
        if since is not None and row.at_us - since[0] >= LONG_US:
            offset = since[1].last_stable_offset
            held = f"it had stayed at {offset}{self._begins_at(name, offset)} for {duration(row.at_us - since[0])}"
            self._say(row, event, f"; {held}")

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        """Add a line if the former leader's last stable offset was blocked for long. A new leader reports its own."""
        name = TopicPartition(event.topic, event.partition)
        since = self._held.pop(name, None)
        if since is not None and row.at_us - since[0] >= LONG_US:
            stood = f"the last stable offset of {name} had stayed at {since[1].last_stable_offset}"
            self._say(row, event, f"; at {since[1].node} {stood} for {duration(row.at_us - since[0])}")

    @on(trace.RunFinished)
    def _run_finished(self, row: TraceRow, event: trace.RunFinished) -> None:
        for name, (at_us, held) in self._held.items():
            if row.at_us - at_us >= LONG_US:
                stands = f"the last stable offset of {name} has stayed at {held.last_stable_offset}"
                before = self._begins_at(name, held.last_stable_offset) or ","
                since = duration(row.at_us - at_us)
                self._write(row, f"{stands}{before} for {since}; read_committed consumers wait there")

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of topics that are gone (see Forgetful), except lines of the story."""
        self._histories.forget(is_gone)
        drop(is_gone, self._proposals, self._held, self._begun_late, self._read)
        self._late.forget(is_gone)

    @property
    def histories(self) -> dict[TopicPartition, PartitionHistory]:
        """Return the history of every partition until now."""
        return self._histories.until_now()


# --------------------------------------------------------------------------------------------------------- story groups
#
# Key events that are equal for many partitions share a line, such as six elections when a broker is fenced.


@dataclass(frozen=True, slots=True)
class StoryGroup:
    """Lines of the story that are shown as one line.

    Attributes:
        first: earliest of the lines.
        text: text for all lines together.
        is_merged: True if there are several lines.
    """

    first: StoryLine
    text: str
    partitions: list[TopicPartition]
    is_merged: bool = False


def grouped(story: Story) -> list[StoryGroup]:
    """Return the groups of the story's lines, in the order of their first lines."""
    lines = story.lines
    entries = (ShownEvent(line.at_us, line.event, number, line.sign) for number, line in enumerate(lines) if line.event)
    groups = {alike.first.number: alike for alike in together(entries)}
    return [_group(line, groups.get(number)) for number, line in enumerate(lines) if not line.event or number in groups]


def _group(first: StoryLine, alike: Alike | None) -> StoryGroup:
    if alike is None:
        return StoryGroup(first, first.text, [])
    return StoryGroup(first, alike.text, alike.partitions, len(alike.numbers) > 1)
