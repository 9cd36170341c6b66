"""`highwater sweep SCENARIO`: plays many seeds and settings as a Spark job, and reports statistics for each setting."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from scenarios.cli.common import (
    SeedRange,
    fail,
    fail_invalid,
    format_option,
    load_scenario,
    must_hold_files,
    open_option,
    open_page,
    pick_variant,
    plain_option,
    print_json,
    style_for_stdout,
)
from scenarios.cli.completion import scenario_names
from scenarios.cli.run import fail_on_option, set_option
from scenarios.cli.spark import conf_option, master_option, spark_or_fail
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.process.work_folders import write_whole
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine

if TYPE_CHECKING:
    from scenarios.language.spec import Scenario
    from scenarios.search.sweep import Axis, Settings, SweepScenario
    from spark_reports.sweep.build import Pace, Swept
    from spark_reports.sweep.rows import Run

SETTINGS_MAX = 1000
_NO_CHANCE = (
    "note: only the pauses before retries are random here, so {of} may have the same result.\n"
    "      To add randomness: --set cluster.phases=random, --set 'network.latency={{exponential: 2ms}}',\n"
    "      or a producer with `poisson: 10/s` instead of `rate`."
)
FIRST_ROW_PATIENCE_S = 45.0


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@click.option(
    "--seeds", type=SeedRange(), default="1..100", show_default=True, help="Seeds to play with every setting."
)
@click.option(
    "--vary", multiple=True, metavar="PATH=V1,V2,...", help="Play every value; repeatable, for every combination."
)
@set_option
@click.option("--variant", metavar="ID", help="Variant to play; by default the scenario itself.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the results; default: sweeps/SCENARIO.")
@click.option("--resume", is_flag=True, help="Resume the sweep in that folder: play only the missing runs.")
@master_option("local[*]")
@conf_option
@click.option(
    "--time-limit",
    type=click.FloatRange(0.1),
    default=60.0,
    show_default=True,
    help="Time limit for each run, in seconds.",
)
@click.option(
    "--max-runs",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Largest number of runs that is allowed.",
)
@fail_on_option
@open_option
@format_option
@plain_option
def sweep(
    scenario: str,
    seeds: range,
    vary: tuple[str, ...],
    overrides: tuple[str, ...],
    variant: str | None,
    out: Path | None,
    resume: bool,
    master: str,
    conf: tuple[tuple[str, str], ...],
    time_limit: float,
    max_runs: int,
    fail_on: tuple[str, ...],
    opens: bool,
    format_: str,
    plain: bool,
) -> int:
    """Play SCENARIO with many seeds and settings on Spark, to see how likely a loss is and which seed shows it.

    A row per run is stored as Parquet during the sweep. After Ctrl-C the rows so far are reported, and --resume plays
    the missing runs. The row of a failed run has the reason. The exit code is 4 if a run crashed or broke what the
    rules promise, and 5 if a run took too long.

    \b
    highwater sweep luck-or-law --seeds 1..1000 \\
      --vary workloads.p1.config.acks=0,1,all \\
      --vary topics.t.config.min.insync.replicas=1,2
    """
    from scenarios.search.sweep import Axis, VaryUnreadable, grid

    try:
        axes = [Axis.parse(text) for text in vary]
        settings = grid(axes)
    except VaryUnreadable as unreadable:
        raise click.UsageError(str(unreadable)) from None
    _bound(len(settings), len(seeds), max_runs)
    planned, base = _planned(scenario, variant, overrides, axes, settings)
    plan = _Plan(planned, base, axes, settings, seeds)
    folder = out or Path("sweeps") / base.run_name
    must_hold_files(folder)
    if len(seeds) > 1 and not plan.has_chance:
        click.echo(_NO_CHANCE.format(of=f"all {len(seeds):,} seeds"), err=True)
    document = _play(plan, folder, resume, master, dict(conf), time_limit)
    if format_ == "json":
        print_json(document)
    else:
        from scenarios.cli.sweep.screen import sweep_screen

        click.echo(sweep_screen(document, style_for_stdout(plain)), nl=False)
    if document["interrupted"]:
        of = len(settings) * len(seeds)
        click.echo(
            f"{document['runs']:,} of {of:,} runs are kept. To play the rest, repeat the command with --resume.",
            err=True,
        )
        raise KeyboardInterrupt
    if opens:
        open_page(Path(document["page"]))
    return _exit_code(document["settings"], fail_on)


class _Plan(NamedTuple):
    """The runs to play in a sweep.

    Attributes:
        scenario: the scenario in the form that Spark's workers get.
        base: the scenario without the varied settings, with the seed of the file.
        axes: the --vary options.
        settings: all combinations of the values of `axes`.
        seeds: seeds played with each combination.
    """

    scenario: SweepScenario
    base: Scenario
    axes: Sequence[Axis]
    settings: Sequence[Settings]
    seeds: range

    @property
    def has_chance(self) -> bool:
        """True if the seed affects more than the pauses before retries, at least with some of the settings."""
        from scenarios.search.sweep import has_chance

        def leaves_chance(settings: Settings) -> bool:
            try:
                return has_chance(self.scenario.resolved(settings))
            except ScenarioInvalid:
                return False

        return any(map(leaves_chance, self.settings))

    @property
    def about(self) -> dict[str, Any]:
        """All inputs of a run except settings and seed. Rows are reused only by a sweep with the same inputs."""
        from scenarios.language.write import lock
        from scenarios.process.identity import identity

        # The digest covers the whole scenario except its comments and its own seed.
        text = lock.dump(replace(self.base, seed=0))
        return {
            "scenario": self.base.id,
            "variant": self.scenario.variant,
            "set": list(self.scenario.overrides),
            "scenario_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "version": identity(),
        }


def _bound(settings: int, seeds: int, max_runs: int) -> None:
    if settings > SETTINGS_MAX:
        raise click.UsageError(f"this sweep has {settings:,} settings; at most {SETTINGS_MAX:,} are allowed")
    if settings * seeds > max_runs:
        raise click.UsageError(
            f"{settings:,} settings with {seeds:,} seeds each are {settings * seeds:,} runs, more than --max-runs "
            f"{max_runs:,}: give fewer seeds, or --max-runs {settings * seeds}"
        )


def _planned(
    name: str, variant: str | None, overrides: Settings, axes: Sequence[Axis], settings: Sequence[Settings]
) -> tuple[SweepScenario, Scenario]:
    """Return the scenario in the form that Spark's workers get, and the scenario without varied settings.

    End the command with an error if a value of --vary is invalid in every combination.
    """
    from scenarios.search.sweep import SweepScenario, invalid_values

    chosen = None if variant == "base" else variant
    file = load_scenario(name, overrides, chosen or "base")
    base = pick_variant(file, chosen, None)
    planned = SweepScenario(name, file.path, file.text, chosen, overrides, tuple(file.config_files.items()))
    invalid, refused = invalid_values(planned, axes, settings)
    if invalid is not None:
        fail_invalid(invalid)
    if refused:
        click.echo(
            f"warning: {refused} of {len(settings)} settings are not valid scenarios; their rows have the reasons",
            err=True,
        )
    return planned, base


def _play(
    plan: _Plan, out: Path, resume: bool, master: str, conf: Mapping[str, str], time_limit: float
) -> dict[str, Any]:
    """Play the missing runs, and return the document that `--format json` prints.

    If Spark fails, end the command with an error.
    """
    from scenarios.process.identity import identity
    from spark_reports.sweep.build import run_sweep
    from spark_reports.sweep.job import Task, WorkersUnfit
    from spark_reports.sweep.store import SweepFolder, SweepFolderUnusable

    task = Task(plan.scenario.play, identity, identity(), time_limit)
    try:
        with (
            spark_or_fail(),
            SweepFolder(out, plan.about, resume=resume) as folder,
            ProgressLine("sweep") as line,
        ):
            progress = _progress(plan.scenario, line)
            swept = run_sweep(folder, task, plan.settings, plan.seeds, master, conf, progress)
            return _results(plan, out, swept)
    except SweepFolderUnusable as unusable:
        fail(str(unusable), ExitCode.USAGE)
    except WorkersUnfit as unfit:
        fail(
            f"the sweep cannot be played on {master}: {unfit}",
            ExitCode.MISSING,
            "give the workers the same Python and libraries as this machine; Highwater's code is sent to them",
        )
    except OSError as error:
        fail(f"the sweep cannot be written to {out}: {error.strerror or error}", ExitCode.MISSING)


def _progress(scenario: SweepScenario, line: ProgressLine) -> Callable[[Pace], None]:
    """Return a function that redraws the progress line, and reports the first run that loses a record."""
    listed: list[Run] = []

    def progress(pace: Pace) -> None:
        if pace.first_losing is not None and not listed:
            listed.append(pace.first_losing)
            line.note(f"  first loss: {scenario.replay_command(*pace.first_losing)}")
        line.show(pace.played / pace.of if pace.of else 1.0, _pace_words(pace))

    return progress


def _pace_words(pace: Pace) -> str:
    if not pace.played:
        waited = "; no worker has finished a run yet" if pace.seconds > FIRST_ROW_PATIENCE_S else ""
        return f"0 of {pace.of:,} runs{waited}"
    rate = f"{pace.runs_per_s:.1f}/s" if pace.runs_per_s >= 1 else f"{pace.seconds / pace.played:.1f} s per run"
    words = f"{pace.played:,} of {pace.of:,} runs, {rate}, {pace.losing:,} with losses"
    return f"{words}, {pace.unfinished:,} unfinished" if pace.unfinished else words


def _results(plan: _Plan, out: Path, swept: Swept) -> dict[str, Any]:
    from scenarios.search.sweep import labels, without_difference
    from spark_reports.sweep.page import render

    for row in swept.rows:
        for kind in ("losing", "unfinished"):
            seed = row[f"smallest_{kind}_seed"]
            replay = plan.scenario.replay_command
            row[f"{kind}_replay"] = None if seed is None else replay(tuple(row["settings"]), seed)
    runs = sum(row["runs"] for row in swept.rows)
    seeds = f"seed {plan.seeds.start}" if len(plan.seeds) == 1 else f"seeds {plan.seeds.start}..{plan.seeds.stop - 1}"
    names = labels(plan.axes)
    about = {
        "scenario": plan.base.run_name,
        "title": plan.base.title,
        "question": plan.base.question,
        "seeds": seeds
        + (f", {runs:,} of {len(plan.settings) * len(plan.seeds):,} runs so far" if swept.interrupted else ""),
        "overrides": plan.scenario.overrides,
    }
    axes = [(name, axis.values) for name, axis in zip(names, plan.axes, strict=True)]
    page = out / "sweep.html"
    write_whole(page, render(about, swept.rows, axes, swept.versions))
    return {
        "scenario": plan.base.id,
        "variant": plan.scenario.variant,
        "seeds": seeds,
        "set": list(plan.scenario.overrides),
        "vary": [{"path": axis.path, "values": list(axis.values)} for axis in plan.axes],
        "axes": names,
        "runs": runs,
        "played": swept.pace.played,
        "play_s": round(swept.pace.seconds, 3),
        "runs_per_hour": round(swept.pace.runs_per_s * 3600),
        "settings": swept.rows,
        "without_difference": {} if swept.interrupted else without_difference(plan.axes, swept.rows),
        "interrupted": swept.interrupted,
        "page": str(page),
        "folder": str(out),
    }


def _exit_code(rows: Sequence[Mapping[str, Any]], fail_on: Sequence[str]) -> ExitCode:
    """Return the exit code: that of a bug in Highwater if any, or else of a forbidden outcome, or else of a timeout.

    Args:
        fail_on: kinds of anomalies that are forbidden; `any` for all kinds.
    """
    if any(row["our_bugs"] or row["crashed"] for row in rows):
        return ExitCode.OUR_BUG
    if any(kind in row["verdicts"] or (kind == "any" and row["verdicts"]) for row in rows for kind in fail_on):
        return ExitCode.EXPECTATION_FAILED
    return ExitCode.UNDECIDED if any(row["timeouts"] for row in rows) else ExitCode.HELD
