"""`highwater agree`: plays scenarios in the simulator and on live brokers or real Kafka, and compares the results."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from replica.rules import DEFAULT_PROFILE
from replica.wording import duration
from scenarios.cli.common import (
    SeedRange,
    formats,
    load_scenario,
    must_be_written,
    must_have_room,
    must_hold_files,
    open_option,
    open_page,
    pick_variant,
    plain_option,
    print_json,
    style_for_stdout,
    usable_runs,
)
from scenarios.cli.completion import scenario_names
from scenarios.cli.kafka import KafkaVersion
from scenarios.cli.worlds import DEFAULT_SLACK, SlackType, java_client_classes, kafka_or_fail
from scenarios.process.failures import ProcessDied
from scenarios.process.work_folders import write_whole
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine

if TYPE_CHECKING:
    from cluster.network.world import Fabric
    from replica.trace.events import TraceLog
    from scenarios.agree.phases import Play
    from scenarios.agree.sheet import Sheet, SheetRow
    from scenarios.language.spec import Scenario
    from scenarios.run.kafka_limits import RealKafka
    from scenarios.run.worlds import NewWorld

TIMES_MAX = 20
JOBS_MAX = 16
PAGE_NAME = "agree.html"
SHEET_NAME = "sheet.json"
MAKE_ROOM = "free some disk space, and repeat the command; finished runs are not played again"


class Job(NamedTuple):
    """A scenario to play in the simulator and in the other mode.

    Attributes:
        name: id of the scenario; for a variant followed by `:` and the variant's id.
        scenario: the scenario under the rules of an era that both modes support.
        why_not: reason why it cannot be played; empty if it can.
        asked_for: the NAME argument that selected it; None if the user named no scenario.
    """

    name: str
    scenario: Scenario
    why_not: str
    asked_for: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWorld:
    """The mode that the simulator is compared with: live brokers or a release of Apache Kafka.

    Attributes:
        name: the name shown to the user; the folder of the runs is named after it.
        options: options of `highwater agree` that choose this mode.
        new: starts a cluster in this mode.
        profile: the only era of Kafka that it can play; None if it can play every era.
        why_not: returns the reason why a scenario cannot be played there; empty if it can.
        after: writes what only this mode knows about a finished run into the folder of the run.
        as_played: returns the scenario as this mode plays it, and the Kafka release if it is real Kafka.
        failures: exceptions that mean that a scenario cannot be played there.
    """

    name: str
    options: tuple[str, ...]
    new: NewWorld
    profile: str | None = None
    why_not: Callable[[Scenario], str]
    after: Callable[[Scenario, Path], None] = lambda scenario, run_dir: None
    as_played: Callable[[Scenario], tuple[Scenario, RealKafka | None]] = lambda scenario: (scenario, None)
    failures: tuple[type[Exception], ...] = ()


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME[:VARIANT]]...", shell_complete=scenario_names)
@click.option("--kafka", "version_", type=KafkaVersion(), help="Compare with this version of Apache Kafka.")
@click.option(
    "--kafka-home",
    type=click.Path(path_type=Path),
    help="Folder of an unpacked release or of its jars; by default an installed version.",
)
@click.option(
    "--clients",
    type=click.Choice(["highwater", "java"]),
    help="With Kafka: which clients to use, Highwater's (the default) or Kafka's own (java).",
)
@click.option("--live", "is_live", is_flag=True, help="Compare with Highwater's live brokers on TCP.")
@click.option(
    "--times", type=click.IntRange(1, TIMES_MAX), default=1, show_default=True, help="Repetitions of each run."
)
@click.option(
    "--jobs", "processes", type=click.IntRange(1, JOBS_MAX), default=1, show_default=True,
    help="Number of scenarios to play at once, each with its own brokers.",
)  # fmt: skip
@click.option(
    "--random", "seeds", type=SeedRange(), help="Play random fault schedules with these seeds, beside any NAMEs."
)
@click.option(
    "--slack", "slack_us", type=SlackType(), default=DEFAULT_SLACK, show_default=True,
    help="Show differences in time above this; they do not change a verdict.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("runs/agree"), show_default=True,
    help="Folder for the runs, the table and the page; finished runs are not played again.",
)  # fmt: skip
@formats("Output format (default: text).", "markdown")
@open_option
@plain_option
def agree(
    names: tuple[str, ...],
    version_: str | None,
    kafka_home: Path | None,
    clients: str | None,
    is_live: bool,
    times: int,
    processes: int,
    seeds: range | None,
    slack_us: int,
    out: Path,
    format_: str,
    opens: bool,
    plain: bool,
) -> int:
    """Play scenarios in the simulator and in another mode, and show where they differ: leaders, ISRs, records, logs.

    Without NAME, play all bundled scenarios with all variants. NAME:base is a scenario without its variants. Verdicts
    are `same`, `differs`, and `noise` for a difference that no rule decides or that not every repetition shows.

    The other mode runs in real time: each scenario takes its duration, 1 to 10 minutes, plus some 15 s to start.
    """
    from scenarios.agree.sheet import Sheet
    from scenarios.cli.agree.screen import work_text

    if is_live == (version_ is not None or kafka_home is not None):
        raise click.UsageError("Add either --kafka VERSION or --live, to choose the mode to compare with")
    if is_live and clients is not None:
        raise click.UsageError("--clients works only with --kafka: a live cluster always has Highwater's clients")
    world = _live() if is_live else _kafka(version_, kafka_home, slack_us, is_java=clients == "java")
    jobs = _jobs(names, seeds, world)
    folder = out / world.name.lower().replace(" ", "-")
    must_hold_files(folder)
    clock_us = [job.scenario.duration_us for job in jobs if not job.why_not]
    if clock_us:
        click.echo(work_text(len(jobs), clock_us, times, processes), err=True)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    sheet = Sheet("simulated", world.name, times, slack_us, date, version("highwater"))
    style = style_for_stdout(plain)
    ended: BaseException | None = None
    with must_have_room(folder, MAKE_ROOM):
        try:
            with (
                ProgressLine("agree") as line,
                closing(_rows(jobs, world, folder, sheet, processes, line)) as rows,
            ):
                for row in rows:
                    sheet.rows.append(row)
                    _keep(sheet, folder)
                    if format_ == "text":
                        from scenarios.cli.agree.screen import row_text

                        with line.aside():
                            click.echo(row_text(row, sheet, style), nl=False)
        except (KeyboardInterrupt, ProcessDied) as why:
            ended = why
        page = _page(sheet, folder)
    _print(sheet, format_, page)
    if ended is not None:
        rest = dict.fromkeys(job.asked_for for job in jobs[len(sheet.rows) :] if job.asked_for is not None)
        command = _command(list(rest), seeds, sheet, out, world)
        if processes > 1:
            command += ["--jobs", str(processes)]
        click.echo(f"To play the rest: {shlex.join(command)}", err=True)
        raise ended
    if opens:
        open_page(page)
    return _exit_code(sheet, names)


def _live() -> OtherWorld:
    from scenarios.run.worlds import live

    def why_not(scenario: Scenario) -> str:
        return "`network.card` works only in virtual time" if scenario.network.has_cards else ""

    return OtherWorld(name="live", options=("--live",), new=live, why_not=why_not)


def _kafka(version_: str | None, folder: Path | None, slack_us: int, *, is_java: bool) -> OtherWorld:
    """Describe an installed release of Apache Kafka as the other mode.

    Args:
        version_: the version to look for; None for any installed one.
        folder: folder of an unpacked release or of its jars; None to search for it.
        slack_us: tolerance for the times of a scenario, in microseconds.
        is_java: use Kafka's Java clients instead of Highwater's.
    """
    from cluster.kafka.fabric import KafkaFabric, KafkaNotUp
    from cluster.kafka.home import find_home
    from scenarios.agree.phases import write_phases
    from scenarios.run.kafka_limits import era_of, limits_of, played_on
    from scenarios.run.on_kafka import FOLDER, on_kafka

    with kafka_or_fail():
        home = find_home(version_, folder, os.environ)
    play = on_kafka(home, java_client_classes(home) if is_java else None)
    played: list[KafkaFabric] = []

    def new(scenario: Scenario, trace: TraceLog, log_root: Path) -> Fabric:
        fabric = play(scenario, trace, log_root)
        assert isinstance(fabric, KafkaFabric)
        played.append(fabric)
        return fabric

    def after(scenario: Scenario, run_dir: Path) -> None:
        write_phases(run_dir, run_dir / FOLDER, played.pop().time.epoch_us, scenario)

    chosen = [] if version_ is None else ["--kafka", version_]
    return OtherWorld(
        name=f"Kafka {home.version}{' with its clients' if is_java else ''}",
        options=(
            *chosen,
            *(("--clients", "java") if is_java else ()),
            *(() if folder is None else ("--kafka-home", str(folder))),
        ),
        new=new,
        profile=era_of(home.version),
        why_not=lambda scenario: next(map(str, limits_of(scenario, home.version, java_clients=is_java)), ""),
        after=after,
        as_played=lambda scenario: played_on(scenario, home.version, slack_us),
        failures=(KafkaNotUp,),
    )


def _jobs(names: Sequence[str], seeds: range | None, world: OtherWorld) -> list[Job]:
    from scenarios.agree.schedules import schedule_of
    from scenarios.language.parse.catalogue import bundled

    found: list[Job] = []

    def add(name: str, scenario: Scenario, asked_for: str | None) -> None:
        found.append(Job(name, *_in_the_era_of(world, scenario), asked_for))

    for asked_for in names or (() if seeds is not None else bundled()):
        name, _, variant = asked_for.partition(":")
        file = load_scenario(name)
        for item in (variant,) if variant else ("base", *file.variants):
            scenario = pick_variant(file, item, None)
            title = file.scenario.id if item == "base" else f"{file.scenario.id}:{item}"
            add(title, scenario, asked_for if names else None)
    profile = world.profile or DEFAULT_PROFILE
    for seed in seeds or ():
        add(f"random-{seed}", schedule_of(seed, profile), None)
    return found


def _in_the_era_of(world: OtherWorld, scenario: Scenario) -> tuple[Scenario, str]:
    """Return the scenario with the rules of the other mode's era, and the reason why it cannot be played, if any."""
    from scenarios.agree.phases import why_no_two_are_alike
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.search.era_runs import moved_to

    if world.profile is not None:
        try:
            scenario = moved_to(scenario, world.profile)
        except ScenarioInvalid as invalid:
            return scenario, next(
                diagnostic.title for diagnostic in invalid.diagnostics if diagnostic.severity == "error"
            )
    return scenario, world.why_not(scenario) or why_no_two_are_alike(scenario)


def _rows(
    jobs: Sequence[Job], world: OtherWorld, folder: Path, sheet: Sheet, processes: int, line: ProgressLine
) -> Generator[SheetRow, None, None]:
    """Play the jobs, `processes` at a time, and yield their rows in the order of `jobs`."""
    from scenarios.process.pool import in_order

    if processes == 1:
        for number, job in enumerate(jobs):
            where = f"{number + 1} of {len(jobs)}, {job.name}"
            yield _row(job, world, folder, sheet, partial(_show, line, number / len(jobs), where))
        return

    def row_at(index: int) -> SheetRow:
        return _row(jobs[index], world, folder, sheet, lambda moment: None)

    with closing(in_order(row_at, range(len(jobs)), processes)) as rows:
        for number, row in enumerate(rows, start=1):
            line.show(number / len(jobs), f"{number} of {len(jobs)}")
            yield row


def _show(line: ProgressLine, done: float, where: str, moment: str) -> None:
    line.show(done, f"{where}, {moment}")


def _row(job: Job, world: OtherWorld, folder: Path, sheet: Sheet, show: Callable[[str], None]) -> SheetRow:
    """Play one job in both modes and compare the runs.

    Args:
        show: called with the progress of the current run as text.
    """
    from scenarios.agree.phases import repetitions
    from scenarios.agree.sheet import SheetRow, compared
    from scenarios.run.cluster_under_test import NotPossibleNow
    from scenarios.run.worlds import simulated

    if job.why_not:
        return SheetRow(name=job.name, why_not=job.why_not)
    played_there, real = world.as_played(job.scenario)
    cannot: tuple[type[Exception], ...] = (NotPossibleNow, *world.failures)
    try:
        played = list(
            repetitions(
                played_there,
                folder / job.name.replace(":", "--"),
                sheet.times,
                play_ours=partial(_play, show, simulated, sheet.ours),
                play_theirs=partial(_play_there, world, partial(_play, show, world.new, world.name, real=real)),
            )
        )
    except cannot as error:
        return SheetRow(name=job.name, why_not=str(error))
    with usable_runs():
        return compared(job.name, played, sheet.slack_us)


def _play(
    show: Callable[[str], None],
    world: NewWorld,
    world_name: str,
    scenario: Scenario,
    runs_dir: Path,
    *,
    real: RealKafka | None = None,
) -> Path:
    from scenarios.run.runner import run_scenario

    def progress(now_us: int, until_us: int, events: int) -> None:
        moment = "starts" if now_us < 0 else f"{duration(now_us)} of {duration(until_us)}"
        show(f"{world_name}: {moment}")

    result = run_scenario(scenario, runs_dir=runs_dir, world=world, progress=progress, real=real)
    assert result.run_dir is not None
    return result.run_dir


def _play_there(world: OtherWorld, play: Play, scenario: Scenario, runs_dir: Path) -> Path:
    run_dir = play(scenario, runs_dir)
    world.after(scenario, run_dir)
    return run_dir


def _keep(sheet: Sheet, folder: Path) -> None:
    with must_be_written(folder, MAKE_ROOM):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / SHEET_NAME, json.dumps(sheet.as_json(), indent=2) + "\n")


def _page(sheet: Sheet, folder: Path) -> Path:
    from scenarios.agree.page import sheet_page

    _keep(sheet, folder)
    page = folder / PAGE_NAME
    with usable_runs():
        text = sheet_page(sheet)
    with must_be_written(page, MAKE_ROOM):
        write_whole(page, text)
    return page


def _print(sheet: Sheet, format_: str, page: Path) -> None:
    from scenarios.cli.agree.screen import sheet_table, totals_text

    if format_ == "json":
        print_json(sheet.as_json())
    elif format_ == "markdown":
        click.echo(sheet_table(sheet), nl=False)
    else:
        click.echo(totals_text(sheet), nl=False)
        click.echo(f"  See it:  {page}")


def _command(rest: Sequence[str], seeds: range | None, sheet: Sheet, out: Path, world: OtherWorld) -> list[str]:
    """Return the command line that plays the remaining scenarios, after an interruption.

    Args:
        rest: names of the remaining scenarios; empty for the whole catalogue and for random schedules. Finished runs
            are not played again.
    """
    whole_s, rest_us = divmod(sheet.slack_us, 1_000_000)
    slack = f"{sheet.slack_us // 1000}ms" if rest_us else f"{whole_s}s"
    random = [] if seeds is None else ["--random", f"{seeds.start}..{seeds.stop - 1}"]
    options = [*world.options, "--times", str(sheet.times), *([] if slack == DEFAULT_SLACK else ["--slack", slack])]
    return ["highwater", "agree", *rest, *options, *random, "--out", str(out)]


def _exit_code(sheet: Sheet, names: Sequence[str]) -> ExitCode:
    """Return a failure if a scenario differs, or else an error if the user named scenarios and none was played."""
    counts = sheet.counts
    if counts["differs"]:
        return ExitCode.EXPECTATION_FAILED
    return ExitCode.INVALID_SCENARIO if names and counts["not played"] == len(sheet.rows) else ExitCode.HELD
