"""Check run folders, as far as possible without importing Spark or Arrow."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from replica.trace.events import OBSERVED_BY

_MADE_OF = "made-of.json"
"""File beside a report's result tables with digests of the traces and of the code that made them."""


class RunFolderUnusable(Exception):
    """A folder does not contain a complete run, or two runs have the same name."""


def trace_bytes(run_dirs: Sequence[Path], tables: Sequence[str] = ("*",)) -> int:
    """Return the compressed size in bytes of the traces, or only of the named tables."""
    parts = [part for run_dir in run_dirs for name in tables for part in run_dir.glob(f"trace/{name}/part-*.parquet")]
    return sum(part.stat().st_size for part in parts)


def must_be_told_apart(run_dirs: Sequence[Path]) -> None:
    """Raise RunFolderUnusable if two runs have the same name."""
    names = [run_dir.resolve().name for run_dir in run_dirs]
    for name in names:
        if names.count(name) > 1:
            raise RunFolderUnusable(
                f"two run folders are called {name!r}, and a report needs different names: rename one of them"
            )


def is_observed(run_dir: Path) -> bool:
    """Return True for a run on real Kafka, whose trace has one more column. Return False if it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for part in sorted((run_dir / "trace" / "control").glob("part-*.parquet"))[:1]:
        with contextlib.suppress(pa.ArrowException, OSError):
            return OBSERVED_BY.name in pq.read_schema(part).names
    return False


def note_what_tables_are_made_of(run_dirs: Sequence[Path], tables: Path) -> None:
    """Write digests of the traces and of the code that made these result tables, for tables_kept(). Raises OSError."""
    made_of = {"code": _code(), "traces": {run_dir.resolve().name: _trace_sha256(run_dir) for run_dir in run_dirs}}
    (tables / _MADE_OF).write_text(json.dumps(made_of, indent=2) + "\n", encoding="utf-8")


def tables_kept(run_dirs: Sequence[Path]) -> dict[Path, list[str]]:
    """Return existing folders of result tables, each with the names of the runs to read from it.

    The folders belong to reports in the run folders. Only tables that this version of the code made from the current
    traces count. Runs without such tables are left out.
    """
    kept: dict[Path, list[str]] = {}
    folders = {run_dir / "report" / "tables": None for run_dir in run_dirs}
    made_of = {folder: traces for folder in folders if (traces := _traces_of(folder))}
    for run_dir in run_dirs:
        name, digest = run_dir.resolve().name, _trace_sha256(run_dir)
        for folder, traces in made_of.items():
            if digest is not None and traces.get(name) == digest:
                kept.setdefault(folder, []).append(name)
                break
    return kept


def _traces_of(tables: Path) -> Mapping[str, object]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        made_of = json.loads((tables / _MADE_OF).read_text(encoding="utf-8"))
        if isinstance(made_of, dict) and made_of.get("code") == _code() and isinstance(made_of.get("traces"), dict):
            return dict(made_of["traces"])
    return {}


def _trace_sha256(run_dir: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        summary = json.loads((run_dir / "summary.json").read_text(encoding="utf-8"))
        digest = summary.get("trace_sha256") if isinstance(summary, dict) else None
        return digest if isinstance(digest, str) else None
    return None


@functools.cache
def _code() -> str:
    """Return a digest of the code that makes the tables."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for source in sorted([*here.rglob("*.py"), *(here.parent / "replica" / "trace").glob("*.py")]):
        digest.update(source.relative_to(here.parent).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
