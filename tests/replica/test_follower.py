"""FollowerState against its transcripts, tests/golden/follower_*.txt, and the rules that they do not show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from follower_world import FollowerWorld

TRANSCRIPTS = sorted((Path(__file__).parent.parent / "golden").glob("follower_*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, transcript: Callable[[Path, object], None]) -> None:
    transcript(path, FollowerWorld())
