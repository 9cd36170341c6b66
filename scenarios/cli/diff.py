"""`highwater diff`: compares the outcomes of two runs and finds the first event in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scenarios.cli.common import fail, format_option, plain_option, print_json, style_for_stdout, usable_runs
from scenarios.cli.completion import run_names
from scenarios.observe.wording import count_of
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.style import beside, folded, pair_lines

if TYPE_CHECKING:
    from replica.trace.events import TraceRow
    from scenarios.agree.comparison import Agreement
    from scenarios.observe.differences import Difference
    from scenarios.terminal.style import Style

WIDTH = 80
SLACK_US = 2_000_000
"""Time before the end of a run in which events may be missing without counting as a difference, in microseconds."""
DIFFERENCES_SHOWN = 12

Pair = tuple[str, str]
Figures = Mapping[str, Pair]
"""Figures as (first run, other run), by the label of their row in `highwater compare`."""


@click.command()
@click.argument("first", shell_complete=run_names)
@click.argument("other", shell_complete=run_names)
@format_option
@plain_option
def diff(first: str, other: str, format_: str, plain: bool) -> int:
    """Show which settings differ between the runs FIRST and OTHER, and which results.

    Records, leaders, ISRs, final logs and expectations come first, then times. For two simulated runs, the first
    event that differs is shown as well; live runs always differ in their times.
    """
    from scenarios.cli.view import rows_of
    from scenarios.observe.differences import first_difference
    from scenarios.run.runs import find_run

    with usable_runs():
        folders = [find_run(first), find_run(other)]
    (summary, rows), (summary_of_other, rows_of_other) = map(rows_of, folders)
    style = style_for_stdout(plain)
    try:
        settings = _settings_that_differ(summary, summary_of_other)
        figures = _figures(summary, summary_of_other, style)
        failed = _failed_in_one(summary, summary_of_other)
    except (KeyError, TypeError, AttributeError) as error:
        fail(f"a summary.json is not the summary of a run: {error}", ExitCode.USAGE)
    outcome = _outcome(folders, [rows, rows_of_other])
    difference = None
    if are_simulated := not (summary.get("live") or summary_of_other.get("live")):
        difference = first_difference(rows, rows_of_other)
    if format_ == "json":
        document = _document(folders, settings, (summary, summary_of_other), outcome)
        if are_simulated:
            document["first"] = difference and {
                "same_events": difference.same, "at_us": difference.at_us, "sentences": difference.sentences
            }  # fmt: skip
        print_json(document)
        return ExitCode.HELD
    names = (folders[0].name, folders[1].name)
    click.echo(f"\n  {names[0]}  and\n  {names[1]}" + ("\n" if settings else ""))
    for pair in settings:
        _echo_pair(names, pair)
    _echo_outcome(names, figures, outcome, failed, style)
    _echo_times(names, figures, outcome, style)
    if are_simulated:
        _echo_first(names, difference)
    return ExitCode.HELD


def _outcome(folders: Sequence[Path], rows: Sequence[Sequence[TraceRow]]) -> Agreement:
    """Compare the outcomes of two runs as `highwater agree` compares two modes."""
    from scenarios.agree.comparison import compare
    from scenarios.agree.facts import epochs_in, facts_of

    ours, theirs = (facts_of(found, epochs_in(folder / "logs")) for folder, found in zip(folders, rows, strict=True))
    return compare([ours], [theirs], slack_us=SLACK_US)


def _settings_that_differ(item: Mapping[str, Any], other: Mapping[str, Any]) -> list[Pair]:
    """Return the settings that differ as pairs of lines, one line for each run, empty if that run lacks the setting."""
    from scenarios.observe.wording import settings_of

    left, right = ([*settings_of(summary), *_rules(summary)] for summary in (item, other))
    only_left = [line for line in left if line not in right]
    only_right = [line for line in right if line not in left]
    width = max(len(only_left), len(only_right))
    return [
        (only_left[index] if index < len(only_left) else "", only_right[index] if index < len(only_right) else "")
        for index in range(width)
    ]


def _rules(summary: Mapping[str, Any]) -> list[str]:
    from scenarios.observe.wording import played_by

    world = "live, in real time" if summary.get("live") else "simulated"
    if "cut_short" in summary:
        world += f", cut short at {summary['cut_short']['at_s']:g} s"
    rules = [f"scenario {summary['scenario']}", f"rules of {played_by(summary)}", f"seed {summary['seed']}"]
    return [*rules, world]


def _figures(item: Mapping[str, Any], other: Mapping[str, Any], style: Style) -> Figures:
    """Return the rows of `highwater compare`, and the number of expectations that hold, where the two runs differ."""
    from scenarios.cli.screens import compared

    left, right = ({**compared(run, style), **_expected(run)} for run in (item, other))
    none = style.sign("none")
    pairs = {name: (left.get(name, none), right.get(name, none)) for name in (*left, *right)}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _expected(summary: Mapping[str, Any]) -> dict[str, str]:
    judged = sum(item.get("judged", True) for item in summary["expectations"])
    return {"expectations that hold": f"{judged - len(_failed(summary))} of {judged}"}


def _failed(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the expectations that the run did not meet, each with the reason."""
    judged = (item for item in summary["expectations"] if item.get("judged", True))
    return {item["what"]: item["why"] for item in judged if not item["held"]}


def _failed_in_one(item: Mapping[str, Any], other: Mapping[str, Any]) -> Figures:
    left, right = _failed(item), _failed(other)
    alone = [what for what in (*left, *right) if (what in left) != (what in right)]
    return {what: (_does_not_hold(left, what), _does_not_hold(right, what)) for what in alone}


def _does_not_hold(failed: Mapping[str, Any], what: str) -> str:
    return f"does not hold: {failed[what]}" if what in failed else ""


# ------------------------------------------------------------------------------------------------------- the screen


def _echo_outcome(names: Pair, figures: Figures, outcome: Agreement, failed: Figures, style: Style) -> None:
    from scenarios.cli.screens import COMPARED_TIMES

    ends = {name: pair for name, pair in figures.items() if name not in COMPARED_TIMES}
    if not ends and not outcome.differences and not failed:
        click.echo("\n  Every record had the same outcome, with the same leaders, ISRs and final logs.")
        return
    click.echo("\n  What ended differently:\n")
    _echo_table(names, ends, style)
    if ends and (outcome.differences or failed):
        click.echo()
    for difference in outcome.differences[:DIFFERENCES_SHOWN]:
        click.echo("\n".join(folded(difference.title, WIDTH, "  ", "    ")))
        _echo_pair(names, (difference.ours, difference.theirs), "    ")
    if (left := len(outcome.differences) - DIFFERENCES_SHOWN) > 0:
        click.echo(f"  and {count_of(left, 'more difference')}; --format json lists all")
    for what, pair in failed.items():
        click.echo("\n".join(folded(f"expected: {what}", WIDTH, "  ", "    ")))
        _echo_pair(names, pair, "    ")


def _echo_times(names: Pair, figures: Figures, outcome: Agreement, style: Style) -> None:
    from scenarios.cli.screens import COMPARED_TIMES
    from scenarios.observe.wording import seconds

    times = {name: pair for name, pair in figures.items() if name in COMPARED_TIMES}
    gap = outcome.largest_gap
    if not times and not (gap and gap.by_us):
        return
    click.echo("\n  Times and retries that differ:\n")
    _echo_table(names, times, style)
    if times and gap and gap.by_us:
        click.echo()
    if gap and gap.by_us:
        order = "later" if gap.by_us > 0 else "earlier"
        far = f"{seconds(abs(gap.by_us))} {order} in {names[1]}"
        text = f"largest difference in time: {gap.partition} at {seconds(gap.at_us)}, {far}"
        click.echo("\n".join(folded(text, WIDTH, "  ", "    ")))


def _echo_first(names: Pair, found: Difference | None) -> None:
    if found is None:
        click.echo("\n  Both runs have the same events at the same times.")
        return
    same = f"Their first {count_of(found.same, 'event')} are the same; then:" if found.same else "From the start:"
    click.echo(f"\n  {same}")
    for name, at_us, sentence in zip(names, found.at_us, found.sentences, strict=True):
        moment = "ended" if at_us is None else f"{at_us / 1e6:.3f} s"
        head = f"  {name:<{max(map(len, names))}}  {moment:>10}  "
        click.echo("\n".join(beside(head, sentence, WIDTH)))


def _echo_table(names: Pair, rows: Figures, style: Style) -> None:
    from scenarios.cli.screens import table_of

    if not rows:
        return
    for heads in (names, ("first run", "second run")):  # The names of the runs head the columns if they fit.
        columns = [(head, {label: pair[index] for label, pair in rows.items()}) for index, head in enumerate(heads)]
        lines, shown = table_of(columns, replace(style, width=WIDTH))
        if shown == len(columns):
            break
    click.echo("\n".join(lines))


def _echo_pair(names: Pair, texts: Pair, indent: str = "  ") -> None:
    for line in pair_lines(names, texts, WIDTH, indent):
        click.echo(line)


def _document(
    folders: Sequence[Path], settings: Sequence[Pair], summaries: Sequence[Mapping[str, Any]], outcome: Agreement
) -> dict[str, Any]:
    from scenarios.cli.screens import figures_of

    gap = outcome.largest_gap
    left, right = map(figures_of, summaries)
    figures = {name: (left.get(name), right.get(name)) for name in (*left, *right)}
    return {
        "runs": [str(folder) for folder in folders],
        "settings": settings,
        "verdicts": [summary["verdict"] for summary in summaries],
        "not_as_expected": [_failed(summary) for summary in summaries],
        "figures": {name: pair for name, pair in figures.items() if pair[0] != pair[1]},
        "differences": [asdict(difference) for difference in outcome.differences],
        "largest_gap": None if gap is None else asdict(gap),
    }
