"""The story of a run as lines, one for each event with all partitions in which it happened."""

from __future__ import annotations

import json
from typing import Any

from replica.trace.alike import Told, together
from replica.trace.events import event_of
from replica.trace.signs import sign_of
from spark_reports.report.rows import Row, Rows

MOMENTS_READ = 8_000
"""Number of moments that are read. Thousands of failovers have more, but a page shows few lines.

If one moment has more partitions, the rest are only in the tables.
"""


def told_moments(moments: Rows, most: int) -> tuple[list[dict[str, Any]], int]:
    """Return the first lines of the story, and the number of moments that are in none of them.

    Similar events of different partitions within a second share a line.

    Args:
        moments: rows of key_moments.
        most: largest number of lines.

    Returns:
        Rows with `sign`, a name of signs.SIGNS; the number of moments left out.
    """
    rows = list(moments.in_order("at_us", "seq", most=MOMENTS_READ))
    lines = together(_told(row, number) for number, row in enumerate(rows))[:most]
    left_out = len(moments) - sum(len(line.numbers) for line in lines)
    return [{**rows[line.first.number], "reason": line.text, "sign": line.first.sign} for line in lines], left_out


def _told(moment: Row, number: int) -> Told:
    data = json.loads(moment["data"])
    sign = sign_of(moment["event"], moment["verb"], moment["how"])
    return Told(moment["at_us"], event_of(data["event"], data), number, sign)
