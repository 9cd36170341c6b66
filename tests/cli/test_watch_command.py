"""`highwater watch`: what it says where there is nothing to watch."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from command import Highwater


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "`nowhere` is not HOST:PORT"),
        (["localhost:70000"], "is not HOST:PORT"),
        (["localhost:1", "--topics", "("], "--topics is not a regular expression"),
        (["localhost:1", "--interval", "1"], "is not a time"),
        (["localhost:1", "--for", "0s"], "`0s` is not between"),
        (["localhost:1", "--fail-on", "nonsense"], "`nonsense` is not a condition; choose one of offline"),
        (["localhost:1", "--fail-on", "hw-stalled:1ms"], "`1ms` is not between 0.5 s"),
        (["localhost:1", "--command-config", "none.properties"], "none.properties cannot be read"),
    ],
)
def test_options_that_mean_nothing(highwater: Highwater, words: list[str], said: str) -> None:
    done = highwater("watch", *words)
    assert done.code == 2 and said in done.err and done.out == ""


def test_a_port_on_which_no_one_listens(highwater: Highwater, tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        done = highwater("watch", f"127.0.0.1:{port}", "--record", "kept")
    assert done.code == 6
    assert f"127.0.0.1:{port} cannot be reached: Connection refused" in done.err
    assert list((tmp_path / "kept").iterdir()) == []
