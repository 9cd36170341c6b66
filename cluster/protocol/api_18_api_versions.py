"""ApiVersions: the request by which a client learns the APIs of a broker and their versions.

    frame = encode_api_versions_response(header.api_version, header.correlation_id, ranges)      # size prefix included
    known = features(KafkaRelease(4, 1), elr=True, transactions="v2", groups="consumer")
    frame = encode_api_versions_response(version, correlation_id, ranges, known, epoch)

Most clients send this request first, when they do not know the broker's versions. If the broker does not know the
version of the request, it responds with a version 0 body, UNSUPPORTED_VERSION and, from 2.4 on, the versions of
ApiVersions, and the client sends the request again (KIP-511). The response header always has version 0. `cold` decodes
requests and responses.

Source: ApiVersionsRequest.json, ApiVersionsResponse.json, ApiVersionsResponse.java
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.protocol.cold import encode_response, response
from cluster.protocol.versions import API_VERSIONS
from controller.features import Feature
from replica.errors import ErrorCode

Ranges = Mapping[int, tuple[int, int]]
FIRST_WITH_FEATURES_FROM_ZERO = 4
"""The first version in which a feature may start at level 0; clients of earlier versions refuse that (KAFKA-17492)."""
FIRST_THAT_SAYS_ITS_RANGE = 3
"""The first version whose UNSUPPORTED_VERSION response has the supported versions of ApiVersions (KIP-511)."""
NO_EPOCH = -1


def encode_api_versions_response(
    version: int,
    correlation_id: int,
    ranges: Ranges,
    known: Sequence[Feature] = (),
    features_epoch: int = NO_EPOCH,
    throttle_time_ms: int = 0,
) -> bytes:
    """Return a whole response frame, with its size prefix, for a request of any version.

    Args:
        ranges: lowest and highest version by API key.
        known: features that the broker supports.
        features_epoch: metadata offset at which the features had these levels.
    """
    if version > ranges[API_VERSIONS][1]:
        known_here = ranges[API_VERSIONS]
        only_this = {API_VERSIONS: known_here} if known_here[1] >= FIRST_THAT_SAYS_ITS_RANGE else {}
        return _encode(0, correlation_id, error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_keys(only_this))
    from_zero = version >= FIRST_WITH_FEATURES_FROM_ZERO
    return _encode(
        version,
        correlation_id,
        error_code=ErrorCode.NONE,
        throttle_time=throttle_time_ms,
        api_keys=_keys(ranges),
        supported_features=[
            {"name": item.name, "min_version": item.low, "max_version": item.high}
            for item in known
            if item.low > 0 or from_zero
        ],
        finalized_features_epoch=features_epoch if known else NO_EPOCH,
        finalized_features=[
            {"name": item.name, "min_version_level": item.level, "max_version_level": item.level}
            for item in known
            if item.level > 0
        ],
    )


def _keys(ranges: Ranges) -> list[dict[str, int]]:
    return [{"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in sorted(ranges.items())]


def _encode(version: int, correlation_id: int, **fields: object) -> bytes:
    entity = response(API_VERSIONS, version, **fields)
    return encode_response(API_VERSIONS, version, correlation_id, entity)
