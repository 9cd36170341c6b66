"""The table of a comparison with real Kafka: a row for each scenario and variant, and the counts of verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from scenarios.agree.comparison import DIFFERS, NOISE, SAME, Agreement, compare
from scenarios.agree.phases import Repetition, facts_in
from scenarios.observe.wording import count_of

NOT_PLAYED = "not played"
VERDICTS = (SAME, NOISE, DIFFERS, NOT_PLAYED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetRow:
    """A row of the table, for one scenario or variant.

    Attributes:
        name: `acks1-leader-kill`, or `acks1-leader-kill:acks-all` for a variant.
        agreement: result of the comparison; None if the scenario was not played.
        why_not: reason why the scenario was not played; empty if it was.
    """

    name: str
    agreement: Agreement | None = None
    repetitions: tuple[Repetition, ...] = ()
    why_not: str = ""

    @property
    def verdict(self) -> str:
        return NOT_PLAYED if self.agreement is None else self.agreement.verdict

    def as_json(self) -> dict[str, Any]:
        found = self.agreement
        gap = found.largest_gap if found is not None else None
        return {
            "name": self.name,
            "verdict": self.verdict,
            "why_not": self.why_not,
            "differences": [asdict(difference) for difference in found.differences] if found is not None else [],
            "largest_gap": None if gap is None else asdict(gap),
            "gaps": [asdict(item) for item in found.gaps] if found is not None else [],
            "repetitions": [
                {"ours": str(repetition.ours), "theirs": str(repetition.theirs)} for repetition in self.repetitions
            ],
        }


@dataclass(slots=True)
class Sheet:
    """The whole table of a comparison.

    Attributes:
        ours: name of the first side, such as `simulated`.
        theirs: name of the other side, such as `Kafka 4.1.0`.
        times: number of repetitions of each scenario.
        slack_us: time gaps above this are shown, in microseconds.
        date: day on which the comparison was made.
        version: version of Highwater.
    """

    ours: str
    theirs: str
    times: int
    slack_us: int
    date: str
    version: str
    rows: list[SheetRow] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        found = Counter(row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in VERDICTS}

    @property
    def in_words(self) -> str:
        """Return the counts of verdicts as text: `3 same, 1 noise, 0 differ; 1 not played`."""
        counts = self.counts
        missing = f"; {counts[NOT_PLAYED]} not played" if counts[NOT_PLAYED] else ""
        return f"{counts[SAME]} same, {counts[NOISE]} noise, {counts[DIFFERS]} differ{missing}"

    @property
    def heading(self) -> str:
        again = "once each" if self.times == 1 else f"{count_of(self.times, 'time')} each"
        return f"{self.ours} and {self.theirs}, {again}, {self.date}, Highwater {self.version}"

    def as_json(self) -> dict[str, Any]:
        return {
            "ours": self.ours,
            "theirs": self.theirs,
            "times": self.times,
            "slack_us": self.slack_us,
            "date": self.date,
            "highwater": self.version,
            "counts": self.counts,
            "rows": [row.as_json() for row in self.rows],
        }


def compared(name: str, repetitions: Sequence[Repetition], slack_us: int) -> SheetRow:
    """Compare the repetitions of a scenario, and return the row with the result.

    Raises:
        TraceError, OSError: a trace cannot be read.
    """
    ours = [facts_in(repetition.ours) for repetition in repetitions]
    theirs = [facts_in(repetition.theirs) for repetition in repetitions]
    agreement = compare(ours, theirs, slack_us=slack_us)
    return SheetRow(name=name, agreement=agreement, repetitions=tuple(repetitions))
