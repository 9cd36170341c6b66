"""The bundled scenarios for tests that look at all of them."""

from __future__ import annotations

from functools import cache

from scenarios.language.parse.catalogue import bundled
from scenarios.language.parse.loading import load_file
from scenarios.language.spec import ScenarioFile


@cache
def bundled_files() -> list[ScenarioFile]:
    """Each with its variants, loaded once in a process."""
    return [load_file(path) for path in bundled().values()]
