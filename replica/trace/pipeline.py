"""Events about interceptors, serializers and deserializers: what clients do with records beside the network."""

from __future__ import annotations

from typing import Annotated

from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import OfClient, PipelineEvent

_Interceptor = Annotated[str, "one of interceptor.classes"]
_Hook = Annotated[str, "its method: onSend, onAcknowledgement, onConsume or onCommit"]
_Outcome = Annotated[str, "unchanged, changed, or threw: the client logs the exception and goes on"]
_Calls = Annotated[int, "how often this method has been called in this life of the client, this time included"]
_TookUs = Annotated[int, "time of the application's thread, as the scenario's `cpu` says"]
_KeyFormat = Annotated[str, "of the key: key.serializer or key.deserializer"]
_ValueFormat = Annotated[str, "of the value: value.serializer or value.deserializer"]
_ChosenLater = Annotated[int, "partition number, -1: not chosen yet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIntercepted(PipelineEvent):
    """An interceptor of a producer was called: with a record on its way, or with what became of it."""

    client: column.Client
    topic: column.Topic
    partition: _ChosenLater
    record: column.Record
    interceptor: _Interceptor
    hook: _Hook
    outcome: _Outcome
    calls: _Calls
    took_us: _TookUs
    offset: Annotated[int | None, "onAcknowledgement: of the ack"] = None
    error: Annotated[str | None, "onAcknowledgement: why the record failed"] = None

    def sentence(self) -> str:
        if self.hook != "onAcknowledgement":
            return _called(self, self.record)
        became = "is handed over" if self.offset is None else f"is acked at offset {self.offset}"
        return _called(self, f"{self.record}, which {became if self.error is None else f'failed: {self.error}'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSerialized(PipelineEvent):
    """Key and value of a record became bytes; the partitioner and the accumulator are next."""

    client: column.Client
    topic: column.Topic
    partition: _ChosenLater
    record: column.Record
    key_format: _KeyFormat
    value_format: _ValueFormat
    size_bytes: column.Size
    took_us: _TookUs


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDeserialized(OfClient, PipelineEvent):
    """Key and value of a fetched record were read; the application gets it."""

    offset: column.Offset
    record: column.Record
    key_format: _KeyFormat
    value_format: _ValueFormat
    took_us: _TookUs


@dataclass(frozen=True, slots=True, kw_only=True)
class DeserializationFailed(OfClient, PipelineEvent):
    """A fetched record cannot be read (RecordDeserializationException): every poll throws until the application seeks
    past it."""

    offset: column.Offset
    record: column.Record
    key_format: _KeyFormat
    value_format: _ValueFormat
    message: Annotated[str, "what the deserializer says"]

    def sentence(self) -> str:
        where = f"offset {self.offset} of {self.topic}-{self.partition}"
        return f"{self.message}; {self.client} stays at {where} until its application seeks past it"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionIntercepted(OfClient, PipelineEvent):
    """An interceptor of a consumer was called: with the records of a partition up to an offset, or with the offset
    that was committed."""

    offset: Annotated[int, "behind the last record, or the one that was committed"]
    interceptor: _Interceptor
    hook: _Hook
    outcome: _Outcome
    calls: _Calls
    took_us: _TookUs
    first_offset: Annotated[int | None, "onConsume: of the first record"] = None

    def sentence(self) -> str:
        first, last = self.first_offset, self.offset - 1
        what = f"offset {self.offset if first is None else first}"
        if first is not None and first != last:
            what = f"offsets {first} to {last}"
        return _called(self, f"{what} of {self.topic}-{self.partition}")


def _called(event: RecordIntercepted | PositionIntercepted, what: str) -> str:
    match event.outcome:
        case "changed":
            return f"{event.interceptor} changes the value of {what} in {event.hook}"
        case "threw":
            return f"{event.interceptor} throws in {event.hook} of {what}; the client logs it and goes on"
    return f"{event.interceptor} counts {event.hook} of {what}: call {event.calls}"
