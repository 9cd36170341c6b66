"""Hostile text in a trace does nothing to the terminal that shows it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import Highwater

from tests.hostile_names import NAMES, consistent, run_of_names
from tests.interrupting import COMMAND


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of_names(tmp_path_factory.mktemp("named") / "runs")


def on_a_terminal(*words: str, code: int = 0) -> str:
    """The command's output to a terminal without colours, without the terminal's own line ends."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm"}
    with subprocess.Popen([*COMMAND, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        sent = b""
        while True:
            try:
                chunk = os.read(ours, 65_536)
            except OSError:  # Linux says so when the other end is closed.
                break
            if not chunk:
                break
            sent += chunk
    os.close(ours)
    assert process.returncode == code, sent
    return sent.decode().replace("\r\n", "\n")


WORDS = {
    "a record": ("explain", "r12"),
    "lost records": ("explain", "--lost"),
    "played again": ("explain", "--lost", "--what-if"),
    "requests": ("path",),
    "a request": ("path", "r12"),
}


@pytest.mark.soak
@pytest.mark.parametrize("screen", WORDS)
def test_no_control_character_reaches_the_terminal(screen: str, run_dir: Path) -> None:
    command, *words = WORDS[screen]
    said = on_a_terminal(command, str(run_dir), *words, code=2 if screen == "played again" else 0)
    assert "<script>" in said, "the names are not on this screen"
    assert re.findall(r"[^\n\x20-\x7e\xa0-\U0010ffff]", said) == []
    assert not re.search(r"^\.\./", said, re.MULTILINE)


def test_a_name_is_asked_for_as_it_is_shown(run_dir: Path) -> None:
    shown = NAMES["r10"].encode("unicode_escape").decode().replace("\\'", "'")
    assert on_a_terminal("explain", str(run_dir), shown).count(shown) > 0


def test_numbers_at_the_ends_of_their_range_are_told(tmp_path: Path, highwater: Highwater) -> None:
    run_dir = run_of_names(tmp_path / "runs")
    for part in (run_dir / "trace").rglob("*.parquet"):
        table = pq.read_table(part)
        for column in {"at_us", "offset", "high_watermark", "log_end_offset", "queue_us"} & set(table.column_names):
            place = table.schema.get_field_index(column)
            values = [None if value is None else (-1) ** n * 2**62 for n, value in enumerate(table[column].to_pylist())]
            table = table.set_column(place, table.schema.field(place), pa.array(values, pa.int64()))
        pq.write_table(table, part)
    consistent(run_dir, live=True, lost=["r12"])
    for words in (("explain", str(run_dir), "--lost"), ("path", str(run_dir)), ("path", str(run_dir), "r12")):
        done = highwater(*words)
        assert done.code == 0 or (done.code == 2 and done.error_lines[0].startswith("error: ")), done
        assert "a bug in highwater" not in done.err
