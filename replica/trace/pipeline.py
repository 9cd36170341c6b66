"""Events about interceptors, serializers and deserializers of clients."""

from __future__ import annotations

from typing import Annotated

from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import Frequent, OfClient, PipelineEvent

_Interceptor = Annotated[str, "class of the interceptor, from interceptor.classes"]
_Hook = Annotated[str, "method of the interceptor: onSend, onAcknowledgement, onConsume or onCommit"]
_Outcome = Annotated[str, "unchanged, changed or threw (the client logs the exception and continues)"]
_Calls = Annotated[int, "number of calls of this method since the client started, including this one"]
_TookUs = Annotated[int, "microseconds of the application's thread, from `cpu` in the scenario"]
_KeyFormat = Annotated[str, "key.serializer or key.deserializer"]
_ValueFormat = Annotated[str, "value.serializer or value.deserializer"]
_ChosenLater = Annotated[int, "partition number; -1: not chosen yet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIntercepted(PipelineEvent):
    """An interceptor of a producer was called, with a record to send or with the result of a send."""

    client: column.Client
    topic: column.Topic
    partition: _ChosenLater
    record: column.Record
    interceptor: _Interceptor
    hook: _Hook
    outcome: _Outcome
    calls: _Calls
    took_us: _TookUs
    offset: Annotated[int | None, "onAcknowledgement: offset in the ack"] = None
    error: Annotated[str | None, "onAcknowledgement: error of the record"] = None

    def sentence(self) -> str:
        if self.hook != "onAcknowledgement":
            return _called(self, self.record)
        became = "was sent with acks=0" if self.offset is None else f"was acked at offset {self.offset}"
        return _called(self, f"{self.record}, which {became if self.error is None else f'failed with {self.error}'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSerialized(Frequent, PipelineEvent):
    """Key and value of a record were serialized. The record then goes to the partitioner and the accumulator."""

    client: column.Client
    topic: column.Topic
    partition: _ChosenLater
    record: column.Record
    key_format: _KeyFormat
    value_format: _ValueFormat
    size_bytes: column.Size
    took_us: _TookUs

    def sentence(self) -> str:
        return f"{self.client} serialized {self.record} to {self.size_bytes:,} bytes with {_formats(self)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDeserialized(OfClient, Frequent, PipelineEvent):
    """Key and value of a fetched record were deserialized for the application."""

    offset: column.Offset
    record: column.Record
    key_format: _KeyFormat
    value_format: _ValueFormat
    took_us: _TookUs

    def sentence(self) -> str:
        return f"{self.client} deserialized {self.record} at offset {self.offset} with {_formats(self)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeserializationFailed(OfClient, PipelineEvent):
    """A fetched record cannot be deserialized. Every poll throws until the application seeks past the record.

    Source: RecordDeserializationException
    """

    offset: column.Offset
    record: column.Record
    key_format: _KeyFormat
    value_format: _ValueFormat
    message: Annotated[str, "error message of the deserializer"]

    def sentence(self) -> str:
        what = f"{self.record} at offset {self.offset} of {self.topic}-{self.partition}"
        stays = "its position stays there until the application seeks past the record"
        return f"{self.client} could not deserialize {what} ({self.message}); {stays}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionIntercepted(OfClient, PipelineEvent):
    """An interceptor of a consumer was called, with fetched records or with a committed offset."""

    offset: Annotated[int, "offset after the last record, or the committed offset"]
    interceptor: _Interceptor
    hook: _Hook
    outcome: _Outcome
    calls: _Calls
    took_us: _TookUs
    first_offset: Annotated[int | None, "onConsume: offset of the first record"] = None

    def sentence(self) -> str:
        first, last = self.first_offset, self.offset - 1
        what = f"offset {self.offset if first is None else first}"
        if first is not None and first != last:
            what = f"offsets {first} to {last}"
        return _called(self, f"{what} of {self.topic}-{self.partition}")


def _called(event: RecordIntercepted | PositionIntercepted, what: str) -> str:
    who = f"{event.interceptor} of {event.client}"
    match event.outcome:
        case "changed":
            return f"{who} changed the value of {what} in {event.hook}"
        case "threw":
            return f"{who} threw an exception in {event.hook} of {what}; the client logged it and continued"
    return f"{who} counted {event.hook} of {what}, call {event.calls}"


def _formats(event: RecordSerialized | RecordDeserialized) -> str:
    if event.key_format == event.value_format:
        return event.value_format
    return f"{event.value_format} (key: {event.key_format})"
