"""Consumers that stand at a record which their deserializers cannot read (a poison pill)."""

from __future__ import annotations

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow


class UnreadablePositions:
    """Listener: who stands where, and at which record."""

    def __init__(self) -> None:
        self._stands: dict[tuple[str, TopicPartition], trace.DeserializationFailed] = {}

    def __call__(self, row: TraceRow) -> None:
        match row.event:
            case trace.DeserializationFailed() as failed:
                self._stands[failed.client, TopicPartition(failed.topic, failed.partition)] = failed
            case trace.PositionReset() | trace.RecordRead() as moved:
                self._stands.pop((moved.client, TopicPartition(moved.topic, moved.partition)), None)

    def behind(self, partition: TopicPartition, offset: int, record: str) -> str:
        """Of a record at `offset`: which readers do not come to it, as a sentence; empty if all do."""
        sentences = []
        for (client, where), failed in self._stands.items():
            if where != partition or failed.offset > offset:
                continue
            what = "it" if failed.record == record else f"{failed.record} before it"
            sentences.append(f"{client} cannot deserialize {what}, and stands at offset {failed.offset}.")
        return " ".join(sentences)
