"""The trace: events about a run in one total order, and the only declaration of their schema.

An event is a frozen dataclass named in the past tense. Its class says in which table it is kept; its fields are that
table's columns. The other modules of this room declare the events by family, each kind once, and all are names of this
module. The Parquet writer, the Spark reader, the checker and the terminal all derive from here.

Every row also has `seq` (one global order per run), `at_us` (virtual microseconds), `event` (the event's name) and
`causes` (the `seq` of the events that led to this one). Nodes, topics and records are named, never numbered.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Annotated, ClassVar, NamedTuple, Protocol, get_type_hints

from replica.causes import Cause
from replica.frozen import dataclass
from replica.ids import INTERNAL_TOPICS as INTERNAL_TOPICS
from replica.ids import OUTSIDE as OUTSIDE
from replica.trace import client as events_client
from replica.trace import compaction as events_compaction
from replica.trace import controller as events_controller
from replica.trace import groups as events_group
from replica.trace import pipeline as events_pipeline
from replica.trace import quotas as events_quota
from replica.trace import replica as events_replica
from replica.trace import run as events_run
from replica.trace import server as events_server
from replica.trace import transactions as events_transaction
from replica.trace.client import *  # noqa: F403  an event is declared once, not listed here a second time
from replica.trace.columns import OnPartition as OnPartition
from replica.trace.columns import TraceEvent as TraceEvent
from replica.trace.compaction import *  # noqa: F403
from replica.trace.controller import *  # noqa: F403
from replica.trace.groups import *  # noqa: F403
from replica.trace.listening import Routes
from replica.trace.pipeline import *  # noqa: F403
from replica.trace.quotas import *  # noqa: F403
from replica.trace.replica import *  # noqa: F403
from replica.trace.run import *  # noqa: F403
from replica.trace.server import *  # noqa: F403
from replica.trace.transactions import *  # noqa: F403

SCHEMA_VERSION = 1

REAL_KAFKA = "real Kafka"
"""How the profile of a run begins whose nodes are those of Apache Kafka; its version follows."""


Causes = type[Cause]
"""One of the lists of causes."""


class Column(NamedTuple):
    """One column of a trace table; `type` is one of int64, string, bool, list<string>, list<int64>.

    causes: the list of the words that it holds
    """

    name: str
    type: str
    nullable: bool
    doc: str
    causes: Causes | None = None


COMMON_COLUMNS = (
    Column("seq", "int64", False, "position in the run's one total order, from 0"),
    Column("at_us", "int64", False, "virtual time, microseconds since the run began"),
    Column("event", "string", False, "name of the event, in the past tense"),
    Column("causes", "list<int64>", False, "seq of the events that led to this one; all smaller than its own"),
)

OBSERVED_BY = Column(
    "observed_by",
    "string",
    True,
    "how the event was seen: metadata log, log directory, console log or wire; null: the run states it itself",
)
"""Last column of every table, in traces of runs on real Kafka only: such a cluster states nothing itself."""


REASON = Column("reason", "string", False, "why, in one plain English sentence; for people: causes are data beside it")
"""Last column of every kind of event that makes a sentence: what its `sentence()` gives."""


def event_name(event_class: type[TraceEvent]) -> str:
    """`HighWatermarkAdvanced` -> `high_watermark_advanced`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event_class.__name__).lower()


def _column(name: str, hint: object) -> Column:
    doc = ""
    if typing.get_origin(hint) is Annotated:
        hint, doc = typing.get_args(hint)
    nullable = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        nullable = True
    causes: type[Cause] | None = None
    of_many = typing.get_origin(hint) is tuple
    one = typing.get_args(hint)[0] if of_many else hint
    if isinstance(one, type) and issubclass(one, Cause):
        causes, hint = one, tuple[str, ...] if of_many else str
    kinds: dict[object, str] = {
        int: "int64",
        str: "string",
        bool: "bool",
        tuple[str, ...]: "list<string>",
        tuple[int, ...]: "list<int64>",
    }
    return Column(name, kinds[hint], nullable, str(doc), causes)


# The order of the declarations is the order of the columns.
FAMILIES = (
    events_run,
    events_controller,
    events_replica,
    events_client,
    events_group,
    events_server,
    events_transaction,
    events_compaction,
    events_quota,
    events_pipeline,
)
EVENT_CLASSES: tuple[type[TraceEvent], ...] = tuple(
    declared
    for family in FAMILIES
    for declared in vars(family).values()
    if isinstance(declared, type) and issubclass(declared, TraceEvent) and declared.__module__ == family.__name__
)
EVENT_NAMES: dict[type[TraceEvent], str] = {cls: event_name(cls) for cls in EVENT_CLASSES}
CLASS_OF_EVENT: dict[str, type[TraceEvent]] = {name: cls for cls, name in EVENT_NAMES.items()}
TABLES: tuple[str, ...] = ("control", "log", "fetch", "high_watermark", "produce", "consume", "final_log")
OPTIONAL_TABLES: tuple[str, ...] = ("group", "request", "transaction", "compaction", "quota", "pipeline", "refusal")
"""Written only by runs that have such events."""


_COLUMNS_OF_EVENT: dict[type[TraceEvent], tuple[Column, ...]] = {}


def columns_of_event(event_class: type[TraceEvent]) -> tuple[Column, ...]:
    """The columns one kind of event fills, without the common ones."""
    known = _COLUMNS_OF_EVENT.get(event_class)
    if known is None:  # Every run asks, several times over, and reading type hints is slow.
        hints = get_type_hints(event_class, include_extras=True)
        known = tuple(_column(field.name, hints[field.name]) for field in fields(event_class))
        if makes_sentence(event_class):
            known += (REASON,)
        _COLUMNS_OF_EVENT[event_class] = known
    return known


def makes_sentence(event_class: type[TraceEvent]) -> bool:
    """Whether the class makes the sentence of its events from their data."""
    return event_class.sentence is not TraceEvent.sentence


@functools.cache
def columns_of_table(table: str, *, observed: bool = False) -> tuple[Column, ...]:
    """All columns of a table, common ones first; columns that not every event of the table fills are nullable.

    observed: of a run on real Kafka
    """
    if observed:
        return (*columns_of_table(table), OBSERVED_BY)
    classes = [cls for cls in EVENT_CLASSES if table == cls.TABLE]
    merged: dict[str, Column] = {}
    filled: dict[str, int] = {}
    for cls in classes:
        for column in columns_of_event(cls):
            known = merged.setdefault(column.name, column)
            assert known.type == column.type, f"{table}.{column.name} has two types"
            merged[column.name] = known._replace(nullable=known.nullable or column.nullable)
            filled[column.name] = filled.get(column.name, 0) + 1
    return COMMON_COLUMNS + tuple(
        column._replace(nullable=column.nullable or filled[column.name] < len(classes)) for column in merged.values()
    )


@dataclass(frozen=True, slots=True)
class TraceRow:
    """An event in its place: listeners (checker, expectations, writer) receive these in order."""

    seq: int
    at_us: int
    causes: tuple[int, ...]
    event: TraceEvent


class NamesOfRecords(Protocol):
    """The names of a run's records, by place."""

    def between(self, start: int, stop: int) -> list[str]: ...

    def numbered(self, start: int, stop: int) -> tuple[str, int] | None:
        """Prefix and first number, if they have one prefix and numbers that count up by one."""
        ...


@dataclass(frozen=True, slots=True)
class LogEntriesFound:
    """Neighbours in one batch of one replica's log: in the trace a LogEntryFound for each, whose offsets count up.

    offset, place: of the first record; places in `names` count up, too
    """

    node: str
    topic: str
    partition: int
    offset: int
    place: int
    count: int
    names: NamesOfRecords
    leader_epoch: int
    crc: int
    SINGLE: ClassVar = LogEntryFound  # noqa: F405

    def rows(self, first: TraceRow) -> Iterator[TraceRow]:
        """first: the row of this, which is that of its first record"""
        seq, causes = first.seq, first.causes
        for number, record in enumerate(self.names.between(self.place, self.place + self.count)):
            entry = LogEntryFound(  # noqa: F405
                node=self.node, topic=self.topic, partition=self.partition, offset=self.offset + number,
                record=record, leader_epoch=self.leader_epoch, crc=self.crc,
            )  # fmt: skip
            yield TraceRow(seq + number, first.at_us, causes, entry)
            causes = (seq + number,)


@dataclass(frozen=True, slots=True)
class Emit:
    """An action of a state machine: put this event into the trace."""

    event: TraceEvent


class Recorder(Protocol):
    """Where cores put their events. `emit` returns the event's `seq`, to be named as a cause later.

    `cause`: what an event without explicit causes would follow from now; a core that branches notes it first. An event
    emitted `aside` is measured, not decided: nothing follows from it.
    """

    @property
    def at_us(self) -> int:
        """When the step in progress takes place."""
        ...

    @property
    def cause(self) -> int | None: ...

    def emit(self, event: TraceEvent, *causes: int) -> int: ...

    def aside(self, event: TraceEvent, *causes: int) -> int: ...


class TraceLog:
    """Numbers events and hands them on; the shell sets `at_us` and `cause` before each step it takes.

    `cause` is the event that led to the step in progress; an event without explicit causes gets the step's latest one.
    Listeners (listening.py) take it in their order. LogEntriesFound goes as it is to those that take it, and record by
    record to the others.
    `observed_by` is how the event was seen that is emitted now, a value of that column.
    """

    __slots__ = ("_routes", "at_us", "cause", "next_seq", "observed_by")

    def __init__(self, listeners: Sequence[Callable[[TraceRow], None]] = ()) -> None:
        self.at_us = 0
        self.cause: int | None = None
        self.observed_by: str | None = None
        self.next_seq = 0
        self._routes = Routes(listeners)

    def emit(self, event: TraceEvent, *causes: int) -> int:
        seq = self.next_seq
        self.next_seq = seq + 1
        if not causes and self.cause is not None:
            causes = (self.cause,)
        self.cause = seq
        row = TraceRow(seq, self.at_us, causes, event)
        for handler in self._routes[type(event)]:
            handler(row, event)
        return seq

    def emit_entries(self, found: LogEntriesFound) -> None:
        """As `emit` for each of the records."""
        row = TraceRow(self.next_seq, self.at_us, () if self.cause is None else (self.cause,), found)  # type: ignore[arg-type]
        self.next_seq += found.count
        self.cause = self.next_seq - 1
        for handler in self._routes[LogEntriesFound]:
            handler(row, found)

    def aside(self, event: TraceEvent, *causes: int) -> int:
        """As `emit`, but nothing that follows is held to be caused by it."""
        before = self.cause
        seq = self.emit(event, *causes)
        self.cause = before
        return seq
