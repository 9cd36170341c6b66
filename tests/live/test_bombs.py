"""Batches that no client should send, over TCP: each is answered, and an honest pair beside notices nothing.

Counted, not timed: while one request is looked into, others are answered.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from crc32c import crc32c
from kafka import KafkaConsumer
from kafka import TopicPartition as Partition
from serving import Served, serving

from cluster.protocol.api_00_produce import (
    ProducePartitionResponse,
    ProduceRequest,
    decode_produce_response,
    encode_produce_request,
)
from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.versions import LIST_OFFSETS
from replica.errors import ErrorCode
from replica.log.batches.codecs import CODECS
from replica.log.batches.records import build_batch
from replica.log.batches.validation import INSIDE_RECORDS_MAX
from tests.soak import one_in

PATIENCE_S = 60
MIB = 1 << 20
BOMBED_PARTITIONS = 10
TIMES = [[1_000, 4_000, 2_000], [3_000, 9_000, 9_000, 5_000], [6_000]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    words = [word for topic in ("honest", "t", *CODECS) for word in ("--topic", f"{topic}:1:1")]
    words += ["--topic", f"bombed:{BOMBED_PARTITIONS}:1"]
    with serving(tmp_path_factory.mktemp("hostile"), *words, brokers=1) as cluster:
        yield cluster


class Raw:
    """A connection that sends the given bytes."""

    def __init__(self, served: Served, name: str) -> None:
        host, port = served.bootstrap.split(",")[0].split(":")
        self.name = name
        self.sock = socket.create_connection((host, int(port)), PATIENCE_S)

    def sends(self, topic: str, batch: bytes, partition: int = 0) -> None:
        request = ProduceRequest(None, 1, 30_000, [(topic, [(partition, batch)])])
        self.sock.sendall(encode_produce_request(9, 1, self.name, request))

    @property
    def is_answered(self) -> bool:
        self.sock.setblocking(False)
        try:
            return bool(self.sock.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False
        finally:
            self.sock.settimeout(PATIENCE_S)

    def frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._received(4))
        return self._received(size)

    def answer(self) -> ProducePartitionResponse:
        return decode_produce_response(9, self.frame()).topics[0][1][0]

    def _received(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.sock.recv(count - len(data))
            assert chunk, "the broker has closed it"
            data += chunk
        return data


def of_many(count: int) -> bytes:
    return bytes(build_batch([(None, None)] * count, timestamp_ms=0, compression="zstd"))


@pytest.mark.soak
def test_a_batch_that_claims_2_to_the_31_records_moves_nothing(served: Served) -> None:
    client = Raw(served, "evil")
    batch = build_batch([(b"k", b"v")], timestamp_ms=0)
    batch[23:27], batch[57:61] = (2**31 - 2).to_bytes(4), (2**31 - 1).to_bytes(4)
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4)
    client.sends("t", bytes(batch))
    assert client.answer().error is ErrorCode.INVALID_RECORD
    reader = Consumer({"bootstrap.servers": served.bootstrap, "group.id": "g"})
    assert reader.get_watermark_offsets(TopicPartition("t", 0), timeout=PATIENCE_S) == (0, 0)
    reader.close()


@pytest.mark.soak
@pytest.mark.parametrize("codec", one_in(4, CODECS[1:]))
def test_a_bomb_is_refused(served: Served, codec: str) -> None:
    inside = bytes((20 if codec == "snappy" else 200) * MIB)  # what fits into a request
    evil = Raw(served, "evil")
    evil.sends("t", bytes(build_batch([(None, inside)], timestamp_ms=0, compression=codec)))
    assert evil.answer().error is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.soak
def test_the_honest_are_answered_while_bombs_are_looked_into(served: Served) -> None:
    """Hundreds of times beside one request (measured: 260 and more); where it is looked into in the loop that serves
    all, as often as they come before it (1 to 32)."""
    bomb = bytes(build_batch([(None, bytes(17 * MIB))], timestamp_ms=0, compression="gzip"))
    request = ProduceRequest(None, 1, 30_000, [("bombed", [(number, bomb) for number in range(BOMBED_PARTITIONS)])])
    evil, honest = Raw(served, "evil"), Raw(served, "honest")
    most = 0
    for _ in range(10):
        beside = 0
        evil.sock.sendall(encode_produce_request(9, 1, "evil", request))
        while not evil.is_answered:
            honest.sends("honest", bytes(build_batch([(None, b"h")], timestamp_ms=0)))
            assert honest.answer().error is ErrorCode.NONE
            beside += 1
        assert evil.answer().error is ErrorCode.MESSAGE_TOO_LARGE
        most = max(most, beside)
        if most > 100:
            break
    assert most > 100


@pytest.mark.soak
def test_the_honest_are_answered_while_times_are_looked_up_in_large_batches(served: Served) -> None:
    """Where they are looked up in the loop that serves all, an honest request or two come before it, none beside."""
    writer, evil, honest = (Raw(served, name) for name in ("writer", "evil", "honest"))
    many = of_many(INSIDE_RECORDS_MAX)
    for number in range(BOMBED_PARTITIONS):
        writer.sends("bombed", many, number)
        assert writer.answer().error is ErrorCode.NONE
    partitions = [
        {"partition_index": number, "current_leader_epoch": -1, "timestamp": 0} for number in range(BOMBED_PARTITIONS)
    ]
    topics = [{"name": "bombed", "partitions": partitions}]
    asked = request(LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=topics)
    evil.sock.sendall(encode_request(LIST_OFFSETS, 7, 1, "evil", asked))
    beside = 0
    while not evil.is_answered:
        honest.sends("honest", bytes(build_batch([(None, b"h")], timestamp_ms=0)))
        assert honest.answer().error is ErrorCode.NONE
        beside += 1
    (topic,) = decode_response(LIST_OFFSETS, 7, evil.frame()).topics
    assert [(int(one.error_code), int(one.offset), int(one.timestamp)) for one in topic.partitions] == [
        (ErrorCode.NONE, 0, 0)
    ] * BOMBED_PARTITIONS
    assert beside > 10


def test_one_connection_is_served_in_its_order_whatever_takes_long(served: Served) -> None:
    """A request that is looked into apart, and one behind it that is not: answered, and appended, in their order."""
    client = Raw(served, "orderly")
    many = of_many(6_000)
    client.sends("t", many)
    client.sends("t", bytes(build_batch([(None, b"last")], timestamp_ms=0)))
    first, last = client.answer(), client.answer()
    assert (first.error, last.error) == (ErrorCode.NONE, ErrorCode.NONE)
    assert last.base_offset == first.base_offset + 6_000


def test_too_many_records_inside_are_refused(served: Served) -> None:
    client = Raw(served, "evil")
    client.sends("t", of_many(INSIDE_RECORDS_MAX + 1))
    assert client.answer().error is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.soak
@pytest.mark.parametrize("codec", CODECS)
def test_two_libraries_find_times_in_what_a_third_has_compressed(served: Served, codec: str) -> None:
    """librdkafka sends; both ask where a time is, and get what they get over batches without a codec."""
    writer = Producer({"bootstrap.servers": served.bootstrap, "compression.type": codec, "linger.ms": 0})
    for times in TIMES:
        for at in times:
            writer.produce(codec, b"x" * 200, timestamp=at, partition=0)
        assert writer.flush(PATIENCE_S) == 0
    asked = [0, 1_001, 4_001, 9_000]
    reader = KafkaConsumer(bootstrap_servers=served.bootstrap)
    found = [reader.offsets_for_times({Partition(codec, 0): at})[Partition(codec, 0)] for at in asked]
    assert [(one.offset, one.timestamp) for one in found] == [(0, 1_000), (1, 4_000), (4, 9_000), (4, 9_000)]
    assert reader.offsets_for_times({Partition(codec, 0): 9_001}) == {Partition(codec, 0): None}
    reader.close()
    other = Consumer({"bootstrap.servers": served.bootstrap, "group.id": "g"})
    offsets = [other.offsets_for_times([TopicPartition(codec, 0, at)], timeout=PATIENCE_S)[0].offset for at in asked]
    other.close()
    assert offsets == [0, 1, 4, 4]
