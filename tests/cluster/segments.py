"""Segments of a frame, joined to the bytes that would leave the socket."""

from __future__ import annotations

from collections.abc import Iterable

from replica.log.files.open_files import FileSlice

Segment = bytes | bytearray | memoryview | FileSlice


def joined(segments: Iterable[Segment]) -> bytes:
    """None of them may be left to sendfile."""
    parts = []
    for segment in segments:
        assert not isinstance(segment, FileSlice)
        parts.append(bytes(segment))
    return b"".join(parts)
