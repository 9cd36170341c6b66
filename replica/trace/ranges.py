"""What counts up by one is a range: names with numbers, partitions, offsets. One form on the terminal and on the pages.

format_record_names(["r1", "r2", "r3", "s1"])      # r1..r3, s1
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence

RANGES_MAX = 8
PARTITION_RANGES_MAX = 4
"""of those on one line of the story"""


def counted_up(numbered: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int, int]]:
    """(name, first, last) of each stretch of one name in which its number counts up by one. Below 0 is no number."""
    stretch: tuple[str, int, int] | None = None
    for name, number in numbered:
        if stretch is not None and number > 0 and stretch[0] == name and stretch[2] == number - 1:
            stretch = (name, stretch[1], number)
            continue
        if stretch is not None:
            yield stretch
        stretch = (name, number, number)
    if stretch is not None:
        yield stretch


def split_record_name(name: str) -> tuple[str, int]:
    """`r12` -> ("r", 12); a name without number sorts as itself, number -1. Zeros before it are part of the name."""
    digits = name[len(name.rstrip("0123456789")) :]
    number = digits.lstrip("0") or digits[-1:]
    return (name.removesuffix(number), int(number)) if number else (name, -1)


def format_record_names(names: Sequence[str]) -> str:
    """(r0, r1, r2, s5) -> `r0..r2, s5`; parsing it gives the same names in the same order."""
    ranges = counted_up(map(split_record_name, names))
    return ", ".join(range_text(*one) for one in ranges) or "none"


def range_text(prefix: str, first: int, last: int, of_two: str = "..") -> str:
    """of_two: between two neighbours"""
    if first < 0:
        return prefix
    between = of_two if last == first + 1 else ".."
    return f"{prefix}{first}" if first == last else f"{prefix}{first}{between}{prefix}{last}"


def ranges_of_partitions(partitions: Collection[tuple[str, int]]) -> str:
    """`t-0..t-5, t-7`; of very many ranges the first few and the last, and how many partitions they are."""
    ranges = counted_up(sorted(partitions))
    text = ", ".join(range_text(f"{topic}-", first, last) for topic, first, last in ranges)
    shown = cropped(text, PARTITION_RANGES_MAX)
    return text if shown == text else f"{len(partitions)} partitions ({shown})"


def cropped(ranges: str, most: int = RANGES_MAX) -> str:
    """`r1, r3, r5..r7`; of very many the first few and the last. Dots stand for two or more: one is as short."""
    found = ranges.split(", ")
    return ranges if len(found) <= most + 1 else ", ".join([*found[: most - 1], "...", found[-1]])


class OffsetRanges:
    """Offsets as closed ranges, which are in order and apart however they come; neighbours are one."""

    __slots__ = ("_highs", "_lows")

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []

    def add(self, low: int, high: int) -> None:
        if self._highs and self._highs[-1] == low - 1:  # as a reader goes on
            self._highs[-1] = high
            return
        first, behind = bisect_left(self._highs, low - 1), bisect_right(self._lows, high + 1)
        if first < behind:
            low, high = min(low, self._lows[first]), max(high, self._highs[behind - 1])
        self._lows[first:behind], self._highs[first:behind] = [low], [high]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._lows, self._highs, strict=True)

    def covers(self, offset: int) -> bool:
        at = bisect_left(self._highs, offset)
        return at < len(self._lows) and self._lows[at] <= offset
