"""A sweep in one picture per figure: a heat map over two varied settings, points with intervals over one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt

from spark_reports.report.words import short_time

Row = Mapping[str, Any]
Spec = dict[str, Any]

FACETS_MAX = 12
"""Heat maps of one figure, one for each combination of the settings beyond the second; the rest is in the table."""
WIDTH_PX = 900
"""Nominal; the page sets the real width before it draws."""
_ROW_PX = 64
_CELL_PX, _NAMES_PX = 108, 60
"""Of a heat map: the least width of a cell, so that its words end in it, and of the names beside the cells."""
_UNKNOWN = "#c9ced6"
_DARK_INK, _LIGHT_INK = "#000000", "#ffffff"
"""Black, not the page's ink: on every shade one of the two has a contrast of 4.5."""
# White at zero; one hue, from light to dark, so that the order survives any kind of colour blindness and a printer.
_SHADES = ["#ffffff", "#fde0c5", "#f8a978", "#d95f2b", "#8c2d04"]


class Figure(NamedTuple):
    """A row as it is drawn. value: for the colour, None if the row has none     label, more: in the cell"""

    name: str
    title: str
    value: Callable[[Row], float | None]
    label: Callable[[Row], str]
    more: Callable[[Row], str]


def percent(share: float | None) -> str:
    """0.0312 -> `3.1 %`; a dash for None."""
    if share is None:
        return "–"
    return f"{100 * share:.1f} %" if 0 < share < 1 else f"{100 * share:.0f} %"


def interval(row: Row, name: str) -> str:
    """The 95 % interval of a share: `2.1 to 4.6 %`."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "" if low is None else f"{100 * low:.1f} to {100 * high:.1f} %"


def _share(name: str, title: str) -> Figure:
    return Figure(
        name,
        title,
        lambda row: row[f"{name}_probability"],
        lambda row: percent(row[f"{name}_probability"]),
        lambda row: interval(row, name),
    )


def _time(name: str, title: str, column: str, more: Callable[[Row], str]) -> Figure:
    return Figure(name, title, lambda row: row[column], lambda row: short_time(row[column]), more)


FIGURES = (
    _share("loss", "Runs that lost an acknowledged record · with the 95 % interval"),
    _share("missing", "Runs in which a record never arrived"),
    _share("duplicates", "Runs with a duplicated record"),
    _time(
        "unavailable", "Time per run without a successful write · mean, and the worst run", "unavailable_mean_us",
        lambda row: f"worst {short_time(row['unavailable_max_us'])}",
    ),
    _time(
        "latency", "Time to the ack · 99th percentile, and the median", "ack_p99_us",
        lambda row: f"median {short_time(row['ack_p50_us'])}",
    ),
)  # fmt: skip


def charts(rows: Sequence[Row], axes: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[Figure, str, Spec]]:
    """(figure, caption, Vega-Lite specification with its data inside) for each figure that is not zero everywhere.

    rows: of `by_setting`, in order of `setting`     axes: label and values of each varied setting
    """
    if not axes:
        return []
    drawn = []
    for figure in FIGURES:
        # One scale for all its pictures, so that the same shade means the same everywhere.
        largest = max((figure.value(row) or 0 for row in rows), default=0)
        if figure.name == "loss" or largest:
            for caption, own in _facets(rows, axes):
                draw_map = len(axes) > 1
                spec = _heat_map(figure, own, axes, largest or 1) if draw_map else _points(figure, own, axes[0])
                drawn.append((figure, caption, spec))
    return drawn


def _facets(rows: Sequence[Row], axes: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, list[Row]]]:
    """One for each combination of the axes beyond the second; its caption names it."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        beyond = [f"{label}={value}" for (label, _), value in zip(axes, values_of(row), strict=True)][2:]
        found.setdefault(", ".join(beyond), []).append(row)
    return list(found.items())[:FACETS_MAX]


def values_of(row: Row) -> list[str]:
    """The varied values of a row of `by_setting`, in the order of the axes."""
    return [setting.partition("=")[2] for setting in row["settings"]]


def _heat_map(figure: Figure, rows: Sequence[Row], axes: Sequence[tuple[str, Sequence[str]]], largest: float) -> Spec:
    (across, columns), (down, lines) = axes[:2]
    cells = [_cell(figure, row, values_of(row)[0], values_of(row)[1], largest) for row in rows]
    x = alt.X("x:N", sort=list(columns), title=across, axis=alt.Axis(labelAngle=0, **_AXIS))
    y = alt.Y("y:N", sort=list(lines), title=down, axis=alt.Axis(**_AXIS, **_UPRIGHT))
    scale = alt.Scale(domain=[0, largest], range=_SHADES, interpolate="rgb")
    told = [alt.Tooltip(f"{field}:N", title=title) for field, title in _TOLD]
    base = alt.Chart({"values": cells}).encode(x=x, y=y, tooltip=told)
    known = alt.Color("value:Q", scale=scale, legend=None)
    shade = alt.condition("datum.value === null", alt.value(_UNKNOWN), known)
    ink = alt.condition("datum.dark", alt.value(_LIGHT_INK), alt.value(_DARK_INK))
    layers = (
        base.mark_rect(stroke="#8a8f98", strokeWidth=1, invalid=None).encode(color=shade),
        base.mark_text(fontSize=20, fontWeight=700, dy=-9).encode(text="label:N", color=ink),
        base.mark_text(fontSize=13, dy=14).encode(text="more:N", color=ink),
    )
    spec = _spec(alt.layer(*layers), height=_ROW_PX * len(lines))
    return {**spec, "usermeta": {"narrowest_px": _CELL_PX * len(columns) + _NAMES_PX}}


_AXIS: dict[str, Any] = {
    "labelFontSize": 15,
    "titleFontSize": 14,
    "ticks": False,
    "domain": False,
    "grid": False,
    "labelPadding": 10,
}
# A title beside the axis would be read with one's head on the shoulder, and cut where it is long.
_UPRIGHT: dict[str, Any] = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "start", "titleX": 0, "titleY": -12}
_TOLD = (
    ("setting", "setting"),
    ("label", "here"),
    ("more", " "),
    ("runs", "runs played"),
    ("seed", "smallest losing seed"),
)


def _cell(figure: Figure, row: Row, x: str, y: str, largest: float) -> dict[str, Any]:
    value = figure.value(row)
    return {
        "x": x,
        "y": y,
        "value": value,
        "label": figure.label(row),
        "more": figure.more(row) if value is not None else "",
        "dark": value is not None and luminance(value / largest) < MIDDLE_LUMINANCE,
        "setting": ", ".join(row["settings"]),
        "runs": row["finished"],
        "seed": row["smallest_losing_seed"],
    }


MIDDLE_LUMINANCE = (1.05 * 0.05) ** 0.5 - 0.05
"""The luminance on which black and white have the same contrast."""


def luminance(share: float) -> float:
    """Of the shade of a share of the largest value. source: WCAG 2.2, relative luminance"""
    place = min(share, 1.0) * (len(_SHADES) - 1)
    below = min(int(place), len(_SHADES) - 2)
    one, other = (bytes.fromhex(shade[1:]) for shade in _SHADES[below : below + 2])
    mixed = (((1 - place + below) * low + (place - below) * high) / 255 for low, high in zip(one, other, strict=True))
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in mixed)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _points(figure: Figure, rows: Sequence[Row], axis: tuple[str, Sequence[str]]) -> Spec:
    label, values = axis
    points = []
    for row in rows:
        low, high = row.get(f"{figure.name}_low"), row.get(f"{figure.name}_high")
        cell = _cell(figure, row, values_of(row)[0], "", 1)
        words = " · ".join(filter(None, (cell["label"], cell["more"])))
        points.append({**cell, "low": low, "high": high, "words": words})
    largest = max((point["high"] or point["value"] or 0 for point in points), default=0) or 1
    y = alt.Y("x:N", sort=list(values), title=label, axis=alt.Axis(**_AXIS, **_UPRIGHT))
    is_share = any(point["high"] is not None for point in points)
    shown = "format(100 * datum.value, '~g') + ' %'" if is_share else "format(datum.value / 1000000, '~g') + ' s'"
    axis_x = alt.Axis(labelExpr=shown, title=None, tickCount=6, labelFontSize=14)
    x = alt.X("value:Q", scale=alt.Scale(domain=[0, largest * 1.12], nice=False), axis=axis_x)
    told = [alt.Tooltip(f"{field}:N", title=title) for field, title in _TOLD]
    base = alt.Chart({"values": points}).encode(y=y, tooltip=told)
    colour = "var(--fault)"
    layers = [base.mark_circle(size=140, opacity=1, color=colour).encode(x=x)]
    if is_share:
        layers.insert(0, base.mark_rule(strokeWidth=5, opacity=0.6, color=colour).encode(x="low:Q", x2="high:Q"))
    # Words begin at their point, or end there when it lies far right: else they cover the axis or leave the page.
    for words, is_there in (
        (base.mark_text(align="left", dx=2, dy=-16, fontSize=14, fontWeight=600), alt.datum.value <= largest / 2),
        (base.mark_text(align="right", dx=7, dy=-16, fontSize=14, fontWeight=600), alt.datum.value > largest / 2),
    ):
        layers.append(words.transform_filter(is_there).encode(x=x, text="words:N"))
    return _spec(alt.layer(*layers), height=(_ROW_PX - 6) * len(values))


def _spec(chart: Any, height: int) -> Spec:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Automatically deduplicated")
        spec: Spec = chart.properties(width=WIDTH_PX, height=height).to_dict()
    del spec["config"]  # the page brings its own colours
    return spec
