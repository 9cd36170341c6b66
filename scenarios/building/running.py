"""Which build runs here: compiled modules, or plain Python."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import NamedTuple

from replica import plain_python

NOTE = "built.json"
"""Beside this module where there are compiled ones; written with them."""


class Build(NamedTuple):
    """mypyc: the version that compiled the installed modules, None where there are none     modules: how many
    is_pure: HIGHWATER_PURE leaves them aside
    """

    mypyc: str | None
    modules: int
    is_pure: bool

    @property
    def is_compiled(self) -> bool:
        """This process runs compiled modules."""
        return self.mypyc is not None and not self.is_pure

    def __str__(self) -> str:
        if self.mypyc is None:
            return "plain Python"
        if self.is_pure:
            return f"plain Python ({plain_python.VARIABLE} is set; {self.modules} modules are compiled)"
        return f"compiled with mypyc {self.mypyc}: {self.modules} modules"


def build_here() -> Build:
    note = files("scenarios.building") / NOTE
    is_pure = plain_python.is_asked_for()
    if not note.is_file():
        return Build(None, 0, is_pure)
    found = json.loads(note.read_text(encoding="utf-8"))
    return Build(found["mypyc"], found["modules"], is_pure)
