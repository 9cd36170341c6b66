"""Rows on their way from the tasks that find them to the tasks that need them together: many as one value.

A value is a few rows of one share in Arrow's own format. Of long traces it stands in a file, and Spark's shuffle gets
only its place: the JVM would take longer to pass it on than the tasks take to make it.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.folds.files import WORD, together

PARCELS = "share bigint, rows binary, file string, first bigint, bytes bigint, lowest bigint"
"""DDL: the number of a share, and some rows of it; or the file in which they stand, and where. Of rows in an order:
none is before `lowest`."""
_PARCELS = pa.schema(
    [("share", pa.int64()), ("rows", pa.binary()), ("file", pa.string()), ("first", pa.int64()), ("bytes", pa.int64()),
     ("lowest", pa.int64())]
)  # fmt: skip
_NOTHING = pa.schema([("what", WORD)]).empty_table()

NumbersOf = Callable[[pa.Table], Any]
"""A number for each row; rows of one number modulo the shares are of one share."""


class Part(NamedTuple):
    """A share's number, and rows of it. lowest: none of them is before it in their order, if they have one"""

    share: int
    rows: pa.Table
    lowest: int | None = None


def apart(
    rows: pa.Table, numbers_of: NumbersOf, shares: int, first: int = 0, along: str | None = None
) -> Iterator[Part]:
    """The rows of each share that has any.

    first: the number of the first of the shares     along: a column of places in an order
    """
    if not len(rows):
        return
    share = (numbers_of(rows) % shares).astype(np.uint16)
    together = rows.take(pa.array(np.argsort(share, kind="stable"))).combine_chunks()
    counts = np.bincount(share, minlength=shares)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    for place in np.flatnonzero(counts).tolist():
        its = together.slice(bounds[place], counts[place])
        yield Part(first + place, its, None if along is None else pc.min(its[along]).as_py())


def cut_along(parts: Iterator[Part], along: str, most: int) -> Iterator[Part]:
    """Each part as parts of so many rows at most. in: rows in the order of the column `along`"""
    for share, rows, _ in parts:
        for begin in range(0, len(rows), most):
            yield Part(share, rows.slice(begin, most), rows[along][begin].as_py())


def nothing_for_each(shares: int) -> Iterator[Part]:
    """Of every share a part without rows: a share that is sent nothing is there, too."""
    return (Part(share, _NOTHING) for share in range(shares))


def parcels(parts: Iterator[Part], file: Path | None = None) -> Iterator[pa.RecordBatch]:
    """A parcel of each part. out: PARCELS

    file: it gets the rows, and is there as a whole or not at all
    """
    if file is None:
        for share, rows, lowest in parts:
            yield _batch([share], [_packed(rows).to_pybytes()], None, [0], [0], [lowest])
        return
    shares, sizes, lows = [], [], []
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as written:
        for share, rows, lowest in parts:
            sizes.append(written.write(_packed(rows)))
            shares.append(share)
            lows.append(lowest)
    Path(written.name).replace(file)
    firsts = np.cumsum([0, *sizes])[:-1]
    yield _batch(shares, [None] * len(shares), str(file), firsts, sizes, lows)


def _packed(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(rows)
    return sink.getvalue()


def _batch(
    shares: Any, rows: list[bytes | None], file: str | None, firsts: Any, sizes: Any, lows: list[int | None]
) -> pa.RecordBatch:
    files = pa.repeat(pa.scalar(file, pa.string()), len(shares))
    columns = [pa.array(shares, pa.int64()), pa.array(rows, pa.binary()), files]
    columns += [pa.array(numbers, pa.int64()) for numbers in (firsts, sizes, lows)]
    return pa.RecordBatch.from_arrays(columns, schema=_PARCELS)


def unpacked(parcels: pa.Table) -> pa.Table:
    """All rows of these parcels."""
    return together([read() for _, read in each_parcel(parcels)])


def each_parcel(parcels: pa.Table) -> Iterator[tuple[int | None, Callable[[], pa.Table]]]:
    """Its `lowest`, and what reads its rows."""
    for some in parcels.to_batches():
        inside, columns = some.column("rows"), (some.column(name).to_pylist() for name in _PARCELS.names[2:])
        for place, (file, first, size, lowest) in enumerate(zip(*columns, strict=True)):
            yield lowest, functools.partial(_rows, None if file else inside[place].as_buffer(), file, first, size)


def _rows(rows: pa.Buffer | None, file: str, first: int, size: int) -> pa.Table:
    return pa.ipc.open_stream(_read(file, first, size) if rows is None else rows).read_all()


def _read(file: str, first: int, size: int) -> bytes:
    with Path(file).open("rb") as stored:
        stored.seek(first)
        return stored.read(size)
