"""The share partitions that a broker leads, and ShareFetch requests that wait for their records.

A share partition is loaded from its share coordinator when a member first fetches from it. It is dropped when the
broker no longer leads the partition, when the coordinator fences it, and when its group's last session is disconnected.

Simplified: records are read into memory, and do not count for quotas. Partitions are read in the order of the session;
Kafka rotates them. `share.auto.offset.reset=by_duration` begins at the earliest record.

Source: SharePartitionManager.java, DelayedShareFetch.java, ShareFetchUtils.java
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.delayed import FetchParams
from cluster.broker.replicas.manager import ReplicaManager
from cluster.clocks import Timer
from cluster.node import NO_CONNECTION, ConnectionId, Segment
from cluster.protocol.api_01_fetch import FetchPartition, FetchPartitionResponse, size_of
from cluster.protocol.entities import Entity
from cluster.protocol.versions import READ_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE
from cluster.share.dead_letters import TOPIC_NAME, DeadLetters
from cluster.share.partition import (
    Acknowledgement,
    Acquired,
    AcquireParams,
    FetchedBatch,
    Settled,
    ShareLimits,
    SharePartition,
    Transition,
)
from cluster.share.persister import NO_COORDINATOR, Persister, StateRequest
from cluster.share.sessions import ShareSession, ShareSessions
from cluster.share.state import (
    UNINITIALIZED,
    RecordState,
    ShareKey,
    ShareState,
    StateBatch,
    batches_from,
    batches_to_send,
)
from controller.features import DEAD_LETTERS, SHARE_VERSION, level_of
from replica.errors import ErrorCode, KafkaError
from replica.ids import NO_BROKER, NO_BROKER_EPOCH, LeaderEpoch, Offset, TopicPartition
from replica.log.batches.control_records import ControlRecordType, read_end_transaction_marker
from replica.log.batches.records import BatchHeader
from replica.log.batches.records import batches as batches_in
from replica.log.files.open_files import FileSlice
from replica.trace.events import SharePartitionLoaded, ShareRecordsAcquired, ShareRecordsSettled
from replica.wording import shown

LATEST, READ_COMMITTED = "latest", "read_committed"
FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
FORGETTING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Errors of a write after which the share partition is dropped. Source: fencedSharePartitionHandler"""


class Delivered(NamedTuple):
    """The result of a fetch from one share partition: whole batches, and which of their records were acquired."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    records: bytes = b""
    acquired: tuple[Acquired, ...] = ()


Deliveries = dict[ShareKey, Delivered]
OnSettled = Callable[[ErrorCode, str | None, int], None]
"""Called with (error, message, now_us)."""


@dataclass(slots=True, kw_only=True, eq=False)
class ShareFetch:
    """A member's request for records; it waits up to `max_wait_us` for `min_bytes`."""

    acquire: AcquireParams
    peer: str
    connection: ConnectionId
    max_wait_us: int
    min_bytes: int
    max_bytes: int
    wanted: Mapping[ShareKey, TopicPartition]
    respond: Callable[[Deliveries, int], None]
    timer: Timer | None = None


@dataclass(slots=True, eq=False)
class _Led:
    """A share partition that this broker leads. `shared` is None until its state is loaded; `error` if that failed."""

    key: ShareKey
    name: TopicPartition
    leader_epoch: LeaderEpoch
    shared: SharePartition | None = None
    error: tuple[ErrorCode, str | None] | None = None
    timer: Timer | None = None
    timer_us: int = 0


class ShareManager:
    """Manages the share partitions and share sessions of one broker."""

    def __init__(self, base: BrokerBase, *, replicas: ReplicaManager, persister: Persister) -> None:
        self.sessions = ShareSessions(base.config.group_share_max_share_sessions)
        self._base = base
        self._recorder = base.recorder
        self._timers = base.outbox.timers
        self._replicas = replicas
        self._persister = persister
        self._dead_letters = DeadLetters(base, self._read_log, self.setting)
        self._led: dict[ShareKey, _Led] = {}
        self._waiting: dict[TopicPartition, list[ShareFetch]] = {}
        replicas.fetches.on_wake = self._wake

    def setting(self, group_id: str, key: str, otherwise: str | int) -> str:
        """Return a group's own setting, `otherwise` if it has none. Source: GroupConfigManager"""
        return str(self._base.cache.image.group_config.get(group_id, {}).get(key, otherwise))

    def limits(self, group_id: str) -> ShareLimits:
        config = self._base.config
        lock_ms = self.setting(group_id, "share.record.lock.duration.ms", config.group_share_record_lock_duration_ms)
        most, locks = config.group_share_delivery_count_limit, config.group_share_partition_max_record_locks
        return ShareLimits(
            delivery_limit=int(self.setting(group_id, "share.delivery.count.limit", most)),
            max_record_locks=int(self.setting(group_id, "share.partition.max.record.locks", locks)),
            lock_us=int(lock_ms) * 1000,
            may_renew=self.setting(group_id, "share.renew.acknowledge.enable", "true") == "true",
            has_dead_letters=self._has_dead_letters(group_id),
        )

    def _has_dead_letters(self, group_id: str) -> bool:
        """Return True if a group has a dead letter queue. Source: isDLQEnabledForGroup"""
        levels = self._base.cache.image.feature_levels
        return (
            self.setting(group_id, TOPIC_NAME, "") != ""
            and level_of(SHARE_VERSION, self._base.rules, levels) >= DEAD_LETTERS
        )

    # -------------------------------------------------------------------------------------------------------- fetching

    def fetch(self, fetch: ShareFetch, now_us: int) -> None:
        """Acquire records for a member and respond, or wait until there are enough. Source: processShareFetch"""
        if not fetch.wanted or not fetch.acquire.max_records or not fetch.max_bytes:
            fetch.respond({}, now_us)
            return
        if self._try(fetch, now_us, is_last=fetch.max_wait_us <= 0):
            return
        for name in dict.fromkeys(fetch.wanted.values()):
            self._waiting.setdefault(name, []).append(fetch)
        fetch.timer = self._timers.at(now_us + fetch.max_wait_us, lambda at_us: self._give_up(fetch, at_us))

    def _give_up(self, fetch: ShareFetch, now_us: int) -> None:
        self._try(fetch, now_us, is_last=True)

    def _try(self, fetch: ShareFetch, now_us: int, *, is_last: bool) -> bool:
        """Acquire records and respond. Return False if the fetch has to wait.

        Args:
            is_last: True to respond even without enough records.

        Source: DelayedShareFetch.tryComplete
        """
        found: Deliveries = {}
        readable: list[tuple[_Led, SharePartition, Offset, FetchPartitionResponse]] = []
        fails = False
        for key, name in fetch.wanted.items():
            try:
                led = self._get(key, name, now_us)
                if led.error is not None:
                    found[key] = Delivered(*led.error)
                    del self._led[key]
                elif led.shared is not None and led.shared.can_acquire:
                    offset = led.shared.next_fetch_offset
                    readable.append((led, led.shared, offset, self._read(fetch, led, offset, now_us)))
            except KafkaError as error:
                fails |= key in self._led and error.code is not ErrorCode.OFFSET_OUT_OF_RANGE
                found[key] = self._unreadable(key, name, error)
        available = sum(size_of(item.slice) for *_, item in readable)
        if not (is_last or fails or len(found) == len(fetch.wanted)) and available < max(fetch.min_bytes, 1):
            return False
        self._end_wait(fetch)
        left = fetch.acquire.max_records
        for led, shared, offset, read in readable:
            delivered, count = self._acquire(fetch, led, shared, (offset, read, left), now_us)
            found[led.key] = delivered
            left -= count
            if left <= 0:
                break
        fetch.respond(found, now_us)
        return True

    def _read(self, fetch: ShareFetch, led: _Led, offset: Offset, now_us: int) -> FetchPartitionResponse:
        isolation = self.setting(led.key.group_id, "share.isolation.level", "read_uncommitted")
        params = _params(fetch.peer, fetch.connection, fetch.max_bytes, read_committed=isolation == READ_COMMITTED)
        max_bytes = max(1, fetch.max_bytes // len(fetch.wanted))
        entry = FetchPartition(led.name.partition, fetch_offset=offset, max_bytes=max_bytes)
        return self._replicas.hosted(led.name).fetch(params, entry, max_bytes, True, True, now_us)

    def _read_log(self, name: TopicPartition, offset: Offset, max_bytes: int, now_us: int) -> bytes:
        """Read committed batches of a partition that this broker leads. Raises KafkaError."""
        params = _params(self._base.node, NO_CONNECTION, max_bytes, read_committed=False)
        entry = FetchPartition(name.partition, fetch_offset=offset, max_bytes=max_bytes)
        return _bytes_of(self._replicas.hosted(name).fetch(params, entry, max_bytes, True, True, now_us).slice)

    def _unreadable(self, key: ShareKey, name: TopicPartition, error: KafkaError) -> Delivered:
        led = self._led.get(key)
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and led is not None and led.shared is not None:
            led.shared.log_start_moved(self._replicas.hosted(name).log.log_start_offset)
            return Delivered()
        return Delivered(error.code, error.message or None)

    def _acquire(
        self,
        fetch: ShareFetch,
        led: _Led,
        shared: SharePartition,
        found: tuple[Offset, FetchPartitionResponse, int],
        now_us: int,
    ) -> tuple[Delivered, int]:
        """Acquire records that were read from a share partition.

        Args:
            found: (offset, result of reading from there, maximum number of records to acquire).

        Returns:
            (result, number of acquired records)
        """
        offset, read, room = found
        data = _bytes_of(read.slice)
        batches = list(batches_in(data))
        wanted = fetch.acquire._replace(max_records=room)
        spans = [FetchedBatch(item.base_offset, item.last_offset) for _, item in batches]
        acquired = shared.acquire(wanted, spans, offset, now_us)
        acquired = _without_aborted(shared, acquired, data, batches, read.aborted_transactions or ())
        for item in acquired:
            self._recorder.emit(
                ShareRecordsAcquired(
                    self._base.node,
                    *led.name,
                    group=shown(led.key.group_id),
                    member=shown(wanted.member),
                    first=item.first,
                    last=item.last,
                    delivery_count=item.delivery_count,
                )
            )
        if not acquired:
            return Delivered(), 0
        self._arm(led, shared, now_us)
        first, last = acquired[0].first, acquired[-1].last
        kept = [at for at, item in batches if item.last_offset >= first and item.base_offset <= last]
        end = next((at for at, item in batches if item.base_offset > last), len(data))
        count = sum(item.last - item.first + 1 for item in acquired)
        return Delivered(records=data[kept[0] : end], acquired=tuple(acquired)), count

    def _wake(self, name: TopicPartition, now_us: int) -> None:
        for fetch in list(self._waiting.get(name, ())):
            if fetch.timer is not None:
                self._try(fetch, now_us, is_last=False)

    def _end_wait(self, fetch: ShareFetch) -> None:
        if fetch.timer is None:
            return
        fetch.timer.cancel()
        fetch.timer = None
        for name in dict.fromkeys(fetch.wanted.values()):
            self._waiting[name].remove(fetch)
            if not self._waiting[name]:
                del self._waiting[name]

    # --------------------------------------------------------------------------------------------------------- loading

    def _get(self, key: ShareKey, name: TopicPartition, now_us: int) -> _Led:
        """Return a share partition. If it is new, begin to load its state.

        Raises:
            KafkaError: if this broker does not lead the partition.
        """
        led = self._led.get(key)
        if led is not None:
            return led
        partition = self._replicas.hosted(name)
        if partition.leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        led = self._led[key] = _Led(key, name, partition.leader_epoch)
        self._persister.ask(
            StateRequest(
                api=READ_SHARE_GROUP_STATE,
                key=key,
                fields={"leader_epoch": led.leader_epoch},
                answered=lambda error, message, result, at_us: self._loaded(led, error, message, result, at_us),
            ),
            now_us,
        )
        return led

    def _loaded(self, led: _Led, error: ErrorCode, message: str | None, result: Entity | None, now_us: int) -> None:
        if self._led.get(led.key) is not led:
            return
        if error is not ErrorCode.NONE or result is None:
            led.error = as_client_error(error), message
        else:
            try:
                led.shared = self._shared(led, result)
            except KafkaError as refusal:
                led.error = refusal.code, refusal.message or None
            else:
                self._recorder.emit(
                    SharePartitionLoaded(
                        self._base.node,
                        *led.name,
                        group=shown(led.key.group_id),
                        leader_epoch=led.leader_epoch,
                        start_offset=led.shared.start,
                        next_offset=led.shared.next_fetch_offset,
                        reset=self._reset(led) if int(result.start_offset) == UNINITIALIZED else None,
                    )
                )
                self._give_away(led, led.shared, led.shared.dead_letters, now_us)
        self._wake(led.name, now_us)

    def _shared(self, led: _Led, result: Entity) -> SharePartition:
        start, batches = int(result.start_offset), batches_from(result.state_batches)
        if start == UNINITIALIZED:
            partition = self._replicas.hosted(led.name)
            is_latest = self._reset(led) == LATEST
            start = partition.consumer_limit if is_latest else partition.log.log_start_offset
        state = ShareState(state_epoch=result.state_epoch, start_offset=start, batches=batches)
        return SharePartition(state, start, lambda: self.limits(led.key.group_id))

    def _reset(self, led: _Led) -> str:
        return self.setting(led.key.group_id, "share.auto.offset.reset", LATEST).lower()

    # -------------------------------------------------------------------------------------------------------- settling

    def acknowledge(
        self, key: ShareKey, member: str, items: Sequence[Acknowledgement], done: OnSettled, now_us: int
    ) -> None:
        """Apply a member's acknowledgements, and call `done` when the share coordinator has stored them."""
        led = self._led.get(key)
        if led is None or led.shared is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, now_us)
            return
        try:
            transition = led.shared.acknowledge(member, items, now_us)
        except KafkaError as refusal:
            done(refusal.code, refusal.message or None, now_us)
            return
        self._write(led, led.shared, transition, done, now_us)

    def end_session(self, session: ShareSession | None, now_us: int) -> None:
        """Release the records acquired by the member whose session has ended. Source: releaseSession"""
        if session is None:
            return
        group_id, member_id = session.key
        for topic_id, partition in session.partitions:
            led = self._led.get(ShareKey(group_id, topic_id, partition))
            if led is not None and led.shared is not None:
                self._write(led, led.shared, led.shared.release(member_id), _ignore, now_us)

    def gone(self, connection: ConnectionId, now_us: int) -> None:
        """End the session of a closed connection. If its group has no other session, drop the share partitions.

        The session may have ended before, by the member's final request.
        Source: onDisconnect, onGroupEmpty
        """
        group_id, session = self.sessions.gone(connection)
        self.end_session(session, now_us)
        if group_id is not None and not self.sessions.has_members(group_id):
            for key in [item for item in self._led if item.group_id == group_id]:
                self._forget(self._led[key])

    def not_led(self, name: TopicPartition, now_us: int) -> None:
        """Drop the share partitions of a partition that this broker no longer leads."""
        for led in [item for item in self._led.values() if item.name == name]:
            self._forget(led)
        self._wake(name, now_us)

    def _forget(self, led: _Led) -> None:
        if self._led.get(led.key) is led:
            del self._led[led.key]
        if led.timer is not None:
            led.timer.cancel()
            led.timer = None

    def _arm(self, led: _Led, shared: SharePartition, now_us: int) -> None:
        """Set the timer to the expiry of the first lock, which may be earlier than before after a failed write."""
        due_us = shared.next_lock_us
        if due_us is None or (led.timer is not None and led.timer_us <= due_us):
            return
        if led.timer is not None:
            led.timer.cancel()
        led.timer_us = due_us
        led.timer = self._timers.at(max(due_us, now_us), lambda at_us: self._expire(led, shared, at_us))

    def _expire(self, led: _Led, shared: SharePartition, now_us: int) -> None:
        led.timer = None
        expired = shared.expire(now_us)
        if expired.changed:
            self._state(led, expired)

            def written(error: ErrorCode, message: str | None, at_us: int) -> None:
                shared.move_start()
                self._give_away(led, shared, expired.dead_letters, at_us)

            self._persist(led, shared, expired.batches, written, now_us)
            self._wake(led.name, now_us)
        self._arm(led, shared, now_us)

    def _write(self, led: _Led, shared: SharePartition, transition: Transition, done: OnSettled, now_us: int) -> None:
        if not transition.changed:
            done(ErrorCode.NONE, None, now_us)
            return

        def written(error: ErrorCode, message: str | None, at_us: int) -> None:
            is_written = error is ErrorCode.NONE
            if is_written:
                self._state(led, transition)
            shared.complete(transition, at_us, is_written=is_written)
            self._arm(led, shared, at_us)
            found = as_client_error(error)
            if found in FORGETTING:
                self._forget(led)
            done(found, message, at_us)
            self._wake(led.name, at_us)
            if is_written:
                self._give_away(led, shared, transition.dead_letters, at_us)

        self._persist(led, shared, transition.batches, written, now_us)

    def _give_away(self, led: _Led, shared: SharePartition, given_up: Sequence[Settled], now_us: int) -> None:
        """Write dead letters, then archive the records even if that failed. Source: initiateDLQAndArchive"""

        def archive(settled: Settled, at_us: int) -> None:
            shared.archive(settled.first, settled.last)
            archived = StateBatch(settled.first, settled.last, RecordState.ARCHIVED, settled.delivery_count)
            self._persist(led, shared, (archived,), moved, at_us)

        def moved(error: ErrorCode, message: str | None, at_us: int) -> None:
            shared.move_start()
            self._wake(led.name, at_us)

        for item in given_up:
            self._dead_letters.write(led.key.group_id, led.name, item, partial(archive, item), now_us)

    def _persist(
        self, led: _Led, shared: SharePartition, batches: Sequence[StateBatch], written: OnSettled, now_us: int
    ) -> None:
        """Send a change to the share coordinator, and call `written` with its answer. Source: writeShareGroupState"""
        self._persister.ask(
            StateRequest(
                api=WRITE_SHARE_GROUP_STATE,
                key=led.key,
                fields={
                    "state_epoch": shared.state_epoch,
                    "leader_epoch": led.leader_epoch,
                    "start_offset": shared.start,
                    "delivery_complete_count": shared.delivery_complete,
                    "state_batches": batches_to_send(batches),
                },
                answered=lambda error, message, result, at_us: written(error, message, at_us),
            ),
            now_us,
        )

    def _state(self, led: _Led, transition: Transition) -> None:
        limit = self.limits(led.key.group_id).delivery_limit
        for item in transition.settled():
            self._recorder.emit(
                ShareRecordsSettled(
                    self._base.node,
                    *led.name,
                    group=shown(led.key.group_id),
                    member=shown(item.member),
                    first=item.first,
                    last=item.last,
                    delivery_count=item.delivery_count,
                    delivery_limit=limit,
                    state=item.state.name.lower(),
                    share_cause=item.cause,
                )
            )


def as_client_error(error: ErrorCode) -> ErrorCode:
    """Translate an error of the share coordinator to one for members. Source: fetchPersisterError"""
    if error in NO_COORDINATOR:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return error
    return ErrorCode.UNKNOWN_SERVER_ERROR


def _params(peer: str, connection: ConnectionId, max_bytes: int, *, read_committed: bool) -> FetchParams:
    return FetchParams(
        replica_id=NO_BROKER,
        replica_epoch=NO_BROKER_EPOCH,
        peer=peer,
        connection=connection,
        max_wait_us=0,
        min_bytes=0,
        max_bytes=max_bytes,
        leader_only=True,
        from_follower=False,
        read_committed=read_committed,
    )


def _ignore(error: ErrorCode, message: str | None, now_us: int) -> None:
    """Do nothing, because no request waits for the result."""


# ------------------------------------------------------------------------------------------------------------- batches


def _bytes_of(found: Segment) -> bytes:
    if not isinstance(found, FileSlice):
        return bytes(found)
    return os.pread(found.fd, found.length, found.position) if found.length else b""


def _without_aborted(
    shared: SharePartition,
    acquired: list[Acquired],
    data: bytes,
    batches: Sequence[tuple[int, BatchHeader]],
    aborted: Sequence[tuple[int, Offset]],
) -> list[Acquired]:
    """Archive the acquired batches of aborted transactions. Return the acquired records without them.

    Args:
        batches: (position in `data`, header) of each batch.
        aborted: (producer id, first offset) of each aborted transaction.

    Source: filterAbortedTransactionalAcquiredRecords
    """
    waiting = sorted(aborted, key=lambda item: item[1])
    open_ids: dict[int, None] = {}
    for position, header in batches:
        while waiting and waiting[0][1] <= header.last_offset:
            open_ids[waiting.pop(0)[0]] = None
        if header.is_control:
            marker = read_end_transaction_marker(data[position : position + header.size_bytes])
            if marker is not None and marker.control_type is ControlRecordType.ABORT:
                open_ids.pop(header.producer_id, None)
        elif header.is_transactional and header.producer_id in open_ids:
            shared.archive_acquired(header.base_offset, header.last_offset)
            acquired = [piece for item in acquired for piece in _outside(item, header.base_offset, header.last_offset)]
    return acquired


def _outside(acquired: Acquired, first: Offset, last: Offset) -> list[Acquired]:
    pieces = (
        acquired._replace(last=min(acquired.last, first - 1)),
        acquired._replace(first=max(acquired.first, last + 1)),
    )
    return [piece for piece in pieces if piece.first <= piece.last]
