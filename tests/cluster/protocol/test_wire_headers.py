"""Headers are kio's, and an API or version that we do not speak ends the connection."""

from typing import Any

import pytest
from wire_oracles import kio_body, kio_header, kio_response, served

from cluster.protocol.api_18_api_versions import encode_api_versions_response
from cluster.protocol.cold import decode_response, make, response_class
from cluster.protocol.versions import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    VERSIONS,
    RequestHeader,
    api_key,
    api_name,
    has_flexible_response_header,
    is_flexible,
    read_request_header,
    request_frame,
    response_body_position,
    response_correlation_id,
    response_frame,
)
from replica.errors import ErrorCode, PeerViolation

ALL = [(key, version) for key in VERSIONS for version in served(key)]


@pytest.mark.parametrize("client_id", [None, "", "größe"])
def test_request_headers(client_id):
    for key, version in ALL:
        header = kio_header(key, version, -5, client_id)
        frame = request_frame(key, version, -5, client_id, b"body")
        assert frame == (len(header) + 4).to_bytes(4, "big") + header + b"body", (api_name(key), version)
        read = read_request_header(bytearray(frame[4:]))
        assert read == RequestHeader(key, version, -5, client_id, len(header))


def test_response_headers():
    for key, version in ALL:
        entity = make(response_class(key, version))
        frame = response_frame(key, version, 2**31 - 1, body := kio_body(entity))
        assert frame[4:] == kio_response(key, version, 2**31 - 1), (api_name(key), version)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert response_correlation_id(frame[4:]) == 2**31 - 1
        assert frame[4 + response_body_position(key, version, frame[4:]) :] == body


def test_flexible_versions_are_kios():
    for key, version in ALL:
        cls: Any = response_class(key, version)
        assert is_flexible(key, version) == cls.__flexible__
        assert has_flexible_response_header(key, version) == cls.__header_schema__.__flexible__


def test_tags_in_a_header_are_passed_over():
    frame = request_frame(METADATA, 12, 1, "c", b"body")[4:]
    tagged = frame.replace(b"c\x00body", b"c\x01\x07\x02hibody")
    assert tagged[read_request_header(tagged).body_position :] == b"body"


@pytest.mark.parametrize(
    ("key", "version"), [(PRODUCE, 2), (PRODUCE, 14), (FETCH, 3), (FETCH, 19), (FETCH, -1), (7, 0), (-1, 0), (999, 0)]
)
def test_what_we_do_not_speak(key, version):
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes(6)
    with pytest.raises(PeerViolation, match="not supported"):
        read_request_header(frame)


def test_names():
    assert (api_name(FETCH), api_key("Fetch"), api_name(999)) == ("Fetch", FETCH, "api 999")
    assert all(api_key(api_name(key)) == key for key in VERSIONS)


@pytest.mark.parametrize("version", served(API_VERSIONS))
def test_api_versions(version):
    frame = encode_api_versions_response(version, 9, VERSIONS)
    answer = decode_response(API_VERSIONS, version, frame[4:])
    assert answer.error_code is ErrorCode.NONE
    assert {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys} == VERSIONS


def test_api_versions_from_the_future():
    """KIP-511: a request that we cannot read is answered, with a version 0 body that names our versions."""
    request = kio_header(API_VERSIONS, 4, 9, "new client") + b"who knows what is in here"
    request = request[:2] + (99).to_bytes(2, "big") + request[4:]
    header = read_request_header(request)
    frame = encode_api_versions_response(header.api_version, header.correlation_id, VERSIONS)
    answer = decode_response(API_VERSIONS, 0, frame[4:])
    assert response_correlation_id(frame[4:]) == 9
    assert answer.error_code is ErrorCode.UNSUPPORTED_VERSION
    (only,) = answer.api_keys
    assert (only.api_key, only.min_version, only.max_version) == (API_VERSIONS, *VERSIONS[API_VERSIONS])
