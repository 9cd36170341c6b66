"""A scenario's parts in words: its steps, its network, its expectations, and a sketch of its timeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replica.trace.signs import SIGNS
from scenarios.language.conditions import NumberTest
from scenarios.language.disk_steps import Bitflip, BumpClock, FailDisk, FillDisk, SlowDisk, StrobeClock
from scenarios.language.expect import EventTest, Expect
from scenarios.language.record_sets import format_record_names
from scenarios.language.spec import Scenario
from scenarios.language.steps import (
    AddLatency,
    At,
    CancelReassign,
    Check,
    Cut,
    Elect,
    Flush,
    Heal,
    Hold,
    Kill,
    LimitBandwidth,
    Loss,
    PartitionNetwork,
    Pause,
    Payload,
    PowerOff,
    Produce,
    Reassign,
    Release,
    ResetPeer,
    Restart,
    Resume,
    Seek,
    SetConfig,
    Start,
    Step,
    Stop,
    Tear,
    Throttle,
    When,
    Wipe,
)
from scenarios.language.values.links import delay_text
from scenarios.language.values.sentences import records_text, state_sentence, window_text
from scenarios.language.values.service_times import service_time_text
from scenarios.language.values.trees import time_text

_SKETCH_WIDTH = 64


def step_sentence(step: Step, records: str = "") -> str:
    """`kill leader(t-0)  (victim)`; records: names of what a produce step sends, where they are known."""
    text = payload_sentence(step.payload)
    if records and isinstance(step.payload, Produce):
        text += f": {records}"
    if step.every_us is not None:
        text += f", {step.times} times, every {time_text(step.every_us)}"
    if step.for_us is not None:
        text += f", for {time_text(step.for_us)}"
    return text + (f"  ({step.label})" if step.label else "")


def trigger_text(step: Step) -> str:
    """`10.500` for a time, `when t-0 is led by b2` for a condition."""
    if isinstance(step.trigger, At):
        return f"{step.trigger.at_us / 1_000_000:.3f}"
    return f"when {state_sentence(step.trigger.state)}"


def payload_sentence(payload: Payload) -> str:
    """What the step does, in the imperative."""
    return _SENTENCES[type(payload)](payload)


def _direction(payload: Any) -> str:
    words = {"both": "", "to": f", only what goes to {payload.side_a}", "from": f", only what {payload.side_a} sends"}
    return words[payload.direction]


def _hold(hold: Hold) -> str:
    what = " ".join(word for word in (hold.api, hold.part and f"{hold.part}s") if word) or "everything"
    return f"hold {what} from {hold.sender} to {hold.receiver}"


def _disk(payload: SlowDisk | FillDisk | FailDisk) -> str:
    return f"the disk {payload.log_dir} of {payload.brokers}" if payload.log_dir else f"the disk of {payload.brokers}"


def _jump(payload: BumpClock | StrobeClock) -> str:
    return f"{time_text(abs(payload.by_us))} {'ahead' if payload.by_us > 0 else 'back'}"


def _elect(elect: Elect) -> str:
    where = f" for {elect.partition}" if elect.partition else ""
    who = str(elect.broker) if elect.broker else ("whoever is alive" if elect.unclean else "the preferred leader")
    return f"elect {who}{where}{', uncleanly if need be' if elect.unclean else ''}"


def _reassign(reassign: Reassign) -> str:
    rate = "" if reassign.bytes_per_second is None else f", throttled to {reassign.bytes_per_second:,} B/s"
    return f"move {reassign.partition} to {reassign.replicas}{rate}"


def _throttle(throttle: Throttle) -> str:
    where = f" of {throttle.topic}" if throttle.topic else ""
    side = "" if throttle.side == "both" else f" as {throttle.side}"
    if throttle.bytes_per_second is None:
        return f"throttle the replication{where} on {throttle.brokers}{side} no more"
    return f"throttle the replication{where} on {throttle.brokers}{side} to {throttle.bytes_per_second:,} B/s"


def _set_config(change: SetConfig) -> str:
    whose = f"topic {change.topic}" if change.brokers is None else str(change.brokers)
    settings = [f"{key} of {whose} to {'its default' if value is None else value}" for key, value in change.config]
    return f"set {', '.join(settings)}"


def _produce(produce: Produce) -> str:
    count = "1 record" if produce.count == 1 else f"{produce.count} records"
    batches = f" in batches of {produce.batch}" if produce.batch > 1 and produce.count > 1 else ""
    return f"{produce.producer} sends {count}{batches}"


def _check(check: Check) -> str:
    parts = [] if check.state is None else [state_sentence(check.state)]
    parts += [f"the log of {test.partition} is {format_record_names(test.records)}" for test in check.logs]
    parts += [f"{test.kind} are {records_text(test.at_least, test.at_most, test.count)}" for test in check.records]
    if check.clock is not None:
        parts.append(f"it is {window_text(check.clock)}")
    if check.end_offset is not None:
        end = check.end_offset
        answer = end.error or (str(end.offset) if end.offset else "anything")
        parts.append(f"{end.client} asks for the end of {end.partition} and is answered {answer}")
    return f"check that {', and '.join(parts)}"


_SENTENCES: dict[type[Any], Callable[[Any], str]] = {
    Start: lambda p: f"start {p.nodes}",
    Stop: lambda p: f"stop {p.nodes}",
    Kill: lambda p: f"kill {p.nodes}",
    PowerOff: lambda p: f"power off {p.nodes}",
    Pause: lambda p: f"pause {p.nodes}",
    Resume: lambda p: f"resume {p.nodes}",
    Wipe: lambda p: f"wipe the disk of {p.nodes}",
    Restart: lambda p: f"restart {p.nodes}",
    PartitionNetwork: lambda p: f"partition {' | '.join(str(island) for island in p.islands)}",
    Cut: lambda p: f"cut {p.side_a} from {p.side_b}{_direction(p)}",
    Heal: lambda p: f"heal {', '.join(p.names) or 'everything'}",
    AddLatency: lambda p: f"slow {p.side_a} and {p.side_b} down by {delay_text(p.add)}{_direction(p)}",
    LimitBandwidth: lambda p: f"limit {p.side_a} and {p.side_b} to {p.bytes_per_second:,} B/s{_direction(p)}",
    Loss: lambda p: f"lose {p.rate_ppm / 10_000:g} % between {p.side_a} and {p.side_b}{_direction(p)}",
    ResetPeer: lambda p: f"reset the connections between {p.side_a} and {p.side_b}",
    Hold: _hold,
    Release: lambda p: f"release {', '.join(p.names) or 'everything'}",
    Flush: lambda p: f"flush {p.partition or 'all logs'} on {p.brokers}",
    Tear: lambda p: f"tear {p.size_bytes} bytes off {p.partition} on {p.broker}",
    Bitflip: lambda p: f"flip a bit of the batch at offset {p.offset} of {p.partition} on {p.broker}",
    SlowDisk: lambda p: f"slow {_disk(p)} down: {service_time_text(p.time)}",
    FillDisk: lambda p: f"fill {_disk(p)}",
    FailDisk: lambda p: f"break {_disk(p)}",
    BumpClock: lambda p: f"set the wall clock of {p.brokers} {_jump(p)}",
    StrobeClock: lambda p: f"set the wall clock of {p.brokers} {_jump(p)} and again, every {time_text(p.period_us)}",
    Elect: _elect,
    Reassign: _reassign,
    CancelReassign: lambda p: f"cancel the reassignment of {p.partition}",
    Throttle: _throttle,
    SetConfig: _set_config,
    Produce: _produce,
    Seek: lambda p: f"{p.consumer} seeks {p.partition} to {p.to}",
    Check: _check,
}


# -------------------------------------------------------------------------------------------------------- expectations


def expect_lines(expect: Expect) -> list[str]:
    """One line for each thing a scenario expects: verdict first, then records, logs and events."""
    if expect.verdict is None:
        return ["nothing"]
    lines = ["verdict " + (", ".join(expect.verdict) or "ok")]
    shown = [test for test in expect.records if test.kind in ("lost", "missing", "duplicated", "reordered", "failed")]
    for test in shown:
        if test.at_most != () or test.at_least != () or test.count is not None:
            lines.append(f"{test.kind} {records_text(test.at_least, test.at_most, test.count)}")
    for log in expect.logs:
        lines.append(f"{log.partition}{f' on {log.node}' if log.node else ''}: {format_record_names(log.records)}")
    return lines + [event_sentence(test) for test in expect.events]


def event_sentence(test: EventTest) -> str:
    """`leader_elected t-0 broker=b2 leader_epoch=1 between 17s and 20s`"""
    where = dict(test.where)
    topic, partition = where.pop("topic", None), where.pop("partition", None)
    words = ["never" if test.never else "", test.event]
    if isinstance(partition, NumberTest):
        words.append(f"{topic}-{partition.low}")
    for column, value in where.items():
        shown = "{" + ", ".join(value) + "}" if isinstance(value, tuple) else value
        words.append(f"{column}={str(shown).lower() if isinstance(shown, bool) else shown}")
    if test.between is not None:
        words.append(window_text(test.between))
    if test.count is not None:
        words.append(f"({test.count} times)")
    return " ".join(word for word in words if word)


# ------------------------------------------------------------------------------------------------------------ timeline


def record_names(scenario: Scenario) -> dict[int, str]:
    """Index of each produce step -> the records it sends, where only plain times decide; others are left out."""
    names: dict[int, str] = {}
    for producer in scenario.producers:
        steps = [
            step
            for step in scenario.timeline
            if isinstance(step.payload, Produce) and step.payload.producer == producer.name
        ]
        if producer.arrival is not None or any(isinstance(step.trigger, When) or step.times > 1 for step in steps[:-1]):
            continue
        sent = 0
        for step in sorted(steps, key=lambda step: (_at_us(step), step.index)):
            assert isinstance(step.payload, Produce)
            count = step.payload.count * step.times
            last = sent + count - 1
            first = f"{producer.prefix}{sent}"
            names[step.index] = first if count == 1 else f"{first}..{producer.prefix}{last}"
            sent += count
    return names


def _at_us(step: Step) -> int:
    return step.trigger.at_us if isinstance(step.trigger, At) else 2**62


def timeline_lines(scenario: Scenario) -> list[str]:
    """Every step with its time, in file order; conditions stand where the file has them."""
    records = record_names(scenario)
    lines = []
    for step in scenario.timeline:
        trigger = trigger_text(step)
        sentence = step_sentence(step, records.get(step.index, ""))
        lines.append(f"{trigger:>8}  {sentence}" if isinstance(step.trigger, At) else f"{'':>8}  {trigger}: {sentence}")
    return lines


def sketch(scenario: Scenario, *, plain: bool = False) -> list[str]:
    """Three rows over one time axis: what producers send, what goes wrong, what is undone or checked."""
    fault, undo, check, send = ("x", "o", "?", ".") if plain else (SIGNS["fault"], SIGNS["undone"], "?", "●")
    rows = {"sends": [" "] * _SKETCH_WIDTH, "faults": [" "] * _SKETCH_WIDTH, "undone": [" "] * _SKETCH_WIDTH}
    for workload in scenario.producers:
        if workload.arrival is not None:
            stop_us = min(workload.stop_us or scenario.duration_us, scenario.duration_us)
            for cell in range(_cell(workload.start_us, scenario), _cell(stop_us, scenario) + 1):
                rows["sends"][cell] = "─" if not plain else "-"
    for step in scenario.timeline:
        if not isinstance(step.trigger, At):
            continue
        payload = step.payload
        row, mark = ("faults", fault)
        if isinstance(payload, Produce):
            row, mark = "sends", send
        elif isinstance(payload, (Start, Resume, Heal, Release)):
            row, mark = "undone", undo
        elif isinstance(payload, Check):
            row, mark = "undone", check
        for time in range(step.times):
            at_us = step.trigger.at_us + time * (step.every_us or 0)
            if at_us <= scenario.duration_us:
                rows[row][_cell(at_us, scenario)] = mark
        if step.for_us is not None and step.trigger.at_us + step.for_us <= scenario.duration_us:
            rows["undone"][_cell(step.trigger.at_us + step.for_us, scenario)] = undo
    lines = [
        f"{name:>8}  {''.join(cells).rstrip()}" for name, cells in rows.items() if any(cell != " " for cell in cells)
    ]
    return [_axis(scenario), *lines]


def _cell(at_us: int, scenario: Scenario) -> int:
    return min(_SKETCH_WIDTH - 1, at_us * _SKETCH_WIDTH // scenario.duration_us)


def _axis(scenario: Scenario) -> str:
    """`0        15s       30s       45s       60s`"""
    cells = [" "] * (_SKETCH_WIDTH + 8)
    for quarter in range(5):
        at_us = scenario.duration_us * quarter // 4
        label = time_text(at_us) if quarter else "0"
        start = min(_SKETCH_WIDTH, quarter * _SKETCH_WIDTH // 4)
        cells[start : start + len(label)] = list(label)
    return f"{'':>8}  {''.join(cells).rstrip()}"
