"""Requests and their journeys as text, 80-100 columns."""

from __future__ import annotations

from collections.abc import Sequence

from scenarios.explain.request_journey import Journey, RequestJourneys, Stage, request_of
from scenarios.terminal.style import Style, folded, table_lines

_NAME_WIDTH = 15
_TEXT_WIDTH = 56
LISTED_MAX = 40


def journey_text(journey: Journey, style: Style, run: str) -> str:
    """A headline, then one line per stage: when, where, how long, what; and the events while it waited."""
    records = f"  {_names(journey.records)}" if journey.records else ""
    head = style.bold(f"  {journey.request.api} {journey.name}{records}")
    lines = ["", f"{head}    {run}", ""]
    for stage in journey.stages:
        lines += _stage(stage, style)
    return "\n".join([*lines, ""])


def _stage(stage: Stage, style: Style) -> list[str]:
    took = "" if stage.took_us is None else f"{stage.took_us:,} us"
    first, *rest = folded(stage.text, _TEXT_WIDTH)
    name = f"{stage.name:<{_NAME_WIDTH}}"
    lines = [f"  {_clock(stage.at_us)}  {style.bold(name)} {took:>13}  {first}"]
    indent = " " * (2 + 12 + 2 + _NAME_WIDTH + 1 + 13 + 2)
    lines += [f"{indent}{line}" for line in rest]
    for at_us, text in stage.happened:
        first, *rest = folded(text, _TEXT_WIDTH + 13)
        lines.append(f"  {_clock(at_us)}    {style.sign('step')} {first}")
        lines += [f"{' ' * 20}{line}" for line in rest]
    return lines


def _clock(at_us: int) -> str:
    return f"{at_us / 1_000_000:>12.6f}"


def _names(records: Sequence[str], most: int = 4) -> str:
    more = f" and {len(records) - most} more" if len(records) > most else ""
    return f"{', '.join(records[:most])}{more}"


def requests_text(requests: RequestJourneys, style: Style, run: str) -> str:
    """A line per request, the latest ones."""
    rows = requests.completed[-LISTED_MAX:]
    head = style.bold(f"  {len(requests.completed):,} Produces, and Fetches that found something")
    lines = ["", f"{head}    {run}"]
    if len(rows) < len(requests.completed):
        lines.append(f"  the last {len(rows)} of them; all with --format json")
    table = [("done at", "request", "total", "queue", "local", "remote", "records")]
    for row in rows:
        request = request_of(row)
        total, queue, local, remote = (
            f"{took_us:,} us"
            for took_us in (
                request.total_time_us, request.request_queue_time_us, request.local_time_us, request.remote_time_us
            )
        )  # fmt: skip
        sent = request.sendfile_bytes
        what = f"{sent:,} bytes by sendfile" if sent else _names(requests.records_of(row), 3)
        table.append((_clock(row.at_us), f"{request.api} {requests.name_of(row)}", total, queue, local, remote, what))
    lines += ["", *table_lines(table, right=(0, 2, 3, 4, 5))]
    return "\n".join([*lines, "", "  highwater path RUN REQUEST shows the journey of one, for example of the last:",
                      f"    highwater path {run.split()[0]} {_last(requests)}", ""])  # fmt: skip


def _last(requests: RequestJourneys) -> str:
    return requests.name_of(requests.completed[-1]) if requests.completed else "REQUEST"
