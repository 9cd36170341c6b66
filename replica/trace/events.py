"""The trace: the events of a run in one total order, and the only declaration of their schema.

An event is a frozen dataclass with a name in the past tense. The class has the name of the table that stores its
events; the fields are columns of that table. The other modules of this package declare the events, and this module
imports them all. The Parquet writer, the Spark reader, the checker and the terminal use these declarations.

Every row also has `seq` (position in the run's total order), `at_us` (virtual microseconds), `event` (name of the
event) and `causes` (`seq` of the events that led to it). Nodes, topics and records have names, not numbers.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, NamedTuple, Protocol, get_type_hints

from replica.causes import Cause
from replica.frozen import dataclass
from replica.ids import INTERNAL_TOPICS as INTERNAL_TOPICS
from replica.ids import OFFSETS_TOPIC as OFFSETS_TOPIC
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
from replica.trace import share as events_share
from replica.trace import transactions as events_transaction
from replica.trace.client import *  # noqa: F403  an event is declared once, not listed here a second time
from replica.trace.columns import Frequent
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
from replica.trace.share import *  # noqa: F403
from replica.trace.transactions import *  # noqa: F403
from replica.wording import spelt_out

SCHEMA_VERSION = 1

REAL_KAFKA = "real Kafka"
"""Prefix of the profile of a run on real Apache Kafka; the version follows."""


Causes = type[Cause]
"""A class of causes, such as IsrCause."""


class Column(NamedTuple):
    """One column of a trace table.

    Attributes:
        type: int64, string, bool, list<string> or list<int64>.
        causes: class of the causes in the column, None for other columns.
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
"""The last column of every table in the trace of a run on real Kafka, whose events are observed from outside."""


REASON = Column("reason", "string", False, "why, in one plain English sentence; for people: causes are data beside it")
"""The last column of events that are not `Frequent`: the result of `sentence()`."""


def event_name(event_class: type[TraceEvent]) -> str:
    """Return the name of an event in the trace, such as `high_watermark_advanced` for HighWatermarkAdvanced."""
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
    item = typing.get_args(hint)[0] if of_many else hint
    if isinstance(item, type) and issubclass(item, Cause):
        causes, hint = item, tuple[str, ...] if of_many else str
    kinds: dict[object, str] = {
        int: "int64",
        str: "string",
        bool: "bool",
        tuple[str, ...]: "list<string>",
        Sequence[str]: "list<string>",
        tuple[int, ...]: "list<int64>",
    }
    return Column(name, kinds[hint], nullable, str(doc), causes)


# The columns of the tables are in the order of these declarations.
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
    events_share,
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
OPTIONAL_TABLES: tuple[str, ...] = (
    "group",
    "request",
    "transaction",
    "compaction",
    "quota",
    "pipeline",
    "refusal",
    "share",
)
"""Tables that exist only if a run has events for them."""


_COLUMNS_OF_EVENT: dict[type[TraceEvent], tuple[Column, ...]] = {}


def columns_of_event(event_class: type[TraceEvent]) -> tuple[Column, ...]:
    """Return the columns that a kind of event fills, without COMMON_COLUMNS."""
    known = _COLUMNS_OF_EVENT.get(event_class)
    if known is None:  # Every run calls this many times, and reading type hints is slow.
        hints = get_type_hints(event_class, include_extras=True)
        known = tuple(_column(field.name, hints[field.name]) for field in fields(event_class))
        if event_class.sentence is not TraceEvent.sentence and not issubclass(event_class, Frequent):
            known += (REASON,)
        _COLUMNS_OF_EVENT[event_class] = known
    return known


def event_of(name: str, values: Mapping[str, Any]) -> TraceEvent:
    """Return the event with this name and these column values. Raises ValueError if a cause is unknown."""
    columns = (column for column in columns_of_event(CLASS_OF_EVENT[name]) if column is not REASON)
    return CLASS_OF_EVENT[name](**{column.name: value_of(column, values.get(column.name)) for column in columns})


def value_of(column: Column, written: Any) -> Any:
    """Return the value of an event's field for a stored value. Raises ValueError if a cause is unknown."""
    value = _frozen(written)
    if column.causes is None or value is None:
        return value
    return tuple(map(column.causes, value)) if isinstance(value, tuple) else column.causes(value)


def _frozen(value: Any) -> Any:
    """Return lists as tuples, and strings with escaped control characters, since terminals would interpret these."""
    if isinstance(value, str):
        return spelt_out(value)
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@functools.cache
def columns_of_table(table: str, *, observed: bool = False) -> tuple[Column, ...]:
    """Return all columns of a table, COMMON_COLUMNS first. Columns that some events do not fill are nullable.

    Args:
        observed: True for a run on real Kafka.
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
    """A row of the trace: an event with its position, time and causes. Listeners receive rows in order."""

    seq: int
    at_us: int
    causes: tuple[int, ...]
    event: TraceEvent


@dataclass(frozen=True, slots=True)
class Emit:
    """The action of a state machine to add an event to the trace."""

    event: TraceEvent


class Recorder(Protocol):
    """The interface through which state machines record events.

    `emit` returns the event's `seq`, which can be passed as a cause of later events. `cause` is the cause of the next
    event without explicit causes. Code that records several effects of one cause must save `cause` before the first.
    `aside` records an event that is not the cause of later events, such as a measurement.
    """

    @property
    def at_us(self) -> int:
        """The virtual time of the current step, in microseconds."""

    @property
    def cause(self) -> int | None: ...

    def emit(self, event: TraceEvent, *causes: int) -> int: ...

    def aside(self, event: TraceEvent, *causes: int) -> int: ...


class TraceLog:
    """A recorder that numbers events and passes them to listeners (listening.py), which are called in order.

    Callers set `at_us` and `cause` before each step. An event without explicit causes gets the latest event of the step
    as its cause.

    Attributes:
        observed_by: value of the column OBSERVED_BY for the next events.
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

    def aside(self, event: TraceEvent, *causes: int) -> int:
        """Record an event as `emit` does, but not as the cause of later events."""
        before = self.cause
        seq = self.emit(event, *causes)
        self.cause = before
        return seq
