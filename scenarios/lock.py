"""A scenario back to YAML, fully resolved: every default spelled out, the variant's patch applied, no variants left.

Loading what `dump` writes gives an equal `Scenario`; so the file in a run folder runs to the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import yaml

from scenarios.conditions import (
    LogTest,
    NodeTest,
    NumberTest,
    PartitionTest,
    RecordsTest,
    ReplicaTest,
    StateTest,
    TimeTest,
)
from scenarios.expect import EventTest, EventValue, Expect
from scenarios.record_sets import format_record_names
from scenarios.selectors import Selector, text_of
from scenarios.spec import SCHEMA, Cluster, Network, Scenario, TopicSpec, Workload
from scenarios.steps import (
    AddLatency,
    At,
    Check,
    Cut,
    Delay,
    Elect,
    Flush,
    Heal,
    Hold,
    LimitBandwidth,
    Loss,
    Partition,
    Payload,
    Produce,
    Release,
    ResetPeer,
    Seek,
    Step,
    Tear,
)

Tree = dict[str, Any]


class _Dumper(yaml.SafeDumper):
    """Anchors are refused by the loader, so none are written."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dump(scenario: Scenario, comment: str = "") -> str:
    """YAML text; `comment` (lines without #) comes first."""
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    body: str = yaml.dump(
        as_tree(scenario), Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True
    )
    return head + body


def as_tree(scenario: Scenario) -> Tree:
    """The same as plain data (JSON-ready)."""
    tree: Tree = {
        "schema": SCHEMA,
        "id": scenario.id,
        "variant": scenario.variant,
        "title": scenario.title,
        "question": scenario.question,
        "sources": [
            _given({"ref": source.ref, "url": source.url, "recalled": source.recalled or None})
            for source in scenario.sources
        ],
        "lesson": scenario.lesson,
        "tags": list(scenario.tags),
        "seed": scenario.seed,
        "duration": time_text(scenario.duration_us),
        "profile": scenario.profile,
        "protocol": dict(scenario.protocol),
        "cluster": _cluster(scenario.cluster),
        "topics": {name: _topic(topic) for name, topic in scenario.topics.items()},
        "network": _network(scenario.network),
        "workloads": {name: _workload(workload) for name, workload in scenario.workloads.items()},
        "timeline": [step_tree(step) for step in scenario.timeline],
    }
    if scenario.expect != Expect():
        tree["expect"] = _expect(scenario.expect)
    return _given(tree)


def _given(tree: Mapping[str, Any]) -> Tree:
    """Without what is None."""
    return {key: value for key, value in tree.items() if value is not None}


# ------------------------------------------------------------------------------------------------------------- scalars


def time_text(us: int) -> str:
    """10500000 -> `10.5s`; exact, in the unit a person would take."""
    if us % 1000 and us < 1_000_000:
        return f"{us}us"
    if us and us < 1_000_000:
        return f"{us // 1000}ms"
    whole, fraction = divmod(us, 1_000_000)
    return f"{whole}.{fraction:06d}".rstrip("0").rstrip(".") + "s"


def selector_tree(selector: Selector) -> str | list[str]:
    texts = [text_of(term) for term in selector.terms]
    return "none" if not texts else texts[0] if len(texts) == 1 else texts


def _number(test: NumberTest | None) -> Any:
    if test is None:
        return None
    if test.low is not None and test.low == test.high:
        return test.low
    return _given({"at_least": test.low, "at_most": test.high})


def _window(test: TimeTest | None, words: tuple[str, str, str] = ("between", "after", "before")) -> Tree:
    """As keys to be put beside others."""
    if test is None:
        return {}
    between, after, before = words
    if test.low_us is not None and test.high_us is not None:
        return {between: [time_text(test.low_us), time_text(test.high_us)]}
    if test.low_us is not None:
        return {after: time_text(test.low_us)}
    return {} if test.high_us is None else {before: time_text(test.high_us)}


def _delay(delay: Delay) -> Any:
    least, spread = time_text(delay.least_us), time_text(delay.spread_us)
    match delay.kind:
        case "constant":
            return least
        case "uniform":
            return {"uniform": [least, time_text(delay.least_us + delay.spread_us)]}
        case "exponential":
            return {"exponential": spread, "least": least}


def _share(ppm: int) -> str:
    return f"{ppm // 10_000}.{ppm % 10_000:04d}".rstrip("0").rstrip(".") + "%"


# -------------------------------------------------------------------------------------------------------- static parts


def _cluster(cluster: Cluster) -> Tree:
    brokers = {
        broker.name: _given({"rack": broker.rack, "config": dict(broker.config) or None})
        for broker in cluster.brokers.values()
    }
    return {"controllers": list(cluster.controllers), "brokers": brokers, "config": dict(cluster.config)}


def _topic(topic: TopicSpec) -> Tree:
    if topic.assignment is not None:
        partitions: Tree = {str(number): list(replicas) for number, replicas in enumerate(topic.assignment)}
        return {"partitions": partitions, "config": dict(topic.config)}
    return {
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "config": dict(topic.config),
    }


def _network(network: Network) -> Tree:
    def bandwidth(rate: int | None) -> str | None:
        return None if rate is None else f"{rate}B/s"

    links = [
        _given(
            {
                "between": [selector_tree(link.side_a), selector_tree(link.side_b)],
                "latency": None if link.latency is None else _delay(link.latency),
                "bandwidth": bandwidth(link.bytes_per_second),
                "loss": None if link.loss_ppm is None else _share(link.loss_ppm),
            }
        )
        for link in network.links
    ]
    return _given(
        {"latency": _delay(network.latency), "bandwidth": bandwidth(network.bytes_per_second), "links": links or None}
    )


def _workload(workload: Workload) -> Tree:
    tree: Tree = {"kind": workload.kind, "topic": workload.topic}
    if workload.kind == "producer":
        tree.update({"prefix": workload.prefix, "size": f"{workload.size_bytes}B", "batch": workload.batch})
        if workload.arrival is not None:
            rate = f"{workload.arrival.count}/{time_text(workload.arrival.period_us)}"
            tree["poisson" if workload.arrival.poisson else "rate"] = rate.removesuffix("/1s") + (
                "/s" if rate.endswith("/1s") else ""
            )
    tree["start"] = time_text(workload.start_us)
    if workload.stop_us is not None:
        tree["stop"] = time_text(workload.stop_us)
    tree["config"] = dict(workload.config)
    return tree


# ------------------------------------------------------------------------------------------------------------ timeline


def step_tree(step: Step) -> Tree:
    """One step as a mapping, in the order a person writes it."""
    tree: Tree = {}
    if isinstance(step.trigger, At):
        tree["at"] = time_text(step.trigger.at_us)
    else:
        tree["when"] = _state(step.trigger.state)
        if step.trigger.timeout_us is not None:
            tree["timeout"] = time_text(step.trigger.timeout_us)
    tree[step.verb] = payload_tree(step.payload)
    if step.for_us is not None:
        tree["for"] = time_text(step.for_us)
    if step.every_us is not None:
        tree.update({"every": time_text(step.every_us), "times": step.times})
    if step.label is not None:
        tree["as"] = step.label
    return tree


def payload_tree(payload: Payload) -> Any:
    """What stands behind the verb."""
    write = _WRITE.get(type(payload))
    if write is not None:
        return write(payload)
    nodes: Selector = payload.nodes  # type: ignore[union-attr]  # every verb without a writer of its own takes nodes
    return selector_tree(nodes)


def _sides(payload: Any, **extra: object) -> Tree:
    tree: Tree = {"between": [selector_tree(payload.side_a), selector_tree(payload.side_b)], **extra}
    direction = getattr(payload, "direction", "both")
    return tree if direction == "both" else {**tree, "direction": direction}


def _hold(hold: Hold) -> Tree:
    nodes = {"from": selector_tree(hold.sender), "to": selector_tree(hold.receiver)}
    return _given({**nodes, "api": hold.api, "part": hold.part})


def _names(payload: Heal | Release) -> str | list[str]:
    return list(payload.names) or "all"


def _flush(flush: Flush) -> Any:
    brokers = selector_tree(flush.brokers)
    return brokers if flush.partition is None else {"brokers": brokers, "partition": str(flush.partition)}


def _tear(tear: Tear) -> Tree:
    return {"broker": selector_tree(tear.broker), "partition": str(tear.partition), "bytes": tear.size_bytes}


def _elect(elect: Elect) -> Any:
    if elect == Elect():
        return "preferred"
    return _given(
        {
            "partition": None if elect.partition is None else str(elect.partition),
            "broker": None if elect.broker is None else selector_tree(elect.broker),
            "unclean": elect.unclean or None,
        }
    )


def _produce(produce: Produce) -> Tree:
    return _given(
        {
            "from": produce.producer,
            "count": produce.count,
            "batch": produce.batch,
            "size": f"{produce.size_bytes}B",
            "key": produce.key,
            "partition": produce.partition,
        }
    )


def _seek(seek: Seek) -> Tree:
    return {"consumer": seek.consumer, "partition": str(seek.partition), "to": seek.to}


def _check(check: Check) -> Tree:
    end = check.end_offset
    return _given(
        {
            "state": None if check.state is None else _state(check.state),
            "logs": _logs(check.logs) if check.logs else None,
            "records": _records(check.records) if check.records else None,
            "clock": _window(check.clock) or None,
            "end_offset": None
            if end is None
            else _given(
                {"consumer": end.client, "partition": str(end.partition), "is": _number(end.offset), "error": end.error}
            ),
        }
    )


_WRITE: dict[type[Any], Callable[[Any], Any]] = {
    Partition: lambda payload: [_as_list(island) for island in payload.islands],
    Cut: _sides,
    Heal: _names,
    AddLatency: lambda payload: _sides(payload, add=_delay(payload.add)),
    LimitBandwidth: lambda payload: _sides(payload, rate=f"{payload.bytes_per_second}B/s"),
    Loss: lambda payload: _sides(payload, rate=_share(payload.rate_ppm)),
    ResetPeer: _sides,
    Hold: _hold,
    Release: _names,
    Flush: _flush,
    Tear: _tear,
    Elect: _elect,
    Produce: _produce,
    Seek: _seek,
    Check: _check,
}


def _as_list(selector: Selector) -> list[str]:
    return [text_of(term) for term in selector.terms]


# ---------------------------------------------------------------------------------------------------------- conditions


def _state(state: StateTest) -> Tree:
    tree: Tree = {str(test.partition): _partition_test(test) for test in state.partitions}
    tree.update({str(test.node): _node_test(test) for test in state.nodes})
    return tree


def _partition_test(test: PartitionTest) -> Tree:
    return _given(
        {
            "leader": None if test.leader is None else selector_tree(test.leader),
            "epoch": _number(test.epoch),
            "isr": None if test.isr is None else _as_list(test.isr),
            "hw": _number(test.hw),
            "leo": _number(test.leo),
            "offline": test.offline,
        }
    )


def _node_test(test: NodeTest) -> Tree:
    tree = _given({"running": test.running, "fenced": test.fenced})
    tree.update({str(replica.partition): _replica_test(replica) for replica in test.replicas})
    return tree


def _replica_test(test: ReplicaTest) -> Tree:
    numbers = {"hw": _number(test.hw), "leo": _number(test.leo), "epoch": _number(test.epoch)}
    return _given({**numbers, "leading": test.leading})


def _records(tests: tuple[RecordsTest, ...]) -> Tree:
    return {test.kind: _records_test(test) for test in tests}


def _records_test(test: RecordsTest) -> Any:
    if test.at_least is not None and test.at_least == test.at_most and test.count is None:
        return format_record_names(test.at_least)
    return _given(
        {
            "at_least": None if test.at_least is None else format_record_names(test.at_least),
            "at_most": None if test.at_most is None else format_record_names(test.at_most),
            "count": _number(test.count),
        }
    )


def _logs(tests: tuple[LogTest, ...]) -> Tree:
    tree: Tree = {}
    for test in tests:
        names = format_record_names(test.records)
        if test.node is None:
            tree[str(test.partition)] = names
        else:
            tree.setdefault(str(test.partition), {})[test.node] = names
    return tree


# -------------------------------------------------------------------------------------------------------------- expect


def _expect(expect: Expect) -> Tree:
    return _given(
        {
            "verdict": list(expect.verdict or ()) or "ok",
            "records": _records(expect.records) or None,
            "logs": _logs(expect.logs) or None,
            "diverged": _diverged(expect),
            "state": None if expect.state is None else _state(expect.state),
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
    return {**tree, **_window(test.between), **_given({"count": _number(test.count)})}


def _event_value(column: str, value: EventValue) -> Any:
    if isinstance(value, NumberTest):
        return _number(value)
    if isinstance(value, tuple):
        return format_record_names(value) if column == "records" else list(value)
    return value


def _errors(expect: Expect) -> Tree:
    tree: Tree = {}
    for test in expect.errors:
        if test.error is None:
            tree[test.client] = "none"
            continue
        bounds = _given({"count": _number(test.count)})
        bounds.update(_ends("first", test.first), **_ends("last", test.last))
        tree.setdefault(test.client, {})[test.error] = bounds
    return tree


def _ends(word: str, test: TimeTest | None) -> Tree:
    if test is None:
        return {}
    low = None if test.low_us is None else time_text(test.low_us)
    return _given({f"{word}_after": low, f"{word}_before": None if test.high_us is None else time_text(test.high_us)})


def _latency(expect: Expect) -> Tree:
    tree: Tree = {}
    for test in expect.latency:
        bounds = _window(test.bounds, ("between", "at_least", "at_most"))
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
