"""The lock file: a scenario written back to YAML with every default spelled out and the variant's patch applied.

Loading the text that `dump` writes gives an equal `Scenario`, so the file in a run folder repeats the run byte for
byte.
"""

from __future__ import annotations

from typing import Any

import yaml

from cluster.client.interceptors import NO_TIME, ClientCpuTimes
from cluster.server.request_handlers import CpuTimes
from replica.trace.ranges import format_record_names
from scenarios.language.expect import EventTest, EventValue, Expect, NumberTest, TimeTest
from scenarios.language.spec import (
    NO_RECORDS,
    SCHEMA,
    ClientQuota,
    ClusterSpec,
    NetworkSpec,
    Phases,
    RecordFields,
    Scenario,
    TopicSpec,
    TransactionPattern,
    Workload,
)
from scenarios.language.steps import DEFAULT, AnswerFromTrace, At, ScenarioQuestion, Step
from scenarios.language.values.links import delay_tree, service_time_tree
from scenarios.language.values.trees import (
    Tree,
    given,
    logs_tree,
    number_tree,
    records_tree,
    selector_tree,
    share_text,
    state_tree,
    time_text,
    window_tree,
)
from scenarios.language.verbs.clients import HEADERS, RECORD_TIME

# ---------------------------------------------------------------------------------------------------------- lock expect
#
# Conversion of expectations to plain data.


def expect_tree(expect: Expect) -> Tree:
    return given(
        {
            "verdict": list(expect.verdict or ()) or "ok",
            "records": records_tree(expect.records) or None,
            "logs": logs_tree(expect.logs) or None,
            "diverged": _diverged(expect),
            "state": None if expect.state is None else state_tree(expect.state),
            "events": [_event(test) for test in expect.events] or None,
            "errors": _errors(expect) or None,
            "latency": _latency(expect) or None,
            "unavailable": _unavailable(expect) or None,
        }
    )


def _diverged(expect: Expect) -> Any:
    if not expect.diverged:
        return None if expect.diverged is None else "none"
    return {
        str(test.partition): {"offsets": list(test.offsets), "replicas": list(test.replicas)}
        for test in expect.diverged
    }


def _event(test: EventTest) -> Tree:
    tree: Tree = {"never" if test.never else "event": test.event}
    where: dict[str, EventValue] = dict(test.where)
    topic, partition = where.pop("topic", None), where.pop("partition", None)
    if isinstance(partition, NumberTest):
        tree["partition"] = f"{topic}-{partition.low}"
    for column, value in where.items():
        tree[column] = _event_value(column, value)
    return {**tree, **window_tree(test.between), **given({"count": number_tree(test.count)})}


def _event_value(column: str, value: EventValue) -> Any:
    if isinstance(value, NumberTest):
        return number_tree(value)
    if isinstance(value, tuple):
        return format_record_names(value) if column == "records" else list(value)
    return value


def _errors(expect: Expect) -> Tree:
    tree: Tree = {}
    for test in expect.errors:
        if test.error is None:
            tree[test.client] = "none"
            continue
        bounds = given({"count": number_tree(test.count)})
        bounds.update(_ends("first", test.first), **_ends("last", test.last))
        tree.setdefault(test.client, {})[test.error] = bounds
    return tree


def _ends(word: str, test: TimeTest | None) -> Tree:
    if test is None:
        return {}
    low = None if test.low_us is None else time_text(test.low_us)
    return given({f"{word}_after": low, f"{word}_before": None if test.high_us is None else time_text(test.high_us)})


def _latency(expect: Expect) -> Tree:
    tree: Tree = {}
    for test in expect.latency:
        bounds = window_tree(test.bounds, ("between", "at_least", "at_most"))
        tree.setdefault(test.client, {})[test.what] = bounds
    return tree


def _unavailable(expect: Expect) -> Tree:
    tree: Tree = {}
    for test in expect.unavailable:
        windows = [
            {"from": time_text(window.from_us), "to": time_text(window.to_us), "slack": time_text(window.slack_us)}
            for window in test.windows
        ]
        tree.setdefault(str(test.partition), {})[test.what] = windows or "none"
    return tree


# ------------------------------------------------------------------------------------------------------- lock questions
#
# Conversion of the `questions` block to plain data.


def question_tree(question: ScenarioQuestion) -> Tree:
    return given(
        {
            "at": None if question.at_us is None else time_text(question.at_us),
            "before": question.before,
            "ask": question.ask,
            "choices": list(question.choices) or None,
            "answer": question.answer,
            "answer_from": None if question.answer_from is None else _answer_tree(question.answer_from),
            "because": question.because,
        }
    )


def _answer_tree(answer: AnswerFromTrace) -> Tree:
    by = None if answer.by_us is None else time_text(answer.by_us)
    return given({answer.kind: answer.of, "by": by})


class PlainDumper(yaml.SafeDumper):
    """A YAML dumper that writes no anchors, because the loader refuses them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dump(scenario: Scenario, comment: str = "") -> str:
    """Return the scenario as YAML text.

    Args:
        comment: text to write as comment lines at the top.
    """
    return dump_tree(as_tree(scenario), comment)


def dump_tree(tree: Tree, comment: str = "") -> str:
    """Return a scenario that is already plain data as YAML text. See `dump`."""
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    body: str = yaml.dump(
        tree, Dumper=PlainDumper, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True
    )
    return head + body


def as_tree(scenario: Scenario) -> Tree:
    """Return the scenario as plain data that can be written as YAML or JSON."""
    tree: Tree = {
        "schema": SCHEMA,
        "id": scenario.id,
        "variant": scenario.variant,
        "title": scenario.title,
        "question": scenario.question,
        "questions": [question_tree(question) for question in scenario.questions] or None,
        "sources": [
            given({"ref": source.ref, "url": source.url, "recalled": source.recalled or None})
            for source in scenario.sources
        ],
        "lesson": scenario.lesson,
        "tags": list(scenario.tags),
        "seed": scenario.seed,
        "duration": time_text(scenario.duration_us),
        "profile": scenario.profile,
        "protocol": scenario.rules.as_mapping(),
        "cluster": _cluster(scenario.cluster),
        "topics": {name: _topic(topic) for name, topic in scenario.topics.items()},
        "network": _network(scenario.network),
        "workloads": {name: _workload(workload) for name, workload in scenario.workloads.items()},
        "timeline": [step_tree(step) for step in scenario.timeline],
    }
    if scenario.expect != Expect():
        tree["expect"] = expect_tree(scenario.expect)
    return given(tree)


# -------------------------------------------------------------------------------------------------------- static parts


def _quota(quota: ClientQuota) -> Tree:
    values = {name: DEFAULT if value is None else value for name, value in quota.quota}
    return given({"client": quota.client, "user": quota.user, "quota": values})


def _cluster(cluster: ClusterSpec) -> Tree:
    brokers = {
        broker.name: given(
            {
                "rack": broker.rack,
                "disk": None if broker.disk is None else service_time_tree(broker.disk),
                "cpu": None if broker.cpu is None else _cpu(broker.cpu),
                "config": dict(broker.config) or None,
            }
        )
        for broker in cluster.brokers.values()
    }
    return given(
        {
            "controllers": list(cluster.controllers),
            "initial_controllers": list(cluster.initial_controllers) or None,
            "brokers": brokers,
            "config": dict(cluster.config),
            "phases": _phases(cluster.phases),
            "heartbeats": _phases(cluster.heartbeats),
            "quotas": [_quota(quota) for quota in cluster.quotas] or None,
        }
    )


def _phases(phases: Phases) -> Tree | str | None:
    if phases == "random":
        return phases
    return {name: time_text(phase_us) for name, phase_us in phases.items()} or None


def _cpu(times: CpuTimes) -> Tree:
    at_once = times.connections_per_poll
    return {
        "request": time_text(times.request_us),
        "produce": time_text(times.produced_us),
        "fetch": time_text(times.fetched_us),
        "replicate": time_text(times.replicated_us),
        "connection": time_text(times.connection_us),
        "connections_per_poll": "all" if at_once is None else at_once,
    }


def _topic(topic: TopicSpec) -> Tree:
    if topic.assignment is not None:
        partitions: Tree = {str(number): list(replicas) for number, replicas in enumerate(topic.assignment)}
        return {"partitions": partitions, "config": dict(topic.config)}
    return {
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "config": dict(topic.config),
    }


def _network(network: NetworkSpec) -> Tree:
    def bandwidth(rate: int | None) -> str | None:
        return None if rate is None else f"{rate}B/s"

    links = [
        given(
            {
                "between": [selector_tree(link.side_a), selector_tree(link.side_b)],
                "latency": None if link.latency is None else delay_tree(link.latency),
                "bandwidth": bandwidth(link.bytes_per_second),
                "loss": None if link.loss_ppm is None else share_text(link.loss_ppm),
            }
        )
        for link in network.links
    ]
    return given(
        {
            "latency": delay_tree(network.latency),
            "bandwidth": bandwidth(network.bytes_per_second),
            "card": bandwidth(network.card_bytes_per_second),
            "cards": {name: bandwidth(rate) for name, rate in network.cards.items()} or None,
            "links": links or None,
        }
    )


def _workload(workload: Workload) -> Tree:
    tree: Tree = {"kind": workload.kind}
    if workload.pattern:
        tree["topics"] = {"pattern": workload.pattern}
    elif len(workload.topics) == 1:
        tree["topic"] = workload.topic
    else:
        tree["topics"] = list(workload.topics)
    if workload.kind == "producer":
        tree.update({"prefix": workload.prefix, "size": f"{workload.size_bytes}B", "batch": workload.batch})
        if workload.arrival is not None:
            rate = f"{workload.arrival.count}/{time_text(workload.arrival.period_us)}"
            tree["poisson" if workload.arrival.poisson else "rate"] = rate.removesuffix("/1s") + (
                "/s" if rate.endswith("/1s") else ""
            )
        if workload.transaction is not None:
            tree["transaction"] = _transaction(workload.transaction)
        tree.update(_record_fields(workload.records))
    if workload.kind == "transform":
        tree.update({"to": workload.to, "prefix": workload.prefix, "batch": workload.batch})
        tree["group-metadata"] = "full" if workload.names_member else "id"
        if workload.offsets != "auto":
            tree["offsets"] = workload.offsets
        if not workload.flushes:
            tree["flush"] = False
    tree["start"] = time_text(workload.start_us)
    if workload.stop_us is not None:
        tree["stop"] = time_text(workload.stop_us)
    if workload.cpu != NO_TIME:
        tree["cpu"] = _client_cpu(workload.cpu)
    if workload.process_us:
        tree["process"] = time_text(workload.process_us)
    for key, share in (("release", workload.releases), ("reject", workload.rejects)):
        if share != NO_RECORDS:
            tree[key] = share_text(share.ppm) if share.ppm else list(share.names)
    tree["config"] = dict(workload.config)
    return tree


def _record_fields(records: RecordFields) -> Tree:
    tree: Tree = {
        "key": list(records.keys),
        "partition": records.partition,
        "timestamp": RECORD_TIME.write(records.time),
        "headers": HEADERS.write(records.headers),
    }
    return {key: value for key, value in tree.items() if value not in (None, [], {})}


def _client_cpu(times: ClientCpuTimes) -> Tree:
    taken = {
        "interceptor": times.interceptor_us,
        "serializer": times.serializer_us,
        "deserializer": times.deserializer_us,
    }
    return {part: time_text(took_us) for part, took_us in taken.items() if took_us}


def _transaction(pattern: TransactionPattern) -> Tree:
    tree: Tree = {"records": pattern.records}
    if pattern.abort_every:
        tree["abort-every"] = pattern.abort_every
    return tree


# ------------------------------------------------------------------------------------------------------------ timeline


def step_tree(step: Step) -> Tree:
    """Return a step as a mapping, with the keys in the order in which a person would write them."""
    tree: Tree = {}
    if isinstance(step.trigger, At):
        tree["at"] = time_text(step.trigger.at_us)
    else:
        tree["when"] = state_tree(step.trigger.state)
        if step.trigger.timeout_us is not None:
            tree["timeout"] = time_text(step.trigger.timeout_us)
    tree[step.verb] = step.payload.tree()
    if step.for_us is not None:
        tree["for"] = time_text(step.for_us)
    if step.every_us is not None:
        tree.update({"every": time_text(step.every_us), "times": step.times})
    if step.label is not None:
        tree["as"] = step.label
    return tree
