"""What a group knows of its topics, as one number: another number is a change that all members have to hear of.

Kafka 4.1 keeps it with the group's epoch (KIP-1101); until 4.0 it kept the topics themselves.
source: Utils.computeTopicHash, computeGroupHash
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from uuid import UUID

from cluster.groups.state.xxh3 import xxh3_64
from cluster.protocol.primitives import INT32, INT64

MAGIC = b"\0"
"""Of this way to hash."""
NO_TOPICS = 0
HASHES_MAX = 1024
Racks = tuple[tuple[str, ...], ...]
"""By partition, the racks of its replicas in ascending order; of brokers that have one."""


@lru_cache(maxsize=HASHES_MAX)
def topic_hash(name: str, topic_id: UUID, racks: Racks) -> int:
    """Unsigned. The numbers go in with their lowest byte first, texts in UTF-16."""
    id_bytes = topic_id.bytes[7::-1] + topic_id.bytes[:7:-1]
    parts = [MAGIC, id_bytes, _text(name), _number(len(racks))]
    for partition, of_partition in enumerate(racks):
        parts.append(_number(partition))
        for rack in of_partition:
            parts += [_number(_units(rack)), _text(rack)]
    return xxh3_64(b"".join(parts))


@lru_cache(maxsize=HASHES_MAX)
def _hash_of(hashes: tuple[int, ...]) -> int:
    unsigned = xxh3_64(b"".join(one.to_bytes(8, "little") for one in hashes))
    return int(INT64.unpack(unsigned.to_bytes(8, "big"))[0])


def group_hash(topics: Iterable[int]) -> int:
    """Signed, as it is written. topics: of each that exists, in the order of their names"""
    hashes = tuple(topics)
    return _hash_of(hashes) if hashes else NO_TOPICS


def _text(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + _number(_units(text))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _number(number: int) -> bytes:
    return INT32.pack(number)[::-1]
