"""What the report says of the alerts that a run would have raised."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_reports.report.dashboard import dashboard_of
from spark_reports.report.embedding import environment


def summary(lost_us: int | None, *true: tuple[str, int, int], fired_us: int | None = None) -> dict[str, Any]:
    alert = {
        "alert": "UnderReplicatedPartitions", "condition": "urp > 0", "for_us": 10_000_000, "true": list(true),
        "intervals": len(true), "fired_us": fired_us, "loss": None,
    }  # fmt: skip
    moved = [{"metric": "isrshrinks_total", "from_us": 1_000_000, "until_us": None, "worst": 2}] if true else []
    return {"dashboard": {"lost_us": lost_us, "alerts": [alert], "moved": moved}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            summary(5_000_000),
            "and none ever held. Records were lost, but none of the 1 alerts fired.",
        ),
        (summary(None, ("b1", 0, 4_000_000)), "for 10 s or longer, and UnderReplicatedPartitions held for less time."),
        (
            summary(5_000_000, ("b1", 7_000_000, 30_000_000), fired_us=17_000_000),
            "17.000 s (its condition had then held for 10 s), 12 s after the first record was lost (5.000 s).",
        ),
        (summary(30_000_000, ("b1", 7_000_000, 30_000_000), fired_us=17_000_000), "13 s before the first record"),
    ],
)
def test_a_sentence_and_a_row_for_each_alert(found: dict[str, Any], said: str) -> None:
    shown = dashboard_of(found)
    assert shown is not None and said in shown.sentence
    template = environment().from_string('{% from "dashboard.html.j2" import dashboard %}{{ dashboard(run, "run-1") }}')
    page = template.render(run=SimpleNamespace(run="0001", heading=SimpleNamespace(dashboard=shown)))
    assert "<code>urp &gt; 0</code> for 10 s" in page and said.split(" (")[0][:40] in page


@pytest.mark.parametrize("found", [{}, {"dashboard": None}, {"dashboard": {"alerts": 3, "moved": [], "lost_us": 1}}])
def test_a_summary_without_it_has_no_such_part(found: dict[str, Any]) -> None:
    assert dashboard_of(found) is None
