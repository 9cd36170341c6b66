"""Where `highwater fault` finds a running cluster."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scenarios.serve.control_place import STATE_FILE, announced, find_cluster, own_directory


@pytest.fixture
def short_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of announcements; the path of a Unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_nothing_is_left_of_what_cannot_be_announced(tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).mkdir()
    with pytest.raises(OSError, match="directory"), announced(tmp_path, tmp_path, "127.0.0.1:1", 0):
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / STATE_FILE]


def test_a_start_removes_what_killed_clusters_left_and_spares_a_busy_one(short_path: Path) -> None:
    busy, killed = own_directory() / "1.sock", own_directory() / "2.sock"
    own_directory().mkdir(mode=0o700)
    for path in (busy, killed):
        state = {"pid": 1, "socket": str(path), "record": path.stem, "trace": "", "bootstrap": "", "started": 0}
        path.with_suffix(".json").write_text(json.dumps(state))
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        for listener, path in zip(listeners, (busy, killed), strict=True):
            listener.bind(str(path))
        listeners[0].listen(1)
        with pytest.raises(BlockingIOError):  # Nobody accepts, until the backlog is full.
            while True:
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(busy))
        record = short_path / "record"
        record.mkdir()
        with announced(record, record, "127.0.0.1:1", 0):
            pass
        assert sorted(path.name for path in own_directory().iterdir()) == ["1.json", "1.sock"]
        assert find_cluster(None, record).record == "1"
