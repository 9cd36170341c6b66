"""A client that sends exactly the bytes that a test gives it, over its own socket."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Self

from cluster.protocol.api_00_produce import (
    ProducePartitionResponse,
    ProduceRequest,
    decode_produce_response,
    encode_produce_request,
)
from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.versions import INIT_PRODUCER_ID
from replica.log.batches.records import build_batch

PATIENCE_S = 30
PRODUCE_VERSION, INIT_PRODUCER_ID_VERSION = 9, 4


class RawClient:
    """client_id: None for a client without one"""

    def __init__(self, address: tuple[str, int], client_id: str | None = "raw") -> None:
        self._sock = socket.create_connection(address, PATIENCE_S)
        self._client_id = client_id
        self._asked = 0

    @classmethod
    def at(cls, bootstrap: str, place: int = 0, client_id: str | None = "raw") -> Self:
        host, port = bootstrap.split(",")[place].split(":")
        return cls((host, int(port)), client_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sock.close()

    def _answer(self) -> bytes:
        (size,) = struct.unpack(">i", self._received(4))
        return self._received(size)

    def _received(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self._sock.recv(count - len(data))
            assert chunk, "the broker has closed it"
            data += chunk
        return data

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        self._asked += 1
        asked = request(api_key, version, **fields)
        self._sock.sendall(encode_request(api_key, version, self._asked, self._client_id, asked))
        return decode_response(api_key, version, self._answer())

    def producer_id(self) -> tuple[int, int]:
        """(producer id, epoch)"""
        answer = self.ask(
            INIT_PRODUCER_ID,
            INIT_PRODUCER_ID_VERSION,
            transactional_id=None,
            transaction_timeout=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        return answer.producer_id, answer.producer_epoch

    def send(self, topic: str, batches: dict[int, bytes | bytearray], *, acks: int = -1) -> None:
        self._asked += 1
        wanted = ProduceRequest(None, acks, 30_000, [(topic, list(batches.items()))])
        self._sock.sendall(encode_produce_request(PRODUCE_VERSION, self._asked, self._client_id, wanted))

    def answered(self) -> list[ProducePartitionResponse]:
        """By partition; of one topic."""
        answer = decode_produce_response(PRODUCE_VERSION, memoryview(self._answer()))
        ((_, partitions),) = answer.topics
        return list(partitions)

    def produce(self, topic: str, batches: dict[int, bytes | bytearray], *, acks: int = -1) -> list[tuple[int, str]]:
        """(base offset, error) by partition"""
        self.send(topic, batches, acks=acks)
        return [(one.base_offset, one.error.name) for one in self.answered()]


def sequenced(producer: tuple[int, int], sequence: int, *values: str) -> bytearray:
    """One batch of an idempotent producer."""
    return build_batch(
        [(None, value.encode()) for value in values],
        timestamp_ms=5,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
    )
