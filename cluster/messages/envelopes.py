"""Envelope (58): a request of a client inside one of its broker to the controller, and the answer inside the answer.

The inner frames are whole requests and responses with their own headers. source: ForwardingManager.scala,
EnvelopeUtils.scala, RequestChannel.Request.buildResponseSend
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
"""DefaultPrincipalData: its version, and whether a delegation token stood for the client."""
NODE = "Node:"
"""Begins the principal of a broker that asks for itself. In Kafka such a request comes without an envelope."""
LOOPBACK = b"\x7f\x00\x00\x01"
_SIZE_BYTES = 4


def enclose(correlation_id: int, client_id: str, frame: bytes | bytearray, principal: str, host: str) -> bytes:
    """A whole Envelope request.

    frame: the client's request, without its size     principal: who sent it, as `User:name`     host: from where
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
    """Nodes of the cluster are known by name; they are all on this machine."""
    try:
        return ip_address(host).packed
    except ValueError:
        return LOOPBACK


def _encoded(principal: str) -> bytes:
    kind, _, name = principal.partition(":")
    return b"".join((_PRINCIPAL_VERSION, string(kind, flexible=True), string(name, flexible=True), _NO_TOKEN, NO_TAGS))


@decodes("a principal")
def _decoded(data: bytes) -> str:
    kind, place = read_text(data, len(_PRINCIPAL_VERSION), flexible=True)
    name, _ = read_text(data, place, flexible=True)
    return f"{kind}:{name}"


class Opened(NamedTuple):
    """principal: of the client that sent the request     host: its address"""

    header: RequestHeader
    frame: bytearray
    principal: str
    host: str


def opened(header: RequestHeader, frame: bytearray) -> Opened:
    """The request inside.     raises: PeerViolation"""
    envelope = cold.decode_request(header, frame)
    inner = bytearray(envelope.request_data)
    inner_header = read_request_header(inner)
    if inner_header.api_key not in FORWARDED:
        raise PeerViolation(f"api {inner_header.api_key} is not forwarded")
    try:
        host = str(ip_address(bytes(envelope.client_host_address)))
    except ValueError as error:
        raise PeerViolation("the address of a client has 4 bytes, or 16") from error
    return Opened(inner_header, inner, _decoded(bytes(envelope.request_principal)), host)


def enclosed_answer(header: RequestHeader, response: bytes | ErrorCode) -> bytes:
    """A whole Envelope response. response: a whole response with its size, or why there is none"""
    if isinstance(response, ErrorCode):
        values: dict[str, object] = {"error_code": response}
    else:
        values = {"error_code": ErrorCode.NONE, "response_data": response[_SIZE_BYTES:]}
    entity = cold.response(ENVELOPE, header.api_version, **values)
    return cold.encode_response(ENVELOPE, header.api_version, header.correlation_id, entity)


def answer_inside(frame: bytearray) -> bytes | ErrorCode:
    """The response in an answered envelope, without its size. Why there is none says something of the two nodes, which
    is not the client's to know: UNKNOWN_SERVER_ERROR.
    """
    try:
        envelope = cold.decode_response(ENVELOPE, ENVELOPE_VERSION, frame)
    except PeerViolation:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    data = envelope.response_data
    known = envelope.error_code is ErrorCode.NONE and isinstance(data, bytes)
    return data if known else ErrorCode.UNKNOWN_SERVER_ERROR


def error_of(frame: bytearray) -> ErrorCode:
    """The error of an answered envelope itself. raises: PeerViolation"""
    error = cold.decode_response(ENVELOPE, ENVELOPE_VERSION, frame).error_code
    assert isinstance(error, ErrorCode)
    return error
