"""Read and write the folder of a sweep, which has its inputs and the rows of its runs.

sweep.json                scenario, settings of all runs, and the software that made the rows
rows/part-NNNNN.parquet   one row per run, each run only once; written under a hidden name, then renamed
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reports.sweep.rows import COLUMNS, PASSING, Columns, Run, arrow_rows_schema, key_of

AnyRun = TypeVar("AnyRun", bound=tuple[Any, ...])
FORMAT = 1
PART_EVERY_S = 5.0
"""Seconds between files of rows; a killed sweep loses the rows that are not written yet."""
_MANIFEST = "sweep.json"
_LOCK = ".lock"


class SweepFolderUnusable(Exception):
    """The folder belongs to another sweep or version, is in use, or cannot be read. The message says why."""


class SweepFolder:
    """The folder of one sweep, locked for other commands. `close` writes the rows that are still in memory."""

    def __init__(
        self,
        path: Path,
        about: Mapping[str, Any],
        *,
        resume: bool,
        columns: Columns = COLUMNS,
        fields: Sequence[str] = Run._fields,
    ) -> None:
        """Open the folder.

        Args:
            about: everything that decides the rows besides a run's own settings and seed, as JSON values.
            resume: True to continue a sweep with the same `about`; False if the folder must not have rows.
            columns: columns of the rows.
            fields: names of the columns that identify a run.

        Raises:
            SweepFolderUnusable, OSError
        """
        self.path = path
        self._schema = arrow_rows_schema(columns)
        self._fields = list(fields)
        self.rows_dir = path / "rows"
        self.rows_dir.mkdir(parents=True, exist_ok=True)
        self._lock = (path / _LOCK).open("w")
        self._waiting: list[pa.Table] = []
        self._written_s = time.monotonic()
        self.counted = 0
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise SweepFolderUnusable(f"another command is writing to {path}") from None
        try:
            self._open(about, resume)
        except BaseException:
            self._lock.close()
            raise

    def _open(self, about: Mapping[str, Any], resume: bool) -> None:
        parts = self._parts()
        for left in self.rows_dir.glob(".part-*"):
            left.unlink()
        if parts and not resume:
            raise SweepFolderUnusable(
                f"{self.path} has rows of an earlier sweep: use --resume to continue it, or choose another --out DIR"
            )
        if parts:
            _must_be_the_same(self.path, self._manifest(), about)
            self._drop_passing(parts)
        self._replace(self.path / _MANIFEST, json.dumps({"format": FORMAT, **about}, indent=2) + "\n")
        numbers = [int(part.stem.removeprefix("part-")) for part in parts]
        self._next_part = max(numbers, default=-1) + 1

    def _manifest(self) -> dict[str, Any]:
        try:
            manifest = json.loads((self.path / _MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SweepFolderUnusable(f"{self.path / _MANIFEST} cannot be read: {error}") from error
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise SweepFolderUnusable(
                f"{self.path} was written by a different version of Highwater: choose another --out DIR"
            )
        return manifest

    def _parts(self) -> list[Path]:
        return sorted(self.rows_dir.glob("part-*.parquet"))

    def _drop_passing(self, parts: Sequence[Path]) -> None:
        """Remove rows with a status in PASSING; these runs will be played again."""
        for part in parts:
            rows = self._read(part)
            kept = rows.filter(pc.invert(pc.is_in(rows["status"], pa.array(PASSING))))
            if kept.num_rows < rows.num_rows:
                self._write(part, kept)

    @property
    def has_rows(self) -> bool:
        return bool(self._parts())

    def missing(self, runs: Sequence[AnyRun]) -> list[AnyRun]:
        """Return the runs that have no row in the folder, in the same order."""
        keys = (_read(part, self._fields) for part in self._parts())
        known = {key_of(row, self._fields) for rows in keys for row in rows.to_pylist()}
        return [run for run in runs if run not in known]

    def rows(self) -> pa.Table:
        """Return all rows in the folder, even of runs that the current command did not ask for."""
        return pa.concat_tables([self._schema.empty_table(), *map(self._read, self._parts())])

    def rows_of(self, runs: Collection[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        """Yield the rows of these runs that are in the folder, in the order in which they were written."""
        for part in self._parts() if runs else ():
            for row in self._read(part).to_pylist():
                if key_of(row, self._fields) in runs:
                    yield row

    def add(self, rows: pa.Table) -> None:
        """Add rows in memory, and write them to a file if PART_EVERY_S has passed. Raises OSError."""
        self._waiting.append(rows.cast(self._schema))
        if time.monotonic() - self._written_s >= PART_EVERY_S:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            self._write(self.rows_dir / f"part-{self._next_part:05d}.parquet", rows)
            self._next_part += 1
            self._waiting = []
        self._written_s = time.monotonic()

    def close(self) -> None:
        try:
            self.flush()
            if not self._parts():
                self._remove()
        finally:
            self._lock.close()

    def _remove(self) -> None:
        """Remove the files of a sweep without rows, and its folder unless it has other files."""
        for name in (_MANIFEST, _LOCK):
            (self.path / name).unlink(missing_ok=True)
        for folder in (self.rows_dir, self.path):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _read(self, part: Path) -> pa.Table:
        return _read(part, self._schema.names)

    def _write(self, part: Path, rows: pa.Table) -> None:
        temporary = part.with_name(f".{part.name}")
        pq.write_table(rows, temporary, compression="zstd")
        temporary.replace(part)

    def _replace(self, path: Path, text: str) -> None:
        temporary = path.with_name(f".{path.name}")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)


def _read(part: Path, columns: Sequence[str]) -> pa.Table:
    try:
        return pq.ParquetFile(part).read(columns=list(columns))
    except (OSError, pa.ArrowException, KeyError) as error:
        raise SweepFolderUnusable(f"{part} cannot be read: {error}") from error


def _must_be_the_same(folder: Path, found: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    differing = [key for key in about if found.get(key) != about[key]]
    if differing:
        raise SweepFolderUnusable(
            f"the rows in {folder} differ from this sweep in {', '.join(differing)}; "
            "choose another --out DIR, or delete the folder"
        )
