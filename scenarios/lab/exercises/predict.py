"""Exercise 1: say what a run will show before it is played."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from replica.trace.events import LeaderElected, LogTruncated
from replica.trace.ranges import format_record_names
from scenarios.lab.exercise import Draw, SheetExercise, last_event, lost
from scenarios.lab.sandbox import Sandbox
from scenarios.language.parse.loading import load_text
from scenarios.language.selectors import RecordSetError, parse_record_names


class Predict(SheetExercise):
    """Five records or more are on the leader alone when it dies."""

    name = "predict"
    place = 1
    title = "Predict a run before you play it"
    minutes = 5
    asks: ClassVar[Mapping[str, str]] = {
        "lost": "the records that are acked and lost",
        "leader": "the broker that leads after the kill",
        "cut_to": "the offset that the old leader cuts its log back to",
        "lost_with_acks_all": "how many acked records are lost with acks=all",
    }

    def values(self, draw: Draw) -> Mapping[str, object]:
        safe, alone = draw.number(12, 24, "safe"), draw.number(5, 15, "alone")
        return {"frozen_ms": 5050 + safe * 100, "killed_ms": 5050 + (safe + alone) * 100}

    def files(self, student: str) -> dict[str, str]:
        return {**super().files(student), "predict-run.yaml": self.text(student, "_run")}

    def right_answers(self, student: str, sandbox: Sandbox) -> Mapping[str, str]:
        given = self.given(student)
        played = sandbox.play(given, given.seed)
        patient = load_text(self.text(student, "_run"), "given", ["workloads.p1.config.acks=all"]).scenario
        with_acks_all = sandbox.play(patient, given.seed)
        elected, cut = last_event(played, LeaderElected), last_event(played, LogTruncated)
        return {
            "lost": format_record_names(lost(played)),
            "leader": str(elected.broker),
            "cut_to": str(cut.log_end_offset),
            "lost_with_acks_all": str(len(lost(with_acks_all))),
        }

    def is_right(self, name: str, said: str, right: str) -> bool:
        if name != "lost":
            return said == right
        if len(said) > 60 or re.search(r"\d{5}", said):
            return False  # Far more records than there are: not worth unfolding.
        try:
            return sorted(parse_record_names(said)) == sorted(parse_record_names(right))
        except RecordSetError:
            return False
