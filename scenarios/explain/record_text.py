"""The story of a record as text, 80-100 columns."""

from __future__ import annotations

from collections.abc import Sequence

from replica.ids import ACKS_ALL
from scenarios.explain.explanation import Explanation
from scenarios.explain.what_if import RecordFate
from scenarios.terminal.style import Style, folded, table_lines

_TEXT_WIDTH = 76
_MARGIN = 14


def explanation_text(story: Explanation, style: Style, outcomes: Sequence[RecordFate] | None = None) -> str:
    """Headline, moments (decisive ones marked), the table of its holders over time, and changes that would have saved
    it: as the trace proves them, or, with `outcomes`, as runs with one thing changed showed them."""
    acks = "all" if story.acks == ACKS_ALL else str(story.acks)
    dot = style.sign("dot")
    headline = f"  {_headline(story)}"
    lines = ["", f"{style.bold(headline)}    {story.scenario} {dot} acks={acks} {dot} seed {story.seed}", ""]
    lines += _moments(story, style)
    lines += ["", *folded(story.ending, style.width, "  ", "  ")]
    if any(moment.decisive for moment in story.moments):
        lines.append(f"  {style.sign('decisive')} marks the decisive steps.")
    if story.holdings:
        lines += ["", *_table(story)]
    if outcomes is None:
        remedies = {"Would have saved it": story.remedies.would, "Would not have saved it": story.remedies.would_not}
    else:
        lines += ["", f"  Played again {len(outcomes)} times with the same seed, one thing changed each time."]
        saving = [outcome for outcome in outcomes if outcome.saved]
        others = [outcome for outcome in outcomes if not outcome.saved]
        remedies = {"Saves it": _outcomes(saving), "Does not save it": _outcomes(others)}
    for title, entries in remedies.items():
        if entries:
            lines += ["", f"  {title}:"]
            for entry in entries:
                lines += folded(entry, style.width, " " * 4, " " * 6)
    return "\n".join([*lines, ""])


def _outcomes(outcomes: Sequence[RecordFate]) -> tuple[str, ...]:
    width = max((len(outcome.change.what) for outcome in outcomes), default=0)
    return tuple(f"{outcome.change.what:<{width}}  {outcome.sentence}" for outcome in outcomes)


def _headline(story: Explanation) -> str:
    words = {
        "lost": "was lost",
        "unseen": "cannot be read",
        "duplicated": "is there twice",
        "missing": "never arrived",
        "failed": "was refused",
        "reordered": "is out of order",
        "deleted": "is gone",
        "expired": "is gone",
        "compacted": "is gone",
        "aborted": "was aborted",
        "open": "waits in an open transaction",
        "kept": "is safe",
    }
    return f"Why record {story.record} {words[story.fate]}"


def _moments(story: Explanation, style: Style) -> list[str]:
    lines = []
    for place, moment in enumerate(story.moments):
        sign = style.sign("decisive" if moment.decisive else "step")
        bar = style.sign("bar") if place + 1 < len(story.moments) else " " * len(style.sign("bar"))
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
