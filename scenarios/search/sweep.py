"""The runs of a sweep: the grid of settings that `--vary` spans, and a run as a function of (scenario, settings, seed).

A setting is a `path=value` as in `highwater run --set`. Nothing here knows Spark: its job is handed
`SweepScenario.play`. The runner is imported with this module, so that a worker has it before it forks.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import yaml

import scenarios.observe.trace_writer  # noqa: F401  The runner loads it with its first trace: after the fork.
from scenarios.language.diagnostics import Diagnostic, ScenarioInvalid
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.wording import replay_command
from scenarios.process.own_python import collect_rarely
from scenarios.run.cluster_under_test import NotPossibleNow
from scenarios.run.runner import run_scenario

Settings = tuple[str, ...]
"""One `path=value` for each path that varies, in the order of the command line."""

LATENCY_DIGITS = 3
"""Significant digits of the latencies in a row: a sweep keeps how many acks took how long, not each ack."""


class VaryUnreadable(ValueError):
    """A `--vary` that is not `path=value,value,...`; the text says why."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One `--vary`: a path and the values it takes, each as it is written."""

    path: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Axis:
        """`path=value,value,...`; a value with commas stands in quotes or brackets. raises: VaryUnreadable"""
        path, equals, rest = text.partition("=")
        path = path.strip()
        if not equals or not path or not rest.strip():
            raise VaryUnreadable(f"`{text}` is not path=value,value,... such as workloads.p1.config.acks=0,1,all")
        values = _flow_items(rest, text)
        for value in values:
            if values.count(value) > 1:
                raise VaryUnreadable(f"`{text}` holds the value `{value}` twice")
        return cls(path, values)


def _flow_items(rest: str, text: str) -> tuple[str, ...]:
    """The items of a YAML flow sequence without its brackets, each as it is written."""
    flow = f"[{rest}]"
    try:
        node = yaml.compose(flow, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise VaryUnreadable(f"the values of `{text}` cannot be read: separate them by commas") from error
    if not isinstance(node, yaml.SequenceNode) or node.end_mark.index != len(flow) or not node.value:
        raise VaryUnreadable(f"the values of `{text}` cannot be read: separate them by commas")
    items = tuple(flow[item.start_mark.index : item.end_mark.index].strip() for item in node.value)
    # A comma too many stands for an empty value, which YAML drops at the end of a list.
    if "" in items or rest.rstrip().endswith(","):
        raise VaryUnreadable(f"`{text}` has an empty value: one comma too many?")
    return items


def labels(axes: Sequence[Axis]) -> list[str]:
    """The name of each axis where room is short: Kafka's key, or the whole path where two would read alike."""
    short = [axis.path.rpartition("config.")[2] if "config." in axis.path else axis.path for axis in axes]
    return [axis.path if short.count(label) > 1 else label for axis, label in zip(axes, short, strict=True)]


def grid(axes: Sequence[Axis]) -> list[Settings]:
    """Every combination, the last axis fastest; one empty setting without axes. raises: VaryUnreadable"""
    paths = [axis.path for axis in axes]
    for path in paths:
        if paths.count(path) > 1:
            raise VaryUnreadable(f"`{path}` is varied twice: give all its values at once")
    spellings = [[f"{axis.path}={value}" for value in axis.values] for axis in axes]
    return list(itertools.product(*spellings))


@dataclass(frozen=True, slots=True)
class SweepScenario:
    """The scenario of a sweep, small enough to travel to every worker.

    named: as the user named it     text: its file     overrides: `--set`, in force in every run
    """

    named: str
    file: str
    text: str
    variant: str | None
    overrides: Settings

    def resolved(self, settings: Settings = ()) -> Scenario:
        """With the seed that the file gives. raises: ScenarioInvalid"""
        only = self.variant or "base"
        try:
            loaded = load_text(self.text, self.file, (*self.overrides, *settings), only)
        except ScenarioInvalid as invalid:
            raise _as_varied(invalid, settings) from None
        return loaded.scenario if only == "base" else loaded.variants[only]

    def play(self, settings: Settings, seed: int) -> dict[str, Any]:
        """One run; the figures of a row of the sweep, the same on every machine and at every time.

        Errors in the settings are in the row. raises: only on a bug in Highwater
        """
        collect_rarely()
        try:
            scenario = replace(_resolved(self, settings), seed=seed)
            result = run_scenario(scenario, runs_dir=None)
        except ScenarioInvalid as invalid:
            errors = [found.title for found in invalid.diagnostics if found.severity == "error"]
            return {"status": "invalid", "error": errors[0]}
        except NotPossibleNow as error:
            return {"status": "stopped", "error": str(error)}
        return figures(result.summary, result.ledger)

    def replay_command(self, settings: Settings, seed: int) -> str:
        """The command that plays the same run, byte for byte."""
        return replay_command(self.named, self.variant, seed, (*self.overrides, *settings))


@lru_cache(maxsize=256)
def _resolved(scenario: SweepScenario, settings: Settings) -> Scenario:
    return scenario.resolved(settings)


def invalid_values(
    scenario: SweepScenario, axes: Sequence[Axis], settings: Sequence[Settings]
) -> tuple[ScenarioInvalid | None, int]:
    """(why some value is wrong in every combination, how many combinations are invalid).

    A value that is valid in some combination is no mistake: combinations that refuse it become rows that say so.
    """
    refused = dict(_refused(scenario, settings))
    for axis in axes:
        for value in axis.values:
            spelled = f"{axis.path}={value}"
            having = [one for one in settings if spelled in one]
            if all(one in refused for one in having):
                return refused[having[0]], len(refused)
    if not axes and refused:
        return refused[()], 1
    return None, len(refused)


def _as_varied(invalid: ScenarioInvalid, settings: Settings) -> ScenarioInvalid:
    """The errors in `settings` come from a `--vary`, as the user has written it, not from a `--set`."""

    def told(found: Diagnostic) -> Diagnostic:
        place = found.place
        flag, _, setting = ("", "", "") if place is None else place.source.name.partition(" ")
        if place is None or flag != "--set" or setting not in settings:
            return found
        return replace(found, place=replace(place, source=replace(place.source, name=f"--vary {setting}")))

    return ScenarioInvalid(invalid.file, [told(found) for found in invalid.diagnostics])


def _refused(scenario: SweepScenario, settings: Sequence[Settings]) -> Iterator[tuple[Settings, ScenarioInvalid]]:
    for one in settings:
        try:
            scenario.resolved(one)
        except ScenarioInvalid as invalid:
            yield one, invalid


# ------------------------------------------------------------------------------------------------- figures of a run


def figures(summary: Mapping[str, Any], ledger: RecordLedger) -> dict[str, Any]:
    """The part of a run that a sweep keeps: counts of records by fate, times, and the digest of its trace."""
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
        "unavailable_us": sum(windows),
        "longest_unavailable_us": max(windows, default=0),
        "ack_latency_us": [latency_us for latency_us, _ in latencies],
        "ack_latency_acks": [acks for _, acks in latencies],
        "retries": summary["retries"],
        "events": summary["events"],
        "trace_sha256": summary["trace_sha256"],
    }


_FATES = ("acked", "failed", "unknown", "lost", "unseen", "missing", "duplicated", "reordered", "dirty")


def ack_latencies(ledger: RecordLedger) -> Counter[int]:
    """Acks by the microseconds from send to ack, rounded to LATENCY_DIGITS significant digits; acks=0 has none."""
    return Counter(_rounded(entry.acked_us - entry.sent_us) for entry in ledger if entry.acked_us is not None)


def _rounded(latency_us: int) -> int:
    return round(latency_us, min(0, LATENCY_DIGITS - len(str(latency_us))))
