"""Draws one partition over the time of a run as text: a row per replica, and a row for the high watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica.ids import TopicPartition
from scenarios.observe.partition_histories import PartitionHistory, value_at
from scenarios.terminal.style import Style


def ribbon(
    partition: TopicPartition, history: PartitionHistory, end_us: int, mark_indexes: Mapping[str, int], style: Style
) -> list[str]:
    """Return lines that show each replica's role and outages, and the high watermark, on one time axis.

    Args:
        end_us: end of the run.
        mark_indexes: index of each broker's mark, which determines its colour.
    """
    label = max(len(str(partition)), *(len(f"ISR {node}") for node in history.replicas)) + 2
    top = max((value for _, value in history.high_watermark), default=0)
    columns = style.width - label - 4 - max(len(str(top)), 2)
    moments = [end_us * (column + 1) // columns for column in range(columns)]
    lines = [f"  {str(partition).ljust(label)}{_axis(end_us, columns)}"]
    for index, node in enumerate(history.replicas):
        cells = []
        for moment in moments:
            states = value_at(history.states, moment)
            sign = "" if states is None or index >= len(states) else states[index]
            cells.append(style.sign(sign) if sign else " ")
        row = f"{f'ISR {node}'.ljust(label)}{''.join(cells)}"
        lines.append(f"  {style.broker(row, mark_indexes[node])}")
    if top:
        levels = [value_at(history.high_watermark, moment) for moment in moments]
        shape = (
            _offsets(levels)
            if style.plain
            else "".join(" " if not at else style.level((at - 1) / top) for at in levels)
        )
        lines.append(f"  {'HW'.ljust(label)}{shape}  {top}")
    seen = {sign for _, states in history.states for sign in states}
    legend = [f"{style.sign(sign)} {word}" for sign, word in _STANDINGS.items() if sign in seen]
    lines += [style.paint(line, "dim") for line in style.packed(legend or [""], "  ", label + 2)]
    return lines


_STANDINGS = {
    "leads": "leads",
    "in": "in the ISR",
    "out": "not in ISR",
    "gone-in": "down, still in the ISR",
    "gone": "down",
    "frozen-in": "frozen, still in the ISR",
    "frozen-out": "frozen",
}
"""The state that each sign in a replica's row stands for. The legend shows only the signs that occur."""


def _offsets(levels: Sequence[int | None]) -> str:
    """Return a line of numbers: each new high watermark, in the column of its time, if there is space."""
    cells = [" "] * len(levels)
    free, before = 0, None
    for column, level in enumerate(levels):
        text = str(level)
        if level is not None and level != before and column >= free and column + len(text) <= len(cells):
            cells[column : column + len(text)] = text
            free, before = column + len(text) + 1, level
    return "".join(cells)


def _axis(end_us: int, columns: int) -> str:
    """Return a line with some round times in seconds, each in its column."""
    seconds = end_us / 1_000_000
    step = next((size for size in _STEPS if seconds / size <= 7), _STEPS[-1])
    cells = [" "] * (columns + 8)
    moment = 0.0
    while moment <= seconds * 0.96:
        text = f"{moment:g}"
        column = int(moment / seconds * columns) if seconds else 0
        cells[column : column + len(text)] = text
        moment += step
    return "".join(cells[:columns]).rstrip() + " s"


_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
