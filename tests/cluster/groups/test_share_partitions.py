"""Share partitions: which member gets which record, and what becomes of it; the state that the coordinator keeps."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.share.partition import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Acquired,
    AcquireParams,
    FetchedBatch,
    ShareLimits,
    SharePartition,
)
from cluster.share.state import (
    RecordState,
    ShareKey,
    ShareReplay,
    ShareState,
    ShareUpdate,
    StateBatch,
    combined,
    encode,
)
from replica.causes import ShareCause
from replica.errors import ErrorCode, KafkaError

AVAILABLE, ACKNOWLEDGED, ARCHIVED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
ARCHIVING = RecordState.ARCHIVING
LOCK_US = 30_000_000
LOG = [FetchedBatch(base, base + 4) for base in range(0, 100, 5)]
"""Batches of five records."""


class World:
    """One share partition in front of a log of 100 records."""

    def __init__(self, *batches: StateBatch, start: int = 0, limits: ShareLimits = ShareLimits()) -> None:  # noqa: B008
        state = ShareState(start_offset=start, batches=batches)
        self.shared = SharePartition(state, start, lambda: limits)
        self.now_us = 0

    def acquire(self, member: str, records: int, *, strict: bool = False) -> list[tuple[int, int, int]]:
        offset = self.shared.next_fetch_offset
        fetched = [one for one in LOG if one.last >= offset]
        wanted = AcquireParams(member, records, records, is_record_limit=strict)
        return [tuple(one) for one in self.shared.acquire(wanted, fetched, offset, self.now_us)]  # type: ignore[misc]

    def settle(self, member: str, first: int, last: int, kind: int, *, is_written: bool = True) -> None:
        transition = self.shared.acknowledge(member, [Acknowledgement(first, last, (kind,))], self.now_us)
        self.shared.complete(transition, self.now_us, is_written=is_written)

    def refused(self, member: str, first: int, last: int, kind: int = ACCEPT) -> ErrorCode:
        with pytest.raises(KafkaError) as error:
            self.shared.acknowledge(member, [Acknowledgement(first, last, (kind,))], self.now_us)
        return error.value.code


def test_records_are_acquired_to_the_end_of_a_batch_unless_the_limit_is_strict() -> None:
    world = World()
    assert world.acquire("m1", 3) == [(0, 4, 1)]
    assert world.acquire("m2", 3, strict=True) == [(5, 7, 1)]
    assert world.acquire("m3", 1, strict=True) == [(8, 8, 1)]
    assert world.acquire("m1", 10) == [(9, 9, 1), (10, 19, 1)]


def test_what_a_member_has_is_passed_over() -> None:
    world = World()
    world.acquire("m1", 5)
    world.acquire("m2", 5)
    world.settle("m1", 0, 4, RELEASE)
    assert world.acquire("m3", 100) == [(0, 4, 2), (10, 99, 1)]


def test_the_start_moves_over_settled_records_in_order() -> None:
    world = World()
    world.acquire("m1", 5)
    world.settle("m1", 1, 4, ACCEPT)
    assert (world.shared.start, world.shared.delivery_complete) == (0, 4)
    world.settle("m1", 0, 0, REJECT)
    assert (world.shared.start, world.shared.end, world.shared.next_fetch_offset) == (5, 5, 5)


def test_only_the_member_that_has_a_record_settles_it_and_once() -> None:
    world = World()
    world.acquire("m1", 5)
    assert world.refused("m2", 0, 4) is ErrorCode.INVALID_RECORD_STATE
    assert world.refused("m1", 0, 9) is ErrorCode.INVALID_REQUEST
    assert world.refused("m1", 50, 50) is ErrorCode.INVALID_RECORD_STATE
    assert world.refused("m1", 0, 4, 9) is ErrorCode.INVALID_REQUEST
    world.settle("m1", 2, 2, ACCEPT)
    assert world.refused("m1", 0, 4) is ErrorCode.INVALID_RECORD_STATE
    world.settle("m1", 0, 1, ACCEPT)


def test_a_change_that_was_not_written_is_taken_back() -> None:
    world = World()
    world.acquire("m1", 5)
    world.settle("m1", 0, 4, ACCEPT, is_written=False)
    assert world.shared.delivery_complete == 0
    world.settle("m1", 0, 3, ACCEPT)
    world.now_us = LOCK_US
    world.settle("m1", 4, 4, ACCEPT, is_written=False)
    assert world.acquire("m2", 1) == [(4, 4, 2)], "its lock has expired during the write"


def test_an_expired_lock_releases_and_a_renewed_one_does_not() -> None:
    world = World()
    world.acquire("m1", 5)
    world.now_us = LOCK_US - 1
    assert not world.shared.expire(world.now_us).changed
    world.settle("m1", 0, 1, RENEW)
    world.now_us = LOCK_US
    assert [one[:4] for one in world.shared.expire(world.now_us).settled()] == [(2, 4, AVAILABLE, 1)]
    assert world.acquire("m2", 5) == [(2, 4, 2), (5, 9, 1)]
    assert world.refused("m1", 2, 4) is ErrorCode.INVALID_RECORD_STATE
    world.settle("m1", 0, 1, ACCEPT)


def test_without_share_renew_acknowledge_enable_no_lock_is_renewed() -> None:
    world = World(limits=ShareLimits(may_renew=False))
    world.acquire("m", 5)
    assert world.refused("m", 0, 4, RENEW) is ErrorCode.INVALID_RECORD_STATE


def test_a_session_that_ends_releases_what_its_member_has() -> None:
    world = World()
    world.acquire("m1", 5)
    world.acquire("m2", 5)
    transition = world.shared.release("m1")
    assert transition.batches == (StateBatch(0, 4, AVAILABLE, 1),)
    world.shared.complete(transition, 0, is_written=True)
    assert world.acquire("m2", 5) == [(0, 4, 2)]


def test_a_bad_record_is_delivered_with_ever_fewer_and_last_alone() -> None:
    world = World()
    found = []
    for _ in range(9):
        acquired = world.acquire("m", 5)
        found.append(acquired[0])
        for first, last, _ in acquired:
            for offset in range(first, last + 1):
                world.settle("m", offset, offset, RELEASE if offset == 0 else ACCEPT)
    assert found[:5] == [(0, 4, 1), (0, 0, 2), (0, 0, 3), (0, 0, 4), (0, 0, 5)]
    assert world.shared.start > 0, "it was archived after five deliveries"


def test_with_a_dead_letter_queue_what_is_given_up_is_archiving_first() -> None:
    world = World(limits=ShareLimits(delivery_limit=2, has_dead_letters=True))
    world.acquire("m", 5)
    world.settle("m", 0, 0, REJECT)
    world.settle("m", 1, 4, RELEASE)
    assert world.acquire("m", 4, strict=True) == [(1, 4, 2)]
    transition = world.shared.expire(LOCK_US)
    assert transition.batches == (StateBatch(1, 4, ARCHIVING, 2),)
    assert [(one.first, one.last, one.cause) for one in transition.dead_letters] == [(1, 4, ShareCause.LOCK_EXPIRED)]
    world.shared.move_start()
    assert (world.shared.start, world.shared.delivery_complete) == (0, 0), "no dead letter is written yet"
    world.shared.archive(0, 3)
    world.shared.move_start()
    assert world.shared.start == 4


def test_a_new_leader_writes_the_dead_letters_of_records_that_are_archiving() -> None:
    limits = ShareLimits(delivery_limit=2, has_dead_letters=True)
    world = World(StateBatch(0, 1, ARCHIVING, 1), StateBatch(2, 2, ARCHIVING, 2), limits=limits)
    found = [(one.first, one.last, one.cause) for one in world.shared.dead_letters]
    assert found == [(0, 1, ShareCause.REJECTED), (2, 2, ShareCause.LOCK_EXPIRED)]
    assert world.acquire("m", 5)[0][0] == 3


def test_a_lock_that_expires_while_a_write_fails_brings_no_dead_letter() -> None:
    world = World(limits=ShareLimits(delivery_limit=2, has_dead_letters=True))
    for _ in range(2):
        world.acquire("m", 1, strict=True)
        transition = world.shared.acknowledge("m", [Acknowledgement(0, 0, (RELEASE,))], 0)
        world.shared.complete(transition, LOCK_US, is_written=False)
    world.shared.move_start()
    assert (world.shared.start, world.shared.dead_letters) == (1, ())


def test_a_batch_that_fails_as_a_whole_is_halved() -> None:
    world = World()
    for count in (1, 2, 3):
        assert world.acquire("m", 5) == [(0, 4, count)]
        world.settle("m", 0, 4, RELEASE)
    assert world.acquire("m", 5) == [(0, 1, 4)]
    assert world.acquire("m", 5) == [(2, 3, 4)]


def test_no_more_than_the_locks_are_in_flight() -> None:
    world = World(limits=ShareLimits(max_record_locks=10))
    assert world.acquire("m", 50) == [(0, 9, 1)]
    assert (world.shared.can_acquire, world.acquire("m", 1)) == (False, [])
    world.settle("m", 5, 6, RELEASE)
    assert world.acquire("m", 50) == [(5, 6, 2)]
    world.settle("m", 0, 4, ACCEPT)
    assert world.acquire("m", 2) == [(10, 14, 1)]


def test_a_new_leader_delivers_what_the_state_does_not_have() -> None:
    world = World(StateBatch(2, 3, ACKNOWLEDGED, 1), StateBatch(6, 6, AVAILABLE, 2))
    assert world.shared.start == 0
    assert world.acquire("m", 4) == [(0, 1, 1), (4, 5, 1)]
    assert world.acquire("m", 1) == [(6, 6, 3)]
    world.settle("m", 0, 1, ACCEPT)
    assert world.shared.start == 4


def test_offsets_that_the_log_has_lost_do_not_stop_the_start() -> None:
    world = World(StateBatch(2, 3, ACKNOWLEDGED, 1), StateBatch(6, 6, ACKNOWLEDGED, 1))
    wanted = AcquireParams("m", 10, 10)
    assert world.shared.acquire(wanted, [FetchedBatch(7, 9)], world.shared.next_fetch_offset, 0) == [Acquired(7, 9, 1)]
    world.settle("m", 7, 9, ACCEPT)
    assert world.shared.start == 10


def test_records_that_were_deleted_are_settled() -> None:
    world = World()
    world.acquire("m", 10)
    world.settle("m", 0, 4, RELEASE)
    world.shared.log_start_moved(7)
    world.now_us = LOCK_US
    settled = world.shared.expire(world.now_us).settled()
    assert [(one.first, one.last, one.state, one.cause) for one in settled] == [
        (5, 6, ARCHIVED, ShareCause.GAP),
        (7, 9, AVAILABLE, ShareCause.LOCK_EXPIRED),
    ]
    assert world.acquire("m", 1)[0] == (7, 9, 2)


ACTIONS = st.lists(st.tuples(st.sampled_from("arxlw"), st.sampled_from(("m1", "m2")), st.integers(1, 12)), max_size=60)


@given(ACTIONS)
def test_each_record_has_one_owner_and_is_settled_once(actions: list[tuple[str, str, int]]) -> None:
    world = World(limits=ShareLimits(max_record_locks=20))
    owned: dict[int, str] = {}
    counts: dict[int, int] = {}
    done: set[int] = set()
    for kind, member, number in actions:
        mine = sorted(offset for offset, owner in owned.items() if owner == member)[:number]
        if kind == "a":
            for first, last, count in world.acquire(member, number):
                for offset in range(first, last + 1):
                    assert offset not in owned and offset not in done
                    counts[offset] = counts.get(offset, 0) + 1
                    assert counts[offset] == count <= 5
                    owned[offset] = member
        elif kind == "l":
            world.now_us += LOCK_US
            spent = {offset for offset in owned if counts[offset] == 5}
            world.shared.expire(world.now_us)
            world.shared.move_start()
            done |= spent
            owned.clear()
        else:
            for offset in mine:
                world.settle(member, offset, offset, {"r": RELEASE, "x": REJECT, "w": ACCEPT}[kind])
                del owned[offset]
                if kind != "r" or counts[offset] == 5:
                    done.add(offset)
        assert all(offset in done for offset in counts if offset < world.shared.start)
        assert world.shared.in_flight <= 20 + 4, "beyond the limit at most to the end of a batch"


BATCHES = st.lists(
    st.builds(
        lambda first, count, state, deliveries: StateBatch(first, first + count, state, deliveries),
        st.integers(0, 30),
        st.integers(0, 10),
        st.sampled_from((AVAILABLE, ACKNOWLEDGED, ARCHIVED)),
        st.integers(1, 5),
    ),
    max_size=8,
)


@given(BATCHES, BATCHES, st.integers(-1, 40))
def test_where_batches_overlap_the_later_delivery_counts(
    known: list[StateBatch], new: list[StateBatch], start: int
) -> None:
    found = combined(known, new, start)
    every: dict[int, tuple[int, RecordState]] = {}
    for one in (*known, *new):
        for offset in range(max(one.first, start), one.last + 1):
            every[offset] = max(every.get(offset, (0, AVAILABLE)), (one.delivery_count, one.state))
    assert {
        offset: (one.delivery_count, one.state) for one in found for offset in range(one.first, one.last + 1)
    } == every
    assert all(one.last < other.first for one, other in pairwise(found))


@given(BATCHES)
def test_records_are_read_as_they_were_written(batches: list[StateBatch]) -> None:
    key, replay = ShareKey("g", UUID(int=7), 3), ShareReplay()
    snapshot = ShareState(snapshot_epoch=1, state_epoch=2, leader_epoch=3, start_offset=0, delivery_complete=1)
    update = ShareUpdate(snapshot_epoch=1, leader_epoch=4, start_offset=-1, delivery_complete=2, batches=tuple(batches))
    for record in (encode(key, snapshot), encode(key, update)):
        replay.record(*record)
    assert replay.states == {key: update.applied_to(snapshot)}
    replay.record(b"\0\x07", b"")
    replay.record(*encode(key, None))
    assert (replay.states, replay.unreadable) == ({}, 1)
