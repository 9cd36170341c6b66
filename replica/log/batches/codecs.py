"""The compression codecs of record batches, with a limit on the decompressed size.

Simplified: bytes after the end of an lz4 frame are an error here; Kafka ignores them.
Source: GzipCompression, SnappyCompression (snappy-java's SnappyInputStream), Lz4BlockInputStream, ZstdCompression
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable

import cramjam

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GZIP_MAGIC = b"\x1f\x8b"
XERIAL_MAGIC = b"\x82SNAPPY\0"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
"""Header of Snappy data from Kafka's clients. Blocks follow, each after its length. Some clients send a bare block."""
XERIAL_BLOCK_BYTES = 32 * 1024
GZIP_MEMBERS_MAX, SNAPPY_BLOCKS_MAX, ZSTD_FRAMES_MAX = 100, 1_000, 1_000
"""Limits for the compressed parts of a batch: even empty parts take time. Differs from Kafka: Kafka has no limit."""
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LZ4_FLAGS = 4
"""Position of the flag byte of an lz4 frame, the first byte of the frame descriptor."""
LZ4_INDEPENDENT_BLOCKS = 0x20
IS_FULL = "failed to write whole buffer"
"""cramjam's error message when the decompressed data exceeds its buffer."""

_BLOCK_LENGTH = struct.Struct(">i")


class BadStream(Exception):
    """The error for compressed data that is incomplete, or not in the codec's format."""


class TooMuchInside(Exception):
    """The error for data with too many decompressed bytes or parts, raised before all of the data is in memory."""


def decompress(codec: str, body: bytes | memoryview, limit_bytes: int) -> bytes:
    """Return the decompressed data.

    Args:
        codec: one of CODECS.

    Raises:
        BadStream: if `body` is not in the codec's format.
        TooMuchInside: if the data has more than `limit_bytes` or too many parts.
    """
    if codec == "none":
        return bytes(body)
    return _DECOMPRESS[codec](body, limit_bytes)


def compress(codec: str, content: bytes | bytearray) -> bytes:
    """Return the compressed data in the format of Kafka's clients. Equal content gives equal bytes."""
    return _COMPRESS[codec](bytes(content))


def _gunzip(body: bytes | memoryview, limit_bytes: int) -> bytes:
    """Decompress all members of a gzip stream, and ignore trailing bytes (GZIPInputStream.readTrailer)."""
    parts: list[bytes] = []
    rest: bytes | memoryview = body
    for _ in range(GZIP_MEMBERS_MAX):
        inflater = zlib.decompressobj(wbits=31)
        try:
            # One byte more than the limit shows whether there is more data; 0 would mean no limit.
            parts.append(inflater.decompress(rest, limit_bytes + 1))
        except zlib.error as error:
            raise BadStream(f"gzip: {error}") from error
        limit_bytes -= len(parts[-1])
        if limit_bytes < 0:
            raise TooMuchInside("gzip")
        if not inflater.eof:
            raise BadStream("gzip: the stream is cut short")
        rest = inflater.unused_data
        if not rest.startswith(GZIP_MAGIC):
            return b"".join(parts)
    raise TooMuchInside("gzip")


def _unsnappy(body: bytes | memoryview, limit_bytes: int) -> bytes:
    content = bytes(body)
    if not content.startswith(XERIAL_MAGIC):
        return _snappy_block(content, limit_bytes)
    parts: list[bytes] = []
    position = len(XERIAL_HEADER)
    if content.count(XERIAL_MAGIC) > SNAPPY_BLOCKS_MAX:
        raise TooMuchInside("snappy")
    while position + _BLOCK_LENGTH.size <= len(content):
        if content.startswith(XERIAL_MAGIC, position):  # two streams, one after the other
            position += len(XERIAL_HEADER)
            continue
        (length,) = _BLOCK_LENGTH.unpack_from(content, position)
        position += _BLOCK_LENGTH.size
        if not 0 <= length <= len(content) - position:
            raise BadStream(f"snappy: a block claims {length} bytes, but only {len(content) - position} are left")
        if len(parts) == SNAPPY_BLOCKS_MAX:
            raise TooMuchInside("snappy")
        parts.append(_snappy_block(content[position : position + length], limit_bytes))
        limit_bytes -= len(parts[-1])
        position += length
    return b"".join(parts)


def _snappy_block(block: bytes, limit_bytes: int) -> bytes:
    """Decompress one block. Its content must have the length that the block states."""
    try:
        if cramjam.snappy.decompress_raw_len(block) > limit_bytes:
            raise TooMuchInside("snappy")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise BadStream(f"snappy: {error}") from error


def _unlz4(body: bytes | memoryview, limit_bytes: int) -> bytes:
    if len(body) > LZ4_FLAGS and not body[LZ4_FLAGS] & LZ4_INDEPENDENT_BLOCKS:
        raise BadStream("lz4: the blocks depend on each other, which Kafka cannot read")
    return _into_buffer("lz4", cramjam.lz4.decompress_into, body, limit_bytes)


def _unzstd(body: bytes | memoryview, limit_bytes: int) -> bytes:
    if not len(body):
        return b""  # an empty stream is no error (ZstdInputStream)
    if bytes(body).count(ZSTD_MAGIC) > ZSTD_FRAMES_MAX:
        raise TooMuchInside("zstd")
    return _into_buffer("zstd", cramjam.zstd.decompress_into, body, limit_bytes)


def _into_buffer(
    codec: str, decompress_into: Callable[[bytes | memoryview, bytearray], int], body: bytes | memoryview, limit: int
) -> bytes:
    """Decompress into a buffer of `limit` bytes. Only the written part of the buffer uses memory."""
    buffer = bytearray(limit)
    try:
        size = decompress_into(body, buffer)
    except cramjam.DecompressionError as error:
        if IS_FULL in str(error):
            raise TooMuchInside(codec) from error
        raise BadStream(f"{codec}: {error}") from error
    with memoryview(buffer) as view:
        return bytes(view[:size])


def _snappy(content: bytes) -> bytes:
    out = [XERIAL_HEADER]
    for position in range(0, len(content), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(content[position : position + XERIAL_BLOCK_BYTES]))
        out += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(out)


def _lz4(content: bytes) -> bytes:
    compressor = cramjam.lz4.Compressor(block_linked=False)
    compressor.compress(content)
    return bytes(compressor.finish())


_DECOMPRESS: dict[str, Callable[[bytes | memoryview, int], bytes]] = {
    "gzip": _gunzip,
    "snappy": _unsnappy,
    "lz4": _unlz4,
    "zstd": _unzstd,
}
_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda content: gzip.compress(content, mtime=0),
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": lambda content: bytes(cramjam.zstd.compress(content)),
}
