"""The `highwater` command with its table of subcommands, whose modules are imported only when they are called."""

from __future__ import annotations

import importlib
import json
import re
import resource
import shlex
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from scenarios.process.failures import ProcessDied, lack_behind
from scenarios.process.own_python import collect_nothing_at_exit, collect_rarely, import_only_what_is_installed
from scenarios.terminal.interruption import ExitCode, Interruption, interruptible
from scenarios.terminal.safe_output import SafeOutput, reopen_closed_streams

COMMANDS = {
    "run": ("scenarios.cli.run", "run", "Run a scenario and show the outcome of every record."),
    "play": ("scenarios.cli.view", "play", "Inject faults into a simulated cluster on a web page."),
    "compare": ("scenarios.cli.run", "compare", "Run a scenario and its variants, and compare the results."),
    "test": ("scenarios.cli.test", "test", "Run scenarios with all variants and check their expectations."),
    "verify": ("scenarios.cli.test", "verify", "Run a scenario twice and compare the traces byte by byte."),
    "list": ("scenarios.cli.catalogue", "list_scenarios", "List the bundled scenarios by lesson."),
    "show": ("scenarios.cli.catalogue", "show", "Show a scenario's story, timeline and expected results."),
    "check": ("scenarios.cli.catalogue", "check", "Check scenario files for errors without running them."),
    "new": ("scenarios.cli.new", "new", "Write a new scenario file with comments, ready to run."),
    "search": (
        "scenarios.cli.searching.command",
        "search",
        "Play random fault schedules and report what breaks.",
    ),
    "sweep": ("scenarios.cli.sweep.command", "sweep", "Play many seeds and settings on Spark: how likely is a loss?"),
    "rules": ("scenarios.cli.catalogue", "rules", "Show each rule's value in every era of Kafka, with scenarios."),
    "explain": ("scenarios.cli.explain", "explain", "Explain what happened to one record, and why."),
    "judge": ("scenarios.cli.runs", "judge", "Compute the verdict of a run again, from its trace."),
    "path": ("scenarios.cli.explain", "path", "Show the stages of one request in its broker."),
    "view": ("scenarios.cli.view", "view", "Write a page to step through a run, predict and compare."),
    "lab": ("scenarios.cli.lab", "lab", "Hand out the exercises of a lesson, and judge the answers."),
    "site": ("scenarios.cli.site.command", "site", "Write all scenarios, lessons and documents as a static site."),
    "runs": ("scenarios.cli.runs", "runs", "List the kept runs and their verdicts."),
    "diff": ("scenarios.cli.diff", "diff", "Show what ended differently in two runs."),
    "export": ("scenarios.cli.view", "export", "Export a run to Perfetto, ShiViz, Mermaid or CSV."),
    "agree": ("scenarios.cli.agree.command", "agree", "Play scenarios in two modes, and show where they differ."),
    "report": ("scenarios.cli.report", "report", "Write a Spark report on a run: HW, LEO and ISR over time."),
    "read": ("scenarios.cli.read.command", "read", "Read brokers' log directories; show where replicas diverge."),
    "watch": ("scenarios.cli.watch.command", "watch", "Watch the replication of a running Kafka cluster."),
    "serve": ("scenarios.cli.serve", "serve", "Start a live cluster for real Kafka clients."),
    "fault": ("scenarios.cli.fault", "fault", "Inject faults into a running `serve`, or end them."),
    "kafka": ("scenarios.cli.kafka", "kafka", "Install Apache Kafka, to play scenarios on it."),
    "doctor": ("scenarios.cli.doctor", "doctor", "Show what this machine lacks, and how to install it."),
    "completion": (
        "scenarios.cli.completion",
        "completion",
        "Print a script that lets bash, zsh or fish complete commands.",
    ),
    "bench": ("scenarios.cli.bench", "bench", "Measure the simulator, fetch path, live brokers and report."),
}
CORE = (
    *(
        "run",
        "play",
        "compare",
        "list",
        "show",
        "check",
        "new",
        "test",
        "explain",
        "view",
        "report",
        "runs",
        "diff",
        "serve",
    ),
    "fault",
)
"""The most used commands; `--help` lists them first, and all others under "More"."""
_OF_FAULTS = "For a running `serve`, use `highwater fault {0}`. In a scenario, `{0}` is a step of the timeline."
INSTEAD = {
    "predict": "Predict with `highwater run NAME --predict` or `highwater view last --predict`.",
    "replay": "`highwater run NAME --seed N` repeats a run, and `highwater view last` steps through the last run.",
    "trace": "The trace is in the folder of the run. See `highwater view last`, `export last` and `report last`.",
    "chart": "`highwater report last` draws charts, and `highwater view last` steps through the run.",
    "topics": "`highwater serve --topic NAME:PARTITIONS:RF` creates topics; `highwater show NAME` lists a scenario's.",
    **{verb: _OF_FAULTS.format(verb) for verb in ("kill", "start", "stop", "pause", "cut", "heal")},
}
"""Words that users try as commands, each with a hint to the right command."""
USING_SPARK = ("report", "sweep", "search")
"""Commands that get their own temporary folder, because a killed JVM and its workers leave many files behind."""
FIX = "  = fix: "
MEMORY_LEAST_BYTES = 384 << 20
FIRST_STEPS = """Break a Kafka cluster on purpose and see which acked records died, and why.

  highwater list                      list the bundled scenarios
  highwater run acks1-leader-kill     a leader dies under acks=1
  highwater compare acks1-leader-kill the same failure under acks=0, 1 and all
  highwater view last --open          step through that run, predict, ask why
  highwater report last               HW, LEO and ISR of that run over time
  highwater --help                    all commands
"""


class LazyGroup(click.Group):
    """A group that imports a command when it is called, and suggests the closest name for an unknown one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in COMMANDS:
            import difflib  # needed only for this error

            close = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"Did you mean `{close[0]}`?" if close else "See `highwater --help`."
            hint = f" {INSTEAD.get(name, hint)}"
            raise click.UsageError(f"There is no command `{name}`.{hint}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [(name, text) for name, (_, _, text) in COMMANDS.items() if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=text) for name, text in found), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in (("Commands", CORE), ("More", [name for name in COMMANDS if name not in CORE])):
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][2]) for name in names])


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="highwater", prog_name="highwater")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Break a Kafka cluster on purpose, watch ISR, high watermark and log end offset while it happens, and see exactly
    which acknowledged records died, and why."""
    if ctx.invoked_subcommand is None:
        click.echo(FIRST_STEPS, nl=False)
    elif ctx.invoked_subcommand in USING_SPARK:
        from scenarios.process.work_folders import have_own_temporary_folder

        with suppress(OSError):  # The command itself reports what it cannot write.
            ctx.call_on_close(partial(setattr, tempfile, "tempdir", have_own_temporary_folder()))


def main() -> NoReturn:
    """Run the command line and exit. A failure prints an error and its fix instead of a traceback."""
    reopen_closed_streams()
    _must_be_somewhere()
    _must_have_memory()
    import_only_what_is_installed()
    collect_rarely()
    collect_nothing_at_exit()
    out, errors = SafeOutput(sys.stdout), SafeOutput(sys.stderr)
    sys.stdout, sys.stderr = out, errors
    with interruptible() as interruption:
        try:
            _run(interruption)
        except SystemExit as ended:
            if ended.code and not out.latest:
                _echo_error_document(sys.argv[1:], errors.latest, ended.code)
            raise


def _echo_error_document(words: Sequence[str], text: str, code: object) -> None:
    """Print an error as JSON or JUnit XML if `words` ask for such output, for a command that failed without a result.

    Args:
        words: arguments of the command line.
        text: what the command printed on stderr.
        code: exit code.
    """
    formats = {"--format=json", "--format=junit"} & {*words, *map("=".join, pairwise(words))}
    if not formats:
        return
    document = _error_document(text, code)
    if "--format=json" in formats:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        from scenarios.cli.screens import junit_of_error

        fix = f"\n{FIX}{document['fix']}" if document["fix"] else ""
        click.echo(junit_of_error(f"{document['error']}{fix}", shlex.join(["highwater", *words])))


def _error_document(text: str, code: object) -> dict[str, object]:
    """Return an error as a JSON document, from the text on stderr and the exit code."""
    begins = re.search("^error", text, re.IGNORECASE | re.MULTILINE)  # Progress or click's usage may precede the error.
    lines = text[begins.start() if begins else 0 :].strip().splitlines()
    fixes = [line.removeprefix(FIX) for line in lines if line.startswith(FIX)]
    said = "\n".join(line for line in lines if not line.startswith(FIX))
    return {"error": re.sub("^error: ", "", said, flags=re.IGNORECASE), "fix": next(iter(fixes), None), "exit": code}


def _must_be_somewhere() -> None:
    """End the command with an error if the current folder was deleted, even if a new folder has the same name."""
    try:
        Path.cwd()
    except OSError as error:
        click.echo(f"error: the current directory no longer exists: {error.strerror}", err=True)
        click.echo("  = fix: cd to an existing folder", err=True)
        sys.exit(ExitCode.MISSING)


def _must_have_memory() -> None:
    """End the command with an error if its memory limit is too low.

    Otherwise the linear algebra library of numpy would end the process with an obscure message.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < MEMORY_LEAST_BYTES:
        click.echo(f"error: the memory limit (ulimit -v) of {limit >> 20:,} MiB is too low", err=True)
        click.echo(
            f"  = fix: allow {MEMORY_LEAST_BYTES >> 20:,} MiB or more: ulimit -v {MEMORY_LEAST_BYTES >> 10}", err=True
        )
        sys.exit(ExitCode.MISSING)


def _run(interruption: Interruption) -> NoReturn:
    try:
        result = _command()
        sys.exit(result if isinstance(result, int) else ExitCode.HELD)
    except click.UsageError as error:
        error.show()
        sys.exit(ExitCode.USAGE)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        sys.exit(interruption.exit_code)
    except ProcessDied as died:
        click.echo(f"error: {died}", err=True)
        click.echo(
            "  = fix: unless you killed it, memory ran out: free some memory, or give a lower --jobs",
            err=True,
        )
        sys.exit(ExitCode.MISSING)
    except Exception as error:
        # An unexpected exception is a bug in Highwater, unless the machine ran out of memory or file descriptors.
        if (lack := lack_behind(error)) is not None:
            click.echo(f"error: {lack.what}", err=True)
            click.echo(f"  = fix: {lack.fix}", err=True)
            sys.exit(ExitCode.MISSING)
        click.echo(f"error: a bug in highwater: {type(error).__name__}: {error}", err=True)
        for note in getattr(error, "__notes__", ()):
            click.echo(f"  = {note}", err=True)
        try:
            click.echo(f"  = details for a bug report are in {_keep_traceback()}", err=True)
        except OSError as unwritable:
            click.echo(f"  = details for a bug report cannot be written: {unwritable.strerror}", err=True)
        sys.exit(ExitCode.OUR_BUG)


def _command() -> Any:
    """Run the command and return its result. Click turns an EOFError into Abort, as for Ctrl-C; raise the EOFError."""
    try:
        return cli.main(prog_name="highwater", standalone_mode=False)
    except click.Abort as abort:
        if isinstance(abort.__cause__, EOFError):
            raise abort.__cause__ from None
        raise


def _keep_traceback() -> str:
    with tempfile.NamedTemporaryFile("w", prefix="highwater-bug-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return file.name
