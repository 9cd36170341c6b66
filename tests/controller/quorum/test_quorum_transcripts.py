"""The quorum's transcripts, tests/golden/quorum_*.txt: several controllers, one millisecond apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from quorum_world import QuorumWorld

from controller.quorum.messages import AddVoter, RemoveVoter
from controller.quorum.roles import QuorumConfig

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "golden").glob("quorum_*.txt"))


class QuorumVerbs:
    """Verbs of the transcripts. Times are since the beginning."""

    def __init__(self) -> None:
        self._world: QuorumWorld

    def quorum(self, voters: int, seed: int = 0, observers: int | None = None, joins: int = 0, tells: int = 0) -> None:
        config = QuorumConfig(auto_join=bool(joins), tells_directory=bool(tells))
        self._world = QuorumWorld(voters, seed, asks_first=observers is not None, observers=observers, config=config)
        for voter in self._world.ids:
            self._world.start(voter)

    def until(self, at_us: int) -> list[str]:
        told = len(self._world.story)
        self._world.run_until(at_us)
        return self._world.story[told:]

    def kill(self, name: str) -> None:
        self._world.kill(int(name[1:]))

    def start(self, name: str) -> None:
        self._world.start(int(name[1:]))

    def isolate(self, name: str) -> None:
        alone = int(name[1:])
        self._world.passes = lambda sender, receiver: alone not in (sender, receiver)

    def heal(self) -> None:
        self._world.passes = lambda sender, receiver: True

    def decide(self, name: str, what: str) -> None:
        self._world.append(int(name[1:]), what)

    def snapshot(self, name: str) -> None:
        """Of all that is committed; the log is cut behind it."""
        self._world.take_snapshot(int(name[1:]))

    def add(self, leader: str, name: str) -> list[str]:
        return self._change(leader, AddVoter(self._world.replica(int(name[1:]))))

    def remove(self, leader: str, name: str) -> list[str]:
        return self._change(leader, RemoveVoter(self._world.replica(int(name[1:]))))

    def _change(self, leader: str, request: AddVoter | RemoveVoter) -> list[str]:
        told = len(self._world.story)
        self._world.change(int(leader[1:]), request)
        return self._world.story[told:]

    def upgrade(self, leader: str) -> list[str]:
        told = len(self._world.story)
        self._world.upgrade(int(leader[1:]))
        return self._world.story[told:]

    def disk(self, name: str) -> None:
        self._world.new_disk(int(name[1:]))

    def logs(self) -> list[str]:
        lines = []
        for voter_id, voter in self._world.voters.items():
            start = voter.log.start_offset
            entries = ("... " if start else "") + ", ".join(
                f"{epoch}:{payload}" for epoch, payload in voter.log.entries[start:]
            )
            quorum = voter.quorum
            role = "down" if quorum is None else f"{type(quorum.role).__name__.lower()} of epoch {quorum.epoch}"
            hw = "" if quorum is None else f", HW {quorum.high_watermark}"
            lines.append(f"c{voter_id}  {role}{hw}  [{entries}]")
        return lines


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, transcript: Callable[[Path, object], None]) -> None:
    transcript(path, QuorumVerbs())
