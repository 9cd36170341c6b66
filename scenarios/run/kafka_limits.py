"""What of a scenario Apache Kafka cannot play or show, said before anything starts, and the scenario that it plays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cluster.client.interceptors import NO_TIME
from cluster.config import PIPELINE_KEYS
from replica.rules import PROFILES, Rules
from replica.trace import events as trace
from replica.trace.events import CLASS_OF_EVENT, TraceEvent
from scenarios.check.event_watch import described
from scenarios.check.expectations import Expectation
from scenarios.language.expect import EventTest, Expect, TimeTest
from scenarios.language.spec import Scenario
from scenarios.language.steps import Step
from scenarios.language.verbs.checks import Check
from scenarios.language.verbs.network import Hold

KRAFT_SINCE = (3, 3)
"""Older releases are played with ZooKeeper, as their eras are."""
ELR_SINCE = (4, 0)
ELR = "elr"
"""The one rule that is a feature of a cluster; each other rule is the code of a release."""
OF_NO_WEIGHT = ("heartbeats", "session-checks", "transactions", "group-rebalance")
"""Rules that an older era may have otherwise: a scenario written for it is played all the same."""

NOT_ASKED = "it is not asked of a JVM yet"
UNPLAYABLE_VERBS = {
    "slow_disk": "the disk of a JVM cannot be slowed down without root",
    "fill_disk": "the disk of a JVM cannot be filled for it alone",
    "fail_disk": "reads and writes of a JVM cannot be made to fail without root",
    "bump_clock": "a JVM has the clock of this machine",
    "strobe_clock": "a JVM has the clock of this machine",
    "create_partitions": NOT_ASKED,
    "delete_records": NOT_ASKED,
    "delete_group": NOT_ASKED,
    "delete_offsets": NOT_ASKED,
    "unregister_broker": NOT_ASKED,
    "loss": "a lost segment needs the kernel: TCP would send it again",
}
FLUSH_KEYS = ("flush.messages", "flush.ms", "log.flush.interval.messages", "log.flush.interval.ms")
UNSEEN_EVENTS: dict[type[TraceEvent], str] = {
    trace.FollowerFetched: "single fetches of followers cannot be seen",
    trace.RecordsSent: "single answers to fetches cannot be seen",
    trace.FetchRefused: "brokers do not log fetches that they refuse",
    trace.FetchThrottled: "brokers do not log it",
    trace.ClientThrottled: "brokers do not log it",
    trace.ClientQuotaAltered: "records of quotas are not looked at",
    trace.DivergenceFound: "brokers do not log it",
    trace.IsrRejected: "the controller does not log it",
    trace.ControlRequestRefused: "the controller does not log it",
    trace.LogFlushed: "a flush cannot be seen",
    trace.BrokerUnregistered: "that a broker is unregistered is not looked at",
    trace.SessionExpired: "sessions of ZooKeeper are of another era",
    trace.ElectionBegan: "votes among controllers cannot be seen",
    trace.SnapshotWritten: "snapshots are not looked at",
    trace.SnapshotFetched: "snapshots are not looked at",
    trace.SnapshotLoaded: "snapshots are not looked at",
    trace.HighWatermarkAdvanced: "high watermarks are sampled, so some of their steps are not seen",
    trace.HighWatermarkLearned: "high watermarks are sampled, so some of their steps are not seen",
    trace.TransactionStateChanged: "the log of a transaction coordinator is not looked at",
    trace.TransactionRefused: "brokers do not log it",
    trace.TransactionMarkerWritten: "markers are not looked at",
    trace.LastStableOffsetMoved: "last stable offsets are not looked at",
    trace.InvariantBroken: "the checker sees too little of a real broker",
}


@dataclass(frozen=True, slots=True)
class RealKafka:
    """What a run on real Kafka is judged without. version: such as 4.1.0     not_judged: what its file expects more"""

    version: str
    not_judged: tuple[Expectation, ...] = ()

    def __str__(self) -> str:
        return f"{trace.REAL_KAFKA} {self.version}"


@dataclass(frozen=True, slots=True)
class Limit:
    """Something that cannot be played. line: in the file, 0 if it is about no single line"""

    what: str
    why: str
    line: int = 0

    @property
    def is_about_era(self) -> bool:
        return self.what.startswith("profile: ")

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


def number_of(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def era_of(version: str) -> str:
    """The newest era whose rules this release has: kafka-3.9 for 3.9.1 and for 4.0.0."""
    older = [name for name in PROFILES if number_of(name.removeprefix("kafka-")) <= number_of(version)]
    return older[-1] if older else next(iter(PROFILES))


def limits_of(scenario: Scenario, version: str, *, java_clients: bool = True) -> list[Limit]:
    """Everything of it that Kafka of this version cannot play; empty if it can be played.

    java_clients: clients are Kafka's own; else they are Highwater's
    """
    return [
        *_rule_limits(scenario, version),
        *_cluster_limits(scenario),
        *_topic_limits(scenario),
        *_client_limits(scenario, java_clients=java_clients),
        *_step_limits(scenario),
    ]


def _rule_limits(scenario: Scenario, version: str) -> Iterator[Limit]:
    there, written = PROFILES[era_of(version)], PROFILES[scenario.profile]
    if not written.unlike(there).keys() <= {ELR, *OF_NO_WEIGHT}:
        yield Limit(f"profile: {scenario.profile}", f"Kafka {version} has the rules of {era_of(version)}")
    for switch, value in scenario.rules.unlike(written).items():
        if switch != ELR and there.value(switch) != value:
            text = str(value).lower() if isinstance(value, bool) else value
            yield Limit(f"protocol.{switch}: {text}", f"the code of Kafka {version} has another rule")
    if scenario.rules.elr and number_of(version) < ELR_SINCE:
        yield Limit("the rule elr", f"Kafka {version} has no eligible leader replicas, nor has `profile: kafka-3.9`")


def _cluster_limits(scenario: Scenario) -> Iterator[Limit]:
    for broker in scenario.cluster.brokers.values():
        if len(scenario.cluster.log_dirs(broker.name)) > 1:
            yield Limit(f"log.dirs of {broker.name}", "only one log directory of a JVM is looked at")
        if broker.disk is not None:
            yield Limit(f"cluster.brokers.{broker.name}.disk", UNPLAYABLE_VERBS["slow_disk"])
        if broker.cpu is not None:
            yield Limit(f"cluster.brokers.{broker.name}.cpu", "a JVM has the processors of this machine")
    for topic in scenario.topics.values():
        if "compact" in topic.config.get("cleanup.policy", ""):
            what = f"topics.{topic.name}.config.cleanup.policy: compact"
            yield Limit(what, "what the cleaner of a JVM takes is not looked at, and would count as lost")
    network = scenario.network
    if network.has_cards:
        yield Limit("network.card", "network cards are for virtual time")
    if any(link.loss_ppm is not None for link in network.links):
        yield Limit("network.links.loss", UNPLAYABLE_VERBS["loss"])


def _client_limits(scenario: Scenario, *, java_clients: bool) -> Iterator[Limit]:
    if not java_clients:
        return
    another_way = "; --clients highwater does"
    for name, workload in scenario.workloads.items():
        if workload.transaction is not None:
            yield Limit(f"workloads.{name}.transaction", f"Java's clients are given no transactions yet{another_way}")
        if workload.kind == "transform":
            yield Limit(f"workloads.{name}", f"no application of a JVM transforms yet{another_way}")
            continue
        for key in (*(("cpu",) if workload.cpu != NO_TIME else ()), *(("process",) if workload.process_us else ())):
            yield Limit(f"workloads.{name}.{key}", f"Java's clients take the time that they take{another_way}")
        for key in PIPELINE_KEYS:
            if key in workload.config:
                yield Limit(f"workloads.{name}.config.{key}", f"Java's clients send and read bytes{another_way}")


def _step_limits(scenario: Scenario) -> Iterator[Limit]:
    flushes = _flushes_by_itself(scenario)
    for step in scenario.timeline:
        if step.verb == "power_off" and flushes:
            yield Limit(step.verb, f"what a JVM has flushed by `{flushes}` cannot be seen, so not left", step.line)
        if step.verb in UNPLAYABLE_VERBS:
            yield Limit(step.verb, UNPLAYABLE_VERBS[step.verb], step.line)
        elif isinstance(step.payload, Hold) and step.payload.part == "body":
            yield Limit(
                "hold, part: body", "the bytes of an answer leave a JVM's files together with its header", step.line
            )


def _topic_limits(scenario: Scenario) -> Iterator[Limit]:
    if not scenario.topics_at_the_start:
        yield Limit("topics", "a run begins when all brokers know one, and steps make them all")


def _flushes_by_itself(scenario: Scenario) -> str:
    """The key by which a log is flushed apart from the end of its segments; empty if there is none."""
    configs = [topic.config for topic in scenario.topics.values()]
    configs += [scenario.cluster.config, *(broker.config for broker in scenario.cluster.brokers.values())]
    found = [key for config in configs for key in FLUSH_KEYS if config.get(key, "never") != "never"]
    return found[0] if found else ""


# ------------------------------------------------------------------------------------------------ what is played there


def played_on(scenario: Scenario, version: str, slack_us: int) -> tuple[Scenario, RealKafka]:
    """The scenario with the rules of that release, its times with a slack, and without what is not judged there."""
    rules = _rules_there(scenario, version)
    era = scenario.profile if rules == scenario.rules else era_of(version)
    expect, left_out = _judged(scenario.expect, number_of(version) < KRAFT_SINCE)
    return (
        replace(
            scenario,
            profile=era,
            rules=rules,
            expect=_with_slack(expect, slack_us),
            timeline=tuple(_step_with_slack(step, slack_us) for step in scenario.timeline),
        ),
        RealKafka(version, tuple(left_out)),
    )


def _rules_there(scenario: Scenario, version: str) -> Rules:
    return PROFILES[era_of(version)].changed({ELR: scenario.rules.elr})


def _judged(expect: Expect, has_registry: bool) -> tuple[Expect, list[Expectation]]:
    left_out: list[Expectation] = []
    events: list[EventTest] = []
    for test in expect.events:
        kind = CLASS_OF_EVENT[test.event]
        why = None if has_registry and kind is trace.SessionExpired else UNSEEN_EVENTS.get(kind)
        if why is None:
            events.append(test)
        else:
            left_out.append(Expectation(f"event {described(test)}", True, f"not judged on Kafka: {why}", judged=False))
    return replace(expect, events=tuple(events)), left_out


def _with_slack(expect: Expect, slack_us: int) -> Expect:
    return replace(
        expect,
        events=tuple(replace(test, between=wider(test.between, slack_us)) for test in expect.events),
        errors=tuple(
            replace(test, first=wider(test.first, slack_us), last=wider(test.last, slack_us)) for test in expect.errors
        ),
        latency=tuple(replace(test, bounds=wider(test.bounds, slack_us) or test.bounds) for test in expect.latency),
        unavailable=tuple(
            replace(
                test,
                windows=tuple(replace(window, slack_us=window.slack_us + slack_us) for window in test.windows),
            )
            for test in expect.unavailable
        ),
    )


def _step_with_slack(step: Step, slack_us: int) -> Step:
    if isinstance(step.payload, Check) and step.payload.clock is not None:
        return replace(step, payload=replace(step.payload, clock=wider(step.payload.clock, slack_us)))
    return step


def wider(test: TimeTest | None, slack_us: int) -> TimeTest | None:
    if test is None:
        return None
    low = None if test.low_us is None else max(0, test.low_us - slack_us)  # A lock with a time before 0 cannot be read.
    return TimeTest(low, None if test.high_us is None else test.high_us + slack_us)
