"""Requests whose header is right and whose body is not: they are parsed, as far as there is something to parse.

The bodies are real ones, with names, ids and numbers that mean something to the cluster, and then changed. Everything
follows from one seed and from how often a frame was asked for.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hostile_frames import HostileFrames
from wire_oracles import kio_body, kio_header
from wire_strategies import LIES

from cluster.protocol.cold import make, request_class
from cluster.protocol.versions import UNREGISTER_BROKER

POOL = 400
STRANGER = 1000
"""No broker has this id or a greater one. To unregister those that there are is obeyed in Kafka, too: it would say
nothing about frames, and a million of them would leave no broker."""
CHOICES = [1, 2, 3, 3, 4, 8, 32]
"""Kinds of patterns, operations and resources, levels of features: what an enumeration of Kafka's API may hold."""
ITERATIONS = 4096
"""The least that a password of SCRAM may have."""
NULLS = [b"\xff", b"\xff\xff", b"\xff\xff\xff\xff", b"\x00"]
HUGE = [b"\x7f\xff\xff\xff", b"\x00\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\x03", *LIES]


class MutatedBodies:
    """apis: (key, version) that the node advertises     names: strings of requests, such as topics that there are"""

    def __init__(self, seed: int, apis: Sequence[tuple[int, int]], names: Sequence[str]) -> None:
        self.rng = random.Random(seed)
        self._apis = list(apis)
        self._values = _PlausibleValues(self.rng, names)
        self._bodies: dict[tuple[int, int], list[bytes]] = {}
        self._pool: list[bytes] = [b"\x00" * 8]

    @property
    def keys(self) -> set[int]:
        return {key for key, _ in self._apis}

    def frame(self) -> bytes:
        """The next one, without its size prefix. Each API gets as many, regardless of its number of versions."""
        key = self.rng.choice(sorted(self.keys))
        version = self.rng.choice([version for other, version in self._apis if other == key])
        body = bytearray(self._body(key, version))
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3))):
            body = self._mutated(body)
        if key == UNREGISTER_BROKER and int.from_bytes(body[:4], "big") < STRANGER:
            body[:4] = STRANGER.to_bytes(4, "big")
        return kio_header(key, version, self.rng.getrandbits(31), "hostile") + bytes(body)

    def _body(self, key: int, version: int) -> bytes:
        """Encoding costs more than changing: each body is used a few times."""
        bodies = self._bodies.setdefault((key, version), [])
        if len(bodies) < 8 or self.rng.random() < 0.2:
            cls = request_class(key, version)
            body = kio_body(make(cls, **self._values.of_request(key, cls)))
            bodies.append(body)
            self._pool.append(body)
            del bodies[:-8], self._pool[:-POOL]
        return self.rng.choice(bodies)

    def _mutated(self, body: bytearray) -> bytearray:
        rng = self.rng
        at, end = sorted((rng.randrange(len(body) + 1), rng.randrange(len(body) + 1)))
        match rng.randrange(9):
            case 0 if body:
                body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
            case 1:
                del body[at:]
            case 2:
                body += rng.randbytes(rng.randint(1, 40))
            case 3:
                other = rng.choice(self._pool)
                body[at:] = other[rng.randrange(len(other) + 1) :]
            case 4:
                null = rng.choice(NULLS)
                body[at : at + len(null)] = null
            case 5:
                huge = rng.choice(HUGE)
                body[at : at + len(huge)] = huge
            case 6:  # The same topics, partitions or members once more.
                body[at:at] = body[at:end] * rng.choice((1, 1, 2, 50))
            case 7:
                del body[at : at + rng.randint(1, 4)]
            case _:
                body[at:at] = rng.choice(HUGE)
        return body


class _PlausibleValues(HostileFrames):
    def __init__(self, rng: random.Random, names: Sequence[str]) -> None:
        super().__init__(0)
        self.rng = rng
        self._names = names

    def of_request(self, key: int, cls: type) -> dict[str, Any]:
        fields = self._fields(cls)
        if key == UNREGISTER_BROKER:
            fields["broker_id"] = STRANGER + self.rng.randrange(5)
        if cls.__name__ == "AlterUserScramCredentialsRequest":
            for upsertion in fields["upsertions"]:
                upsertion["iterations"] = self.rng.choice((upsertion["iterations"], ITERATIONS))
        return fields

    def _one(self, shape: Any) -> Any:
        if shape.kafka_type == "string" and self.rng.random() < 0.8:
            return self.rng.choice(self._names)
        if shape.kafka_type in ("int8", "int16") and self.rng.random() < 0.6:
            return self.rng.choice(CHOICES)
        return super()._one(shape)
