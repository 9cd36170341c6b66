"""Frames come out whole however the bytes were chunked, and a bad size is refused before memory is spent on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.protocol.framing import FrameReader
from cluster.protocol.primitives import INT32
from replica.errors import PeerViolation


def with_size(body: bytes) -> bytes:
    """The frame of a body: its size and then the body."""
    return INT32.pack(len(body)) + body


@given(bodies=st.lists(st.binary(max_size=300), max_size=8), cuts=st.lists(st.integers(0, 2500), max_size=12))
def test_any_chunking_gives_the_same_frames(bodies, cuts):
    stream = b"".join(map(with_size, bodies))
    reader = FrameReader(max_bytes=300)
    frames = []
    ends = [*sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    for start, end in zip([0, *ends], ends, strict=False):
        frames += reader.feed(stream[start:end])
    assert frames == bodies
    assert reader.feed(with_size(b"next")) == [bytearray(b"next")], "nothing is left over"


def test_byte_by_byte():
    reader = FrameReader(max_bytes=10)
    assert [reader.feed(bytes((byte,))) for byte in with_size(b"hi")] == [[]] * 5 + [[bytearray(b"hi")]]


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_cut_frame_waits_for_its_rest(cut):
    reader = FrameReader(max_bytes=10)
    assert reader.feed(with_size(b"hi")[:cut]) == []
    assert reader.feed(with_size(b"hi")[cut:]) == [bytearray(b"hi")]


def test_frames_are_writable_and_their_own():
    chunk = bytearray(with_size(b"abc"))
    (frame,) = FrameReader(max_bytes=10).feed(chunk)
    frame[0] = 0
    assert chunk == with_size(b"abc")


@pytest.mark.parametrize("size", [-1, -(2**31), 11, 2**31 - 1])
def test_absurd_size(size):
    reader = FrameReader(max_bytes=10)
    with pytest.raises(PeerViolation, match=str(size)):
        reader.feed(size.to_bytes(4, "big", signed=True))


def test_the_largest_allowed_size():
    assert FrameReader(max_bytes=10).feed(with_size(b"0123456789")) == [bytearray(b"0123456789")]
