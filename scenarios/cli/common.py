"""Shared by the commands: finding and loading a scenario, errors in one style, one way to run."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from replica.trace.columns import TraceError
from scenarios.observe.columns.names import write_json
from scenarios.process.failures import lack_behind
from scenarios.run.runs import RUNS_DIR
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine
from scenarios.terminal.style import Style

if TYPE_CHECKING:
    from replica.trace.events import TraceRow
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.language.spec import Scenario, ScenarioFile
    from scenarios.run.kafka_limits import RealKafka
    from scenarios.run.runner import RunResult
    from scenarios.run.worlds import NewWorld

FORMATS = click.Choice(["text", "json"])
format_option = click.option(
    "--format", "format_", type=FORMATS, default="text", help="One JSON document instead of text."
)
plain_option = click.option("--plain", is_flag=True, help="ASCII only, full words instead of signs.")
open_option = click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
out_option = click.option(
    "--out", type=click.Path(path_type=Path), default=RUNS_DIR, show_default=True, help="Where the runs are kept."
)

SEEDS_MAX = 1_000_000
SENTENCE_CHARACTERS_MAX = 200


class CommandGroup(click.Group):
    """Its help has the first sentence of each command in full, on as many lines as that takes."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            names = self.list_commands(ctx)
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(SENTENCE_CHARACTERS_MAX)) for name in names]
            )


class FileToWrite(click.Path):
    """A link leads to its file. What is no file is refused: a file is replaced as a whole, a device must not be."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if value in ("", "-"):
            self.fail(f"`{value}` is not the name of a file", param, ctx)
        path = Path(os.path.realpath(value)) if Path(value).is_symlink() else Path(value)
        super().convert(str(path), param, ctx)
        if path.exists() and not path.is_file():
            self.fail(f"{path} is a device or a pipe, not a file", param, ctx)
        return path


class SeedRange(click.ParamType):  # type: ignore[type-arg]
    """`7` or `1..500`."""

    name = "A..B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        found = re.fullmatch(r"(\d{1,12})(?:\.\.(\d{1,12}))?", str(value), re.ASCII)
        if found is None:
            self.fail(f"`{value}` is neither a seed nor a range such as 1..500", param, ctx)
        first = int(found[1])
        last = int(found[2] or first)
        if not 0 <= last - first < SEEDS_MAX:
            self.fail(f"`{value}`: from the smaller to the larger, at most {SEEDS_MAX:,} seeds", param, ctx)
        return range(first, last + 1)


class TimeSpan(click.ParamType):  # type: ignore[type-arg]
    """`500ms`, `1s`, `5m` or `1h`."""

    name = "TIME"

    def __init__(self, least_s: float, most_s: float) -> None:
        self._least_s, self._most_s = least_s, most_s

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from scenarios.language.values.reading import parse_time

        found = parse_time(str(value), hours=True)
        if found is None:
            self.fail(f"`{value}` is no time: write it as 500ms, 1s, 5m or 1h", param, ctx)
        seconds = found[0] / 1_000_000
        if not self._least_s <= seconds <= self._most_s:
            self.fail(f"`{value}`: from {self._least_s:g} s to {self._most_s:,.0f} s", param, ctx)
        return seconds


def style_for_stdout(plain: bool) -> Style:
    return Style.of(sys.stdout, os.environ, plain=plain)


def fail(message: str, code: ExitCode, fix: str | None = None) -> NoReturn:
    """One clear error on stderr, then the exit code. If memory or descriptors ran out, it says
    that instead of what could not be done for it."""
    if (lack := lack_behind(sys.exception())) is not None:
        message, code, fix = lack.what, ExitCode.MISSING, lack.fix
    click.echo(f"error: {message}", err=True)
    if fix is not None:
        click.echo(f"  = fix: {fix}", err=True)
    raise click.exceptions.Exit(int(code))


def must_hold_files(folder: Path, option: str = "--out") -> None:
    """Ends the command, before it has begun, if no file can be written to `folder`, which need not be there yet.

    option: the one that named it
    """
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists() or place.is_symlink())
    why = None
    if not there.is_dir():
        why = f"{there} is no folder"
    else:
        try:
            tempfile.TemporaryFile(dir=there).close()  # Permissions are not enough: root has them in /proc, too.
        except OSError as error:
            why = f"{there} takes no files ({error.strerror})"
    if why is not None:
        fail(f"{folder} cannot be written to: {why}", ExitCode.MISSING, f"choose another place with {option} DIR")


NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES})


@contextmanager
def must_be_written(path: Path, fix: str = "make room, or choose another place") -> Iterator[None]:
    """A full disk, or another reason why `path` cannot be written, ends the command clearly."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror or error}", ExitCode.MISSING, fix)


@contextmanager
def must_have_room(path: Path, fix: str) -> Iterator[None]:
    """Around work that does more than write below `path`: a port that is taken is no lack of room."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        fail(f"{path} cannot be written: {error.strerror or error}", ExitCode.MISSING, fix)


def print_json(document: Any) -> None:
    write_json(document, sys.stdout)
    sys.stdout.flush()


def open_page(page: Path) -> None:
    """In the user's browser; where there is none, the address is all there is."""
    import webbrowser

    address = page.resolve().as_uri()
    if not webbrowser.open(address):
        click.echo(f"no browser was found: open {address}", err=True)


_RUN_AGAIN = "make the run again: highwater run SCENARIO"


@contextmanager
def usable_runs(fix: str = _RUN_AGAIN) -> Iterator[None]:
    """A run that is not there, or whose summary or trace cannot be read, ends the command clearly.

    fix: for a trace that cannot be read
    """
    from scenarios.run.runs import RunNotFound

    try:
        yield
    except RunNotFound as missing:
        fail(str(missing), ExitCode.USAGE)
    except (TraceError, OSError) as error:
        fail(f"the trace cannot be read: {error}", ExitCode.USAGE, fix)


@contextmanager
def usable_traces() -> Iterator[None]:
    """The same for traces alone, where an OSError may be one of what is written."""
    try:
        yield
    except TraceError as error:
        fail(f"the trace cannot be read: {error}", ExitCode.USAGE, _RUN_AGAIN)


def trace_of(run_dir: Path, summary: Mapping[str, Any]) -> list[TraceRow]:
    """The events of a run, after a look whether they are still those of its summary. raises: TraceError, OSError"""
    from scenarios.observe.trace_writer import check_trace, read_rows

    check_trace(run_dir / "trace", summary.get("trace_sha256"))
    return list(read_rows(run_dir / "trace"))


def load_scenario(name: str, overrides: Sequence[str] = (), only: str | None = None) -> ScenarioFile:
    """A bundled scenario by id or a file by path; every error is printed, and ends the command with exit code 3.

    only: `base` or a variant's id, if the overrides are for this one alone
    """
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.language.parse.catalogue import UnknownScenario, find_scenario
    from scenarios.language.parse.loading import load_file

    try:
        return load_file(find_scenario(name), overrides, only)
    except UnknownScenario as unknown:
        fail(str(unknown), ExitCode.INVALID_SCENARIO)
    except ScenarioInvalid as invalid:
        fail_invalid(invalid)


WARNINGS_SHOWN_MAX = 5


def warn_of_mistakes(name: str, file: ScenarioFile, variants: Sequence[str | None]) -> None:
    """On stderr, before these variants are played: what a reader of the file would ask about.

    The bundled scenarios mean what they say: of one of them, only what `--set` has made of it.
    """
    from scenarios.language.diagnostics import MISTAKES, render_briefly
    from scenarios.language.parse.catalogue import LIBRARY, find_scenario
    from scenarios.language.parse.loading import load_file

    played = {variant or "base" for variant in variants}
    found = [one for one in file.warnings if one.code in MISTAKES and not played.isdisjoint(one.variants)]
    path = find_scenario(name)
    if found and path.resolve().parent == LIBRARY.resolve():
        as_written = [(one.code, one.title) for one in load_file(path).warnings]
        found = [one for one in found if (one.code, one.title) not in as_written]
    for one in found[:WARNINGS_SHOWN_MAX]:
        click.echo(render_briefly(one), err=True)
    if len(found) > WARNINGS_SHOWN_MAX:
        click.echo(f"... and {len(found) - WARNINGS_SHOWN_MAX} more: highwater check {shlex.quote(name)}", err=True)
    if found:
        click.echo(err=True)


def fail_invalid(invalid: ScenarioInvalid) -> NoReturn:
    """Every error on stderr, with its place and fix."""
    from scenarios.language.diagnostics import format_text

    click.echo(format_text(invalid.file, invalid.diagnostics), err=True)
    raise click.exceptions.Exit(int(ExitCode.INVALID_SCENARIO))


def pick_variant(file: ScenarioFile, variant: str | None, seed: int | None) -> Scenario:
    """The scenario itself (`base`), or one of its variants; with another seed if one is given."""
    from dataclasses import replace

    from scenarios.language.diagnostics import did_you_mean

    if variant in (None, "base"):
        scenario = file.scenario
    elif variant in file.variants:
        scenario = file.variants[variant]
    else:
        close = did_you_mean(str(variant), file.variants)
        hint = f"did you mean `{close}`? " if close else ""
        known = ", ".join(file.variants) or "none"
        raise click.UsageError(f"{file.scenario.id} has no variant `{variant}`: {hint}it has {known}")
    return scenario if seed is None else replace(scenario, seed=seed)


def execute(
    scenario: Scenario,
    runs_dir: Path | None,
    *,
    keep_logs: bool = True,
    world: NewWorld | None = None,
    real: RealKafka | None = None,
) -> RunResult:
    """Run with progress; a folder that cannot be written or a step that cannot be done ends the command clearly."""
    from scenarios.run.cluster_under_test import NotPossibleNow
    from scenarios.run.runner import run_scenario
    from scenarios.run.worlds import simulated

    try:
        with ProgressLine(scenario.run_name) as line:

            def progress(now_us: int, until_us: int, events: int) -> None:
                if now_us < 0:  # A cluster of JVMs takes its time.
                    line.show(0.0, "the cluster starts")
                    return
                kind = " virtual" if world is None else ""
                so_far = f"{now_us / 1e6:.1f} s of {until_us / 1e6:.0f} s{kind}, {events} events"
                line.show(now_us / until_us if until_us else 1.0, so_far)

            return run_scenario(
                scenario, runs_dir=runs_dir, world=world or simulated, keep_logs=keep_logs, progress=progress, real=real
            )
    except OSError as error:
        place = error.filename or runs_dir or "the temporary directory"
        fail(
            f"the run cannot be written to {place}: {error.strerror or error}; nothing was kept",
            ExitCode.MISSING,
            "make room or choose another place with --out DIR",
        )
    except NotPossibleNow as error:
        fail(f"{scenario.run_name}: {error}", ExitCode.EXPECTATION_FAILED)


def exit_code_of(results: Sequence[RunResult], fail_on: Sequence[str] = ()) -> ExitCode:
    """Our bug first, then failed expectations and forbidden outcomes."""
    if any(result.broke_an_invariant for result in results):
        return ExitCode.OUR_BUG
    if any(not result.held for result in results):
        return ExitCode.EXPECTATION_FAILED
    if any(
        kind in result.verdict.kinds or (kind == "any" and result.verdict.kinds)
        for result in results
        for kind in fail_on
    ):
        return ExitCode.EXPECTATION_FAILED
    return ExitCode.HELD
