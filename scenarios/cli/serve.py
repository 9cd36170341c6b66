"""`highwater serve`: starts brokers on this machine that real Kafka clients can connect to."""

from __future__ import annotations

import ipaddress
import os
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scenarios.cli.common import (
    TimeSpan,
    exit_code_of,
    fail,
    fail_invalid,
    load_scenario,
    metrics_option,
    metrics_server,
    must_hold_files,
    plain_option,
    style_for_stdout,
)
from scenarios.cli.run import fail_on_option, processes_option
from scenarios.cli.worlds import refuse_cards
from scenarios.run.runs import RUNS_DIR
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.safe_output import OutputFailed
from scenarios.terminal.style import Style, folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.security import TlsFiles
    from scenarios.language.spec import Scenario
    from scenarios.observe.story import StoryLine
    from scenarios.run.runner import RunResult
    from scenarios.serve.serving import Server

PORTS = click.IntRange(0, 65_535)
BROKERS = 3
LONGEST_S = 365 * 86_400


def _refuse_config(_: click.Context, __: click.Parameter, setting: str | None) -> None:
    if setting is not None:
        raise click.UsageError(f"No such option: --config; write `--set cluster.config.{setting}`")


@click.command()
@click.option("--brokers", type=click.IntRange(1, 31), metavar="N", help=f"Number of brokers; default: {BROKERS}.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME:PARTITIONS:RF",
    help="Topic to create; repeatable; default: orders with 3 partitions.",
)
@click.option(
    "--max-partitions", type=click.IntRange(1), metavar="N",
    help="Largest number of partitions in the cluster; default: 20000.",
)  # fmt: skip
@click.option(
    "--port",
    type=PORTS,
    default=19092,
    show_default=True,
    help="Port of the first broker; later brokers count up. 0: any free ports.",
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDR", help="The address to listen on.")
@click.option("--scenario", metavar="FILE", help="Start the cluster of this scenario, and play its timeline.")
@click.option("--profile", metavar="ERA", help="The era of Kafka whose rules the brokers follow.")
@click.option(
    "--record", type=click.Path(path_type=Path), default=RUNS_DIR, show_default=True, metavar="DIR",
    help="Folder that keeps the run.",
)  # fmt: skip
@click.option("--for", "for_s", type=TimeSpan(0.1, LONGEST_S), help="Stop this long after all brokers have started.")
@click.option("--config", hidden=True, expose_value=False, callback=_refuse_config)
@click.option("--parent", type=click.IntRange(1), hidden=True, help="End, and remove --record, when this process ends.")
@processes_option
@click.option("--no-client-records", is_flag=True, help="Do not trace every record and request, to be faster.")
@click.option("--view", "shows_page", is_flag=True, help="Show the running cluster on a web page at 127.0.0.1.")
@metrics_option
@click.option(
    "--user", "users", multiple=True, metavar="NAME:PASSWORD-FILE",
    help="User with which clients must log in (SASL PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512); repeatable.",
)  # fmt: skip
@click.option("--authorize", is_flag=True, help="Authorize requests by ACLs; without an ACL, nothing is allowed.")
@click.option(
    "--super-user", "super_users", multiple=True, metavar="NAME",
    help="With --authorize: user who may do everything; repeatable.",
)  # fmt: skip
@click.option(
    "--tls", "with_tls", is_flag=True, help="Encrypt connections, with a certificate generated for this cluster."
)
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Your own certificate for --tls.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Private key of --tls-cert.")
@click.option(
    "--listener", "listeners", multiple=True, metavar="[NAME=]PROTOCOL:PORT",
    help="Another listener of each broker, PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, with at most the protection "
    "of the first listener; repeatable.",
)  # fmt: skip
@click.option(
    "--advertise", "advertised", multiple=True, metavar="[NAME=]HOST[:PORT]",
    help="Address of the first broker that a listener gives to clients instead of --host, "
    "for example behind NAT; repeatable.",
)  # fmt: skip
@click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE",
    help="Change one value of the cluster, such as cluster.config.KEY=VALUE, or of --scenario; repeatable.",
)  # fmt: skip
@fail_on_option
@plain_option
def serve(
    brokers: int | None,
    topics: tuple[str, ...],
    max_partitions: int | None,
    port: int,
    host: str,
    scenario: str | None,
    profile: str | None,
    record: Path,
    for_s: float | None,
    parent: int | None,
    in_processes: bool,
    no_client_records: bool,
    shows_page: bool,
    metrics_port: int | None,
    users: tuple[str, ...],
    authorize: bool,
    super_users: tuple[str, ...],
    with_tls: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    listeners: tuple[str, ...],
    advertised: tuple[str, ...],
    overrides: tuple[str, ...],
    fail_on: tuple[str, ...],
    plain: bool,
) -> int:
    """Start a cluster that Kafka clients can connect to. Ctrl-C, or the end of --for, stops it and shows
    the fate of every record."""
    from cluster.security import OPEN, ListenerSecurity
    from scenarios.serve import access
    from scenarios.serve.serving import ServeOptions, Server, Voice

    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError(
            "--tls-cert and --tls-key must be given together; for a generated certificate, give only --tls"
        )
    own_files = None if tls_cert is None or tls_key is None else (tls_cert, tls_key)
    _check_address(host)
    if max_partitions is not None:
        overrides = (f"cluster.config.max.partitions={max_partitions}", *overrides)
    if scenario is None:
        chosen = _plain_cluster(brokers or BROKERS, topics, profile, overrides)
    elif brokers or topics or profile:
        raise click.UsageError(
            "--scenario does not work with --brokers, --topic or --profile; change the scenario with --set PATH=VALUE"
        )
    else:
        chosen = load_scenario(scenario, overrides).scenario
        refuse_cards(chosen)
    _check_ports(port, len(chosen.cluster.brokers))
    if advertised and not port:
        raise click.UsageError("--advertise does not work with --port 0: advertised ports count up from --port")
    must_hold_files(record, "--record")
    security = OPEN
    names, in_zookeeper_era = list(chosen.cluster.brokers), chosen.rules.membership == "zk-session"
    try:
        may_everything = access.super_users_of(
            super_users,
            authorizes=authorize,
            in_zookeeper_era=in_zookeeper_era,
            allows_unruled=chosen.cluster.controller_config().allow_everyone_if_no_acl_found,
        )
        if users or own_files or with_tls or may_everything is not None:
            passwords = access.passwords_of(users)
            files = None if own_files is None else access.own_files(*own_files)
            if files is None and with_tls:
                files = _throw_away_files(record / "tls" / str(port), access.hosts_of(host, advertised))
            security = ListenerSecurity.of(passwords, files, may_everything)
        more = access.listeners_of(
            listeners, brokers=names, first_port=port, first=security, in_zookeeper_era=in_zookeeper_era
        )
        security = access.advertising(
            advertised,
            brokers=names,
            host=host,
            first_port=port,
            security=replace(security, listeners=more),
            in_zookeeper_era=in_zookeeper_era,
        )
    except access.AccessRefused as refused:
        raise click.UsageError(str(refused)) from None
    _warn_of_openness(
        host,
        has_users=security.is_on and all(listener.has_sasl for listener in security.listeners),
        has_tls=security.tls is not None and all(listener.has_tls for listener in security.listeners),
    )
    style = Style.of(sys.stderr, os.environ, plain=plain)
    voice = Voice(click.echo, _say_if_heard, lambda line: click.echo(_event(line, style), err=True))
    try:
        with metrics_server(metrics_port) as metrics:
            options = ServeOptions(
                host=host,
                port=port,
                reads_along=not no_client_records,
                in_processes=in_processes,
                shows_page=shows_page,
                lasts_s=for_s,
                security=security,
                parent=parent,
                metrics=metrics,
            )
            result = _run(Server(chosen, options, voice), record)
    finally:
        if parent is not None and os.getppid() != parent:
            shutil.rmtree(record, ignore_errors=True)
    from scenarios.cli.screens import run_screen

    click.echo(run_screen(result.summary, result.story, style_for_stdout(plain)), nl=False)
    return exit_code_of([result], fail_on)


def _plain_cluster(brokers: int, topics: tuple[str, ...], profile: str | None, overrides: tuple[str, ...]) -> Scenario:
    from scenarios.language.diagnostics import ScenarioInvalid
    from scenarios.serve.serving import TopicWish, cluster_of

    try:
        wishes = [TopicWish.parse(text, brokers) for text in topics or (f"orders:3:{min(3, brokers)}",)]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    names = [wish.name for wish in wishes]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise click.UsageError(f"--topic names `{twice[0]}` twice")
    try:
        return cluster_of(brokers, wishes, profile, overrides).scenario
    except ScenarioInvalid as invalid:
        fail_invalid(invalid)


def _throw_away_files(folder: Path, hosts: Sequence[str]) -> TlsFiles:
    from scenarios.serve.access import throw_away_files

    try:
        return throw_away_files(folder, hosts)
    except OSError as error:
        fail(
            f"{error.filename} cannot be written: {error.strerror}",
            ExitCode.MISSING,
            "choose another folder with --record DIR",
        )


def _check_address(host: str) -> None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise click.UsageError(f"--host must be an IP address of this machine, not `{host}`") from None
    if address.version != 4:
        raise click.UsageError(f"--host must be an IPv4 address, not {host}")


def _warn_of_openness(host: str, *, has_users: bool, has_tls: bool) -> None:
    """Warn on stderr if other machines can reach the brokers without authentication or encryption.

    Args:
        has_users: every listener asks for a user.
        has_tls: every listener is encrypted.
    """
    if not ipaddress.ip_address(host).is_loopback:
        lacking = [
            *([] if has_users else ["no authentication (--user)"]),
            *([] if has_tls else ["no encryption (--tls)"]),
        ]
        if lacking:
            risk = f"anyone who reaches {host} can read and write" if not has_users else "others may read passwords"
            click.echo(f"warning: {risk}, because there is {' and '.join(lacking)}", err=True)


def _check_ports(port: int, brokers: int) -> None:
    if port and port + brokers - 1 > PORTS.max:  # type: ignore[operator]
        raise click.UsageError(
            f"{brokers} brokers need ports {port} to {port + brokers - 1}, but 65535 is the last one; lower --port"
        )


def _run(server: Server, record: Path) -> RunResult:
    from cluster.live.sockets import PortTaken
    from scenarios.run.cluster_under_test import NotPossibleNow

    try:
        return server.run(record)
    except PortTaken as taken:
        fix = f"choose other ports with --port, for example --port {1024 + (taken.port + 1000) % 60_000}"
        if taken.is_foreign:
            fix = "choose an address of this machine with --host"
        fail(str(taken), ExitCode.MISSING, fix)
    except NotPossibleNow as error:
        fail(str(error), ExitCode.EXPECTATION_FAILED)
    except OSError as error:
        where = error.filename or record
        fail(
            f"the run cannot be written to {where}: {error.strerror or error}",
            ExitCode.MISSING,
            "free some disk space, or choose another folder with --record DIR",
        )


def _say_if_heard(text: str) -> None:
    with suppress(OutputFailed):
        click.echo(text)


def _event(line: StoryLine, style: Style) -> str:
    from scenarios.cli.screens import COLOUR_OF

    mark = style.paint(style.sign(line.sign), COLOUR_OF.get(line.sign, "dim"))
    room = style.width - 14
    first, *rest = folded(line.text, room)
    return "\n".join([f"  {line.at_us / 1_000_000:>8.3f}  {mark} {first}", *(" " * 14 + part for part in rest)])
