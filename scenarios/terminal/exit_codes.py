"""The exit codes of the `highwater` command: its contract with scripts."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Losing records is a result, not a failure, unless the scenario or a flag says so."""

    HELD = 0
    EXPECTATION_FAILED = 1
    USAGE = 2
    INVALID_SCENARIO = 3
    OUR_BUG = 4
    UNDECIDED = 5
    MISSING = 6
    INTERRUPTED = 130
    TERMINATED = 143
