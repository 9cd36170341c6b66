"""ApiVersions (18): return the APIs and features that this broker offers. Source: KafkaApis.handleApiVersionsRequest

     0  APIs with their lowest and highest version
     1  throttle time
     2  a throttled client gets its response before the delay (KIP-219)
     3  flexible, except for the header of the response; the client names its software (KIP-511), features (KIP-584)
     4  a feature may start at level 0 (KAFKA-17011)
     5  the request may name the intended cluster and broker; REBOOTSTRAP_REQUIRED if this is another one (KIP-1242)

A request with an unsupported version is answered too; see cluster/protocol/api_18_api_versions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve
from cluster.protocol import cold
from cluster.protocol.api_18_api_versions import encode_api_versions_response
from cluster.protocol.primitives import INT32
from cluster.protocol.versions import API_VERSIONS, RequestHeader
from cluster.server.responder import Call
from controller.features import finalized
from replica.errors import ErrorCode
from replica.ids import CLUSTER_ID, NO_BROKER

_Levels = tuple[int, tuple[tuple[str, int], ...]]
"""The offset of the metadata image, and its feature levels."""
CORRELATION_ID = 4
"""Byte offset of the correlation id in a response, after the size."""
FIRST_WITH_DESTINATION = 5
UNKNOWN = -1
"""Key in `_encoded` of the response to all versions that the broker does not support."""


class ApiVersionsHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._outbox = broker.base.outbox
        self._cache = broker.base.cache
        self._offered = broker.offered
        self._quotas = broker.client_quotas
        self._rules = broker.base.rules
        self._broker_id = broker.base.broker_id
        self._encoded: dict[int, tuple[_Levels, bytes]] = {}
        """Cached responses by version, with the feature levels in them; none has a throttle time."""

    def __call__(self, call: Call) -> None:
        throttle_ms = self._quotas.answered(call.connection, call.header) if self._quotas.is_enabled else 0
        error = self._destination_error(call.header, call.frame)
        if error is ErrorCode.NONE:
            answer = self.answer(call.header, throttle_ms)
        else:
            answer = cold.encode_answer(
                API_VERSIONS,
                call.header.api_version,
                call.header.correlation_id,
                {"error_code": error, "throttle_time": throttle_ms},
            )
        self._outbox.respond(call.connection, (answer,), API_VERSIONS)

    def _destination_error(self, header: RequestHeader, frame: bytearray) -> ErrorCode:
        """Return an error if the request names another broker or cluster as its destination, else NONE.

        Source: ApiVersionsRequest.isValid, KafkaApis.handleApiVersionsRequest
        """
        if header.api_version < FIRST_WITH_DESTINATION or not self.knows(header.api_version):
            return ErrorCode.NONE
        request = cold.decode_request(header, frame)
        cluster_id, node_id = request.cluster_id, int(request.node_id)
        if (cluster_id is None) != (node_id == NO_BROKER):
            return ErrorCode.INVALID_REQUEST
        is_here = cluster_id is None or (cluster_id, node_id) == (CLUSTER_ID, self._broker_id)
        return ErrorCode.NONE if is_here else ErrorCode.REBOOTSTRAP_REQUIRED

    def knows(self, version: int) -> bool:
        """Return True if the broker supports this version of ApiVersions, or a later one."""
        return version <= self._offered()[API_VERSIONS][1]

    def answer(self, header: RequestHeader, throttle_ms: int = 0) -> bytes:
        """Return the encoded response, with the size in front."""
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


APIS: Final[Mapping[int, Serve]] = {API_VERSIONS: ApiVersionsHandler}
