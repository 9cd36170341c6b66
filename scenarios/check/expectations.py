"""Compare a run with its scenario's expectations. Each result has one line with the expected and actual value."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from replica.ids import TopicPartition
from replica.trace.events import EndOffsetSeen
from replica.trace.listening import Listener
from replica.trace.ranges import format_record_names
from scenarios.check.event_watch import EventWatch, described, state_failures, state_findings, time_window
from scenarios.check.verdict import Verdict, classify
from scenarios.language.expect import (
    DivergedTest,
    EndOffsetTest,
    ErrorTest,
    Expect,
    LatencyTest,
    LogTest,
    RecordsTest,
    TimeTest,
    UnavailableTest,
)
from scenarios.language.values.trees import time_text
from scenarios.language.verbs.checks import Check
from scenarios.observe.availability import IsGone, ServiceTimes, Window
from scenarios.observe.final_logs import FinalReplica, LogEntries, LogEntry
from scenarios.observe.ledger import ErrorTally, RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.view import ClusterView
from scenarios.observe.wording import seconds


@dataclass(frozen=True, slots=True)
class Expectation:
    """The result for one expectation.

    Attributes:
        what: the key of `expect`, such as `records.lost` or `event leader_elected ...`.
        why: the expected and the actual value, on one line.
        judged: False if a run of this mode (simulated, live, real Kafka) cannot show the value; `held` is then True.
    """

    what: str
    held: bool
    why: str
    judged: bool = True


@dataclass(slots=True)
class RunSight:
    """The state of a run that conditions read: its listeners, and the nodes that steps have captured with `as`."""

    view: ClusterView
    ledger: RecordLedger
    mirror: LogMirror
    captured: Mapping[str, tuple[str, ...]]


class Expectations(Listener):
    """Listener that collects data for a scenario's `expect`. `results` compares it once the run is over."""

    def __init__(self, expect: Expect, sight: RunSight) -> None:
        self.expect = expect
        self.sight = sight
        self._events = EventWatch(expect.events, sight.captured)
        self._service = ServiceTimes()
        self.parts = (self._events, self._service)

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of gone topics (see Forgetful), except those whose unavailability is expected."""
        expected = {item.partition.topic for item in self.expect.unavailable}
        self._service.forget(lambda topic: topic not in expected and is_gone(topic))

    def results(self, verdict: Verdict, end_us: int) -> list[Expectation]:
        """Return the result of each expectation, in the order of the scenario schema. The ledger must be closed."""
        return list(self._results(verdict, end_us))

    def _results(self, verdict: Verdict, end_us: int) -> Iterator[Expectation]:
        expect, ledger = self.expect, self.sight.ledger
        if expect.verdict is not None:
            yield _verdict_result(expect.verdict, verdict, expect.verdict_is_written)
        for records in expect.records:
            yield _records_result(records, verdict.records[records.kind])
        for log in expect.logs:
            yield _log_result(log, _final_names(ledger, log))
        if expect.diverged is not None:
            yield _diverged_result(expect.diverged, verdict)
        if expect.state is not None:
            for held, line in state_findings(expect.state, self.sight.view, self.sight.captured):
                yield Expectation("state", held, line)
        for watch in self._events.watches:
            yield Expectation(f"event {described(watch.test)}", watch.held, watch.why)
        for error in expect.errors:
            yield _error_result(error, ledger)
        for latency in expect.latency:
            yield _latency_result(latency, ledger)
        for unavailable in expect.unavailable:
            yield _unavailable_result(unavailable, self.unavailable(unavailable.partition, unavailable.what, end_us))

    def unavailable(self, partition: TopicPartition, what: str, end_us: int) -> list[Window]:
        """Return the windows in which a partition could not be written to or read; `what` is `writes` or `reads`."""
        if what == "writes":
            return self.sight.ledger.writes.windows(partition, end_us)
        return self._service.read_windows(partition, end_us)


# ------------------------------------------------------------------------------------------------ single results


def _verdict_result(wanted: tuple[str, ...], verdict: Verdict, is_written: bool) -> Expectation:
    held = sorted(wanted) == sorted(verdict.kinds)
    expected, found = ", ".join(wanted) or "ok", ", ".join(verdict.kinds) or "ok"
    if not is_written:
        expected += (
            f" (the scenario has no `verdict`; add `verdict: {f'[{found}]' if len(verdict.kinds) > 1 else found}`)"
        )
    return Expectation("verdict", held, found if held else f"expected {expected}, found {found}")


def _records_result(test: RecordsTest, found: Sequence[str]) -> Expectation:
    wanted = []
    held = True
    if test.at_least is not None and test.at_least == test.at_most:
        wanted.append(format_record_names(test.at_least))
        held = set(found) == set(test.at_least)
    else:
        if test.at_least is not None:
            wanted.append(f"at least {format_record_names(test.at_least)}")
            held = held and set(test.at_least) <= set(found)
        if test.at_most is not None:
            wanted.append(f"at most {format_record_names(test.at_most)}")
            held = held and set(found) <= set(test.at_most)
    if test.count is not None:
        wanted.append(f"{test.count} records")
        held = held and test.count.holds(len(found))
    names = f"{format_record_names(found)} ({len(found)})" if found else format_record_names(found)
    return Expectation(
        f"records.{test.kind}", held, names if held else f"expected {' and '.join(wanted)}, found {names}"
    )


def _final_names(ledger: RecordLedger, test: LogTest) -> list[str]:
    if test.node is None:
        return list(ledger.final_log(test.partition).records)
    replica = ledger.final.get(test.partition, {}).get(test.node)
    return list(replica.entries.records) if replica else []


def _log_result(test: LogTest, found: Sequence[str]) -> Expectation:
    what = f"logs.{test.partition}" + (f".{test.node}" if test.node else "")
    held = list(test.records) == list(found)
    text = format_record_names(found)
    return Expectation(what, held, text if held else f"expected {format_record_names(test.records)}, found {text}")


def _diverged_result(wanted: tuple[DivergedTest, ...], verdict: Verdict) -> Expectation:
    expected = {test.partition: (sorted(test.offsets), sorted(test.replicas)) for test in wanted}
    found: dict[TopicPartition, tuple[list[int], list[str]]] = {}
    for anomaly in verdict.of("diverged"):
        assert anomaly.partition is not None
        offsets, replicas = found.get(anomaly.partition, ([], []))
        found[anomaly.partition] = (
            sorted({*offsets, *anomaly.offsets}),
            sorted({*replicas, *anomaly.replicas}),
        )
    held = expected == found
    why = _diverged_text(found) if held else f"expected {_diverged_text(expected)}, found {_diverged_text(found)}"
    return Expectation("diverged", held, why)


def _diverged_text(places: Mapping[TopicPartition, tuple[list[int], list[str]]]) -> str:
    texts = [
        f"{partition} at {', '.join(map(str, offsets))} on {', '.join(replicas)}"
        for partition, (offsets, replicas) in places.items()
    ]
    return "; ".join(texts) or "none"


def _error_result(test: ErrorTest, ledger: RecordLedger) -> Expectation:
    tallies = ledger.errors.get(test.client, {})
    tally = _sum_of(list(tallies.values())) if test.error is None else tallies.get(test.error)
    what = f"errors.{test.client}" + (f".{test.error}" if test.error else "")
    wanted = []
    if test.count is not None:
        wanted.append(str(test.count))
    if test.first is not None:
        wanted.append(f"the first {time_window(test.first)}")
    if test.last is not None:
        wanted.append(f"the last {time_window(test.last)}")
    held = _tally_fits(test, tally)
    found = "none" if tally is None else f"{tally.count}, {seconds(tally.first_us)} to {seconds(tally.last_us)}"
    return Expectation(what, held, found if held else f"expected {', '.join(wanted) or 'at least 1'}, found {found}")


def _tally_fits(test: ErrorTest, tally: ErrorTally | None) -> bool:
    if test.count is not None and not test.count.holds(0 if tally is None else tally.count):
        return False
    if tally is None:
        return test.count is not None
    in_time = test.first is None or test.first.holds(tally.first_us)
    return in_time and (test.last is None or test.last.holds(tally.last_us))


def _sum_of(tallies: list[ErrorTally]) -> ErrorTally | None:
    if not tallies:
        return None
    return ErrorTally(
        sum(tally.count for tally in tallies),
        min(tally.first_us for tally in tallies),
        max(tally.last_us for tally in tallies),
    )


def _latency_result(test: LatencyTest, ledger: RecordLedger) -> Expectation:
    what = f"latency.{test.client}.{test.what}"
    value = _latency(test, ledger)
    if value is None:
        return Expectation(what, False, f"expected {_bounds(test.bounds)}, but no such record was acked")
    held = test.bounds.holds(value)
    return Expectation(
        what, held, time_text(value) if held else f"expected {_bounds(test.bounds)}, found {time_text(value)}"
    )


def _latency(test: LatencyTest, ledger: RecordLedger) -> int | None:
    entry = ledger.records.get(test.what)
    if entry is not None:
        return entry.latency_us
    answers = ledger.records.answers().items()
    counts = sum((answer.latencies_us for client, answer in answers if test.client in (None, client)), Counter())
    return latency_statistics(counts).get(test.what)


def latency_statistics(counts: Counter[int]) -> dict[str, int]:
    """Return min, mean, p50, p90, p99 and max of latencies in microseconds, by nearest rank; {} if there are none.

    Args:
        counts: number of records by their latency in microseconds.
    """
    if not counts:
        return {}
    found = sorted(counts)
    ends = list(accumulate(counts[latency_us] for latency_us in found))  # number of records with this latency or less
    mean_us = sum(latency_us * count for latency_us, count in counts.items()) // ends[-1]
    ranks = {
        name: found[bisect_left(ends, max(-(-ends[-1] * part // 100), 1))]
        for name, part in (("p50", 50), ("p90", 90), ("p99", 99))
    }
    return {"min": found[0], "mean": mean_us, **ranks, "max": found[-1]}


def _bounds(test: TimeTest) -> str:
    if test.low_us is not None and test.high_us is not None:
        return f"{time_text(test.low_us)} to {time_text(test.high_us)}"
    if test.low_us is not None:
        return f"at least {time_text(test.low_us)}"
    return "anything" if test.high_us is None else f"at most {time_text(test.high_us)}"


def _unavailable_result(test: UnavailableTest, found: list[Window]) -> Expectation:
    held = len(found) == len(test.windows) and all(
        abs(window.from_us - wanted.from_us) <= wanted.slack_us and abs(window.to_us - wanted.to_us) <= wanted.slack_us
        for wanted, window in zip(test.windows, found, strict=False)
    )
    expected = ", ".join(_span(wanted.from_us, wanted.to_us) for wanted in test.windows) or "never"
    actual = ", ".join(_span(window.from_us, window.to_us) for window in found) or "never"
    why = actual if held else f"expected {expected}, found {actual}"
    return Expectation(f"unavailable.{test.partition}.{test.what}", held, why)


def _span(from_us: int, to_us: int) -> str:
    return f"{seconds(from_us)} to {seconds(to_us)}"


# -------------------------------------------------------------------------------------------------- check steps


def check_now(check: Check, sight: RunSight, now_us: int, name: str = "check") -> Expectation:
    """Return the result of a `check` step now, except its `end_offset`: see `end_offset_seen`."""
    failures = []
    if check.clock is not None and not check.clock.holds(now_us):
        failures.append(f"clock: expected {time_window(check.clock)}, found {seconds(now_us)}")
    if check.state is not None:
        failures.extend(state_failures(check.state, sight.view, sight.captured))
    results = [_log_result(log, _names_now(sight, log)) for log in check.logs]
    if check.records:
        now = sight.ledger.as_if_over(logs_now(sight))
        results.extend(_records_result(records, classify(now, records.kind)) for records in check.records)
    failures.extend(f"{result.what}: {result.why}" for result in results if not result.held)
    return Expectation(name, not failures, "; ".join(failures) or f"holds at {seconds(now_us)}")


def end_offset_seen(test: EndOffsetTest, event: EndOffsetSeen, name: str = "check") -> Expectation:
    """Return the result of a `check` step's `end_offset` from the first answer that its client got."""
    if test.error is not None:
        held, expected = event.error == test.error, test.error
    elif test.offset is not None:
        held, expected = event.error is None and test.offset.holds(event.offset), str(test.offset)
    else:
        held, expected = True, "any answer"
    found = event.error if event.error is not None else str(event.offset)
    text = f"end offset of {test.partition} for {test.client}"
    return Expectation(name, held, f"{text} is {found}" if held else f"{text}: expected {expected}, found {found}")


def logs_now(sight: RunSight) -> dict[TopicPartition, dict[str, FinalReplica]]:
    """Return every replica's log as it is now, in the same form as the final logs."""
    logs: dict[TopicPartition, dict[str, FinalReplica]] = {}
    for partition, state in sight.view.partitions.items():
        leading = sight.view.leading_replica(partition)
        for node, replica in state.replicas.items():
            found = (
                LogEntry(offset, record, batch.leader_epoch, batch.crc, -1)
                for offset, record, batch in sight.mirror.records(partition, node)
            )
            entries = LogEntries(found, sight.ledger.records.index)
            logs.setdefault(partition, {})[node] = FinalReplica(
                node,
                entries,
                replica.log_start_offset,
                replica.log_end_offset,
                replica.high_watermark,
                is_leader=leading is replica,
                in_isr=node in state.isr,
                in_elr=node in state.eligible,
                running=sight.view.running(node),
                leader_epoch=sight.mirror.log(partition, node).last_epoch,
                seq=0,
            )
    return logs


def _names_now(sight: RunSight, test: LogTest) -> list[str]:
    node = test.node or sight.view.leader(test.partition)
    return [] if node is None else [record for _, record, _ in sight.mirror.records(test.partition, node)]
