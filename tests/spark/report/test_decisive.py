"""The part of a run that its page opens with: rows of the tables and the steps to a loss in, a span out."""

from __future__ import annotations

import pytest

from spark_reports.report.decisive import decisive_span
from spark_reports.results import RESULT_TABLES
from tests.spark.columns import rows_of

S = 1_000_000


@pytest.mark.parametrize(
    ("steps_s", "acked_s", "elected_s", "from_to_s"),
    [
        pytest.param([10, 20], 11, 20, (8.8, 21.2), id="a fault just before the ack"),
        pytest.param([5, 40, 47, 50], 50, 47, (38.8, 51.2), id="a fault since long before, and another"),
        pytest.param([5], 50, 50.5, (49.75, 50.75), id="a fault since long before alone"),
        pytest.param([1, 2], 2, 58, (0, 60), id="most of the run between ack and election"),
    ],
)
def test_a_run_with_a_loss_opens_with_what_led_to_it(
    steps_s: list[int], acked_s: int, elected_s: float, from_to_s: tuple[float, float]
) -> None:
    tables = {name: rows_of(name) for name in RESULT_TABLES}
    lost = {"acked_us": acked_s * S, "elected_us": round(elected_s * S)}
    steps = [(at_s * S, "said") for at_s in steps_s]
    found = decisive_span(tables | {"lost_records": rows_of("lost_records", [lost])}, [("r1", steps)], 60 * S)
    assert (found.from_us / S, found.until_us / S) == from_to_s
