"""Find single changes that would have saved a record, by repeating the run with the same seed and one change.

Each result comes from a whole run with an ordinary verdict. A change is a list of `path=value` settings, so
`highwater run` with these settings gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from cluster.config import BrokerConfig
from replica.ids import ACKS_ALL
from replica.rules import PROFILES, Rules, Switch, contradiction, spelled
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario, TopicSpec
from scenarios.observe.availability import time_of_any
from scenarios.observe.wording import count_of
from scenarios.process.pool import in_order

FASTER_DETECTION = 3
"""Factor by which the change for faster failure detection shortens session timeouts and heartbeat intervals."""


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """A change of a run: its description, and the settings for `--set` that must be applied together."""

    what: str
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordFate:
    """The outcome of a record in a run with one change.

    Attributes:
        fate: kept, aborted, refused, unanswered, unseen, missing or lost.
        also_lost: other records that this run lost.
        no_writes_us: how long at least one partition accepted no writes, in microseconds.
        partitions: number of partitions that at some time accepted no writes.
    """

    change: SettingsChange
    record: str
    fate: str
    also_lost: tuple[str, ...]
    no_writes_us: int
    partitions: int = 1

    @property
    def saved(self) -> bool:
        """True if no promise about the record was broken.

        The record is in the log, or its transaction was aborted, or its producer never got an acknowledgement.
        """
        return self.fate in ("kept", "aborted", "refused", "unanswered")

    def as_json(self) -> dict[str, Any]:
        return {
            "change": self.change.what,
            "settings": list(self.change.settings),
            "saved": self.saved,
            "fate": self.fate,
            "also_lost": list(self.also_lost),
            "no_writes_us": self.no_writes_us,
        }

    @property
    def outcome(self) -> str:
        return {
            "kept": "acked and kept",
            "aborted": "acked, but aborted with its transaction",
            "refused": "not acked: the producer got an error",
            "unanswered": "not acked: the producer got no ack",
            "unseen": "acked, but no consumer can read it",
            "missing": "not acked, and missing",
            "lost": "acked, but lost",
        }[self.fate]

    @property
    def sentence(self) -> str:
        parts = [self.outcome]
        if self.also_lost and self.saved:
            parts.append(f"but {count_of(len(self.also_lost), 'other record')} lost: {_first_names(self.also_lost)}")
        if self.no_writes_us:
            where = "" if self.partitions == 1 else f" to one or more of {self.partitions} partitions"
            parts.append(f"no writes{where} for {self.no_writes_us / 1e6:.1f} s")
        return "; ".join(parts)


def changes_for(scenario: Scenario, producer: str) -> list[SettingsChange]:
    """Return the changes worth trying for a lost record of `producer`. Each saves records in some failures."""
    eras = list(PROFILES)
    newer = eras[eras.index(scenario.profile) + 1 :]
    rules = list(rules_for(scenario, Rules().unlike(scenario.rules)))
    elr = _elr_at_work(scenario, producer, rules)
    return [*settings_for(scenario, producer), *rules, *elr, *eras_for(scenario, newer)]


def settings_for(scenario: Scenario, producer: str) -> list[SettingsChange]:
    """Return the changes worth trying of Kafka's settings and of the number of replicas."""
    workload = scenario.workloads[producer]
    topic = scenario.topics[workload.topic]
    return [*_promises(scenario, producer, topic), *_more_copies(scenario, topic), *_patience(scenario, topic)]


def _promises(scenario: Scenario, producer: str, topic: TopicSpec) -> Iterator[SettingsChange]:
    acks = f"workloads.{producer}.config.acks=all"
    two = f"topics.{topic.name}.config.min.insync.replicas=2"
    waits_for_all = scenario.workloads[producer].producer_config().required_acks == ACKS_ALL
    one_is_enough = scenario.topic_config(topic.name).min_insync_replicas == 1 and topic.replication_factor > 1
    if not waits_for_all:
        yield SettingsChange("acks=all", (acks,))
    if one_is_enough:
        yield SettingsChange("min.insync.replicas=2", (two,))
    if one_is_enough and not waits_for_all:
        yield SettingsChange("acks=all and min.insync.replicas=2", (acks, two))


def _elr_at_work(scenario: Scenario, producer: str, rules: Sequence[SettingsChange]) -> Iterator[SettingsChange]:
    """Yield ELR together with min.insync.replicas=2, because ELR has no effect with min.insync.replicas=1."""
    topic = scenario.topics[scenario.workloads[producer].topic]
    two = [promise for promise in _promises(scenario, producer, topic) if "min.insync.replicas=2" in promise.what][-1:]
    for rule in rules:
        if two and rule.settings == ("protocol.elr=true",):
            yield SettingsChange(f"{rule.what}, {two[0].what}", (*rule.settings, *two[0].settings))


def _more_copies(scenario: Scenario, topic: TopicSpec) -> Iterator[SettingsChange]:
    """Yield a change that adds one replica to every partition, on a new broker if every broker has a replica."""
    what = f"replication factor {topic.replication_factor + 1}"
    brokers = list(scenario.cluster.brokers)
    assignment = topic.assignment or ()
    spare = [name for name in brokers if not any(name in replicas for replicas in assignment)]
    settings: list[str] = []
    if topic.assignment is None and len(brokers) > topic.replication_factor:
        yield SettingsChange(what, (f"topics.{topic.name}.replication_factor={topic.replication_factor + 1}",))
        return
    if not spare:
        taken = {*scenario.cluster.ids, *scenario.workloads}
        new = next(name for number in count(1) if (name := f"b{number}") not in taken)
        settings.append(f"cluster.brokers.{new}={{}}")
        spare = [new]
    if topic.assignment is None:
        settings.append(f"topics.{topic.name}.replication_factor={topic.replication_factor + 1}")
    for number, replicas in enumerate(assignment):
        settings.append(f"topics.{topic.name}.partitions.{number}=[{', '.join((*replicas, spare[0]))}]")
    yield SettingsChange(what, tuple(settings))


def _patience(scenario: Scenario, topic: TopicSpec) -> Iterator[SettingsChange]:
    config = scenario.topic_config(topic.name)
    if config.unclean_leader_election_enable:
        yield SettingsChange(
            "unclean.leader.election.enable=false",
            (f"topics.{topic.name}.config.unclean.leader.election.enable=false",),
        )
    if config.flush_messages != 1:
        yield SettingsChange(
            "flush.messages=1 (fsync of every batch)", (f"topics.{topic.name}.config.flush.messages=1",)
        )
    brokers = BrokerConfig.from_mapping(scenario.cluster.config)
    session_ms = brokers.broker_session_timeout_ms // FASTER_DETECTION
    heartbeat_ms = min(brokers.broker_heartbeat_interval_ms, session_ms // 3)
    yield SettingsChange(
        f"faster failure detection ({session_ms} ms)",
        (
            f"cluster.config.broker.session.timeout.ms={session_ms}",
            f"cluster.config.broker.heartbeat.interval.ms={heartbeat_ms}",
        ),
    )


def rules_for(scenario: Scenario, values: Mapping[str, Switch]) -> Iterator[SettingsChange]:
    """Yield a change for each switch in `values` whose value differs from the scenario's, except `transactions`."""
    for switch, value in values.items():
        if switch == "transactions" or value == scenario.rules.value(switch):
            continue
        if contradiction(scenario.rules.changed({switch: value})) is None:
            yield SettingsChange(f"{switch}: {spelled(value)}", (f"protocol.{switch}={spelled(value)}",))


def eras_for(scenario: Scenario, eras: Sequence[str]) -> Iterator[SettingsChange]:
    """Yield a change to each era whose rules differ from the scenario's.

    The change sets the profile and every switch of the protocol that differs.
    """
    for era in eras:
        different = PROFILES[era].unlike(scenario.rules)
        if different:
            flips = (f"protocol.{switch}={spelled(value)}" for switch, value in different.items())
            yield SettingsChange(f"profile {era}", (f"profile={era}", *flips))


def play_changes(
    lock_text: str, records: Sequence[str], changes: Sequence[SettingsChange], processes: int
) -> Iterator[tuple[RecordFate, ...]]:
    """Repeat a run with each change, and yield the outcome of each of `records` with this change.

    If a change makes the scenario invalid, such as a min ISR above the number of replicas, yield an empty tuple.

    Args:
        lock_text: content of the run's scenario.lock.yaml.
        records: names of records of one producer.
        processes: number of processes that repeat runs in parallel.
    """
    return in_order(_play, [(lock_text, tuple(records), change) for change in changes], processes)


def _play(job: tuple[str, tuple[str, ...], SettingsChange]) -> tuple[RecordFate, ...]:
    from scenarios.run.cluster_under_test import NotPossibleNow
    from scenarios.run.runner import run_scenario

    lock_text, records, change = job
    try:
        scenario = load_text(lock_text, "scenario.lock.yaml", change.settings).scenario
        summary = run_scenario(scenario, runs_dir=None, traced=False).summary
    except (ScenarioInvalid, NotPossibleNow):
        return ()
    return tuple(outcome_of(summary, record, change) for record in records)


def outcome_of(summary: dict[str, Any], record: str, change: SettingsChange) -> RecordFate:
    """Return the outcome of a record in a run with one change. `summary` is the content of its summary.json."""
    records = summary["records"]
    fates = {
        "lost": "lost",
        "missing": "missing",
        "unseen": "unseen",
        "aborted": "aborted",
        "acked": "kept",
        "failed": "refused",
    }
    fate = next((fate for kind, fate in fates.items() if record in records.get(kind, ())), "unanswered")
    also_lost = tuple(name for name in records["lost"] if name != record)
    blocked = {name: windows for name, windows in summary["unavailable"].items() if windows}
    return RecordFate(change, record, fate, also_lost, time_of_any(blocked), len(blocked))


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
