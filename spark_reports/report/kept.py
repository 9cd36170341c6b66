"""Texts that take long to make and are always the same, kept in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Of all that Highwater keeps for the user. raises: RuntimeError if the user has no home"""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "highwater"


def kept(name: str, make: Callable[[], str]) -> str:
    """The text kept under this name, or else made and kept; a damaged one is made again.

    A cache that cannot be read or written only costs time.
    name: states all that the text depends on
    """
    name = _digest(name.encode()).decode()
    with contextlib.suppress(OSError, RuntimeError):
        digest, _, stored = (cache_folder() / name).read_bytes().partition(b"\n")
        if digest == _digest(stored):
            return stored.decode()
    text = make()
    with contextlib.suppress(OSError, RuntimeError):
        _keep(cache_folder() / name, text.encode())
    return text


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _keep(file: Path, text: bytes) -> None:
    """Whole or not at all, for other processes may be reading it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        written = Path(scratch) / file.name
        written.write_bytes(_digest(text) + b"\n" + text)
        written.replace(file)
