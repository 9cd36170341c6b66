"""Checks on a whole scenario: impossible combinations (errors), and probable mistakes (warnings)."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.config import CONSUMER
from replica.ids import ACKS_ALL, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica.rules import PROFILES, WITH_BROKERS_PATTERNS, WITH_GROUP_SETTINGS
from replica.trace.ranges import split_record_name
from scenarios.language.diagnostics import Diagnostic, Place
from scenarios.language.parse.process_order import (
    kills_of_a_dead_leader,
    names_of,
    path_of,
    report_order,
    report_topics,
    report_unchosen,
    sent_too_late,
)
from scenarios.language.selectors import Term
from scenarios.language.spec import RUN_BYTES_MAX, RUN_RECORDS_MAX, Scenario, Workload
from scenarios.language.steps import DEFAULT, At, Payload, Step
from scenarios.language.values.reading import Reader
from scenarios.language.verbs.clients import Produce
from scenarios.language.verbs.cluster import (
    CancelReassign,
    MorePartitions,
    Reassign,
    RemoveGroup,
    RemoveOffsets,
    RemoveRecords,
    RemoveTopic,
    SetConfig,
    SetQuota,
    Throttle,
    Unregister,
    UpdateFeatures,
)
from scenarios.language.verbs.network import AddLatency, Cut, Loss, PartitionNetwork
from scenarios.language.verbs.process import Pause, Resume

FIRINGS_MAX = 10_000
_OF_KRAFT = (
    MorePartitions, CancelReassign, Reassign, RemoveTopic, SetQuota, Throttle, Unregister, UpdateFeatures
)  # fmt: skip
_ERA_OF: Mapping[type[Payload], str] = {
    RemoveRecords: "kafka-0.11",
    RemoveGroup: "kafka-2.0",
    RemoveOffsets: "kafka-2.7",
}
"""The first whose brokers can be asked. source: KIP-107 (0.11), KIP-229 (1.1), KIP-496 (2.4)"""


def lint(scenario: Scenario, reader: Reader) -> None:
    """Adds its findings to the reader's problems. A part that is already wrong is not judged a second time."""
    _limits(scenario, reader)
    if not _has_error(reader, "timeline"):
        report_unchosen(scenario, reader)
        for needless in report_order(scenario, reader):
            _does_nothing(needless.step, reader, needless.why)
        _needless_resumes(scenario, reader)
        report_topics(scenario, reader)
        _wrong_era(scenario, reader)
    _patterns_too_early(scenario, reader)
    _keys_without_effect(reader)
    _durability(scenario, reader)
    _coordinators(scenario, reader)
    _same_transactional_id(scenario, reader)
    _quotas_without_client(scenario, reader)
    for step, deletion in sent_too_late(scenario):
        title = (
            f"step {step.index + 1} sends to a topic that step {deletion.index + 1} has deleted, and that no step makes"
        )
        warn(reader, "W209", title, f"{path_of(step)}.{step.verb}", path_of(step))
    if not _has_error(reader, "duration"):
        _timing(scenario, reader)
    if scenario.expect.verdict is None:
        warn(reader, "W204", "no `expect`: this run can neither pass nor fail", "title")


def _has_error(reader: Reader, part: str) -> bool:
    return any(found.severity == "error" and (found.path or "").startswith(part) for found in reader.problems.found)


def warn(reader: Reader, code: str, title: str, *paths: str) -> None:
    """At the first of `paths` that exists in the file."""
    place: Place | None = next((reader.places[path] for path in paths if path in reader.places), None)
    if place is not None:
        reader.problems.add(Diagnostic(code=code, title=title, place=place, path=paths[0]))


# ------------------------------------------------------------------------------------------------------------- errors


def _limits(scenario: Scenario, reader: Reader) -> None:
    """A scenario is untrusted data: the objects that it asks for are counted before anything is built."""
    firings = sum(step.times for step in scenario.timeline)
    produced = [(step.payload, step.times) for step in scenario.timeline if isinstance(step.payload, Produce)]
    sent = [(payload.count * times, payload.size_bytes) for payload, times in produced]
    for workload in scenario.producers:
        if workload.arrival is not None:
            span_us = max(0, scenario.sends_until_us(workload) - workload.start_us)
            sent.append((span_us * workload.arrival.count // workload.arrival.period_us, workload.size_bytes))
    records, size = sum(count for count, _ in sent), sum(count * each for count, each in sent)
    place = reader.places.get("timeline") or reader.places.get("workloads")
    if place is None:
        return
    if firings > FIRINGS_MAX:
        reader.error(
            "E140", f"the timeline fires {firings:,} steps; allowed are {FIRINGS_MAX:,}", place, path="timeline"
        )
    if records > RUN_RECORDS_MAX:
        reader.error("E140", f"about {records:,} records; allowed are {RUN_RECORDS_MAX:,}", place, path="timeline")
    elif size > RUN_BYTES_MAX:
        title = f"about {size:,} bytes of records; allowed are {RUN_BYTES_MAX:,}"
        reader.error("E140", title, place, path="timeline")


def _does_nothing(step: Step, reader: Reader, why: str) -> None:
    warn(reader, "W205", f"step {step.index + 1} {why}", f"{path_of(step)}.{step.verb}", path_of(step))


def _keys_without_effect(reader: Reader) -> None:
    """W211: one for the whole file."""
    names = sorted(reader.without_effect)
    if names:
        one = len(names) == 1
        title = f"{len(names)} key{'' if one else 's'} of brokers {'has' if one else 'have'} no effect here: "
        place = min(reader.without_effect.values(), key=lambda place: (place.line, place.column))
        reader.problems.add(Diagnostic(code="W211", title=title + ", ".join(names), place=place))


def _needless_resumes(scenario: Scenario, reader: Reader) -> None:
    """W205 for a resume of what no step has paused by then; silent where the run decides."""
    steps = [step for step in scenario.timeline if isinstance(step.payload, (Pause, Resume))]
    if any(not names_of(step.payload) or not isinstance(step.trigger, At) for step in steps):
        return
    for step in steps:
        if not isinstance(step.payload, Resume):
            continue
        paused = [
            node
            for other in steps
            if isinstance(other.payload, Pause) and _first_us(other) <= _first_us(step)
            for node in names_of(other.payload)
        ]
        for node in names_of(step.payload):
            if node not in paused:
                _does_nothing(step, reader, f"resumes {node}, which nothing has paused")


def _first_us(step: Step) -> int:
    return step.trigger.at_us if isinstance(step.trigger, At) else 0


def _records_never_sent(scenario: Scenario, reader: Reader) -> None:
    """W207 for an expected record that comes after the last one of its producer."""
    limits: dict[str, int] = {}
    for producer in scenario.producers:
        steps = (step for step in scenario.timeline if isinstance(step.payload, Produce))
        limits[producer.prefix] = _arrivals_at_most(scenario, producer) + sum(
            step.payload.count * step.times
            for step in steps
            if isinstance(step.payload, Produce) and step.payload.producer == producer.name
        )
    for transform in scenario.transforms:
        for producer in scenario.producers:
            if producer.topic in transform.topics:
                limits[f"{transform.prefix}{producer.prefix}"] = limits[producer.prefix]
    expected = [(f"expect.records.{test.kind}", test.at_least or ()) for test in scenario.expect.records]
    expected += [(f"expect.logs.{test.partition}", test.records) for test in scenario.expect.logs]
    for path, names in expected:
        for name in names:
            prefix, number = split_record_name(name)
            limit = limits.get(prefix, 0)
            if number >= limit:
                sent = f"{limit} record{'' if limit == 1 else 's'}"
                warn(reader, "W207", f"{name} is expected, but its producer sends {sent} in all", path, "expect")
                break


def _arrivals_at_most(scenario: Scenario, producer: Workload) -> int:
    """Records that a rate brings, of a process that is never down; of a poisson process that is luck."""
    arrival = producer.arrival
    if arrival is None:
        return 0
    if arrival.poisson:
        return RUN_RECORDS_MAX
    span_us = max(0, scenario.sends_until_us(producer) - producer.start_us)
    batches = -(-span_us * arrival.count // (arrival.period_us * producer.batch))
    return batches * producer.batch


def _wrong_era(scenario: Scenario, reader: Reader) -> None:
    """E120 for requests that so far only a KRaft controller takes; a topic's settings are in the registry. And for
    settings of groups before groups have some.
    """
    if scenario.rules.membership != "zk-session":
        _group_settings_too_early(scenario, reader)
        return
    eras = list(PROFILES)
    for step in scenario.timeline:
        place = reader.places.get(f"{path_of(step)}.{step.verb}")
        of_brokers = isinstance(step.payload, SetConfig) and step.payload.topic is None
        since = _ERA_OF.get(type(step.payload))
        title = label = ""
        if of_brokers or isinstance(step.payload, _OF_KRAFT):
            title = f"`{step.verb}`{' of brokers' if of_brokers else ''} is not yet supported in the ZooKeeper era"
            label = "it needs `membership: registration`"
        elif since is not None and eras.index(f"kafka-{scenario.rules.release}") < eras.index(since):
            title, label = f"brokers of {scenario.rules.release} have no `{step.verb}`", f"take `profile: {since}`"
        if title and place is not None:
            reader.error("E120", title, place, path=f"{path_of(step)}.{step.verb}", label=label)


def _group_settings_too_early(scenario: Scenario, reader: Reader) -> None:
    if scenario.rules.release in WITH_GROUP_SETTINGS:
        return
    for step in scenario.timeline:
        if isinstance(step.payload, SetConfig) and step.payload.group is not None:
            path = f"{path_of(step)}.{step.verb}"
            label = f"take `profile: kafka-{WITH_GROUP_SETTINGS[0]}` or a later one"
            reader.error(
                "E120", "groups have no settings before Kafka 4.0", reader.places[path], path=path, label=label
            )


def _patterns_too_early(scenario: Scenario, reader: Reader) -> None:
    """E120 for a pattern that the brokers of the era cannot evaluate."""
    if scenario.rules.release in WITH_BROKERS_PATTERNS:
        return
    for workload in scenario.transforms:
        if workload.pattern and workload.config.get("group.protocol") == CONSUMER:
            path = f"workloads.{workload.name}.topics"
            title = f"`{workload.name}` subscribes by a pattern: brokers evaluate those of KIP-848 since Kafka 4.0"
            label = (
                f"take `profile: kafka-{WITH_BROKERS_PATTERNS[0]}`, or drop `group.protocol`: its client evaluates it"
            )
            place = reader.places.get(path, reader.places[f"workloads.{workload.name}"])
            reader.error("E120", title, place, path=path, label=label)


# ----------------------------------------------------------------------------------------------------------- warnings


def _durability(scenario: Scenario, reader: Reader) -> None:
    """W201, W202: a min.insync.replicas too small or too large for acks=all."""
    if reader.problems.any_error:
        return
    for needless in kills_of_a_dead_leader(scenario):
        _does_nothing(needless.step, reader, needless.why)
    _records_never_sent(scenario, reader)
    for producer in scenario.producers:
        if producer.producer_config().required_acks == ACKS_ALL and producer.topic in scenario.topics:
            _min_isr(scenario, reader, producer)


def _min_isr(scenario: Scenario, reader: Reader, producer: Workload) -> None:
    topic = scenario.topics[producer.topic]
    minimum = scenario.topic_config(topic.name).min_insync_replicas
    paths = (f"topics.{topic.name}.config.min.insync.replicas", f"topics.{topic.name}")
    if topic.replication_factor > 1 and minimum == 1:
        warn(reader, "W201", "acks=all with min.insync.replicas=1: the leader alone may be `all`", *paths)
    elif minimum > topic.replication_factor and scenario.rules.hw_advance == "isr":
        above = f"min.insync.replicas ({minimum}) is above the replication factor ({topic.replication_factor})"
        warn(reader, "W202", f"no acks=all write is accepted: {above}", *paths)
    elif minimum > topic.replication_factor:
        # Since KAFKA-15583: Kafka's Partition.effectiveMinIsr
        counted = f"min.insync.replicas ({minimum}) counts as {topic.replication_factor}, the replication factor"
        warn(reader, "W202", f"{counted}: one slow broker stops acks=all", *paths)
    elif topic.replication_factor > 1 and minimum == topic.replication_factor:
        title = f"min.insync.replicas ({minimum}) equals the replication factor: one slow broker stops acks=all"
        warn(reader, "W202", title, *paths)


def _coordinators(scenario: Scenario, reader: Reader) -> None:
    """W208: the controller refuses a coordinator's topic that wants more replicas than there are brokers."""
    if reader.problems.any_error:
        return
    config, brokers = scenario.cluster.controller_config(), len(scenario.cluster.brokers)
    there = "1 broker" if brokers == 1 else f"{brokers} brokers"
    topics = {
        "group.id": (OFFSETS_TOPIC, config.offsets_topic_replication_factor, "offsets.topic"),
        "transactional.id": (
            TRANSACTIONS_TOPIC,
            config.transaction_state_log_replication_factor,
            "transaction.state.log",
        ),
    }
    for workload in scenario.workloads.values():
        for key, (topic, factor, setting) in topics.items():
            if key in workload.config and factor > brokers:
                why = f"{topic} cannot be made on {there} with {setting}.replication.factor={factor}"
                path = f"workloads.{workload.name}"
                warn(reader, "W208", f"`{workload.name}` waits for ever: {why}", f"{path}.config.{key}", path)


def _same_transactional_id(scenario: Scenario, reader: Reader) -> None:
    """W210: of producers that begin together, one is fenced by the other. A zombie is another case: its successor
    begins later, or a step stops or freezes one of the two."""
    touched = {name for step in scenario.timeline for name in names_of(step.payload)}
    first: dict[tuple[str, int], Workload] = {}
    for workload in scenario.workloads.values():
        transactional_id = workload.config.get("transactional.id")
        if transactional_id is None or workload.name in touched:
            continue
        other = first.setdefault((transactional_id, workload.start_us), workload)
        if other is not workload:
            path = f"workloads.{workload.name}"
            both = f"`{other.name}` and `{workload.name}` begin together with one transactional.id"
            title = f"{both}: the later one to ask for it fences the earlier"
            warn(reader, "W210", title, f"{path}.config.transactional.id", path)


def _quotas_without_client(scenario: Scenario, reader: Reader) -> None:
    """W205: a quota for a client.id that no workload has. Workloads are clients of that name."""
    for step in scenario.timeline:
        if isinstance(step.payload, SetQuota):
            client = step.payload.client
            if client is not None and client not in (DEFAULT, *scenario.workloads):
                there = ", ".join(scenario.workloads)
                _does_nothing(step, reader, f"changes nothing: no workload is called {client}; there are {there}")


def _timing(scenario: Scenario, reader: Reader) -> None:
    """W203, W205, W206."""
    for step in scenario.timeline:
        if isinstance(step.trigger, At) and step.trigger.at_us > scenario.duration_us:
            warn(
                reader,
                "W203",
                f"step {step.index + 1} comes after the end of the run",
                f"{path_of(step)}.at",
                path_of(step),
            )
        payload = step.payload
        nothing = (isinstance(payload, AddLatency) and payload.add.least_us + payload.add.spread_us == 0) or (
            isinstance(payload, Loss) and payload.rate_ppm == 0
        )
        if nothing:
            warn(
                reader, "W205", f"step {step.index + 1} changes nothing", f"{path_of(step)}.{step.verb}", path_of(step)
            )
    for number, question in enumerate(scenario.questions, 1):
        if question.at_us is not None and question.at_us > scenario.duration_us:
            path = f"questions.{number}"
            warn(reader, "W203", f"question {number} is asked after the end of the run", f"{path}.at", path)
    for workload in scenario.workloads.values():
        if workload.start_us > scenario.duration_us:
            path = f"workloads.{workload.name}"
            warn(reader, "W203", f"`{workload.name}` starts after the end of the run", f"{path}.start", path)
    if "replica.lag.max.messages" in scenario.cluster.config and scenario.rules.isr_lag != "messages":
        title = "`replica.lag.max.messages` changes nothing: since 0.9 lag is time (`protocol: {isr-lag: messages}`)"
        warn(reader, "W205", title, "cluster.config.replica.lag.max.messages", "cluster.config")
    if reader.problems.any_error:
        return
    lag_us = scenario.cluster.controller_config().replica_lag_time_max_ms * 1000
    if (
        any(_parts_brokers(step.payload, scenario) for step in scenario.timeline)
        and scenario.duration_us < lag_us * 3 // 2
    ):
        title = (
            f"the run ends before 1.5 x replica.lag.time.max.ms ({lag_us * 3 // 2 / 1e6:g} s): the ISR may never shrink"
        )
        warn(reader, "W206", title, "duration")


def _parts_brokers(payload: Payload, scenario: Scenario) -> bool:
    """Whether brokers are on two sides of a fault that can make a follower fall behind."""
    match payload:
        case PartitionNetwork():
            sides = payload.islands
        case Cut() | Loss():
            sides = payload.between
        case _:
            return False
    return sum(any(_may_be_broker(term, scenario) for term in side.terms) for side in sides) >= 2


def _may_be_broker(term: Term, scenario: Scenario) -> bool:
    return (
        term.names[0] in scenario.cluster.brokers if term.kind == "node" else term.kind not in ("controller", "clients")
    )
