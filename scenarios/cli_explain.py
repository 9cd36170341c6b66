"""`highwater explain RUN RECORD`, and `highwater explain E104` for a diagnostic."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scenarios.cli_common import fail, format_option, plain_option, print_json, style_for_stdout
from scenarios.exit_codes import ExitCode
from scenarios.progress import ProgressLine

if TYPE_CHECKING:
    from scenarios.explanation import Explanation
    from scenarios.what_if import Outcome


@click.command()
@click.argument("run")
@click.argument("record", required=False)
@click.option("--lost", is_flag=True, help="Every acked record that was lost.")
@click.option("--what-if", is_flag=True, help="Play the run again with one thing changed: what would have saved it?")
@format_option
@plain_option
def explain(run: str, record: str | None, lost: bool, what_if: bool, format_: str, plain: bool) -> int:
    """Tell why RECORD of RUN met its end. RUN is a folder, an id, `last`, `last~1` or a unique beginning.

    `highwater explain E104` explains a diagnostic instead.
    """
    if record is None and re.fullmatch(r"[EWew]\d{3}", run):
        return _explain_code(run.upper())
    from scenarios.runs import RunNotFound, find_run, read_summary

    try:
        run_dir = find_run(run)
        summary = read_summary(run_dir)
    except RunNotFound as missing:
        fail(str(missing), ExitCode.USAGE)
    records = _records(record, lost, summary["records"]["lost"])
    from scenarios.explain import RecordUnknown, explain_record
    from scenarios.explain_text import explanation_text
    from scenarios.trace_writer import TraceError, read_rows

    try:
        rows = list(read_rows(run_dir / "trace"))
        stories = [explain_record(rows, name) for name in records]
    except RecordUnknown as unknown:
        fail(str(unknown), ExitCode.USAGE)
    except (TraceError, OSError) as error:
        fail(f"the trace of {run_dir} cannot be read: {error}", ExitCode.USAGE)
    outcomes = _what_if(run_dir, stories) if what_if else {}
    if format_ == "json":
        documents = [story.as_json() for story in stories]
        if what_if:
            for document in documents:
                document["what_if"] = [outcome.as_json() for outcome in outcomes[document["record"]]]
        print_json(documents[0] if len(documents) == 1 else documents)
    else:
        style = style_for_stdout(plain)
        for story in stories:
            click.echo(explanation_text(story, style, outcomes.get(story.record)), nl=False)
    return ExitCode.HELD


def _what_if(run_dir: Path, stories: Sequence[Explanation]) -> dict[str, list[Outcome]]:
    """By record, the outcome of every change. The run's own lock file says what is played again."""
    from scenarios.diagnostics import ScenarioInvalid
    from scenarios.loading import load_text
    from scenarios.what_if import changes_for, play_changes

    outcomes: dict[str, list[Outcome]] = {story.record: [] for story in stories}
    try:
        lock_text = (run_dir / "scenario.lock.yaml").read_text(encoding="utf-8")
        scenario = load_text(lock_text, "scenario.lock.yaml").scenario
    except (OSError, ScenarioInvalid) as error:
        fail(f"the scenario of {run_dir} cannot be played again: {error}", ExitCode.USAGE)
    for producer in dict.fromkeys(story.producer for story in stories):
        records = [story.record for story in stories if story.producer == producer]
        changes = changes_for(scenario, producer)
        with ProgressLine("what if") as line:
            for number, found in enumerate(play_changes(lock_text, records, changes, os.cpu_count() or 1)):
                line.show((number + 1) / len(changes), f"{number + 1} of {len(changes)} runs")
                for outcome in found:
                    outcomes[outcome.record].append(outcome)
    return outcomes


def _records(record: str | None, lost: bool, lost_records: list[str]) -> list[str]:
    if record is not None:
        return [record]
    if not lost:
        known = f" (lost in this run: {', '.join(lost_records[:10])})" if lost_records else ""
        raise click.UsageError(f"which record? Name one, such as r12, or use --lost{known}")
    if not lost_records:
        fail("no acked record was lost in this run", ExitCode.USAGE)
    return lost_records


def _explain_code(code: str) -> int:
    from scenarios.codes import EXPLANATIONS

    if code not in EXPLANATIONS:
        fail(f"there is no diagnostic {code}", ExitCode.USAGE)
    click.echo(f"{code}: {EXPLANATIONS[code]}")
    return ExitCode.HELD
