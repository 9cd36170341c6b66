"""The findings of a search, run by run, in one picture."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import altair as alt

Search = Mapping[str, Any]
Spec = dict[str, Any]
Points = list[dict[str, Any]]

WIDTH_PX = 900
"""Nominal; the page sets the real width before it draws."""
FIRST_RUN = 1
_LABEL_PX = 70
"""Of `run 10,000`."""


def findings_chart(search: Search) -> Spec:
    """search: as scenarios/search/document.py makes it; something was found"""
    first = [(kind["runs"][0], kind["kind"]) for kind in search["findings"]]
    points: Points = [{"run": FIRST_RUN, "count": 0, "what": ""}]
    for run, new in sorted(Counter(run for run, _ in first).items()):
        found = ", ".join(kind for at, kind in first if at == run)
        points.append({"run": run, "count": points[-1]["count"] + new, "what": found})
    last = max(search["played"], points[-1]["run"])
    points.append({"run": last, "count": points[-1]["count"], "what": ""})
    base = alt.Chart({"values": points}).encode(
        x=_x(last), y=_y(points[-1]["count"]),
        tooltip=[alt.Tooltip("run:Q"), alt.Tooltip("count:Q", title="so far"), alt.Tooltip("what:N")],
    )  # fmt: skip
    line = base.mark_line(interpolate="step-after", strokeWidth=2.5, color="var(--b0)")
    # A step of one line in a thousand is hard to point at.
    marked = base.mark_circle(size=70, opacity=1, color="var(--b0)").transform_filter("datum.what")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Automatically deduplicated")
        spec: Spec = (
            alt.layer(line, marked)
            .properties(width=WIDTH_PX, height=180, title=_title("Kinds of findings so far"))
            .to_dict()
        )
    del spec["config"]  # the page brings its own colours
    return spec


_PLAIN_Y: dict[str, Any] = {"minExtent": 48, "maxExtent": 48}


def _x(last: int) -> alt.X:
    told: dict[str, Any] = {"format": ",d", "labelExpr": "'run ' + datum.label"}
    # A label that stood out on the right would widen the chart, which would fade there.
    axis = alt.Axis(title=None, values=run_ticks(last), grid=False, labelFlush=_LABEL_PX / 2, **told)
    domain = [FIRST_RUN - 0.5, max(FIRST_RUN, last) + 0.5]
    return alt.X("run:Q", axis=axis, scale=alt.Scale(domain=domain, nice=False))


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
