"""The controller's transcripts, tests/golden/controller_*.txt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from controller_world import ControllerWorld

TRANSCRIPTS = sorted((Path(__file__).parent.parent / "golden").glob("controller_*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, transcript: Callable[[Path, object], None]) -> None:
    transcript(path, ControllerWorld())
