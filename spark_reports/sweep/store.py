"""The folder of a sweep: its subject, its rows as Parquet parts, and the runs that it has already.

sweep.json            scenario, settings in force in every run, and the software that made the rows
rows/part-NNNNN.parquet   one row per run, no run twice; written under a hidden name and renamed
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reports.sweep.rows import COLUMNS, PASSING, Columns, Run, arrow_rows_schema, key_of

AnyRun = TypeVar("AnyRun", bound=tuple[Any, ...])
FORMAT = 1
PART_EVERY_S = 5.0
"""How long rows wait for others before a part is written: a killed sweep may lose that much."""
_MANIFEST = "sweep.json"
_LOCK = ".lock"


class SweepFolderUnusable(Exception):
    """The folder holds another sweep, or rows that something else made; the text says what, and what to do."""


class SweepFolder:
    """One sweep's folder, held exclusively; `close` writes the rows still waiting."""

    def __init__(
        self,
        path: Path,
        about: Mapping[str, Any],
        *,
        resume: bool,
        columns: Columns = COLUMNS,
        fields: Sequence[str] = Run._fields,
    ) -> None:
        """about: all inputs of the rows besides their own settings and seed; plain JSON values.

        columns: of the rows     fields: the columns that are the run

        Without `resume` the folder must hold no rows yet; with it, rows of the same `about`.
        raises: SweepFolderUnusable, OSError
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
                f"{self.path} holds rows already: --resume goes on with them, --out DIR begins anew"
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
            raise SweepFolderUnusable(f"{self.path} was written by another version: choose another --out DIR")
        return manifest

    def _parts(self) -> list[Path]:
        return sorted(self.rows_dir.glob("part-*.parquet"))

    def _drop_passing(self, parts: Sequence[Path]) -> None:
        """Runs that the machine, not the run, brought down are missing again."""
        for part in parts:
            rows = self._read(part)
            kept = rows.filter(pc.invert(pc.is_in(rows["status"], pa.array(PASSING))))
            if kept.num_rows < rows.num_rows:
                self._write(part, kept)

    @property
    def has_rows(self) -> bool:
        return bool(self._parts())

    def missing(self, runs: Sequence[AnyRun]) -> list[AnyRun]:
        """Those of `runs` that have no row yet, in their order."""
        keys = (_read(part, self._fields) for part in self._parts())
        known = {key_of(row, self._fields) for rows in keys for row in rows.to_pylist()}
        return [run for run in runs if run not in known]

    def rows(self) -> pa.Table:
        """All rows, of any settings and seeds."""
        return pa.concat_tables([self._schema.empty_table(), *map(self._read, self._parts())])

    def rows_of(self, runs: Collection[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        """Of those that have a row, in the order in which they were written."""
        for part in self._parts() if runs else ():
            for row in self._read(part).to_pylist():
                if key_of(row, self._fields) in runs:
                    yield row

    def add(self, rows: pa.Table) -> None:
        """raises: OSError"""
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
        """A sweep without a row leaves no folder, unless something else is in it."""
        for name in (_MANIFEST, _LOCK):
            (self.path / name).unlink(missing_ok=True)
        for folder in (self.rows_dir, self.path):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
            f"the rows in {folder} are of another {', another '.join(differing)}: "
            "they cannot be mixed with new ones; choose another --out DIR, or delete it"
        )
