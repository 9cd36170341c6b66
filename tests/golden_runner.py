"""Golden transcripts: a file of commands and of what came of them, readable without knowing the code.

A file is a row of blocks, divided by blank lines:

    # why this step is interesting
    append n=5
    fetch b2 offset=5 at=20ms
    ----
    what the commands printed, or ok

A command `check-lag at=11s` calls `world.check_lag(at=11_000_000)`: words are positional, `key=value` is by name,
numbers are ints, times are microseconds, `(b1,b2)` is a tuple. A method returns the lines to print. `pytest --rewrite`
writes the outcome into the file instead of comparing it; then read the diff.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RULE = "----"
UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000}


def check_transcript(path: Path, world: object, *, rewrite: bool) -> None:
    """Play the file against `world`; fail with a diff, or write what happened back into the file."""
    expected = path.read_text()
    actual = play(expected, world)
    if rewrite:
        path.write_text(actual)
        return
    if actual != expected:
        lines = difflib.unified_diff(expected.splitlines(), actual.splitlines(), str(path.name), "what happened", n=4)
        raise AssertionError("\n".join(["the transcript differs (pytest --rewrite accepts it)", *lines]))


def play(text: str, world: object) -> str:
    """The same transcript with the outcome that `world` gives today."""
    blocks = [block for block in re.split(r"\n\s*\n", text.strip()) if block.strip()]
    return "\n\n".join(_play_block(block.splitlines(), world) for block in blocks) + "\n"


def _play_block(lines: list[str], world: object) -> str:
    script = lines[: lines.index(RULE)] if RULE in lines else lines
    commands = [line for line in script if not line.startswith("#")]
    if not commands:
        return "\n".join(script)
    printed = [line for command in commands for line in run_command(command, world)]
    return "\n".join([*script, RULE, *(printed or ["ok"])])


def run_command(line: str, world: object) -> Iterable[str]:
    verb, *words = re.findall(r"\S*\([^)]*\)|\S+", line)
    method = getattr(world, verb.replace("-", "_"), None)
    assert method is not None, f"no verb `{verb}` in `{line}`"
    positional: list[Any] = []
    by_name: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            by_name[key.replace("-", "_")] = _value(value)
        else:
            positional.append(_value(word))
    return method(*positional, **by_name) or ()


def _value(text: str) -> Any:
    if text.startswith("("):
        return tuple(_value(part.strip()) for part in text[1:-1].split(",") if part.strip())
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if found := re.fullmatch(r"(-?\d+(?:\.\d+)?)(us|ms|s)", text):
        return round(float(found[1]) * UNITS_US[found[2]])
    return text
