"""The first records of a difference, for a screen: short, and with nothing in them that a terminal would obey."""

from __future__ import annotations

import os
from typing import NamedTuple

from replica.errors import KafkaError
from replica.ids import Offset
from replica.log.batches.records import read_records
from replica.wording import spelt_out
from scenarios.logdirs.comparison import LogDifference, Side
from scenarios.logdirs.files import LogDirectoryUnreadable, open_to_read, readable
from scenarios.logdirs.segment_scan import StoredBatch

RECORDS_MAX = 3
TEXT_MAX = 40
BATCH_BYTES_MAX = 4 << 20
INSIDE_BYTES_MAX = 16 << 20
"""A larger batch is not taken apart, for which it would have to be held in memory."""


class Sample(NamedTuple):
    """key, value: None when the record has none"""

    offset: Offset
    key: str | None
    value: str | None


def samples(difference: LogDifference, side: Side) -> list[Sample]:
    """The first few records that one side has of a difference."""
    found: list[Sample] = []
    for batch in side.batches:
        found += [sample for sample in _records(batch) if difference.start <= sample.offset < difference.end]
        if len(found) >= RECORDS_MAX:
            break
    return found[:RECORDS_MAX]


def _records(batch: StoredBatch) -> list[Sample]:
    """[] for a batch that cannot be taken apart: it is counted all the same."""
    if batch.header.size_bytes > BATCH_BYTES_MAX or batch.header.is_control:
        return []
    try:
        fd = open_to_read(batch.file.path)
        try:
            with readable(batch.file.path):
                content = os.pread(fd, batch.header.size_bytes, batch.position)
        finally:
            os.close(fd)
        records = read_records(content, INSIDE_BYTES_MAX)
    except (KafkaError, FileNotFoundError, LogDirectoryUnreadable):
        return []
    return [Sample(record.offset, _text(record.key), _text(record.value)) for record in records]


def _text(content: bytes | None) -> str | None:
    """UTF-8 where it is, other bytes as \\xff; cut off behind so many characters."""
    if content is None:
        return None
    text = spelt_out(content[: 4 * TEXT_MAX].decode(errors="backslashreplace"))
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 3] + "..."
