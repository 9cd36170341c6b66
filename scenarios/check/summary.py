"""The summary of a finished run (summary.json): everything that the screens show, as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cluster.network.passage import ByteCounts
from replica.ids import INTERNAL_TOPICS, TopicPartition
from scenarios.check.expectations import Expectation, latency_statistics
from scenarios.check.verdict import HARMLESS_CLASSES, RECORD_CLASSES, Anomaly, Verdict
from scenarios.language.spec import Scenario
from scenarios.observe.columns.names import LazyNames
from scenarios.observe.columns.record_table import ACKED, FAILED, Answers
from scenarios.observe.groups import Unread
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.waits import Wait
from scenarios.observe.wording import sizes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The runner's counters, and the mode of the run.

    Attributes:
        events: number of rows of the trace.
        steps: number of steps of the simulated time.
        bytes: byte counts of each node, by name.
        digests: digests of the trace and of its data, "" if there are none.
        wall_s: duration of the run by the wall clock, in seconds.
        live: True if the run took place in real time.
        real_kafka: version of Apache Kafka that the nodes ran, None if they were Highwater's own.
    """

    events: int
    steps: int
    bytes: Mapping[str, ByteCounts]
    digests: tuple[str, str]
    run_dir: Path | None
    wall_s: float
    live: bool
    real_kafka: str | None = None


def build_summary(
    scenario: Scenario,
    ledger: RecordLedger,
    unread: Mapping[str, Mapping[str, Unread]],
    waits: Sequence[Wait],
    verdict: Verdict,
    results: Sequence[Expectation],
    counters: Counters,
) -> dict[str, Any]:
    """Return the summary as JSON values, in which lists of record names may be LazyNames. The ledger must be closed."""
    partitions = _partitions(scenario, ledger)
    return {
        "scenario": scenario.id,
        "variant": scenario.variant,
        "title": scenario.title,
        "seed": scenario.seed,
        "profile": scenario.profile,
        "live": counters.live,
        **({} if counters.real_kafka is None else {"real_kafka": counters.real_kafka}),
        "held": all(result.held for result in results),
        "verdict": list(verdict.kinds),
        "our_bug": verdict.our_bug,
        "records": {"sent": len(ledger.records), **_names(verdict)},
        "anomalies": [_anomaly(anomaly) for anomaly in verdict.anomalies],
        "logs": {str(partition): ledger.final_log(partition).records for partition in partitions},
        "expectations": [_expectation(result) for result in results],
        "setting": _setting(scenario),
        "producers": _answers(scenario, ledger),
        "unavailable": {
            str(partition): [list(window) for window in ledger.writes.windows(partition, scenario.duration_us)]
            for partition in partitions
        },
        **({"waits": [wait.as_json() for wait in waits]} if waits else {}),
        **({"without_reader": _unread(unread)} if unread else {}),
        **({"never_read": never_read} if (never_read := _never_read(scenario, ledger)) else {}),
        "retries": ledger.retries,
        "trace_sha256": counters.digests[0],
        "data_sha256": counters.digests[1],
        "run_dir": None if counters.run_dir is None else str(counters.run_dir),
        "events": counters.events,
        "steps": counters.steps,
        "virtual_s": scenario.duration_us / 1_000_000,
        "wall_s": round(counters.wall_s, 3),
        "bytes": _bytes(scenario, counters.bytes),
    }


def _names(verdict: Verdict) -> dict[str, Sequence[str]]:
    """Return the names of records by class, without harmless classes that have no records."""
    harmless = [kind for kind in HARMLESS_CLASSES if verdict.records[kind]]
    found = {kind: verdict.records[kind] for kind in (*RECORD_CLASSES, *harmless)}
    return {kind: names if isinstance(names, LazyNames) else list(names) for kind, names in found.items()}


def _unread(unread: Mapping[str, Mapping[str, Unread]]) -> dict[str, Any]:
    """Return how long each partition had no reader in a consumer group, by group and partition."""
    return {group: {name: asdict(found[name]) for name in sorted(found)} for group, found in sorted(unread.items())}


def _expectation(result: Expectation) -> dict[str, Any]:
    judged = {} if result.judged else {"judged": False}
    return {"what": result.what, "held": result.held, "why": result.why, **judged}


def _partitions(scenario: Scenario, ledger: RecordLedger) -> list[TopicPartition]:
    """Return the partitions of the scenario's topics, then those of other topics that exist at the end."""
    of_scenario = (name for topic in scenario.topics.values() for name in topic.topic_partitions)
    others = (name for name in sorted(ledger.final) if name.topic not in INTERNAL_TOPICS)
    return list(dict.fromkeys((*of_scenario, *others)))


def _anomaly(anomaly: Anomaly) -> dict[str, Any]:
    return {
        "kind": anomaly.kind,
        "jepsen": anomaly.jepsen,
        "partition": None if anomaly.partition is None else str(anomaly.partition),
        "records": list(anomaly.records),
        "offsets": list(anomaly.offsets),
        "replicas": list(anomaly.replicas),
        "client": anomaly.client,
        "sentence": anomaly.sentence,
        "seqs": list(anomaly.seqs),
    }


def _setting(scenario: Scenario) -> dict[str, Any]:
    """Return the sizes and settings that influence which records are lost, for the first line of a screen."""
    return {
        **sizes_of(scenario),
        "acks": {producer.name: producer.producer_config().acks for producer in scenario.producers},
        **_settings_of_transactions(scenario),
    }


def _settings_of_transactions(scenario: Scenario) -> dict[str, Any]:
    """Return the clients' settings of transactions, empty if no producer uses transactions."""
    ids = {
        producer.name: config.transactional_id
        for producer in scenario.producers
        if (config := producer.producer_config())
    }
    levels = {consumer.name: consumer.consumer_config().isolation_level for consumer in scenario.consumers}
    if not any(ids.values()):
        return {}
    return {
        "transactional.id": {client: name for client, name in ids.items() if name},
        "isolation.level": levels,
    }


def _never_read(scenario: Scenario, ledger: RecordLedger) -> dict[str, str | None]:
    """Return the readers that have read nothing although there were records, each with its refusal or None."""
    found: dict[str, str | None] = {}
    groups = {scenario.workloads[name].config.get("group.id") for name in ledger.readers if name in scenario.workloads}
    for reader in (*scenario.consumers, *scenario.transforms):
        if reader.name in ledger.readers:
            continue
        refused = ledger.refusals.get(reader.name)
        is_spared = reader.config.get("group.id", "") in groups  # A group may have more members than partitions.
        begins = reader.consumer_config().auto_offset_reset == "earliest"
        if refused is not None:
            found[reader.name] = refused.sentence()
        elif begins and not is_spared and any(_has_records(ledger, topic) for topic in reader.topics):
            found[reader.name] = None
    at_work = {*ledger.readers, *(client for client, _, _ in ledger.records.origins), *scenario.workloads}
    return found | {client: event.sentence() for client, event in ledger.refusals.items() if client not in at_work}


def _has_records(ledger: RecordLedger, topic: str) -> bool:
    replicas = (ledger.final_replica(partition) for partition in ledger.final if partition.topic == topic)
    return any(replica is not None and replica.high_watermark > 0 for replica in replicas)


def _producers(scenario: Scenario, ledger: RecordLedger) -> list[str]:
    """Return the producers of the scenario, then the external clients that have sent records."""
    others = [client for client, _, _ in ledger.records.origins]
    return list(dict.fromkeys([*(producer.name for producer in scenario.producers), *others]))


def _answers(scenario: Scenario, ledger: RecordLedger) -> dict[str, Any]:
    """Return the numbers of answers to each producer, and statistics of latencies in microseconds ({} for none)."""
    found = ledger.records.answers()
    return {
        name: {
            "sent": answers.fates.total(),
            "acked": answers.fates[ACKED],
            "handed_over": answers.handed_over,
            "failed": answers.fates[FAILED],
            "latency_us": latency_statistics(answers.latencies_us),
            "errors": {error: tally.count for error, tally in ledger.errors.get(name, {}).items()},
        }
        for name in _producers(scenario, ledger)
        for answers in (found.get(name, Answers()),)
    }


def _bytes(scenario: Scenario, counted: Mapping[str, ByteCounts]) -> dict[str, Any]:
    by_broker = {
        name: {
            "sendfile": counted[name].sendfile,
            "sendfile_calls": counted[name].sendfile_calls,
            "fetch_payload_through_python": counted[name].fetch_payload_through_python,
        }
        for name in scenario.cluster.brokers
        if name in counted
    }
    keys = ("sendfile", "sendfile_calls", "fetch_payload_through_python")
    return {**{key: sum(counts[key] for counts in by_broker.values()) for key in keys}, "brokers": by_broker}
