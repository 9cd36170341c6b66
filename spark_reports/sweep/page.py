"""Render the page of a sweep: charts of each figure, then a table of all figures."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt

from replica.trace.ranges import counted
from spark_reports.report.embedding import chart_in_html, environment, page_style, resource, vega_script
from spark_reports.report.words import joined, short_time

Row = Mapping[str, Any]
Spec = dict[str, Any]

FACETS_MAX = 12
"""Largest number of charts of one figure: one for each combination of the varied settings beyond the second.

Further combinations are only in the table.
"""
WIDTH_PX = 900
"""Nominal width of a chart. The page sets the real width before it draws the chart."""
_ROW_PX = 64
_CELL_PX, _NAMES_PX = 108, 60
"""Sizes of a heat map: smallest width of a cell that fits its text, and width of the names beside the cells."""
_UNKNOWN = "#c9ced6"
_DARK_INK, _LIGHT_INK = "#000000", "#ffffff"
"""Colours of the text in cells. On every shade either black or white has a contrast of at least 4.5."""
# White at zero, then one hue from light to dark, so that the order is visible with colour blindness and in print.
_SHADES = ["#ffffff", "#fde0c5", "#f8a978", "#d95f2b", "#8c2d04"]


class Figure(NamedTuple):
    """A figure that charts show for each setting, such as the share of losing runs.

    Attributes:
        value: returns the number that decides the colour, None if unknown.
        label, more: return the first and second line of text in the cell.
    """

    name: str
    title: str
    value: Callable[[Row], float | None]
    label: Callable[[Row], str]
    more: Callable[[Row], str]


def percent(share: float | None) -> str:
    """Return a share as a percentage: 0.0312 -> `3.1 %`, None -> a dash."""
    if share is None:
        return "–"
    return f"{100 * share:.1f} %" if 0 < share < 1 else f"{100 * share:.0f} %"


def interval(row: Row, name: str) -> str:
    """Return the 95 % interval of a share as text, such as `2.1 to 4.6 %`; empty if unknown."""
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
    _share("unreadable", "Runs with acknowledged records that are in the log, but cannot be read"),
    _share("missing", "Runs in which a record is missing"),
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
    """Return (figure, caption, Vega-Lite specification) of each chart. Only losses are drawn even if all are zero.

    Args:
        rows: rows of by_setting(), sorted by `setting`.
        axes: label and values of each varied setting.
    """
    if not axes:
        return []
    drawn = []
    for figure in FIGURES:
        # All charts of a figure have one scale, so that a shade has the same meaning in all of them.
        largest = max((figure.value(row) or 0 for row in rows), default=0)
        if figure.name == "loss" or largest:
            for caption, own in _facets(rows, axes):
                draw_map = len(axes) > 1
                spec = _heat_map(figure, own, axes, largest or 1) if draw_map else _points(figure, own, axes[0])
                drawn.append((figure, caption, spec))
    return drawn


def _facets(rows: Sequence[Row], axes: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, list[Row]]]:
    """Return (caption, rows) for each combination of values on the axes beyond the second, at most FACETS_MAX."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        beyond = [f"{label}={value}" for (label, _), value in zip(axes, values_of(row), strict=True)][2:]
        found.setdefault(", ".join(beyond), []).append(row)
    return list(found.items())[:FACETS_MAX]


def values_of(row: Row) -> list[str]:
    """Return the values of the varied settings in a row of by_setting(), in the order of the axes."""
    return [setting.partition("=")[2] for setting in row["settings"]]


def _heat_map(figure: Figure, rows: Sequence[Row], axes: Sequence[tuple[str, Sequence[str]]], largest: float) -> Spec:
    (across, columns), (down, lines) = axes[:2]
    cells = [_cell(figure, row, values_of(row)[0], values_of(row)[1], largest) for row in rows]
    x = alt.X("x:N", sort=list(columns), title=across, axis=alt.Axis(labelAngle=0, **_AXIS))
    y = alt.Y("y:N", sort=list(lines), title=down, axis=alt.Axis(**_AXIS, **_UPRIGHT))
    scale = alt.Scale(domain=[0, largest], range=_SHADES, interpolate="rgb")
    tooltips = [alt.Tooltip(f"{field}:N", title=title) for field, title in _TOLD]
    base = alt.Chart({"values": cells}).encode(x=x, y=y, tooltip=tooltips)
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
# A title beside the axis would be rotated, and cut off if it is long.
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
"""The luminance of a background on which black and white text have the same contrast."""


def luminance(share: float) -> float:
    """Return the luminance of the shade for a fraction of the largest value.

    Source: WCAG 2.2, relative luminance
    """
    step = min(share, 1.0) * (len(_SHADES) - 1)
    below = min(int(step), len(_SHADES) - 2)
    item, other = (bytes.fromhex(shade[1:]) for shade in _SHADES[below : below + 2])
    mixed = (((1 - step + below) * low + (step - below) * high) / 255 for low, high in zip(item, other, strict=True))
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
    tooltips = [alt.Tooltip(f"{field}:N", title=title) for field, title in _TOLD]
    base = alt.Chart({"values": points}).encode(y=y, tooltip=tooltips)
    colour = "var(--fault)"
    layers = [base.mark_circle(size=140, opacity=1, color=colour).encode(x=x)]
    if is_share:
        layers.insert(0, base.mark_rule(strokeWidth=5, opacity=0.6, color=colour).encode(x="low:Q", x2="high:Q"))
    # Text begins at its point. In the right half it ends there instead, to stay on the page.
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
    del spec["config"]  # The page has its own colours.
    return spec


def render(
    about: Mapping[str, Any],
    rows: Sequence[Row],
    axes: Sequence[tuple[str, Sequence[str]]],
    versions: str,
) -> str:
    """Return the HTML page of a sweep.

    Args:
        about: `scenario`, `title`, `question`, `seeds` as text, and the `overrides` of all runs.
        rows: rows of by_setting(), sorted by `setting`, with the commands `losing_replay` and `unfinished_replay`.
        axes: label and values of each varied setting.
        versions: text about the software that computed the rows.
    """
    figures: dict[str, dict[str, Any]] = {}
    for figure, caption, spec in charts(rows, axes):
        section = figures.setdefault(figure.name, {"name": figure.name, "title": figure.title, "charts": []})
        description = f"{figure.title}. The table on this page has the same figures."
        section["charts"].append((caption, chart_in_html(spec, description)))
    return environment().get_template("sweep.html.j2").render(
        about=about,
        headline=headline(rows, [label for label, _ in axes]),
        mood="bad" if any(row["loss_runs"] for row in rows) else "ok",
        figures=list(figures.values()),
        labels=[label for label, _ in axes],
        rows=[{**row, "values": values_of(row)} for row in rows],
        losing=[row for row in rows if row["losing_replay"]],
        unfinished=[row for row in rows if row["unfinished_replay"]],
        percent=percent,
        short_time=short_time,
        interval=interval,
        style=page_style(),
        script=resource("page.js"),
        vega=vega_script(),
        versions=versions,
    )  # fmt: skip


def headline(rows: Sequence[Row], labels: Sequence[str]) -> str:
    """Return the result of a sweep as text of one or more sentences; `labels` name the varied settings."""
    finished = sum(row["finished"] for row in rows)
    losing = [row for row in rows if row["loss_runs"]]
    if not finished:
        return "No run was played to its end."
    unfinished = sum(row["runs"] for row in rows) - finished
    unreadable = sum(row["unreadable_runs"] for row in rows)
    besides = (
        f" In {unreadable:,} {'run' if unreadable == 1 else 'runs'} acked records cannot be read." if unreadable else ""
    )
    besides += f" {counted(unfinished, 'more run')} did not finish." if unfinished else ""
    if not losing:
        return (
            f"Nothing was lost: no acknowledged record in {finished:,} {'run' if finished == 1 else 'runs'}.{besides}"
        )
    safe = len([row for row in rows if row["finished"] and not row["loss_runs"]])
    worst = max(losing, key=lambda row: row["loss_probability"])
    share = f"{percent(worst['loss_probability'])} ({interval(worst, 'loss')})"
    named = joined([f"{label}={value}" for label, value in zip(labels, values_of(worst), strict=True)])
    if len(rows) == 1:
        return f"{share} of {finished:,} runs lost an acknowledged record.{besides}"
    others = f"{safe} of {len(rows)} settings lost nothing" if safe else "every setting lost something"
    return f"Worst setting, {named}: {share} of its runs lost an acknowledged record; {others}.{besides}"
