"""Encodes and decodes Envelope (58), in which a broker forwards a client's request to the controller.

The inner frames are complete requests and responses with their own headers.

Source: ForwardingManager.scala, EnvelopeUtils.scala, RequestChannel.Request.buildResponseSend
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

from cluster.protocol import cold
from cluster.protocol.primitives import NO_TAGS, decodes, read_text, string
from cluster.protocol.versions import ENVELOPE, FORWARDED, RequestHeader, read_request_header
from replica.errors import ErrorCode, PeerViolation

ENVELOPE_VERSION = 0
_PRINCIPAL_VERSION = b"\0\0"
_NO_TOKEN = b"\0"
"""The encoded `token_authenticated` of DefaultPrincipalData: the client used no delegation token."""
NODE = "Node:"
"""The prefix of the principal of a broker that sends its own request. In Kafka such a request has no envelope."""
LOOPBACK = b"\x7f\x00\x00\x01"
_SIZE_BYTES = 4


def enclose(correlation_id: int, client_id: str, frame: bytes | bytearray, principal: str, host: str) -> bytes:
    """Return a whole Envelope request.

    Args:
        frame: the client's request without its size.
        principal: principal of the client, as `User:name`.
        host: address of the client.
    """
    entity = cold.request(
        ENVELOPE,
        ENVELOPE_VERSION,
        request_data=bytes(frame),
        request_principal=_encoded(principal),
        client_host_address=_packed(host),
    )
    return cold.encode_request(ENVELOPE, ENVELOPE_VERSION, correlation_id, client_id, entity)


def _packed(host: str) -> bytes:
    """Return an address as bytes. A node's name becomes the loopback address, because all nodes are on this machine."""
    try:
        return ip_address(host).packed
    except ValueError:
        return LOOPBACK


def _encoded(principal: str) -> bytes:
    kind, _, name = principal.partition(":")
    return b"".join((_PRINCIPAL_VERSION, string(kind, flexible=True), string(name, flexible=True), _NO_TOKEN, NO_TAGS))


@decodes("a principal")
def _decoded(data: bytes) -> str:
    kind, position = read_text(data, len(_PRINCIPAL_VERSION), flexible=True)
    name, _ = read_text(data, position, flexible=True)
    return f"{kind}:{name}"


class Opened(NamedTuple):
    """The request in an envelope, with the principal and address of its client."""

    header: RequestHeader
    frame: bytearray
    principal: str
    host: str


def opened(header: RequestHeader, frame: bytearray) -> Opened:
    """Decode an envelope.

    Raises:
        PeerViolation: if the envelope is malformed or the request's API is not forwarded.
    """
    envelope = cold.decode_request(header, frame)
    inner = bytearray(envelope.request_data)
    inner_header = read_request_header(inner)
    if inner_header.api_key not in FORWARDED:
        raise PeerViolation(
            f"an Envelope contains a request with API key {inner_header.api_key}, which brokers do not forward"
        )
    try:
        host = str(ip_address(bytes(envelope.client_host_address)))
    except ValueError as error:
        raise PeerViolation("the client address in an Envelope request is neither 4 nor 16 bytes long") from error
    return Opened(inner_header, inner, _decoded(bytes(envelope.request_principal)), host)


def enclosed_answer(header: RequestHeader, response: bytes | ErrorCode) -> bytes:
    """Return a whole Envelope response that contains a response (with its size prefix) or, in its place, an error."""
    if isinstance(response, ErrorCode):
        values: dict[str, object] = {"error_code": response}
    else:
        values = {"error_code": ErrorCode.NONE, "response_data": response[_SIZE_BYTES:]}
    entity = cold.response(ENVELOPE, header.api_version, **values)
    return cold.encode_response(ENVELOPE, header.api_version, header.correlation_id, entity)


def answer_inside(frame: bytearray) -> bytes | ErrorCode:
    """Return the response in an Envelope response, without its size; UNKNOWN_SERVER_ERROR if there is none.

    An error of the envelope itself concerns the two nodes and is not passed on to the client.
    """
    try:
        envelope = cold.decode_response(ENVELOPE, ENVELOPE_VERSION, frame)
    except PeerViolation:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    data = envelope.response_data
    known = envelope.error_code is ErrorCode.NONE and isinstance(data, bytes)
    return data if known else ErrorCode.UNKNOWN_SERVER_ERROR


def error_of(frame: bytearray) -> ErrorCode:
    """Return the error of an Envelope response itself.

    Raises:
        PeerViolation: if the response is malformed.
    """
    error = cold.decode_response(ENVELOPE, ENVELOPE_VERSION, frame).error_code
    assert isinstance(error, ErrorCode)
    return error
