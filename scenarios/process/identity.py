"""Identifies the code that determines a run's trace: Highwater's own code, Python, and some libraries.

Two processes with the same identity produce the same trace, byte for byte, from the same scenario and seed.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable

PACKAGES = ("replica", "controller", "cluster", "scenarios")
LIBRARIES = ("trio", "kio", "crc32c", "networkx", "pyyaml", "pyarrow")


@lru_cache(maxsize=1)
def identity() -> dict[str, str]:
    """Return the digest of Highwater's code, and the versions of Python and the libraries, by name.

    Raises:
        ModuleNotFoundError: a library is missing.
    """
    digest = hashlib.sha256()
    for package in PACKAGES:
        for name, source in _sources(files(package), package):
            digest.update(name.encode() + b"\0" + source + b"\0")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"code": digest.hexdigest()[:16], "python": python, **{name: version(name) for name in LIBRARIES}}


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the Python files below `folder`, sorted by name. The folder may be in a zip file."""
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        below = f"{name}/{entry.name}"
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry, below)
        elif entry.name.endswith(".py"):
            yield below, entry.read_bytes()
