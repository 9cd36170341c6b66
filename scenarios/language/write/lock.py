"""A scenario back to YAML, fully resolved: every default spelled out, the variant's patch applied, no variants left.

Loading what `dump` writes gives an equal `Scenario`; so the file in a run folder runs to the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from cluster.server.cpu import CpuTimes
from scenarios.language.disk_steps import Bitflip, BumpClock, FailDisk, FillDisk, SlowDisk, StrobeClock
from scenarios.language.expect import Expect
from scenarios.language.selectors import Selector
from scenarios.language.spec import SCHEMA, ClusterSpec, NetworkSpec, Scenario, TopicSpec, Workload
from scenarios.language.steps import (
    DEFAULT,
    AddLatency,
    At,
    CancelReassign,
    Check,
    Cut,
    Elect,
    EndOffsetTest,
    Flush,
    Heal,
    Hold,
    LimitBandwidth,
    Loss,
    PartitionNetwork,
    Payload,
    Produce,
    Reassign,
    Release,
    ResetPeer,
    Seek,
    SetConfig,
    Step,
    Tear,
    Throttle,
)
from scenarios.language.values.links import delay_tree
from scenarios.language.values.service_times import service_time_tree
from scenarios.language.values.trees import (
    Tree,
    given,
    logs_tree,
    names_of,
    number_tree,
    records_tree,
    selector_tree,
    share_text,
    state_tree,
    time_text,
    window_tree,
)
from scenarios.language.write.lock_expect import expect_tree


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
    phases = cluster.phases
    return given(
        {
            "controllers": list(cluster.controllers),
            "brokers": brokers,
            "config": dict(cluster.config),
            "phases": phases
            if phases == "random"
            else {name: time_text(phase_us) for name, phase_us in phases.items()} or None,
        }
    )


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
        tree["when"] = state_tree(step.trigger.state)
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
    return given({**nodes, "api": hold.api, "part": hold.part})


def _names(payload: Heal | Release) -> str | list[str]:
    return list(payload.names) or "all"


def _flush(flush: Flush) -> Any:
    brokers = selector_tree(flush.brokers)
    return brokers if flush.partition is None else {"brokers": brokers, "partition": str(flush.partition)}


def _tear(tear: Tear) -> Tree:
    return {**_replica(tear), "bytes": tear.size_bytes}


def _replica(payload: Tear | Bitflip) -> Tree:
    return {"broker": selector_tree(payload.broker), "partition": str(payload.partition)}


def _disks(payload: SlowDisk | FillDisk | FailDisk) -> Tree:
    return given({"brokers": selector_tree(payload.brokers), "log_dir": payload.log_dir})


def _clock(payload: BumpClock | StrobeClock) -> Tree:
    sign = "-" if payload.by_us < 0 else ""
    return {"brokers": selector_tree(payload.brokers), "by": sign + time_text(abs(payload.by_us))}


def _elect(elect: Elect) -> Any:
    if elect == Elect():
        return "preferred"
    return given(
        {
            "partition": None if elect.partition is None else str(elect.partition),
            "broker": None if elect.broker is None else selector_tree(elect.broker),
            "unclean": elect.unclean or None,
        }
    )


def _reassign(reassign: Reassign) -> Tree:
    rate = reassign.bytes_per_second
    throttle = None if rate is None else f"{rate}B/s"
    to = list(reassign.replicas.plain_names or ()) or selector_tree(reassign.replicas)
    return given({"partition": str(reassign.partition), "to": to, "throttle": throttle})


def _throttle(throttle: Throttle) -> Tree:
    rate = "none" if throttle.bytes_per_second is None else f"{throttle.bytes_per_second}B/s"
    return given(
        {
            "brokers": selector_tree(throttle.brokers),
            "rate": rate,
            "side": None if throttle.side == "both" else throttle.side,
            "topic": throttle.topic,
        }
    )


def _set_config(change: SetConfig) -> Tree:
    whose: Tree = {"topic": change.topic} if change.brokers is None else {"brokers": selector_tree(change.brokers)}
    return {**whose, "config": {key: DEFAULT if value is None else value for key, value in change.config}}


def _produce(produce: Produce) -> Tree:
    return given(
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
    return given(
        {
            "state": None if check.state is None else state_tree(check.state),
            "logs": logs_tree(check.logs) or None,
            "records": records_tree(check.records) or None,
            "clock": window_tree(check.clock) or None,
            "end_offset": None if check.end_offset is None else _end_offset(check.end_offset),
        }
    )


def _end_offset(test: EndOffsetTest) -> Tree:
    answer = {"is": number_tree(test.offset), "error": test.error}
    return given({"consumer": test.client, "partition": str(test.partition), **answer})


_WRITE: dict[type[Any], Callable[[Any], Any]] = {
    PartitionNetwork: lambda payload: [names_of(island) for island in payload.islands],
    Cut: _sides,
    Heal: _names,
    AddLatency: lambda payload: _sides(payload, add=delay_tree(payload.add)),
    LimitBandwidth: lambda payload: _sides(payload, rate=f"{payload.bytes_per_second}B/s"),
    Loss: lambda payload: _sides(payload, rate=share_text(payload.rate_ppm)),
    ResetPeer: _sides,
    Hold: _hold,
    Release: _names,
    Flush: _flush,
    Tear: _tear,
    Bitflip: lambda payload: {**_replica(payload), "offset": payload.offset},
    SlowDisk: lambda payload: {**_disks(payload), **service_time_tree(payload.time)},
    FillDisk: _disks,
    FailDisk: _disks,
    BumpClock: _clock,
    StrobeClock: lambda payload: {**_clock(payload), "period": time_text(payload.period_us)},
    Elect: _elect,
    Reassign: _reassign,
    CancelReassign: lambda payload: str(payload.partition),
    Throttle: _throttle,
    SetConfig: _set_config,
    Produce: _produce,
    Seek: _seek,
    Check: _check,
}
