"""A `highwater` command in a process of its own that is stopped once it says a certain word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.spark.standalone import sessions_left
from tests.waiting import wait_for

COMMAND = [
    sys.executable,
    "-c",
    f"import sys; sys.path[:0] = {sys.path!r}; from scenarios.cli.entry import main; main()",
]


class Ended(NamedTuple):
    code: int
    out: str
    errors: list[str]


def interrupted(
    folder: Path,
    *words: str,
    by: signal.Signals | Callable[[subprocess.Popen[bytes]], None] = signal.SIGINT,
    sign: str,
    on: str = "stderr",
    file: str = "",
) -> Ended:
    """The command is stopped when `sign` stands in its output. SIGINT comes as from a terminal, to all its processes.
    `by` may be something else that happens to it.

    None of these is left when it has ended, and nothing in the temporary directory.
    file: what must have come in the temporary directory by then, too
    """
    temporary = folder / "tmp"
    temporary.mkdir()
    # Java does not go by TMPDIR.
    places = {"TMPDIR": str(temporary), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary}"}
    # Unbuffered: `communicate` would miss the lines that a buffer has read ahead.
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=folder, env={**os.environ, **places}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    heard = []
    for line in map(bytes.decode, process.stderr if on == "stderr" else process.stdout):
        heard.append(line)
        if sign in line:
            break
    else:
        raise AssertionError(f"it never said {sign!r}, but {heard}")
    if file:
        wait_for(lambda: list(temporary.glob(file)), 200)
    if callable(by):
        by(process)
    elif by == signal.SIGINT:
        os.killpg(process.pid, by)
    else:
        process.send_signal(by)
    out, errors = map(bytes.decode, process.communicate(timeout=200))
    assert sessions_left([process.pid]) == []
    assert [str(left.relative_to(temporary)) for left in temporary.rglob("*")] == []
    assert "Traceback" not in out + errors, out + errors
    if on == "stdout":
        out = "".join(heard) + out
    return Ended(process.returncode, out, [line for line in errors.splitlines() if line.strip() and "%" not in line])
