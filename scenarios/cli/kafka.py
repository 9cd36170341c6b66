"""`highwater kafka`: installs, lists and removes versions of Apache Kafka; only `install` uses the network."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scenarios.cli.common import CommandGroup, fail, format_option, plain_option, print_json, style_for_stdout
from scenarios.cli.worlds import kafka_or_fail
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import WaitingLine

if TYPE_CHECKING:
    from cluster.kafka.home import KafkaJars

SAID_EVERY_S = 1.0


class KafkaVersion(click.ParamType):  # type: ignore[type-arg]
    """A parameter that is a version of Apache Kafka, such as `4.1.0`."""

    name = "VERSION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from cluster.kafka.home import VERSION_FORM

        if re.fullmatch(VERSION_FORM, str(value), re.ASCII):
            return str(value)
        self.fail(f"`{value}` is not a Kafka version; write, for example, 4.1.0", param, ctx)


version_argument = click.argument("version", type=KafkaVersion())


@click.group(cls=CommandGroup)
def kafka() -> None:
    """Manage the versions of Apache Kafka on which scenarios can be played (`run --on kafka`)."""


class ProgressOfInstall:
    """A callable that shows the progress of an installation in one line; it is redrawn on a terminal, else repeated."""

    def __init__(self, line: WaitingLine) -> None:
        self._line = line
        self._said_s = 0.0

    def __call__(self, text: str) -> None:
        now_s = time.monotonic()
        if sys.stderr.isatty() or now_s - self._said_s >= SAID_EVERY_S:
            self._said_s = now_s
            self._line.wait_for(text)


@kafka.command()
@version_argument
@plain_option
def install(version: str, plain: bool) -> int:
    """Get a version of Apache Kafka through Maven, and keep it in your cache folder (~/.cache/highwater/kafka).

    Maven's own settings (~/.m2/settings.xml) decide where the jars come from. Their checksums are verified and kept.
    """
    from cluster.kafka.home import cache_folder
    from cluster.kafka.installation import install as install_version

    cache = cache_folder(os.environ)
    with kafka_or_fail(), WaitingLine(f"installing Kafka {version}") as line:
        try:
            home, no_archive = install_version(version, os.environ, ProgressOfInstall(line))
        except OSError as error:
            why = error.strerror or str(error)
            fail(
                f"{cache} cannot be written to: {why}",
                ExitCode.MISSING,
                "free some disk space, or set XDG_CACHE_HOME to another folder",
            )
    style = style_for_stdout(plain)
    click.echo(
        f"  {style.paint(style.sign('good'), 'green')} Kafka {version}, {_size(home.jars)} in {home.jars.folder}"
    )
    click.echo(f"    runs on Java {home.java.version}; try it: highwater run acks1-leader-kill --on kafka:{version}")
    if no_archive is not None:
        click.echo(f"    {style.sign('note')} its JVMs start slowly, because there is no class archive: {no_archive}")
    return ExitCode.HELD


@kafka.command("list")
@format_option
@plain_option
def list_versions(format_: str, plain: bool) -> int:
    """List the installed versions and check their jars. The exit code is 6 if a jar has changed."""
    from cluster.kafka.home import ARCHIVE, TRIED, cache_folder, installed

    found = [(jars, jars.damaged()) for jars in installed(os.environ)]
    if format_ == "json":
        rows = [
            {
                "version": jars.version,
                "folder": str(jars.folder),
                "bytes": _bytes(jars.folder),
                "zookeeper": jars.zookeeper,
                "class_archive": any(jars.folder.glob(ARCHIVE.format(build="*"))),
                "damaged": damaged,
            }
            for jars, damaged in found
        ]
        print_json({"folder": str(cache_folder(os.environ)), "versions": rows})
    elif not found:
        click.echo(f"  No version of Kafka is installed. Install one: highwater kafka install {TRIED[0]}")
    else:
        style = style_for_stdout(plain)
        for jars, damaged in found:
            sign, colour = ("bad", "red") if damaged else ("good", "green")
            registry = f", with ZooKeeper {jars.zookeeper}" if jars.zookeeper else ""
            click.echo(f"  {style.paint(style.sign(sign), colour)} {jars.version:<8} {_size(jars)}{registry}")
            click.echo(f"    {jars.folder}")
            if damaged:
                click.echo(f"    changed since the installation: {', '.join(damaged)}")
                click.echo(f"    = fix: highwater kafka install {jars.version}")
    return ExitCode.MISSING if any(damaged for _, damaged in found) else ExitCode.HELD


@kafka.command()
@version_argument
def remove(version: str) -> int:
    """Delete an installed version from your cache folder; Maven's own copies stay in its repository (~/.m2)."""
    from cluster.kafka.home import installed
    from cluster.kafka.installation import remove as remove_version

    known = {jars.version: jars for jars in installed(os.environ)}
    if version not in known:
        there = f"choose one of {', '.join(known)}" if known else "no version of Kafka is installed"
        fail(f"Kafka {version} is not installed", ExitCode.USAGE, there)
    size = _size(known[version])
    try:
        remove_version(known[version])
    except OSError as error:
        fail(f"{known[version].folder} cannot be deleted: {error.strerror or error}", ExitCode.MISSING)
    click.echo(f"  Kafka {version} was deleted ({size}).")
    return ExitCode.HELD


def _size(jars: KafkaJars) -> str:
    return f"{_bytes(jars.folder) / 1e6:.0f} MB"


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
