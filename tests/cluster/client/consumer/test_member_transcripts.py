"""Members of groups, of either protocol, against their transcripts: tests/golden/member_*.txt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from member_world import MemberWorld

TRANSCRIPTS = sorted((Path(__file__).parents[3] / "golden").glob("member_*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, transcript: Callable[[Path, object], None]) -> None:
    transcript(path, MemberWorld())
