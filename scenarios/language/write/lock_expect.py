"""Expectations back to plain data: the half of lock.py for expected results."""

from __future__ import annotations

from typing import Any

from scenarios.language.conditions import NumberTest, TimeTest
from scenarios.language.expect import EventTest, EventValue, Expect
from scenarios.language.record_sets import format_record_names
from scenarios.language.values.trees import (
    Tree,
    given,
    logs_tree,
    number_tree,
    records_tree,
    state_tree,
    time_text,
    window_tree,
)


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
