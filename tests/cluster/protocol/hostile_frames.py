"""Frames that no honest client sends: real requests with something wrong in them, and bytes that never were a request.

Real ones are made by kio, for every API and version we speak, of values that are likely to mean something. Everything
follows from one seed, so a frame that did harm can be made again.
"""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from wire_oracles import kio_body, kio_header
from wire_strategies import LIES

from cluster.protocol.cold import make, request_class
from cluster.protocol.entities import Shape, shapes
from cluster.protocol.versions import CONTROL_PLANE, VERSIONS
from replica.errors import ErrorCode
from replica.log.batches.records import build_batch

TEXTS = [
    *("t", "g", "", "t" * 249, "x" * 300, "__consumer_offsets", "ü"),
    *("../../etc/passwd", "\x1b[2J\x1b]0;x\x07", "%s%n{0}", "<b>"),
]
NUMBERS = [0, 1, -1, 2, 7, 100, 1000, -2, 127, 32767, 2**31 - 1, -(2**31), 2**40]
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16}
BATCH = bytes(build_batch([(None, b"value"), (b"key", None)], timestamp_ms=0))
APIS = [(key, version) for key, (low, high) in sorted(VERSIONS.items()) if key not in CONTROL_PLANE
        for version in range(low, high + 1)]  # fmt: skip


class HostileFrames:
    """topic_ids: of topics that there are"""

    def __init__(self, seed: int, topic_ids: list[UUID] | None = None) -> None:
        self.rng = random.Random(seed)
        self._topic_ids = topic_ids or [UUID(int=1)]
        self._pool: list[bytes] = []

    def frame(self) -> bytes:
        """The next one, without its size prefix: a third each real, damaged, and raw."""
        match self.rng.randrange(6):
            case 0 | 1:
                return self.real()
            case 2 | 3 | 4:
                return self.damaged()
            case _:
                return self.raw()

    # ---------------------------------------------------------------------------------------------------------- real

    def real(self) -> bytes:
        """A request as a client could send it, of any API and version."""
        key, version = self.rng.choice(APIS)
        cls = request_class(key, version)
        client_id = self.rng.choice([None, "hostile", *TEXTS])
        frame = kio_header(key, version, self.rng.getrandbits(31), client_id) + kio_body(make(cls, **self._fields(cls)))
        if len(self._pool) < 2000:
            self._pool.append(frame)
        else:
            self._pool[self.rng.randrange(2000)] = frame
        return frame

    def _fields(self, entity_type: type) -> dict[str, Any]:
        return {name: self._value(shape) for name, shape in shapes(entity_type).items()}

    def _value(self, shape: Shape) -> Any:
        if shape.is_nullable and shape.tag is None and self.rng.random() < 0.2:
            return None
        if shape.is_array:
            return [self._one(shape) for _ in range(self.rng.choice((0, 1, 1, 2)))]
        return self._one(shape)

    def _one(self, shape: Shape) -> Any:
        rng = self.rng
        if shape.entity is not None:
            return self._fields(shape.entity)
        kafka_type = shape.kafka_type
        if kafka_type in BITS:
            bits = BITS[kafka_type]
            value = rng.choice(NUMBERS) & ((1 << bits) - 1)
            return value if kafka_type == "uint16" or value < 1 << (bits - 1) else value - (1 << bits)
        match kafka_type:
            case "bool":
                return rng.random() < 0.5
            case "string":
                return rng.choice(TEXTS)
            case "records" | "bytes":
                return rng.choice([b"", BATCH, BATCH[:40], self._flipped(BATCH), BATCH + BATCH, rng.randbytes(80)])
            case "uuid":
                return rng.choice([*self._topic_ids, UUID(int=rng.getrandbits(128))])
            case "error_code":
                return rng.choice(list(ErrorCode))
            case "timedelta_i32" | "timedelta_i64":
                return rng.choice([0, 1, -1, 100, 30_000, 2**31 - 1, -(2**31)])
            case "float64":
                return rng.choice([0.0, -1.5, 1e308, float("inf"), float("nan")])
        raise AssertionError(kafka_type)

    # ------------------------------------------------------------------------------------------------------- damaged

    def damaged(self) -> bytes:
        """A real one with one to four cuts, insertions, lies about lengths, flipped bits, or the tail of another."""
        rng = self.rng
        if len(self._pool) < 50 or rng.random() < 0.05:
            self.real()
        data = bytearray(rng.choice(self._pool))
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(data) + 1)
            match rng.randrange(8):
                case 0:
                    del data[at:]
                case 1:
                    del data[at : at + rng.randint(1, 8)]
                case 2:
                    data[at:at] = rng.choice(LIES)
                case 3:
                    lie = rng.choice(LIES)
                    data[at : at + len(lie)] = lie
                case 4:
                    data = bytearray(self._flipped(bytes(data)))
                case 5:
                    data[at:] = rng.choice(self._pool)[at:]
                case 6:
                    data[2:4] = rng.choice(((0).to_bytes(2, "big"), (99).to_bytes(2, "big"), b"\xff\xff", b"\x00\x0c"))
                case 7:
                    data += rng.randbytes(rng.randint(1, 20))
        return bytes(data)

    def _flipped(self, data: bytes) -> bytes:
        if not data:
            return data
        flipped = bytearray(data)
        flipped[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
        return bytes(flipped)

    # ----------------------------------------------------------------------------------------------------------- raw

    def raw(self) -> bytes:
        """Noise, perhaps behind the header of a real API."""
        noise = self.rng.randbytes(self.rng.choice((0, 1, 3, 7, 8, 9, 40, 400)))
        if self.rng.random() < 0.5:
            return noise
        key, version = self.rng.choice(APIS)
        return key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + noise
