"""The one file: the built player with the runs of the page inside."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from replica.trace.events import TraceRow
from replica.trace.signs import BROKER_MARKS
from scenarios.explain.kept_outcomes import KeptOutcome
from scenarios.language.steps import ScenarioQuestion
from scenarios.observe.differences import first_difference
from scenarios.view.head import head
from scenarios.view.moments import decisive_place, slowest_story, stories_of, story_json
from scenarios.view.questions import questions_of
from scenarios.view.tape import Tape, record_tape

PLAYER = "player.html"
"""Built from page/ by `make page`."""

_TITLE_PLACE = "HIGHWATER_TITLE"
_CONNECT_PLACE = "HIGHWATER_CONNECT"
_DATA_PLACE = "HIGHWATER_DATA"


@dataclass(frozen=True, slots=True)
class RunOfPage:
    """document: the run as the page reads it"""

    tape: Tape
    document: dict[str, Any]


def run_of_page(
    rows: Sequence[TraceRow],
    summary: Mapping[str, Any],
    question: str = "",
    questions: Sequence[ScenarioQuestion] = (),
    what_if: Mapping[str, Sequence[KeptOutcome]] | None = None,
) -> RunOfPage:
    """question: the one that the scenario answers; questions: its own of predict mode

    what_if: by record, what became of it in runs with one thing changed
    """
    tape = record_tape(rows)
    stories = stories_of(rows, summary) or slowest_story(rows, tape)
    document = {
        "head": {**head(summary), "question": question},
        "tape": tape.as_json(),
        "opens_at": decisive_place(tape, stories, summary),
        "stories": [story_json(story, tape) for story in stories],
        "questions": [question.as_json() for question in questions_of(rows, tape, summary, questions)],
        "what_if": {
            record: [[one.change, int(one.saved), one.sentence] for one in outcomes]
            for record, outcomes in (what_if or {}).items()
        },
    }
    return RunOfPage(tape, document)


def page_of(runs: Sequence[RunOfPage], *, predicts: bool = False) -> str:
    """The page of one run, or of several side by side. predicts: it begins by asking"""
    first = runs[0].document["head"]
    # The title of a scenario often names its end.
    title = first["scenario" if predicts else "title"]
    documents = [{**run.document, "differs": _difference(runs[0], run)} for run in runs]
    return _filled(title, {"runs": documents, "predicts": predicts}, "'none'")


def live_page(head: Mapping[str, Any]) -> str:
    """The page of a cluster that is running: it reads its tape from where it came from, below `events`."""
    return _filled(head["title"], {"runs": [], "live": head}, "'self'")


def policy_of(page: str) -> str:
    """The page's own content security policy."""
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert found is not None
    return found[1]


def _filled(title: str, data: Mapping[str, Any], connects_to: str) -> str:
    text = json.dumps({"brokers": _marks(), **data}, separators=(",", ":"), ensure_ascii=True).encode()
    # No name of a file and no time in the gzip header: the same runs make the same page.
    packed = base64.b64encode(gzip.compress(text, mtime=0)).decode()
    player = files("scenarios.view").joinpath(PLAYER).read_text(encoding="utf-8")
    before, between, after = _cut(player.replace(_CONNECT_PLACE, connects_to, 1))
    return f"{before}{html.escape(title)} - Highwater{between}{packed}{after}"


def _difference(first: RunOfPage, run: RunOfPage) -> list[Any] | None:
    """When the run parts from the first run of the page, and what happens then in each."""
    is_real, was_real = (bool(one.document["head"]["sampled"]) for one in (run, first))
    if is_real != was_real:
        # Seen in other ways and by the wall clock, no two events are the same.
        nodes = {True: "the nodes are Apache Kafka's own", False: "the nodes are Highwater's"}
        return [0, nodes[is_real], nodes[was_real]]
    found = None if run is first else first_difference(first.tape.told(), run.tape.told())
    if found is None:
        return None
    there, here = (sentence or "the run has ended" for sentence in found.sentences)
    return [min(at_us for at_us in found.at_us if at_us is not None), here, there]


def _marks() -> list[list[str]]:
    return [[mark.light, mark.dark, " ".join(map(str, mark.dash)) or "none"] for mark in BROKER_MARKS]


def _cut(player: str) -> tuple[str, str, str]:
    before, _, rest = player.partition(_TITLE_PLACE)
    between, _, after = rest.partition(_DATA_PLACE)
    return before, between, after
