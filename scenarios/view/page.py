"""The one file: the built player with the runs of the page inside."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from replica.trace.events import TraceRow
from scenarios.language.questions import ScenarioQuestion
from scenarios.view.moments import decisive_place, stories_of, story_json
from scenarios.view.questions import questions_of
from scenarios.view.tape import head, record_tape

PLAYER = "player.html"
"""Built from page/ by `make page`."""

_TITLE_PLACE = "HIGHWATER_TITLE"
_DATA_PLACE = "HIGHWATER_DATA"


def run_document(
    rows: Sequence[TraceRow],
    summary: Mapping[str, Any],
    question: str = "",
    questions: Sequence[ScenarioQuestion] = (),
) -> dict[str, Any]:
    """One run as the page reads it. question: the one that the scenario answers; questions: its own of predict mode"""
    tape = record_tape(rows)
    stories = stories_of(rows, summary)
    return {
        "head": {**head(summary), "question": question},
        "tape": tape.as_json(),
        "opens_at": decisive_place(tape, stories, summary),
        "stories": [story_json(story, tape) for story in stories],
        "questions": [question.as_json() for question in questions_of(rows, tape, summary, questions)],
    }


def page_of(documents: Sequence[Mapping[str, Any]]) -> str:
    """The page of one run, or of several side by side. documents: of `run_document`"""
    first = documents[0]["head"]
    data = json.dumps(documents, separators=(",", ":"), ensure_ascii=True).encode()
    # No name of a file and no time in the gzip header: the same runs make the same page.
    packed = base64.b64encode(gzip.compress(data, mtime=0)).decode()
    player = files("scenarios.view").joinpath(PLAYER).read_text(encoding="utf-8")
    before, between, after = _cut(player)
    return f"{before}{html.escape(first['title'])} - Highwater{between}{packed}{after}"


def _cut(player: str) -> tuple[str, str, str]:
    before, _, rest = player.partition(_TITLE_PLACE)
    between, _, after = rest.partition(_DATA_PLACE)
    return before, between, after
