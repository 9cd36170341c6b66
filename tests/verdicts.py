"""The verdict on a live run that was to go well, on a machine that may stall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.check.promises import UNPROMISED


def expect_nothing_broken(summary: Mapping[str, Any]) -> None:
    """Of a run or a served cluster: nothing is wrong, but perhaps an invariant that no release of Kafka promises.

    Where all processes stand still for seconds, brokers leave ISRs and come back: a leader may forget its proposal then
    (S3, S4 or S6 `forgotten-proposal`), as one of Kafka's does. No record is harmed, or another word would be there.
    """
    wrong = [
        (one["kind"], one["sentence"])
        for one in summary["anomalies"]
        if one["kind"] != "invariant" or one["sentence"].partition(":")[0] not in UNPROMISED
    ]
    assert wrong == []
    assert not summary["our_bug"]
