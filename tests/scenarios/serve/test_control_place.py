"""Where `highwater fault` finds a running cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.serve.control_place import STATE_FILE, announced


def test_nothing_is_left_of_what_cannot_be_announced(tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).mkdir()
    with pytest.raises(OSError, match="directory"), announced(tmp_path, tmp_path, "127.0.0.1:1", 0):
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / STATE_FILE]
