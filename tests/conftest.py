"""Golden transcripts for all tests (`pytest --rewrite` accepts what the code does today), and hypothesis everywhere:

no test asserts time, and an example that failed once is found again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from golden_runner import check_transcript
from hypothesis import settings

settings.register_profile("highwater", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("highwater")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what happened into the golden transcripts")


@pytest.fixture
def transcript(request: pytest.FixtureRequest) -> Callable[[Path, object], None]:
    """Play a transcript of tests/golden against a world of verbs."""
    rewrite = bool(request.config.getoption("--rewrite"))
    return lambda path, world: check_transcript(path, world, rewrite=rewrite)
