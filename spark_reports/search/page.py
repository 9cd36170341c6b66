"""The page of a search: one HTML file that opens offline: what broke, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_reports.report.embedding import chart_in_html, environment, page_style, resource, vega_script
from spark_reports.report.words import counted, joined
from spark_reports.search.charts import findings_chart

Search = Mapping[str, Any]

Z_SQUARE = 1.959963984540054**2
"""Of the two-sided 95 % of the normal distribution."""


def render(search: Search, pace: str) -> str:
    """Return the whole page.

    Args:
        search: the document that scenarios/search/document.py makes.
        pace: a sentence about the time it took, or nothing.
    """
    description = "When the search found each kind. The tables on this page hold the same figures."
    return environment().get_template("search.html.j2").render(
        search=search,
        headline=headline(search),
        mood="bad" if any(one["our_bug"] for one in search["findings"]) else "warn" if search["findings"] else "ok",
        tiles=_tiles(search),
        chart=chart_in_html(findings_chart(search), description) if search["findings"] else "",
        pace=pace,
        style=page_style(),
        script=resource("page.js"),
        vega=vega_script(),
    )  # fmt: skip


def headline(search: Search) -> str:
    """The result in one sentence."""
    schedules = counted(search["played"], "safe schedule" if search["safe"] else "schedule")
    kinds = search["findings"]
    if not kinds:
        bound = 100 * Z_SQUARE / (search["played"] + Z_SQUARE)
        return f"Nothing broke in {schedules}: of all such schedules at most {bound:.2g} % do (95 %)."
    bugs, by_era, of_no_release = (
        [one["kind"] for one in kinds if one["cause"] == cause] for cause in ("bug", "era", "no release")
    )
    broke = f"{search['broke_something']:,} of {schedules} broke something, in {counted(len(kinds), 'way')}"
    if bugs:
        return f"{broke}: {joined(bugs)} {'is a bug' if len(bugs) == 1 else 'are bugs'} in Highwater."
    if not of_no_release:
        return f"{broke}: all by the rules of {search['era']}."
    none = f"{joined(of_no_release)} {'is' if len(of_no_release) == 1 else 'are'} promised by no release of Kafka"
    rest = f", the rest is by the rules of {search['era']}" if by_era else ""
    return f"{broke}: {none}{rest}."


def _tiles(search: Search) -> list[tuple[str, str, str]]:
    """(number, its unit, class)"""
    kinds = search["findings"]
    bugs = sum(one["our_bug"] for one in kinds)
    return [
        (f"{search['played']:,}", "schedules played", ""),
        (f"{search['broke_something']:,}", "of them broke something", "warn" if kinds else "good"),
        (f"{len(kinds):,}", "kind of finding" if len(kinds) == 1 else "kinds of findings", "warn" if kinds else "good"),
        (f"{bugs:,}", "of them bugs in Highwater", "bad" if bugs else "good"),
    ]  # fmt: skip
