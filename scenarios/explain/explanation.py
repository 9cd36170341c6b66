"""The story of one record as data and as text: its events, the brokers that had it, and what would have saved it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replica.ids import ACKS_ALL, TopicPartition
from scenarios.explain.remedies import Remedies
from scenarios.explain.what_if import RecordFate
from scenarios.observe.wording import count_of
from scenarios.terminal.style import Style, folded, table_lines


@dataclass(slots=True)
class Moment:
    """One event in the story of a record.

    Attributes:
        decisive: True if the record would have had another outcome without this event.
    """

    at_us: int
    seq: int
    sentence: str
    decisive: bool = False


@dataclass(frozen=True, slots=True)
class Holding:
    """A row of the table about a record: its state on each broker and what its producer believed, in a few words."""

    at_us: int
    brokers: Mapping[str, str]
    producer: str


@dataclass(slots=True)
class Explanation:
    """The story of one record: what happened to it, and why.

    Attributes:
        partition: its number is -1 if the producer had not chosen one.
        acks: None for an output that a transform owes and never sent.
        fate: class of the record in the verdict, or `kept`, or `open` or `aborted` by its transaction.
        moments: events of the story, in order.
        holdings: rows of the table, in order.
        ending: last sentences of the story.
    """

    record: str
    partition: TopicPartition
    producer: str
    acks: int | None
    scenario: str
    seed: int
    fate: str
    moments: list[Moment] = field(default_factory=list)
    holdings: list[Holding] = field(default_factory=list)
    ending: str = ""
    remedies: Remedies = field(default_factory=Remedies)

    def as_json(self) -> dict[str, Any]:
        return {
            "record": self.record,
            "partition": str(self.partition) if self.partition.partition >= 0 else None,
            "producer": self.producer,
            "acks": self.acks,
            "scenario": self.scenario,
            "seed": self.seed,
            "fate": self.fate,
            "moments": [
                {"at_us": moment.at_us, "seq": moment.seq, "sentence": moment.sentence, "decisive": moment.decisive}
                for moment in self.moments
            ],
            "holdings": [
                {"at_us": holding.at_us, "brokers": dict(holding.brokers), "producer": holding.producer}
                for holding in self.holdings
            ],
            "ending": self.ending,
            "would_have_saved": list(self.remedies.would),
            "would_not_have_saved": list(self.remedies.would_not),
        }


# ------------------------------------------------------------------------------------------------------------- in words
#
# The story of a record as text of 80 to 100 columns.

_TEXT_WIDTH = 76
_MARGIN = 14


def explanation_text(story: Explanation, style: Style, outcomes: Sequence[RecordFate] | None = None) -> str:
    """Return the story as text: a headline, the moments, a table, and what would have saved the record.

    Args:
        outcomes: results of runs with one change each; None for what the trace alone proves.
    """
    acks = "never sent" if story.acks is None else f"acks={'all' if story.acks == ACKS_ALL else story.acks}"
    dot = style.sign("dot")
    headline = f"  Why record {story.record} {ENDS[story.fate]}"
    lines = ["", f"{style.bold(headline)}    {story.scenario} {dot} {acks} {dot} seed {story.seed}", ""]
    lines += _moments(story, style)
    lines += ["", *folded(story.ending, style.width, "  ", "  ")]
    if any(moment.decisive for moment in story.moments):
        lines.append(f"  {style.sign('decisive')} marks the decisive steps.")
    if story.holdings:
        lines += ["", *_table(story)]
    if outcomes is None:
        remedies = {"Would have saved it": story.remedies.would, "Would not have saved it": story.remedies.would_not}
    else:
        lines += [
            "",
            f"  Played again {count_of(len(outcomes), 'time')} with the same seed, one thing changed each time.",
        ]
        saving = [outcome for outcome in outcomes if outcome.saved and not outcome.also_lost]
        trading = [outcome for outcome in outcomes if outcome.saved and outcome.also_lost]
        others = [outcome for outcome in outcomes if not outcome.saved]
        remedies = {
            "Saves it": _outcomes(saving),
            "Saves it, but loses others": _outcomes(trading),
            "Does not save it": _outcomes(others),
        }
    for title, entries in remedies.items():
        if entries:
            lines += ["", f"  {title}:"]
            for entry in entries:
                lines += folded(entry, style.width, " " * 4, " " * 6)
    return "\n".join([*lines, ""])


def _outcomes(outcomes: Sequence[RecordFate]) -> tuple[str, ...]:
    width = max((len(outcome.change.what) for outcome in outcomes), default=0)
    return tuple(f"{outcome.change.what:<{width}}  {outcome.sentence}" for outcome in outcomes)


ENDS = {
    "lost": "was lost",
    "unseen": "cannot be read",
    "duplicated": "is in the log twice",
    "missing": "is missing",
    "failed": "was refused",
    "reordered": "is out of order",
    "deleted": "is gone",
    "expired": "is gone",
    "compacted": "is gone",
    "aborted": "was aborted",
    "open": "waits in an open transaction",
    "kept": "is safe",
}
"""Outcome of a record as the end of a headline, by `Explanation.fate`."""


def _moments(story: Explanation, style: Style) -> list[str]:
    lines = []
    for index, moment in enumerate(story.moments):
        sign = style.sign("decisive" if moment.decisive else "step")
        bar = style.sign("bar") if index + 1 < len(story.moments) else " " * len(style.sign("bar"))
        first, *rest = folded(moment.sentence, min(_TEXT_WIDTH, style.width - _MARGIN))
        lines.append(f"  {sign} {moment.at_us / 1_000_000:>7.3f}  {first}")
        lines += [f"  {bar}{' ' * 10}{line}" for line in rest]
    return lines


def _table(story: Explanation) -> list[str]:
    brokers = list(dict.fromkeys(node for holding in story.holdings for node in holding.brokers))
    rows = [["", *brokers, story.producer]]
    for holding in story.holdings:
        cells = [holding.brokers.get(node, "") for node in brokers]
        row = [f"{holding.at_us / 1_000_000:.3f}", *cells, holding.producer]
        if rows[-1][1:] != row[1:]:
            rows.append(row)
    return table_lines(rows)
