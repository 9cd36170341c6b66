"""`highwater serve`: brokers for real Kafka clients, on this machine."""

from __future__ import annotations

import ipaddress
import os
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
    load_scenario,
    must_hold_files,
    plain_option,
    style_for_stdout,
)
from scenarios.cli.run import processes_option
from scenarios.cli.worlds import refuse_cards
from scenarios.run.runs import RUNS_DIR
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.safe_output import OutputFailed
from scenarios.terminal.style import Style, folded

if TYPE_CHECKING:
    from cluster.security import ListenerSecurity
    from scenarios.language.spec import Scenario
    from scenarios.observe.story import StoryLine
    from scenarios.run.runner import RunResult
    from scenarios.serve.serving import Server

PORTS = click.IntRange(1, 65_535)
BROKERS = 3
LONGEST_S = 365 * 86_400


@click.command()
@click.option(
    "--brokers", type=click.IntRange(1, 31), metavar="N", help=f"How many; {BROKERS}, unless --scenario brings its own."
)
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME:PARTITIONS:RF", help="A topic to create; may be repeated."
)
@click.option(
    "--max-partitions", type=click.IntRange(1), metavar="N",
    help="Of the whole cluster: a request for more is refused; by default 20000.",
)  # fmt: skip
@click.option("--port", type=PORTS, default=19092, show_default=True, help="Of the first broker; the others follow.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDR", help="The address to listen on.")
@click.option("--scenario", metavar="FILE", help="Start this scenario's cluster, and play its timeline against it.")
@click.option("--profile", metavar="ERA", help="The era of Kafka whose rules the brokers follow.")
@click.option(
    "--record", type=click.Path(path_type=Path), default=RUNS_DIR, show_default=True, metavar="DIR",
    help="Where the run is kept.",
)  # fmt: skip
@click.option("--for", "for_s", type=TimeSpan(0.1, LONGEST_S), help="Stop by itself so long after all brokers are up.")
@processes_option
@click.option("--no-client-records", is_flag=True, help="Do not follow every record and request: faster.")
@click.option("--view", "shows_page", is_flag=True, help="Show the cluster on a page of 127.0.0.1, as it runs.")
@click.option(
    "--user", "users", multiple=True, metavar="NAME:PASSWORD-FILE",
    help="Clients must log in with SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), as this user; may be repeated.",
)  # fmt: skip
@click.option("--authorize", is_flag=True, help="Rules (ACLs) say who may do what; without one, nothing is allowed.")
@click.option(
    "--super-user", "super_users", multiple=True, metavar="NAME",
    help="With --authorize: who may do everything; may be repeated.",
)  # fmt: skip
@click.option("--tls", "with_tls", is_flag=True, help="Encrypt, with a certificate made for this cluster.")
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Your own certificate for --tls.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its key.")
@click.option(
    "--listener", "listeners", multiple=True, metavar="[NAME=]PROTOCOL:PORT",
    help="One more listener of each broker, protected as the first or less: PLAINTEXT, SSL, SASL_PLAINTEXT or "
    "SASL_SSL; may be repeated.",
)  # fmt: skip
@click.option(
    "--advertise", "advertised", multiple=True, metavar="[NAME=]HOST[:PORT]",
    help="Where clients of a listener find the first broker, if not at --host: behind NAT, say; may be repeated.",
)  # fmt: skip
@click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE",
    help="Change one value of the cluster, such as cluster.config.KEY=VALUE, or of --scenario; may be repeated.",
)  # fmt: skip
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
    in_processes: bool,
    no_client_records: bool,
    shows_page: bool,
    users: tuple[str, ...],
    authorize: bool,
    super_users: tuple[str, ...],
    with_tls: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    listeners: tuple[str, ...],
    advertised: tuple[str, ...],
    overrides: tuple[str, ...],
    plain: bool,
) -> int:
    """Start a cluster that Kafka clients can connect to; Ctrl-C, or the end of --for, stops it and says
    what became of every record."""
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together: give both, or --tls alone")
    own_files = None if tls_cert is None or tls_key is None else (tls_cert, tls_key)
    _check_address(host)
    if max_partitions is not None:
        overrides = (f"cluster.config.max.partitions={max_partitions}", *overrides)
    if scenario is None:
        chosen = _plain_cluster(brokers or BROKERS, topics, profile, overrides)
    elif brokers or topics or profile:
        raise click.UsageError(
            "--scenario brings its own brokers, topics and profile; change them with --set PATH=VALUE"
        )
    else:
        chosen = load_scenario(scenario, overrides).scenario
        refuse_cards(chosen)
    _check_ports(port, len(chosen.cluster.brokers))
    must_hold_files(record, "--record")
    may_everything = _super_users(super_users, chosen, authorizes=authorize)
    certificates = record / "tls" / str(port) if with_tls else None
    security = _security(users, own_files, certificates, host, advertised, may_everything)
    security = _listeners(listeners, advertised, security, chosen, host, port)
    _warn_of_openness(
        host,
        has_users=security.is_on and all(one.has_sasl for one in security.listeners),
        has_tls=security.tls is not None and all(one.has_tls for one in security.listeners),
    )
    from scenarios.serve.serving import Server

    style = Style.of(sys.stderr, os.environ, plain=plain)
    server = Server(
        chosen,
        host=host,
        port=port,
        reads_along=not no_client_records,
        in_processes=in_processes,
        shows_page=shows_page,
        lasts_s=for_s,
        security=security,
        say=click.echo,
        say_if_heard=_say_if_heard,
        say_line=lambda line: click.echo(_event(line, style), err=True),
    )
    result = _run(server, record)
    from scenarios.cli.screens import run_screen

    click.echo(run_screen(result.summary, result.story, style_for_stdout(plain)), nl=False)
    return exit_code_of([result])


def _plain_cluster(brokers: int, topics: tuple[str, ...], profile: str | None, overrides: tuple[str, ...]) -> Scenario:
    from scenarios.language.diagnostics import ScenarioInvalid, format_text
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
        click.echo(format_text(invalid.file, invalid.diagnostics), err=True)
        raise click.exceptions.Exit(int(ExitCode.INVALID_SCENARIO)) from None


def _super_users(names: tuple[str, ...], scenario: Scenario, *, authorizes: bool) -> tuple[str, ...] | None:
    from scenarios.serve.access import AccessRefused, super_users_of

    try:
        return super_users_of(
            names,
            authorizes=authorizes,
            in_zookeeper_era=scenario.rules.membership == "zk-session",
            allows_unruled=scenario.cluster.controller_config().allow_everyone_if_no_acl_found,
        )
    except AccessRefused as refused:
        raise click.UsageError(str(refused)) from None


def _listeners(
    wishes: tuple[str, ...],
    advertised: tuple[str, ...],
    security: ListenerSecurity,
    scenario: Scenario,
    host: str,
    port: int,
) -> ListenerSecurity:
    """With the listeners beside the first, and with the addresses to which clients of all of them are sent."""
    from scenarios.serve.access import AccessRefused
    from scenarios.serve.listeners import advertising, listeners_of

    brokers, in_zookeeper_era = list(scenario.cluster.brokers), scenario.rules.membership == "zk-session"
    try:
        more = listeners_of(wishes, brokers=brokers, first_port=port, first=security, in_zookeeper_era=in_zookeeper_era)
        return advertising(
            advertised,
            brokers=brokers,
            host=host,
            first_port=port,
            security=replace(security, listeners=more),
            in_zookeeper_era=in_zookeeper_era,
        )
    except AccessRefused as refused:
        raise click.UsageError(str(refused)) from None


def _security(
    users: tuple[str, ...],
    own_files: tuple[Path, Path] | None,
    certificates: Path | None,
    host: str,
    advertised: tuple[str, ...],
    super_users: tuple[str, ...] | None,
) -> ListenerSecurity:
    """certificates: the folder for those of a throw-away authority; None: there is to be none"""
    from cluster.security import OPEN, ListenerSecurity
    from scenarios.serve.access import AccessRefused, passwords_of

    if not (users or own_files or certificates) and super_users is None:
        return OPEN
    from scenarios.serve.listeners import hosts_of, throw_away_files
    from scenarios.serve.listeners import own_files as usable

    try:
        passwords = passwords_of(users)
        if own_files is not None:
            return ListenerSecurity.of(passwords, usable(*own_files), super_users)
        tls = None if certificates is None else throw_away_files(certificates, hosts_of(host, advertised))
        return ListenerSecurity.of(passwords, tls, super_users)
    except AccessRefused as refused:
        raise click.UsageError(str(refused)) from None
    except OSError as error:
        fail(f"{error.filename} cannot be written: {error.strerror}", ExitCode.MISSING, "choose --record DIR")


def _check_address(host: str) -> None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise click.UsageError(f"--host wants an IP address of this machine, not `{host}`") from None
    if address.version != 4:
        raise click.UsageError(f"--host wants an IPv4 address to listen on, not {host}")


def _warn_of_openness(host: str, *, has_users: bool, has_tls: bool) -> None:
    """has_users, has_tls: of every listener"""
    if not ipaddress.ip_address(host).is_loopback:
        lacking = [
            *([] if has_users else ["no authentication (--user)"]),
            *([] if has_tls else ["no encryption (--tls)"]),
        ]
        if lacking:
            told = (
                f"anyone who reaches {host} can read and write here" if not has_users else "passwords can be overheard"
            )
            click.echo(f"warning: {told}: there is {', '.join(lacking)}", err=True)


def _check_ports(port: int, brokers: int) -> None:
    if port + brokers - 1 > PORTS.max:  # type: ignore[operator]
        raise click.UsageError(f"{brokers} brokers need {brokers} ports from --port {port} up, and there are 65535")


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
        place = error.filename or record
        fail(
            f"the run cannot be kept in {place}: {error.strerror or error}",
            ExitCode.MISSING,
            "make room or choose another place with --record DIR",
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
