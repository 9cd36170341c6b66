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

from cluster.kafka.observe.observed import SAMPLE_MS
from replica.trace.events import EVENT_NAMES, RecordAcked, RecordSent, TraceEvent, TraceRow
from replica.trace.signs import BROKER_MARKS
from scenarios.explain.explanation import Explanation
from scenarios.explain.kept_outcomes import KeptOutcome
from scenarios.explain.record import RecordUnknown, explain_record
from scenarios.language.spec import Scenario
from scenarios.language.steps import ScenarioQuestion
from scenarios.observe.differences import first_difference
from scenarios.observe.wording import acked_of, lost_words, played_by, settings_of, sizes_of
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


# -------------------------------------------------------------------------------------------------- moments and stories
#
# The decisive moment of a run, and the stories of the records that met a bad end.

ROWS_READ_MAX = 60_000
"""Each story goes through the whole trace once: after so many events in all, no further stories."""
STORIES_MAX = 24

_TELLING_SIGNS = ("lost", "truncated", "bad", "elected", "offline", "refused", "isr", "fault", "down", "ended")
"""Signs of key moments: without a finding, the page opens on the first moment of the first sign that there is, since
clients have sent something. Before that a live cluster elects its leaders, one broker after the other."""
_OF_STEPS = ("fault", "down", "ended")
"""Signs that tell of a step even before."""


def stories_of(rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> list[Explanation]:
    """Why the records of the findings met their end, one story for each record, as many as there is time for."""
    wanted: dict[str, None] = {}
    for anomaly in summary["anomalies"]:
        wanted.update(dict.fromkeys(anomaly["records"]))
    wanted.update(dict.fromkeys(summary["records"]["missing"]))
    room = min(STORIES_MAX, max(1, ROWS_READ_MAX // max(1, len(rows))))
    stories = []
    for name in list(wanted)[:room]:
        try:
            stories.append(explain_record(rows, name))
        except RecordUnknown:
            continue  # a finding about a name that no producer of this run has sent
    return stories


SLOW_US = 1_000_000
"""An ack that takes as long is a story, where a run has no other."""


def slowest_story(rows: Sequence[TraceRow], tape: Tape) -> list[Explanation]:
    """Of a run in which nothing happened but load: the record that waited longest for its ack. rows: all of the run"""
    if any(sign and at_us > 0 for sign, at_us in zip(tape.key, tape.at_us, strict=True)):
        return []
    acks = [row.event for row in rows if isinstance(row.event, RecordAcked)]
    slowest = max(acks, key=lambda ack: ack.latency_us, default=None)
    if slowest is None or slowest.latency_us < SLOW_US:
        return []
    return [explain_record(rows, slowest.record)]


def decisive_place(tape: Tape, stories: Sequence[Explanation], summary: Mapping[str, Any]) -> int:
    """The place on the tape at which the page opens."""
    for story in stories:
        places = [tape.places[one.seq] for one in story.moments if one.decisive and one.seq in tape.places]
        if places:
            return places[-1]
    for anomaly in summary["anomalies"]:
        places = [tape.places[seq] for seq in anomaly.get("seqs", ()) if seq in tape.places]
        if places:
            return places[-1]
    begun = _first(tape, RecordSent) or 0
    wanted = [*((sign, begun) for sign in _TELLING_SIGNS), *((sign, 0) for sign in _OF_STEPS)]
    for sign, since in wanted:
        for place in range(since, len(tape)):
            if tape.key[place] == sign and tape.at_us[place] > 0:
                return place
    for story in stories:
        places = [tape.places[one.seq] for one in story.moments if one.seq in tape.places]
        if places:
            return places[-1]
    acked = _first(tape, RecordAcked)
    return next((place for place, changes in enumerate(tape.changes) if changes), 0) if acked is None else acked


def _first(tape: Tape, kind: type[TraceEvent]) -> int | None:
    wanted = tape.kinds.known(EVENT_NAMES[kind])
    return next((place for place, found in enumerate(tape.kind) if found == wanted), None)


def story_json(story: Explanation, tape: Tape) -> dict[str, Any]:
    """A story with places on the tape instead of seqs."""
    document = story.as_json()
    return {
        "record": document["record"],
        "part": document["partition"],
        "fate": document["fate"],
        "ending": document["ending"],
        "would": document["would_have_saved"],
        "would_not": document["would_not_have_saved"],
        "moments": [
            [tape.places.get(one.seq, -1), one.at_us, one.sentence, int(one.decisive)] for one in story.moments
        ],
        "holdings": [[one.at_us, dict(one.brokers), one.producer] for one in story.holdings],
    }


# ------------------------------------------------------------------------------------------------------------- the head
#
# The page's summary of a run: the cluster, the rules, and the verdict; and of a cluster that is running.


def _label(summary: Mapping[str, Any]) -> str:
    name = summary["variant"] or "as written"
    if "cut_short" in summary:
        name += f", cut short at {summary['cut_short']['at_s']:g} s"
    return f"{name}, Kafka {summary['real_kafka']}" if "real_kafka" in summary else str(name)


def head(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The page's summary of a run before it plays: the cluster, the rules, and the verdict."""
    return {
        "scenario": summary["scenario"],
        "label": _label(summary),
        "title": summary["title"],
        "seed": summary["seed"],
        "era": played_by(summary),
        "live": bool(summary.get("live")),
        "sampled": f"sampled every {SAMPLE_MS} ms" if "real_kafka" in summary else "",
        "built": settings_of(summary),
        "verdict": list(summary["verdict"]),
        "findings": [
            {key: anomaly[key] for key in ("kind", "sentence", "records", "partition")}
            for anomaly in summary["anomalies"]
        ],
        "lost": list(summary["records"]["lost"]),
        "lost_in_words": lost_words(summary["records"]["lost"], summary["records"]),
        "acked_and_lost": len(acked_of(summary["records"]["lost"], summary["records"])),
        "missing": list(summary["records"]["missing"]),
        "acked": len(summary["records"]["acked"]),
        "sent": summary["records"]["sent"],
        "duplicated": list(summary["records"]["duplicated"]),
    }


def live_head(scenario: Scenario) -> dict[str, Any]:
    """The same of a cluster that is running."""
    nothing: list[str] = []
    return {
        "scenario": scenario.id,
        "label": "running",
        "title": scenario.title,
        "question": "",
        "seed": scenario.seed,
        "era": scenario.profile,
        "live": True,
        "sampled": "",
        "built": settings_of({"setting": {**sizes_of(scenario), "acks": {}}}),
        "verdict": ["running"],
        "findings": nothing,
        "lost": nothing,
        "lost_in_words": "",
        "acked_and_lost": 0,
        "missing": nothing,
        "acked": 0,
        "sent": 0,
        "duplicated": nothing,
    }
