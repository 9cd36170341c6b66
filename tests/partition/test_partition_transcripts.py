"""One partition on three brokers, tests/golden/partition_*.txt: begin with partition_commit.txt, and read on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from partition_world import PartitionWorld

TRANSCRIPTS = sorted((Path(__file__).parent.parent / "golden").glob("partition_*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, transcript: Callable[[Path, object], None]) -> None:
    transcript(path, PartitionWorld())
