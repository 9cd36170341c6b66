"""Appends and reads on slow disks, which block a request handler of the broker until the disk is done.

An append ends when the disk has written it; until then, its partition's leadership cannot change (PartitionLocks).
If the disk takes no time, appends and reads end immediately.

Inspecting large or compressed batches takes long. In live mode, a worker thread does it without occupying a handler
(differs from Kafka); meanwhile no other request is read from the connection.

Source: ReplicaManager.appendRecords and fetchMessages, which run in the thread of a handler
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from cluster.broker.replicas.delayed import FetchParams, FetchResults, ProduceParams
from cluster.broker.replicas.manager import ReplicaManager
from cluster.node import Outbox
from cluster.protocol.api_01_fetch import FetchPartition, size_of
from cluster.server.request_handlers import RequestHandlers
from cluster.slices import Slices
from replica.errors import KafkaError
from replica.ids import TopicPartition
from replica.log.batches.validation import InsideLimits, Inspected, inspect, limits_inside, takes_long

# ------------------------------------------------------------------------------------------------------ partition locks
#
# An append in progress delays a leadership change of its partition, and a waiting change delays new appends.
#
# source: Partition.leaderIsrUpdateLock (appends hold it for reading, makeLeader and makeFollower for writing; a reader
# does not overtake a waiting writer), AbstractFetcherThread.partitionMapLock.
# Simplified: fetches and ISR changes do not wait for an append in progress.

Work = Callable[[int], None]


class PartitionLocks:
    """Locks of partitions. Leadership changes run in order, each when no append to its partitions is in progress."""

    __slots__ = ("_appending", "_behind", "_changes")

    def __init__(self) -> None:
        self._appending: dict[TopicPartition, int] = {}
        self._changes: deque[tuple[Sequence[TopicPartition], Work]] = deque()
        self._behind: list[Work] = []

    def begin_append(self, names: Sequence[TopicPartition]) -> None:
        for name in names:
            self._appending[name] = self._appending.get(name, 0) + 1

    def end_append(self, names: Sequence[TopicPartition], now_us: int) -> None:
        for name in names:
            self._appending[name] -= 1
            if not self._appending[name]:
                del self._appending[name]
        if self._changes:
            self._make_changes(now_us)

    def change(self, names: Sequence[TopicPartition], work: Work, now_us: int) -> None:
        """Run `work`, a change of these partitions, after earlier changes and when no append to them is in progress."""
        self._changes.append((names, work))
        self._make_changes(now_us)

    @property
    def are_free(self) -> bool:
        """True if no change is waiting."""
        return not self._changes

    def is_change_waiting(self, names: Sequence[TopicPartition]) -> bool:
        return any(name in waiting for waiting, _ in self._changes for name in names)

    def after_changes(self, work: Work) -> None:
        """Run `work` when no change is waiting any longer."""
        self._behind.append(work)

    def _make_changes(self, now_us: int) -> None:
        while self._changes and not any(name in self._appending for name in self._changes[0][0]):
            _, work = self._changes.popleft()
            work(now_us)
        if not self._changes:
            behind, self._behind = self._behind, []
            for work in behind:
                work(now_us)


Entries = Sequence[tuple[TopicPartition, memoryview | None]]


class BlockingLogs:
    """Executes appends and reads, each of which blocks its request handler while the disk is busy.

    Simplified: all appends of a request become visible when the last one is written. A read blocks the handler until it
    is complete; in Kafka the handler reads only headers, and the network thread sends the records with sendfile.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        handlers: RequestHandlers,
        locks: PartitionLocks,
        outbox: Outbox,
        *,
        slices: Slices,
        works_apart: bool,
    ) -> None:
        self._replicas = replicas
        self._handlers = handlers
        self._locks = locks
        self._timers = outbox.timers
        self._outbox = outbox
        self._slices = slices
        self._works_apart = works_apart

    def append_records(self, produce: ProduceParams, now_us: int) -> None:
        entries = produce.entries
        is_apart = self._works_apart and takes_long(records for _, records in entries)
        if not is_apart and self._pass_at_once(entries):
            self._replicas.append_records(produce, now_us)
            return
        names = [name for name, _ in entries]
        inspected: list[Inspected | None] = []

        def write(now_us: int) -> None:
            self._replicas.append_records(replace(produce, inspected=inspected), now_us)
            self._locks.end_append(names, now_us)

        def begin(now_us: int) -> None:
            written_us = self._written_us(produce.acks, entries, now_us)
            if written_us == now_us:
                self._replicas.append_records(replace(produce, inspected=inspected), now_us)
                return
            self._locks.begin_append(names)
            self._timers.at(written_us, self._handlers.block(write))

        def begin_unless_barred(now_us: int) -> None:
            if self._locks.is_change_waiting(names):
                self._locks.after_changes(self._handlers.block(begin))
            else:
                begin(now_us)

        if is_apart:
            batches = [self._to_inspect(name, records) for name, records in entries]
            self._outbox.work_apart(
                lambda: inspected.extend(batch and inspect(*batch) for batch in batches),
                lambda now_us: self._handlers.submit(
                    lambda now_us: self._slices.answer(len(names), partial(begin_unless_barred, now_us)), now_us
                ),
            )
        else:
            begin_unless_barred(now_us)

    def _pass_at_once(self, entries: Entries) -> bool:
        """Return True if neither a slow disk nor a leadership change delays the append, the usual case."""
        partitions = self._replicas.partitions
        for name, _ in entries:
            partition = partitions.get(name)
            if partition is not None and partition.log.disk.speed.in_force:
                return False
        return self._locks.are_free

    def _to_inspect(self, name: TopicPartition, records: memoryview | None) -> tuple[memoryview, InsideLimits] | None:
        """Return (batch, limits inside it) to inspect, None if this broker does not lead the partition."""
        partition = self._replicas.partitions.get(name)
        if partition is None or partition.leader is None or records is None:
            return None
        return records, limits_inside(partition.log.config)

    def _written_us(self, required_acks: int, entries: Entries, now_us: int) -> int:
        """Return the time when the disks will have written the batches, without those that are refused."""
        written_us = now_us
        for name, records in entries:
            partition = self._replicas.partitions.get(name)
            if partition is None or partition.leader is None or records is None:
                continue
            speed = partition.log.disk.speed
            if not speed.in_force:
                continue
            try:
                partition.leader.may_produce(required_acks)
            except KafkaError:
                continue
            written_us = max(written_us, speed.append_ends_us(len(records), now_us))
        return written_us

    def fetch_records(
        self,
        params: FetchParams,
        wanted: list[tuple[TopicPartition, FetchPartition]],
        respond: Callable[[FetchResults, int], None],
        now_us: int,
    ) -> None:
        read_us = self._read_us(params, wanted, now_us)

        def fetch(now_us: int) -> None:
            self._replicas.fetches.fetch_records(params, wanted, partial(self._answer, respond, now_us), now_us)

        if read_us == now_us:
            fetch(now_us)
        else:
            self._timers.at(read_us, self._handlers.block(fetch))

    def _read_us(self, params: FetchParams, wanted: list[tuple[TopicPartition, FetchPartition]], now_us: int) -> int:
        """Return the time when the disks will have read the records. max.wait begins then (Partition.fetchRecords)."""
        read_us = now_us
        for name, entry in wanted:
            partition = self._replicas.partitions.get(name)
            if partition is None or not partition.log.disk.speed.in_force:
                continue
            upper_offset = min(partition.upper_offset(params), partition.log.log_end_offset)
            found = min(partition.log.bytes_available(entry.fetch_offset, upper_offset), entry.max_bytes)
            if found:
                read_us = max(read_us, partition.log.disk.speed.read_ends_us(found, now_us))
        return read_us

    def _answer(
        self, respond: Callable[[FetchResults, int], None], asked_us: int, results: FetchResults, now_us: int
    ) -> None:
        """Respond to a fetch that began at `asked_us`, when the disks have read its records.

        Simplified: if the fetch had to wait for records, reading them blocks no handler.
        """
        if now_us == asked_us:  # The fetch did not wait, and its reading time has passed already.
            respond(results, now_us)
            return
        read_us = now_us
        for name, result in results:
            partition = self._replicas.partitions.get(name)
            if partition is not None and partition.log.disk.speed.in_force:
                found = size_of(result.slice)
                read_us = max(read_us, partition.log.disk.speed.read_ends_us(found, now_us) if found else now_us)
        if read_us == now_us:
            respond(results, now_us)
        else:
            self._timers.at(read_us, lambda now_us: respond(results, now_us))
