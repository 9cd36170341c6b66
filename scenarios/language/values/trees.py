"""Conversion of values and conditions to plain data in the form of a scenario file, and to text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replica.trace.ranges import format_record_names
from scenarios.language.expect import (
    LogTest,
    NodeTest,
    NumberTest,
    PartitionTest,
    RecordsTest,
    ReplicaTest,
    StateTest,
    TimeTest,
)
from scenarios.language.selectors import Selector, text_of

Tree = dict[str, Any]


def given(tree: Mapping[str, Any]) -> Tree:
    """Return the mapping without the keys whose value is None."""
    return {key: value for key, value in tree.items() if value is not None}


def names_of(selector: Selector) -> list[str]:
    return [text_of(term) for term in selector.terms]


# ------------------------------------------------------------------------------------------------------------- scalars


def time_text(us: int) -> str:
    """Return the time with the unit that a person would choose, without rounding: `10.5s` for 10500000."""
    if us % 1000 and us < 1_000_000:
        return f"{us}us"
    if us and us < 1_000_000:
        return f"{us // 1000}ms"
    whole, fraction = divmod(us, 1_000_000)
    return f"{whole}.{fraction:06d}".rstrip("0").rstrip(".") + "s"


def selector_tree(selector: Selector) -> str | list[str]:
    texts = [text_of(term) for term in selector.terms]
    return "none" if not texts else texts[0] if len(texts) == 1 else texts


def number_tree(test: NumberTest | None) -> Any:
    if test is None:
        return None
    if test.low is not None and test.low == test.high:
        return test.low
    return given({"at_least": test.low, "at_most": test.high})


def window_tree(test: TimeTest | None, words: tuple[str, str, str] = ("between", "after", "before")) -> Tree:
    """Return the bounds as keys to be merged into another mapping.

    Args:
        words: the keys for both bounds, for a lower bound alone and for an upper bound alone.
    """
    if test is None:
        return {}
    between, after, before = words
    if test.low_us is not None and test.high_us is not None:
        return {between: [time_text(test.low_us), time_text(test.high_us)]}
    if test.low_us is not None:
        return {after: time_text(test.low_us)}
    return {} if test.high_us is None else {before: time_text(test.high_us)}


# ---------------------------------------------------------------------------------------------------------- conditions


def state_tree(state: StateTest) -> Tree:
    tree: Tree = {str(test.partition): _partition_test(test) for test in state.partitions}
    tree.update({str(test.node): _node_test(test) for test in state.nodes})
    return tree


def _partition_test(test: PartitionTest) -> Tree:
    return given(
        {
            "leader": None if test.leader is None else selector_tree(test.leader),
            "epoch": number_tree(test.epoch),
            "isr": None if test.isr is None else names_of(test.isr),
            "elr": None if test.elr is None else names_of(test.elr),
            "hw": number_tree(test.hw),
            "leo": number_tree(test.leo),
            "offline": test.offline,
        }
    )


def _node_test(test: NodeTest) -> Tree:
    tree = given({"running": test.running, "fenced": test.fenced})
    tree.update({str(replica.partition): _replica_test(replica) for replica in test.replicas})
    return tree


def _replica_test(test: ReplicaTest) -> Tree:
    numbers = {"hw": number_tree(test.hw), "leo": number_tree(test.leo), "epoch": number_tree(test.epoch)}
    return given({**numbers, "leading": test.leading})


def records_tree(tests: tuple[RecordsTest, ...]) -> Tree:
    return {test.kind: _records_test(test) for test in tests}


def _records_test(test: RecordsTest) -> Any:
    if test.at_least is not None and test.at_least == test.at_most and test.count is None:
        return format_record_names(test.at_least)
    return given(
        {
            "at_least": None if test.at_least is None else format_record_names(test.at_least),
            "at_most": None if test.at_most is None else format_record_names(test.at_most),
            "count": number_tree(test.count),
        }
    )


def logs_tree(tests: tuple[LogTest, ...]) -> Tree:
    tree: Tree = {}
    for test in tests:
        names = format_record_names(test.records)
        if test.node is None:
            tree[str(test.partition)] = names
        else:
            tree.setdefault(str(test.partition), {})[test.node] = names
    return tree


def share_text(ppm: int) -> str:
    """Return a share in parts per million as a percentage: `0.5%` for 5000."""
    return f"{ppm // 10_000}.{ppm % 10_000:04d}".rstrip("0").rstrip(".") + "%"


def bandwidth_text(bytes_per_second: int) -> str:
    return f"{bytes_per_second}B/s"


# ------------------------------------------------------------------------------------------------------------ sentences
#
# Descriptions of conditions as text.


def _nodes(selector: Selector) -> str:
    return "{" + ", ".join(str(selector).split(", ")) + "}" if selector.terms else "{}"


def state_sentence(state: StateTest) -> str:
    """Return a description such as `t-0 is led by b2 with ISR {b2, b3}, and b1 has LEO 10 for t-0`."""
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
            words.append(f"has {', '.join(numbers)} for {replica.partition}")
    return f"{test.node} {' and '.join(words) or 'exists'}"


def window_text(window: TimeTest) -> str:
    """Return a description such as `between 17s and 20s`, `after 30s` or `before 30s`."""
    if window.low_us is not None and window.high_us is not None:
        return f"between {time_text(window.low_us)} and {time_text(window.high_us)}"
    if window.low_us is not None:
        return f"after {time_text(window.low_us)}"
    return "at any time" if window.high_us is None else f"before {time_text(window.high_us)}"


def records_text(at_least: tuple[str, ...] | None, at_most: tuple[str, ...] | None, count: NumberTest | None) -> str:
    """Return a description such as `r10..r14`, `at least r10..r14` or `5 in number`."""
    parts = []
    if at_least is not None and at_least == at_most:
        parts.append(format_record_names(at_least))
    else:
        parts += [] if at_least is None else [f"at least {format_record_names(at_least)}"]
        parts += [] if at_most is None else [f"at most {format_record_names(at_most)}"]
    if count is not None:
        parts.append(f"{count} in number")
    return ", ".join(parts)
