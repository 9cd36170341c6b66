"""ApiVersions: what a broker can do. The first request of most clients, so its versions are negotiated differently.

    frame = encode_api_versions_response(header.api_version, header.correlation_id)      # size prefix included
    frame = encode_api_versions_response(version, correlation_id, {FETCH: (4, 12)})      # a broker that serves less

A client may ask a version that we do not know; the answer then has a version 0 body, UNSUPPORTED_VERSION, and the
range of ApiVersions itself, and the client asks again (KIP-511). `read_request_header` lets such a request through and
this module never looks at its body. The response header is version 0 at every version. Everything else about this API
(the request, a client decoding the response) is in `cold`.

Source: ApiVersionsRequest.json, ApiVersionsResponse.json, ApiVersionsResponse.java
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.protocol.cold import encode_response, response
from cluster.protocol.versions import ADVERTISED, API_VERSIONS, VERSIONS
from replica.errors import ErrorCode

Ranges = Mapping[int, tuple[int, int]]


def encode_api_versions_response(version: int, correlation_id: int, ranges: Ranges = ADVERTISED) -> bytes:
    """A whole response frame for a request of any version. `ranges`: API key -> (lowest, highest version)."""
    if version > VERSIONS[API_VERSIONS][1]:
        only_this = {API_VERSIONS: VERSIONS[API_VERSIONS]}
        return _encode(0, correlation_id, ErrorCode.UNSUPPORTED_VERSION, only_this)
    return _encode(version, correlation_id, ErrorCode.NONE, ranges)


def _encode(version: int, correlation_id: int, error: ErrorCode, ranges: Ranges) -> bytes:
    keys = [{"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in sorted(ranges.items())]
    entity = response(API_VERSIONS, version, error_code=error, api_keys=keys)
    return encode_response(API_VERSIONS, version, correlation_id, entity)
