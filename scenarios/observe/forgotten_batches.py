"""Find records that Kafka itself stores twice for an idempotent producer, because a broker has forgotten their batch.

A running broker knows the last five batches of each producer. Its snapshots contain only the last one, and a log that
is opened (after an orderly stop or a crash) or truncated is loaded from a snapshot. A leader with such a log answers
the retry of an older batch with OUT_OF_ORDER_SEQUENCE_NUMBER. The producer interprets this as a gap, raises its epoch
and sends all batches in flight again (KIP-360). So acks=all, two in-sync replicas and idempotence guarantee that
nothing is lost. They guarantee that nothing is duplicated only with one request in flight. The scenario
idempotent-restart-forgets shows this.

Source: ProducerStateManager.writeSnapshot and truncateAndReload, LogLoader.recoverSegment,
ProducerAppendInfo.checkSequence, TransactionManager.canRetry
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from replica.ids import TopicPartition
from replica.trace.events import BatchRefused, LogRecovered, LogTruncated, TraceRow
from scenarios.observe.ledger import RecordLedger


def stored_again(rows: Iterable[TraceRow], ledger: RecordLedger, duplicated: Iterable[str]) -> tuple[str, ...]:
    """Return the duplicated records whose copies, except for the first, are all explained by forgotten batches.

    Args:
        rows: the whole trace of a finished run.
        ledger: the ledger of the same run.
    """
    limits: dict[tuple[str, TopicPartition | None], list[int]] = {}
    for client, partition, limit in _forgotten(rows, ledger):
        limits.setdefault((client, partition), []).append(limit)
    found = []
    for name in duplicated:
        copies = ledger.settled_copies(name)
        if len({partition for partition, _ in copies}) > 1:
            continue
        known = limits.get((ledger.records[name].client, copies[0][0]), [])
        if all(any(item < limit <= other for limit in known) for (_, item), (_, other) in pairwise(copies)):
            found.append(name)
    return tuple(found)


def outputs_again(
    ledger: RecordLedger, duplicated: Iterable[str], stored: Iterable[str], prefix: str
) -> tuple[str, ...]:
    """Return the duplicated outputs of a transform whose inputs were stored again.

    A consumer group receives each copy of an input as a separate record, so an input may have one output per copy.

    Args:
        prefix: prefix that the transform adds to the name of an input.
    """
    inputs = dict.fromkeys(stored)
    return tuple(
        name
        for name in duplicated
        if (of := name.removeprefix(prefix)) != name
        and of in inputs
        and len(ledger.settled_copies(name)) <= len(ledger.settled_copies(of))
    )


def _forgotten(rows: Iterable[TraceRow], ledger: RecordLedger) -> Iterator[tuple[str, TopicPartition, int]]:
    """Yield (producer, partition, log end when the leader loaded its log) for each refusal of a forgotten batch.

    The batch is in the log below that end, and followed there by a later batch of the same producer.
    """
    loaded: dict[tuple[str, TopicPartition], int] = {}
    for row in rows:
        event = row.event
        if isinstance(event, LogRecovered | LogTruncated):
            loaded[event.node, TopicPartition(event.topic, event.partition)] = event.log_end_offset
        elif isinstance(event, BatchRefused) and event.error == "OUT_OF_ORDER_SEQUENCE_NUMBER":
            partition = TopicPartition(event.topic, event.partition)
            limit = loaded.get((event.peer, partition), 0)
            # The broker had loaded the last copy below the end of its log.
            stored = ledger.present.copies(event.records[-1])
            copies = [offset for where, offset in stored if where == partition and offset < limit]
            if copies and _wrote_between(ledger, event.client, partition, copies[-1] + 1, limit):
                yield event.client, partition, limit


def _wrote_between(ledger: RecordLedger, client: str, partition: TopicPartition, start: int, end: int) -> bool:
    log = ledger.final_log(partition)
    return any(
        start <= offset < end and ledger.records.place(record) >= 0 and ledger.records[record].client == client
        for offset, record in zip(log.offsets, log.records, strict=True)
    )
