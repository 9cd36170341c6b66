"""One plain sentence for each event of a trace that carries no reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replica.trace import events as trace
from replica.trace.ranges import format_record_names
from replica.wording import duration
from scenarios.observe.wording import with_error


def sentence_of(event: trace.TraceEvent, records: tuple[str, ...]) -> str:
    """The event, in one sentence without its full stop. records: names of the records the event is about"""
    write = _SENTENCES.get(type(event))
    if write is not None:
        return write(event, _names(records))
    reason = event.sentence() or trace.EVENT_NAMES[type(event)].replace("_", " ")
    return with_error(getattr(event, "error", None), reason)


def _names(records: tuple[str, ...]) -> str:
    return format_record_names(list(records)) if records else "a batch"


def _batch_sent(event: trace.BatchSent, names: str) -> str:
    again = f", attempt {event.attempt}" if event.attempt > 1 else ""
    acks = "all" if event.acks == -1 else event.acks
    return f"{event.client} sends {names} to {event.peer}, acks={acks}{again}"


def _batch_appended(event: trace.BatchAppended, names: str) -> str:
    verb = "appends" if event.role == "leader" else "copies"
    where = f"offset {event.base_offset}"
    if event.last_offset > event.base_offset:
        where = f"offsets {event.base_offset} to {event.last_offset}"
    return f"{event.node} {verb} {names} at {where}"


def _batch_refused(event: trace.BatchRefused, names: str) -> str:
    then = "it will retry" if event.will_retry else "it gives up"
    return f"{event.client} gets {event.error} from {event.peer} for {names}: {then}"


def _position_reset(event: trace.PositionReset, names: str) -> str:
    return f"{event.client} goes to offset {event.offset}: {event.sentence()}"


def _transaction_ended(event: trace.TransactionEnded, names: str) -> str:
    end = "committed" if event.committed else "aborted"
    return f"{event.client} hears that transaction {event.number} of {event.transactional_id} is {end}"


def _transaction_end_asked(event: trace.TransactionEndAsked, names: str) -> str:
    end = "commit" if event.committed else "abort"
    return f"{event.client} asks to {end} transaction {event.number} of {event.transactional_id}"


def _end_offset_seen(event: trace.EndOffsetSeen, names: str) -> str:
    found = f"{event.error}" if event.error else f"{event.offset}"
    return f"{event.client} asks {event.peer} for the end of the partition: {found}"


_SENTENCES: dict[type[trace.TraceEvent], Callable[[Any, str], str]] = {
    # Its reason is the title of the scenario, which often names the end.
    trace.RunStarted: lambda event, names: f"The run of {event.scenario} begins, seed {event.seed}",
    trace.RecordSent: lambda event, names: f"The application hands {event.record} to {event.client}",
    trace.BatchSent: _batch_sent,
    trace.BatchAppended: _batch_appended,
    trace.BatchRefused: _batch_refused,
    trace.RecordAcked: lambda event, names: (
        f"{event.client} gets the ack of {event.record} from {event.peer} after {duration(event.latency_us)}"
    ),
    trace.RecordHandedOver: lambda event, names: (
        f"{event.client} counts {event.record} as sent: with acks=0 it waits for no answer"
    ),
    trace.RecordFailed: lambda event, names: f"{event.client} gives {event.record} up: {event.error}",
    trace.FollowerFetched: lambda event, names: (
        f"{event.node} gets the fetch of {event.peer} from offset {event.fetch_offset}"
    ),
    trace.RecordsSent: lambda event, names: (
        f"{event.node} sends {event.peer} {event.size_bytes:,} bytes from offset {event.fetch_offset}"
    ),
    trace.RecordRead: lambda event, names: f"{event.client} reads {event.record} at offset {event.offset}",
    trace.PositionReset: _position_reset,
    trace.EndOffsetSeen: _end_offset_seen,
    trace.FetchFailed: lambda event, names: (
        f"{event.client} gets {event.error} from {event.peer} at offset {event.offset}"
    ),
    trace.RecordSerialized: lambda event, names: (
        f"{event.client} makes {event.size_bytes:,} bytes of {event.record}: {event.value_format}"
    ),
    trace.RecordDeserialized: lambda event, names: (
        f"{event.client} makes sense of {event.record} at offset {event.offset}: {event.value_format}"
    ),
    # Their reasons name the interceptor and what it did, or what cannot be read.
    trace.RecordIntercepted: lambda event, names: f"{event.client}: {event.sentence()}",
    trace.PositionIntercepted: lambda event, names: f"{event.client}: {event.sentence()}",
    trace.DeserializationFailed: lambda event, names: event.sentence(),
    trace.TransactionBegan: lambda event, names: (
        f"{event.client} begins transaction {event.number} of {event.transactional_id} (producer id "
        f"{event.producer_id}, epoch {event.producer_epoch})"
    ),
    trace.TransactionEndAsked: _transaction_end_asked,
    trace.TransactionEnded: _transaction_ended,
    # Their reasons name the error.
    trace.TransactionRefused: lambda event, names: event.sentence(),
    trace.RequestRefused: lambda event, names: event.sentence(),
    trace.OffsetCommitRefused: lambda event, names: event.sentence(),
    trace.HighWatermarkAdvanced: lambda event, names: f"{event.node}: {event.sentence()}",
    trace.HighWatermarkLearned: lambda event, names: f"{event.node}: {event.sentence()}",
}
