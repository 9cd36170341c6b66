"""The versions that a client and its brokers both know: the first exchange on each connection, and what follows.

    exchange = VersionExchange()
    ...                                     # the request of exchange.version is sent, and answered
    found = exchange.answered(frame)        # None: ask again, at exchange.version
    found.usable(FETCH)                     # the highest version that both ends know; None: there is none

A client asks at its own newest version. A broker that does not know it answers UNSUPPORTED_VERSION in version 0, and
names the versions that it knows (KIP-511) or none; then the client asks at the newest of those, or at 0.
The levels of the cluster's features come with the answer; the newest that any broker has told count (KIP-584).

source: NodeApiVersions.java, ApiVersions.java, NetworkClient.handleApiVersionsResponse, ApiVersionsResponse.parse
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cluster.protocol.cold import decode_response, encode_request, milliseconds, request
from cluster.protocol.versions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from replica.errors import ErrorCode, PeerViolation

CLIENT_SOFTWARE_NAME: Final = "highwater"
CLIENT_SOFTWARE_VERSION: Final = "0.1.0"
"""KIP-511: a broker's operator sees which clients there are."""
NO_FEATURES_EPOCH: Final = -1
"""Before any broker has told levels."""
WITHOUT_DISCOVERY: Final = ("0.8", "0.10")
"""Releases whose clients ask for no versions: ApiVersions came with 0.10.0 (KIP-35), Java's clients ask since 0.10.2.

Simplified: those of 0.10 do not either. Brokers of these eras answer newer versions than they would offer.
"""


def discovers_versions(release: str) -> bool:
    """Whether clients of an era ask. source: NetworkClient's discoverBrokerVersions"""
    return release not in WITHOUT_DISCOVERY


class Allowed(NamedTuple):
    """The versions in which a request can be built, the oldest and the newest. source: AbstractRequest.Builder"""

    oldest: int
    latest: int


# Simplified: requests name topics, one coordinator and one group, and no reason; newer versions have ids and lists.
SPOKEN: Final[Mapping[int, Allowed]] = MappingProxyType(
    {
        PRODUCE: Allowed(3, 12),
        FETCH: Allowed(4, 12),
        LIST_OFFSETS: Allowed(1, 7),
        METADATA: Allowed(0, 12),
        OFFSET_COMMIT: Allowed(2, 9),
        OFFSET_FETCH: Allowed(1, 7),
        FIND_COORDINATOR: Allowed(0, 3),
        JOIN_GROUP: Allowed(2, 7),
        HEARTBEAT: Allowed(0, 4),
        LEAVE_GROUP: Allowed(0, 4),
        SYNC_GROUP: Allowed(0, 5),
        API_VERSIONS: Allowed(0, 4),
        INIT_PRODUCER_ID: Allowed(0, 5),
        # Older ones needed the permission of a broker. source: OffsetsForLeaderEpochRequest.Builder.forConsumer
        OFFSET_FOR_LEADER_EPOCH: Allowed(3, 4),
        # Newer ones are for brokers. source: AddPartitionsToTxnRequest.Builder.forClient
        ADD_PARTITIONS_TO_TXN: Allowed(0, 3),
        ADD_OFFSETS_TO_TXN: Allowed(0, 4),
        END_TXN: Allowed(0, 5),
        TXN_OFFSET_COMMIT: Allowed(0, 5),
        CONSUMER_GROUP_HEARTBEAT: Allowed(0, 1),
    }
)
"""What this client sends, by API key. The oldest versions are those of Kafka 4 (KIP-896)."""

_FIRST_THROTTLED: Final[Mapping[int, int]] = MappingProxyType(
    {
        PRODUCE: 6,
        FETCH: 8,
        LIST_OFFSETS: 3,
        METADATA: 6,
        OFFSET_COMMIT: 4,
        OFFSET_FETCH: 4,
        FIND_COORDINATOR: 2,
        JOIN_GROUP: 3,
        HEARTBEAT: 2,
        LEAVE_GROUP: 2,
        SYNC_GROUP: 2,
        API_VERSIONS: 2,
        INIT_PRODUCER_ID: 1,
        ADD_PARTITIONS_TO_TXN: 1,
        ADD_OFFSETS_TO_TXN: 1,
        END_TXN: 1,
        TXN_OFFSET_COMMIT: 1,
    }
)


def is_throttled_by(api_key: int, version: int) -> bool:
    """Whether the client keeps to the throttle time of such an answer (KIP-219). Others are for the broker alone.

    source: AbstractResponse.shouldClientThrottle
    """
    first = _FIRST_THROTTLED.get(api_key)
    return first is not None and version >= first


class NodeApiVersions:
    """What one broker offers. ranges: API key -> (lowest, highest version)     features: name -> level

    features_epoch: offset of the metadata that the levels are of, -1 for none
    """

    def __init__(
        self,
        ranges: Mapping[int, tuple[int, int]],
        features: Mapping[str, int] | None = None,
        features_epoch: int = NO_FEATURES_EPOCH,
    ) -> None:
        self._ranges = ranges
        self.features: Mapping[str, int] = features or {}
        self.features_epoch = features_epoch
        self._usable = {key: self._latest(key, allowed) for key, allowed in SPOKEN.items()}

    def usable(self, api_key: int, allowed: Allowed | None = None) -> int | None:
        """The highest version that both ends know; None: there is none, or the broker lacks the API.

        allowed: what the request can be built in, where that is not all that is spoken
        source: latestUsableVersion (UnsupportedVersionException)
        """
        return self._usable[api_key] if allowed is None else self._latest(api_key, allowed)

    def highest(self, api_key: int) -> int:
        """The broker's; -1 where it lacks the API."""
        return self._ranges.get(api_key, (-1, -1))[1]

    def _latest(self, api_key: int, allowed: Allowed) -> int | None:
        lowest, highest = self._ranges.get(api_key, (0, -1))
        latest = min(highest, allowed.latest)
        return latest if latest >= max(lowest, allowed.oldest) else None


UNDISCOVERED: Final = NodeApiVersions(SPOKEN)
"""Of a broker that is not asked: each request has the client's newest version."""


class ApiVersions:
    """Of all brokers of one client, as long as it is connected to them. source: ApiVersions.java"""

    def __init__(self) -> None:
        self._nodes: dict[int, NodeApiVersions] = {}
        self.features: Mapping[str, int] = {}
        self.features_epoch = NO_FEATURES_EPOCH

    def update(self, node_id: int, versions: NodeApiVersions) -> None:
        """The levels that are known stay known when the connection ends."""
        self._nodes[node_id] = versions
        if versions.features_epoch > self.features_epoch:
            self.features, self.features_epoch = versions.features, versions.features_epoch

    def remove(self, node_id: int) -> None:
        self._nodes.pop(node_id, None)

    def of(self, node_id: int) -> NodeApiVersions:
        """raises: KeyError for a broker that is not ready"""
        return self._nodes[node_id]


class VersionsRefused(Exception):
    """The broker has answered with an error: the connection is of no use."""


class VersionExchange:
    """Of one connection. version: of the next request"""

    def __init__(self) -> None:
        self.version = SPOKEN[API_VERSIONS].latest
        self.throttle_ms = 0
        """What the last answer says."""

    def request(self, correlation_id: int, client_id: str) -> bytes:
        """The frame, size prefix included."""
        asked = request(
            API_VERSIONS,
            self.version,
            client_software_name=CLIENT_SOFTWARE_NAME,
            client_software_version=CLIENT_SOFTWARE_VERSION,
        )
        return encode_request(API_VERSIONS, self.version, correlation_id, client_id, asked)

    def answered(self, frame: bytearray) -> NodeApiVersions | None:
        """None: the request is to be sent again. raises: VersionsRefused; PeerViolation for what is no answer"""
        answer = self._decoded(frame)
        if is_throttled_by(API_VERSIONS, self.version):
            self.throttle_ms = milliseconds(answer.throttle_time) if hasattr(answer, "throttle_time") else 0
        ranges = {int(one.api_key): (int(one.min_version), int(one.max_version)) for one in answer.api_keys}
        error = answer.error_code
        if error is ErrorCode.NONE:
            finalized = getattr(answer, "finalized_features", ())
            levels = {str(one.name): int(one.max_version_level) for one in finalized}
            return NodeApiVersions(ranges, levels, int(getattr(answer, "finalized_features_epoch", NO_FEATURES_EPOCH)))
        if error is not ErrorCode.UNSUPPORTED_VERSION or self.version == 0:
            raise VersionsRefused(f"answered ApiVersions with {error.name}")
        self.version = min(ranges.get(API_VERSIONS, (0, 0))[1], self.version - 1)
        return None

    def _decoded(self, frame: bytearray) -> Any:
        """An answer in version 0 may be one to any version."""
        try:
            return decode_response(API_VERSIONS, self.version, frame)
        except PeerViolation:
            if self.version == 0:
                raise
            return decode_response(API_VERSIONS, 0, frame)
