"""The runs of a sweep: the grid of settings from `--vary`, and one run as a function of (scenario, settings, seed).

A setting is a `path=value` as in `highwater run --set`. This module does not depend on Spark, whose job calls
`SweepScenario.play`. It imports the runner at the top, so that a worker has it before it forks.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import yaml

import scenarios.observe.trace_writer  # noqa: F401  The runner loads it with its first trace: after the fork.
from scenarios.language.diagnostics import Diagnostic, ScenarioInvalid
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario
from scenarios.language.verbs.network import AddLatency, Loss
from scenarios.observe.availability import time_of_any
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.wording import replay_command
from scenarios.process.own_python import collect_rarely
from scenarios.run.cluster_under_test import NotPossibleNow
from scenarios.run.runner import run_scenario

Settings = tuple[str, ...]
"""One `path=value` for each varied path, in the order of the command line."""

LATENCY_DIGITS = 3
"""Significant digits of the latencies in a row, which counts acknowledgements by latency."""


class VaryUnreadable(ValueError):
    """Raised if an option `--vary` is not of the form `path=value,value,...`. The message is the reason."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One option `--vary`: a path in the scenario, and its values as the user wrote them."""

    path: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Axis:
        """Parse `path=value,value,...`. A value with commas needs quotes or brackets.

        Raises:
            VaryUnreadable: the text is not of this form, or has a value twice.
        """
        path, equals, rest = text.partition("=")
        path = path.strip()
        if not equals or not path or not rest.strip():
            raise VaryUnreadable(
                f"`{text}` does not have the form path=value,value,... such as workloads.p1.config.acks=0,1,all"
            )
        values = _flow_items(rest, text)
        for value in values:
            if values.count(value) > 1:
                raise VaryUnreadable(f"`{text}` has the value `{value}` twice")
        return cls(path, values)


def _flow_items(rest: str, text: str) -> tuple[str, ...]:
    """Split the items of a YAML flow sequence without brackets, and return them as they are written.

    Args:
        text: the whole option, for error messages.

    Raises:
        VaryUnreadable: this is no YAML, or an item is empty.
    """
    flow = f"[{rest}]"
    try:
        node = yaml.compose(flow, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise VaryUnreadable(f"the values of `{text}` cannot be read; separate them by commas") from error
    if not isinstance(node, yaml.SequenceNode) or node.end_mark.index != len(flow) or not node.value:
        raise VaryUnreadable(f"the values of `{text}` cannot be read; separate them by commas")
    items = tuple(flow[item.start_mark.index : item.end_mark.index].strip() for item in node.value)
    # An extra comma is an empty value, but YAML drops an empty value at the end of a list.
    if "" in items or rest.rstrip().endswith(","):
        raise VaryUnreadable(f"`{text}` has an empty value; remove the extra comma")
    return items


def labels(axes: Sequence[Axis]) -> list[str]:
    """Return a short name of each axis: the configuration key, or the whole path if two axes have the same key."""
    short = [axis.path.rpartition("config.")[2] if "config." in axis.path else axis.path for axis in axes]
    return [axis.path if short.count(label) > 1 else label for axis, label in zip(axes, short, strict=True)]


def grid(axes: Sequence[Axis]) -> list[Settings]:
    """Return every combination of values. The last axis varies fastest. Without axes, the result is [()].

    Raises:
        VaryUnreadable: a path is varied twice.
    """
    paths = [axis.path for axis in axes]
    for path in paths:
        if paths.count(path) > 1:
            raise VaryUnreadable(f"`{path}` is varied twice; give all its values in one --vary")
    spellings = [[f"{axis.path}={value}" for value in axis.values] for axis in axes]
    return list(itertools.product(*spellings))


@dataclass(frozen=True, slots=True)
class SweepScenario:
    """The scenario of a sweep in a small form that is sent to every worker.

    Attributes:
        named: the scenario as the user named it.
        text: content of its file.
        overrides: settings from `--set`, which apply to every run.
        config_files: (name, text) of each configuration file that the scenario refers to.
    """

    named: str
    file: str
    text: str
    variant: str | None
    overrides: Settings
    config_files: tuple[tuple[str, str], ...] = ()

    def resolved(self, settings: Settings = ()) -> Scenario:
        """Return the scenario with these settings and the seed in its file.

        Raises:
            ScenarioInvalid: a setting or the file is invalid.
        """
        only = self.variant or "base"
        try:
            files = dict(self.config_files)
            loaded = load_text(self.text, self.file, (*self.overrides, *settings), only, files)
        except ScenarioInvalid as invalid:
            raise _as_varied(invalid, settings) from None
        return loaded.scenario if only == "base" else loaded.variants[only]

    def play(self, settings: Settings, seed: int) -> dict[str, Any]:
        """Run the scenario once. Return the columns of its row, which are the same on every machine.

        An error in the settings is a column of the row. An exception of this method is a bug in Highwater.
        """
        collect_rarely()
        try:
            scenario = replace(_resolved(self, settings), seed=seed)
            result = run_scenario(scenario, runs_dir=None)
        except ScenarioInvalid as invalid:
            errors = [diagnostic.title for diagnostic in invalid.diagnostics if diagnostic.severity == "error"]
            return {"status": "invalid", "error": errors[0]}
        except NotPossibleNow as error:
            return {"status": "stopped", "error": str(error)}
        return figures(result.summary, result.ledger)

    def replay_command(self, settings: Settings, seed: int) -> str:
        """Return the shell command that repeats a run with an identical trace."""
        return replay_command(self.named, self.variant, seed, (*self.overrides, *settings))


@lru_cache(maxsize=256)
def _resolved(scenario: SweepScenario, settings: Settings) -> Scenario:
    return scenario.resolved(settings)


def invalid_values(
    scenario: SweepScenario, axes: Sequence[Axis], settings: Sequence[Settings]
) -> tuple[ScenarioInvalid | None, int]:
    """Find a value that is invalid in every combination. Invalid combinations of valid values are no mistake.

    Args:
        settings: all combinations.

    Returns:
        The error of the first such value, None if there is none, and the number of invalid combinations.
    """
    refused = dict(_refused(scenario, settings))
    for axis in axes:
        for value in axis.values:
            spelled = f"{axis.path}={value}"
            having = [setting for setting in settings if spelled in setting]
            if all(item in refused for item in having):
                return refused[having[0]], len(refused)
    if not axes and refused:
        return refused[()], 1
    return None, len(refused)


def _as_varied(invalid: ScenarioInvalid, settings: Settings) -> ScenarioInvalid:
    """Return an error whose diagnostics about `settings` refer to the user's option `--vary` instead of `--set`."""

    def varied(found: Diagnostic) -> Diagnostic:
        index = found.place
        flag, _, setting = ("", "", "") if index is None else index.source.name.partition(" ")
        if index is None or flag != "--set" or setting not in settings:
            return found
        return replace(found, place=replace(index, source=replace(index.source, name=f"--vary {setting}")))

    return ScenarioInvalid(invalid.file, [varied(diagnostic) for diagnostic in invalid.diagnostics])


def _refused(scenario: SweepScenario, settings: Sequence[Settings]) -> Iterator[tuple[Settings, ScenarioInvalid]]:
    for setting in settings:
        try:
            scenario.resolved(setting)
        except ScenarioInvalid as invalid:
            yield setting, invalid


def has_chance(scenario: Scenario) -> bool:
    """Return True if a run depends on the seed, apart from the clients' pauses before retries, which always vary."""
    network, cluster = scenario.network, scenario.cluster
    delays = [network.latency, *(link.latency for link in network.links)]
    payloads = [step.payload for step in scenario.timeline]
    delays += [payload.add for payload in payloads if isinstance(payload, AddLatency)]
    return (
        any(delay is not None and delay.kind != "constant" for delay in delays)
        or any(link.loss_ppm for link in network.links)
        or any(isinstance(payload, Loss) for payload in payloads)
        or "random" in (cluster.phases, cluster.heartbeats)
        or any(workload.arrival is not None and workload.arrival.poisson for workload in scenario.producers)
        # Controllers choose election timeouts at random, and producers choose partitions.
        or len(cluster.controllers) > 1
        or any(topic.partitions > 1 for topic in scenario.topics.values())
    )


# ------------------------------------------------------------------------------------------- what a setting decides


def without_difference(axes: Sequence[Axis], rows: Sequence[Mapping[str, Any]]) -> dict[str, Literal["any", "acks"]]:
    """Return the paths whose values made no difference to the results of the runs.

    Args:
        rows: results of each combination of values, in the order of `grid`, for the same seeds.

    Returns:
        For each such path, `any` if nothing differs, `acks` if only the latencies of acknowledgements differ.
    """
    found: dict[str, Literal["any", "acks"]] = {}
    for index, axis in enumerate(axes):
        groups: dict[Settings, list[Mapping[str, Any]]] = {}
        for row in rows:
            settings = tuple(row["settings"])
            groups.setdefault(settings[:index] + settings[index + 1 :], []).append(row)
        if len(axis.values) > 1 and all(map(_are_alike, groups.values())):
            acks_too = all(_are_alike(group, with_acks=True) for group in groups.values())
            found[axis.path] = "any" if acks_too else "acks"
    return found


def _are_alike(rows: Sequence[Mapping[str, Any]], *, with_acks: bool = False) -> bool:
    figures = [
        {
            name: value
            for name, value in row.items()
            if name not in ("setting", "settings") and not name.endswith("_replay")
            if with_acks or not name.startswith("ack_")
        }
        for row in rows
    ]
    return all(figure == figures[0] for figure in figures) and all(row["finished"] for row in rows)


# ------------------------------------------------------------------------------------------------- figures of a run


def figures(summary: Mapping[str, Any], ledger: RecordLedger) -> dict[str, Any]:
    """Return the columns of a finished run: counts of records by fate, times, and the digest of the trace."""
    records = summary["records"]
    windows = [until - since for found in summary["unavailable"].values() for since, until in found]
    latencies = sorted(ack_latencies(ledger).items())
    bugs = [anomaly["sentence"] for anomaly in summary["anomalies"] if anomaly["kind"] == "invariant"]
    return {
        "status": "finished",
        "error": bugs[0] if summary["our_bug"] and bugs else None,
        "our_bug": summary["our_bug"],
        "held": summary["held"],
        "verdict": summary["verdict"],
        "sent": records["sent"],
        **{fate: len(records[fate]) for fate in _FATES},
        "unavailable_us": time_of_any(summary["unavailable"]),
        "longest_unavailable_us": max(windows, default=0),
        "ack_latency_us": [latency_us for latency_us, _ in latencies],
        "ack_latency_acks": [acks for _, acks in latencies],
        "retries": summary["retries"],
        "events": summary["events"],
        "trace_sha256": summary["trace_sha256"],
    }


_FATES = ("acked", "failed", "unknown", "lost", "unseen", "missing", "duplicated", "reordered", "dirty")


def ack_latencies(ledger: RecordLedger) -> Counter[int]:
    """Return the number of acknowledgements by latency in microseconds, rounded to LATENCY_DIGITS digits."""
    return Counter(_rounded(entry.acked_us - entry.sent_us) for entry in ledger if entry.acked_us is not None)


def _rounded(latency_us: int) -> int:
    return round(latency_us, min(0, LATENCY_DIGITS - len(str(latency_us))))
