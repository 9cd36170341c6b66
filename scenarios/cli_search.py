"""`highwater search`: random fault schedules in an era, until something breaks."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click

from replica.rules import PROFILES
from scenarios.cli.common import SeedRange, fail, format_option, print_json
from scenarios.language.spec import PROFILE
from scenarios.search.search import Found, Kind, SeedJob, by_kind, play_seed, schedule_of, shrink
from scenarios.terminal.exit_codes import ExitCode
from scenarios.terminal.progress import ProgressLine

WIDTH = 100


@click.command()
@click.option("--profile", type=click.Choice(list(PROFILES)), default=PROFILE, show_default=True, help="The era.")
@click.option("--seeds", type=SeedRange(), default="1..100", show_default=True, help="Seeds to try.")
@click.option("--safe", is_flag=True, help="Only settings that promise a clean verdict: acks=all, min ISR 2.")
@click.option("--first", is_flag=True, help="Stop at the first seed that breaks something.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("search"), help="Where found schedules are kept.")
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes to use; by default one per core.")
@format_option
def search(profile: str, seeds: range, safe: bool, first: bool, out: Path, jobs: int | None, format_: str) -> int:
    """Play random fault schedules; say what they break: invariants and, with safe settings, promises to producers.

    Each kind of finding is told once, with the first seed that showed it; that schedule is kept, shrunk to the steps it
    needs. Exit code 4 if anything broke that the era promises.
    """
    work = [SeedJob(seed, profile, safe) for seed in seeds]
    found: list[Found] = []
    played = 0
    with ProgressLine(f"search {profile}") as line:
        for outcome in _outcomes(work, jobs or os.cpu_count() or 1):
            played += 1
            line.show(played / len(work), f"{played} of {len(work)} seeds, {len(found)} found")
            if not outcome.clean:
                found.append(outcome)
                if first:
                    break
    kinds = by_kind(found)
    files = _keep(list(dict.fromkeys(kind.first for kind in kinds)), profile, safe, out)
    if format_ == "json":
        document = {
            "profile": profile,
            "played": played,
            "found": [one.as_json() for one in found],
            "kinds": [{**kind.as_json(), "file": files[kind.first.seed]} for kind in kinds],
            "files": list(files.values()),
        }
        print_json(document)
    else:
        _print(kinds, files)
        schedules = "safe schedules" if safe else "schedules"
        click.echo(f"\n{profile}: {played} {schedules} played, {len(found)} of them broke something")
    return ExitCode.OUR_BUG if any(kind.our_bug for kind in kinds) else ExitCode.HELD


def _print(kinds: list[Kind], files: dict[int, str]) -> None:
    for kind in kinds:
        seeds = f"seed {kind.seeds[0]}"
        if len(kind.seeds) > 1:
            seeds = f"{len(kind.seeds)} seeds, the first {kind.first.seed}"
        click.echo(f"  {kind.kind}: {seeds}{', our bug' if kind.our_bug else ''}")
        indent = "    "
        for line in textwrap.wrap(kind.sentence, WIDTH, initial_indent=indent, subsequent_indent=indent):
            click.echo(line)
        click.echo(f"    highwater run {files[kind.first.seed]}")


def _outcomes(work: list[SeedJob], processes: int) -> Iterator[Found]:
    if processes == 1 or len(work) == 1:
        yield from map(play_seed, work)
        return
    with ProcessPoolExecutor(processes) as pool:
        # In small portions, so that stopping early does not wait for seeds nobody asked for.
        for begin in range(0, len(work), processes * 4):
            yield from pool.map(play_seed, work[begin : begin + processes * 4])


def _keep(found: list[Found], profile: str, safe: bool, out: Path) -> dict[int, str]:
    """Seed: file, each shrunk."""
    files = {}
    try:
        with ProgressLine(f"shrink {profile}") as line:
            for number, one in enumerate(found):
                text = one.text
                for smaller in shrink(schedule_of(SeedJob(one.seed, profile, safe)), one.kinds):
                    text = smaller.text
                    line.show(number / len(found), f"seed {one.seed}: {len(smaller.tree['timeline'])} steps")
                out.mkdir(parents=True, exist_ok=True)
                path = out / f"{profile}-{one.seed}.yaml"
                path.write_text(text, encoding="utf-8")
                files[one.seed] = str(path)
    except OSError as error:
        fail(
            f"the schedules cannot be kept in {out}: {error.strerror or error}",
            ExitCode.MISSING,
            "make room or choose another place with --out DIR",
        )
    return files
