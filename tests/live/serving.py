"""`highwater serve` in a separate process, for tests that connect real clients to it."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.live.sockets import ports_in_a_row

ROOT = Path(__file__).parents[2]


PORTS_PER_PROCESS, FIRST_PORT, LAST_PORT = 64, 11_000, 32_000
"""Below the ports that the kernel gives to clients; each worker of a test run has its own."""
_taken = itertools.count()


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that are free now, and that none of the last few clusters had."""
    blocks = (LAST_PORT - FIRST_PORT) // PORTS_PER_PROCESS
    first = FIRST_PORT + os.getpid() % blocks * PORTS_PER_PROCESS
    turns = itertools.islice(_taken, PORTS_PER_PROCESS)
    port = ports_in_a_row(count, (first + turn * count % (PORTS_PER_PROCESS - count) for turn in turns))
    assert port is not None, "no free ports"
    return port


@dataclass
class Served:
    """A running cluster; `stop` ends it as Ctrl-C does, and then `summary` is there."""

    process: subprocess.Popen[str]
    bootstrap: str
    record: Path
    ready: list[str]
    output: str = ""
    errors: str = ""
    summary: dict[str, Any] = field(default_factory=dict)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        self.end(number)
        assert self.process.returncode == 0, self.errors

    def end(self, number: signal.Signals = signal.SIGINT) -> None:
        """For any exit code."""
        self.process.send_signal(number)
        self.output, self.errors = self.process.communicate(timeout=60)
        last = (self.record / "last").read_text().strip()
        self.summary = json.loads((self.record / last / "summary.json").read_text())


PROGRAM = """
import sys
{first}
from scenarios.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
"""


def program(directory: Path, first: str = "") -> Path:
    """As pip writes it for `highwater`: Python looks for modules beside it, not in the current directory."""
    directory.mkdir()
    path = directory / "highwater.py"
    path.write_text(PROGRAM.format(first=first))
    return path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "scenarios.cli", "serve", *words]


def fault(record: Path, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """`highwater fault`. code: that it must end with; None: any"""
    done = subprocess.run(
        [sys.executable, "-m", "scenarios.cli", "fault", "--record", str(record), *words],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=record,
    )  # fmt: skip
    assert code in (None, done.returncode), done
    return done


@contextmanager
def serving(
    record: Path, *words: str, brokers: int = 3, program: Path | None = None, path: Sequence[Path] = (ROOT,)
) -> Iterator[Served]:
    """program: runs instead of `-m scenarios.cli`, which finds modules in the current directory     path: PYTHONPATH"""
    start = command() if program is None else [sys.executable, str(program), "serve"]
    port = free_ports(brokers)
    sizes = [] if "--scenario" in words else ["--brokers", str(brokers)]
    process = subprocess.Popen(
        [*start, *sizes, "--port", str(port), "--record", str(record), *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=record,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        ready = []
        for line in process.stdout:
            ready.append(line.rstrip())
            if "Ctrl-C" in line:
                break
        found = re.search(r"bootstrap.servers=(\S+)", "\n".join(ready))
        assert found is not None, process.communicate()
        yield Served(process, found[1], record, ready)
    finally:
        if process.poll() is None:
            process.kill()
            print(*process.communicate())  # pytest shows it where the test fails
