"""The output of `highwater agree`: the comparison of two modes as text of 80 columns and as a table in Markdown."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from scenarios.agree.comparison import DIFFERS, NOISE, SAME
from scenarios.agree.difference import WorldDifference
from scenarios.agree.sheet import NOT_PLAYED, VERDICTS, Sheet, SheetRow
from scenarios.observe.wording import count_of, seconds
from scenarios.terminal.style import Style, folded, pair_lines

WIDTH = 80
DIFFERENCES_SHOWN = 6
"""Largest number of differences printed per scenario; JSON and the page contain all differences."""
DIFFERENCES_IN_A_TABLE = 2
MARKDOWN_WIDTH = 140

_COLOURS = {SAME: "green", NOISE: "yellow", DIFFERS: "red", NOT_PLAYED: "dim"}
_INDENT = 13


def work_text(runs: int, clock_us: Sequence[int], times: int, processes: int) -> str:
    """Return the line that announces how many runs will be played and how long they take at most.

    Args:
        runs: number of selected runs.
        clock_us: durations of the runs that can be played, in microseconds; at least one.
        times: repetitions of each run.
        processes: number of runs that are played in parallel.
    """
    can = count_of(runs, "run") if len(clock_us) == runs else f"{len(clock_us)} of {runs} runs can be played"
    minutes = max(1, math.ceil(sum(clock_us) * times / min(processes, len(clock_us)) / 60_000_000))
    hours, rest = divmod(minutes, 60)
    length = f"{hours} h {rest} min" if hours else f"{minutes} min"
    often = "" if times == 1 else f", {times} times each"
    return f"agree: {can}{often}; this takes at most {length}, plus the time that brokers take to start"


def row_text(row: SheetRow, sheet: Sheet, style: Style) -> str:
    """Return the lines of one scenario: its verdict and the first differences."""
    word = style.paint(f"{row.verdict:<10}", _COLOURS[row.verdict])
    lines = [f"  {word} {row.name}"]
    if row.why_not:
        lines += _wrapped(row.why_not)
    if row.agreement is not None:
        for difference in row.agreement.differences[:DIFFERENCES_SHOWN]:
            lines += _difference(difference, sheet)
        left = len(row.agreement.differences) - DIFFERENCES_SHOWN
        if left > 0:
            lines += _wrapped(f"and {count_of(left, 'more difference')}; --format json lists all")
        lines += _gap(row, sheet)
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return folded(text, WIDTH, " " * _INDENT, " " * (_INDENT + 2))


def _difference(world_difference: WorldDifference, sheet: Sheet) -> list[str]:
    worlds, values = (sheet.ours, sheet.theirs), (world_difference.ours, world_difference.theirs)
    return [*_wrapped(world_difference.title), *pair_lines(worlds, values, WIDTH, " " * (_INDENT + 2))]


def _gap(row: SheetRow, sheet: Sheet) -> list[str]:
    assert row.agreement is not None
    gap = row.agreement.largest_gap
    if gap is None or abs(gap.by_us) <= sheet.slack_us:
        return []
    order = "later" if gap.by_us > 0 else "earlier"
    amount = seconds(abs(gap.by_us))
    where = f"{gap.partition} at {seconds(gap.at_us)}"
    return _wrapped(f"largest difference in time (not judged): {where}, {sheet.theirs} {amount} {order}")


def totals_text(sheet: Sheet) -> str:
    return f"\n{sheet.heading}:\n{sheet.in_words}\n"


def sheet_table(sheet: Sheet) -> str:
    """Return Markdown: the names of scenarios that agree, and a table of all others with their first differences."""
    lines = [f"{sheet.heading[0].upper()}{sheet.heading[1:]}: {sheet.in_words}.", ""]
    if same := [f"`{row.name}`" for row in sheet.rows if row.verdict == SAME]:
        names = f"The same: {', '.join(same)}."
        lines += [*textwrap.wrap(names, MARKDOWN_WIDTH, break_long_words=False, break_on_hyphens=False), ""]
    others = sorted((row for row in sheet.rows if row.verdict != SAME), key=lambda row: VERDICTS.index(row.verdict))
    if others:
        lines += [
            f"| scenario | verdict | plays | what differs | {sheet.ours} | {sheet.theirs} |",
            "|---|---|---|---|---|---|",
        ]
        lines += [line for row in others for line in _table_rows(row)]
    return "\n".join(lines) + "\n"


def _table_rows(row: SheetRow) -> list[str]:
    """Return the table rows of a scenario: one per difference, at most two; only the first row names the scenario."""
    head = f"| `{row.name}` | {row.verdict} | {len(row.repetitions)} |"
    if row.agreement is None:
        return [f"{head} {row.why_not} | | |"]
    differences = row.agreement.differences[:DIFFERENCES_IN_A_TABLE]
    heads = [head] + ["| | | |"] * (len(differences) - 1)
    return [
        f"{head} {item.title} | {item.ours} | {item.theirs} |" for head, item in zip(heads, differences, strict=True)
    ]
