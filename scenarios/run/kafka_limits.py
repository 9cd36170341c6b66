"""Finds the parts of a scenario that real Apache Kafka cannot run or show, and adapts a scenario to a Kafka release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from cluster.client.interceptors import NO_TIME
from cluster.config import CONSUMER, PIPELINE_KEYS
from replica.rules import PROFILES, Rules
from replica.trace import events as trace
from replica.trace.columns import GroupEvent
from replica.trace.events import CLASS_OF_EVENT, TraceEvent
from scenarios.check.event_watch import described
from scenarios.check.expectations import Expectation
from scenarios.language.expect import EventTest, Expect, TimeTest
from scenarios.language.spec import Scenario
from scenarios.language.steps import Step
from scenarios.language.verbs.checks import Check
from scenarios.language.verbs.clients import Produce
from scenarios.language.verbs.network import Hold
from scenarios.language.verbs.process import Wipe

KRAFT_SINCE = (3, 3)
"""The first Kafka release that Highwater runs with KRaft. It runs older releases with ZooKeeper."""
ELR_SINCE = (4, 0)
INVARIANT = "invariant"
ELR = "elr"
"""The only rule that can be switched in a cluster, as a feature. All other rules depend on the release."""
OF_NO_WEIGHT = (
    "heartbeats",
    "session-checks",
    "transactions",
    "group-rebalance",
    "quorum-vote",
    "reassignment-done",
    "marker-epoch",
)
"""Rules of minor effect. A scenario can run on a release in which they are different."""


def _reports_a_new_directory(scenario: Scenario) -> bool:
    return scenario.rules.elr and any(isinstance(step.payload, Wipe) for step in scenario.timeline)


def _has_members_of_kip_848(scenario: Scenario) -> bool:
    return any(transform.config.get("group.protocol") == CONSUMER for transform in scenario.transforms)


def _limits_memory(scenario: Scenario) -> bool:
    return any("buffer.memory" in producer.config for producer in scenario.producers)


WEIGH_WHERE: Mapping[str, Callable[[Scenario], bool]] = {
    "elr-on-directory-report": _reports_a_new_directory,
    "commit-epoch": _has_members_of_kip_848,
    "expired-memory": _limits_memory,
}
"""Rules that affect few scenarios, each with a function that returns True for an affected scenario.

Only a scenario that is not affected can run on a release in which the rule is different.
"""

NO_JAVA_CLIENT = {"transform": "transform records", "share_consumer": "share records of a group"}
ANOTHER_WAY = "; --clients highwater does"
NOT_ASKED = "Highwater does not send this request to Kafka yet"
UNPLAYABLE_VERBS = {
    "slow_disk": "the disk of a JVM cannot be slowed down without root",
    "fill_disk": "the disk of a JVM cannot be filled without filling this machine's disk",
    "fail_disk": "reads and writes of a JVM cannot be made to fail without root",
    "bump_clock": "a JVM uses the clock of this machine",
    "strobe_clock": "a JVM uses the clock of this machine",
    "create_partitions": NOT_ASKED,
    "delete_records": NOT_ASKED,
    "delete_group": NOT_ASKED,
    "delete_offsets": NOT_ASKED,
    "reset_offsets": NOT_ASKED,
    "abort_transaction": NOT_ASKED,
    "fence_producer": NOT_ASKED,
    "unregister_broker": NOT_ASKED,
    "add_voter": NOT_ASKED,
    "remove_voter": NOT_ASKED,
    "fail": "responses of a JVM cannot be replaced by errors",
    "loss": "only the kernel could drop TCP segments",
}
FLUSH_KEYS = ("flush.messages", "flush.ms", "log.flush.interval.messages", "log.flush.interval.ms")
UNSEEN_EVENTS: dict[type[TraceEvent], str] = {
    trace.FollowerFetched: "single fetches of followers are not visible",
    trace.RecordsSent: "single responses to fetches are not visible",
    trace.FetchRefused: "brokers do not log fetches that they refuse",
    trace.FetchThrottled: "brokers do not log this event",
    trace.ClientThrottled: "brokers do not log this event",
    trace.ResponseInjected: "a JVM has no such faults",
    trace.ClientQuotaAltered: "Highwater does not read quota records",
    trace.DivergenceFound: "brokers do not log this event",
    trace.IsrRejected: "the controller does not log this event",
    trace.ControlRequestRefused: "the controller does not log this event",
    trace.ElectionRefused: "the controller does not log this event",
    trace.RequestRefused: "brokers do not log this event",
    trace.RecordsExpired: "a log directory does not show why its log start offset advances",
    trace.LogDirFailed: "reads and writes of a JVM cannot be made to fail without root",
    trace.LogCompacted: "compacted topics are not played on Kafka",
    trace.KeysAppended: "compacted topics are not played on Kafka",
    trace.BatchCompacted: "compacted topics are not played on Kafka",
    trace.RequestCompleted: "stages of a request are not visible",
    trace.EventsLeftOut: "stages of a request are not visible",
    trace.LogFlushed: "flushes are not visible",
    trace.BrokerUnregistered: "Highwater does not read the records of unregistered brokers",
    trace.SessionExpired: "sessions of ZooKeeper belong to an earlier era",
    trace.ElectionBegan: "votes among controllers are not visible",
    trace.ControllerResigned: "votes among controllers are not visible",
    trace.VotersChanged: "Highwater does not read the records of voters",
    trace.VoterChangeFailed: "the controller does not log this event",
    trace.SnapshotWritten: "Highwater does not read snapshots",
    trace.SnapshotFetched: "Highwater does not read snapshots",
    trace.SnapshotLoaded: "Highwater does not read snapshots",
    trace.HighWatermarkAdvanced: "high watermarks are sampled, so some of their steps are not visible",
    trace.HighWatermarkLearned: "high watermarks are sampled, so some of their steps are not visible",
    trace.TransactionStateChanged: "Highwater does not read the log of a transaction coordinator",
    trace.TransactionsLoaded: "Highwater does not read the log of a transaction coordinator",
    trace.TransactionsUnloaded: "Highwater does not read the log of a transaction coordinator",
    trace.TransactionRefused: "brokers do not log this event",
    trace.TransactionMarkerWritten: "Highwater does not read markers",
    trace.LastStableOffsetMoved: "Highwater does not read last stable offsets",
    trace.InvariantBroken: "the checker sees too little of a real broker",
}
UNSEEN_EVENTS |= {
    kind: "Highwater does not read the log of a group coordinator"
    for kind in CLASS_OF_EVENT.values()
    if issubclass(kind, GroupEvent)
}
UNSEEN_EVENTS |= dict.fromkeys(
    (trace.ShareMemberJoined, trace.ShareMemberLeft, trace.ShareMemberAssigned),
    "Highwater does not read the log of a group coordinator",
)
UNSEEN_EVENTS |= dict.fromkeys(
    (
        trace.SharePartitionLoaded,
        trace.ShareStatesLoaded,
        trace.ShareStateReset,
        trace.ShareRecordsAcquired,
        trace.ShareRecordsSettled,
        trace.ShareDeadLettersSent,
    ),
    "the state of share groups is not visible; what members read and cannot acknowledge is",
)


@dataclass(frozen=True, slots=True)
class RealKafka:
    """A release of Kafka on which a scenario runs.

    Attributes:
        version: the release, such as 4.1.0.
        not_judged: expectations of the scenario that cannot be judged on real Kafka.
        slack_us: how long a `check` step waits for its conditions to hold.
    """

    version: str
    not_judged: tuple[Expectation, ...] = ()
    slack_us: int = 0

    def __str__(self) -> str:
        return f"{trace.REAL_KAFKA} {self.version}"


@dataclass(frozen=True, slots=True)
class Limit:
    """A part of a scenario that real Kafka cannot run. `line` is its line in the file, 0 if it has no single line."""

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
    """Return the newest era that is not later than a release, such as kafka-3.9 for 3.9.1 and for 4.0.0."""
    older = [name for name, rules in PROFILES.items() if rules.release <= number_of(version)]
    return older[-1] if older else next(iter(PROFILES))


def limits_of(scenario: Scenario, version: str, *, java_clients: bool = True) -> list[Limit]:
    """Return every part of a scenario that this version of Kafka cannot run.

    Args:
        java_clients: True if the clients are Kafka's own, False if they are Highwater's.
    """
    return [
        *_rule_limits(scenario, version),
        *_cluster_limits(scenario),
        *_topic_limits(scenario),
        *_client_limits(scenario, java_clients=java_clients),
        *_step_limits(scenario, java_clients=java_clients),
    ]


def _rule_limits(scenario: Scenario, version: str) -> Iterator[Limit]:
    there, written = PROFILES[era_of(version)], PROFILES[scenario.profile]
    idle = [switch for switch, weighs in WEIGH_WHERE.items() if not weighs(scenario)]
    if not written.unlike(there).keys() <= {ELR, *OF_NO_WEIGHT, *idle}:
        yield Limit(f"profile: {scenario.profile}", f"Kafka {version} has the rules of {era_of(version)}")
    for switch, value in scenario.rules.unlike(written).items():
        if switch != ELR and there.value(switch) != value:
            text = str(value).lower() if isinstance(value, bool) else value
            yield Limit(f"protocol.{switch}: {text}", f"the code of Kafka {version} has a different rule")
    if scenario.rules.elr and number_of(version) < ELR_SINCE:
        yield Limit("the rule elr", f"Kafka {version} has no eligible leader replicas, nor has `profile: kafka-3.9`")


def _cluster_limits(scenario: Scenario) -> Iterator[Limit]:
    for broker in scenario.cluster.brokers.values():
        if len(scenario.cluster.log_dirs(broker.name)) > 1:
            yield Limit(f"log.dirs of {broker.name}", "Highwater reads only one log directory of a JVM")
        if broker.disk is not None:
            yield Limit(f"cluster.brokers.{broker.name}.disk", UNPLAYABLE_VERBS["slow_disk"])
        if broker.cpu is not None:
            yield Limit(f"cluster.brokers.{broker.name}.cpu", "a JVM uses the processors of this machine")
    for topic in scenario.topics.values():
        if "compact" in topic.config.get("cleanup.policy", ""):
            what = f"topics.{topic.name}.config.cleanup.policy: compact"
            yield Limit(
                what, "Highwater does not know which records Kafka's log cleaner removes, so they would count as lost"
            )
    network = scenario.network
    if network.has_cards:
        yield Limit("network.card", "network cards exist only in virtual time")
    if any(link.loss_ppm is not None for link in network.links):
        yield Limit("network.links.loss", UNPLAYABLE_VERBS["loss"])


def _client_limits(scenario: Scenario, *, java_clients: bool) -> Iterator[Limit]:
    if not java_clients:
        return
    for name, workload in scenario.workloads.items():
        if workload.transaction is not None:
            yield Limit(f"workloads.{name}.transaction", f"Java clients cannot use transactions yet{ANOTHER_WAY}")
        if workload.kind in NO_JAVA_CLIENT:
            yield Limit(f"workloads.{name}", f"Java clients cannot {NO_JAVA_CLIENT[workload.kind]} yet{ANOTHER_WAY}")
            continue
        records = workload.records
        for key, is_there in (("timestamp", records.time is not None), ("headers", bool(records.headers))):
            if is_there:
                yield Limit(f"workloads.{name}.{key}", f"not supported for Java's producer yet{ANOTHER_WAY}")
        for key in (*(("cpu",) if workload.cpu != NO_TIME else ()), *(("process",) if workload.process_us else ())):
            yield Limit(f"workloads.{name}.{key}", f"the processing time of Java clients cannot be set{ANOTHER_WAY}")
        for key in PIPELINE_KEYS:
            if key in workload.config:
                yield Limit(f"workloads.{name}.config.{key}", f"Java clients send and read only bytes{ANOTHER_WAY}")


def _step_limits(scenario: Scenario, *, java_clients: bool) -> Iterator[Limit]:
    flushes = _flushes_by_itself(scenario)
    for step in scenario.timeline:
        if step.verb == "power_off" and flushes:
            yield Limit(
                step.verb,
                f"what a JVM flushed because of `{flushes}` is not visible, so it is not known what would survive",
                step.line,
            )
        if step.verb in UNPLAYABLE_VERBS:
            yield Limit(step.verb, UNPLAYABLE_VERBS[step.verb], step.line)
        elif isinstance(step.payload, Produce) and java_clients and (step.payload.time or step.payload.headers):
            yield Limit(
                "produce, timestamp or headers", f"not supported for Java's producer yet{ANOTHER_WAY}", step.line
            )
        elif isinstance(step.payload, Hold) and step.payload.part == "body":
            yield Limit("hold, part: body", "a JVM sends the body of a response together with its header", step.line)


def _topic_limits(scenario: Scenario) -> Iterator[Limit]:
    if not scenario.topics_at_the_start:
        yield Limit("topics", "steps create all topics, but a run begins only when all brokers know a topic")


def _flushes_by_itself(scenario: Scenario) -> str:
    """Return the first configuration key in the scenario that makes logs flush periodically, "" if there is none."""
    configs = [topic.config for topic in scenario.topics.values()]
    configs += [scenario.cluster.config, *(broker.config for broker in scenario.cluster.brokers.values())]
    found = [key for config in configs for key in FLUSH_KEYS if config.get(key, "never") != "never"]
    return found[0] if found else ""


# ---------------------------------------------------------------------------------------------------------- adaptation


def played_on(scenario: Scenario, version: str, slack_us: int) -> tuple[Scenario, RealKafka]:
    """Adapt a scenario to a Kafka release: change its rules, widen its time bounds, drop expectations without events.

    Args:
        slack_us: microseconds by which bounds are widened.

    Returns:
        The adapted scenario, and the release with the dropped expectations.
    """
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
        RealKafka(version, tuple(left_out), slack_us),
    )


def _rules_there(scenario: Scenario, version: str) -> Rules:
    return PROFILES[era_of(version)].changed({ELR: scenario.rules.elr})


def _judged(expect: Expect, has_registry: bool) -> tuple[Expect, list[Expectation]]:
    left_out: list[Expectation] = []
    verdict = expect.verdict
    if verdict is not None and INVARIANT in verdict:
        blind = UNSEEN_EVENTS[trace.InvariantBroken]
        left_out.append(Expectation(f"verdict {INVARIANT}", True, f"not judged on Kafka: {blind}", judged=False))
        verdict = tuple(kind for kind in verdict if kind != INVARIANT)
    events: list[EventTest] = []
    for test in expect.events:
        kind = CLASS_OF_EVENT[test.event]
        why = None if has_registry and kind is trace.SessionExpired else UNSEEN_EVENTS.get(kind)
        if why is None:
            events.append(test)
        else:
            left_out.append(Expectation(f"event {described(test)}", True, f"not judged on Kafka: {why}", judged=False))
    return replace(expect, verdict=verdict, events=tuple(events)), left_out


def _with_slack(expect: Expect, slack_us: int) -> Expect:
    return replace(
        expect,
        events=tuple(
            replace(test, between=wider(test.between, -slack_us if test.never else slack_us)) for test in expect.events
        ),
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
    """Return time bounds that are wider by `slack_us` on both sides, or narrower if it is negative."""
    if test is None:
        return None
    low = None if test.low_us is None else max(0, test.low_us - slack_us)  # A lock file cannot have negative times.
    return TimeTest(low, None if test.high_us is None else test.high_us + slack_us)
