"""The current leader of a partition and its address, in responses to Produce 10 and Fetch 12 and later (KIP-951).

    LeaderIdAndEpoch(leader_id=2, leader_epoch=5)          # with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH
    NodeEndpoint(node_id=2, host="b2", port=9092)          # where the leaders named in a response can be reached

Both structures are the same in Produce and Fetch; the codecs put them into tagged fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from cluster.protocol.primitives import (
    INT32,
    NO_TAGS,
    Frame,
    check_consumed,
    read_count,
    read_string,
    read_tagged,
    read_text,
    skip_tagged,
    string,
    tagged,
    uvarint,
)
from replica.ids import NO_BROKER, UNDEFINED_EPOCH, BrokerId, LeaderEpoch

NODE_ENDPOINTS_TAG = 0

_LEADER = Struct(">ii")


class LeaderIdAndEpoch(NamedTuple):
    """The current leader of a partition as the broker knows it; -1 and -1 if it knows none."""

    leader_id: BrokerId = NO_BROKER
    leader_epoch: LeaderEpoch = UNDEFINED_EPOCH

    def encoded(self) -> bytes:
        """Return the encoded structure, which ends with an empty tagged section."""
        return _LEADER.pack(self.leader_id, self.leader_epoch) + NO_TAGS


def leader_of(data: bytes) -> LeaderIdAndEpoch:
    """Decode a `LeaderIdAndEpoch`. The caller must be wrapped by primitives.decodes."""
    leader = LeaderIdAndEpoch(*_LEADER.unpack_from(data, 0))
    check_consumed(data, skip_tagged(data, _LEADER.size))
    return leader


class NodeEndpoint(NamedTuple):
    """The id and address of a broker."""

    node_id: BrokerId
    host: str
    port: int
    rack: str | None = None


def endpoints_section(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Return the tagged section at the end of a response that contains the addresses of leaders."""
    if not endpoints:
        return NO_TAGS
    parts = [uvarint(len(endpoints) + 1)]
    for node_id, host, port, rack in endpoints:
        parts += (INT32.pack(node_id), string(host, True), INT32.pack(port), string(rack, True), NO_TAGS)
    return tagged({NODE_ENDPOINTS_TAG: b"".join(parts)})


def read_endpoints(frame: Frame, position: int, *, is_known: bool) -> tuple[tuple[NodeEndpoint, ...], int]:
    """Decode the tagged section at the end of a response. Return the addresses in it, and the position after it.

    The caller must be wrapped by primitives.decodes.

    Args:
        is_known: True if this version of the response has addresses; otherwise all tagged fields are skipped.
    """
    if frame[position] == 0:  # The usual case.
        return (), position + 1
    tags, position = read_tagged(frame, position)
    if not is_known or NODE_ENDPOINTS_TAG not in tags:
        return (), position
    return _endpoints_of(tags[NODE_ENDPOINTS_TAG]), position


def _endpoints_of(data: bytes) -> tuple[NodeEndpoint, ...]:
    count, position = read_count(data, 0, True, 11)
    endpoints = []
    for _ in range(count):
        (node_id,) = INT32.unpack_from(data, position)
        host, position = read_text(data, position + 4, True)
        (port,) = INT32.unpack_from(data, position)
        rack, position = read_string(data, position + 4, True)
        position = skip_tagged(data, position)
        endpoints.append(NodeEndpoint(node_id, host, port, rack))
    check_consumed(data, position)
    return tuple(endpoints)
