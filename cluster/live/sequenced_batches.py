"""Batches of idempotent producers, known again by what a broker knows them by: a retry is answered with the old offset.

A broker knows the last five batches that it has appended of each producer in each partition
(ProducerStateEntry.NUM_BATCHES_TO_RETAIN), and a client has at most five in flight. Here every batch that was sent
counts, refused or not, so more are kept. Should one be forgotten all the same (a client that numbers as it likes), its
answer still names the offset, and what stands there is known.
"""

from __future__ import annotations

from collections.abc import Callable

from replica.ids import TopicPartition
from replica.log.batches.records import BatchHeader

BATCHES_KEPT = 16
"""Of one producer in one partition."""
PRODUCERS_MAX = 50_000
"""Times the partitions that each writes to; the producer that was silent longest is forgotten first."""

Names = tuple[str, ...]


class SequencedBatches:
    """records_of: names of the records of a batch by its number, which is all that is kept of it here"""

    def __init__(self, records_of: Callable[[int], Names]) -> None:
        self._records_of = records_of
        self._producers: dict[tuple[int, TopicPartition], dict[tuple[int, int, int], int]] = {}

    def names(self, partition: TopicPartition, header: BatchHeader) -> Names | None:
        """None if this batch has not come before, as far as is known."""
        batches = self._producers.get((header.producer_id, partition), {})
        number = batches.get(_sequence(header))
        return None if number is None else self._records_of(number)

    def add(self, partition: TopicPartition, header: BatchHeader, number: int) -> None:
        """A batch has come, which may have come before."""
        producer = (header.producer_id, partition)
        batches = self._producers.pop(producer, {})
        self._producers[producer] = batches
        batches[_sequence(header)] = number
        if len(batches) > BATCHES_KEPT:
            del batches[next(iter(batches))]
        if len(self._producers) > PRODUCERS_MAX:
            del self._producers[next(iter(self._producers))]

    def topic_deleted(self, topic: str) -> None:
        """Batches for the next topic of that name are appended there, with any sequence numbers."""
        for producer in [producer for producer in self._producers if producer[1].topic == topic]:
            del self._producers[producer]


def _sequence(header: BatchHeader) -> tuple[int, int, int]:
    """source: ProducerStateEntry.findDuplicateBatch, which compares epoch, first and last sequence"""
    return header.producer_epoch, header.base_sequence, header.record_count
