"""Single changes that would have saved a record: the same run played again, same seed, with one thing different.

No rule of thumb: each entry is a whole run, judged by the checker like any other. A change is a list of
`path=value` settings, so `highwater run` with the same settings shows the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from cluster.config import BrokerConfig
from replica.ids import ACKS_ALL
from replica.rules import PROFILES, Rules, contradiction, spelled
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario, TopicSpec
from scenarios.observe.wording import count_of
from scenarios.process.pool import in_order

FASTER_DETECTION = 3
"""By how much sessions and heartbeats are shortened."""


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """what: in a few words     settings: for `--set`, all of them together"""

    what: str
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordFate:
    """The fate of `record` under one change. fate: kept, aborted, refused, unanswered, unseen, missing or lost

    also_lost: other acked records that this run lost     no_writes_us: how long its partition took none
    """

    change: SettingsChange
    record: str
    fate: str
    also_lost: tuple[str, ...]
    no_writes_us: int

    @property
    def saved(self) -> bool:
        """No promise about the record was broken: it is there, its transaction was aborted, or its producer never got
        an ack for it."""
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
    def sentence(self) -> str:
        words = {
            "kept": "acked and kept",
            "aborted": "acked, and aborted with its transaction",
            "refused": "not acked: the producer got an error",
            "unanswered": "not acked: the producer got no answer that it is written",
            "unseen": "acked, but no consumer can read it",
            "missing": "never arrived",
            "lost": "acked and lost all the same",
        }
        parts = [words[self.fate]]
        if self.also_lost and self.saved:
            parts.append(f"but {count_of(len(self.also_lost), 'other record')} lost: {_some(self.also_lost)}")
        if self.no_writes_us:
            parts.append(f"no writes for {self.no_writes_us / 1e6:.1f} s")
        return "; ".join(parts)


def changes_for(scenario: Scenario, producer: str) -> list[SettingsChange]:
    """Changes worth trying for a record of `producer`: each saves it in some failures and only seems to in others."""
    workload = scenario.workloads[producer]
    topic = scenario.topics[workload.topic]
    return [
        *_promises(scenario, producer, topic),
        *_more_copies(scenario, topic),
        *_patience(scenario, topic),
        *_rules(scenario),
        *_eras(scenario),
    ]


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


def _more_copies(scenario: Scenario, topic: TopicSpec) -> Iterator[SettingsChange]:
    """One more replica of every partition, on an additional broker if all brokers have one already."""
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


def _rules(scenario: Scenario) -> Iterator[SettingsChange]:
    """Each rule that is not at its newest value, alone; a run without transactions has none to try theirs on."""
    for switch, value in Rules().unlike(scenario.rules).items():
        if switch == "transactions":
            continue
        if contradiction(scenario.rules.changed({switch: value})) is None:
            yield SettingsChange(f"{switch}: {spelled(value)}", (f"protocol.{switch}={spelled(value)}",))


def _eras(scenario: Scenario) -> Iterator[SettingsChange]:
    """Every newer era, with all its rules."""
    eras = list(PROFILES)
    for era in eras[eras.index(scenario.profile) + 1 :]:
        different = PROFILES[era].unlike(scenario.rules)
        if different:
            flips = (f"protocol.{switch}={spelled(value)}" for switch, value in different.items())
            yield SettingsChange(f"profile {era}", (f"profile={era}", *flips))


def play_changes(
    lock_text: str, records: Sequence[str], changes: Sequence[SettingsChange], processes: int
) -> Iterator[tuple[RecordFate, ...]]:
    """For each change, in order, the fate of each of `records`; all of one producer, named as in the run.

    lock_text: scenario.lock.yaml of the run. A change that makes no valid scenario of this one (a min ISR above the
    replicas, say) yields nothing.
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
    """summary: as in summary.json"""
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
    windows = [end - start for spans in summary["unavailable"].values() for start, end in spans]
    return RecordFate(change, record, fate, tuple(name for name in records["lost"] if name != record), sum(windows))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
