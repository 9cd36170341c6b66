"""The decisive moment of a run, and the stories of the records that met a bad end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replica.trace.events import EVENT_NAMES, RecordAcked, RecordSent, TraceEvent, TraceRow
from scenarios.explain.explanation import Explanation
from scenarios.explain.record import RecordUnknown, explain_record
from scenarios.view.tape import Tape

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
