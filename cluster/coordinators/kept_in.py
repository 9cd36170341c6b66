"""Which partition of its topic keeps a group or a transactional id."""

from __future__ import annotations

_SIGN_BIT, _WORD = 1 << 31, 1 << 32


def java_hash(text: str) -> int:
    """String.hashCode of Java: a signed 32-bit number over UTF-16 units."""
    data = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for position in range(0, len(data), 2):
        result = (31 * result + (data[position] << 8 | data[position + 1])) % _WORD
    return result - _WORD if result & _SIGN_BIT else result


def partition_of(key: str, partitions: int) -> int:
    """source: GroupMetadataManager.partitionFor, TransactionStateManager.partitionFor, Utils.abs (of the smallest
    integer: 0)"""
    number = java_hash(key)
    return 0 if number == -_SIGN_BIT else abs(number) % partitions
