"""LeaderState against its transcripts, tests/golden/leader_*.txt, and the rules that they do not show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from leader_world import LeaderWorld

TRANSCRIPTS = sorted((Path(__file__).parent.parent / "golden").glob("leader_*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, transcript: Callable[[Path, object], None]) -> None:
    transcript(path, LeaderWorld())
