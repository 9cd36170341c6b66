"""Codecs: output of the reference libraries is read, and a bomb's memory stays within the limit."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from replica.log.batches.codecs import (
    CODECS,
    GZIP_MEMBERS_MAX,
    SNAPPY_BLOCKS_MAX,
    XERIAL_HEADER,
    ZSTD_FRAMES_MAX,
    BadStream,
    TooMuchInside,
    compress,
    decompress,
)

MIB = 1 << 20
codecs = st.sampled_from(CODECS[1:])


@given(codecs, st.binary(max_size=2000), st.integers(1, 100))
def test_what_is_compressed_comes_out_up_to_the_limit(codec, content, times):
    content *= times
    squeezed = compress(codec, content)
    assert decompress(codec, squeezed, len(content)) == content
    assert compress(codec, content) == squeezed, "the same bytes in every run"
    if content:
        with pytest.raises(TooMuchInside):
            decompress(codec, squeezed, len(content) - 1)


@given(codecs, st.binary(max_size=300))
def test_any_bytes_are_a_stream_or_a_bad_stream(codec, garbage):
    with contextlib.suppress(BadStream, TooMuchInside):
        assert len(decompress(codec, garbage, MIB)) <= MIB


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_bomb_takes_no_more_memory_than_the_limit(codec):
    inside = bytes(64 * MIB)
    bomb = bytes(cramjam.snappy.compress_raw(inside)) if codec == "snappy" else compress(codec, inside)
    tracemalloc.start()
    try:
        with pytest.raises(TooMuchInside):
            decompress(codec, bomb, MIB)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * MIB, "of the 64 inside"


def test_streams_of_other_libraries():
    content = bytes(range(256)) * 1000
    streams = {
        "gzip": gzip.compress(content[:1000]) + gzip.compress(content[1000:]) + b"not a stream",
        "lz4": lz4.frame.compress(content, block_linked=False, content_checksum=True, store_size=True),
        "zstd": zstandard.ZstdCompressor(write_checksum=True).compress(content),
        "snappy": compress("snappy", content[:1000]) + compress("snappy", content[1000:]),
    }
    for codec, stream in streams.items():
        assert decompress(codec, stream, MIB) == content, codec


def test_lz4_blocks_that_depend_on_each_other_are_none_for_kafka():
    with pytest.raises(BadStream, match="depend"):
        decompress("lz4", lz4.frame.compress(bytes(range(256)) * 1000, block_linked=True), MIB)


@pytest.mark.parametrize("content", [b"", b"x"])
def test_a_stream_of_very_many_parts_is_as_much_work_as_a_bomb(content):
    member, block = gzip.compress(content), bytes(cramjam.snappy.compress_raw(content))
    gzipped = {parts: member * parts for parts in (GZIP_MEMBERS_MAX, GZIP_MEMBERS_MAX + 1, 40_000)}
    blocks = {parts: XERIAL_HEADER + (len(block).to_bytes(4) + block) * parts for parts in (SNAPPY_BLOCKS_MAX, 200_000)}
    assert decompress("gzip", gzipped[GZIP_MEMBERS_MAX], MIB) == content * GZIP_MEMBERS_MAX
    assert decompress("snappy", blocks[SNAPPY_BLOCKS_MAX], MIB) == content * SNAPPY_BLOCKS_MAX
    for codec, stream in (
        ("gzip", gzipped[GZIP_MEMBERS_MAX + 1]),
        ("gzip", gzipped[40_000]),
        ("snappy", blocks[200_000]),
        ("snappy", XERIAL_HEADER * 60_000),
        ("zstd", zstandard.ZstdCompressor().compress(content) * (ZSTD_FRAMES_MAX + 1)),
    ):
        with pytest.raises(TooMuchInside):
            decompress(codec, stream, MIB)
