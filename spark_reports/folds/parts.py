"""One file of a table of the trace: what may be in it, by its statistics, and its columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

KEY = ("topic", "partition")


class DamagedPart(Exception):
    """The file of a trace that cannot be read, or has values of another type."""


def parts_of(run_dir: str | Path, table: str) -> list[Path]:
    """The files of a table of a run's trace, in order."""
    return sorted(Path(run_dir, "trace", table).glob("part-*.parquet"))


def about(part: Path) -> pq.FileMetaData:
    """Its statistics. raises: DamagedPart"""
    try:
        return pq.read_metadata(part)
    except (pa.ArrowException, OSError) as error:
        raise DamagedPart(str(part)) from error


def may_have(about: pq.FileMetaData, place: int, shares: int) -> bool:
    """Whether a file may have events of this share. The logs at the end of a run are written replica by replica:
    others' are skipped."""
    for number in range(about.num_row_groups):
        topics, partitions = (_bounds(about.row_group(number), column) for column in KEY)
        if topics is None or partitions is None or topics[0] != topics[1]:
            return True
        first, last = (crc32(topics[0].encode()) + partition for partition in partitions)
        if first + (place - first) % shares <= last:  # The next number of this share.
            return True
    return False


def lowest(about: pq.FileMetaData, column: str) -> int | None:
    """The least value of a column of integers in a file; None if that is unknown."""
    bounds = [_bounds(about.row_group(number), column) for number in range(about.num_row_groups)]
    known = [bound[0] for bound in bounds if bound is not None]
    return min(known, default=None) if len(known) == len(bounds) else None


def _bounds(group: pq.RowGroupMetaData, column: str) -> tuple[Any, Any] | None:
    """The least and the largest value, if the file says so."""
    for place in range(group.num_columns):
        one = group.column(place)
        if one.path_in_schema == column:
            known = one.statistics
            return (known.min, known.max) if known is not None and known.has_min_max else None
    return None


def read_part(part: Path, schema: pa.Schema) -> pa.Table:
    """The columns of `schema` from a file; those that it lacks are null.

    raises: DamagedPart
    """
    words = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    try:
        with pq.ParquetFile(part, read_dictionary=words) as file:
            there = [name for name in schema.names if name in file.schema_arrow.names]
            stored = file.read(there, use_threads=False)
            count = file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise DamagedPart(str(part)) from error
    columns = []
    for field in schema:
        if field.name not in there:
            columns.append(pa.nulls(count, field.type))
        elif plain(field.type) == plain(stored[field.name].type):
            columns.append(stored[field.name].cast(field.type))
        else:
            raise DamagedPart(str(part))
    return pa.table(columns, schema=schema)


def plain(kind: pa.DataType) -> pa.DataType:
    """Without the name of a list's elements, and whether they may be null."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_type)
    return kind.value_type if pa.types.is_dictionary(kind) else kind
