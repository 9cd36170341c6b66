"""HIGHWATER_PURE=1 in the environment: Highwater runs as plain Python, also where compiled modules lie beside it.

Python takes `leader.cpython-311-x86_64-linux-gnu.so` before `leader.py`. The finder here is asked first and knows only
the `.py`. Children get it with the environment, forked ones with the memory. The four packages import this module
before any other, so that no module of theirs is ever found without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

PACKAGES = ("replica", "controller", "cluster", "scenarios")
"""Those that can be compiled."""
VARIABLE = "HIGHWATER_PURE"


class PlainFinder(MetaPathFinder):
    """Finds modules and packages of Highwater as source alone."""

    def __init__(self) -> None:
        self._folders: dict[str, FileFinder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None, which leaves it to Python's own finders, where there is no source: a namespace, a zip file."""
        if path is None or fullname.partition(".")[0] not in PACKAGES:
            return None
        for folder in path:
            if folder not in self._folders:
                self._folders[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
            spec = self._folders[folder].find_spec(fullname, target)
            if spec is not None and spec.loader is not None:
                return spec
        return None

    def invalidate_caches(self) -> None:
        for finder in self._folders.values():
            finder.invalidate_caches()


def is_asked_for() -> bool:
    return os.environ.get(VARIABLE, "") not in ("", "0")


if is_asked_for():
    sys.meta_path.insert(0, PlainFinder())
