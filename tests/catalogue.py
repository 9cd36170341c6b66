"""The bundled scenarios for tests that look at all of them."""

from __future__ import annotations

from functools import cache

from scenarios.language.parse.catalogue import bundled, find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.language.spec import ScenarioFile


@cache
def bundled_file(name: str) -> ScenarioFile:
    """With its variants, loaded once in a process: nothing in it can be changed but by making a new one."""
    return load_file(find_scenario(name))


def bundled_files() -> list[ScenarioFile]:
    """Load all of them: three seconds, so never while tests are collected."""
    return [bundled_file(name) for name in bundled()]
