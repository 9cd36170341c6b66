"""Compact text for consecutive record names, partitions or offsets, for the terminal and HTML pages.

format_record_names(["r1", "r2", "r3", "s1"])      # r1..r3, s1
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence

RANGES_MAX = 8
PARTITION_RANGES_MAX = 4
"""Limit for the ranges of partitions in one line of output."""


def counted(number: int, thing: str) -> str:
    """Return a number with its noun, such as `1 record` or `5 records`."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def counted_up(numbered: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int, int]]:
    """Yield (name, first, last) for each range of consecutive numbers of a name. A negative number means no number."""
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
    """Return prefix and number of a name, such as ("r", 12) for `r12`. The number is -1 for a name without a number.

    Leading zeros belong to the prefix.
    """
    digits = name[len(name.rstrip("0123456789")) :]
    number = digits.lstrip("0") or digits[-1:]
    return (name.removesuffix(number), int(number)) if number else (name, -1)


def format_record_names(names: Sequence[str]) -> str:
    """Return names as ranges, such as `r0..r2, s5` for (r0, r1, r2, s5). The text keeps the order of the names."""
    ranges = counted_up(map(split_record_name, names))
    return ", ".join(range_text(*item) for item in ranges) or "none"


def span_of_offsets(first: int, last: int) -> str:
    """Return a range of offsets as text, such as `offset 3` or `offsets 3 to 5`."""
    return f"offset {first}" if last <= first else f"offsets {first} to {last}"


def range_text(prefix: str, first: int, last: int, of_two: str = "..") -> str:
    """Return a range as text, such as `r0..r2`. `of_two` is the separator if the range has two items."""
    if first < 0:
        return prefix
    between = of_two if last == first + 1 else ".."
    return f"{prefix}{first}" if first == last else f"{prefix}{first}{between}{prefix}{last}"


def ranges_of_partitions(partitions: Collection[tuple[str, int]]) -> str:
    """Return partitions as ranges, such as `t-0..t-5, t-7`; of many, only a count, the first few and the last."""
    ranges = counted_up(sorted(partitions))
    text = ", ".join(range_text(f"{topic}-", first, last) for topic, first, last in ranges)
    shown = cropped(text, PARTITION_RANGES_MAX)
    return text if shown == text else f"{len(partitions)} partitions ({shown})"


def cropped(ranges: str, most: int = RANGES_MAX) -> str:
    """Shorten a list of too many ranges to `most` ranges, the first few and the last, such as `r1, r3, ..., r9`."""
    found = ranges.split(", ")
    return ranges if len(found) <= most + 1 else ", ".join([*found[: most - 1], "...", found[-1]])


class OffsetRanges:
    """A set of offsets, stored as sorted, disjoint closed ranges; adjacent ranges are joined."""

    __slots__ = ("_highs", "_lows")

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []

    def add(self, low: int, high: int) -> None:
        if self._highs and self._highs[-1] == low - 1:  # usual case: offsets in order
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
