"""The controller's transcripts, tests/golden/controller_*.txt (style.md section 5)."""

from __future__ import annotations

from pathlib import Path

import pytest
from controller_transcript import ControllerTranscript

TRANSCRIPTS = sorted((Path(__file__).parent.parent / "golden").glob("controller_*.txt"))


def replay(text: str) -> str:
    """The transcript as it comes out today: per block its comments and commands, `----`, and what they printed."""
    transcript, blocks = ControllerTranscript(), []
    for block in text.strip().split("\n\n"):
        script = block.split("\n----")[0].splitlines()
        lines = [line for command in script if not command.startswith("#") for line in transcript.run(command)]
        blocks.append("\n".join([*script, "----", *(lines or ["ok"])]))
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    told = replay(path.read_text())
    if request.config.getoption("--rewrite", default=False):
        path.write_text(told)
    assert told == path.read_text()
