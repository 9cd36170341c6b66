"""Our own code as one zip for the workers of a cluster, which need only the libraries installed."""

from __future__ import annotations

import py_compile
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

PACKAGES = ("replica", "controller", "cluster", "scenarios", "spark_reports")


def write_code_zip(path: Path) -> None:
    """Every file of our packages, and each module compiled beside its source: a zip caches no compiled modules."""
    with tempfile.TemporaryDirectory(prefix="highwater-") as scratch, zipfile.ZipFile(path, "w", _DEFLATED) as archive:
        for package in PACKAGES:
            for name, content in _files(files(package), package):
                archive.writestr(name, content)
                if name.endswith(".py"):
                    archive.write(_compiled(name, content, Path(scratch)), f"{name}c")


_DEFLATED = zipfile.ZIP_DEFLATED


def _compiled(name: str, source: bytes, scratch: Path) -> Path:
    module, compiled = scratch / "module.py", scratch / "module.pyc"
    module.write_bytes(source)
    # Unchecked: the source lies beside it in the same zip, and modification times mean nothing there.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(module), str(compiled), dfile=name, doraise=True, invalidation_mode=mode)
    return compiled


def _files(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.name == "__pycache__" or entry.name.endswith(".pyc"):
            continue
        if entry.is_dir():
            yield from _files(entry, f"{name}/{entry.name}")
        else:
            yield f"{name}/{entry.name}", entry.read_bytes()
