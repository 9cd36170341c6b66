"""The server in a live cluster for the requests of `highwater fault` and similar commands.

Each connection to its private socket carries one request in JSON: {"words": [...], "for": ..., "as": ...},
{"yaml": step}, {"end": name}, {"list": true}, {"condition": text} or {"topic": "NAME:PARTITIONS:RF"}. Steps are parsed
and performed like the steps of a scenario file.
"""

from __future__ import annotations

import json
import operator
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import trio
import yaml

from cluster.live.time import LiveTime
from replica.ids import TopicPartition
from scenarios.check.event_watch import state_failures
from scenarios.language.diagnostics import (
    Diagnostic,
    Place,
    Problems,
    ScenarioInvalid,
    SourceText,
    TooManyProblems,
    as_dict,
    format_text,
)
from scenarios.language.parse.steps import read_labels, read_timeline
from scenarios.language.selectors import SelectorError, parse_partition
from scenarios.language.spec import TopicSpec
from scenarios.language.steps import Step
from scenarios.language.values import yaml_source
from scenarios.language.values.condition_reading import read_state
from scenarios.language.values.reading import Reader
from scenarios.language.values.scope import Scope
from scenarios.language.values.yaml_source import Scalar, Sequence, parse
from scenarios.language.verbs.command_words import ShorthandError
from scenarios.language.verbs.every import step_of
from scenarios.language.verbs.process import Kill, Pause, PowerOff, Stop
from scenarios.observe.view import ClusterView
from scenarios.run.runner import ScenarioRun
from scenarios.run.timeline import InForce
from scenarios.serve.control_place import REQUEST_BYTES_MAX
from scenarios.serve.serving import TopicWish

ASK_WITHIN_S = 5.0
DONE_WITHIN_S = 20.0
TAKEN_WITHIN_S = 60.0
"""Seconds that a client has to read its answer, which is 4 MB for 10,000 partitions."""
AT_ONCE_MAX = 16
WORDS_MAX = 200
Answer = dict[str, Any]


class BadRequest(ValueError):
    """Raised if a request is malformed or is not a valid condition or topic."""


class ControlServer:
    """Serves the control socket of a live run until cancelled."""

    def __init__(
        self, run: ScenarioRun, time: LiveTime, gone: dict[TopicPartition, dict[str, tuple[int, int]]]
    ) -> None:
        """Create the server for one run.

        Args:
            gone: lost acked records by partition and name, as in LossWatch, which updates it.
        """
        self._gone = gone
        self._run = run
        self._time = time
        self._next_index = len(run.scenario.timeline)  # Operators' steps are numbered after the steps of the file.
        self._limit = trio.CapacityLimiter(AT_ONCE_MAX)

    async def serve(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        door = trio.socket.from_stdlib_socket(listener)
        async with trio.open_nursery() as nursery:
            while True:
                await self._limit.acquire_on_behalf_of(turn := object())
                sock, _ = await door.accept()
                nursery.start_soon(self._connection, trio.SocketStream(sock), turn)

    async def _connection(self, stream: trio.SocketStream, turn: object) -> None:
        try:
            async with stream:
                answer = None
                with trio.move_on_after(ASK_WITHIN_S + DONE_WITHIN_S):
                    answer = await self._answer(stream)
                with trio.move_on_after(TAKEN_WITHIN_S):
                    if answer is not None:
                        await stream.send_all(json.dumps(answer).encode())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The client has disconnected. The trace shows whether its request was carried out.
        finally:
            self._limit.release_on_behalf_of(turn)

    async def _answer(self, stream: trio.SocketStream) -> Answer | None:
        """Read a request and return its answer, or None if the client has closed the connection without a request."""
        data = bytearray()
        with trio.move_on_after(ASK_WITHIN_S) as patience:
            async for chunk in stream:
                data += chunk
                if len(data) > REQUEST_BYTES_MAX:
                    return _failed("request", f"more than {REQUEST_BYTES_MAX:,} bytes")
        if patience.cancelled_caught:
            return _failed("request", f"not complete within {ASK_WITHIN_S:g} s")
        if not data:
            return None
        try:
            return await self._do(data)
        except BadRequest as bad:
            return _failed("request", str(bad))
        except ShorthandError as wrong:
            return {**_failed("words", str(wrong)), "fix": wrong.fix}
        except ScenarioInvalid as invalid:
            text = format_text(invalid.file, invalid.diagnostics, "Nothing was done.")
            return {**_failed("step", text), "diagnostics": [as_dict(diagnostic) for diagnostic in invalid.diagnostics]}

    async def _do(self, data: bytes | bytearray) -> Answer:
        """Carry out a request and return its answer. Raises BadRequest, ShorthandError or ScenarioInvalid."""
        try:
            request = json.loads(data)
        except (ValueError, RecursionError):
            raise BadRequest("not JSON") from None
        run = self._run
        if not run.is_ready.is_set():
            return _failed("moment", "the brokers are still starting; try again")
        match request:
            case {"list": True}:
                self._time.enter()
                gone = {str(partition): len(records) for partition, records in sorted(self._gone.items())}
                return {"ok": True, "state": {**cluster_state(run), "acked_records_gone": gone}}
            case {"end": str(name)}:
                return await self._submit(lambda tell: run.timeline.submit_end(name, tell))
            case {"yaml": str(text)}:
                return await self._step(text)
            case {"condition": str(text)}:
                self._time.enter()
                return {"ok": True, **_condition(text, run)}
            case {"topic": str(text)}:
                return await self._create_topic(text)
            case {"words": list(words), "for": lasts, "as": label} if _are_texts(words, lasts, label):
                nodes = [*run.cluster.machines, *run.cluster.fabric.outsiders]
                return await self._step(_as_yaml(step_of(words, nodes, lasts, label)))
            case _:
                raise BadRequest("the request is neither a step nor a question")

    async def _create_topic(self, text: str) -> Answer:
        """Create a topic described as NAME:PARTITIONS:RF. Raises BadRequest."""
        run = self._run
        try:
            wish = TopicWish.parse(text, len(run.scenario.cluster.brokers))
        except ValueError as error:
            raise BadRequest(str(error)) from None
        topic = TopicSpec(
            name=wish.name, partitions=wish.partitions, assignment=None, replication_factor=wish.replication_factor
        )
        return await self._submit(lambda tell: run.timeline.submit_topic(topic, tell))

    async def _step(self, text: str) -> Answer:
        step, warnings = read_operator_step(text, self._run, self._next_index)
        self._next_index += 1
        answer = await self._submit(lambda tell: self._run.timeline.submit(step, tell))
        if warnings:
            answer["warnings"] = [warning.title for warning in warnings]
        return {**answer, "fault": step.name, "step": text}

    async def _submit(self, submit: Any) -> Answer:
        """Submit an action to the timeline. Return the answer once the action has been performed or has failed.

        Args:
            submit: called with the function that the timeline calls with the result (timeline.Tell).
        """
        said: list[tuple[str, bool]] = []
        done = trio.Event()

        def tell(sentence: str, held: bool) -> None:
            said.append((sentence, held))
            done.set()

        self._time.enter()
        submit(tell)
        with trio.move_on_after(DONE_WITHIN_S):
            await done.wait()
        if not said:
            return _failed("moment", f"not done within {DONE_WITHIN_S:g} s; it may still be done later")
        sentence, held = said[0]
        return {"ok": True, "what": sentence} if held else _failed("moment", sentence)


def _as_yaml(step: dict[str, Any]) -> str:
    return str(yaml.safe_dump(step, default_flow_style=True, sort_keys=False, width=10_000)).strip()


def _are_texts(words: list[object], lasts: object, label: object) -> bool:
    return (
        0 < len(words) <= WORDS_MAX
        and all(isinstance(word, str) for word in words)
        and all(item is None or isinstance(item, str) for item in (lasts, label))
    )


def _failed(kind: str, text: str) -> Answer:
    return {"ok": False, "kind": kind, "error": text}


# --------------------------------------------------------------------------------------------------- steps of operators
#
# Parses the steps of `highwater fault` in the scenario language. They may use all names that the cluster has now.

NAME = "the step"


def read_operator_step(text: str, run: ScenarioRun, index: int) -> tuple[Step, tuple[Diagnostic, ...]]:
    """Parse an operator's step in YAML. Return the step and its warnings.

    A step without `at` and `when` gets the time 0, so it is performed immediately.

    Args:
        index: number of the step among all steps of the run.

    Raises:
        ScenarioInvalid: the step has errors.
    """
    problems, step = Problems(), None
    with suppress(TooManyProblems):
        step = _read(text, run, index, problems)
    if step is None or problems.any_error:
        raise ScenarioInvalid(NAME, problems.sorted())
    return step, problems.sorted()


def _read(text: str, run: ScenarioRun, index: int, problems: Problems) -> Step | None:
    source = SourceText.of(NAME, text)
    node = parse(text, source, problems)
    if not isinstance(node, yaml_source.Mapping):
        if not problems.found:
            title = "a step must be a mapping such as {kill: b1}"
            problems.add(Diagnostic(code="E111", title=title, place=Place(source, 0, 0)))
        return None
    scope = _scope_of(run, Reader(problems))
    if "at" not in node.entries and "when" not in node.entries:
        now = Scalar(node.place, "0s")
        node = yaml_source.Mapping(node.place, {"at": (Scalar(node.place, "at"), now), **node.entries})
    # Parse the step as a separate timeline, because all earlier steps have already been performed.
    line = Sequence(node.place, [node])
    read_labels(scope, line, "timeline")
    for label, verb in _names_of_the_past(run).items():  # The new step may reuse these names, so they come later.
        scope.labels.setdefault(label, verb)
    steps = read_timeline(scope, line, "timeline")
    if not steps:
        return None
    (step,) = steps
    return Step(
        index=index,
        trigger=step.trigger,
        payload=step.payload,
        label=step.label,
        every_us=step.every_us,
        times=step.times,
        for_us=step.for_us,
    )


def _scope_of(run: ScenarioRun, reader: Reader) -> Scope:
    """Return the names that a step may use, including topics created since the start of the cluster.

    They include the names of faults in force, which a new step cannot have.
    """
    scenario, view = run.scenario, run.view
    cluster = scenario.cluster
    scope = Scope(reader, brokers=list(cluster.brokers), controllers=list(cluster.controllers))
    scope.log_dirs.update({name: cluster.log_dirs(name) for name in cluster.brokers})
    for name, rack in cluster.racks.items():
        scope.racks.setdefault(rack, []).append(name)
    scope.outsiders.extend(run.cluster.fabric.outsiders)
    for partition in sorted(view.partitions):
        scope.topics[partition.topic] = max(scope.topics.get(partition.topic, 0), partition.partition + 1)
    scope.producers.update({workload.name: workload.topic for workload in scenario.producers})
    scope.consumers.update({workload.name: workload.topics for workload in scenario.consumers})
    scope.workloads = scenario.workloads
    scope.prefixes.update({workload.prefix: workload.name for workload in scenario.producers})
    run.timeline.forget_unless(partial(still_holds, run))
    scope.labels.update({fault.step.name: fault.step.verb for fault in run.timeline.in_force()})
    return scope


# ----------------------------------------------------------------------------------------------------------- conditions
#
# A condition is a comparison such as `isr(orders-0) == 3`, or a state as in `when`: {orders-0: {isr: [b1, b2]}}.

CONDITION = re.compile(r"(leader|epoch|isr|elr|hw|leo)\(([^()]+)\)\s*(==|!=|>=|<=|>|<)\s*(\S.*)")
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


def _condition(text: str, run: ScenarioRun) -> dict[str, Any]:
    """Evaluate a condition. Return {holds: bool, found: text about the current state}.

    Raises:
        BadRequest, ScenarioInvalid: the condition is invalid.
    """
    short = CONDITION.fullmatch(text.strip())
    if short is not None:
        return _comparison(run.view, *short.groups())
    if not text.lstrip().startswith("{"):
        raise BadRequest(
            f"`{text}` is not a condition: write isr(orders-0) == 3 (or leader, epoch, elr, hw, leo), or a state as "
            "in `when`, such as {b1: {running: true}}"
        )
    problems = Problems()
    source = SourceText.of("the condition", text)
    node = parse(text, source, problems)
    if node is not None and not problems.any_error:
        test = read_state(_scope_of(run, Reader(problems)), node, "when", "the condition")
    if node is None or problems.any_error:
        raise ScenarioInvalid("the condition", problems.sorted())
    missing = state_failures(test, run.view, run.captured)
    return {"holds": not missing, "found": "; ".join(missing)}


def _comparison(view: ClusterView, field: str, name: str, sign: str, wanted: str) -> dict[str, Any]:
    """Evaluate a comparison of a partition's field, such as `isr`, with a value. Raises BadRequest."""
    try:
        partition = parse_partition(name.strip())
    except SelectorError as error:
        raise BadRequest(str(error)) from None
    state = view.partitions.get(partition)
    if state is None:
        return {"holds": False, "found": f"there is no {partition}"}
    leader = state.replicas.get(state.leader) if state.leader else None
    values: dict[str, Any] = {
        "leader": state.leader or "none",
        "epoch": state.leader_epoch,
        "isr": state.isr,
        "elr": state.elr,
        "hw": leader.high_watermark if leader else -1,
        "leo": leader.log_end_offset if leader else -1,
    }
    found = values[field]
    shown = "{" + ", ".join(found) + "}" if isinstance(found, tuple) else str(found)
    said = {"found": f"{field} of {partition} is {shown}"}
    if re.fullmatch(r"\d{1,18}", wanted) and field != "leader":
        number = len(found) if isinstance(found, tuple) else found
        return {**said, "holds": COMPARE[sign](number, int(wanted))}
    if sign not in ("==", "!=") or field not in ("leader", "isr", "elr"):
        raise BadRequest(
            f"compare {field} with a number" + (", or with brokers by == or !=" if field in ("isr", "elr") else "")
        )
    names = {part.strip() for part in wanted.strip("{}[]").split(",")} - {"", "none"}
    there = {*found} if isinstance(found, tuple) else {found} - {"none"}
    return {**said, "holds": (there == names) is (sign == "==")}


def _names_of_the_past(run: ScenarioRun) -> dict[str, str]:
    """Return the verbs of all steps whose nodes `@label` can select, including finished steps, by label."""
    verbs = {step.label: step.verb for step in run.scenario.timeline if step.label is not None}
    return {name: verbs.get(name, "") for name in run.captured}


# ------------------------------------------------------------------------------------------------- state of the cluster
#
# The state of a running cluster for `fault list`: nodes, partitions, and faults in force.


def cluster_state(run: ScenarioRun) -> dict[str, Any]:
    """Return the state of a cluster as JSON values. Times are in seconds since the start of the run."""
    view, time = run.view, run.cluster.time
    return {
        "profile": run.scenario.profile,
        "at_s": round(time.now_us / 1e6, 3),
        "bootstrap": [f"{host}:{port}" for host, port in run.cluster.bootstrap],
        "nodes": [_node(view, name) for name in (*view.brokers, *view.controllers, *view.clients)],
        "outside_clients": list(run.cluster.fabric.outsiders),
        "partitions": [_partition(view, name) for name in sorted(view.partitions)],
        "faults": [_fault(item) for item in run.timeline.in_force() if still_holds(run, item)],
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
        "leads": [
            str(partition) for partition, state in sorted(view.partitions.items()) if state.acting_leader == name
        ],
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
        "what": fault.what,
        "since_s": round(fault.began_us / 1e6, 3),
        "until_s": None if ends_us is None else round(ends_us / 1e6, 3),
    }


def still_holds(run: ScenarioRun, fault: InForce) -> bool:
    """Return False if the nodes of a `kill`, `stop`, `power_off` or `pause` fault have been started or resumed."""
    view, machines = run.view, run.cluster.machines
    match fault.step.payload:
        case Kill() | Stop() | PowerOff():
            shuts_down = [name for name, machine in machines.items() if machine.stopping]
            return any(not view.running(target) or target in shuts_down for target in fault.done.targets)
        case Pause():
            return any(view.nodes[target].paused for target in fault.done.targets)
        case _:
            return True
