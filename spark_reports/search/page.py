"""The page of a search: one HTML file that opens offline: what broke, how it went, what was covered."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from replica.trace.broker_marks import BROKER_MARKS
from spark_reports.report.embedding import chart_in_html, environment, page_style, resource, vega_script
from spark_reports.report.words import counted, joined
from spark_reports.search.charts import PLACES, growth_chart

Search = Mapping[str, Any]

NAMES_SHOWN = 150
"""Of each kind, the rarest ones; the search's JSON file has all."""
Z_SQUARE = 1.959963984540054**2
"""Of the two-sided 95 % of the normal distribution."""


class _Kind(NamedTuple):
    """Names of one kind. once: reached by one run only     parts: how many a quarter, half and all of the runs reached

    shown: the rarest first
    """

    kind: str
    once: int
    parts: list[int]
    last_new: int
    shown: list[Mapping[str, Any]]


class _Branches(NamedTuple):
    """The branches of one event. rows: a branch and, by fault, (role, runs)"""

    event: str
    rows: list[tuple[str, list[list[tuple[str, int]]]]]


def render(searches: Sequence[Search], data_file: str, pace: str) -> str:
    """The whole page.

    searches:  what document.py of scenarios/search makes: the one that the page is about, then those to compare with it
    data_file: beside the page, with everything that it leaves out
    pace:      a sentence about the time it took, or nothing
    """
    search = searches[0]
    faults, branches = _branches(search["covered"])
    description = "How the search went. The tables on this page hold the same figures."
    return environment().get_template("search.html.j2").render(
        search=search,
        searches=searches,
        headline=headline(search),
        mood="bad" if any(one["our_bug"] for one in search["findings"]) else "warn" if search["findings"] else "ok",
        tiles=_tiles(search),
        chart=chart_in_html(growth_chart(searches), description) if search["played"] else "",
        compared=_compared(searches) if len(searches) > 1 else [],
        kinds=_kinds(search),
        faults=faults,
        branches=branches,
        places=PLACES,
        dashes=[",".join(map(str, mark.dash)) or "none" for mark in BROKER_MARKS],
        data_file=data_file,
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
        # Schedules of a guided search are made of each other: they say nothing of all schedules.
        bound = 100 * Z_SQUARE / (search["played"] + Z_SQUARE)
        most = "" if search["mode"] == "guided" else f": of all such schedules at most {bound:.2g} % do (95 %)"
        return f"Nothing broke in {schedules}{most}."
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
    names, kinds = search["covered"], search["findings"]
    last = max((name["first_run"] for name in names), default=0)
    bugs = sum(one["our_bug"] for one in kinds)
    gave = len({name["first_run"] for name in names})
    return [
        (f"{search['played']:,}", "schedules played", ""),
        (f"{search['broke_something']:,}", "of them broke something", "warn" if kinds else "good"),
        (f"{len(kinds):,}", "kind of finding" if len(kinds) == 1 else "kinds of findings", "warn" if kinds else "good"),
        (f"{bugs:,}", "of them bugs in Highwater", "bad" if bugs else "good"),
        (f"{len(names):,}", "states and branches reached", ""),
        (f"{gave:,}", "runs that reached something new", ""),
        (f"run {last:,}", "was the last of these", ""),
    ]  # fmt: skip


def _compared(searches: Sequence[Search]) -> list[tuple[str, list[str]]]:
    """Lines of figures, each of all searches, after as many runs as the shortest has."""
    runs = min(search["played"] for search in searches)

    def kinds_by_then(search: Search) -> list[str]:
        return [one["kind"] for one in search["findings"] if one["runs"][0] <= runs]

    def names_by_then(search: Search) -> set[str]:
        return {name["name"] for name in search["covered"] if name["first_run"] <= runs}

    def only(search: Search) -> int:
        others = [names_by_then(other) for other in searches if other is not search]
        return len(names_by_then(search).difference(*others))

    return [
        ("runs that are compared", [f"{runs:,}" for _ in searches]),
        ("states and branches", [f"{len(names_by_then(search)):,}" for search in searches]),
        ("that no other reached", [f"{only(search):,}" for search in searches]),
        ("runs that broke something", [f"{_broke(search, runs):,}" for search in searches]),
        ("kinds of findings", [", ".join(kinds_by_then(search)) or "none" for search in searches]),
    ]


def _broke(search: Search, runs: int) -> int:
    return len({run for one in search["findings"] for run in one["runs"] if run <= runs})


def _kinds(search: Search) -> list[_Kind]:
    by_kind: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in search["kinds_of_names"]}
    for name in search["covered"]:
        by_kind[name["kind"]].append(name)
    found = []
    for kind, names in by_kind.items():
        firsts = [name["first_run"] for name in names]
        parts = [sum(first <= search["played"] * part / 4 for first in firsts) for part in (1, 2, 4)]
        rarest = sorted(names, key=lambda name: (name["runs"], name["name"]))[:NAMES_SHOWN]
        once = sum(name["runs"] == 1 for name in names)
        if names:
            found.append(_Kind(kind, once, parts, max(firsts), rarest))
    return found


_ROLES = {"leader": "L", "follower": "F", "-": ""}


def _branches(covered: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[_Branches]]:
    """(the faults, the branches of each event with the runs that took them, by fault and role)."""
    runs: dict[tuple[str, str], dict[str, list[tuple[str, int]]]] = defaultdict(lambda: defaultdict(list))
    times: Counter[str] = Counter()
    for name in sorted(covered, key=lambda name: str(name["name"])):
        words = name["name"].removeprefix("branch ").split(" | ")
        if name["name"].startswith("branch "):
            event, _, branch = words[0].partition(": ")
            cells = runs[event, branch]
            if len(words) == 3:
                cells[words[2]].append((_ROLES[words[1]], name["runs"]))
                times[words[2]] += 1
    faults = sorted(times)
    by_event: dict[str, list[tuple[str, list[list[tuple[str, int]]]]]] = defaultdict(list)
    for (event, branch), cells in runs.items():
        by_event[event].append((branch, [cells.get(fault, []) for fault in faults]))
    return faults, [_Branches(event, rows) for event, rows in by_event.items()]
