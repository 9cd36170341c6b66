"""Functions shared by the commands: common options, loading scenarios, reporting errors, and running a scenario."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from replica.trace.columns import TraceError
from replica.trace.ranges import format_record_names
from scenarios.observe.wording import count_of
from scenarios.process.failures import lack_behind
from scenarios.run.runs import RUNS_DIR
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine
from scenarios.terminal.style import Style

if TYPE_CHECKING:
    from replica.trace.events import TraceRow
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.language.spec import Scenario, ScenarioFile
    from scenarios.metrics.exposition import MetricsServer
    from scenarios.run.kafka_limits import RealKafka
    from scenarios.run.runner import RunResult
    from scenarios.run.worlds import NewWorld

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def formats(words: str, *more: str) -> Callable[[Decorated], Decorated]:
    """Return the option `--format` with the help `words`, for text, json and `more` formats."""
    return click.option("--format", "format_", type=click.Choice(["text", "json", *more]), default="text", help=words)


format_option = formats("Output format: text (the default) or one JSON document.")
results_format_option = formats("Output format: text (the default), one JSON document, or JUnit XML.", "junit")
records_option = click.option(
    "--records", "names_records", is_flag=True, help="In JSON, list every record by name instead of ranges."
)
plain_option = click.option("--plain", is_flag=True, help="Use only ASCII, with words instead of symbols.")
open_option = click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
metrics_option = click.option(
    "--metrics", "metrics_port", type=click.IntRange(0, 65_535), metavar="PORT",
    help="Serve Prometheus metrics at http://127.0.0.1:PORT/metrics; 0 chooses a free port.",
)  # fmt: skip
out_option = click.option(
    "--out", type=click.Path(path_type=Path), default=RUNS_DIR, show_default=True, help="Folder that keeps the runs."
)

SEEDS_MAX = 1_000_000
SENTENCE_CHARACTERS_MAX = 200


class CommandGroup(click.Group):
    """A group of commands whose help shows the first sentence of each command in full, on several lines if needed."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            names = self.list_commands(ctx)
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(SENTENCE_CHARACTERS_MAX)) for name in names]
            )


class FileToWrite(click.Path):
    """A parameter that names a file to write; symbolic links are followed.

    Devices and pipes are refused, because the file at this path is replaced and not written in place.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if value in ("", "-"):
            self.fail(f"`{value}` is not a file name", param, ctx)
        path = Path(os.path.realpath(value)) if Path(value).is_symlink() else Path(value)
        super().convert(str(path), param, ctx)
        if path.exists() and not path.is_file():
            self.fail(f"{path} is a device or a pipe, not a file", param, ctx)
        return path


class SeedRange(click.ParamType):  # type: ignore[type-arg]
    """A parameter that is a seed, such as `7`, or a range of seeds, such as `1..500`."""

    name = "A..B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        match = re.fullmatch(r"(\d{1,12})(?:\.\.(\d{1,12}))?", str(value), re.ASCII)
        if match is None:
            self.fail(f"`{value}` is neither a seed nor a range such as 1..500", param, ctx)
        first = int(match[1])
        last = int(match[2] or first)
        if not 0 <= last - first < SEEDS_MAX:
            self.fail(f"`{value}` must begin with its smallest seed and have at most {SEEDS_MAX:,} seeds", param, ctx)
        return range(first, last + 1)


class TimeSpan(click.ParamType):  # type: ignore[type-arg]
    """A parameter that is a duration, such as `500ms`, `1s`, `5m` or `1h`; the value is in seconds."""

    name = "TIME"

    def __init__(self, least_s: float, most_s: float) -> None:
        self._least_s, self._most_s = least_s, most_s

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from scenarios.language.values.reading import parse_time

        found = parse_time(str(value), hours=True)
        if found is None:
            self.fail(f"`{value}` is not a time; write, for example, 500ms, 1s, 5m or 1h", param, ctx)
        seconds = found[0] / 1_000_000
        if not self._least_s <= seconds <= self._most_s:
            self.fail(f"`{value}` is not between {self._least_s:g} s and {self._most_s:,.0f} s", param, ctx)
        return seconds


def style_for_stdout(plain: bool) -> Style:
    return Style.of(sys.stdout, os.environ, plain=plain)


def fail(message: str, code: ExitCode, fix: str | None = None) -> NoReturn:
    """Print an error and its fix on stderr, and end the command with an exit code.

    If the cause is a lack of memory or file descriptors, print that instead of `message`.
    """
    if (lack := lack_behind(sys.exception())) is not None:
        message, code, fix = lack.what, ExitCode.MISSING, lack.fix
    click.echo(f"error: {message}", err=True)
    if fix is not None:
        click.echo(f"  = fix: {fix}", err=True)
    raise click.exceptions.Exit(int(code))


def must_hold_files(folder: Path, option: str = "--out") -> None:
    """End the command with an error if no file can be created in `folder`, or in its nearest existing parent.

    Args:
        option: the command-line option that named the folder.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists() or path.is_symlink())
    why = None
    if not there.is_dir():
        why = f"{there} is not a folder"
    else:
        try:
            # Looking at permissions is not enough: root has them in /proc, too, where no file can be created.
            tempfile.TemporaryFile(dir=there).close()
        except OSError as error:
            why = f"no file can be created in {there} ({error.strerror})"
    if why is not None:
        fail(f"{folder} cannot be written to: {why}", ExitCode.MISSING, f"choose another folder with {option} DIR")


NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES})


@contextmanager
def must_be_written(path: Path, fix: str = "free some disk space, or choose another folder") -> Iterator[None]:
    """End the command with an error if the block fails to write `path`. A FileExistsError passes through."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror or error}", ExitCode.MISSING, fix)


@contextmanager
def must_have_room(path: Path, fix: str) -> Iterator[None]:
    """End the command with an error if the block lacks space or permission to write below `path`.

    Other errors pass through: for example, a port in use must not be reported as a full disk.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        fail(f"{path} cannot be written: {error.strerror or error}", ExitCode.MISSING, fix)


@contextmanager
def metrics_server(port: int | None) -> Iterator[MetricsServer | None]:
    """Run the server of `--metrics` during the block; None without the option."""
    if port is None:
        yield None
        return
    from scenarios.metrics.exposition import MetricsServer

    try:
        server = MetricsServer(port)
    except OSError as error:
        why = f"port {port} of --metrics cannot be used: {error.strerror}"
        fail(why, ExitCode.MISSING, "choose another port, or --metrics 0 for any free port")
    try:
        yield server
    finally:
        server.close()


def print_json(document: Any) -> None:
    from scenarios.observe.columns.names import write_json  # This loads numpy, which most commands do not need.

    write_json(document, sys.stdout)
    sys.stdout.flush()


def summary_in_json(summary: Mapping[str, Any], *, names_records: bool) -> Mapping[str, Any]:
    """Return a run's summary as `--format json` prints it: lists of records and offsets become counts and ranges.

    Args:
        names_records: keep the full lists instead.
    """
    if names_records:
        return summary
    records = {kind: found if kind == "sent" else _in_ranges(found) for kind, found in summary["records"].items()}
    anomalies = [
        {**item, "records": _in_ranges(item["records"]), "offsets": _in_ranges(list(map(str, item["offsets"])))}
        for item in summary["anomalies"]
    ]
    logs = {partition: _in_ranges(names) for partition, names in summary["logs"].items()}
    return {**summary, "records": records, "anomalies": anomalies, "logs": logs}


def _in_ranges(names: Sequence[str]) -> dict[str, Any]:
    return {"count": len(names), "ranges": format_record_names(names).split(", ") if names else []}


def open_page(page: Path | str) -> None:
    """Open a file or an address in the user's browser; print the address if there is no browser."""
    import webbrowser

    address = page if isinstance(page, str) else page.resolve().as_uri()
    if not webbrowser.open(address):
        click.echo(f"No browser was found. Open this page yourself: {address}", err=True)


_RUN_AGAIN = "run the scenario again: highwater run SCENARIO"


@contextmanager
def usable_runs(fix: str = _RUN_AGAIN) -> Iterator[None]:
    """End the command with an error if the block finds a run missing, or cannot read its summary or trace.

    Args:
        fix: advice to print if the trace cannot be read.
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
    """End the command with an error if the block raises TraceError. OSErrors may be about output and pass through."""
    try:
        yield
    except TraceError as error:
        fail(f"the trace cannot be read: {error}", ExitCode.USAGE, _RUN_AGAIN)


def trace_of(run_dir: Path, summary: Mapping[str, Any]) -> list[TraceRow]:
    """Return the events of a run after comparing the trace with the checksum in the summary.

    Raises:
        TraceError: the trace was changed or is damaged.
        OSError: the trace cannot be read.
    """
    from scenarios.observe.trace_writer import check_trace, read_rows

    check_trace(run_dir / "trace", summary.get("trace_sha256"))
    return list(read_rows(run_dir / "trace"))


def load_scenario(name: str, overrides: Sequence[str] = (), only: str | None = None) -> ScenarioFile:
    """Load a bundled scenario by its id, or a file by its path. If it is invalid, print all errors and exit with 3.

    Args:
        overrides: changes in the form PATH=VALUE.
        only: `base` or the id of the variant that the overrides apply to; None to apply them to all.
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
    """Print warnings about probable mistakes in the variants that are about to be played, on stderr.

    For a bundled scenario, print only warnings caused by `--set`, because the file itself is as intended.
    """
    from scenarios.language.diagnostics import MISTAKES, render_briefly
    from scenarios.language.parse.catalogue import LIBRARY, find_scenario
    from scenarios.language.parse.loading import load_file

    played = {variant or "base" for variant in variants}
    found = [
        warning for warning in file.warnings if warning.code in MISTAKES and not played.isdisjoint(warning.variants)
    ]
    path = find_scenario(name)
    if found and path.resolve().parent == LIBRARY.resolve():
        as_written = [(warning.code, warning.title) for warning in load_file(path).warnings]
        found = [item for item in found if (item.code, item.title) not in as_written]
    for item in found[:WARNINGS_SHOWN_MAX]:
        click.echo(render_briefly(item), err=True)
    if len(found) > WARNINGS_SHOWN_MAX:
        more = count_of(len(found) - WARNINGS_SHOWN_MAX, "more warning")
        click.echo(f"... and {more}; to see them: highwater check {shlex.quote(name)}", err=True)
    if found:
        click.echo(err=True)


def fail_invalid(invalid: ScenarioInvalid) -> NoReturn:
    """Print every error of a scenario file on stderr, with its line and fix, and end the command."""
    from scenarios.language.diagnostics import format_text

    click.echo(format_text(invalid.file, invalid.diagnostics), err=True)
    raise click.exceptions.Exit(int(ExitCode.INVALID_SCENARIO))


def pick_variant(file: ScenarioFile, variant: str | None, seed: int | None) -> Scenario:
    """Return a variant of a scenario.

    Args:
        variant: id of the variant; `base` or None for the scenario itself.
        seed: replaces the seed of the file; None to keep that.

    Raises:
        click.UsageError: the scenario has no such variant.
    """
    from dataclasses import replace

    from scenarios.language.diagnostics import did_you_mean

    if variant in (None, "base"):
        scenario = file.scenario
    elif variant in file.variants:
        scenario = file.variants[variant]
    else:
        close = did_you_mean(str(variant), file.variants)
        hint = f"Did you mean `{close}`? " if close else ""
        known = f"Its variants: {', '.join(file.variants)}" if file.variants else "It has no variants"
        raise click.UsageError(f"{file.scenario.id} has no variant `{variant}`. {hint}{known}.")
    return scenario if seed is None else replace(scenario, seed=seed)


def execute(
    scenario: Scenario,
    runs_dir: Path | None,
    *,
    keep_logs: bool = True,
    world: NewWorld | None = None,
    real: RealKafka | None = None,
) -> RunResult:
    """Run a scenario and show its progress.

    End the command with an error if the run cannot be written, or if a step of the timeline cannot be carried out.
    """
    from scenarios.run.cluster_under_test import NotPossibleNow
    from scenarios.run.runner import run_scenario
    from scenarios.run.worlds import simulated

    try:
        with ProgressLine(scenario.run_name) as line:

            def progress(now_us: int, until_us: int, events: int) -> None:
                if now_us < 0:  # The cluster is not up yet; JVMs start slowly.
                    line.show(0.0, "starting the cluster")
                    return
                kind = " virtual time" if world is None else ""
                so_far = f"{now_us / 1e6:.1f} s of {until_us / 1e6:.0f} s{kind}, {events} events"
                line.show(now_us / until_us if until_us else 1.0, so_far)

            return run_scenario(
                scenario, runs_dir=runs_dir, world=world or simulated, keep_logs=keep_logs, progress=progress, real=real
            )
    except OSError as error:
        where = error.filename or runs_dir or "the temporary directory"
        fail(
            f"the run cannot be written to {where}: {error.strerror or error}; nothing was kept",
            ExitCode.MISSING,
            "free some disk space, or choose another folder with --out DIR",
        )
    except NotPossibleNow as error:
        fail(f"{scenario.run_name}: {error}", ExitCode.EXPECTATION_FAILED)


def exit_code_of(results: Sequence[RunResult], fail_on: Sequence[str] = ()) -> ExitCode:
    """Return one exit code for several runs, that of a bug in Highwater before that of failed expectations.

    Args:
        fail_on: kinds of anomalies that count as failures; `any` for all kinds.
    """
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
