"""Kafka's own producers and consumers as clients of a run: what they say and their connections carry, as events."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from cluster.client.producer.accumulator import partition_for_key
from cluster.client.producer.batch import ProducerRecord
from cluster.config import ConsumerConfig, ProducerConfig
from cluster.kafka.clients.consumer import JavaConsumer
from cluster.kafka.clients.orders import batch_bytes, consumer_settings, producer_settings
from cluster.kafka.clients.producer import JavaProducer
from cluster.kafka.clients.sight import ConnectionSight
from cluster.operated import ClientOrder
from cluster.protocol.api_00_produce import (
    ProducePartitionResponse,
    ProduceRequest,
    encode_produce_request,
    encode_produce_response,
)
from cluster.protocol.cold import encode_request, encode_response, request, response
from cluster.protocol.versions import FETCH, LIST_OFFSETS, METADATA
from replica.causes import ResetCause
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import build_batch
from replica.trace.events import TraceLog, TraceRow

TOPIC_ID = UUID(int=7)
SIZE = slice(4, None)
T0 = TopicPartition("t", 0)


class Client:
    """A stand-in, the orders that its JVM gets, and its events."""

    def __init__(self, kind: Any, config: ProducerConfig | ConsumerConfig, topics: tuple[str, ...] = ("t",)) -> None:
        self.rows: list[TraceRow] = []
        self.orders: list[Any] = []
        order = ClientOrder(topics=topics, partitions=3, config=config, largest_batch=((None, b"r0 x"),))
        trace = TraceLog([self.rows.append])
        self.core = kind("p1", order, trace, self.orders.append, lambda: "b1:9092,b2:9092")
        self.core.launch()

    def send(self, *names: str) -> None:
        self.core.send_batch([ProducerRecord("t", None, None, f"{name} x".encode(), name) for name in names], 0)

    def hear(self, event: str, *, topic: str = "t", **fields: Any) -> None:
        self.core.heard({"event": event, "client": "p1", "topic": topic, **fields})

    def told(self, kind: str) -> list[Any]:
        return [row.event for row in self.rows if type(row.event).__name__ == kind]

    def causes_of(self, kind: str) -> list[list[str]]:
        """Of each such event, the kinds of its causes."""
        kinds = {row.seq: type(row.event).__name__ for row in self.rows}
        return [[kinds[seq] for seq in row.causes] for row in self.rows if type(row.event).__name__ == kind]


def produce(correlation_id: int, *names: str, version: int = 9, acks: int = -1) -> bytes:
    records = [(None, f"{name} x".encode()) for name in names]
    batch = build_batch(records, timestamp_ms=5, producer_id=4, producer_epoch=0, base_sequence=0)
    asked = ProduceRequest(None, acks, 30_000, [(TOPIC_ID if version >= 13 else "t", [(0, batch)])])
    return encode_produce_request(version, correlation_id, "p1", asked)[SIZE]


def answer(correlation_id: int, error: ErrorCode, offset: int = -1, *, version: int = 9) -> bytes:
    parts = [ProducePartitionResponse(0, error, base_offset=offset)]
    topics = [(TOPIC_ID if version >= 13 else "t", parts)]
    return bytes(encode_produce_response(version, correlation_id, topics))[SIZE]


@pytest.fixture
def producer() -> Client:
    return Client(JavaProducer, ProducerConfig())


@pytest.mark.parametrize("version", [9, 13])
def test_a_record_is_sent_in_a_batch_and_acked(producer: Client, version: int) -> None:
    sight = ConnectionSight(producer.core, "b2")
    producer.send("r0", "r1")
    sight.request(produce(1, "r0", "r1", version=version))
    sight.response(answer(1, ErrorCode.NONE, 5, version=version))
    producer.hear("acked", record="r0", partition=0, offset=5, micros=1500)
    (batch,) = producer.told("BatchSent")
    assert (batch.peer, batch.topic, batch.records, batch.attempt) == ("b2", "t", ("r0", "r1"), 1)
    assert (batch.producer_id, batch.base_sequence, batch.acks) == (4, 0, -1)
    (acked,) = producer.told("RecordAcked")
    assert (acked.peer, acked.record, acked.offset, acked.latency_us) == ("b2", "r0", 5, 1500)
    assert producer.causes_of("BatchSent") == [["RecordSent", "RecordSent"]]
    assert producer.causes_of("RecordAcked") == [["BatchSent"]]


def test_the_partition_is_stated_as_soon_as_it_can_be_known(producer: Client) -> None:
    for number, (key, partition) in enumerate([(None, None), (b"k", None), (None, 2)]):
        producer.core.send(ProducerRecord("t", partition, key, b"x", f"r{number}"), 0)
    unknown, by_key, asked = [event.partition for event in producer.told("RecordSent")]
    assert (unknown, by_key, asked) == (-1, partition_for_key(b"k", 3), 2)


def test_a_refused_batch_is_sent_again_to_another_broker(producer: Client) -> None:
    producer.send("r0")
    first, second = ConnectionSight(producer.core, "b1"), ConnectionSight(producer.core, "b2")
    first.request(produce(1, "r0"))
    first.response(answer(1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    second.request(produce(1, "r0"))
    second.response(answer(1, ErrorCode.NONE, 0))
    producer.hear("acked", record="r0", partition=0, offset=0, micros=9)
    (refused,) = producer.told("BatchRefused")
    assert (refused.peer, refused.error, refused.will_retry) == ("b1", "NOT_LEADER_OR_FOLLOWER", True)
    assert [batch.attempt for batch in producer.told("BatchSent")] == [1, 2]
    assert producer.causes_of("BatchSent") == [["RecordSent"], ["BatchRefused"]]
    assert producer.told("RecordAcked")[0].peer == "b2"


REFUSED_FOR_GOOD = "the request included a message larger than the max message size"


@pytest.mark.parametrize(
    ("fate", "definite"),
    [
        ("refused", True),
        ("timed out", False),
        ("refused after the append", False),
        ("never answered", False),
        ("on its way", False),
        ("never left", True),
    ],
)
def test_a_failure_is_definite_if_no_attempt_can_have_been_written(producer: Client, fate: str, definite: bool) -> None:
    sight = ConnectionSight(producer.core, "b1")
    producer.send("r0")
    if fate != "never left":
        sight.request(produce(1, "r0"))
    match fate:
        case "refused":
            sight.response(answer(1, ErrorCode.MESSAGE_TOO_LARGE))
        case "timed out":
            sight.response(answer(1, ErrorCode.REQUEST_TIMED_OUT))
        case "refused after the append":
            sight.response(answer(1, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        case "never answered":
            sight.ended("b1 has closed the connection")
    producer.hear("failed", record="r0", partition=-1, error="X", message=REFUSED_FOR_GOOD, micros=7)
    (failed,) = producer.told("RecordFailed")
    assert (failed.definite, failed.error, failed.why()) == (definite, "X", REFUSED_FOR_GOOD)


def test_an_answer_that_comes_late_finds_its_request_past_one_without_an_answer() -> None:
    producer = Client(JavaProducer, ProducerConfig(acks="0", enable_idempotence=False))
    sight = ConnectionSight(producer.core, "b1")
    producer.send("r0")
    sight.request(produce(1, "r0", acks=0))
    sight.request(encode_request(LIST_OFFSETS, 7, 2, "p1", request(LIST_OFFSETS, 7))[SIZE])
    sight.response(encode_response(LIST_OFFSETS, 7, 2, response(LIST_OFFSETS, 7))[SIZE])
    producer.hear("acked", record="r0", partition=0, offset=-1, micros=3)
    (handed,) = producer.told("RecordHandedOver")
    assert (handed.peer, handed.record) == ("b1", "r0") and not producer.told("RecordAcked")


def test_bytes_that_are_no_request_are_left_to_the_broker(producer: Client) -> None:
    sight = ConnectionSight(producer.core, "b1")
    producer.send("r0")
    good = produce(1, "r0")
    for cut in range(len(good)):
        sight.request(good[:cut])
        sight.response(good[:cut])
    assert producer.told("RecordSent") and not producer.told("BatchRefused")


def test_the_jvm_gets_the_settings_of_the_file_and_no_defaults() -> None:
    config = ProducerConfig(acks="1", enable_idempotence=False, retries=7)
    settings = producer_settings("p1", "b1:9092", config, [(None, b"r0 x")])
    assert (settings["acks"], settings["enable.idempotence"], settings["retries"]) == ("1", "false", "7")
    assert (settings["batch.size"], settings["linger.ms"]) == ("0", "0")
    assert (settings["client.id"], settings["bootstrap.servers"]) == ("p1", "b1:9092")
    reading = consumer_settings("c1r", "b1:9092", ConsumerConfig(auto_offset_reset="earliest"))
    assert (reading["auto.offset.reset"], reading["enable.auto.commit"]) == ("earliest", "false")
    most = producer_settings("p1", "b1:9092", ProducerConfig(max_block_ms=2**63 - 1), [(None, b"r0 x")])
    assert most["max.block.ms"] == str(2**31 - 1)


@pytest.mark.parametrize(("count", "size"), [(2, 1), (5, 100), (70, 100), (3, 100_000)])
def test_a_batch_is_full_with_its_records(count: int, size: int) -> None:
    value = b"x" * size
    written = build_batch([(b"k", value)] * count, timestamp_ms=5)
    assert batch_bytes([(b"k", value)] * count) == len(written)
    settings = producer_settings("p1", "b1:9092", ProducerConfig(), [(b"k", value)] * count)
    assert settings["batch.size"] == str(len(written))
    assert int(settings["linger.ms"]) + int(settings["request.timeout.ms"]) <= int(settings["delivery.timeout.ms"])


@pytest.fixture
def consumer() -> Client:
    return Client(JavaConsumer, ConsumerConfig(auto_offset_reset="earliest"))


def list_offsets(sight: ConnectionSight, error: ErrorCode) -> None:
    asked = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    told = [{"name": "t", "partitions": [{"partition_index": 0, "error_code": error, "offset": -1}]}]
    sight.request(encode_request(LIST_OFFSETS, 7, 3, "p1", request(LIST_OFFSETS, 7, topics=asked))[SIZE])
    sight.response(encode_response(LIST_OFFSETS, 7, 3, response(LIST_OFFSETS, 7, topics=told))[SIZE])


def test_a_consumer_reads_and_says_where_its_position_moves(consumer: Client) -> None:
    consumer.hear("reset", partition=0, offset=0, previous_offset=-1)
    consumer.hear("read", partition=0, offset=0, record="r0", leader_epoch=2)
    consumer.hear("fetch_failed", partition=0, offset=1, error="OFFSET_OUT_OF_RANGE")
    consumer.hear("reset", partition=0, offset=9, previous_offset=1)
    consumer.hear("fetch_failed", partition=0, offset=9, error="FENCED_LEADER_EPOCH")
    consumer.hear("reset", partition=0, offset=7, previous_offset=9)
    consumer.core.seek(T0, 3, 0)
    consumer.hear("reset", partition=0, offset=3, previous_offset=7)
    began, lost, cut, sought = consumer.told("PositionReset")
    assert (began.previous_offset, began.offset, began.error) == (-1, 0, None)
    assert (began.cause, began.policy) == (ResetCause.NO_POSITION, "earliest")
    assert (lost.offset, lost.error) == (9, "OFFSET_OUT_OF_RANGE")
    assert (cut.offset, cut.error) == (7, "LOG_TRUNCATION")
    assert (sought.error, sought.cause, sought.policy) == (None, ResetCause.SEEK, None)
    assert consumer.orders[-1] == {"do": "seek", "client": "p1", "topic": "t", "partition": 0, "to": "3"}
    (read,) = consumer.told("RecordRead")
    assert (read.offset, read.record, read.leader_epoch) == (0, "r0", 2)
    assert consumer.told("FetchFailed")[0].offset == 1
    assert all(row.causes == () for row in consumer.rows), "none of these leads to the next"


def test_the_first_refusal_answers_a_question_for_the_end(consumer: Client) -> None:
    sight = ConnectionSight(consumer.core, "b3")
    list_offsets(sight, ErrorCode.OFFSET_NOT_AVAILABLE)
    assert not consumer.told("EndOffsetSeen"), "it was not the application that asked"
    consumer.core.ask_end_offset(T0, 0)
    list_offsets(sight, ErrorCode.OFFSET_NOT_AVAILABLE)
    list_offsets(sight, ErrorCode.NONE)
    consumer.hear("end_offset", partition=0, offset=4, error=None)
    (seen,) = consumer.told("EndOffsetSeen")
    assert (seen.peer, seen.offset, seen.error) == ("b3", -1, "OFFSET_NOT_AVAILABLE")
    consumer.core.ask_end_offset(T0, 0)
    consumer.hear("end_offset", partition=0, offset=4, error=None)
    assert consumer.told("EndOffsetSeen")[1].offset == 4


def fetch_failed(sight: ConnectionSight, topic_id: UUID, error: ErrorCode) -> None:
    sight.request(encode_request(FETCH, 13, 4, "p1", request(FETCH, 13))[SIZE])
    part = {"partition_index": 0, "error_code": error, "high_watermark": -1, "records": b""}
    told = [{"topic_id": topic_id, "partitions": [part]}]
    sight.response(encode_response(FETCH, 13, 4, response(FETCH, 13, responses=told))[SIZE])


def test_answers_name_the_topics_of_a_consumer_by_the_ids_of_its_metadata() -> None:
    consumer = Client(JavaConsumer, ConsumerConfig(auto_offset_reset="earliest"), ("t", "u"))
    assert consumer.orders[0]["topics"] == ["t", "u"]
    sight, other = ConnectionSight(consumer.core, "b1"), ConnectionSight(consumer.core, "b2")
    fetch_failed(other, TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not consumer.told("FetchFailed"), "it can be of either"
    topics = [{"name": "u", "topic_id": TOPIC_ID, "partitions": []}]
    sight.request(encode_request(METADATA, 12, 5, "p1", request(METADATA, 12))[SIZE])
    sight.response(encode_response(METADATA, 12, 5, response(METADATA, 12, brokers=[], topics=topics))[SIZE])
    fetch_failed(other, TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    consumer.hear("read", topic="u", partition=0, offset=0, record="r0", leader_epoch=2)
    (failed,), (read,) = consumer.told("FetchFailed"), consumer.told("RecordRead")
    assert (failed.topic, failed.peer) == (read.topic, read.peer) == ("u", "b2")
