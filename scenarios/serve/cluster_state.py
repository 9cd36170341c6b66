"""The state of a running cluster at this instant, as `fault list` shows it: nodes, partitions, faults in force."""

from __future__ import annotations

from typing import Any

from scenarios.language.verbs.process import Kill, Pause, PowerOff, Stop
from scenarios.observe.view import ClusterView
from scenarios.run.runner import ScenarioRun
from scenarios.run.timeline import InForce


def cluster_state(run: ScenarioRun) -> dict[str, Any]:
    """Plain values for JSON; offsets are exclusive ends, times in seconds of the run."""
    view, time = run.view, run.cluster.time
    return {
        "profile": run.scenario.profile,
        "at_s": round(time.now_us / 1e6, 3),
        "bootstrap": [f"{host}:{port}" for host, port in run.cluster.bootstrap],
        "nodes": [_node(view, name) for name in (*view.brokers, *view.controllers, *view.clients)],
        "outside_clients": list(run.cluster.fabric.outsiders),
        "partitions": [_partition(view, name) for name in sorted(view.partitions)],
        "faults": [_fault(one) for one in run.timeline.in_force() if still_holds(run, one)],
    }


def _node(view: ClusterView, name: str) -> dict[str, Any]:
    node = view.nodes[name]
    is_broker = name in view.brokers
    return {
        "node": name,
        "role": "broker" if is_broker else "controller" if name in view.controllers else "client",
        "state": "paused" if node.running and node.paused else "running" if node.running else "down",
        "fenced": node.fenced if is_broker else None,
        "active_controller": name == view.controller if name in view.controllers else None,
        "leads": [str(partition) for partition, state in sorted(view.partitions.items()) if state.leader == name],
    }


def _partition(view: ClusterView, name: Any) -> dict[str, Any]:
    state = view.partitions[name]
    return {
        "partition": str(name),
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "elr": list(state.elr),
        "min_isr": state.min_isr,
        "replicas": [
            {
                "node": node,
                "role": replica.role,
                "log_start_offset": replica.log_start_offset,
                "high_watermark": replica.high_watermark,
                "log_end_offset": replica.log_end_offset,
            }
            for node in state.assigned
            for replica in [state.replica(node)]
        ],
    }


def _fault(fault: InForce) -> dict[str, Any]:
    step = fault.step
    ends_us = None if step.for_us is None else fault.began_us + step.for_us
    return {
        "fault": step.name,
        "verb": step.verb,
        "targets": list(fault.done.targets),
        "what": fault.done.sentence,
        "since_s": round(fault.began_us / 1e6, 3),
        "until_s": None if ends_us is None else round(ends_us / 1e6, 3),
    }


def still_holds(run: ScenarioRun, fault: InForce) -> bool:
    """A `start` or `resume` ends the faults of a process, though it is a separate step."""
    view, machines = run.view, run.cluster.machines
    match fault.step.payload:
        case Kill() | Stop() | PowerOff():
            shuts_down = [name for name, machine in machines.items() if machine.stopping]
            return any(not view.running(target) or target in shuts_down for target in fault.done.targets)
        case Pause():
            return any(view.nodes[target].paused for target in fault.done.targets)
        case _:
            return True
