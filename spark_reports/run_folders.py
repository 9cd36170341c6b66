"""Run folders, as far as they can be judged before a module of Spark's or Arrow's is there."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

_MADE_OF = "made-of.json"
"""Beside the result tables of a report: the traces that they follow from, and the code that made them."""


class RunFolderUnusable(Exception):
    """A folder that does not hold a whole run, or two runs of one name."""


def trace_bytes(run_dirs: Sequence[Path], tables: Sequence[str] = ("*",)) -> int:
    """How long the traces are, compressed; or these tables of them."""
    parts = [part for run_dir in run_dirs for name in tables for part in run_dir.glob(f"trace/{name}/part-*.parquet")]
    return sum(part.stat().st_size for part in parts)


def must_be_told_apart(run_dirs: Sequence[Path]) -> None:
    """raises: RunFolderUnusable"""
    names = [run_dir.resolve().name for run_dir in run_dirs]
    for name in names:
        if names.count(name) > 1:
            raise RunFolderUnusable(f"two runs are called {name!r}: the report names runs by their folders")


def note_what_tables_are_made_of(run_dirs: Sequence[Path], tables: Path) -> None:
    """So that `tables_kept` finds them. raises: OSError"""
    made_of = {"code": _code(), "traces": {run_dir.resolve().name: _trace_sha256(run_dir) for run_dir in run_dirs}}
    (tables / _MADE_OF).write_text(json.dumps(made_of, indent=2) + "\n", encoding="utf-8")


def tables_kept(run_dirs: Sequence[Path]) -> dict[Path, list[str]]:
    """Folders of result tables beside these runs, which this code made of their traces; with the names of the runs that
    each is to be asked about. Runs without tables are in none.
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
    """Digest of the code that tables follow from."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for source in sorted([*here.rglob("*.py"), *(here.parent / "replica" / "trace").glob("*.py")]):
        digest.update(source.relative_to(here.parent).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
