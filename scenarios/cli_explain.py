"""`highwater explain RUN RECORD`, and `highwater explain E104` for a diagnostic."""

from __future__ import annotations

import re

import click

from scenarios.cli_common import fail, format_option, plain_option, print_json, style_for_stdout
from scenarios.exit_codes import ExitCode


@click.command()
@click.argument("run")
@click.argument("record", required=False)
@click.option("--lost", is_flag=True, help="Every acked record that was lost.")
@format_option
@plain_option
def explain(run: str, record: str | None, lost: bool, format_: str, plain: bool) -> int:
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
    if format_ == "json":
        documents = [story.as_json() for story in stories]
        print_json(documents[0] if len(documents) == 1 else documents)
    else:
        style = style_for_stdout(plain)
        for story in stories:
            click.echo(explanation_text(story, style), nl=False)
    return ExitCode.HELD


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
