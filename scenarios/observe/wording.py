"""How screens and explanations spell moments and counts; lists and lengths of time: replica/wording.py."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def seconds(at_us: int) -> str:
    """A moment of virtual time: `10.500 s`."""
    return f"{at_us / 1_000_000:.3f} s"


def count_of(number: int, noun: str) -> str:
    """`1 record`, `5 records`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def replay_command(scenario: str, variant: str | None, seed: int, settings: Sequence[str] = ()) -> str:
    """The command that plays the same run, byte for byte. scenario: as it was named, an id or a file"""
    words = ["highwater", "run", scenario, *(("--variant", variant) if variant else ()), "--seed", str(seed)]
    return shlex.join([*words, *(word for setting in settings for word in ("--set", setting))])
