"""Summarize a run's key moments in lines, one for each event with all partitions in which it happened."""

from __future__ import annotations

import json
from typing import Any

from replica.trace.alike import ShownEvent, together
from replica.trace.events import event_of
from replica.trace.signs import sign_of
from spark_reports.report.rows import Row, Rows

MOMENTS_READ = 8_000
"""Largest number of rows of key_moments that are read, since a page shows few lines.

If an event happened in more partitions, the other rows are only in the tables.
"""


def moment_lines(moments: Rows, most: int) -> tuple[list[dict[str, Any]], int]:
    """Return the first lines, and the number of moments that are in none of these lines.

    Similar events of different partitions within a second share a line.

    Args:
        moments: rows of key_moments.
        most: largest number of lines.

    Returns:
        The row of each line's first moment, with the line as `reason` and a name of signs.SIGNS as `sign`; and the
        number of moments left out.
    """
    rows = list(moments.in_order("at_us", "seq", most=MOMENTS_READ))
    lines = together(_entry(row, number) for number, row in enumerate(rows))[:most]
    left_out = len(moments) - sum(len(line.numbers) for line in lines)
    return [{**rows[line.first.number], "reason": line.text, "sign": line.first.sign} for line in lines], left_out


def _entry(moment: Row, number: int) -> ShownEvent:
    data = json.loads(moment["data"])
    sign = sign_of(moment["event"], moment["verb"], moment["how"])
    return ShownEvent(moment["at_us"], event_of(data["event"], data), number, sign)
