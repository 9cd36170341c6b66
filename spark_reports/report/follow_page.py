"""How a run stands now -> a page that loads itself again every two seconds."""

from __future__ import annotations

from collections.abc import Sequence

from replica.trace.signs import SIGNS
from spark_reports.follow import InternalNow, PartitionNow
from spark_reports.report.embedding import environment, page_style


def render(at_us: int, partitions: Sequence[PartitionNow], internal: Sequence[InternalNow]) -> str:
    """partitions: of users' topics"""
    template = environment().get_template("follow.html.j2")
    return template.render(at_us=at_us, partitions=partitions, internal=internal, signs=SIGNS, style=page_style())
