"""The modes ("worlds") in which a command can play a scenario: `--on sim`, `--on live` and `--on kafka[:VERSION]`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scenarios.cli.common import execute, fail, load_scenario
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.style import folded, table_lines

if TYPE_CHECKING:
    from cluster.kafka.home import KafkaHome
    from scenarios.language.spec import Scenario
    from scenarios.run.kafka_limits import Limit
    from scenarios.run.runner import RunResult
    from scenarios.run.worlds import NewWorld
    from scenarios.terminal.style import Style

C = TypeVar("C", bound=Callable[..., Any])
DEFAULT_SLACK = "2s"


@dataclass(frozen=True, slots=True)
class WorldName:
    """The name of a mode, as written after --on.

    Attributes:
        kind: `sim`, `live` or `kafka`.
        version: version of Kafka; None for the newest installed version.
    """

    kind: str
    version: str | None = None

    def __str__(self) -> str:
        return self.kind if self.version is None else f"{self.kind}:{self.version}"


class WorldType(click.ParamType):  # type: ignore[type-arg]
    """A parameter that names a mode: `sim`, `live`, `kafka`, or a version such as `kafka:4.1.0`."""

    name = "MODE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> WorldName:
        if isinstance(value, WorldName):
            return value
        match = re.fullmatch(r"(sim|live)|(kafka)(?::(\d{1,4}(?:\.\d{1,4}){1,3}))?", str(value), re.ASCII)
        if match is None:
            self.fail(f"`{value}` is not a mode; choose sim, live, kafka or kafka:VERSION, such as kafka:4.1.0", param)
        return WorldName(match[1] or match[2], match[3])


class WorldsType(WorldType):
    """A parameter that names several modes, separated by commas."""

    name = "MODE,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        return tuple(WorldType.convert(self, part, param, ctx) for part in str(value).split(","))


class SlackType(click.ParamType):  # type: ignore[type-arg]
    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from scenarios.language.values.reading import TIME_MAX_US, parse_time

        found = parse_time(str(value))
        if found is None or found[0] > TIME_MAX_US:
            self.fail(f"`{value}` is not a time such as 500ms or 2s", param, ctx)
        return found[0]


def kafka_options(command: C) -> C:
    """Add the options --kafka-home, --slack and --clients to a command that plays on real Kafka."""
    home = click.option(
        "--kafka-home",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="With Kafka: folder of an unpacked release or of its jars, instead of an installed version.",
    )
    slack = click.option(
        "--slack",
        "slack_us",
        type=SlackType(),
        default=DEFAULT_SLACK,
        show_default=True,
        help="With Kafka: how far events may be from the times in the file, and how long checks wait.",
    )
    clients = click.option(
        "--clients",
        type=click.Choice(["java", "highwater"]),
        help="With Kafka: which clients to use, Kafka's own (java, the default) or Highwater's.",
    )
    return home(slack(clients(command)))


on_option = click.option(
    "--on",
    "on",
    type=WorldType(),
    help="Mode: sim (virtual time, the default), live (TCP), kafka or kafka:4.1.0 (real Kafka).",
)


class ChosenWorld:
    """The mode chosen on the command line, which plays scenarios.

    Raises:
        click.UsageError: an option does not belong to this mode.
        click.exceptions.Exit: Kafka or Java is missing; the error has been printed.
    """

    def __init__(
        self,
        name: WorldName,
        *,
        in_processes: bool = False,
        kafka_home: Path | None = None,
        slack_us: int = 0,
        clients: str | None = None,
    ) -> None:
        if in_processes and name.kind != "live":
            raise click.UsageError("--processes works only in live runs: add --live")
        if kafka_home is not None and name.kind != "kafka":
            raise click.UsageError("--kafka-home works only in runs on Kafka: add --on kafka")
        if clients is not None and name.kind != "kafka":
            raise click.UsageError("--clients works only in runs on Kafka: add --on kafka")
        self.name = name
        self._in_processes = in_processes
        self._slack_us = slack_us
        self._home = _home(name.version, kafka_home) if name.kind == "kafka" else None
        self._plays_java_clients = clients != "highwater"

    @property
    def comes_back(self) -> bool:
        """True if this mode is deterministic, so that the same command always gives the same run."""
        return self.name.kind == "sim"

    def must_play(self, scenarios: Sequence[Scenario]) -> None:
        """End the command with an error, before anything starts, if this mode cannot play one of the scenarios."""
        if self.name.kind == "live":
            for scenario in scenarios:
                refuse_cards(scenario)
        limits = {scenario.run_name: found for scenario in scenarios if (found := self.limits(scenario))}
        if limits:
            lines = [line for name, found in limits.items() for line in (f"  {name}:", *map(_limit_line, found))]
            fail(
                "\n".join([f"{self} cannot play this:", *lines]),
                ExitCode.INVALID_SCENARIO,
                f"play it in virtual time (without --on){self._other_rules(limits)}, or list what Kafka can play: "
                "highwater list --on kafka",
            )
        if self._home is not None:
            self._client_classes(self._home)  # Report missing Java classes before the first run.

    def _other_rules(self, limits: Mapping[str, list[Limit]]) -> str:
        """Return advice to use the rules of the Kafka release; empty if the scenario's era is not the problem."""
        if self._home is None or not any(limit.is_about_era for found in limits.values() for limit in found):
            return ""
        from scenarios.run.kafka_limits import era_of

        return f" or by the rules of this release (--set profile={era_of(self._home.version)})"

    def _client_classes(self, home: KafkaHome) -> Path | None:
        return java_client_classes(home) if self._plays_java_clients else None

    def limits(self, scenario: Scenario) -> list[Limit]:
        if self._home is None:
            return []
        from scenarios.run.kafka_limits import limits_of

        return limits_of(scenario, self._home.version, java_clients=self._plays_java_clients)

    def play(self, scenario: Scenario, runs_dir: Path | None, *, keep_logs: bool = True) -> RunResult:
        if self._home is None:
            return execute(scenario, runs_dir, keep_logs=keep_logs, world=self._world())
        from cluster.kafka.fabric import KafkaNotUp
        from scenarios.run.kafka_limits import played_on
        from scenarios.run.on_kafka import on_kafka

        played, real = played_on(scenario, self._home.version, self._slack_us)
        try:
            return execute(
                played,
                runs_dir,
                keep_logs=keep_logs,
                world=on_kafka(self._home, self._client_classes(self._home)),
                real=real,
            )
        except KafkaNotUp as error:
            fail(f"Kafka {self._home.version} did not start: {error}", ExitCode.MISSING, "highwater doctor")

    def _world(self) -> NewWorld | None:
        if self.name.kind == "sim":
            return None
        from scenarios.run.worlds import live, processes

        return processes if self._in_processes else live

    def __str__(self) -> str:
        match self.name.kind:
            case "kafka":
                assert self._home is not None
                return f"Kafka {self._home.version}"
            case "live":
                return "a live cluster"
        return "the simulator"


def refuse_cards(scenario: Scenario) -> None:
    """Refuse a scenario that limits network cards, for a mode other than the simulator.

    Raises:
        click.UsageError: the scenario limits network cards.
    """
    if scenario.network.has_cards:
        raise click.UsageError(
            "`network.card` and `network.cards` work only in virtual time; remove them for a live cluster"
        )


@contextmanager
def kafka_or_fail(another_way: str = "") -> Iterator[None]:
    """End the command with exit code 6 if the block finds that Kafka, Java or Maven is missing.

    Args:
        another_way: an alternative, appended to the advice.
    """
    from cluster.kafka.java import KafkaMissing

    try:
        yield
    except KafkaMissing as missing:
        fail(str(missing), ExitCode.MISSING, missing.fix + another_way)


def _home(version: str | None, folder: Path | None) -> KafkaHome:
    from cluster.kafka.home import find_home

    with kafka_or_fail():
        return find_home(version, folder, os.environ)


def java_client_classes(home: KafkaHome) -> Path:
    from cluster.kafka.installation import client_classes

    with kafka_or_fail("; or use --clients highwater"):
        try:
            return client_classes(home, os.environ)
        except OSError as error:
            fail(
                f"the Java clients cannot be stored: {error}",
                ExitCode.MISSING,
                "free disk space, or use --clients highwater",
            )


def _limit_line(limit: Limit) -> str:
    where = f" (line {limit.line})" if limit.line else ""
    return f"    {limit.what}{where}: {limit.why}"


# ------------------------------------------------------------------------------------------------------ list --on kafka


def playable_on_kafka(version: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each scenario: its runs, with the reasons why this version of Kafka cannot play a run."""
    from scenarios.run.kafka_limits import limits_of

    rows = []
    for name in names:
        file = load_scenario(name)
        runs = [
            {"variant": scenario.variant or "base", "limits": list(map(str, limits_of(scenario, version)))}
            for scenario in file.all
        ]
        rows.append({"id": name, "runs": runs})
    return rows


def playable_lines(version: str, rows: Sequence[Mapping[str, Any]], style: Style) -> list[str]:
    """Return the lines of a table: for each scenario, how many runs Kafka can play, and why not the others."""
    width = max(len(row["id"]) for row in rows)
    table = [("SCENARIO", f"RUNS ON KAFKA {version}")]
    for row in rows:
        kept_out = [run for run in row["runs"] if run["limits"]]
        played = len(row["runs"]) - len(kept_out)
        mark = style.sign("good") if played else style.sign("bad")
        texts = [f"{mark} {'all' if not kept_out else played or 'none'} of {len(row['runs'])}"]
        texts += [f"cannot play {run['variant']}: {'; '.join(run['limits'])}" for run in kept_out]
        wrapped = [part for text in texts for part in folded(text, style.width - width - 4, rest="  ")]
        table.append((row["id"], "\n".join(wrapped)))
    runs = [run for row in rows for run in row["runs"]]
    played = sum(1 for run in runs if not run["limits"])
    head, *lines = table_lines(table)
    return [style.bold(head), *lines, "", f"  {played} of {len(runs)} runs can be played on Kafka {version}"]


def version_to_list(name: WorldName) -> str:
    """Return the newest installed version of Kafka that matches the name, or else the newest that is known to work.

    Raises:
        click.UsageError: the name is not `kafka` or `kafka:VERSION`.
    """
    from cluster.kafka.home import TRIED, installed, is_of_version

    if name.kind != "kafka":
        raise click.UsageError(f"`list --on` takes kafka or kafka:VERSION, not {name}")
    known = [jars.version for jars in reversed(installed(os.environ))]
    there = (version for version in (*known, *TRIED) if is_of_version(version, name.version))
    return next(there, name.version or TRIED[0])
