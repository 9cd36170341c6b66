"""ApiVersions (18): which APIs and features this broker offers. source: KafkaApis.handleApiVersionsRequest

     0  APIs with their lowest and highest version
     1  throttle time
     2  a throttled client is answered first and held back then (KIP-219)
     3  flexible, but for the header of the answer; the client names its software (KIP-511), features (KIP-584)
     4  a feature may start at level 0 (KAFKA-17011)

A version that the broker does not know is answered, too: see cluster/protocol/api_18_api_versions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve
from cluster.node import ConnectionId
from cluster.protocol.api_18_api_versions import encode_api_versions_response
from cluster.protocol.primitives import INT32
from cluster.protocol.versions import API_VERSIONS, RequestHeader
from controller.features import finalized

_Levels = tuple[int, tuple[tuple[str, int], ...]]
"""Of features: the offset of the metadata that they are of, and the levels."""
CORRELATION_ID = 4
"""Its place in a response, behind the size."""
UNKNOWN = -1
"""All versions that the broker does not know have the same answer."""


class ApiVersionsHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._outbox = broker.base.outbox
        self._cache = broker.base.cache
        self._offered = broker.offered
        self._quotas = broker.client_quotas
        self._rules = broker.base.rules
        self._encoded: dict[int, tuple[_Levels, bytes]] = {}
        """By version the last answer without a throttle: each connection begins with one, and they are alike."""

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        throttle_ms = self._quotas.answered(connection, header) if self._quotas.is_enabled else 0
        self._outbox.respond(connection, (self.answer(header, throttle_ms),), API_VERSIONS)

    def knows(self, version: int) -> bool:
        """Of this API; another one is answered, too, with an error."""
        return version <= self._offered()[API_VERSIONS][1]

    def answer(self, header: RequestHeader, throttle_ms: int = 0) -> bytes:
        """The whole response, with its size."""
        image = self._cache.image
        levels = image.offset, tuple(image.feature_levels.items())
        version = header.api_version if self.knows(header.api_version) else UNKNOWN
        found = self._encoded.get(version)
        if throttle_ms or found is None or found[0] != levels:
            answer = encode_api_versions_response(
                header.api_version,
                header.correlation_id,
                self._offered(),
                finalized(self._rules, image.feature_levels),
                image.offset,
                throttle_ms,
            )
            if not throttle_ms:
                self._encoded[version] = levels, answer
            return answer
        _, before = found
        return before[:CORRELATION_ID] + INT32.pack(header.correlation_id) + before[CORRELATION_ID + INT32.size :]


APIS: Final[Mapping[int, Serve]] = {
    API_VERSIONS: ApiVersionsHandler,
}
