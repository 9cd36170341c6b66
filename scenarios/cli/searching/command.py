"""`highwater search`: plays random fault schedules by the rules of an era, and reports the promises they break."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import click

from replica.rules import DEFAULT_PROFILE, PROFILES
from scenarios.cli.common import SeedRange, format_option, must_hold_files, print_json
from scenarios.cli.searching.course import OUT, Asked, LocalPlayer, NewPlayer, Searched, fail_to_keep, searched
from scenarios.cli.spark import Master, conf_option
from scenarios.observe.wording import count_of
from scenarios.process.work_folders import write_whole
from scenarios.search.document import Kept, document_of
from scenarios.search.findings import FindingCause
from scenarios.search.search import FindingKind, Found
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.style import folded

_LIMIT_HELP = "With --master: time limit for each run, in seconds."
WIDTH = 100


@click.command()
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    metavar="ERA",
    default=DEFAULT_PROFILE,
    show_default=True,
    help="Era of Kafka whose rules apply.",
)
@click.option("--seeds", type=SeedRange(), default="1..100", show_default=True, help="Seeds of the schedules.")
@click.option("--safe", is_flag=True, help="Use only settings that promise no anomaly: acks=all, min ISR 2.")
@click.option("--swarm", is_flag=True, help="Draw a new mix of cluster, clients and faults every 16 seeds.")
@click.option("--first", is_flag=True, help="Stop at the first seed that breaks something.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=OUT,
    show_default=True,
    help="Folder for the schedules that broke something.",
)
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes to use; by default one per core.")
@click.option(
    "--master", type=Master(), help="Play on Spark (local[N] or spark://host:port), and keep the rows in --out."
)
@conf_option
@click.option("--resume", is_flag=True, help="With --master: resume the search in --out.")
@click.option("--time-limit", type=click.FloatRange(0.1), default=60.0, show_default=True, help=_LIMIT_HELP)
@format_option
def search(
    profile: str,
    seeds: range,
    safe: bool,
    swarm: bool,
    first: bool,
    out: Path,
    jobs: int | None,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    resume: bool,
    time_limit: float,
    format_: str,
) -> int:
    """Play random fault schedules, and report what they break: invariants and, with --safe, promises to producers.

    Each kind of finding is reported once, with the first seed that showed it, and that schedule is kept, shrunk to the
    steps it needs. With --master, a Spark job plays and shrinks, the smallest schedule of each kind is kept, and
    --resume plays the missing runs after an interruption. The exit code is 4 if a promise of the era broke. After
    Ctrl-C, or if a process is killed, the findings so far are kept and reported.

    search.html in --out shows the findings, run by run.
    """
    must_hold_files(out)
    began = time.perf_counter()
    asked = Asked(profile, seeds, safe, swarm, first, out)
    result = searched(asked, _player(asked, jobs, master, dict(conf), resume=resume, time_limit=time_limit))
    played, found, kinds, kept, ended = result
    page = _write_page(asked, result, None if resume else time.perf_counter() - began) if played else None
    rest = None
    if ended is not None and played < len(seeds):
        rest = asked.command(range(seeds.start + played, seeds.stop)) if master is None else asked.on_spark(master)
    if format_ == "json":
        document = {
            "profile": profile,
            "swarm": asked.swarm,
            "played": played,
            "interrupted": ended is not None,
            "rest": rest,
            "found": [item.as_json() for item in found],
            "kinds": [{**kind.as_json(), "file": kept[kind.first.seed].file} for kind in kinds],
            "files": [item.file for item in kept.values()],
            "not_shrunk": [item.file for item in kept.values() if not item.shrunk],
            "page": None if page is None else str(page),
        }
        print_json(document)
    else:
        _print(kinds, kept, asked)
        of = f" of {len(seeds)}" if rest else ""
        schedules = "safe schedules" if safe else "schedules"
        click.echo(f"\n{profile}: {played:,}{of} {schedules} played; {_outcome(found, kinds, profile)}")
        if page is not None:
            click.echo(f"page: {page}")
    if ended is not None:
        if rest:
            click.echo(f"To play the rest: {rest}", err=True)
        raise ended
    return ExitCode.OUR_BUG if any(kind.our_bug for kind in kinds) else ExitCode.HELD


def _player(
    asked: Asked, jobs: int | None, master: str | None, conf: Mapping[str, str], *, resume: bool, time_limit: float
) -> NewPlayer:
    if master is None:
        return lambda tick: nullcontext(LocalPlayer(jobs or os.cpu_count() or 1))
    from scenarios.cli.searching.spark_player import spark_search

    return lambda tick: spark_search(asked, master, conf, tick, resume=resume, time_limit=time_limit)


def _outcome(found: Sequence[Found], kinds: Sequence[FindingKind], era: str) -> str:
    """Return text that counts the runs with findings by cause. A run with several causes counts for each cause."""
    parts = []
    for cause, what in (
        (FindingCause.BUG, "a bug in Highwater"),
        (FindingCause.ERA, f"a failure that {era} allows"),
        (FindingCause.NO_RELEASE, "a failure that every release of Kafka allows"),
    ):
        runs = sum(any(finding.cause is cause for finding in item.findings) for item in found)
        if runs:
            names = dict.fromkeys(kind.kind for kind in kinds if kind.cause is cause)
            parts.append(f"{count_of(runs, 'run')} {'shows' if runs == 1 else 'show'} {what} ({', '.join(names)})")
    return ", ".join(parts) or "nothing broke"


_CAUSES = {
    FindingCause.BUG: ", a bug in Highwater",
    FindingCause.ERA: "",
    FindingCause.NO_RELEASE: ", a failure that every release of Kafka allows",
}


def _print(kinds: list[FindingKind], kept: dict[int, Kept], asked: Asked) -> None:
    for kind in kinds:
        seed = kind.first.seed
        seeds = f"seed {kind.seeds[0]}"
        if len(kind.seeds) > 1:
            seeds = f"{len(kind.seeds)} seeds, the first {seed}"
        click.echo(f"  {kind.kind}: {seeds}{_CAUSES[kind.cause]}")
        indent = "    "
        for line in folded(kind.sentence, WIDTH, indent, indent):
            click.echo(line)
        click.echo(f"    {kind.first.schedule.settings}")
        click.echo(f"    highwater run {kept[seed].file}")
        if not kept[seed].shrunk:
            click.echo(f"    (not shrunk yet; to shrink it: {asked.command(range(seed, seed + 1))})")


def _write_page(asked: Asked, result: Searched, seconds: float | None) -> Path:
    """Write the result of a search as a page and as JSON.

    Args:
        seconds: duration of the search; None for a resumed search, which played only a part.
    """
    from spark_reports.search.page import render

    played = result.played
    document = document_of(asked.in_words, asked.seeds, played, result.found, result.kinds, result.kept)
    pace = (
        "" if seconds is None else f"{played:,} schedules in {seconds:,.0f} s, {played / seconds * 3600:,.0f} per hour."
    )
    page = asked.out / "search.html"
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        write_whole(asked.data_file, json.dumps(document, ensure_ascii=False) + "\n")
        write_whole(page, render(document, pace))
    except OSError as error:
        fail_to_keep(asked, error)
    return page
