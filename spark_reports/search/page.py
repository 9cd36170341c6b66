"""Render the page of a search for schedules that break a promise: its sentences, chart and findings."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import altair as alt

from replica.trace.ranges import counted
from spark_reports.report.embedding import chart_in_html, environment, page_style, resource, vega_script
from spark_reports.report.words import joined

Search = Mapping[str, Any]
Spec = dict[str, Any]
Points = list[dict[str, Any]]

WIDTH_PX = 900
"""Nominal width of a chart. The page sets the real width before it draws the chart."""
FIRST_RUN = 1
_LABEL_PX = 70
"""Width of a label such as `run 10,000`."""


def findings_chart(search: Search) -> Spec:
    """Return a Vega-Lite chart of a search's findings; there must be at least one.

    `search` is a document made by scenarios/search/document.py.
    """
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
    # Without marks, a single step in a line over a thousand runs is hard to point at.
    marked = base.mark_circle(size=70, opacity=1, color="var(--b0)").transform_filter("datum.what")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Automatically deduplicated")
        spec: Spec = (
            alt.layer(line, marked)
            .properties(width=WIDTH_PX, height=180, title=_title("Kinds of findings so far"))
            .to_dict()
        )
    del spec["config"]  # The page has its own colours.
    return spec


_PLAIN_Y: dict[str, Any] = {"minExtent": 48, "maxExtent": 48}


def _x(last: int) -> alt.X:
    described: dict[str, Any] = {"format": ",d", "labelExpr": "'run ' + datum.label"}
    # A label beyond the right edge would widen the chart, which would then scroll.
    axis = alt.Axis(title=None, values=run_ticks(last), grid=False, labelFlush=_LABEL_PX / 2, **described)
    domain = [FIRST_RUN - 0.5, max(FIRST_RUN, last) + 0.5]
    return alt.X("run:Q", axis=axis, scale=alt.Scale(domain=domain, nice=False))


def run_ticks(last: int) -> list[int]:
    """Return the ticks of an axis of run numbers: 1, and about ten multiples of a round number up to `last`.

    Vega's own ticks would leave out run 1, or begin at 0.
    """
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


Z_SQUARE = 1.959963984540054**2
"""Squared quantile of the normal distribution for a two-sided interval of 95 %."""


def render(search: Search, pace: str) -> str:
    """Return the HTML page of a search.

    Args:
        search: a document made by scenarios/search/document.py.
        pace: a sentence about the duration of the search, or "".
    """
    description = "When the search found each kind. The tables on this page have the same figures."
    return environment().get_template("search.html.j2").render(
        search=search,
        headline=headline(search),
        mood="bad" if any(item["our_bug"] for item in search["findings"]) else "warn" if search["findings"] else "ok",
        tiles=_tiles(search),
        chart=chart_in_html(findings_chart(search), description) if search["findings"] else "",
        pace=pace,
        style=page_style(),
        script=resource("page.js"),
        vega=vega_script(),
    )  # fmt: skip


def headline(search: Search) -> str:
    """Return the result of a search in one sentence."""
    schedules = counted(search["played"], "safe schedule" if search["safe"] else "schedule")
    kinds = search["findings"]
    if not kinds:
        bound = 100 * Z_SQUARE / (search["played"] + Z_SQUARE)
        most = f"at most {bound:.2g} % of all such schedules break something (95 % confidence)"
        return f"Nothing broke in {schedules}; {most}."
    bugs, by_era, of_no_release = (
        [kind["kind"] for kind in kinds if kind["cause"] == cause] for cause in ("bug", "era", "no release")
    )
    broke = f"{search['broke_something']:,} of {schedules} broke something, in {counted(len(kinds), 'way')}"
    if bugs:
        return f"{broke}: {joined(bugs)} {'is a bug' if len(bugs) == 1 else 'are bugs'} in Highwater."
    if not of_no_release:
        return f"{broke}: the rules of {search['era']} allow {'it' if len(kinds) == 1 else 'all of them'}."
    none = f"{joined(of_no_release)} {'is' if len(of_no_release) == 1 else 'are'} promised by no release of Kafka"
    rest = f"; the rules of {search['era']} allow the rest" if by_era else ""
    return f"{broke}: {none}{rest}."


def _tiles(search: Search) -> list[tuple[str, str, str]]:
    """Return the search's key figures as (text, label, CSS class)."""
    kinds = search["findings"]
    bugs = sum(kind["our_bug"] for kind in kinds)
    return [
        (f"{search['played']:,}", "schedules played", ""),
        (f"{search['broke_something']:,}", "schedules that broke something", "warn" if kinds else "good"),
        (f"{len(kinds):,}", "kind of finding" if len(kinds) == 1 else "kinds of findings", "warn" if kinds else "good"),
        (f"{bugs:,}", "bugs in Highwater", "bad" if bugs else "good"),
    ]  # fmt: skip
