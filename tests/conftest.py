"""Golden transcripts for all tests: `pytest --rewrite` accepts what the code does today."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from golden_runner import check_transcript


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what happened into the golden transcripts")


@pytest.fixture
def transcript(request: pytest.FixtureRequest) -> Callable[[Path, object], None]:
    """Play a transcript of tests/golden against a world of verbs."""
    rewrite = bool(request.config.getoption("--rewrite"))
    return lambda path, world: check_transcript(path, world, rewrite=rewrite)
