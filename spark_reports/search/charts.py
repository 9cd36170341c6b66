"""How a search went, run by run, in one picture: what it covered, what it found, and how much of that was still new."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from replica.trace.broker_marks import BROKER_MARKS

Search = Mapping[str, Any]
Spec = dict[str, Any]
Points = list[dict[str, Any]]

PLACES = {"guided": 5, "swarm": 1, "blind": 0}
"""Of each mode among broker_marks: its colour and dash."""
WIDTH_PX = 900
"""Nominal; the page sets the real width before it draws."""
BARS_MAX = 40
FIRST_RUN = 1
_LABEL_PX = 70
"""Of `run 10,000`."""


def growth_chart(searches: Sequence[Search]) -> Spec:
    """searches: as scenarios/search/document.py makes them; what is new is drawn of the first one"""
    last = max(search["played"] for search in searches)
    panels = [
        _lines("States and branches reached so far", _growth(searches), last),
        _new_ones(searches[0], last),
    ]
    if any(search["findings"] for search in searches):
        panels.append(_lines("Kinds of findings so far", _findings(searches), last))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Automatically deduplicated")
        spec: Spec = alt.vconcat(*panels, spacing=14).to_dict()
    del spec["config"]  # the page brings its own colours
    return spec


def _steps(search: Search, runs: Sequence[int], named: Mapping[int, str]) -> Points:
    """The count of `runs` up to each of them. named: what is said of a run besides"""
    points, so_far = [], 0
    for run, new in sorted({FIRST_RUN: 0, **Counter(runs)}.items()):
        so_far += new
        what = named.get(run, f"{new} new") if new else ""
        points.append({"run": run, "count": so_far, "mode": search["mode"], "what": what})
    return [*points, {"run": search["played"], "count": so_far, "mode": search["mode"], "what": ""}]


def _growth(searches: Sequence[Search]) -> Points:
    return [point for one in searches for point in _steps(one, [name["first_run"] for name in one["covered"]], {})]


def _findings(searches: Sequence[Search]) -> Points:
    points: Points = []
    for search in searches:
        first = [(kind["runs"][0], kind["kind"]) for kind in search["findings"]]
        named = {run: ", ".join(kind for at, kind in first if at == run) for run, _ in first}
        points += _steps(search, [run for run, _ in first], named)
    return points


def _lines(title: str, points: Points, last: int) -> Any:
    modes = list(dict.fromkeys(point["mode"] for point in points))
    marks = [BROKER_MARKS[PLACES[mode]] for mode in modes]
    colour = alt.Scale(domain=modes, range=[f"var(--b{PLACES[mode]})" for mode in modes])
    dash = alt.Scale(domain=modes, range=[list(mark.dash or (1, 0)) for mark in marks])
    base = alt.Chart({"values": points}).encode(
        x=_x(last), y=_y(max(point["count"] for point in points)),
        color=alt.Color("mode:N", scale=colour, legend=None),
        tooltip=[alt.Tooltip("run:Q"), alt.Tooltip("count:Q", title="so far"), alt.Tooltip("what:N"), "mode:N"],
    )  # fmt: skip
    line = base.mark_line(interpolate="step-after", strokeWidth=2.5).encode(
        strokeDash=alt.StrokeDash("mode:N", scale=dash, legend=None)
    )
    # A step of one line in a thousand is hard to point at; steps of few are marked.
    layers = [line, base.mark_circle(size=70 if len(points) < 100 else 12, opacity=1).transform_filter("datum.what")]
    return alt.layer(*layers).properties(width=WIDTH_PX, height=180, title=_title(title))


def _new_ones(search: Search, last: int) -> Any:
    """Bars over equal numbers of runs; the last may be of fewer."""
    each = max(1, -(-search["played"] // BARS_MAX))
    new = Counter((name["first_run"] - 1) // each for name in search["covered"])
    bars = [
        {"run": place * each + FIRST_RUN, "last": min(search["played"], (place + 1) * each), "count": new[place]}
        for place in range(-(-search["played"] // each))
    ]
    for bar in bars:
        bar["runs"] = f"{bar['run']} to {bar['last']}" if bar["last"] > bar["run"] else f"{bar['run']}"
        # A run has its place in the middle of its bar.
        bar["from"], bar["until"] = bar["run"] - 0.5, bar["last"] + 0.5
    # The first runs reach most of everything: on a plain scale all others would be one pixel.
    scale = alt.Scale(type="symlog", nice=False)
    y = alt.Y("count:Q", title=None, scale=scale, axis=alt.Axis(values=[0, 1, 10, 100, 1000], format="~s", **_PLAIN_Y))
    told = [alt.Tooltip("runs:N"), alt.Tooltip("count:Q", title="new")]
    chart = alt.Chart({"values": bars}).mark_rect(color=f"var(--b{PLACES[search['mode']]})", opacity=0.75)
    of = f" per {each} runs" if each > 1 else " of each run"
    words = f"New states and branches{of}, {search['mode']} (logarithmic)"
    drawn = chart.encode(x=_x(last, "from"), x2="until:Q", y=y, y2=alt.datum(0), tooltip=told)
    return drawn.properties(width=WIDTH_PX, height=110, title=_title(words))


_PLAIN_Y: dict[str, Any] = {"minExtent": 48, "maxExtent": 48}


def _x(last: int, field: str = "run") -> alt.X:
    told: dict[str, Any] = {"format": ",d", "labelExpr": "'run ' + datum.label"}
    # A label that stood out on the right would widen the chart, which would fade there.
    axis = alt.Axis(title=None, values=run_ticks(last), grid=False, labelFlush=_LABEL_PX / 2, **told)
    domain = [FIRST_RUN - 0.5, max(FIRST_RUN, last) + 0.5]
    return alt.X(f"{field}:Q", axis=axis, scale=alt.Scale(domain=domain, nice=False))


def run_ticks(last: int) -> list[int]:
    """The first run and multiples of a round number, about ten: Vega's own would leave out the first, or begin at 0."""
    step = next(
        step for power in itertools.count() for step in (10**power, 2 * 10**power, 5 * 10**power) if 10 * step >= last
    )
    return [FIRST_RUN, *(run for run in range(step, last + 1, step) if run > FIRST_RUN)]


def _y(largest: int) -> alt.Y:
    # Vega would put a tick at half a finding.
    ticks: dict[str, Any] = {"values": list(range(largest + 1))} if largest < 5 else {"tickCount": 4}
    axis = alt.Axis(format=",d", title=None, **ticks, **_PLAIN_Y)
    return alt.Y("count:Q", axis=axis, scale=alt.Scale(domain=[0, largest * 1.08 or 1], nice=False))


def _title(text: str) -> alt.TitleParams:
    return alt.TitleParams(text, anchor="start", frame="group")
