"""Transactions as their leaders have them: markers, how far a read_committed consumer reads, and verification."""

from __future__ import annotations

import pytest
from broker_world import B1, B2, T0, BrokerWorld, batch

from cluster.broker.replicas.transaction_checks import TransactionQuestion
from cluster.protocol import cold
from cluster.protocol import versions as v
from cluster.protocol.api_00_produce import ProduceRequest, decode_produce_response, encode_produce_request
from controller.inputs import ElectLeader
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import build_batch
from replica.rules import PROFILES, Rules
from replica.trace.events import LastStableOffsetMoved, TransactionMarkerWritten

LATEST = -1


def started(tmp_path, rules: Rules = PROFILES["kafka-3.5"]) -> BrokerWorld:
    world = BrokerWorld(tmp_path, rules).start()
    world.run(100)
    return world


@pytest.fixture
def world(tmp_path):
    """Of an era that verifies nothing."""
    world = started(tmp_path)
    world.create(B1)
    return world


def produce(client, *values, sequence=0, producer_id=5, epoch=0, version=9):
    data = batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
    request = ProduceRequest("tx", -1, 1000, [("t", [(0, data)])])
    client.send(encode_produce_request(version, 77, client.peer, request))


def marker(committed, *, producer_id=5, epoch=0, coordinator_epoch=0):
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": committed,
        "topics": [{"name": "t", "partition_indexes": [0]}],
        "coordinator_epoch": coordinator_epoch,
    }


def end(client, committed, **values):
    answer = client.ask(v.WRITE_TXN_MARKERS, 1, markers=[marker(committed, **values)])
    return answer.markers[0].topics[0].partitions[0].error_code


def read(client, offset, *, isolation):
    client.fetch(offset, isolation=isolation, max_wait_ms=0)
    return client.fetched()


def test_a_committed_reader_waits_for_the_marker(world):
    p1, c1 = world.call("p1"), world.call("c1")
    produce(p1, "r0", "r1")
    open_now = read(c1, 0, isolation=1)
    assert (open_now.high_watermark, open_now.last_stable_offset, len(open_now.records)) == (2, 0, 0)
    assert len(read(c1, 0, isolation=0).records) > 0
    assert end(p1, True) is ErrorCode.NONE
    ended = read(c1, 0, isolation=1)
    assert (ended.high_watermark, ended.last_stable_offset, ended.aborted_transactions) == (3, 3, ())
    assert len(ended.records) > 0


def test_a_committed_reader_learns_what_was_aborted(world):
    p1, c1 = world.call("p1"), world.call("c1")
    produce(p1, "r0")
    end(p1, False)
    assert read(c1, 0, isolation=1).aborted_transactions == ((5, 0),)
    assert read(c1, 2, isolation=1).aborted_transactions == ()
    assert read(c1, 0, isolation=0).aborted_transactions is None


def test_a_waiting_reader_is_woken_by_the_marker(world):
    p1, c1 = world.call("p1"), world.call("c1")
    produce(p1, "r0")
    c1.fetch(0, isolation=1, max_wait_ms=5000)
    assert not c1.answers
    end(p1, True)
    assert len(c1.fetched().records) > 0


def test_the_end_of_the_log_is_the_last_stable_offset_to_a_committed_reader(world):
    produce(world.call("p1"), "r0")
    asked = world.call("c1")
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST}
    topics = [{"name": "t", "partitions": [partition]}]
    found = [
        asked.ask(v.LIST_OFFSETS, 7, replica_id=-1, isolation_level=isolation, topics=topics).topics[0].partitions[0]
        for isolation in (0, 1)
    ]
    assert [one.offset for one in found] == [1, 0]


def test_a_marker_is_answered_when_every_in_sync_replica_has_it(tmp_path):
    world = started(tmp_path)
    world.join(B2)
    world.create(B1, B2, min_insync_replicas="1")
    p1, ended = world.call("p1"), []
    world.broker.replicas.on_transaction_ended = lambda *told: ended.append(told)
    produce(p1, "r0")
    marker = {
        "producer_id": 5,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": "t", "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }
    coordinator = world.call("b3")
    coordinator.send(_markers(coordinator, marker))
    assert not coordinator.answers and not ended
    b2 = world.follower(B2)
    b2(0)
    b2(2)
    assert coordinator.answers and ended == [(TopicPartition("t", 0), 5, True)]


def _markers(caller, marker):
    entity = cold.request(v.WRITE_TXN_MARKERS, 1, markers=[marker])
    return cold.encode_request(v.WRITE_TXN_MARKERS, 1, 1, caller.peer, entity)


def test_markers_are_refused_where_nothing_is_led_and_from_an_older_coordinator(world):
    p1 = world.call("p1")
    produce(p1, "r0")
    assert end(p1, True, coordinator_epoch=3) is ErrorCode.NONE
    assert end(p1, True, coordinator_epoch=2) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    marker = {
        "producer_id": 5,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": "nowhere", "partition_indexes": [0]}],
        "coordinator_epoch": 3,
    }
    answer = p1.ask(v.WRITE_TXN_MARKERS, 1, markers=[marker])
    assert answer.markers[0].topics[0].partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_open_transaction_is_described(world):
    p1 = world.call("p1")
    produce(p1, "r0")
    end(p1, True, coordinator_epoch=4)
    produce(p1, "r1", sequence=1)
    topics = [{"name": "t", "partition_indexes": [0]}]
    (found,) = p1.ask(v.DESCRIBE_PRODUCERS, 0, topics=topics).topics[0].partitions[0].active_producers
    assert (found.producer_id, found.coordinator_epoch, found.current_txn_start_offset) == (5, 4, 2)


# -------------------------------------------------------------------------------------------------------- verification


@pytest.fixture
def verified(tmp_path):
    """A broker that asks coordinators; the tests give their answers."""
    world = started(tmp_path, PROFILES["kafka-3.9"])
    world.create(B1)
    return world


@pytest.fixture
def questions(verified):
    found: list[TransactionQuestion] = []
    verified.broker.replicas.transaction_checks.ask = lambda question, now_us: found.append(question)
    return found


def answer(world, questions, error=ErrorCode.NONE):
    question = questions.pop(0)
    question.answered(dict.fromkeys(question.partitions, error), world.now_us)
    world.to_broker("tick")
    return question


def test_the_first_batch_of_a_transaction_waits_for_the_coordinator(verified, questions):
    p1 = verified.call("p1")
    produce(p1, "r0")
    assert not p1.answers
    question = answer(verified, questions)
    assert (question.transactional_id, question.producer_id, question.adds) == ("tx", 5, False)
    assert p1.produced().base_offset == 0
    produce(p1, "r1", sequence=1)
    assert not questions and p1.produced().base_offset == 1


def test_a_batch_that_is_late_begins_no_transaction(verified, questions):
    """KAFKA-14402: the marker comes between the coordinator's answer and the append."""
    p1 = verified.call("p1")
    produce(p1, "r0")
    end(verified.call("b2"), False)
    answer(verified, questions)
    assert p1.produced().error is ErrorCode.INVALID_TXN_STATE


def test_a_question_that_is_asked_again_has_the_guards_of_its_time(tmp_path):
    """The marker of the transaction before comes while the next one's first batch waits for the coordinator."""
    world = started(tmp_path, PROFILES["kafka-4.1"])
    world.create(B1)
    asked: list[TransactionQuestion] = []
    world.broker.replicas.transaction_checks.ask = lambda question, now_us: asked.append(question)
    p1 = world.call("p1")
    produce(p1, "r0", version=12)
    end(world.call("b2"), True)
    question = asked.pop(0)
    assert (question.backoff_us, question.until_us - world.now_us) == (20_000, 100_000)
    question.again(world.now_us)
    answer(world, asked)
    assert p1.produced().error is ErrorCode.NONE


@pytest.mark.parametrize(("release", "asked_for"), [("3.9", 1), ("4.1", 0)])
def test_of_a_batch_of_an_older_epoch_the_coordinator_is_not_asked(tmp_path, release, asked_for):
    """KAFKA-18042: the log itself knows that the instance is fenced."""
    world = started(tmp_path, PROFILES[f"kafka-{release}"])
    world.create(B1)
    asked: list[TransactionQuestion] = []
    world.broker.replicas.transaction_checks.ask = lambda question, now_us: asked.append(question)
    end(world.call("b2"), False, epoch=1)
    p1 = world.call("p1")
    produce(p1, "r0")
    assert len(asked) == asked_for
    if asked:
        answer(world, asked, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert p1.produced().error is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_a_partition_that_it_comes_to_lead_while_it_asks_about_others_is_refused(tmp_path, release):
    """Nothing was asked about it. NOT_LEADER_OR_FOLLOWER makes a producer try again; INVALID_TXN_STATE is the end."""
    world = started(tmp_path, PROFILES[f"kafka-{release}"])
    world.join(B2)
    world.create(B1)
    world.create(B2, B1, topic="u")
    asked: list[TransactionQuestion] = []
    world.broker.replicas.transaction_checks.ask = lambda question, now_us: asked.append(question)
    p1 = world.call("p1")
    data = batch("r0", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    request = ProduceRequest("tx", -1, 1000, [("t", [(0, data)]), ("u", [(0, data)])])
    p1.send(encode_produce_request(9, 77, p1.peer, request))
    world.decide(ElectLeader(now_us=world.now_us, topic="u", partition=0, desired=B1))
    assert world.broker.replicas.partitions[TopicPartition("u", 0)].leader is not None
    answer(world, asked)
    answered = decode_produce_response(9, p1.answers[-1])
    assert {topic: parts[0].error for topic, parts in answered.topics} == {
        "t": ErrorCode.NONE,
        "u": ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }


def test_a_late_batch_hangs_where_nothing_is_verified(world):
    p1, c1 = world.call("p1"), world.call("c1")
    end(p1, False)
    produce(p1, "r0")
    assert p1.produced().error is ErrorCode.NONE
    assert read(c1, 0, isolation=1).last_stable_offset == 1


def test_what_the_coordinator_refuses_is_not_appended(verified, questions):
    p1 = verified.call("p1")
    produce(p1, "r0")
    answer(verified, questions, ErrorCode.INVALID_TXN_STATE)
    assert p1.produced().error is ErrorCode.INVALID_TXN_STATE
    assert verified.broker.replicas.partitions["t", 0].log.log_end_offset == 0


def test_a_producer_of_transaction_version_2_leaves_it_to_the_leader_to_add(tmp_path):
    world = started(tmp_path, PROFILES["kafka-4.1"])
    world.create(B1)
    asked: list[TransactionQuestion] = []
    world.broker.replicas.transaction_checks.ask = lambda question, now_us: asked.append(question)
    produce(world.call("p1"), "r0", version=11)
    produce(world.call("p2"), "r0", version=12, producer_id=6)
    assert [(one.adds, one.aborts) for one in asked] == [(False, True), (True, True)]


def stable_offsets(world):
    return [(event.last_stable_offset, event.high_watermark) for event in world.events(LastStableOffsetMoved)]


def test_the_trace_says_where_the_last_stable_offset_stands_and_when_it_is_the_high_watermark_again(world):
    p1 = world.call("p1")
    produce(p1, "r0")
    produce(p1, "r1", sequence=1)
    assert stable_offsets(world) == [(0, 1)]  # It stands still while the high watermark goes on.
    produce(p1, "s0", producer_id=6)
    end(p1, True)
    assert stable_offsets(world)[1:] == [(2, 4)]  # where the other transaction begins
    end(p1, False, producer_id=6)
    assert stable_offsets(world)[2:] == [(5, 5)]
    p1.produce(batch("x0"), acks=1)
    assert stable_offsets(world)[3:] == []


def test_deleted_records_hold_nothing_up(world):
    p1 = world.call("p1")
    produce(p1, "r0", "r1")
    world.broker.replicas.partitions[TopicPartition("t", 0)].delete_records(1, "p1")
    assert stable_offsets(world) == [(0, 2), (1, 2)]


def test_a_marker_below_the_high_watermark_alone_frees_the_last_stable_offset(tmp_path):
    world = started(tmp_path)
    world.join(B2)
    world.create(B1, B2)
    p1, fetch = world.call("p1"), world.follower(B2)
    produce(p1, "r0")
    fetch(0)
    fetch(1)
    assert stable_offsets(world) == [(0, 1)]
    request = cold.request(v.WRITE_TXN_MARKERS, 1, markers=[marker(True)])
    p1.send(cold.encode_request(v.WRITE_TXN_MARKERS, 1, 99, "b1", request))
    assert stable_offsets(world)[1:] == []
    fetch(2)
    assert stable_offsets(world)[1:] == [(2, 2)]


def test_the_trace_has_every_marker_with_what_it_ends(world):
    p1 = world.call("p1")
    produce(p1, "r0", "r1")
    end(p1, False, coordinator_epoch=3)
    end(p1, True, coordinator_epoch=4)
    found = [
        (event.offset, event.first_offset, event.committed, event.producer_id, event.coordinator_epoch)
        for event in world.events(TransactionMarkerWritten)
    ]
    assert found == [(2, 0, False, 5, 3), (3, None, True, 5, 4)]


@pytest.mark.parametrize(("era", "left"), [("kafka-4.3", [0, 1, 2]), ("kafka-4.4", [1, 2])])
def test_an_emptied_batch_at_the_end_of_a_round_stays_until_4_3(tmp_path, era, left):
    """It is of an aborted transaction, and the one behind it, in the active segment, is its producer's last one."""
    config = {"transaction_partition_verification_enable": "false", "log_cleaner_backoff_ms": "1000"}
    world = BrokerWorld(tmp_path, PROFILES[era], **config).start()
    world.run(100)
    world.create(B1, cleanup_policy="compact", segment_bytes="1024")
    p1 = world.call("p1")
    for sequence in (0, 1):
        data = build_batch(
            [(b"k", bytes(700))],
            timestamp_ms=0,
            producer_id=5,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        request = ProduceRequest("tx", -1, 1000, [("t", [(0, data)])])
        p1.send(encode_produce_request(9, 77, p1.peer, request))
    end(p1, False)
    world.run(2000)
    assert [header.base_offset for header in world.broker.replicas.partitions[T0].log.headers()] == left
