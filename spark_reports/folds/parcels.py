"""Rows on their way from the tasks that find them to the tasks that need them together: many as one value.

A value is a few rows of one share in Arrow's own format. Of long traces it stands in a file, and Spark's shuffle gets
only its place: the JVM would take longer to pass it on than the tasks take to make it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spark_reports.folds.files import WORD

PARCELS = "share bigint, rows binary, file string, first bigint, bytes bigint"
"""DDL: the number of a share, and some rows of it; or the file in which they stand, and where."""
_PARCELS = pa.schema(
    [("share", pa.int64()), ("rows", pa.binary()), ("file", pa.string()), ("first", pa.int64()), ("bytes", pa.int64())]
)
_NOTHING = pa.schema([("what", WORD)]).empty_table()

NumbersOf = Callable[[pa.Table], Any]
"""A number for each row; rows of one number modulo the shares are of one share."""

Part = tuple[int, pa.Table]
"""A share's number, and rows of it."""


def apart(rows: pa.Table, numbers_of: NumbersOf, shares: int, first: int = 0) -> Iterator[Part]:
    """The rows of each share that has any. first: the number of the first of the shares"""
    if not len(rows):
        return
    share = (numbers_of(rows) % shares).astype(np.uint16)
    together = rows.take(pa.array(np.argsort(share, kind="stable"))).combine_chunks()
    counts = np.bincount(share, minlength=shares)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    for place in np.flatnonzero(counts).tolist():
        yield first + place, together.slice(bounds[place], counts[place])


def nothing_for_each(shares: int) -> Iterator[Part]:
    """Of every share a part without rows: a share that is sent nothing is there, too."""
    return ((share, _NOTHING) for share in range(shares))


def parcels(parts: Iterator[Part], file: Path | None = None) -> Iterator[pa.RecordBatch]:
    """A parcel of each part. out: PARCELS

    file: it gets the rows, and is there as a whole or not at all
    """
    if file is None:
        for share, rows in parts:
            yield _batch([share], [_packed(rows).to_pybytes()], None, [0], [0])
        return
    shares, sizes = [], []
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as written:
        for share, rows in parts:
            sizes.append(written.write(_packed(rows)))
            shares.append(share)
    Path(written.name).replace(file)
    firsts = np.cumsum([0, *sizes])[:-1]
    yield _batch(shares, [None] * len(shares), str(file), firsts, sizes)


def _packed(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(rows)
    return sink.getvalue()


def _batch(shares: Any, rows: list[bytes | None], file: str | None, firsts: Any, sizes: Any) -> pa.RecordBatch:
    files = pa.repeat(pa.scalar(file, pa.string()), len(shares))
    columns = [pa.array(shares, pa.int64()), pa.array(rows, pa.binary()), files]
    columns += [pa.array(firsts, pa.int64()), pa.array(sizes, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=_PARCELS)


def unpacked(parcels: pa.Table) -> pa.Table:
    """All rows of these parcels; those that lack a column of others have null there."""
    return _together(list(_tables(parcels)))


def unpacked_by_kind(parcels: pa.Table) -> dict[str, pa.Table]:
    """The rows of parcels of which each has rows of one `what`, by that."""
    found: dict[str, list[pa.Table]] = {}
    for rows in _tables(parcels):
        if len(rows):
            found.setdefault(rows["what"][0].as_py(), []).append(rows)
    return {what: _together(tables) for what, tables in found.items()}


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()


def _tables(parcels: pa.Table) -> Iterator[pa.Table]:
    for parcel in parcels.to_batches():
        inside, files = parcel.column("rows"), parcel.column("file").to_pylist()
        firsts, sizes = parcel.column("first").to_pylist(), parcel.column("bytes").to_pylist()
        for place, file in enumerate(files):
            rows = inside[place].as_buffer() if file is None else _read(file, firsts[place], sizes[place])
            yield pa.ipc.open_stream(rows).read_all()


def _read(file: str, first: int, size: int) -> bytes:
    with Path(file).open("rb") as stored:
        stored.seek(first)
        return stored.read(size)
