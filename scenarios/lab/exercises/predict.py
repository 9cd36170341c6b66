"""Exercise 1: predict the outcome of a run before playing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from replica.trace.events import LeaderElected, LogTruncated
from replica.trace.ranges import format_record_names
from scenarios.lab.exercise import Draw, SheetExercise, last_event, lost
from scenarios.lab.hand_in import AnswerForm
from scenarios.lab.sandbox import Sandbox
from scenarios.language.parse.loading import load_text


class Predict(SheetExercise):
    """The exercise about a leader that dies after acking at least five records that no other broker has."""

    name = "predict"
    place = 1
    title = "Predict a run before you play it"
    minutes = 5
    asks: ClassVar[Mapping[str, tuple[AnswerForm, str]]] = {
        "lost": (AnswerForm.RECORDS, "the records that are acked and lost"),
        "leader": (AnswerForm.BROKER, "the broker that leads after the kill"),
        "cut_to": (AnswerForm.OFFSET, "the offset that the old leader cuts its log back to"),
        "lost_with_acks_all": (AnswerForm.COUNT, "how many acked records are lost with acks=all"),
    }

    def values(self, draw: Draw) -> Mapping[str, object]:
        safe, alone = draw.number(12, 24, "safe"), draw.number(5, 15, "alone")
        return {"frozen_ms": 5050 + safe * 100, "killed_ms": 5050 + (safe + alone) * 100}

    def files(self, student: str) -> dict[str, str]:
        return {**super().files(student), "predict-run.yaml": self.text(student, "_run")}

    def right_answers(self, student: str, sandbox: Sandbox) -> Mapping[str, str]:
        value = self.given(student)
        played = sandbox.play(value, value.seed)
        patient = load_text(self.text(student, "_run"), "given", ["workloads.p1.config.acks=all"]).scenario
        with_acks_all = sandbox.play(patient, value.seed)
        elected, cut = last_event(played, LeaderElected), last_event(played, LogTruncated)
        return {
            "lost": format_record_names(lost(played)),
            "leader": str(elected.broker),
            "cut_to": str(cut.log_end_offset),
            "lost_with_acks_all": str(len(lost(with_acks_all))),
        }
