"""ApiVersions: the first exchange on each connection, in which a client learns the versions that both ends support.

    exchange = VersionExchange()
    ...                                     # send exchange.request(...), and receive a response frame
    found = exchange.answered(frame)        # None: send another request, in a lower version
    found.usable(FETCH)                     # the highest version that both ends support, None if there is none

A client asks with its own newest version. A broker that does not know this version answers UNSUPPORTED_VERSION in
version 0. The client then asks with the newest version that this response lists (KIP-511), or with 0. The response also
has the cluster's feature levels; the client uses the newest levels from any broker (KIP-584).

Source: NodeApiVersions.java, ApiVersions.java, NetworkClient.handleApiVersionsResponse, ApiVersionsResponse.parse
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
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from replica.errors import ErrorCode, PeerViolation
from replica.rules import KafkaRelease

CLIENT_SOFTWARE_NAME: Final = "highwater"
CLIENT_SOFTWARE_VERSION: Final = "0.1.0"
"""The client's name and version in ApiVersions, which brokers show to operators (KIP-511)."""
NO_FEATURES_EPOCH: Final = -1
"""The features epoch before any broker has reported feature levels."""
DISCOVERY_SINCE: Final = KafkaRelease(0, 11)
"""The first release whose clients send ApiVersions. Simplified: Java's clients have done so since 0.10.2 (KIP-35).

Brokers of earlier eras also answer requests in versions that they would not list.
"""


def discovers_versions(release: KafkaRelease) -> bool:
    """Return True if clients of a release send ApiVersions. Source: NetworkClient's discoverBrokerVersions"""
    return release >= DISCOVERY_SINCE


class Allowed(NamedTuple):
    """The oldest and the newest version in which a request can be built. Source: AbstractRequest.Builder"""

    oldest: int
    latest: int


# Simplified: newer versions have topic ids, reasons, and lists of coordinators and groups, which this client lacks.
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
        # Older versions need a broker's permission. source: OffsetsForLeaderEpochRequest.Builder.forConsumer
        OFFSET_FOR_LEADER_EPOCH: Allowed(3, 4),
        # Newer versions are for brokers. source: AddPartitionsToTxnRequest.Builder.forClient
        ADD_PARTITIONS_TO_TXN: Allowed(0, 3),
        ADD_OFFSETS_TO_TXN: Allowed(0, 4),
        END_TXN: Allowed(0, 5),
        TXN_OFFSET_COMMIT: Allowed(0, 5),
        CONSUMER_GROUP_HEARTBEAT: Allowed(0, 1),
        SHARE_GROUP_HEARTBEAT: Allowed(1, 1),
        SHARE_FETCH: Allowed(1, 2),
        SHARE_ACKNOWLEDGE: Allowed(1, 2),
    }
)
"""The versions that this client supports, by API key. The oldest versions are those of Kafka 4 (KIP-896)."""

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
    """Return True if a client must wait for the throttle time in a response; in older versions the broker has waited.

    Source: AbstractResponse.shouldClientThrottle (KIP-219)
    """
    first = _FIRST_THROTTLED.get(api_key)
    return first is not None and version >= first


class NodeApiVersions:
    """The versions and features that one broker offers.

    Args:
        ranges: lowest and highest version by API key.
        features: finalized feature levels by feature name.
        features_epoch: metadata offset of these levels, -1 if the broker has reported none.
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
        """Return the highest version that both ends support; None if there is none or the broker lacks the API.

        Args:
            allowed: versions in which the request can be built; None for all that this client supports.

        Source: latestUsableVersion (UnsupportedVersionException)
        """
        return self._usable[api_key] if allowed is None else self._latest(api_key, allowed)

    def highest(self, api_key: int) -> int:
        """Return the broker's highest version of an API, -1 if it lacks the API."""
        return self._ranges.get(api_key, (-1, -1))[1]

    def _latest(self, api_key: int, allowed: Allowed) -> int | None:
        lowest, highest = self._ranges.get(api_key, (0, -1))
        latest = min(highest, allowed.latest)
        return latest if latest >= max(lowest, allowed.oldest) else None


UNDISCOVERED: Final = NodeApiVersions(SPOKEN)
"""The versions of a broker if the client does not send ApiVersions: each request has the client's newest version."""


class ApiVersions:
    """The versions of all brokers that one client is connected to. Source: ApiVersions.java"""

    def __init__(self) -> None:
        self._nodes: dict[int, NodeApiVersions] = {}
        self.features: Mapping[str, int] = {}
        self.features_epoch = NO_FEATURES_EPOCH

    def update(self, node_id: int, versions: NodeApiVersions) -> None:
        """Set a broker's versions, and keep its feature levels if they are newer than those of the other brokers."""
        self._nodes[node_id] = versions
        if versions.features_epoch > self.features_epoch:
            self.features, self.features_epoch = versions.features, versions.features_epoch

    def remove(self, node_id: int) -> None:
        self._nodes.pop(node_id, None)

    def of(self, node_id: int) -> NodeApiVersions:
        """Return the versions of a broker.

        Raises:
            KeyError: if the client is not connected to the broker.
        """
        return self._nodes[node_id]


class VersionsRefused(Exception):
    """The broker has answered ApiVersions with an error, so the connection cannot be used."""


class VersionExchange:
    """The exchange of versions on one connection; `version` is the version of the next ApiVersions request."""

    def __init__(self) -> None:
        self.version = SPOKEN[API_VERSIONS].latest
        self.throttle_ms = 0
        """The throttle time in the last response."""

    def request(self, correlation_id: int, client_id: str) -> bytes:
        """Return an ApiVersions request frame, which begins with its size."""
        asked = request(
            API_VERSIONS,
            self.version,
            client_software_name=CLIENT_SOFTWARE_NAME,
            client_software_version=CLIENT_SOFTWARE_VERSION,
        )
        return encode_request(API_VERSIONS, self.version, correlation_id, client_id, asked)

    def answered(self, frame: bytearray) -> NodeApiVersions | None:
        """Return the broker's versions from its response, None if the request has to be repeated with a lower version.

        The response's throttle time is stored in `throttle_ms`.

        Raises:
            VersionsRefused: if the response is an error.
            PeerViolation: if the response is malformed.
        """
        answer = self._decoded(frame)
        if is_throttled_by(API_VERSIONS, self.version):
            self.throttle_ms = milliseconds(answer.throttle_time) if hasattr(answer, "throttle_time") else 0
        ranges = {
            int(api_key.api_key): (int(api_key.min_version), int(api_key.max_version)) for api_key in answer.api_keys
        }
        error = answer.error_code
        if error is ErrorCode.NONE:
            finalized = getattr(answer, "finalized_features", ())
            levels = {str(item.name): int(item.max_version_level) for item in finalized}
            return NodeApiVersions(ranges, levels, int(getattr(answer, "finalized_features_epoch", NO_FEATURES_EPOCH)))
        if error is not ErrorCode.UNSUPPORTED_VERSION or self.version == 0:
            raise VersionsRefused(f"the broker answered ApiVersions with {error.name}")
        self.version = min(ranges.get(API_VERSIONS, (0, 0))[1], self.version - 1)
        return None

    def _decoded(self, frame: bytearray) -> Any:
        """Decode a response in the requested version or, if that fails, in version 0."""
        try:
            return decode_response(API_VERSIONS, self.version, frame)
        except PeerViolation:
            if self.version == 0:
                raise
            return decode_response(API_VERSIONS, 0, frame)
