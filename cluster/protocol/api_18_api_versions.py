"""ApiVersions: the APIs of a broker. The first request of most clients, so its versions are negotiated differently.

    frame = encode_api_versions_response(header.api_version, header.correlation_id, ranges)      # size prefix included
    known = features("4.1", elr=True, transactions="v2", groups="consumer")
    frame = encode_api_versions_response(version, correlation_id, ranges, known, epoch)

A client may ask a version that the broker does not know; the answer then has a version 0 body, UNSUPPORTED_VERSION, and
from 2.4 on the range of ApiVersions itself, and the client repeats it (KIP-511). `read_request_header` lets such a
request through and this module never looks at its body. The response header is version 0 at every version. Everything
else about this API (the request, a client decoding the response) is in `cold`.

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
"""KAFKA-17492: before it, clients refuse an answer in which a feature starts at level 0."""
FIRST_THAT_SAYS_ITS_RANGE = 3
"""KIP-511, of the version that the broker knows."""
NO_EPOCH = -1


def encode_api_versions_response(
    version: int,
    correlation_id: int,
    ranges: Ranges,
    known: Sequence[Feature] = (),
    features_epoch: int = NO_EPOCH,
    throttle_time_ms: int = 0,
) -> bytes:
    """A whole response frame for a request of any version.

    ranges: API key -> (lowest, highest version)     known: features, by name
    features_epoch: offset of the metadata that the levels of these features are of
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
            {"name": one.name, "min_version": one.low, "max_version": one.high}
            for one in known
            if one.low > 0 or from_zero
        ],
        finalized_features_epoch=features_epoch if known else NO_EPOCH,
        finalized_features=[
            {"name": one.name, "min_version_level": one.level, "max_version_level": one.level}
            for one in known
            if one.level > 0
        ],
    )


def _keys(ranges: Ranges) -> list[dict[str, int]]:
    return [{"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in sorted(ranges.items())]


def _encode(version: int, correlation_id: int, **fields: object) -> bytes:
    entity = response(API_VERSIONS, version, **fields)
    return encode_response(API_VERSIONS, version, correlation_id, entity)
