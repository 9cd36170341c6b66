"""Why Spark's JVM ended, or could not go on, in words for a user: from the error, its process and its log."""

from __future__ import annotations

import re
import resource
import signal
import subprocess
from pathlib import Path

ENDS_WITHIN_S = 5.0
"""After its connection broke: a JVM that was killed is gone at once, one that ran out of memory cleans up first."""

_ALWAYS_SAID = "WARNING: Using incubator modules"

MORE_MEMORY = "give it more, such as --conf spark.driver.memory=4g"


def why_it_ended(error: BaseException, process: subprocess.Popen[bytes] | None, log: Path) -> str | None:
    """None: Spark is there, and `error` has another cause.

    log: that of the JVM, and of the programs that it starts
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    text = str(error)
    missing = re.search(r'Cannot run program "([^"]+)"', text) if isinstance(error, Py4JError) else None
    if missing:
        return f"Spark needs the program `{missing[1]}`, which is not on the PATH"
    code = _exit_code(process, ENDS_WITHIN_S if isinstance(error, Py4JError | OSError) else 0.0)
    if code is None:
        return None
    if code == -signal.SIGKILL:
        return "Spark's JVM was killed (signal 9): unless that was on purpose, the machine ran out of memory"
    last = log_tail(log)
    if "OutOfMemoryError" in text + last:
        return f"Spark's JVM ran out of memory: {MORE_MEMORY}"
    if re.search(r"Could not (allocate|reserve)|insufficient memory|CMD: bad array subscript", last):
        return f"Spark's JVM got no memory{_limit(resource.RLIMIT_AS, 'bytes', 'ulimit -v')}"
    if re.search(r"Too many open files|Error loading java.security", last):
        return f"Spark's JVM may open too few files{_limit(resource.RLIMIT_NOFILE, 'files', 'ulimit -n')}"
    how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
    return f"Spark's JVM {how}\n{last}".rstrip()


def _limit(which: int, what: str, command: str) -> str:
    """Of this process, which the JVM has inherited."""
    limit, _ = resource.getrlimit(which)
    return "" if limit == resource.RLIM_INFINITY else f": the limit is {limit:,} {what} ({command})"


def _exit_code(process: subprocess.Popen[bytes] | None, within_s: float) -> int | None:
    if process is None:
        return None
    try:
        return process.wait(within_s)
    except subprocess.TimeoutExpired:
        return None


def log_tail(path: Path, lines: int = 12) -> str:
    """The last lines of the log, without Java's stack, and without what every JVM says of Spark's options."""
    try:
        log = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "(the JVM left no log)"
    return "\n".join([line for line in log if not line.startswith(("\tat ", _ALWAYS_SAID))][-lines:])
