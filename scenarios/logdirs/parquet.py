"""Writes the tables of a reading as Parquet files for Spark. Batches are written while their logs are read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from scenarios.logdirs.reading import Reading
from scenarios.logdirs.replica_log import ReplicaPlace
from scenarios.logdirs.segment_scan import StoredBatch
from scenarios.logdirs.tables import BATCHES, COLUMNS, tables
from scenarios.observe.trace_writer import column

ROW_GROUP_ROWS = 20_000
_TYPES = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


class ParquetTables:
    """A writer of a folder with one Parquet file per table. The files have temporary names until all are complete.

    with ParquetTables(folder) as written:
        reading = read(..., on_batch=written.add_batch)
        written.write(reading)
    """

    def __init__(self, folder: Path) -> None:
        """Create the folder. This and all methods that write raise OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._batches = _Table(self._temporary("batches"), BATCHES)

    def _temporary(self, name: str) -> Path:
        return self._folder / f".{name}-{os.getpid()}.tmp"

    def add_batch(self, replica_place: ReplicaPlace, batch: StoredBatch) -> None:
        header = batch.header
        self._batches.add(
            (
                replica_place.node,
                *replica_place.topic_partition,
                batch.file.base_offset,
                batch.position,
                header.base_offset,
                header.last_offset,
                header.leader_epoch,
                header.size_bytes,
                header.record_count,
                header.crc,
                header.codec,
                header.base_timestamp,
                header.max_timestamp,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.is_transactional,
                header.is_control,
            )
        )

    def write(self, reading: Reading) -> None:
        for name, rows in tables(reading).items():
            table = _Table(self._temporary(name), COLUMNS[name])
            try:
                for row in rows:
                    table.add(tuple(row.values()))
            finally:
                table.close()
        self._batches.close()
        for name in (*COLUMNS, "batches"):
            self._temporary(name).replace(self._folder / f"{name}.parquet")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._batches.close()
        for name in (*COLUMNS, "batches"):
            self._temporary(name).unlink(missing_ok=True)


class _Table:
    def __init__(self, path: Path, columns: Mapping[str, type]) -> None:
        self._schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[Sequence[Any]] = []

    def add(self, row: Sequence[Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        values = zip(*self._rows, strict=True)
        arrays = [column(list(item), field.type) for item, field in zip(values, self._schema, strict=True)]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._rows.clear()

    def close(self) -> None:
        """Close the file. Further calls do nothing."""
        if self._writer.is_open:
            self._flush()
            self._writer.close()
