"""One client's connection to one broker, which is answered by hand, as far as versions matter."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from fake_cluster import NAMES
from segments import joined

from cluster.client.api_versions import Allowed
from cluster.client.connections import ClientConnections
from cluster.client.metadata_cache import ClientMetadata
from cluster.client.node import ClientBase
from cluster.config import ProducerConfig
from cluster.node import Close, Connect, Outbox, Send
from cluster.protocol.cold import decode_request, encode_response, response
from cluster.protocol.versions import API_VERSIONS, METADATA, api_key, api_name, read_request_header
from replica.errors import ErrorCode
from replica.trace.events import TraceLog

BROKER = 1


class ConnectionWorld:
    """Its verbs are those of the transcripts. Times count from the start."""

    def __init__(self) -> None:
        self.now_us = 0
        self._lines: list[str] = []
        self._outbox: Outbox
        self._connections: ClientConnections
        self._connection = 0
        self._sent: list[tuple[int, int, int]] = []

    def client(self, discovers: str = "yes") -> list[str]:
        """A new one, at time 0. It knows the broker; its metadata is fresh."""
        self.now_us = 0
        self._sent.clear()
        rng = random.Random(1)
        config = ProducerConfig()
        metadata = ClientMetadata(
            [("b1", 9092)], max_age_ms=900_000, retry_backoff_ms=900_000, retry_backoff_max_ms=900_000, rng=rng
        )
        self._outbox = Outbox()
        self._connections = ClientConnections(
            ClientBase(
                name="p1",
                bootstrap=[("b1", 9092)],
                recorder=TraceLog(),
                rng=rng,
                names=NAMES,
                discovers_versions=discovers == "yes",
                outbox=self._outbox,
            ),
            config,
            metadata,
            max_in_flight=5,
        )
        brokers = [{"node_id": BROKER, "host": "b1", "port": 9092}]
        metadata.update(response(METADATA, 12, brokers=brokers, topics=[]), 0)
        return self._take()

    def at(self, at_us: int) -> list[str]:
        self.now_us = at_us
        self._outbox.timers.run_due(at_us)
        return self._take()

    def wants(self) -> list[str]:
        """A request is to be sent."""
        is_ready = self._connections.ready(BROKER, self.now_us)
        return [*self._take(), "ready" if is_ready else "not ready"]

    def asks(self, api: str, oldest: int = -1, latest: int = -1) -> list[str]:
        """With the newest version that both ends know, in a range if one is given."""
        allowed = None if latest < 0 else Allowed(oldest, latest)
        self._connections.ask(BROKER, api_key(api), {}, self._answered(api), self.now_us, allowed=allowed)
        return self._take()

    def _answered(self, api: str) -> Any:
        def answered(answer: Any, error: ErrorCode, now_us: int) -> None:
            self._lines.append(f"{api}: {'no answer, ' if answer is None else ''}{error.name}")

        return answered

    # --------------------------------------------------------------------------------------------------------- broker

    def accepts(self) -> list[str]:
        self._connections.connected(self._connection, self.now_us)
        return self._take()

    def offers(self, *ranges: str, epoch: int = -1, level: int = 0, throttle: int = 0) -> list[str]:
        """Produce:3-9     level: of transaction.version, of the metadata at `epoch`     throttle: microseconds"""
        features = {
            "finalized_features_epoch": epoch,
            "finalized_features": [
                {"name": "transaction.version", "min_version_level": level, "max_version_level": level}
            ]
            if level
            else [],
        }
        return self._answer(self._sent[0][2], ErrorCode.NONE, ranges, throttle_time=throttle // 1000, **features)

    def refuses(self, error: str, *ranges: str) -> list[str]:
        """An error is answered in version 0 where the asked one is not known."""
        code = ErrorCode[error]
        version = 0 if code is ErrorCode.UNSUPPORTED_VERSION else self._sent[0][2]
        return self._answer(version, code, ranges)

    def _answer(self, version: int, error: ErrorCode, ranges: Sequence[str], **fields: object) -> list[str]:
        correlation_id, key, _ = self._sent.pop(0)
        assert key == API_VERSIONS, f"{api_name(key)} waits for an answer"
        keys: list[Mapping[str, int]] = []
        for one in ranges:
            name, _, numbers = one.partition(":")
            low, _, high = numbers.partition("-")
            keys.append({"api_key": api_key(name), "min_version": int(low), "max_version": int(high)})
        entity = response(API_VERSIONS, version, error_code=error, api_keys=keys, **fields)
        frame = encode_response(API_VERSIONS, version, correlation_id, entity)
        self._connections.received(self._connection, bytearray(frame[4:]), self.now_us)
        return self._take()

    def babbles(self) -> list[str]:
        correlation_id, _, _ = self._sent.pop(0)
        self._connections.received(
            self._connection, bytearray(correlation_id.to_bytes(4, "big") + b"\x7f"), self.now_us
        )
        return self._take()

    def breaks(self) -> list[str]:
        self._sent.clear()
        self._connections.disconnected(self._connection, "connection reset by peer", self.now_us)
        return self._take()

    # ----------------------------------------------------------------------------------------------------- what it says

    def show(self) -> list[str]:
        versions, now_us = self._connections.versions, self.now_us
        retry_us = self._connections.retry_at_us(BROKER, now_us)
        level = versions.features.get("transaction.version", 0)
        return [
            "silent until an event" if retry_us is None else f"may try at {retry_us / 1_000_000:g} s",
            f"transaction.version {level} of epoch {versions.features_epoch}",
        ]

    def _take(self) -> list[str]:
        for action in self._outbox.take():
            if isinstance(action, Connect):
                self._connection = action.connection
                self._lines.append("-> connects")
            elif isinstance(action, Close):
                self._sent.clear()
                self._lines.append("-> closes")
            elif isinstance(action, Send):
                self._lines.append(f"-> {self._said(bytearray(joined(action.segments)[4:]))}")
        lines, self._lines = self._lines, []
        return lines

    def _said(self, frame: bytearray) -> str:
        header = read_request_header(frame)
        self._sent.append((header.correlation_id, header.api_key, header.api_version))
        said = f"{api_name(header.api_key)} {header.api_version}"
        if header.api_key == API_VERSIONS and header.api_version >= 3:
            asked = decode_request(header, frame)
            said += f" of {asked.client_software_name} {asked.client_software_version}"  # type: ignore[attr-defined]
        return said
