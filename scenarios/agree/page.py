"""Render agree.html, which shows the timelines of both sides of each scenario on one time axis, and the differences.

The page is a single file without scripts, and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from replica.ids import INTERNAL_TOPICS, METADATA_TOPIC
from replica.trace.signs import in_broker_order
from scenarios.agree.sheet import Sheet, SheetRow
from scenarios.observe.partition_histories import PartitionHistory
from scenarios.observe.story import Story
from scenarios.observe.trace_writer import read_rows
from scenarios.observe.view import ClusterView
from scenarios.observe.wording import seconds

PARTITIONS_DRAWN = 4
"""Largest number of partitions drawn per scenario; partitions that differ come first."""

_LABEL, _WIDTH, _MARGIN = 120, 860, 32
_ROW, _GAP = 14, 3
_STANDINGS = {
    "leads": "leads",
    "in": "in the ISR",
    "out": "not in the ISR",
    "gone-in": "down, still in the ISR",
    "gone": "down",
    "frozen-in": "frozen, still in the ISR",
    "frozen-out": "frozen",
}
_STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 3600)


class Label(NamedTuple):
    x: int
    y: int
    text: str
    is_world: bool


class Band(NamedTuple):
    """An interval in which a replica had one state, named by its `sign`, such as `leads` or `gone-in`."""

    sign: str
    from_us: int
    to_us: int
    x: float
    y: int
    width: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """The drawing of one partition on both sides, with a row for each replica.

    Attributes:
        parts_x: horizontal position at which the sides diverge; None if they do not.
    """

    partition: str
    end_us: int
    height: int
    labels: tuple[Label, ...]
    bands: tuple[Band, ...]
    parts_x: float | None
    width: int = _LABEL + _WIDTH + _MARGIN

    @property
    def ticks(self) -> list[tuple[float, int]]:
        end_s = self.end_us // 1_000_000
        step_s = next((step for step in _STEPS_S if end_s / step <= 10), _STEPS_S[-1])
        return [(_x(at_s * 1_000_000, self.end_us), at_s) for at_s in range(0, end_s + 1, step_s)]


def sheet_page(sheet: Sheet) -> str:
    """Return the text of agree.html for the scenarios of a sheet.

    Raises:
        TraceError, OSError: a trace cannot be read.
    """
    style = files("scenarios.agree").joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = Environment(
        loader=PackageLoader("scenarios.agree", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["seconds"] = seconds
    return environment.get_template("page.html.j2").render(
        sheet=sheet,
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        standings=_STANDINGS,
        row_height=_ROW,
        drawings={row.name: list(_drawings(row, sheet)) for row in sheet.rows if row.agreement is not None},
    )


def _drawings(row: SheetRow, sheet: Sheet) -> Iterator[Drawing]:
    """Yield drawings of up to PARTITIONS_DRAWN partitions from the first repetition, partitions that differ first."""
    assert row.agreement is not None
    stories = [Story.of(ClusterView((), ()), read_rows(folder / "trace")) for folder in row.repetitions[0]]
    end_us = max(story.end_us for story in stories)
    sides = [_histories(story) for story in stories]
    since = {
        difference.where: difference.at_us
        for difference in reversed(row.agreement.differences)
        if difference.at_us is not None
    }
    every = dict.fromkeys(name for side in sides for name in side)
    for partition in sorted(every, key=lambda name: name not in since)[:PARTITIONS_DRAWN]:
        worlds = zip((sheet.ours, sheet.theirs), (side.get(partition) for side in sides), strict=True)
        yield _drawing(partition, list(worlds), end_us, since.get(partition))


def _histories(story: Story) -> dict[str, PartitionHistory]:
    return {
        str(name): history
        for name, history in story.histories.items()
        if name.topic not in (*INTERNAL_TOPICS, METADATA_TOPIC)
    }


def _drawing(
    partition: str, worlds: Sequence[tuple[str, PartitionHistory | None]], end_us: int, since_us: int | None
) -> Drawing:
    labels: list[Label] = []
    bands: list[Band] = []
    y = _GAP
    for world, history in worlds:
        labels.append(Label(0, y, world, is_world=True))
        y += _ROW + _GAP
        if history is not None:
            for node in in_broker_order(history.replicas):
                labels.append(Label(8, y, node, is_world=False))
                index = history.replicas.index(node)
                signs = ((at_us, signs[index] if index < len(signs) else "") for at_us, signs in history.states)
                bands += _bands(signs, y, end_us)
                y += _ROW + _GAP
        y += 2 * _GAP
    parts_x = None if since_us is None else _x(since_us, end_us)
    return Drawing(partition, end_us, y, tuple(labels), tuple(bands), parts_x)


def _bands(signs: Iterable[tuple[int, str]], y: int, end_us: int) -> Iterator[Band]:
    stretches: list[tuple[int, str]] = []
    for at_us, sign in signs:
        if not stretches or stretches[-1][1] != sign:
            stretches.append((at_us, sign))
    ends = [at_us for at_us, _ in stretches[1:]] + [end_us]
    for (from_us, sign), to_us in zip(stretches, ends, strict=True):
        if sign in _STANDINGS:
            x = _x(from_us, end_us)
            yield Band(sign, from_us, to_us, x, y, round(max(1.0, _x(to_us, end_us) - x), 1))


def _x(at_us: int, end_us: int) -> float:
    return round(_LABEL + _WIDTH * at_us / max(end_us, 1), 1)
