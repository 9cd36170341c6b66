"""What is said of bytes that are no frame of Kafka's protocol."""

from __future__ import annotations

import socket

import pytest

from cluster.live.frames import FrameTooLarge, SocketFrameReader

MAX_BYTES = 104_857_600
LIMIT = (
    f"at most {MAX_BYTES} are allowed (socket.request.max.bytes, or sasl.server.max.receive.size before authentication)"
)
CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303")


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "a frame claims 1195725856 bytes (this looks like HTTP)"),
        (b"POST /topics", "a frame claims 1347375956 bytes (this looks like HTTP)"),
        (
            CLIENT_HELLO,
            "a frame claims 369295616 bytes (this looks like TLS, but this listener is not encrypted)",
        ),
        (b"\xff\xff\xff\xff", "a frame claims -1 bytes (a negative length)"),
        (b"\x7f\xff\xff\xff", f"a frame claims 2147483647 bytes; {LIMIT}"),
        (b"\x06\x40\x00\x01", f"a frame claims 104857601 bytes; {LIMIT}"),
    ],
)
def test_what_it_looks_like_is_said(sent: bytes, told: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(sent)
        reader = SocketFrameReader(ours, memoryview(bytearray(1024)), MAX_BYTES)
        with pytest.raises(FrameTooLarge) as raised:
            reader.fill()
    assert str(raised.value) == told
