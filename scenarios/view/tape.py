"""The data of a page, called the tape: the events of a trace, each with a sentence and the changes of the state.

The page implements no rules of Kafka. It only applies the changes of each event, which are computed here with
`ClusterView`, as in the invariant checker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from replica.ids import INTERNAL_TOPICS, TopicPartition
from replica.trace import events as trace
from replica.trace.events import EVENT_NAMES, TraceRow
from replica.trace.listening import Listener, on
from replica.trace.signs import mark_places
from replica.wording import set_of
from scenarios.language.verbs.every import TOLD_BY_THEIR_NODE
from scenarios.observe.differences import AT_THE_END
from scenarios.observe.story import Story, is_internal
from scenarios.observe.view import ClusterView, PartitionView
from scenarios.view.coordinators import CoordinatorChanges, CoordinatorNames
from scenarios.view.places import NOTHING, PlacesOfNames

EVENTS_MAX = 60_000
"""Number of events of a page above which unimportant events are left out, so that the page opens fast."""
EVERY_EVENT = 1 << 60
"""Value for `events_max` with which no event is left out."""

BATCHES_IN_FLIGHT_MAX = 2_000
"""Largest number of batches whose record names a new tape takes over from the previous tape."""

QUIET = (trace.FollowerFetched, trace.RecordsSent, trace.RequestCompleted, trace.HighWatermarkLearned)
"""Events that are left out first. Their changes are applied with the next event that is kept."""
FREQUENT = (
    trace.RecordSent,
    trace.BatchSent,
    trace.RecordRead,
    trace.BatchAppended,
    trace.RecordHandedOver,
    trace.TransactionBegan,
    trace.TransactionEndAsked,
    trace.TransactionEnded,
    trace.TransactionStateChanged,
    trace.TransactionMarkerWritten,
    trace.LastStableOffsetMoved,
    trace.OffsetCommitted,
    trace.ShareRecordRead,
    trace.ShareRecordsAcquired,
    trace.ShareRecordsSettled,
)
"""Events that are left out if there are still too many without QUIET."""
_MESSAGE_ARRIVES = (
    trace.BatchAppended,
    trace.ProduceRefused,
    trace.RecordAcked,
    trace.BatchRefused,
    trace.FollowerFetched,
    trace.FetchRefused,
    trace.RecordRead,
    trace.IsrCommitted,
    trace.IsrRejected,
    trace.LeadershipBegan,
    trace.FollowingBegan,
    trace.LogTruncated,
)
"""Events that the arrival of a message can cause. A cause at another node is then the sending of the message."""

FETCH_FLIGHT_MAX_US = 500_000
"""Longest flight of a fetch in microseconds. An older cause belongs to an earlier request without a response."""

_TOUCH_ALL = (
    trace.NodeStarted,
    trace.NodeStopped,
    trace.LogDirFailed,
    trace.TopicDeleted,
    trace.ConfigAltered,
    trace.FaultBegan,
    trace.FaultEnded,
)
"""Events after which the states of all nodes and partitions are compared, since they may have changed."""

SENT, ACKED, HANDED_OVER, FAILED, RETRIED = range(5)
"""The states of a record at its producer, in the data of the page."""
_KNOWN_BY_PRODUCER: dict[type[trace.TraceEvent], int] = {
    trace.RecordSent: SENT,
    trace.RecordAcked: ACKED,
    trace.RecordHandedOver: HANDED_OVER,
    trace.RecordFailed: FAILED,
}

DOWN, RUNNING, PAUSED = range(3)


@dataclass(slots=True)
class FaultSpan:
    """A fault and the time for which it is in force. `until_us` is None if it has not ended."""

    verb: str
    text: str
    targets: tuple[str, ...]
    from_us: int
    until_us: int | None = None

    def as_json(self) -> list[Any]:
        return [self.verb, self.text, list(self.targets), self.from_us, self.until_us]


@dataclass(slots=True)
class Tape:
    """The page's data. The lists from `at_us` to `changes` have one item per event.

    Items of `kind`, `node`, `partition` and `text` are indexes in the lists of names.

    Attributes:
        changes: changes of the state by each event. A change is a list that begins with its kind.
        places: index of each event in these lists, by its sequence number.
        left_out: number of events of the trace that are not on the tape.
    """

    nodes: PlacesOfNames = field(default_factory=PlacesOfNames)
    roles: dict[str, str] = field(default_factory=dict)
    """The roles of the nodes that have started."""
    brokers: dict[str, None] = field(default_factory=dict)
    """Brokers that have started or have a replica."""
    partitions: PlacesOfNames = field(default_factory=PlacesOfNames)
    records: PlacesOfNames = field(default_factory=PlacesOfNames)
    texts: PlacesOfNames = field(default_factory=PlacesOfNames)
    kinds: PlacesOfNames = field(default_factory=PlacesOfNames)
    faults: list[FaultSpan] = field(default_factory=list)
    at_us: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    partition: list[int] = field(default_factory=list)
    text: list[int] = field(default_factory=list)
    sender: list[int] = field(default_factory=list)
    """Index of the event that sent the message that caused this event, NOTHING if there is none."""
    key: list[str] = field(default_factory=list)
    """Name of the sign of a key event, "" for other events."""
    short: list[int] = field(default_factory=list)
    """Index in `texts` of the short description of a key event, NOTHING for other events."""
    changes: list[list[list[Any]]] = field(default_factory=list)
    coordinators: CoordinatorNames = field(default_factory=CoordinatorNames)
    places: dict[int, int] = field(default_factory=dict)
    left_out: int = 0
    end_us: int = 0

    def __len__(self) -> int:
        return len(self.at_us)

    def partitions_with_records(self) -> set[int]:
        """Return the indexes of all partitions with records, or of all partitions if none has any, and NOTHING."""
        at = {"append": 1, "record": 4}
        found = {change[at[change[0]]] for changes in self.changes for change in changes if change[0] in at}
        return {NOTHING, *(found - {NOTHING} or range(len(self.partitions)))}

    def nodes_as_json(self) -> dict[str, Any]:
        """Return the nodes as [name, role], and the brokers as [index of the node, index of the broker's mark]."""
        return {
            "nodes": [[name, self.roles.get(name, "")] for name in self.nodes],
            "brokers": [[self.nodes.place(name), mark] for name, mark in mark_places(self.brokers).items()],
        }

    def as_json(self) -> dict[str, Any]:
        return {
            **self.nodes_as_json(),
            **self.coordinators.as_json(),
            "partitions": list(self.partitions),
            "records": list(self.records),
            "texts": list(self.texts),
            "kinds": list(self.kinds),
            "faults": [fault.as_json() for fault in self.faults],
            "at": _differences(self.at_us),
            "kind": self.kind,
            "node": self.node,
            "part": self.partition,
            "text": self.text,
            "sender": self.sender,
            "key": self.key,
            "short": self.short,
            "changes": self.changes,
            "left_out": self.left_out,
            "end_us": self.end_us,
        }


def _differences(values: Sequence[int]) -> list[int]:
    return [value - before for value, before in zip(values, (0, *values), strict=False)]


def record_tape(rows: Sequence[TraceRow], events_max: int = EVENTS_MAX) -> Tape:
    """Return the tape of a complete trace. `rows` must be sorted by sequence number."""
    shown = [row for row in rows if not isinstance(row.event, AT_THE_END)]
    dropped: tuple[type[trace.TraceEvent], ...] = ()
    for more in (QUIET, FREQUENT):
        if sum(not isinstance(row.event, dropped) for row in shown) > events_max:
            dropped += more
    recorder = TapeRecorder(ClusterView((), ()), dropped)
    for row in shown:
        recorder(row)
    return recorder.finish(rows)


class TapeRecorder(Listener):
    """Listener that records events on a tape.

    Args:
        view: the state of the cluster before the first event.
        dropped: types of events to leave out.
    """

    def __init__(self, view: ClusterView, dropped: tuple[type[trace.TraceEvent], ...]) -> None:
        self.tape = Tape()
        self.dropped = dropped
        self._view = view
        self._story = Story(view)
        self._names_by_crc: dict[tuple[str, int, int], tuple[str, ...]] = {}
        self._actors: dict[int, str] = {}
        self._held: dict[int, int] = {}
        """Sequence number of the sending event, by that of the event that the message was held back or released."""
        self._faults: dict[str, FaultSpan] = {}
        self._replicas: dict[tuple[TopicPartition, str], list[Any]] = {}
        self._standings: dict[TopicPartition, list[Any]] = {}
        self._node_states: dict[str, int] = {}
        tape = self.tape
        self._coordinators = CoordinatorChanges(tape.coordinators, tape.nodes, tape.partitions)
        self._waiting: list[list[Any]] = []
        """Changes that belong to the next event on the tape, such as those of events that are left out."""

    def __call__(self, row: TraceRow) -> None:
        event = row.event
        line_count = len(self._story.lines)
        self._view(row)
        self._story(row)
        if is_internal(event):
            self.tape.left_out += 1
            return
        super().__call__(row)
        self._waiting += self._coordinators.changes(row)
        line = self._story.lines[-1] if len(self._story.lines) > line_count else None
        if isinstance(event, self.dropped) and line is None:
            self.tape.left_out += 1
            return
        text = line.text if line else self._sentence(event)
        if line is None and isinstance(event, trace.FaultBegan | trace.FaultEnded) and self._is_shown(row, event):
            return
        self._put(row, line.sign if line else "", text)

    def _is_shown(self, row: TraceRow, event: trace.FaultBegan | trace.FaultEnded) -> bool:
        """Return True if another event on the tape already describes the begin or end of a fault, such as NodeStopped.

        The event then gets no item of its own, and its changes are added to the last item.
        """
        index = self._index_of_node_event(row, event)
        if index == NOTHING:
            return False
        self.tape.places[row.seq] = index
        self.tape.changes[-1] += self._waiting
        self._waiting = []
        return True

    def _index_of_node_event(self, row: TraceRow, event: trace.FaultBegan | trace.FaultEnded) -> int:
        tape = self.tape
        if isinstance(event, trace.FaultEnded) and event.ended_by is not None:
            return max((tape.places.get(cause, NOTHING) for cause in row.causes), default=NOTHING)
        of_nodes = [tape.kinds.known(EVENT_NAMES[kind]) for kind in (trace.NodeStopped, trace.NodeStarted)]
        targets = [tape.nodes.known(name) for name in event.targets]
        index = len(tape) - 1 if event.verb in TOLD_BY_THEIR_NODE else NOTHING
        while index >= 0 and tape.at_us[index] == row.at_us:
            if tape.kind[index] in of_nodes and tape.node[index] in targets:
                return index
            index -= 1
        return NOTHING

    def take_over(self, before: TapeRecorder) -> None:
        """Begin with the state at the end of another tape: the cluster, its nodes, and the faults in force."""
        for name in before.tape.roles:
            self.tape.nodes.place(name)
        self.tape.roles, self.tape.brokers = before.tape.roles, before.tape.brokers
        self._faults = before._faults
        self.tape.faults = list(before._faults.values())
        self._names_by_crc = dict(list(before._names_by_crc.items())[-BATCHES_IN_FLIGHT_MAX:])
        # The page distinguishes nodes that have stopped from nodes that have never started.
        self._waiting += [["node", self.tape.nodes.place(name), DOWN] for name in before.tape.roles]
        self._look_at_all(self._waiting)
        self._waiting += self._coordinators.take_over(before._coordinators)

    def finish(self, rows: Sequence[TraceRow]) -> Tape:
        if self._waiting and len(self.tape):
            self.tape.changes[-1] += self._waiting
        self.tape.end_us = rows[-1].at_us if rows else 0
        return self.tape

    # ------------------------------------------------------------------------------------------------- one event

    def _put(self, row: TraceRow, sign: str, text: str) -> None:
        tape, event = self.tape, row.event
        actor = _actor(event)
        if actor is not None:
            self._actors[row.seq] = actor
        tape.places[row.seq] = len(tape)
        tape.at_us.append(row.at_us)
        tape.kind.append(tape.kinds.place(EVENT_NAMES[type(event)]))
        tape.node.append(tape.nodes.place(actor))
        tape.partition.append(tape.partitions.known(partition_name(event)))
        tape.text.append(tape.texts.place(text))
        tape.sender.append(self._sender(row, actor))
        tape.key.append(sign)
        tape.short.append(tape.texts.place(_few_words(event, sign)) if sign else NOTHING)
        tape.changes.append(self._waiting)
        self._waiting = []

    def _sender(self, row: TraceRow, actor: str | None) -> int:
        """Return the index of the event at another node whose message caused this event, NOTHING if there is none."""
        if not isinstance(row.event, _MESSAGE_ARRIVES):
            return NOTHING
        for cause in (self._held.get(cause, cause) for cause in reversed(row.causes)):
            index = self.tape.places.get(cause, NOTHING)
            sender = self._actors.get(cause)
            if index < 0 or sender is None or sender == actor:
                continue
            flight_us = row.at_us - self.tape.at_us[index]
            if isinstance(row.event, trace.FollowerFetched) and flight_us > FETCH_FLIGHT_MAX_US:
                continue
            return index if flight_us > 0 else NOTHING
        return NOTHING

    # ----------------------------------------------------- state for the sentences: batch names, roles, faults in force

    @on(trace.BatchSent)
    def _batch_sent(self, row: TraceRow, event: trace.BatchSent) -> None:
        self._names_by_crc[event.topic, event.partition, event.crc] = event.records

    @on(trace.MessageHeld, trace.MessageReleased)
    def _message_held(self, row: TraceRow, event: trace.MessageHeld | trace.MessageReleased) -> None:
        if row.causes:
            self._held[row.seq] = self._held.get(row.causes[0], row.causes[0])

    @on(trace.NodeStarted)
    def _node_started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        self.tape.nodes.place(event.node)
        self.tape.roles[event.node] = event.role
        if event.role == "broker":
            self.tape.brokers[event.node] = None

    @on(trace.PartitionCreated)
    def _partition_created(self, row: TraceRow, event: trace.PartitionCreated) -> None:
        self.tape.partitions.place(partition_name(event))

    @on(trace.FaultBegan)
    def _fault_began(self, row: TraceRow, event: trace.FaultBegan) -> None:
        began = FaultSpan(event.verb, event.sentence(), event.targets, row.at_us)
        self._faults[event.fault] = began
        self.tape.faults.append(began)

    @on(trace.FaultEnded)
    def _fault_ended(self, row: TraceRow, event: trace.FaultEnded) -> None:
        if event.fault in self._faults:
            self._faults.pop(event.fault).until_us = row.at_us

    def _sentence(self, event: trace.TraceEvent) -> str:
        return event.sentence(self._records(event)) if isinstance(event, trace.BatchAppended) else event.sentence()

    def _records(self, event: trace.BatchAppended) -> tuple[str, ...]:
        return self._names_by_crc.get((event.topic, event.partition, event.crc), ())

    # ---------------------------------------------------------------------------------------------------- changes
    #
    # Each change is a list that begins with the name of its kind. These handlers run after the handlers above.

    @on(trace.TraceEvent)
    def _look(self, row: TraceRow, event: trace.TraceEvent) -> None:
        if isinstance(event, _TOUCH_ALL):
            self._look_at_all(self._waiting)
        else:
            named = TopicPartition(getattr(event, "topic", None) or "", getattr(event, "partition", -1))
            if named in self._view.partitions:
                self._look_at(self._view.partitions[named], self._waiting)

    def _look_at_all(self, found: list[list[Any]]) -> None:
        for name, node in self._view.nodes.items():
            state = DOWN if not node.running else PAUSED if node.paused else RUNNING
            if self._node_states.get(name, DOWN) != state:
                self._node_states[name] = state
                found.append(["node", self.tape.nodes.place(name), state])
        for partition in self._view.partitions.values():
            self._look_at(partition, found)
        self._forget_deleted(found)

    def _look_at(self, partition: PartitionView, found: list[list[Any]]) -> None:
        name = partition.topic_partition
        if name.topic in INTERNAL_TOPICS:
            return
        nodes = self.tape.nodes
        index = self.tape.partitions.place(str(name))
        isr = [nodes.place(node) for node in partition.isr]
        elr = [nodes.place(node) for node in partition.elr]
        assigned = [nodes.place(node) for node in partition.assigned]
        self.tape.brokers.update(dict.fromkeys(partition.assigned))
        leader = nodes.place(partition.leader)
        standing = ["part", index, leader, partition.leader_epoch, isr, elr, partition.min_isr, assigned]
        if self._standings.get(name) != standing:
            self._standings[name] = standing
            found.append(standing)
        for node, replica in partition.replicas.items():
            role = {"leader": 2, "follower": 1}.get(replica.role or "", 0)
            state = [
                "replica",
                index,
                nodes.place(node),
                role,
                replica.leader_epoch,
                replica.log_start_offset,
                replica.log_end_offset,
                replica.high_watermark,
            ]
            if self._replicas.get((name, node)) != state:
                self._replicas[name, node] = state
                found.append(state)

    def _forget_deleted(self, found: list[list[Any]]) -> None:
        for name in [name for name in self._standings if name not in self._view.partitions]:
            del self._standings[name]
            for key in [key for key in self._replicas if key[0] == name]:
                del self._replicas[key]
            found.append(["gone", self.tape.partitions.place(str(name))])

    @on(trace.BatchAppended)
    def _appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        index = self.tape.partitions.place(partition_name(event))
        count = event.last_offset - event.base_offset + 1
        names = self._records(event)
        records = [self.tape.records.place(name) for name in names] if len(names) == count else [NOTHING] * count
        change = ["append", index, self.tape.nodes.place(event.node), event.base_offset, event.leader_epoch, records]
        # All batches of a transactional producer are in transactions, whose ends the page shows.
        if self._coordinators.is_transactional(event.producer_id):
            change.append(event.producer_id)
        self._waiting.append(change)

    @on(*_KNOWN_BY_PRODUCER)
    def _known(self, row: TraceRow, event: Any) -> None:
        self._record_stands(event, event.record, _KNOWN_BY_PRODUCER[type(event)])

    @on(trace.BatchRefused)
    def _batch_refused(self, row: TraceRow, event: trace.BatchRefused) -> None:
        for name in event.records if event.will_retry else ():
            self._record_stands(event, name, RETRIED)

    def _record_stands(self, event: Any, name: str, known: int) -> None:
        index = self.tape.partitions.place(partition_name(event))
        record, client = self.tape.records.place(name), self.tape.nodes.place(event.client)
        self._waiting.append(["record", record, known, client, index])

    @on(trace.RecordRead)
    def _record_read(self, row: TraceRow, event: trace.RecordRead) -> None:
        index, client = self.tape.partitions.place(partition_name(event)), self.tape.nodes.place(event.client)
        self._waiting.append(["read", client, index, event.offset + 1, self.tape.records.place(event.record)])

    @on(trace.PositionReset)
    def _position_reset(self, row: TraceRow, event: trace.PositionReset) -> None:
        index, client = self.tape.partitions.place(partition_name(event)), self.tape.nodes.place(event.client)
        self._waiting.append(["read", client, index, event.offset, NOTHING])


_FEW_WORDS: dict[type[trace.TraceEvent], str] = {
    trace.ResponseInjected: "on demand",
    trace.NodeStopped: "{0.node} down",
    trace.NodeStarted: "{0.node} starts",
    trace.LeaderElected: "{0.broker} elected",
    trace.LogTruncated: "{0.node} truncates",
    trace.BrokerFenced: "{0.broker} fenced",
    trace.PartitionWentOffline: "no leader",
    trace.FaultEnded: "undone",
    trace.TransactionsLoaded: "{0.node} coordinates",
    trace.TransactionMarkerWritten: "marker",
    trace.BatchAppended: "late batch",
    trace.TransactionFailed: "{0.client} fails",
    trace.TransactionStateChanged: "{0.transactional_id} {0.state}",
    trace.GroupRebalanced: "rebalanced",
    trace.GroupMemberLeft: "member gone",
    trace.ShareMemberLeft: "member gone",
    trace.ShareStatesLoaded: "{0.node} coordinates",
    trace.ShareStateReset: "offsets reset",
    trace.SharePartitionLoaded: "{0.node} serves {0.group}",
    trace.ShareRecordsAcquired: "delivery {0.delivery_count}",
    trace.ShareRecordsSettled: "{0.state}",
    trace.ShareAcknowledgementFailed: "not acknowledged",
    trace.ShareDeadLettersSent: "{0.outcome}",
    trace.GroupsLoaded: "{0.node} coordinates",
    trace.LastStableOffsetMoved: "LSO",
    trace.ProduceRefused: "refused",
    trace.DataLost: "{0.node} loses data",
    trace.ElectionRefused: "no election",
    trace.IsrRejected: "ISR refused",
}


def _few_words(event: trace.TraceEvent, sign: str) -> str:
    """Return a description of a key event in a few words."""
    match event:
        case trace.IsrCommitted():
            return f"ISR {set_of(event.isr)}"
        case trace.ElrCommitted():
            return f"ELR {set_of(event.elr)}"
        case trace.FaultBegan():
            return "undone" if sign == "undone" else "fault"
        case trace.LeaderElected(broker=None):
            return "no leader"
    return _FEW_WORDS.get(type(event), EVENT_NAMES[type(event)].replace("_", " ")).format(event)


def _actor(event: trace.TraceEvent) -> str | None:
    found: str | None = getattr(event, "node", None) or getattr(event, "client", None)
    return found


def partition_name(event: trace.TraceEvent) -> str | None:
    """Return the name of an event's partition, None if there is none or the producer has not chosen one yet."""
    topic: str | None = getattr(event, "topic", None)
    number: int | None = getattr(event, "partition", None)
    return None if topic is None or number is None or number < 0 else f"{topic}-{number}"
