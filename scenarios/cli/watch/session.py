"""A session of `highwater watch`, from the first connection to the summary."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable

import click
import trio

from replica.wording import duration
from scenarios.cli.common import fail, style_for_stdout
from scenarios.cli.watch.screen import (
    StateChanges,
    all_notes,
    counts_of,
    json_lines,
    screen_lines,
    standings,
    summary_lines,
    text_lines,
)
from scenarios.process.failures import first_leaf
from scenarios.run.followed_trace import cut_parts_while_followed
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.safe_output import clear_screen
from scenarios.watch.cluster_watch import ClusterWatch, outcome_of
from scenarios.watch.conditions import Conditions
from scenarios.watch.link import REQUESTS_PER_SECOND, LinkFailed
from scenarios.watch.recording import Recording
from scenarios.watch.watcher import Watcher


def every(interval_s: float) -> str:
    return f"every {duration(round(interval_s * 1_000_000))}"


class WatchOutput:
    """The form of the output: a table that is redrawn on a terminal, or else lines of text or JSON."""

    def __init__(self, format_: str, *, plain: bool) -> None:
        self.is_json = format_ == "json"
        self.style = style_for_stdout(plain)
        on_terminal = sys.stdout.isatty() and not plain and os.environ.get("TERM") != "dumb"
        self.redraws = on_terminal and not self.is_json


class WatchSession:
    """A session that watches a cluster and prints its state.

    Args:
        for_s: seconds after which the session ends; None if it runs until it is stopped.
        conditions: problems of the cluster that end the session with exit code 1.
    """

    def __init__(
        self,
        watcher: Watcher,
        recording: Recording | None,
        bootstrap: str,
        for_s: float | None,
        conditions: Conditions,
        output: WatchOutput,
    ) -> None:
        self._watcher = watcher
        self._recording = recording
        self._bootstrap = bootstrap
        self._for_s = for_s
        self._conditions = conditions
        self._output = output
        self._changes = StateChanges()
        self._failed: str | None = None
        self._begun: list[Callable[[], None]] = []

    @property
    def _watch(self) -> ClusterWatch:
        return self._watcher.watch

    def on_ready(self, begin: Callable[[], None]) -> None:
        """Register a function to be called when the cluster has first answered, in the thread of `run`."""
        self._begun.append(begin)

    def run(self) -> int:
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
        return ExitCode.HELD if self._failed is None else ExitCode.EXPECTATION_FAILED

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_on_signal, nursery.cancel_scope)
            nursery.start_soon(self._watcher.run)
            await self._watcher.is_ready.wait()
            self._begin()
            if self._recording is not None:
                nursery.start_soon(cut_parts_while_followed, self._recording.writer)
            if self._for_s is not None:
                nursery.cancel_scope.deadline = trio.current_time() + self._for_s
            while self._failed is None:
                await trio.sleep(min(max(self._watcher.interval_s, 0.5), 2.0))
                self._show()
                self._failed = self._conditions.look(self._watch, self._watcher.now_us)
            nursery.cancel_scope.cancel()

    async def _stop_on_signal(self, scope: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for _ in signals:
                scope.cancel()

    def _begin(self) -> None:
        for begin in self._begun:
            begin()
        bound = f"{every(self._watcher.interval_s)}, at most {REQUESTS_PER_SECOND} requests/s to each broker"
        click.echo(f"  {self._watch.title}", err=True)
        click.echo(f"  Watching {self._bootstrap} read-only: {bound}, one at a time.", err=True)
        click.echo(f"  According to its API versions: {self._watcher.era} or newer. All values are samples.", err=True)
        if self._recording is not None:
            trace = self._recording.writer.trace_dir
            click.echo(f"  To follow the recording: highwater report --follow {trace.parent}", err=True)

    def _show(self) -> None:
        now_us, notes = self._watcher.now_us, self._watcher.notes
        if not self._output.redraws:
            changes = self._changes.news(self._watch, now_us)
            for line in json_lines(changes, now_us) if self._output.is_json else text_lines(changes):
                click.echo(line)
            return
        lines = screen_lines(self._watch, now_us, self._output.style, notes, os.get_terminal_size().lines - 1)
        clear_screen(sys.stdout)
        click.echo("\n".join(lines))
        sys.stdout.flush()

    def _end(self) -> None:
        now_us, folder = self._watcher.now_us, None
        outcome = outcome_of(self._watch, self._bootstrap, now_us)
        style, notes = self._output.style, self._watcher.notes
        if not self._output.is_json:
            click.echo("\n".join(summary_lines(self._watch, now_us, style, notes)))
        if self._recording is not None:
            self._watch.finish(now_us)
            folder = self._recording.keep(self._watch, self._watcher.how, self._watcher.era, now_us, outcome)
        if self._output.is_json:
            _, counts = standings(self._watch, now_us, 0)
            state = {"partitions": counts_of(counts), "notes": all_notes(self._watch, notes)}
            kept = None if folder is None else str(folder)
            click.echo(json.dumps({"at_us": now_us, "watched": outcome, **state, "failed": self._failed, "run": kept}))
            return
        if folder is not None:
            click.echo(f"  {folder}\n    highwater report {folder}\n    highwater view {folder} --open")
        if self._failed is not None:
            click.echo(style.paint(f"  {style.sign('bad')} {self._failed} (--fail-on)", "red"))
