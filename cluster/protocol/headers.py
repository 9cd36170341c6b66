"""Request and response headers, and whole frames made of a header and a body.

    frame = request_frame(METADATA, 12, correlation_id=7, client_id="p1", body=body)     # size prefix included

    header = read_request_header(frame_without_prefix)
    header.api_key, header.api_version, header.correlation_id, header.client_id
    body = frame_without_prefix[header.body_position:]           # the decoders do this themselves

    frame = response_frame(METADATA, 12, correlation_id=7, body=body)                     # size prefix included
    response_correlation_id(frame_without_prefix)                # 7: find the request, and with it key and version
    response_body_position(METADATA, 12, frame_without_prefix)

Codecs of single APIs (`api_00_produce`, `api_01_fetch`, `cold`) call these; a core needs `read_request_header` to
dispatch a request and `response_correlation_id` to match a response. Source: RequestHeader.json, ResponseHeader.json.
"""

from __future__ import annotations

from struct import Struct

from cluster.protocol import versions
from cluster.protocol.primitives import NO_TAGS, Frame, decodes, read_string, skip_tagged, string
from replica.errors import PeerViolation
from replica.frozen import dataclass

_REQUEST_START = Struct(">hhi")
_SIZE_AND_REQUEST_START = Struct(">ihhi")
_SIZE_AND_CORRELATION_ID = Struct(">ii")
_CORRELATION_ID = Struct(">i")


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """The header of a request; `body_position` is where the body starts in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


@decodes("a request header")
def read_request_header(frame: Frame) -> RequestHeader:
    """Header of a request frame (without size prefix).

    raises: PeerViolation on garbage, and on an API or version that we do not speak: Kafka closes the connection then.
            One exception (KIP-511): ApiVersions of any version is let through, so that it can be answered with a
            version 0 body and UNSUPPORTED_VERSION; see api_18_api_versions.
    """
    key, version, correlation_id = _REQUEST_START.unpack_from(frame, 0)
    is_future_api_versions = key == versions.API_VERSIONS and version > versions.VERSIONS[key][1]
    if not (versions.is_served(key, version) or is_future_api_versions):
        raise PeerViolation(f"{versions.api_name(key)} version {version} is not served")
    # KIP-482: client_id keeps its 16-bit length in header v2 too; only a tagged section is added behind it.
    client_id, position = read_string(frame, 8, flexible=False)
    if versions.is_flexible(key, version):
        position = skip_tagged(frame, position)
    return RequestHeader(key, version, correlation_id, client_id, position)


def request_frame(api_key: int, version: int, correlation_id: int, client_id: str | None, body: bytes) -> bytes:
    """A whole request, size prefix included."""
    client = string(client_id, flexible=False)
    tags = NO_TAGS if versions.is_flexible(api_key, version) else b""
    size = 8 + len(client) + len(tags) + len(body)
    return b"".join((_SIZE_AND_REQUEST_START.pack(size, api_key, version, correlation_id), client, tags, body))


def response_frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """A whole response, size prefix included. `body` may be reused: only the prefix differs between requesters."""
    tags = NO_TAGS if versions.has_flexible_response_header(api_key, version) else b""
    return _SIZE_AND_CORRELATION_ID.pack(4 + len(tags) + len(body), correlation_id) + tags + body


@decodes("a response header")
def response_correlation_id(frame: Frame) -> int:
    """Correlation id of a response frame (without size prefix)."""
    correlation_id: int = _CORRELATION_ID.unpack_from(frame, 0)[0]
    return correlation_id


@decodes("a response header")
def _body_position(frame: Frame, flexible: bool) -> int:
    return skip_tagged(frame, 4) if flexible else 4


def response_body_position(api_key: int, version: int, frame: Frame) -> int:
    """Where the body of a response frame (without size prefix) starts."""
    if frame[4:5] == NO_TAGS and versions.has_flexible_response_header(api_key, version):
        return 5  # as good as always
    return _body_position(frame, versions.has_flexible_response_header(api_key, version))
