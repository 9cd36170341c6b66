"""`highwater search`: random fault schedules in an era, until something breaks."""

from __future__ import annotations

import os
import shlex
import textwrap
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import click

from replica.rules import PROFILES
from scenarios.cli.common import SeedRange, fail, format_option, must_hold_files, print_json
from scenarios.language.spec import PROFILE
from scenarios.process.failures import ProcessDied
from scenarios.process.pool import in_order
from scenarios.process.whole_files import write_whole
from scenarios.search.guided import generations
from scenarios.search.search import FindingKind, Found, SeedJob, by_kind, play_seed, shrink
from scenarios.terminal.exit_codes import ExitCode
from scenarios.terminal.progress import ProgressLine

WIDTH = 100
OUT = Path("search")


@click.command()
@click.option("--profile", type=click.Choice(list(PROFILES)), default=PROFILE, show_default=True, help="The era.")
@click.option("--seeds", type=SeedRange(), default="1..100", show_default=True, help="Seeds to try.")
@click.option("--safe", is_flag=True, help="Only settings that promise a clean verdict: acks=all, min ISR 2.")
@click.option("--swarm", is_flag=True, help="Every 16 seeds draw their own mix of cluster, clients and faults.")
@click.option(
    "--guided/--blind",
    default=False,
    show_default=True,
    help="Change schedules that reached something new; with --swarm.",
)
@click.option("--first", is_flag=True, help="Stop at the first seed that breaks something.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Where found schedules are kept.")
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes to use; by default one per core.")
@format_option
def search(
    profile: str,
    seeds: range,
    safe: bool,
    swarm: bool,
    guided: bool,
    first: bool,
    out: Path,
    jobs: int | None,
    format_: str,
) -> int:
    """Play random fault schedules; say what they break: invariants and, with safe settings, promises to producers.

    Each kind of finding is reported once, with the first seed that showed it; that schedule is kept, shrunk to the
    steps it needs. A guided search learns from the runs before: the same seeds give the same findings, but a seed alone
    is no schedule. Exit code 4 if anything broke that the era promises. After Ctrl-C, or when a process is killed,
    findings so far are kept and reported.
    """
    must_hold_files(out)
    asked = _Asked(profile, seeds, safe, swarm or guided, guided, first, out)
    played, covered, found, ended = _play(asked, jobs or os.cpu_count() or 1)
    kinds = by_kind(found)
    kept, all_shrunk = _keep(list(dict.fromkeys(kind.first for kind in kinds)), asked, shrinking=ended is None)
    interrupted = ended is not None or not all_shrunk
    rest = asked.command(range(seeds.start + played, seeds.stop)) if interrupted and played < len(seeds) else None
    if format_ == "json":
        document = {
            "profile": profile,
            "swarm": asked.swarm,
            "guided": guided,
            "played": played,
            "covered": covered,
            "interrupted": interrupted,
            "rest": rest,
            "found": [one.as_json() for one in found],
            "kinds": [{**kind.as_json(), "file": str(kept[kind.first.seed].path)} for kind in kinds],
            "files": [str(one.path) for one in kept.values()],
            "not_shrunk": [str(one.path) for one in kept.values() if not one.shrunk],
        }
        print_json(document)
    else:
        _print(kinds, kept, asked)
        of = f" of {len(seeds)}" if rest else ""
        schedules = "safe schedules" if safe else "schedules"
        click.echo(
            f"\n{profile}: {played}{of} {schedules} played, {len(found)} of them broke something; "
            f"{covered:,} states and branches covered"
        )
    if interrupted:
        if rest:
            click.echo(f"the rest: {rest}", err=True)
        raise ended or KeyboardInterrupt
    return ExitCode.OUR_BUG if any(kind.our_bug for kind in kinds) else ExitCode.HELD


class _Asked(NamedTuple):
    """The options of the command."""

    profile: str
    seeds: range
    safe: bool
    swarm: bool
    guided: bool
    first: bool
    out: Path

    def job(self, seed: int) -> SeedJob:
        return SeedJob(seed, self.profile, self.safe, self.swarm)

    def command(self, seeds: range) -> str:
        """The same, for others of its seeds."""
        some = f"{seeds.start}" if len(seeds) == 1 else f"{seeds.start}..{seeds.stop - 1}"
        words = ["highwater", "search", "--profile", self.profile, "--seeds", some]
        words += ["--safe"] * self.safe + ["--first"] * self.first
        words += ["--guided"] if self.guided else ["--swarm"] * self.swarm
        return shlex.join([*words, *(["--out", str(self.out)] if self.out != OUT else [])])


class _Kept(NamedTuple):
    """The file of a schedule. shrunk: to the steps it needs"""

    path: Path
    shrunk: bool


def _play(asked: _Asked, processes: int) -> tuple[int, int, list[Found], BaseException | None]:
    """How many seeds were played, from the first without a gap; how much they covered; the findings; Ctrl-C, or another
    cause of the end."""

    def play(jobs: Sequence[SeedJob]) -> Generator[Found, None, None]:
        return in_order(play_seed, jobs, processes)

    work = [asked.job(seed) for seed in asked.seeds]
    found: list[Found] = []
    covered: dict[str, None] = {}
    played = 0
    coming = generations(work, play) if asked.guided else play(work)
    with ProgressLine(f"search {asked.profile}") as line, closing(coming) as outcomes:
        try:
            for outcome in outcomes:
                played += 1
                covered.update(dict.fromkeys(outcome.reached))
                if not outcome.clean:
                    found.append(outcome)
                line.show(played / len(work), f"{played} of {len(work)} seeds, {len(found)} found")
                if found and asked.first:
                    break
        except (KeyboardInterrupt, ProcessDied) as ended:
            return played, len(covered), found, ended
    return played, len(covered), found, None


def _print(kinds: list[FindingKind], kept: dict[int, _Kept], asked: _Asked) -> None:
    for kind in kinds:
        seed = kind.first.seed
        seeds = f"seed {kind.seeds[0]}"
        if len(kind.seeds) > 1:
            seeds = f"{len(kind.seeds)} seeds, the first {seed}"
        click.echo(f"  {kind.kind}: {seeds}{', our bug' if kind.our_bug else ''}")
        indent = "    "
        for line in textwrap.wrap(kind.sentence, WIDTH, initial_indent=indent, subsequent_indent=indent):
            click.echo(line)
        click.echo(f"    {kind.first.schedule.settings}")
        click.echo(f"    highwater run {kept[seed].path}")
        if not kept[seed].shrunk:
            # A guided search made it out of others: its seed alone does not make it again.
            again = "" if asked.guided else f" yet: {asked.command(range(seed, seed + 1))}"
            click.echo(f"    (not shrunk{again})")


def _keep(found: list[Found], asked: _Asked, *, shrinking: bool) -> tuple[dict[int, _Kept], bool]:
    """Files by seed; whether all are shrunk. From a Ctrl-C on they are kept as they are."""
    kept = {}
    try:
        with ProgressLine(f"shrink {asked.profile}") as line:
            for number, one in enumerate(found):
                text = one.text
                schedule = one.schedule
                try:
                    for smaller in shrink(schedule, one.kinds) if shrinking else ():
                        text = smaller.text
                        steps = len(smaller.tree["timeline"])
                        gone = 1 - steps / len(schedule.tree["timeline"])
                        line.show((number + gone) / len(found), f"seed {one.seed}: {steps} steps")
                except KeyboardInterrupt:
                    shrinking = False
                asked.out.mkdir(parents=True, exist_ok=True)
                path = asked.out / f"{asked.profile}-{one.seed}.yaml"
                write_whole(path, text)
                kept[one.seed] = _Kept(path, shrinking)
    except OSError as error:
        fail(
            f"the schedules cannot be kept in {asked.out}: {error.strerror or error}",
            ExitCode.MISSING,
            "make room or choose another place with --out DIR",
        )
    return kept, shrinking
