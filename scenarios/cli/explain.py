"""The commands `highwater explain` and `highwater path`.

* `explain [RUN] [RECORD]` explains the outcome of a record.
* `explain RUN S2` explains a broken invariant.
* `explain RUN t-0` explains times without writes to a partition or reads from it.
* `explain E104` explains a diagnostic.
* `path RUN [REQUEST]` shows the stages of one request.
"""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import click

from replica.trace.ranges import format_record_names, split_record_name
from replica.wording import duration
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
from scenarios.cli.view import PAGE_NAME, page_text
from scenarios.process.work_folders import write_whole
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine

if TYPE_CHECKING:
    from replica.trace.events import TraceRow
    from scenarios.explain.blame import Findings
    from scenarios.explain.explanation import Explanation
    from scenarios.explain.what_if import RecordFate
    from scenarios.language.spec import Scenario

RECORD = re.compile(r"[a-z]{1,8}[0-9]{1,9}")
INVARIANT = re.compile(r"[SL][0-9]{1,2}( min-isr)?")
PARTITION = re.compile(r".+-[0-9]{1,9}")


@click.command()
@click.argument("run", default="last", shell_complete=run_names)
@click.argument("record", required=False)
@click.option("--lost", is_flag=True, help="Explain every acked record that was lost.")
@click.option(
    "--what-if", is_flag=True, help="Play the run again with one change at a time, to find what saves the record."
)
@format_option
@plain_option
def explain(run: str, record: str | None, lost: bool, what_if: bool, format_: str, plain: bool) -> int:
    """Explain what happened to RECORD of RUN, and why. RUN is a folder, an id, `last`, `last~1` or a unique beginning.

    RUN defaults to `last`, and RECORD to the first acked record that was lost.

    Instead of RECORD, name an invariant that broke, such as S2, or a partition, such as t-0, to learn why it could not
    be written or read for a time. `highwater explain E104` explains a diagnostic.
    """
    if record is None and re.fullmatch(r"[EWew]\d{3}", run):
        return _explain_code(run.upper())
    from scenarios.explain.explanation import explanation_text
    from scenarios.explain.record import RecordUnknown, explain_record
    from scenarios.run.runs import RunNotFound, find_run, list_runs, read_summary

    with usable_runs():
        try:
            run_dir = find_run(run)
        except RunNotFound:
            if record is None and list_runs() and any(kind.fullmatch(run) for kind in (INVARIANT, RECORD, PARTITION)):
                meant = f"highwater explain last {shlex.quote(run)}"
                raise RunNotFound(f"there is no run `{run}`. Write the RUN first. Did you mean `{meant}`?") from None
            raise
        summary = read_summary(run_dir)
        asks_invariant = record is not None and INVARIANT.fullmatch(record) is not None
        if record is not None and _is_of_a_topic(summary, record):
            return _explain_waits(summary, record, format_, plain)
        lost_records = summary["records"]["lost"]
        records = [] if asks_invariant else _records(run, record, lost, summary)
        rows = trace_of(run_dir, summary)
    try:
        stories = [explain_record(rows, name) for name in records]
    except RecordUnknown as unknown:
        sent = [name for kind in ("acked", "failed", "unknown") for name in summary["records"].get(kind, ())]
        close = next((name for name in sent if name.lstrip(ascii_lowercase) == record), None)
        every = format_record_names(sorted(sent, key=split_record_name))
        fail(
            str(unknown),
            ExitCode.USAGE,
            f"did you mean `{close}`?" if close else f"choose one of {every}" if sent else None,
        )
    if asks_invariant:
        assert record is not None
        return _explain_invariant(run_dir, rows, record, what_if, format_, plain)
    outcomes = _what_if(run_dir, stories) if what_if else {}
    _keep(run_dir, summary, outcomes)
    found = _find_blame(run_dir, rows, what_if, None)
    if format_ == "json":
        documents = [_document(story, rows) for story in stories]
        for document in documents:
            document["broken_invariants"] = found.as_json()
            if what_if:
                document["what_if"] = [outcome.as_json() for outcome in outcomes[document["record"]]]
        print_json(documents[0] if len(documents) == 1 else documents)
    else:
        style = style_for_stdout(plain)
        for story in stories:
            click.echo(explanation_text(story, style, outcomes.get(story.record)), nl=False)
        click.echo(found.text, nl=False)
        unsaved = [story.record for story in stories if story.fate == "lost" and not story.remedies.would]
        if unsaved and not what_if and not summary.get("live"):
            click.echo(
                f"\n  To find what would have saved it: highwater explain {shlex.join([run, unsaved[0]])} --what-if"
            )
        if record is None and len(lost_records) > len(records):
            also = format_record_names(lost_records[1:])
            line = f"  Also lost: {also}   (to explain all: highwater explain {shlex.quote(run)} --lost)"
            click.echo("\n" + textwrap.fill(line, style.width, subsequent_indent="    ", break_on_hyphens=False))
    return ExitCode.HELD


def _document(story: Explanation, rows: Sequence[TraceRow]) -> dict[str, Any]:
    """Return a record's explanation as JSON, with the chain of events from its first moment to its last."""
    from scenarios.explain.causes import causal_chain

    moments = story.moments
    return {**story.as_json(), "chain": causal_chain(rows, moments[0].seq, moments[-1].seq) if moments else []}


def _explain_invariant(
    run_dir: Path, rows: Sequence[TraceRow], invariant: str, what_if: bool, format_: str, plain: bool
) -> int:
    from replica.trace.events import InvariantBroken
    from scenarios.explain.blame import invariant_text

    broken = [row.event for row in rows if isinstance(row.event, InvariantBroken)]
    names = list(dict.fromkeys(event.invariant for event in broken))
    if invariant not in names:
        why = f"invariant {invariant} did not break in this run; broken invariants: {', '.join(names) or 'none'}"
        fail(why, ExitCode.USAGE)
    found = _find_blame(run_dir, rows, what_if, invariant)
    if format_ == "json":
        reasons = [event.sentence() for event in broken if event.invariant == invariant]
        print_json({"invariant": invariant, "reasons": reasons, "broken_invariants": found.as_json()})
    else:
        click.echo(invariant_text(rows, invariant, style_for_stdout(plain)) + found.text, nl=False)
    return ExitCode.HELD


def _is_of_a_topic(summary: Mapping[str, Any], name: str) -> bool:
    """Return True if `name` is a partition of the run, and not a record of an outside client, such as `rdkafka-12`."""
    waited = {wait["partition"].rpartition("-")[0] for wait in summary.get("waits", ())}
    return PARTITION.fullmatch(name) is not None and name.rpartition("-")[0] in {*summary["setting"]["topics"], *waited}


def _explain_waits(summary: Mapping[str, Any], partition: str, format_: str, plain: bool) -> int:
    """Print when a client waited a second or longer to write to the partition or read from it, and the causes."""
    waits = [wait for wait in summary.get("waits", ()) if wait["partition"] == partition]
    if not waits:
        known = sorted({wait["partition"] for wait in summary.get("waits", ())})
        fix = f"choose one of {', '.join(known)}" if known else "no client of this run waited so long"
        fail(f"no client waited a second or longer to write to {partition} or read from it", ExitCode.USAGE, fix)
    if format_ == "json":
        print_json({"partition": partition, "waits": waits})
        return ExitCode.HELD
    style = style_for_stdout(plain)
    variant = f", {summary['variant']}" if summary["variant"] else ""
    where = f"{summary['scenario']}{variant} {style.sign('dot')} {summary['profile']}"
    click.echo(f"\n{style.bold(f'  Why {partition} had no writes or reads')}    {where}")
    for wait in waits:
        length = duration(wait["to_us"] - wait["from_us"])
        what = f"{wait['client']} had no {wait['what']} for {length}{_ENDED_BY[wait['ended_by']]}"
        click.echo(f"\n  {wait['from_us'] / 1e6:>8.3f}  {what}")
        for part in wait["stretches"]:
            lasted = duration(part["to_us"] - part["from_us"])
            advice = f" {style.sign('dot')} {part['advice']}" if part["advice"] else ""
            text = textwrap.fill(f"{part['sentence']}{advice}", style.width - 24, break_on_hyphens=False)
            click.echo(f"  {part['from_us'] / 1e6:>8.3f}  {lasted:>8}  {textwrap.indent(text, ' ' * 22).lstrip()}")
    click.echo()
    return ExitCode.HELD


_ENDED_BY = {
    "success": "",
    "given_up": ", until its waiting records failed",
    "stopped": ", until it stopped",
    "run": ", until the run ended",
}


def _find_blame(run_dir: Path, rows: Sequence[TraceRow], what_if: bool, invariant: str | None) -> Findings:
    """Find the rules whose absence explains the run's broken invariants, by playing the run again with each rule added.

    Args:
        what_if: play these runs even if they take long.
        invariant: the only invariant to explain; None for all broken ones.
    """
    from replica.trace.events import InvariantBroken
    from scenarios.explain import blame
    from scenarios.explain.blame import Findings

    if not any(isinstance(row.event, InvariantBroken) and not row.event.promised for row in rows):
        return Findings()
    lock_text, scenario = _played(run_dir)
    suspects = [
        suspect
        for suspect in blame.suspects_of(rows, scenario.rules)
        if invariant is None or suspect.invariant == invariant
    ]
    changes = blame.additions(suspects)
    if not what_if and not blame.can_be_afforded(len(rows), changes):
        return Findings(suspects=tuple(suspects), runs=len(changes))
    broken_with = {}
    with ProgressLine("rules") as line:
        for number, (added, broken) in enumerate(blame.play_additions(lock_text, changes, os.cpu_count() or 1)):
            line.show((number + 1) / len(changes), f"{number + 1} of {len(changes)} runs")
            broken_with[added] = broken
    return Findings(blames=tuple(blame.blame(suspects, broken_with)), runs=len(changes))


def _played(run_dir: Path) -> tuple[str, Scenario]:
    """Return the text of the run's lock file and the scenario in it, to play the run again."""
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.language.parse.loading import load_text
    from scenarios.run.runs import RunNotFound, read_lock, read_summary

    try:
        lock_text = read_lock(run_dir, read_summary(run_dir))
        return lock_text, load_text(lock_text, "scenario.lock.yaml").scenario
    except (RunNotFound, ScenarioInvalid) as error:
        fail(f"the scenario of {run_dir} cannot be played again: {error}", ExitCode.USAGE)


def _what_if(run_dir: Path, stories: Sequence[Explanation]) -> dict[str, list[RecordFate]]:
    """Play the run again with one change at a time. Return the outcomes of each record, one for each change."""
    from scenarios.explain.what_if import changes_for, play_changes

    outcomes: dict[str, list[RecordFate]] = {story.record: [] for story in stories}
    lock_text, scenario = _played(run_dir)
    for story in stories:
        if story.producer not in scenario.workloads:
            fail(
                f"{story.record} cannot be sent again, because its producer {story.producer} is not in the scenario",
                ExitCode.USAGE,
                "leave out --what-if to see the story, or write a scenario with this producer to try changes",
            )
    for producer in dict.fromkeys(story.producer for story in stories):
        records = [story.record for story in stories if story.producer == producer]
        changes = changes_for(scenario, producer)
        with ProgressLine("what if") as line:
            for number, found in enumerate(play_changes(lock_text, records, changes, os.cpu_count() or 1)):
                line.show((number + 1) / len(changes), f"{number + 1} of {len(changes)} runs")
                for outcome in found:
                    outcomes[outcome.record].append(outcome)
    return outcomes


def _keep(run_dir: Path, summary: Mapping[str, Any], outcomes: Mapping[str, Sequence[RecordFate]]) -> None:
    """Store the outcomes in the run's folder, if it is writable, so that `highwater view` can show them."""
    from scenarios.explain.kept_outcomes import keep_outcomes

    trace_sha256 = summary.get("trace_sha256")
    if outcomes and isinstance(trace_sha256, str):
        with suppress(OSError):
            keep_outcomes(run_dir, trace_sha256, outcomes)
            if (run_dir / PAGE_NAME).is_file():  # Rewrite the page, which shows the outcomes.
                write_whole(run_dir / PAGE_NAME, page_text([run_dir]))


def _records(run: str, record: str | None, lost: bool, summary: Mapping[str, Any]) -> list[str]:
    if record is not None:
        return [record]
    records, waits = summary["records"], summary.get("waits")
    found: list[str] = records["lost"]
    if not found:
        # Suggest a record of the class with most to explain.
        kinds = ("unseen", "duplicated", "reordered", "dirty", "missing", "failed", "unknown", "aborted", "acked")
        some = next((records[kind][0] for kind in kinds if records.get(kind)), None)
        command = f"highwater explain {shlex.join([run, some or ''])}"
        fix = "its producers sent no record" if some is None else f"name a record: {command}"
        if waits:
            longest = max(waits, key=lambda wait: int(wait["to_us"] - wait["from_us"]))
            lasted = duration(longest["to_us"] - longest["from_us"])
            asked = shlex.join([run, longest["partition"]])
            fix += f"; {longest['client']} had no {longest['what']} for {lasted}: highwater explain {asked}"
        fail("no acked record was lost in this run", ExitCode.USAGE, fix)
    return found if lost else found[:1]


def _explain_code(code: str) -> int:
    from scenarios.language.diagnostics import EXPLANATIONS

    if code not in EXPLANATIONS:
        fail(f"there is no diagnostic {code}", ExitCode.USAGE)
    click.echo(f"{code}: {EXPLANATIONS[code]}")
    return ExitCode.HELD


# ----------------------------------------------------------------------------------------------------------------- path


@click.command()
@click.argument("run", shell_complete=run_names)
@click.argument("request", required=False)
@format_option
@plain_option
def path(run: str, request: str | None, format_: str, plain: bool) -> int:
    """Show the stages of one Produce or Fetch request of RUN in its broker, down to the sendfile calls.

    RUN is a folder, an id, `last`, `last~1` or a unique beginning. REQUEST is a record, such as r12, or a request as
    client:number, such as p1:7. Without REQUEST, list all requests. If clients share a client.id, the list adds the
    number of the connection: client/rdkafka:7@b1/31.
    """
    from scenarios.explain.request_journey import RequestJourneys, RequestUnknown, journey_text, requests_text
    from scenarios.run.runs import find_run, read_summary

    with usable_runs("run the scenario again"):
        run_dir = find_run(run)
        summary = read_summary(run_dir)
        if summary.get("real_kafka") or summary.get("watched"):
            why = f"{run_dir} is a run of real Kafka, which does not show the stages of a request"
            fail(why, ExitCode.USAGE, "run the scenario in virtual time, or with --live")
        measured = trace_of(run_dir, summary) if summary.get("live") else None
    requests = RequestJourneys(_measured_again(run_dir) if measured is None else measured)
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
            click.echo("\n  In virtual time, only waiting and the scenario's `cpu` and `disk` take time.")
            click.echo("  `run --live` and `serve` measure every stage.")
    return ExitCode.HELD


def _measured_again(run_dir: Path) -> list[TraceRow]:
    """Play a simulated run again with events for every stage of every request, and return all events."""
    from scenarios.run.runner import run_scenario
    from scenarios.run.worlds import measured

    _, scenario = _played(run_dir)
    with ProgressLine(scenario.run_name) as line:

        def progress(now_us: int, until_us: int, events: int) -> None:
            line.show(now_us / until_us if until_us else 1.0, "playing again to measure every request")

        return run_scenario(scenario, runs_dir=None, world=measured, keep_rows=True, progress=progress).rows
