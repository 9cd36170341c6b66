"""Conditions in words."""

from __future__ import annotations

from scenarios.language.conditions import NodeTest, NumberTest, PartitionTest, StateTest, TimeTest
from scenarios.language.selectors import Selector, format_record_names
from scenarios.language.values.trees import time_text


def _nodes(selector: Selector) -> str:
    return "{" + ", ".join(str(selector).split(", ")) + "}" if selector.terms else "{}"


def state_sentence(state: StateTest) -> str:
    """`t-0 is led by b2 with ISR {b2, b3}, and b1 has LEO 10 of t-0`"""
    parts = [_partition_sentence(test) for test in state.partitions] + [_node_sentence(test) for test in state.nodes]
    return ", and ".join(parts)


def _partition_sentence(test: PartitionTest) -> str:
    words = []
    if test.leader is not None:
        words.append(f"is led by {test.leader}" if test.leader.terms else "has no leader")
    if test.offline is not None:
        words.append("is offline" if test.offline else "is online")
    numbers = _numbers({"epoch": test.epoch, "HW": test.hw, "LEO": test.leo})
    numbers[:0] = [
        f"{name} {_nodes(members)}" for name, members in (("ISR", test.isr), ("ELR", test.elr)) if members is not None
    ]
    if numbers:
        words.append(f"has {', '.join(numbers)}")
    return f"{test.partition} {' and '.join(words) or 'exists'}"


def _numbers(tests: dict[str, NumberTest | None]) -> list[str]:
    return [f"{name} {test}" for name, test in tests.items() if test is not None]


def _node_sentence(test: NodeTest) -> str:
    words = []
    if test.running is not None:
        words.append("is up" if test.running else "is down")
    if test.fenced is not None:
        words.append("is fenced" if test.fenced else "is not fenced")
    for replica in test.replicas:
        numbers = _numbers({"epoch": replica.epoch, "HW": replica.hw, "LEO": replica.leo})
        if replica.leading is not None:
            words.append(f"{'leads' if replica.leading else 'does not lead'} {replica.partition}")
        if numbers:
            words.append(f"has {', '.join(numbers)} of {replica.partition}")
    return f"{test.node} {' and '.join(words) or 'exists'}"


def window_text(window: TimeTest) -> str:
    """`between 17s and 20s`, `after 30s`, `before 30s`"""
    if window.low_us is not None and window.high_us is not None:
        return f"between {time_text(window.low_us)} and {time_text(window.high_us)}"
    if window.low_us is not None:
        return f"after {time_text(window.low_us)}"
    return "at any time" if window.high_us is None else f"before {time_text(window.high_us)}"


def records_text(at_least: tuple[str, ...] | None, at_most: tuple[str, ...] | None, count: NumberTest | None) -> str:
    """`r10..r14`, `at least r10..r14`, `5 of them`"""
    parts = []
    if at_least is not None and at_least == at_most:
        parts.append(format_record_names(at_least))
    else:
        parts += [] if at_least is None else [f"at least {format_record_names(at_least)}"]
        parts += [] if at_most is None else [f"at most {format_record_names(at_most)}"]
    if count is not None:
        parts.append(f"{count} of them")
    return ", ".join(parts)
