"""The commands `highwater test` and `highwater verify`."""

from __future__ import annotations

import filecmp
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scenarios.cli.common import (
    fail,
    format_option,
    load_scenario,
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
from scenarios.cli.worlds import ChosenWorld, WorldName, kafka_options, on_option
from scenarios.observe.wording import count_of
from scenarios.process.failures import ProcessDied
from scenarios.process.own_python import environment
from scenarios.process.pool import in_order
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine

if TYPE_CHECKING:
    from scenarios.language.spec import Scenario
    from scenarios.terminal.style import Style

Job = tuple[str, str | None]
"""A run to play: (scenario as the user named it, id of the variant or None for the scenario itself)."""
Played = TypeVar("Played")
Summary = dict[str, Any]


@click.command()
@click.argument("scenarios", nargs=-1, shell_complete=scenario_names)
@click.option("--profile", metavar="ERA", help="Play by the rules of this era, such as kafka-2.0.")
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes to use; by default one per core.")
@on_option
@kafka_options
@results_format_option
@records_option
@plain_option
def test(
    scenarios: tuple[str, ...],
    profile: str | None,
    jobs: int | None,
    on: WorldName | None,
    kafka_home: Path | None,
    slack_us: int,
    clients: str | None,
    format_: str,
    names_records: bool,
    plain: bool,
) -> int:
    """Run SCENARIOS (by default all bundled ones) with all their variants, one line each.

    With --profile, play them by the rules of that era. Expectations written for the era must hold, and no promise of
    the era may break. Other scenarios may end as written or differ.
    """
    from scenarios.cli.screens import junit_text, test_line

    world = ChosenWorld(on or WorldName("sim"), kafka_home=kafka_home, slack_us=slack_us, clients=clients)
    if profile is not None:
        if on is not None:
            raise click.UsageError(
                "--profile works only in virtual time, without --on: a real cluster follows the rules of its release"
            )
        if format_ == "junit":
            raise click.UsageError(
                "--format junit does not work with --profile, whose results are more than passed and failed"
            )
        return _test_era(scenarios, profile, jobs or os.cpu_count() or 1, format_, style_for_stdout(plain))

    began_s = time.monotonic()
    work = _jobs(scenarios)
    style = style_for_stdout(plain)
    where = [] if world.comes_back else ["--on", str(world.name)]
    left_out = 0
    playable: dict[Job, Scenario] = {}
    if not world.comes_back:
        playable = _playable(work, world, asked_for=bool(scenarios))
        left_out, work = len(work) - len(playable), list(playable)
    commands = [shlex.join(["highwater", "run", name, *_options(variant), *where]) for name, variant in work]
    coming = iter(commands)

    def show_line(summary: Summary) -> None:
        click.echo(test_line(summary, style, next(coming)))

    show = show_line if format_ == "text" else None
    if world.comes_back:
        summaries, ended = _played("test", _run_job, work, jobs or os.cpu_count() or 1, show)
    else:
        summaries, ended = _played_one_by_one(playable.values(), world, show)
    held = sum(1 for summary in summaries if _holds(summary))
    rest = _rest(work, len(summaries), where)
    if format_ == "junit":
        click.echo(junit_text(list(zip(summaries, commands, strict=False))))
    elif format_ == "json":
        shown = [summary_in_json(summary, names_records=names_records) for summary in summaries]
        print_json({"runs": shown, "held": held == len(work), "interrupted": rest is not None, "rest": rest})
    else:
        count = len({summary["scenario"] for summary in summaries})
        failed = f", {len(summaries) - held} failed" if held < len(summaries) else ""
        elapsed_s = time.monotonic() - began_s
        runs = f"{len(summaries)} of {count_of(len(work), 'run')}" if rest else count_of(len(summaries), "run")
        click.echo(f"\n{held} passed{failed}: {count_of(count, 'scenario')}, {runs}, in {elapsed_s:.1f} s")
        if left_out:
            click.echo(
                f"not played: {count_of(left_out, 'run')} that {world} cannot play (highwater list --on {world.name})"
            )
    _end_early(rest, ended)
    if any(summary["our_bug"] for summary in summaries):
        return ExitCode.OUR_BUG
    return ExitCode.HELD if held == len(summaries) else ExitCode.EXPECTATION_FAILED


def _test_era(scenarios: tuple[str, ...], profile: str, processes: int, format_: str, style: Style) -> int:
    from replica.rules import PROFILES
    from scenarios.cli.screens import era_line
    from scenarios.search.era_runs import EraJob, play_in_era

    if profile not in PROFILES:
        raise click.UsageError(f"--profile: there is no era `{profile}`; choose one of {', '.join(PROFILES)}")
    began_s = time.monotonic()
    work = [EraJob(name, variant, profile) for name, variant in _jobs(scenarios)]
    show = None if format_ == "json" else lambda summary: click.echo(era_line(summary, style))
    summaries, ended = _played(f"test {profile}", play_in_era, work, processes, show)
    endings = Counter(summary["ending"] for summary in summaries)
    rest = _rest([(job.scenario, job.variant) for job in work], len(summaries), ["--profile", profile])
    if format_ == "json":
        left = {"interrupted": rest is not None, "rest": rest}
        print_json({"profile": profile, "endings": dict(sorted(endings.items())), "runs": summaries, **left})
    else:
        written = endings["held"] + endings["failed"]
        click.echo(
            f"\n{profile}: {endings['held']} of {written} runs written for this era met their expectations."
            f" Of the runs written for other eras, {endings['same']} met their expectations,"
            f" {endings['differs']} did not, and {endings['not-applicable']} cannot run in this era."
            f" Runs that broke a promise of the era: {endings['broken']}. Time: {time.monotonic() - began_s:.1f} s"
        )
    _end_early(rest, ended)
    if endings["broken"]:
        return ExitCode.OUR_BUG
    return ExitCode.EXPECTATION_FAILED if endings["failed"] else ExitCode.HELD


def _played(
    label: str,
    play: Callable[[Played], Summary],
    work: Sequence[Played],
    processes: int,
    show: Callable[[Summary], None] | None,
) -> tuple[list[Summary], BaseException | None]:
    """Play all jobs in several processes.

    Args:
        label: the heading of the progress line.
        play: plays one job.
        show: prints a result as soon as it is known; None to print nothing.

    Returns:
        The results in the order of `work`, and the exception that stopped the work early: KeyboardInterrupt or
        ProcessDied, None if all jobs were played.
    """
    summaries: list[Summary] = []
    with ProgressLine(label) as line, closing(in_order(play, work, processes)) as coming:
        try:
            for summary in coming:
                summaries.append(summary)
                if show is not None:
                    with line.aside():
                        show(summary)
                line.show(len(summaries) / len(work), f"{len(summaries)} of {len(work)} runs")
        except (KeyboardInterrupt, ProcessDied) as ended:
            return summaries, ended
    return summaries, None


def _playable(work: Sequence[Job], world: ChosenWorld, *, asked_for: bool) -> dict[Job, Scenario]:
    """Return the jobs that this mode can play, with their scenarios.

    Args:
        asked_for: whether the user named the scenarios; if so, an unplayable job ends the command with an error.
    """
    files = {name: load_scenario(name) for name in dict.fromkeys(name for name, _ in work)}
    chosen = {(name, variant): pick_variant(files[name], variant, None) for name, variant in work}
    if asked_for:
        world.must_play(list(chosen.values()))
    return {job: scenario for job, scenario in chosen.items() if not world.limits(scenario)}


def _played_one_by_one(
    scenarios: Iterable[Scenario], world: ChosenWorld, show: Callable[[Summary], None] | None
) -> tuple[list[Summary], BaseException | None]:
    """Play scenarios one at a time, because a real cluster needs the whole machine. Return the same as `_played`."""
    summaries: list[Summary] = []
    try:
        for scenario in scenarios:
            summaries.append(world.play(scenario, None).summary)
            if show is not None:
                show(summaries[-1])
    except KeyboardInterrupt as ended:
        return summaries, ended
    return summaries, None


def _options(variant: str | None) -> list[str]:
    return [] if variant is None else ["--variant", variant]


def _rest(work: Sequence[Job], played: int, options: Sequence[str]) -> str | None:
    """Return the command that plays the scenarios of all jobs after the first `played`; None if there are none."""
    names = list(dict.fromkeys(name for name, _ in work[played:]))
    return shlex.join(["highwater", "test", *options, *names]) if names else None


def _end_early(rest: str | None, ended: BaseException | None) -> None:
    if rest is not None and ended is not None:
        click.echo(f"To play the rest: {rest}", err=True)
        raise ended


def _holds(summary: dict[str, Any]) -> bool:
    return bool(summary["held"]) and not summary["our_bug"]


def _jobs(scenarios: tuple[str, ...]) -> list[Job]:
    from scenarios.language.parse.catalogue import bundled

    work: list[Job] = []
    for name in scenarios or bundled():
        file = load_scenario(name)
        variants = [None, *file.variants]
        warn_of_mistakes(name, file, variants)
        work += [(name, variant) for variant in variants]
    return work


def _run_job(job: Job) -> dict[str, Any]:
    from scenarios.run.runner import run_scenario

    return run_scenario(pick_variant(load_scenario(job[0]), job[1], None), runs_dir=None).summary


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@click.option("--variant", metavar="ID", help="Variant to run; by default the scenario itself and all variants.")
@format_option
@plain_option
def verify(scenario: str, variant: str | None, format_: str, plain: bool) -> int:
    """Run SCENARIO twice, in two processes with different hash seeds, and compare the traces byte by byte."""
    file = load_scenario(scenario)
    variants = [variant or "base"] if variant else ["base", *file.variants]
    for name in variants:
        pick_variant(file, name, None)
    results = []
    with ProgressLine(f"verify {file.scenario.id}") as line:
        runs = 2 * len(variants)
        played = 0

        def show(name: str) -> None:
            nonlocal played
            played += 1
            line.show(played / runs, f"{played} of {runs} runs, {name}")

        for name in variants:
            results.append(_verify(scenario, name, show))
            if format_ == "text":
                with line.aside():
                    click.echo(_verify_line(file.scenario.id, results[-1], style_for_stdout(plain)))
    if format_ == "json":
        print_json({"scenario": file.scenario.id, "runs": results})
    return ExitCode.HELD if all(result["identical"] for result in results) else ExitCode.OUR_BUG


def _verify_line(scenario: str, result: dict[str, Any], style: Style) -> str:
    name = scenario if result["variant"] == "base" else f"{scenario} / {result['variant']}"
    if result["identical"]:
        digest = result["trace_sha256"][:16]
        word = style.paint("identical", "green")
        return f"{word}  {name}: {result['bytes']} bytes in {result['files']} files, sha256 {digest}"
    return f"{style.paint('DIFFERENT', 'red')}  {name}: {', '.join(result['different'])}"


def _verify(scenario: str, variant: str, after_run: Callable[[str], None]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="highwater-") as scratch:
        runs = []
        for hash_seed in ("0", "12345"):
            out = Path(scratch) / hash_seed
            command = [sys.executable, "-m", "scenarios.cli", "run", scenario, "--variant", variant]
            done = subprocess.run(
                [*command, "--out", str(out), "--format", "json"],
                env={**environment(), "PYTHONHASHSEED": hash_seed},
                capture_output=True,
                text=True,
                check=False,
            )
            found = [path for path in out.glob("*/summary.json")]
            if not found:
                fail(f"the run failed: {done.stderr.strip()[-2000:]}", ExitCode.OUR_BUG)
            runs.append(found[0].parent / "trace")
            after_run(variant)
        return _compare(variant, *runs)


def _compare(variant: str, item: Path, other: Path) -> dict[str, Any]:
    from scenarios.observe.trace_writer import trace_sha256

    names = sorted(str(path.relative_to(item)) for path in item.rglob("*") if path.is_file())
    others = sorted(str(path.relative_to(other)) for path in other.rglob("*") if path.is_file())
    different = [name for name in names if name in others and not filecmp.cmp(item / name, other / name, shallow=False)]
    different += sorted(set(names) ^ set(others))
    return {
        "variant": variant,
        "identical": not different,
        "files": len(names),
        "bytes": sum((item / name).stat().st_size for name in names),
        "different": different,
        "trace_sha256": trace_sha256(item),
    }
