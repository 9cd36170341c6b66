"""Run folders, as far as they can be judged before a module of Spark's or Arrow's is there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class RunFolderUnusable(Exception):
    """A folder that does not hold a whole run, or two runs of one name."""


def trace_bytes(run_dirs: Sequence[Path], tables: Sequence[str] = ("*",)) -> int:
    """How long the traces are, compressed; or these tables of them."""
    parts = [part for run_dir in run_dirs for name in tables for part in run_dir.glob(f"trace/{name}/part-*.parquet")]
    return sum(part.stat().st_size for part in parts)
