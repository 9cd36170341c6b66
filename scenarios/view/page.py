"""Creates the page: one HTML file with the player and the data of one or more runs."""

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
from scenarios.observe.availability import PATIENCE_US
from scenarios.observe.differences import first_difference
from scenarios.observe.wording import acked_of, lost_words, played_by, seconds, settings_of, sizes_of
from scenarios.view.labels import NamedRun, labels_of
from scenarios.view.questions import questions_of
from scenarios.view.tape import Tape, record_tape

PLAYER = "player.html"
"""File with the player, which `make page` builds from page/."""

_TITLE_PLACE = "HIGHWATER_TITLE"
_CONNECT_PLACE = "HIGHWATER_CONNECT"
_DATA_PLACE = "HIGHWATER_DATA"


@dataclass(frozen=True, slots=True)
class RunOfPage:
    """A run on a page. `document` is the JSON object that the player reads."""

    rows: Sequence[TraceRow]
    document: dict[str, Any]
    named: NamedRun


def run_of_page(
    rows: Sequence[TraceRow],
    summary: Mapping[str, Any],
    scenario: Scenario | None = None,
    what_if: Mapping[str, Sequence[KeptOutcome]] | None = None,
) -> RunOfPage:
    """Prepare a run for a page.

    Args:
        rows: the trace.
        scenario: the scenario of the run, None if its lock file cannot be read.
        what_if: for a lost record, its outcomes in runs with one change each.
    """
    question = scenario.question if scenario else None
    named = NamedRun(summary, scenario)
    tape = record_tape(rows)
    stories = stories_of(rows, summary) or slowest_story(rows, tape)
    document = {
        "head": {
            **head(summary),
            "label": labels_of([named])[0],
            "question": question or "",
            "racks": _racks(scenario),
        },
        "tape": tape.as_json(),
        "opens_at": decisive_place(tape, stories, summary),
        "stories": [story_json(story, tape) for story in stories],
        "questions": [question.as_json() for question in questions_of(rows, tape, summary, scenario)],
        "what_if": {
            record: [[outcome.change, int(outcome.saved), outcome.sentence] for outcome in outcomes]
            for record, outcomes in (what_if or {}).items()
        },
    }
    return RunOfPage(rows, document, named)


def page_of(runs: Sequence[RunOfPage], *, predicts: bool = False) -> str:
    """Return the HTML page of one run, or of several runs side by side. With `predicts` it begins with questions."""
    # With questions, the title is not shown, since it often reveals the answers.
    titles = dict.fromkeys(run.document["head"]["scenario" if predicts else "title"] for run in runs)
    labels = labels_of([run.named for run in runs])
    documents = [
        {**run.document, "head": {**run.document["head"], "label": label}, "differs": difference(runs[0], run)}
        for run, label in zip(runs, labels, strict=True)
    ]
    return _filled(" / ".join(titles), {"runs": documents, "predicts": predicts}, "'none'")


def play_page(run: RunOfPage, play: Mapping[str, Any]) -> str:
    """Return the HTML page of `highwater play`, which requests further runs from its server."""
    document = {**run.document, "differs": None}
    return _filled(run.document["head"]["title"], {"runs": [document], "play": play}, "'self'")


def live_page(head: Mapping[str, Any]) -> str:
    """Return the HTML page of a running cluster, which reads its tape from the server's feed."""
    return _filled(head["title"], {"runs": [], "live": head}, "'self'")


def policy_of(page: str) -> str:
    """Return the content security policy that a page declares."""
    match = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert match is not None
    return match[1]


def _filled(title: str, data: Mapping[str, Any], connects_to: str) -> str:
    text = json.dumps({"brokers": _marks(), **data}, separators=(",", ":"), ensure_ascii=True).encode()
    # Without a file name and a time in the gzip header, the same runs give the same page.
    packed = base64.b64encode(gzip.compress(text, mtime=0)).decode()
    player = files("scenarios.view").joinpath(PLAYER).read_text(encoding="utf-8")
    before, between, after = _cut(player.replace(_CONNECT_PLACE, connects_to, 1))
    return f"{before}{html.escape(title)} - Highwater{between}{packed}{after}"


def difference(first: RunOfPage, run: RunOfPage) -> list[Any] | None:
    """Return [time, event in `run`, event in `first`] where a run diverges from the first one, None if it does not."""
    is_real, was_real = (bool(item.document["head"]["sampled"]) for item in (run, first))
    if is_real != was_real:
        # Events of real Kafka come from samples and have times of the wall clock, so no two events are equal.
        nodes = {True: "the nodes are Apache Kafka", False: "the nodes are simulated by Highwater"}
        return [0, nodes[is_real], nodes[was_real]]
    found = None if run is first else first_difference(first.rows, run.rows)
    if found is None:
        return None
    there, here = (sentence or "the run ended" for sentence in found.sentences)
    times = [at_us for at_us in found.at_us if at_us is not None]
    if there == here and len(set(times)) > 1:
        there, here = (f"at {seconds(at_us)}, {there}" for at_us in times)
    return [min(times), here, there]


def _marks() -> list[list[str]]:
    return [[mark.light, mark.dark, " ".join(map(str, mark.dash)) or "none"] for mark in BROKER_MARKS]


def _cut(player: str) -> tuple[str, str, str]:
    before, _, rest = player.partition(_TITLE_PLACE)
    between, _, after = rest.partition(_DATA_PLACE)
    return before, between, after


# -------------------------------------------------------------------------------------------------- moments and stories
#
# Chooses the moment at which the page opens, and the records whose fate it explains ("stories").

ROWS_READ_MAX = 60_000
"""Largest number of events that all stories of a page together may read. Each story reads the whole trace."""
STORIES_MAX = 24
WAITS_MAX = 10

_TELLING_SIGNS = ("lost", "truncated", "bad", "elected", "offline", "refused", "isr", "fault", "down", "ended")
"""Signs of key events, the most important first, at which a page without findings opens.

The search begins at the first record, because a live cluster elects the leaders of all partitions before it.
"""
_OF_STEPS = ("fault", "down", "ended")
"""Signs of key events that count even before the first record, because steps of the timeline cause them."""


def stories_of(rows: Sequence[TraceRow], summary: Mapping[str, Any]) -> list[Explanation]:
    """Return an explanation for each record in the anomalies of a run and each missing record, up to a limit."""
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
            continue  # No producer of this run has sent a record with this name.
    return stories


SLOW_US = 1_000_000
"""Latency of an ack, in microseconds, from which a run without key events explains the record."""


def slowest_story(rows: Sequence[TraceRow], tape: Tape) -> list[Explanation]:
    """Return the explanation of the record with the slowest ack in a run without key events, [] if all were fast."""
    if any(sign and at_us > 0 for sign, at_us in zip(tape.key, tape.at_us, strict=True)):
        return []
    acks = [row.event for row in rows if isinstance(row.event, RecordAcked)]
    slowest = max(acks, key=lambda ack: ack.latency_us, default=None)
    if slowest is None or slowest.latency_us < SLOW_US:
        return []
    return [explain_record(rows, slowest.record)]


def decisive_place(tape: Tape, stories: Sequence[Explanation], summary: Mapping[str, Any]) -> int:
    """Return the index on the tape of the event at which the page opens: the decisive event, if there is one."""
    for story in stories:
        places = [tape.places[moment.seq] for moment in story.moments if moment.decisive and moment.seq in tape.places]
        if places:
            return places[-1]
    for anomaly in summary["anomalies"]:
        places = [tape.places[seq] for seq in anomaly.get("seqs", ()) if seq in tape.places]
        if places:
            return places[-1]
    begun = _first(tape, RecordSent) or 0
    partitions = tape.partitions_with_records()
    wanted = [*((sign, begun) for sign in _TELLING_SIGNS), *((sign, 0) for sign in _OF_STEPS)]
    for sign, since in wanted:
        for index in range(since, len(tape)):
            if tape.key[index] == sign and tape.at_us[index] > 0 and tape.partition[index] in partitions:
                return index
    for story in stories:
        places = [tape.places[moment.seq] for moment in story.moments if moment.seq in tape.places]
        if places:
            return places[-1]
    acked = _first(tape, RecordAcked)
    return next((index for index, changes in enumerate(tape.changes) if changes), 0) if acked is None else acked


def _first(tape: Tape, kind: type[TraceEvent]) -> int | None:
    wanted = tape.kinds.known(EVENT_NAMES[kind])
    return next((index for index, found in enumerate(tape.kind) if found == wanted), None)


def story_json(story: Explanation, tape: Tape) -> dict[str, Any]:
    """Return a record's explanation as a JSON object, with indexes on the tape in place of sequence numbers."""
    document = story.as_json()
    return {
        "record": document["record"],
        "part": document["partition"],
        "fate": document["fate"],
        "ending": document["ending"],
        "would": document["would_have_saved"],
        "would_not": document["would_not_have_saved"],
        "moments": [
            [tape.places.get(moment.seq, -1), moment.at_us, moment.sentence, int(moment.decisive)]
            for moment in story.moments
        ],
        "holdings": [[holding.at_us, dict(holding.brokers), holding.producer] for holding in story.holdings],
    }


# ------------------------------------------------------------------------------------------------------------- the head
#
# Creates the summary at the top of the page: the cluster, the rules, and the verdict if the run is over.


def head(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page's summary of a finished run as a JSON object."""
    return {
        "scenario": summary["scenario"],
        "title": summary["title"],
        "seed": summary["seed"],
        "trace_sha256": summary.get("trace_sha256", ""),
        "era": played_by(summary),
        "live": bool(summary.get("live")),
        "sampled": f"sampled every {SAMPLE_MS} ms" if "real_kafka" in summary else "",
        "built": settings_of(summary),
        "verdict": list(summary["verdict"]),
        "findings": [
            {key: anomaly[key] for key in ("kind", "sentence", "records", "partition")}
            for anomaly in summary["anomalies"]
        ],
        "waits": _waits(summary),
        "lost": list(summary["records"]["lost"]),
        "lost_in_words": lost_words(summary["records"]["lost"], summary["records"]),
        "acked_and_lost": len(acked_of(summary["records"]["lost"], summary["records"])),
        "missing": list(summary["records"]["missing"]),
        "acked": len(summary["records"]["acked"]),
        "sent": summary["records"]["sent"],
        "duplicated": list(summary["records"]["duplicated"]),
        **_alerts(summary.get("dashboard")),
    }


def _alerts(dashboard: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return when common alerts would have fired in the run, and when the first record was lost.

    Returns:
        `alerts`: [name, time of firing, longest time for which it was true, its `for`] of each, and `lost_us`.
    """
    if dashboard is None:
        return {"alerts": [], "lost_us": None}
    alerts = [
        [
            item["alert"],
            item["fired_us"],
            max((until - since for _, since, until in item["true"]), default=0),
            item["for_us"],
        ]
        for item in dashboard["alerts"]
    ]
    return {"alerts": alerts, "lost_us": dashboard["lost_us"]}


def _racks(scenario: Scenario | None) -> dict[str, str]:
    return dict(scenario.cluster.racks) if scenario else {}


def _waits(summary: Mapping[str, Any]) -> list[list[Any]]:
    """Return the longest waits of clients that could write or read nothing, as [start time, text].

    A wait has one item for each cause that lasted at least PATIENCE_US.
    """
    longest = sorted(summary.get("waits", ()), key=lambda wait: wait["from_us"] - wait["to_us"])[:WAITS_MAX]
    return [
        [
            part["from_us"],
            f"{wait['what'].capitalize()} of {wait['client']}, {wait['partition']}, {part['from_us'] / 1e6:.1f} s to "
            f"{part['to_us'] / 1e6:.1f} s: {'; '.join(filter(None, (part['sentence'], part['advice'])))}.",
        ]
        for wait in sorted(longest, key=lambda wait: int(wait["from_us"]))
        for part in wait["stretches"]
        if part["to_us"] - part["from_us"] >= PATIENCE_US
    ]


def live_head(scenario: Scenario) -> dict[str, Any]:
    """Return the page's summary of a running cluster, without a verdict, as a JSON object."""
    nothing: list[str] = []
    return {
        "scenario": scenario.id,
        "label": "running",
        "racks": _racks(scenario),
        "title": scenario.title,
        "question": "",
        "seed": scenario.seed,
        "trace_sha256": "",
        "era": scenario.profile,
        "live": True,
        "sampled": "",
        "built": settings_of({"setting": {**sizes_of(scenario), "acks": {}}}),
        "verdict": ["running"],
        "findings": nothing,
        "waits": nothing,
        "lost": nothing,
        "lost_in_words": "",
        "acked_and_lost": 0,
        "missing": nothing,
        "acked": 0,
        "sent": 0,
        "duplicated": nothing,
    }
