"""Checks of a whole scenario, which report impossible combinations as errors and probable mistakes as warnings."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.config import CONSUMER
from cluster.known_keys import INSTEAD
from replica.ids import ACKS_ALL, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica.rules import NEXT_COORDINATOR_SINCE, KafkaRelease, first_era
from replica.trace.ranges import split_record_name
from scenarios.language.diagnostics import Diagnostic, Place
from scenarios.language.parse.process_order import (
    kills_of_a_dead_leader,
    names_of,
    path_of,
    report_order,
    report_topics,
    report_unchosen,
    restarts_one_after_another,
    sent_too_late,
)
from scenarios.language.selectors import Term
from scenarios.language.spec import RUN_BYTES_MAX, RUN_RECORDS_MAX, Scenario, Workload
from scenarios.language.steps import DEFAULT, At, Payload, Step
from scenarios.language.values.reading import Reader
from scenarios.language.values.trees import time_text
from scenarios.language.verbs.clients import Produce
from scenarios.language.verbs.cluster import (
    CancelReassign,
    DropVoter,
    EndHangingTransaction,
    FenceOff,
    MakeVoter,
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
KEYS_SHOWN_MAX = 60
_OF_KRAFT = (
    MorePartitions, CancelReassign, DropVoter, MakeVoter, Reassign, RemoveTopic, SetQuota, Throttle, Unregister,
    UpdateFeatures,
)  # fmt: skip
_ERA_OF: Mapping[type[Payload], KafkaRelease] = {
    RemoveRecords: KafkaRelease(0, 11),
    RemoveGroup: KafkaRelease(2, 0),
    RemoveOffsets: KafkaRelease(2, 7),
    EndHangingTransaction: KafkaRelease(0, 11),
    FenceOff: KafkaRelease(0, 11),
}
"""The release from which brokers of the ZooKeeper era support a step. Steps without an entry need no release.

Source: KIP-107, KIP-98 (0.11), KIP-229 (1.1), KIP-496 (2.4)
"""


def lint(scenario: Scenario, reader: Reader) -> None:
    """Report impossible combinations and probable mistakes. Blocks of the file that have errors already are skipped."""
    _limits(scenario, reader)
    _timestamps(scenario, reader)
    if not _has_error(reader, "timeline"):
        report_unchosen(scenario, reader)
        for needless in report_order(scenario, reader):
            _does_nothing(needless.step, reader, needless.why)
        _needless_resumes(scenario, reader)
        _restarts_that_kill(scenario, reader)
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
            f"step {step.index + 1} sends to a topic that step {deletion.index + 1} deleted and no step creates again"
        )
        warn(reader, "W209", title, f"{path_of(step)}.{step.verb}", path_of(step))
    if not _has_error(reader, "duration"):
        _timing(scenario, reader)
    if scenario.expect.verdict is None and scenario.variant is None:  # The loader reports this for variants.
        warn(reader, "W204", "no `expect`: this run can neither pass nor fail", "title")


def _has_error(reader: Reader, part: str) -> bool:
    return any(found.severity == "error" and (found.path or "").startswith(part) for found in reader.problems.found)


def warn(reader: Reader, code: str, title: str, *paths: str) -> None:
    """Report a warning at the first of `paths` that exists in the file."""
    place: Place | None = next((reader.places[path] for path in paths if path in reader.places), None)
    if place is not None:
        reader.problems.add(Diagnostic(code=code, title=title, place=place, path=paths[0]))


# ------------------------------------------------------------------------------------------------------------- errors


def _limits(scenario: Scenario, reader: Reader) -> None:
    """Report E140 for a scenario that asks for too many steps, records or bytes. Scenarios are untrusted input."""
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
            "E140", f"the timeline fires {firings:,} steps; at most {FIRINGS_MAX:,} are allowed", place, path="timeline"
        )
    if records > RUN_RECORDS_MAX:
        reader.error(
            "E140",
            f"the run would send about {records:,} records; at most {RUN_RECORDS_MAX:,} are allowed",
            place,
            path="timeline",
        )
    elif size > RUN_BYTES_MAX:
        title = f"the run would send about {size:,} bytes of records; at most {RUN_BYTES_MAX:,} are allowed"
        reader.error("E140", title, place, path="timeline")


def _timestamps(scenario: Scenario, reader: Reader) -> None:
    """Report timestamps before 1970, when virtual time begins.

    Source: ProducerRecord's constructor
    """
    times = [
        (f"{path_of(step)}.produce.timestamp", step.payload.time, step.trigger.at_us)
        for step in scenario.timeline
        if isinstance(step.payload, Produce) and isinstance(step.trigger, At)
    ]
    times += [
        (f"workloads.{producer.name}.timestamp", producer.records.time, producer.start_us)
        for producer in scenario.producers
    ]
    for path, time, at_us in times:
        if time is not None and time.ms(at_us) < 0 and path in reader.places:
            title = f"at {time_text(at_us)} a timestamp {time_text(-time.ahead_us)} in the past is before 1970"
            label = "virtual time begins in 1970, and Kafka's producer refuses earlier timestamps"
            reader.error("E112", title, reader.places[path], path=path, label=label)


def _does_nothing(step: Step, reader: Reader, why: str) -> None:
    warn(reader, "W205", f"step {step.index + 1} {why}", f"{path_of(step)}.{step.verb}", path_of(step))


def _keys_without_effect(reader: Reader) -> None:
    """Report W211 and W212 (keys of Kafka without effect here), each at most once for the whole file."""
    for code, found, item, several in (
        ("W211", reader.inert["neutral"], "key has no effect here", "keys have no effect here"),
        ("W212", reader.inert["not yet"], "Kafka key is not yet supported", "Kafka keys are not yet supported"),
    ):
        if not found:
            continue
        names = sorted(found)
        counted = f"{len(names)} {item if len(names) == 1 else several}: "
        shown = ", ".join(names[:KEYS_SHOWN_MAX]) + (", ..." if len(names) > KEYS_SHOWN_MAX else "")
        notes = tuple(f"help: instead of `{name}`: {INSTEAD[name]}" for name in names if name in INSTEAD)
        place = min(found.values(), key=lambda place: (place.source.name, place.line, place.column))
        reader.problems.add(Diagnostic(code=code, title=counted + shown, place=place, notes=notes))


def _restarts_that_kill(scenario: Scenario, reader: Reader) -> None:
    """Report W213 once if steps `restart` one broker after another, because `restart` kills the broker."""
    step = restarts_one_after_another(scenario)
    if step is not None:
        title = f"step {step.index + 1} restarts another broker: `restart` kills it and waits for nothing"
        path = f"{path_of(step)}.{step.verb}"
        place = reader.places.get(path) or reader.places[path_of(step)]
        label = "to restart brokers one after another, use `rolling_restart: [b1, b2, b3]`"
        reader.problems.add(Diagnostic(code="W213", title=title, place=place, path=path, label=label))


def _needless_resumes(scenario: Scenario, reader: Reader) -> None:
    """Report W205 for resuming a node that no step has paused. Skip files in which that depends on the run."""
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
                _does_nothing(step, reader, f"resumes {node}, which no step has paused")


def _first_us(step: Step) -> int:
    return step.trigger.at_us if isinstance(step.trigger, At) else 0


def _records_never_sent(scenario: Scenario, reader: Reader) -> None:
    """Report W207 if `expect` names a record, such as r20, that its producer cannot send because it sends too few."""
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
                warn(reader, "W207", f"{name} is expected, but its producer sends only {sent}", path, "expect")
                break


def _arrivals_at_most(scenario: Scenario, producer: Workload) -> int:
    """Return an upper bound of the number of records that a producer sends by its rate, if it is never down."""
    arrival = producer.arrival
    if arrival is None:
        return 0
    if arrival.poisson:
        return RUN_RECORDS_MAX
    span_us = max(0, scenario.sends_until_us(producer) - producer.start_us)
    batches = -(-span_us * arrival.count // (arrival.period_us * producer.batch))
    return batches * producer.batch


def _wrong_era(scenario: Scenario, reader: Reader) -> None:
    """Report E120 for steps that the era does not support.

    The ZooKeeper era lacks requests that only a KRaft controller accepts, settings of brokers, and requests of later
    releases. A KRaft era before Kafka 4.0 lacks settings of groups.
    """
    if scenario.rules.membership != "zk-session":
        _group_settings_too_early(scenario, reader)
        return
    for step in scenario.timeline:
        place = reader.places.get(f"{path_of(step)}.{step.verb}")
        of_brokers = isinstance(step.payload, SetConfig) and step.payload.topic is None
        since = _ERA_OF.get(type(step.payload))
        title = label = ""
        if of_brokers or isinstance(step.payload, _OF_KRAFT):
            title = f"`{step.verb}`{' of brokers' if of_brokers else ''} is not yet supported in the ZooKeeper era"
            label = f"`{step.verb}` needs `membership: registration`"
        elif since is not None and scenario.rules.release < since:
            title, label = f"brokers of {scenario.rules.release} have no `{step.verb}`", f"use `profile: {since.era}`"
        if title and place is not None:
            reader.error("E120", title, place, path=f"{path_of(step)}.{step.verb}", label=label)


def _group_settings_too_early(scenario: Scenario, reader: Reader) -> None:
    if scenario.rules.release >= NEXT_COORDINATOR_SINCE:
        return
    for step in scenario.timeline:
        if isinstance(step.payload, SetConfig) and step.payload.group is not None:
            path = f"{path_of(step)}.{step.verb}"
            label = f"use `profile: {first_era(NEXT_COORDINATOR_SINCE)}` or later"
            reader.error(
                "E120", "groups have no settings before Kafka 4.0", reader.places[path], path=path, label=label
            )


def _patterns_too_early(scenario: Scenario, reader: Reader) -> None:
    """Report E120 for a subscription by pattern (KIP-848) that the brokers of the era cannot evaluate."""
    if scenario.rules.release >= NEXT_COORDINATOR_SINCE:
        return
    for workload in scenario.transforms:
        if workload.pattern and workload.config.get("group.protocol") == CONSUMER:
            path = f"workloads.{workload.name}.topics"
            title = f"`{workload.name}` subscribes by a pattern, which brokers evaluate only since Kafka 4.0"
            era = first_era(NEXT_COORDINATOR_SINCE)
            label = f"use `profile: {era}`, or drop `group.protocol` to let the client evaluate the pattern"
            place = reader.places.get(path, reader.places[f"workloads.{workload.name}"])
            reader.error("E120", title, place, path=path, label=label)


# ----------------------------------------------------------------------------------------------------------- warnings


def _durability(scenario: Scenario, reader: Reader) -> None:
    """Report mistakes about what survives a failure.

    W201 and W202 are about a min.insync.replicas that is too small or too large for acks=all, W205 about killing a
    leader that is dead already, and W207 about expected records that are never sent.
    """
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
        warn(reader, "W201", "with min.insync.replicas=1, acks=all may wait for the leader alone", *paths)
    elif minimum > topic.replication_factor and scenario.rules.hw_advance == "isr":
        above = f"min.insync.replicas ({minimum}) is above the replication factor ({topic.replication_factor})"
        warn(reader, "W202", f"no acks=all write is accepted: {above}", *paths)
    elif minimum > topic.replication_factor:
        # Since KAFKA-15583: Kafka's Partition.effectiveMinIsr
        counted = f"min.insync.replicas ({minimum}) counts as {topic.replication_factor}, the replication factor"
        warn(reader, "W202", f"{counted}: one slow broker stops acks=all writes", *paths)
    elif topic.replication_factor > 1 and minimum == topic.replication_factor:
        title = f"min.insync.replicas ({minimum}) equals the replication factor: one slow broker stops acks=all writes"
        warn(reader, "W202", title, *paths)


def _coordinators(scenario: Scenario, reader: Reader) -> None:
    """Report W208 if clients use __consumer_offsets or __transaction_state and it needs more replicas than brokers."""
    if reader.problems.any_error:
        return
    config, brokers = scenario.cluster.controller_config(scenario.rules.release), len(scenario.cluster.brokers)
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
                why = f"{topic} cannot be created on {there} with {setting}.replication.factor={factor}"
                path = f"workloads.{workload.name}"
                warn(reader, "W208", f"`{workload.name}` waits forever: {why}", f"{path}.config.{key}", path)


def _same_transactional_id(scenario: Scenario, reader: Reader) -> None:
    """Report W210 for producers that start together with the same transactional.id, because one fences the other.

    Producers that start at different times, or that a step stops or pauses, are not reported: they are probably meant
    as zombies.
    """
    touched = {name for step in scenario.timeline for name in names_of(step.payload)}
    first: dict[tuple[str, int], Workload] = {}
    for workload in scenario.workloads.values():
        transactional_id = workload.config.get("transactional.id")
        if transactional_id is None or workload.name in touched:
            continue
        other = first.setdefault((transactional_id, workload.start_us), workload)
        if other is not workload:
            path = f"workloads.{workload.name}"
            both = f"`{other.name}` and `{workload.name}` start together with the same transactional.id"
            title = f"{both}: one fences the other"
            warn(reader, "W210", title, f"{path}.config.transactional.id", path)


def _quotas_without_client(scenario: Scenario, reader: Reader) -> None:
    """Report W205 for a quota of a client.id that no workload has. A workload's client.id is its name."""
    for step in scenario.timeline:
        if isinstance(step.payload, SetQuota):
            client = step.payload.client
            if client is not None and client not in (DEFAULT, *scenario.workloads):
                there = ", ".join(scenario.workloads)
                _does_nothing(
                    step, reader, f"changes nothing: no workload is called {client}; the workloads are {there}"
                )


def _timing(scenario: Scenario, reader: Reader) -> None:
    """Report what comes too late or changes nothing.

    W203 is about steps, questions and workloads after the end of the run, W205 about steps and settings without effect,
    and W206 about a run that ends before a separated follower can leave the ISR.
    """
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
        # An unreadable value is 0 here; its error was reported already.
        if nothing and not _has_error(reader, f"{path_of(step)}."):
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
        title = "`replica.lag.max.messages` changes nothing without `protocol: {isr-lag: messages}`"
        warn(reader, "W205", title, "cluster.config.replica.lag.max.messages", "cluster.config")
    if reader.problems.any_error:
        return
    lag_us = scenario.cluster.controller_config(scenario.rules.release).replica_lag_time_max_ms * 1000
    if (
        any(_parts_brokers(step.payload, scenario) for step in scenario.timeline)
        and scenario.duration_us < lag_us * 3 // 2
    ):
        title = (
            f"the run ends before 1.5 x replica.lag.time.max.ms ({lag_us * 3 // 2 / 1e6:g} s): the ISR may never shrink"
        )
        warn(reader, "W206", title, "duration")


def _parts_brokers(payload: Payload, scenario: Scenario) -> bool:
    """Return True if the fault disturbs a link between brokers, so that a follower can fall behind."""
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
