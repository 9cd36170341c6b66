"""The part of the controllers' metadata log that is committed: a majority of their disks holds it.

Source: KRaft's high watermark is the largest offset that a majority of the voters has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from uuid import UUID

from cluster.kafka.observe.log_tail import LogFiles, LogTail, TailBatch
from cluster.kafka.observe.metadata_events import WrittenRecord
from cluster.kafka.observe.metadata_records import decode_leader_change, decode_record
from controller.metadata import MetadataRecord, RemoveTopicRecord, TopicRecord
from replica.log.batches.records import BatchHeader, Record, read_records


class MetadataTail:
    """logs: the metadata log of every voter"""

    def __init__(self, logs: Mapping[str, LogFiles]) -> None:
        self._logs = dict(logs)
        self._tails = {name: LogTail() for name in logs}
        self._next = 0
        self._topics: dict[UUID, str] = {}

    def look(self) -> Iterator[list[WrittenRecord]]:
        """What was committed since, batch by batch. raises: PeerViolation, KafkaError if it is no metadata log"""
        for name, tail in self._tails.items():
            tail.look(self._logs[name])
        while (found := self._committed()) is not None:
            name, batch = found
            self._next = batch.end_offset
            yield self._records(name, batch)

    def _committed(self) -> tuple[str, TailBatch] | None:
        """The next batch, and a voter that holds it."""
        holders: Counter[BatchHeader] = Counter()
        for name, tail in self._tails.items():
            place = bisect_left(tail.batches, self._next, key=lambda batch: batch.header.base_offset)
            if place < len(tail.batches):
                batch = tail.batches[place]
                holders[batch.header] += 1
                if holders[batch.header] > len(self._tails) // 2:
                    return name, batch
        return None

    def _records(self, name: str, batch: TailBatch) -> list[WrittenRecord]:
        header = batch.header
        data = self._logs[name].read(batch.segment, batch.position, header.size_bytes)
        found = []
        for record in read_records(data):
            decided = self._decoded(header, record)
            if isinstance(decided, TopicRecord):
                self._topics[decided.topic_id] = decided.name
            elif isinstance(decided, RemoveTopicRecord):
                del self._topics[decided.topic_id]
            if decided is not None:
                found.append(WrittenRecord(record.offset, record.timestamp_ms, decided))
        return found

    def _decoded(self, header: BatchHeader, record: Record) -> MetadataRecord | None:
        if header.is_control:
            return decode_leader_change(header, record)
        return decode_record(record.value or b"", self._topics)
