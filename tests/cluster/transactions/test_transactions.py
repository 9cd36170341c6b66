"""The transaction coordinator against its transcripts, tests/golden/transactions_*.txt, and what they do not show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transaction_world import SECOND, TransactionWorld

from cluster.coordinators.core import Elected, LeadershipResigned
from cluster.transactions.inputs import (
    EndResult,
    InitResult,
    MarkersAnswered,
    PartitionLoaded,
)
from cluster.transactions.records import (
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from cluster.transactions.transaction import MAX_EPOCH, TransactionMetadata, Transit
from cluster.transactions.transaction import TransactionState as State
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.ids import TopicPartition
from tests.soak import examples

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "golden").glob("transactions_*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, transcript: Callable[[Path, object], None]) -> None:
    transcript(path, TransactionWorld(version=2 if path.stem.endswith("_v2") else 0))


def transit(**values: object) -> Transit:
    known: dict[str, object] = {
        "state": State.ONGOING,
        "producer_id": 7,
        "producer_epoch": 3,
        "last_producer_epoch": 2,
        "timeout_ms": 60_000,
        "partitions": (TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1)),
        "started_ms": 12,
        "updated_ms": 34,
    }
    return Transit(**{**known, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("state", list(State))
def test_a_record_says_what_was_written(version: int, state: State) -> None:
    written = transit(state=state, next_producer_id=8, version=2)
    found = read_transaction_value("orders", transaction_value(written, version))
    assert (found.state, found.producer_id, found.producer_epoch) == (state, 7, 3)
    assert (found.timeout_ms, found.started_ms, found.updated_ms) == (60_000, 12, 34)
    assert tuple(found.partitions) == (() if state is State.EMPTY else written.partitions)
    assert found.version == (2 if version else 0), "only the flexible version has room for it"
    assert read_transaction_key(transaction_key("orders")) == "orders"


def test_a_record_as_kafka_writes_it() -> None:
    """TransactionLogValue version 0: id, epoch, timeout, status, [topic, [partition]], last update, start."""
    written = transit(partitions=(TopicPartition("t", 5),))
    assert transaction_key("tx") == bytes.fromhex("0000 0002 7478")
    assert transaction_value(written, 0) == bytes.fromhex(
        "0000 0000000000000007 0003 0000ea60 01 00000001 0001 74 00000001 00000005 0000000000000022 000000000000000c"
    )
    empty = transit(state=State.EMPTY, started_ms=-1, partitions=())
    rest = "0000000000000007 0003 0000ea60 00 %s 0000000000000022 ffffffffffffffff"
    assert transaction_value(empty, 0) == bytes.fromhex("0000" + rest % "ffffffff")
    assert transaction_value(empty, 1) == bytes.fromhex("0001" + rest % "00" + "00")


@pytest.mark.parametrize(("version", "state"), [(-1, 1), (2, 1), (0, -1), (1, 8)])
def test_a_record_of_a_version_or_state_that_does_not_exist_is_not_read(version: int, state: int) -> None:
    value = transaction_value(transit(), min(max(version, 0), 1))
    changed = version.to_bytes(2, "big", signed=True) + value[2:16] + state.to_bytes(1, "big", signed=True) + value[17:]
    with pytest.raises(PeerViolation):
        read_transaction_value("orders", changed)


def test_the_producer_ids_before_and_after_are_read_and_not_written() -> None:
    """TransactionLogValue version 1 has tags for them, which TransactionLog.valueToBytes of 4.1 does not set."""
    written = transaction_value(transit(next_producer_id=8, partitions=(), version=2), 1)
    head = "0001 0000000000000007 0003 0000ea60 01 01 0000000000000022 000000000000000c"
    assert written == bytes.fromhex(head + "01 02 02 0002")
    of_a_later_kafka = bytes.fromhex(head + "03 00 08 0000000000000006 01 08 0000000000000008 02 02 0002")
    found = read_transaction_value("orders", of_a_later_kafka)
    assert (found.previous_producer_id, found.next_producer_id, found.version) == (6, 8, 2)


@pytest.mark.parametrize(("version", "of_value"), [(0, 0), (1, 1), (2, 1)])
def test_records_are_flexible_from_version_1_on(version: int, of_value: int) -> None:
    world = TransactionWorld(version=version)
    world.init()
    assert (world.log[-1][1] or b"")[:2] == of_value.to_bytes(2, "big")


def test_where_records_have_no_version_an_end_by_version_2_blocks_the_id_for_good() -> None:
    """A client that does not go by the level of transaction.version; see TransactionDesk.write."""
    world = TransactionWorld(version=0, knows_v2=True)
    world.init()
    world.add("t-0")
    assert world.commit(version=2)[-1].startswith("-> UNSUPPORTED_VERSION")
    assert world.init()[-1].startswith("-> CONCURRENT_TRANSACTIONS")
    world.restart()
    assert world.commit()[1].startswith("-> NONE")


@given(st.binary(max_size=60))
def test_a_damaged_record_is_refused_and_nothing_else(data: bytes) -> None:
    for read in (lambda: read_transaction_value("orders", data), lambda: read_transaction_key(data)):
        try:
            read()
        except PeerViolation:
            continue


@pytest.mark.parametrize("version", [0, 2])
def test_a_producer_id_whose_epochs_are_used_up_is_replaced(version: int) -> None:
    world = TransactionWorld(version=version)
    world.init()
    world.transaction.producer_epoch = MAX_EPOCH - 1
    if version == 2:
        world.add("t-0", epoch=MAX_EPOCH - 1)
        world.commit(epoch=MAX_EPOCH - 1)
        assert world.answers[-1] == EndResult(ErrorCode.NONE, 1001, 0)
        world.commit(epoch=MAX_EPOCH - 1)  # Its answer was lost.
        assert world.answers[-1] == EndResult(ErrorCode.NONE, 1001, 0)
    else:
        world.init()
        assert world.answers[-1] == InitResult(ErrorCode.NONE, 1001, 0)
    assert (world.transaction.producer_id, world.transaction.producer_epoch) == (1001, 0)


def test_an_id_that_is_not_used_expires() -> None:
    world = TransactionWorld(expiration_ms=3_600_000)
    world.init()
    world.at(3000 * SECOND)
    world.init(name="used")
    world.at(3600 * SECOND)
    assert world.log[-1] == (transaction_key("orders"), None)
    assert world.coordinator.describe("used").state is State.EMPTY
    assert list(world.replay().transactions) == ["used"]
    world.add("t-0")
    assert world.answers[-1].errors == {TopicPartition("t", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING}  # type: ignore[union-attr]


def test_an_id_with_an_open_transaction_does_not_expire() -> None:
    """Its timeout is longer than transactional.id.expiration.ms here."""
    world = TransactionWorld(expiration_ms=3_600_000, max_timeout_ms=36_000_000)
    world.init(timeout=36_000 * SECOND)
    world.add("t-0")
    world.at(3 * 3600 * SECOND)
    assert world.transaction.state is State.ONGOING


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_without_a_further_epoch_stays_open_and_holds_up_no_other(version: int) -> None:
    """Nothing could fence its producer, whose commit counts where it needs no further epoch."""
    world = TransactionWorld(version=version)
    world.init()
    world.use_up()
    world.transaction.producer_epoch += 1
    world.add("t-0", epoch=32_767)
    world.init(name="later")
    world.add("t-1", id=1001, name="later")
    for at in (75, 150):
        world.at(at * SECOND)
        assert (world.transaction.state, world.transaction.producer_epoch) == (State.ONGOING, 32_767)
        assert world.coordinator.describe("later").state is State.COMPLETE_ABORT
    assert [str(one) for markers in world.markers for one in markers.partitions] == ["t-1"]
    assert world.commit(epoch=32_767)[-1 if version else 1].startswith(
        "-> UNKNOWN_SERVER_ERROR" if version else "-> NONE, producer id 1000, epoch 32767"
    )


def test_a_transaction_is_open_since_its_first_partition() -> None:
    world = TransactionWorld()
    world.init()
    world.add("t-0")
    world.at(55 * SECOND)
    world.add("t-1")
    world.at(75 * SECOND)
    assert world.transaction.state is State.COMPLETE_ABORT


@pytest.mark.parametrize(
    ("known", "error"),
    [((-1, -1), "PRODUCER_FENCED"), ((1000, 32_766), "NONE, producer id 1001, epoch 0")],
    ids=["unnamed", "named"],
)
def test_who_got_another_id_is_known_by_the_last_epoch_of_the_one_before(known: tuple[int, int], error: str) -> None:
    """An instance that named none has fenced whoever had that epoch."""
    world = TransactionWorld()
    world.init()
    world.use_up()
    assert world.init(id=known[0], epoch=known[1])[-1] == "-> NONE, producer id 1001, epoch 0"
    assert world.init(id=1000, epoch=0)[-1].startswith("-> PRODUCER_FENCED"), "no epoch but the last one"
    assert world.init(id=1000, epoch=32_766)[-1].startswith(f"-> {error}")


@pytest.mark.parametrize("used_up", [False, True])
def test_an_instance_brings_its_own_timeout(used_up: bool) -> None:
    world = TransactionWorld()
    world.init()
    if used_up:
        world.use_up()
    producer_id, epoch = (1001, 0) if used_up else (1000, 1)
    assert world.init(timeout=200 * SECOND)[-1] == f"-> NONE, producer id {producer_id}, epoch {epoch}"
    world.add("t-0", id=producer_id, epoch=epoch)
    world.at(195 * SECOND)
    assert world.transaction.state is State.ONGOING
    world.at(215 * SECOND)
    assert world.transaction.state is State.COMPLETE_ABORT


def test_the_log_says_since_when_a_transaction_is_open_and_by_which_version_it_ends() -> None:
    """One without partitions is open since it is aborted (prepareAbortOrCommit)."""
    world = TransactionWorld(version=2)
    world.init()
    for start, epoch, names in ((10, 0, ["t-0"]), (30, 1, [])):
        world.at(start * SECOND)
        if names:
            world.add(*names, epoch=epoch)
            world.at((start + 5) * SECOND)
        world.abort(epoch=epoch)
    world.init()
    read = [read_transaction_value("orders", value) for _, value in world.log if value is not None]
    assert [(one.state.value, one.started_ms // 1000, one.version) for one in read] == [
        ("Empty", -1, 0),
        ("Ongoing", 10, 2),
        ("PrepareAbort", 10, 2),
        ("CompleteAbort", 10, 2),
        ("PrepareAbort", 30, 2),
        ("CompleteAbort", 30, 2),
        ("Empty", -1, 2),
    ]


def test_a_transaction_may_be_open_without_a_partition() -> None:
    world = TransactionWorld()
    world.init()
    world.add()
    assert world.transaction.state is State.ONGOING


def test_a_second_partition_begins_no_second_check() -> None:
    world = TransactionWorld()
    world.init()
    world.add("t-0")
    world.at(3 * SECOND)
    world.step(Elected(now_us=world.now_us, partition=1, leader_epoch=1))
    assert world.step(PartitionLoaded(now_us=0, partition=1, leader_epoch=1, transactions=())) == []
    world.at(65 * SECOND)
    assert world.transaction.state is State.ONGOING
    world.at(70 * SECOND)
    assert world.transaction.state is State.COMPLETE_ABORT


def test_an_abort_with_the_last_epoch_is_no_repetition() -> None:
    world = TransactionWorld(version=2)
    world.init()
    world.transaction.producer_epoch = MAX_EPOCH - 2
    world.add("t-0", epoch=MAX_EPOCH - 2)
    world.commit(epoch=MAX_EPOCH - 2)
    world.abort(epoch=MAX_EPOCH - 1)
    assert world.answers[-1] == EndResult(ErrorCode.NONE, 1001, 0)


def test_once_one_leader_fences_the_coordinator_no_other_is_asked_again() -> None:
    world = TransactionWorld()
    world.init()
    world.add("t-0", "t-1")
    world.hold_markers()
    world.commit()
    errors = {
        TopicPartition("t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        TopicPartition("t", 1): ErrorCode.NOT_ENOUGH_REPLICAS,
    }
    answered = MarkersAnswered(now_us=0, transactional_id="orders", coordinator_epoch=1, errors=errors)
    assert world.step(answered) == []
    assert world.transaction.pending is State.COMPLETE_COMMIT


def test_a_record_without_a_key_or_with_one_of_later_is_passed_over() -> None:
    world = TransactionWorld()
    world.init()
    known = world.log[-1][1]
    world.log += [(b"", known), (bytes.fromhex("0001 0002 7478"), known)]
    replay = world.replay()
    replay.record(None, known)
    assert (list(replay.transactions), replay.unreadable) == (["orders"], 3)


def test_an_id_that_is_in_use_again_does_not_expire() -> None:
    world = TransactionWorld(expiration_ms=600_000)
    world.init()
    world.at(3599 * SECOND)
    world.hold_log()
    world.init()
    world.at(3601 * SECOND)
    assert world.release_log()[-1] == "-> NONE, producer id 1000, epoch 1"
    assert world.log[-1][1] is not None


def test_an_id_that_could_not_be_buried_is_of_use() -> None:
    world = TransactionWorld(expiration_ms=600_000)
    world.init()
    world.hold_log()
    world.refuse("NOT_ENOUGH_REPLICAS")
    world.at(3601 * SECOND)
    world.release_log()
    assert world.transaction.pending is None
    assert world.init()[-1] == "-> NONE, producer id 1000, epoch 1"


@pytest.mark.parametrize(
    ("then", "error"),
    [
        ("refused", "COORDINATOR_NOT_AVAILABLE"),
        ("resigned", "NOT_COORDINATOR"),
        ("reading", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("again", "NOT_COORDINATOR"),
    ],
    ids=["refused", "resigned", "reading", "again"],
)
def test_what_a_former_coordinator_tells(then: str, error: str) -> None:
    world = TransactionWorld()
    world.init()
    world.hold_log()
    if then == "refused":
        world.refuse("NOT_ENOUGH_REPLICAS")
    world.init()
    if then == "again":
        world.elect()
    elif then == "reading":
        world.coordinator.step(Elected(now_us=0, partition=0, leader_epoch=9))
    else:
        world.resign()
    assert world.release_log()[-1].startswith(f"-> {error},")


def test_a_tombstone_of_before_an_election_takes_nothing() -> None:
    world = TransactionWorld(expiration_ms=600_000)
    world.init()
    world.hold_log()
    world.at(3601 * SECOND)
    world.coordinator.step(Elected(now_us=0, partition=0, leader_epoch=9))
    world.step(
        PartitionLoaded(now_us=0, partition=0, leader_epoch=9, transactions=(TransactionMetadata("orders", 7, 1, 1),))
    )
    assert world.release_log() == []
    assert [one.producer_id for one in world.coordinator.listed((), None, -1, 0)] == [7]


def test_a_coordinator_that_reads_its_log_asks_to_be_asked_again() -> None:
    world = TransactionWorld()
    world.init()
    world.coordinator.step(Elected(now_us=0, partition=0, leader_epoch=9))
    assert world.commit()[-1].startswith("-> COORDINATOR_LOAD_IN_PROGRESS")


def test_what_comes_late_of_an_election_is_passed_over() -> None:
    world = TransactionWorld()
    world.init()
    known = world.transaction
    for late in (
        Elected(now_us=0, partition=0, leader_epoch=1),
        LeadershipResigned(now_us=0, partition=0, leader_epoch=1),
        PartitionLoaded(now_us=0, partition=0, leader_epoch=1, transactions=()),
    ):
        assert world.step(late) == []
        assert world.coordinator.describe("orders") is known
    world.step(Elected(now_us=0, partition=1, leader_epoch=5))
    world.step(PartitionLoaded(now_us=0, partition=1, leader_epoch=4, transactions=()))
    assert world.coordinator.is_loading(1, 5)


def test_a_partition_that_is_not_kept_any_more_is_forgotten_with_its_epoch_and_no_other() -> None:
    world = TransactionWorld()
    world.init()
    elected = Elected(now_us=0, partition=1, leader_epoch=5)
    for _ in range(2):
        world.step(elected)
        assert world.coordinator.is_loading(1, 5)
        loaded = PartitionLoaded(now_us=0, partition=1, leader_epoch=5, transactions=(), unreadable=1)
        assert len(world.step(loaded)) == 1
        assert world.step(LeadershipResigned(now_us=0, partition=1, leader_epoch=None)) == []
        assert len(world.coordinator.listed((), None, -1, 0)) == 1


def test_transactions_are_listed_by_id_state_and_age_once_all_are_read() -> None:
    world = TransactionWorld()
    for number, name in enumerate(("a", "b")):
        world.init(name=name)
        world.at((number + 1) * SECOND)
    world.add("t-0", id=1001, name="b")
    world.at(10 * SECOND)

    def listed(
        ids: tuple[int, ...] = (), states: tuple[State, ...] | None = None, longer_ms: int = -1, at: int = 10
    ) -> list[str]:
        found = world.coordinator.listed(ids, states, longer_ms, at * SECOND)
        return [one.transactional_id for one in found]

    assert listed() == ["a", "b"]
    assert listed(ids=(1001,)) == listed(states=(State.ONGOING,)) == ["b"]
    assert "b" in listed(longer_ms=7_000)
    assert "b" not in listed(longer_ms=9_000)
    assert "b" not in listed(longer_ms=0, at=2), "it begins now"
    assert "b" in listed(at=1), "though by the clock it is yet to begin"
    for name, error in (("", ErrorCode.INVALID_REQUEST), ("c", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)):
        with pytest.raises(KafkaError) as refusal:
            world.coordinator.describe(name)
        assert refusal.value.code is error
    world.step(Elected(now_us=world.now_us, partition=1, leader_epoch=1))
    with pytest.raises(KafkaError) as refusal:
        listed()
    assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_an_end_that_needs_another_id_and_gets_none_is_asked_for_again() -> None:
    world = TransactionWorld(version=2)
    world.init()
    world.use_up()
    epoch = world.transaction.producer_epoch
    world.add("t-0", epoch=epoch)
    world.give_no_ids()
    world.commit(epoch=epoch, version=2)
    assert world.answers[-1] == EndResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert world.transaction.state is State.ONGOING


def test_who_coordinates_no_more_does_not_write_that_a_transaction_is_complete() -> None:
    world = TransactionWorld()
    world.init()
    world.add("t-0")
    world.hold_markers()
    world.commit()
    world.refuse("NOT_ENOUGH_REPLICAS")
    world.answer("t-0")
    world.refuse("NONE")
    written = len(world.log)
    world.resign()
    world.at(world.now_us + SECOND)
    assert len(world.log) == written


STEPS = st.lists(st.tuples(st.sampled_from("iavceEtrdm"), st.integers(0, 2)), max_size=40)


@settings(max_examples=examples(100), deadline=None)
@given(STEPS, st.sampled_from([0, 2]))
def test_what_a_new_coordinator_reads_is_what_the_old_one_knew(steps: list[tuple[str, int]], version: int) -> None:
    """And no schedule of requests, timeouts, failed writes and elections breaks a rule of the state machine."""
    world = TransactionWorld(version=version)
    epoch = 0
    for what, number in steps:
        match what:
            case "i":
                world.init()
                if isinstance(world.answers[-1], InitResult) and world.answers[-1].error is ErrorCode.NONE:
                    epoch = world.answers[-1].producer_epoch
            case "a" | "v":
                world.add(f"t-{number}", epoch=epoch, verify=what == "v")
            case "c" | "e" | "E":
                (world.commit if what == "c" else world.abort)(epoch=max(0, epoch - (what == "E")))
                if isinstance(world.answers[-1], EndResult) and world.answers[-1].error is ErrorCode.NONE:
                    epoch = world.answers[-1].producer_epoch
            case "t":
                world.at(world.now_us + 45 * SECOND)
            case "r":
                world.restart()
            case "d":
                world.refuse("NOT_ENOUGH_REPLICAS" if number else "NOT_LEADER_OR_FOLLOWER")
            case "m":
                world.hold_markers()
    world.refuse("NONE")
    before = world.replay().transactions.get("orders")
    world.restart()
    if before is None:
        return
    after = world.transaction
    ended = {
        State.PREPARE_COMMIT: State.COMPLETE_COMMIT,
        State.PREPARE_ABORT: State.COMPLETE_ABORT,
    }
    assert after.state in (before.state, ended.get(before.state))
    assert after.producer_id == before.producer_id
