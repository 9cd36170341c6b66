"""`highwater watch BOOTSTRAP`: watches the replication of an existing Kafka cluster without changing anything in it."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scenarios.cli.common import (
    TimeSpan,
    fail,
    formats,
    metrics_option,
    metrics_server,
    must_hold_files,
    plain_option,
)
from scenarios.terminal.interruption import ExitCode

if TYPE_CHECKING:
    from replica.trace.listening import Listener
    from scenarios.metrics.live import LiveMetrics
    from scenarios.watch.client_properties import Security
    from scenarios.watch.conditions import Condition

SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 3_600
LONGEST_WATCH_S = 366 * 86_400


class FailOn(click.ParamType):  # type: ignore[type-arg]
    """A parameter that names conditions, such as `under-min-isr,hw-stalled:10s`."""

    name = "KIND[:TIME],..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Condition, ...]:
        from scenarios.watch.conditions import SAID, Condition, shortest_us

        found = []
        for part in str(value).split(","):
            kind, colon, length = part.partition(":")
            if kind not in SAID:
                self.fail(f"`{kind}` is not a condition; choose one of {', '.join(SAID)}", param, ctx)
            for_us = shortest_us(kind)
            if colon:
                for_us = round(TimeSpan(for_us / 1e6, LONGEST_WATCH_S).convert(length, param, ctx) * 1e6)
            found.append(Condition(kind, for_us))
        return tuple(found)


@click.command()
@click.argument("bootstrap")
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Record a run in this folder, for `report`, `view` and others.",
)
@click.option(
    "--interval", type=TimeSpan(SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S), default="1s", show_default=True,
    help="Time between two rounds of requests to a broker.",
)  # fmt: skip
@click.option("--for", "for_s", type=TimeSpan(0.1, LONGEST_WATCH_S), help="Stop after this time.")
@click.option("--topics", metavar="REGEX", help="Watch only topics whose names match REGEX in any part.")
@click.option(
    "--command-config", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="File of Kafka client properties, for SASL (PLAIN, SCRAM) and TLS.",
)  # fmt: skip
@click.option(
    "--fail-on", type=FailOn(), metavar="KIND[:TIME],...",
    help="Stop with exit code 1 when a condition has lasted for TIME: offline, under-min-isr, under-replicated, "
    "hw-stalled, no-answer.",
)  # fmt: skip
@metrics_option
@formats("Output format: text (the default), or JSON lines: changes, then a summary.")
@plain_option
def watch(
    bootstrap: str,
    record: Path | None,
    interval: float,
    for_s: float | None,
    topics: str | None,
    command_config: Path | None,
    fail_on: tuple[Condition, ...] | None,
    metrics_port: int | None,
    format_: str,
    plain: bool,
) -> int:
    """Watch replication in the Kafka cluster at BOOTSTRAP (HOST:PORT,...): leaders, ISR, ELR, HW and LEO of every
    replica, lag, and the brokers that hold back a high watermark.

    The command only reads, joins no group, and sends each broker one request at a time. Ctrl-C ends it with a summary.
    """
    from replica.trace.events import TraceLog
    from scenarios.cli.watch.session import WatchOutput, WatchSession, every
    from scenarios.watch.cluster_watch import ClusterWatch
    from scenarios.watch.conditions import Conditions
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
        server = stack.enter_context(metrics_server(metrics_port))
        metrics = None if server is None else _metrics()
        listeners: list[Listener] = [] if metrics is None else [metrics.view, metrics]
        try:
            recording = None if record is None else stack.enter_context(Recording(record, listeners))
            log = TraceLog(listeners) if recording is None else recording.log
            how = f"watched at {bootstrap}: all values are samples, taken {every(interval)}"
            watcher = Watcher(ClusterWatch(log), addresses, security, how=how, interval_s=interval, wanted=wanted)
            session = WatchSession(
                watcher, recording, bootstrap, for_s, Conditions(fail_on or ()), WatchOutput(format_, plain=plain)
            )
            if server is not None and metrics is not None:
                session.on_ready(lambda: server.expose(metrics, lambda: watcher.now_us))
            return session.run()
        except OSError as error:
            if record is None:
                raise
            why = f"the run cannot be written to {error.filename or record}: {error.strerror or error}"
            fail(why, ExitCode.MISSING, "free some disk space, or choose another folder with --record DIR")


def _metrics() -> LiveMetrics:
    from scenarios.metrics.live import LiveMetrics
    from scenarios.observe.view import ClusterView

    return LiveMetrics(ClusterView((), ()), {}, is_sampled=True)


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
        raise click.UsageError(f"--topics is not a regular expression: {error}") from None
