"""`highwater watch BOOTSTRAP`: the replication of a cluster that is already there."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scenarios.cli.common import TimeSpan, fail, must_hold_files, plain_option, style_for_stdout
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.safe_output import clear_screen

if TYPE_CHECKING:
    from scenarios.watch.client_properties import Security
    from scenarios.watch.cluster_watch import ClusterWatch
    from scenarios.watch.recording import Recording
    from scenarios.watch.watcher import Watcher

SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 3_600
LONGEST_WATCH_S = 366 * 86_400


@click.command()
@click.argument("bootstrap")
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep a run there: `report`, `view` and others read it.",
)
@click.option(
    "--interval", type=TimeSpan(SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S), default="1s", show_default=True,
    help="How often each broker is asked.",
)  # fmt: skip
@click.option("--for", "for_s", type=TimeSpan(0.1, LONGEST_WATCH_S), help="End by itself after this time.")
@click.option("--topics", metavar="REGEX", help="Only topics in whose name this is found.")
@click.option(
    "--command-config", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="A client.properties file: SASL (PLAIN, SCRAM) and TLS, with Kafka's keys.",
)  # fmt: skip
@plain_option
def watch(
    bootstrap: str,
    record: Path | None,
    interval: float,
    for_s: float | None,
    topics: str | None,
    command_config: Path | None,
    plain: bool,
) -> int:
    """Watch the replication of the cluster at BOOTSTRAP (HOST:PORT,...), any Kafka: leader, ISR, ELR, HW and LEO of
    every replica, lag, and who holds back a high watermark.

    It only reads, joins no group, and asks each broker one thing at a time. Ctrl-C ends it with a summary.
    """
    from replica.trace.events import TraceLog
    from scenarios.watch.cluster_watch import ClusterWatch
    from scenarios.watch.recording import Recording
    from scenarios.watch.watcher import Watcher, parse_bootstrap

    try:
        addresses = parse_bootstrap(bootstrap)
    except ValueError as error:
        raise click.UsageError(f"{error}, for example localhost:9092") from None
    security, wanted = _security(command_config), _pattern(topics)
    if record is not None:
        must_hold_files(record, "--record")
    with ExitStack() as stack:
        try:
            recording = None if record is None else stack.enter_context(Recording(record))
            log = TraceLog() if recording is None else recording.log
            how = f"watched at {bootstrap}: all is sampled, {_every(interval)}"
            watcher = Watcher(ClusterWatch(log), addresses, security, how=how, interval_s=interval, wanted=wanted)
            return _Session(watcher, recording, bootstrap, for_s, plain=plain).run()
        except OSError as error:
            if record is None:
                raise
            why = f"the run cannot be kept in {error.filename or record}: {error.strerror or error}"
            fail(why, ExitCode.MISSING, "make room or choose another place with --record DIR")


def _every(interval_s: float) -> str:
    from replica.wording import duration

    return f"every {duration(round(interval_s * 1_000_000))}"


def _security(file: Path | None) -> Security:
    from scenarios.watch.client_properties import Security, SettingsInvalid, read_security

    if file is None:
        return Security()
    try:
        return read_security(file)
    except SettingsInvalid as invalid:
        fail(f"--command-config: {invalid}", ExitCode.USAGE, invalid.fix)


def _pattern(topics: str | None) -> re.Pattern[str] | None:
    try:
        return None if topics is None else re.compile(topics)
    except re.error as error:
        raise click.UsageError(f"--topics is no regular expression: {error}") from None


class _Session:
    """One watch on one terminal, from the first connection to the summary."""

    def __init__(
        self, watcher: Watcher, recording: Recording | None, bootstrap: str, for_s: float | None, *, plain: bool
    ) -> None:
        from scenarios.cli.watch.screen import Lines

        self._watcher = watcher
        self._recording = recording
        self._bootstrap = bootstrap
        self._for_s = for_s
        self._style = style_for_stdout(plain)
        self._redraws = sys.stdout.isatty() and not plain and os.environ.get("TERM") != "dumb"
        self._lines = Lines(self._style)

    @property
    def _watch(self) -> ClusterWatch:
        return self._watcher.watch

    def run(self) -> int:
        import trio

        from scenarios.process.failures import first_leaf
        from scenarios.watch.link import LinkFailed

        try:
            trio.run(self._run)
        except BaseExceptionGroup as group:
            leaf = first_leaf(group)
            if isinstance(leaf, LinkFailed):
                fail(str(leaf), ExitCode.MISSING, leaf.fix)
            raise leaf from group
        if not self._watcher.is_ready.is_set():
            return ExitCode.INTERRUPTED
        self._end()
        return ExitCode.HELD

    async def _run(self) -> None:
        import trio

        from scenarios.run.followed_trace import cut_parts_while_followed

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_on_signal, nursery.cancel_scope)
            nursery.start_soon(self._watcher.run)
            await self._watcher.is_ready.wait()
            self._begin()
            if self._recording is not None:
                nursery.start_soon(cut_parts_while_followed, self._recording.writer)
            if self._for_s is not None:
                nursery.cancel_scope.deadline = trio.current_time() + self._for_s
            while True:
                await trio.sleep(min(max(self._watcher.interval_s, 0.5), 2.0))
                self._show()

    async def _stop_on_signal(self, scope: object) -> None:
        import trio

        assert isinstance(scope, trio.CancelScope)
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for _ in signals:
                scope.cancel()

    # -------------------------------------------------------------------------------------------------- the terminal

    def _begin(self) -> None:
        from scenarios.watch.link import REQUESTS_PER_SECOND

        bound = f"{_every(self._watcher.interval_s)}, at most {REQUESTS_PER_SECOND} requests/s to a broker"
        click.echo(f"  {self._watch.title}", err=True)
        click.echo(f"  Watched at {self._bootstrap}, only reading: {bound}, one at a time.", err=True)
        click.echo(f"  By its API versions: {self._watcher.era} or newer. All values are samples.", err=True)
        if self._recording is not None:
            trace = self._recording.writer.trace_dir
            click.echo(f"  While it grows: highwater report --follow {trace.parent}", err=True)

    def _show(self) -> None:
        from scenarios.cli.watch.screen import screen_lines

        now_us = self._watcher.now_us
        if not self._redraws:
            for line in self._lines.news(self._watch, now_us):
                click.echo(line)
            return
        lines = screen_lines(self._watch, now_us, self._style, self._watcher.notes, os.get_terminal_size().lines - 1)
        clear_screen(sys.stdout)
        click.echo("\n".join(lines))
        sys.stdout.flush()

    def _end(self) -> None:
        from scenarios.cli.watch.screen import summary_lines
        from scenarios.watch.cluster_watch import outcome_of

        now_us = self._watcher.now_us
        click.echo("\n".join(summary_lines(self._watch, now_us, self._style, self._watcher.notes)))
        if self._recording is not None:
            self._watch.finish(now_us)
            outcome = outcome_of(self._watch, self._bootstrap, now_us)
            folder = self._recording.keep(self._watch, self._watcher.how, self._watcher.era, now_us, outcome)
            click.echo(f"  {folder}\n    highwater report {folder}\n    highwater view {folder} --open")
