"""The commands `highwater run` and `highwater compare`."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scenarios.cli.common import (
    FileToWrite,
    exit_code_of,
    fail,
    format_option,
    load_scenario,
    must_hold_files,
    open_option,
    open_page,
    out_option,
    pick_variant,
    plain_option,
    print_json,
    records_option,
    results_format_option,
    style_for_stdout,
    summary_in_json,
    warn_of_mistakes,
)
from scenarios.cli.completion import scenario_names
from scenarios.cli.worlds import ChosenWorld, WorldName, WorldsType, kafka_options, on_option
from scenarios.language.expect import ANOMALIES
from scenarios.observe.wording import replay_command
from scenarios.run.runs import RUNS_DIR, RunInterrupted
from scenarios.terminal.interruption import ExitCode

if TYPE_CHECKING:
    from scenarios.language.spec import Scenario
    from scenarios.run.runner import RunResult

set_option = click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change one value of the scenario; repeatable."
)
fail_on_option = click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(["any", *ANOMALIES]),
    metavar="KIND",
    help=f"Exit with code 1 if this anomaly occurred: any, {', '.join(ANOMALIES)}; repeatable.",
)
processes_option = click.option(
    "--processes", "in_processes", is_flag=True, help="Run every live broker and controller in its own process."
)


def _chosen_world(
    on: WorldName | None,
    *,
    is_live: bool,
    in_processes: bool,
    kafka_home: Path | None,
    slack_us: int,
    clients: str | None,
) -> ChosenWorld:
    if is_live and on is not None and on.kind != "live":
        raise click.UsageError(f"--live contradicts --on {on}; give only one of them")
    name = on or WorldName("live" if is_live else "sim")
    return ChosenWorld(name, in_processes=in_processes, kafka_home=kafka_home, slack_us=slack_us, clients=clients)


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@click.option("--variant", metavar="ID", help="Variant to run; by default the scenario itself.")
@click.option("--seed", type=click.IntRange(0), help="Seed to use instead of the file's.")
@set_option
@click.option("--live", "is_live", is_flag=True, help="Run against live TCP brokers in real time; same as --on live.")
@processes_option
@on_option
@kafka_options
@out_option
@click.option("--no-logs", is_flag=True, help="Do not keep the brokers' log directories.")
@fail_on_option
@click.option("-v", "--verbose", is_flag=True, help="Print all key events, each on its own line.")
@click.option(
    "--predict", "predicts", is_flag=True, help="Open a page that asks for predictions first, and print no results."
)
@open_option
@results_format_option
@records_option
@plain_option
def run(
    scenario: str,
    variant: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    is_live: bool,
    in_processes: bool,
    on: WorldName | None,
    kafka_home: Path | None,
    slack_us: int,
    clients: str | None,
    out: Path,
    no_logs: bool,
    fail_on: tuple[str, ...],
    verbose: bool,
    predicts: bool,
    opens: bool,
    format_: str,
    names_records: bool,
    plain: bool,
) -> int:
    """Run SCENARIO (a bundled id or a file) in virtual time, live or on real Kafka. Show the fate of every record."""
    world = _chosen_world(
        on, is_live=is_live, in_processes=in_processes, kafka_home=kafka_home, slack_us=slack_us, clients=clients
    )
    file = load_scenario(scenario, overrides, variant or "base")
    chosen = pick_variant(file, variant, seed)
    must_hold_files(out)
    warn_of_mistakes(scenario, file, [variant])
    world.must_play([chosen])
    interrupted: RunInterrupted | None = None
    try:
        result = world.play(chosen, out, keep_logs=not no_logs)
    except RunInterrupted as error:
        interrupted, result = error, error.result
    again = replay_command(scenario, variant, chosen.seed, overrides) if world.comes_back else None
    if format_ == "json":
        print_json(summary_in_json(result.summary, names_records=names_records))
    elif format_ == "junit":
        from scenarios.cli.screens import junit_text

        click.echo(junit_text([(result.summary, again or "")], fail_on))
    elif not predicts:
        from scenarios.cli.screens import run_screen

        style = style_for_stdout(plain)
        click.echo(run_screen(result.summary, result.story, style, again, verbose=verbose), nl=False)
    if opens or predicts:
        from scenarios.cli.view import PAGE_NAME, PREDICT_NAME, write_page

        run_dir = Path(result.summary["run_dir"])
        page = write_page([run_dir], run_dir / (PREDICT_NAME if predicts else PAGE_NAME), predicts=predicts)
        if predicts and format_ == "text":
            click.echo(f"  See it:  {page}")
        open_page(page)
    if interrupted is not None:
        raise interrupted
    return exit_code_of([result], fail_on)


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="ID",
    help="Variant to run (`base`: the scenario itself); repeatable; default: all.",
)
@click.option("--seed", type=click.IntRange(0), help="Seed to use instead of the file's.")
@set_option
@click.option(
    "--on", "on", type=WorldsType(), default="sim", help="Modes to run in, such as sim,kafka:4.1.0; default: sim."
)
@kafka_options
@click.option("--page", type=FileToWrite(), help="Write a page about the runs to this file.")
@open_option
@format_option
@records_option
@plain_option
def compare(
    scenario: str,
    variants: tuple[str, ...],
    seed: int | None,
    overrides: tuple[str, ...],
    on: tuple[WorldName, ...],
    kafka_home: Path | None,
    slack_us: int,
    clients: str | None,
    page: Path | None,
    opens: bool,
    format_: str,
    names_records: bool,
    plain: bool,
) -> int:
    """Run SCENARIO and its variants with the same seed, in one mode or in several, and put them side by side."""
    homes = {name: kafka_home if name.kind == "kafka" else None for name in on}
    if kafka_home is not None and kafka_home not in homes.values():
        raise click.UsageError("--kafka-home works only in runs on Kafka: add --on sim,kafka")
    if clients is not None and all(name.kind != "kafka" for name in on):
        raise click.UsageError("--clients works only in runs on Kafka: add --on sim,kafka")
    worlds = [
        ChosenWorld(name, kafka_home=home, slack_us=slack_us, clients=clients if name.kind == "kafka" else None)
        for name, home in homes.items()
    ]
    file = load_scenario(scenario, overrides)
    names = variants or ("base", *file.variants)
    chosen = [pick_variant(file, name, seed) for name in names]
    warn_of_mistakes(scenario, file, names)
    for world in worlds:
        world.must_play(chosen)
    plays = [(item, world) for item in chosen for world in worlds]
    if opens and page is None:
        page = RUNS_DIR / f"compare-{file.scenario.id}.html"
    results = _compare_on_page(plays, page) if page is not None else [world.play(item, None) for item, world in plays]
    if format_ == "json":
        runs = [summary_in_json(result.summary, names_records=names_records) for result in results]
        print_json({"scenario": file.scenario.id, "runs": runs})
    else:
        from scenarios.cli.screens import compare_table

        click.echo(compare_table([result.summary for result in results], style_for_stdout(plain)), nl=False)
        where = [] if [name.kind for name in on] == ["sim"] else ["--on", ",".join(map(str, on))]
        again = shlex.join(["highwater", "compare", scenario, *where, "--open"])
        click.echo(f"\n  See it:  {page or again}")
    if opens and page is not None:
        open_page(page)
    return exit_code_of(results)


def _compare_on_page(plays: Sequence[tuple[Scenario, ChosenWorld]], page: Path) -> list[RunResult]:
    """Play the runs, write one page about them, and delete their folders. Return the results of the runs."""
    from scenarios.cli.view import RUNS_MAX, write_page

    if len(plays) > RUNS_MAX:
        fail(
            f"{len(plays)} runs were chosen; a page shows at most {RUNS_MAX}",
            ExitCode.USAGE,
            "choose fewer with --variant ID",
        )
    must_hold_files(page.parent, "--page")
    with tempfile.TemporaryDirectory() as kept:
        results = [world.play(item, Path(kept), keep_logs=False) for item, world in plays]
        write_page([Path(result.summary["run_dir"]) for result in results], page)
    return results
