"""How screens, reasons and explanations spell times and counts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def seconds(at_us: int) -> str:
    """A moment of virtual time: `10.500 s`."""
    return f"{at_us / 1_000_000:.3f} s"


def duration(length_us: int) -> str:
    """A length of time in its natural unit: `800 us`, `12.5 ms`, `8.50 s`."""
    if length_us < 1000:
        return f"{length_us} us"
    if length_us < 10_000:
        return f"{length_us / 1000:.1f} ms"
    if length_us < 1_000_000:
        return f"{round(length_us / 1000)} ms"
    return f"{length_us / 1_000_000:.2f} s"


def count_of(number: int, noun: str) -> str:
    """`1 record`, `5 records`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: tuple[str, ...] | list[str]) -> str:
    """`b1`, `b1 and b2`, `b1, b2 and b3`; `nobody` for none."""
    if not names:
        return "nobody"
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def replay_command(scenario: str, variant: str | None, seed: int, settings: Sequence[str] = ()) -> str:
    """The command that plays the same run, byte for byte. scenario: as it was named, an id or a file"""
    words = ["highwater", "run", scenario, *(("--variant", variant) if variant else ()), "--seed", str(seed)]
    return shlex.join([*words, *(word for setting in settings for word in ("--set", setting))])
