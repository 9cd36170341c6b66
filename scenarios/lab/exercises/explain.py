"""Exercise 4: read a trace and name the decisive steps of a loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from replica.trace.events import LeaderElected, LogTruncated
from scenarios.lab.exercise import Draw, SheetExercise, last_event
from scenarios.lab.hand_in import AnswerForm
from scenarios.lab.sandbox import Sandbox
from scenarios.language.spec import Scenario


class Explain(SheetExercise):
    """The exercise about a record acked by a leader that does not know that another broker was elected."""

    name = "explain"
    place = 4
    title = "Explain a trace"
    minutes = 6
    asks: ClassVar[Mapping[str, tuple[AnswerForm, str]]] = {
        "acked_by": (AnswerForm.BROKER, "the broker that acked the record"),
        "offset": (AnswerForm.OFFSET, "the offset of the record in that broker's log"),
        "new_leader": (AnswerForm.BROKER, "the broker that the controller elected"),
        "elected_at": (AnswerForm.MOMENT, "the moment of the election, within half a second"),
        "cut_by": (AnswerForm.BROKER, "the broker that erased the record"),
        "cut_to": (AnswerForm.OFFSET, "the offset that it cut its log back to"),
        "in_its_place": (AnswerForm.RECORDS, "the record that has this offset at the end"),
    }

    def values(self, draw: Draw) -> Mapping[str, object]:
        before = draw.number(8, 14, "before")
        return {
            "before": before,
            "split_ms": draw.number(95, 115, "split") * 100,
            "others": ", ".join(draw.brokers()[1:]),
            "record": f"r{before + draw.number(2, 7, 'record')}",
        }

    def given_run(self, student: str) -> Scenario:
        return self.given(student)

    def right_answers(self, student: str, sandbox: Sandbox) -> Mapping[str, str]:
        value = self.given(student)
        record = str(self.values(Draw(self.name, student))["record"])
        played = sandbox.play(value, value.seed)
        entry = played.ledger.records[record]
        elected = [row for row in played.rows if isinstance(row.event, LeaderElected)][-1]
        new_leader = last_event(played, LeaderElected).broker
        cut = last_event(played, LogTruncated)
        (in_its_place,) = (
            other.name
            for other in played.ledger.records
            if (other.acked_by, other.acked_offset) == (new_leader, entry.acked_offset)
        )
        return {
            "acked_by": str(entry.acked_by),
            "offset": str(entry.acked_offset),
            "new_leader": str(new_leader),
            "elected_at": f"{elected.at_us / 1_000_000:.3f}",
            "cut_by": cut.node,
            "cut_to": str(cut.log_end_offset),
            "in_its_place": in_its_place,
        }
