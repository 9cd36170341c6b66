"""`highwater path RUN [REQUEST]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scenarios.cli.common import (
    fail,
    format_option,
    plain_option,
    print_json,
    style_for_stdout,
    trace_of,
    usable_runs,
)
from scenarios.cli.completion import run_names
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine

if TYPE_CHECKING:
    from replica.trace.events import TraceRow

FIX = "the same scenario in virtual time, or with `run --live`, has them"


@click.command()
@click.argument("run", shell_complete=run_names)
@click.argument("request", required=False)
@format_option
@plain_option
def path(run: str, request: str | None, format_: str, plain: bool) -> int:
    """The journey of one Produce or Fetch of RUN through its broker, down to the sendfile calls.

    RUN is a folder, an id, `last`, `last~1` or a unique beginning. REQUEST is a record, such as r12, or a request as
    client:number, such as p1:7; without it they are listed. Where clients share a client.id, the list has their
    requests apart by the number of the connection: client/rdkafka:7@b1/31.
    """
    from scenarios.explain.request_journey import RequestJourneys, RequestUnknown, journey_text, requests_text
    from scenarios.run.runs import find_run, read_summary

    with usable_runs("make the run again"):
        run_dir = find_run(run)
        summary = read_summary(run_dir)
        if summary.get("real_kafka") or summary.get("watched"):
            fail(f"{run_dir} is of real Kafka, whose requests cannot be seen stage by stage", ExitCode.USAGE, fix=FIX)
        measured = trace_of(run_dir, summary) if summary.get("live") else None
    requests = RequestJourneys(_played_again(run_dir, summary) if measured is None else measured)
    style = style_for_stdout(plain)
    if request is None:
        if format_ == "json":
            print_json([requests.summary(row) for row in requests.completed])
        else:
            click.echo(requests_text(requests, style, run_dir.name), nl=False)
        return ExitCode.HELD
    try:
        journeys = [requests.journey(row) for row in requests.find(request)]
    except RequestUnknown as unknown:
        fail(str(unknown), ExitCode.USAGE)
    if format_ == "json":
        print_json([journey.as_json() for journey in journeys])
    else:
        for journey in journeys:
            click.echo(journey_text(journey, style, run_dir.name), nl=False)
        if not summary.get("live"):
            click.echo("\n  In virtual time only waiting takes time, and what `cpu` and `disk` of the scenario say;")
            click.echo("  `run --live` and `serve` measure every stage.")
    return ExitCode.HELD


def _played_again(run_dir: Path, summary: dict[str, Any]) -> list[TraceRow]:
    """The events of a simulated run, with every request measured."""
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.language.parse.loading import load_text
    from scenarios.run.runner import run_scenario
    from scenarios.run.runs import RunNotFound, read_lock
    from scenarios.run.worlds import measured

    try:
        scenario = load_text(read_lock(run_dir, summary), "scenario.lock.yaml").scenario
    except (RunNotFound, ScenarioInvalid) as error:
        fail(f"the scenario of {run_dir} cannot be played again: {error}", ExitCode.USAGE)
    with ProgressLine(scenario.run_name) as line:

        def progress(now_us: int, until_us: int, events: int) -> None:
            line.show(now_us / until_us if until_us else 1.0, "played again, every request measured")

        return run_scenario(scenario, runs_dir=None, world=measured, keep_rows=True, progress=progress).rows
