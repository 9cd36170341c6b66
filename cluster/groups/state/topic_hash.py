"""The hash of a group's topics, which changes when a topic's id, partitions or racks change.

Kafka stores the hash with the group epoch since 4.1 (KIP-1101); until 4.0 it stored the topics themselves.
Source: Utils.computeTopicHash, computeGroupHash
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from uuid import UUID

from cluster.protocol.primitives import INT32, INT64

MAGIC = b"\0"
"""The version of the hash's input format."""
NO_TOPICS = 0
HASHES_MAX = 1024
Racks = tuple[tuple[str, ...], ...]
"""The racks of each partition's replicas, in ascending order, without brokers that have no rack."""


@lru_cache(maxsize=HASHES_MAX)
def topic_hash(name: str, topic_id: UUID, racks: Racks) -> int:
    """Return the unsigned hash of a topic. In its input, numbers are little-endian and texts are UTF-16."""
    id_bytes = topic_id.bytes[7::-1] + topic_id.bytes[:7:-1]
    parts = [MAGIC, id_bytes, _text(name), _number(len(racks))]
    for partition, of_partition in enumerate(racks):
        parts.append(_number(partition))
        for rack in of_partition:
            parts += [_number(_units(rack)), _text(rack)]
    return xxh3_64(b"".join(parts))


@lru_cache(maxsize=HASHES_MAX)
def _hash_of(hashes: tuple[int, ...]) -> int:
    unsigned = xxh3_64(b"".join(item.to_bytes(8, "little") for item in hashes))
    return int(INT64.unpack(unsigned.to_bytes(8, "big"))[0])


def group_hash(topics: Iterable[int]) -> int:
    """Return the signed hash of a group's topics, as Kafka stores it; 0 without topics.

    Args:
        topics: hashes of the existing topics, in the order of topic names.
    """
    hashes = tuple(topics)
    return _hash_of(hashes) if hashes else NO_TOPICS


def _text(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + _number(_units(text))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _number(number: int) -> bytes:
    return INT32.pack(number)[::-1]


# ----------------------------------------------------------------------------------------------------------------- XXH3
#
# XXH3 with 64 bits and seed 0, by which Kafka 4.1 detects changes of a group's topics (KIP-1101).
#
# Python is fast enough: the input is a few hundred bytes that rarely change.
# source: xxhash.h (XXH3_64bits), hash4j's Hashing.xxh3_64


_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_WORD, _TWO_WORDS, _STRIPE, _SHORT = Struct("<Q"), Struct("<2Q"), Struct("<8Q"), Struct("<I")
_MASK, _MASK_32 = 2**64 - 1, 2**32 - 1
_PRIMES_32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIMES_64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_STRIPE_BYTES, _STRIPES_OF_BLOCK = 64, 16


def xxh3_64(data: bytes) -> int:
    """Return the 64-bit XXH3 hash of `data`, which has at least 4 bytes, as an unsigned integer."""
    size = len(data)
    if size <= 8:
        return _up_to_8(data)
    if size <= 16:
        return _up_to_16(data)
    return _up_to_240(data) if size <= 240 else _long(data)


def _up_to_8(data: bytes) -> int:
    size = len(data)
    words = _SHORT.unpack_from(data, size - 4)[0] + (_SHORT.unpack_from(data, 0)[0] << 32)
    mixed: int = words ^ _secret(8) ^ _secret(16)
    mixed ^= _rotated(mixed, 49) ^ _rotated(mixed, 24)
    mixed = mixed * 0x9FB21C651E98DF25 & _MASK
    mixed ^= (mixed >> 35) + size
    mixed = mixed * 0x9FB21C651E98DF25 & _MASK
    return mixed ^ mixed >> 28


def _up_to_16(data: bytes) -> int:
    size = len(data)
    low = _WORD.unpack_from(data, 0)[0] ^ _secret(24) ^ _secret(32)
    high = _WORD.unpack_from(data, size - 8)[0] ^ _secret(40) ^ _secret(48)
    return _avalanche(size + int.from_bytes(low.to_bytes(8, "little"), "big") + high + _folded(low, high))


def _up_to_240(data: bytes) -> int:
    size = len(data)
    total = size * _PRIMES_64[0]
    if size <= 128:
        for pair in range((size - 1) // 32 + 1):
            total += _mix(data, 16 * pair, 32 * pair) + _mix(data, size - 16 * (pair + 1), 32 * pair + 16)
        return _avalanche(total)
    total = _avalanche(total + sum(_mix(data, 16 * number, 16 * number) for number in range(8)))
    total += sum(_mix(data, 16 * number, 16 * (number - 8) + 3) for number in range(8, size // 16))
    return _avalanche(total + _mix(data, size - 16, 119))


def _long(data: bytes) -> int:
    lanes = [_PRIMES_32[2], *_PRIMES_64[:4], _PRIMES_32[1], _PRIMES_64[4], _PRIMES_32[0]]
    stripes = (len(data) - 1) // _STRIPE_BYTES
    for number in range(stripes):
        in_block = number % _STRIPES_OF_BLOCK
        _accumulate(lanes, data, _STRIPE_BYTES * number, 8 * in_block)
        if in_block == _STRIPES_OF_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, len(data) - _STRIPE_BYTES, 121)
    total = len(data) * _PRIMES_64[0]
    for pair in range(0, 8, 2):
        first, second = _TWO_WORDS.unpack_from(_SECRET, 11 + 8 * pair)
        total += _folded(lanes[pair] ^ first, lanes[pair + 1] ^ second)
    return _avalanche(total)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    keys = _STRIPE.unpack_from(_SECRET, secret_at)
    for lane, (word, key) in enumerate(zip(_STRIPE.unpack_from(data, at), keys, strict=True)):
        keyed = word ^ key
        lanes[lane ^ 1] = lanes[lane ^ 1] + word & _MASK
        lanes[lane] = lanes[lane] + (keyed & _MASK_32) * (keyed >> 32) & _MASK


def _scramble(lanes: list[int]) -> None:
    for lane, key in enumerate(_STRIPE.unpack_from(_SECRET, 128)):
        lanes[lane] = (lanes[lane] ^ lanes[lane] >> 47 ^ key) * _PRIMES_32[0] & _MASK


def _mix(data: bytes, at: int, secret_at: int) -> int:
    low, high = _TWO_WORDS.unpack_from(data, at)
    first, second = _TWO_WORDS.unpack_from(_SECRET, secret_at)
    return _folded(low ^ first, high ^ second)


def _folded(item: int, other: int) -> int:
    product = item * other
    return product & _MASK ^ product >> 64


def _avalanche(value: int) -> int:
    value &= _MASK
    value = (value ^ value >> 37) * 0x165667919E3779F9 & _MASK
    return value ^ value >> 32


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _secret(at: int) -> int:
    return int(_WORD.unpack_from(_SECRET, at)[0])
