"""Patterns of topic names: what they describe, and what is refused."""

from __future__ import annotations

import re
import sys

import pytest
import re2
from hypothesis import assume, given
from hypothesis import strategies as st

from cluster.topic_pattern import PATTERN_MAX, TopicPattern, described_by, matching
from replica.errors import ErrorCode, KafkaError

ITEMS = st.tuples(st.sampled_from(["a", "b", "-", ".", r"\.", "[ab]", "[a-c_]"]), st.sampled_from(["", "*", "+", "?"]))
WAYS = st.lists(ITEMS.map("".join), max_size=4).map("".join)


@given(st.lists(WAYS, min_size=1, max_size=3).map("|".join).filter(bool), st.text("abc.-_", max_size=6))
def test_it_describes_what_the_regular_expression_does(pattern: str, name: str) -> None:
    assert TopicPattern(pattern).matches(name) == (re.fullmatch(pattern, name) is not None)


CLASSES = st.text("abc-._0", min_size=1, max_size=5).map("[{}]".format)


@given(
    st.one_of(WAYS.filter(bool), st.lists(CLASSES, min_size=1, max_size=2).map("".join)), st.text("abc-._0", max_size=4)
)
def test_re2_reads_it_alike(pattern: str, name: str) -> None:
    """Brokers evaluate it in the place of RE2."""
    try:
        ours = TopicPattern(pattern)
    except ValueError:
        assume(False)
    assert ours.matches(name) == (re2.fullmatch(pattern, name) is not None)


def test_a_name_takes_no_more_steps_than_it_and_the_pattern_are_long() -> None:
    assert not TopicPattern("a*" * 100 + "b").matches("a" * 249)


@pytest.mark.parametrize(
    "wrong", ["", "a" * (PATTERN_MAX + 1), "(a)", "a**", "*", "[", "[]", "[z-a]", "a{2}", r"\d", "^a", "\xe4"]
)
def test_what_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"is not allowed at character|characters; 1 to|bad character range"):
        TopicPattern(wrong)


TOPICS = ["orders-1", "orders-2", "my_orders", "orders", "payments-1", "x.orders-1"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("^orders-[0-9]", ["orders-1", "orders-2"]),
        ("^orders.*", ["orders-1", "orders-2", "orders"]),
        ("^.*_orders$", ["my_orders"]),
        ("^(orders|payments)-1$", ["orders-1", "payments-1"]),
        ("^orders|payments-1$", ["orders", "payments-1"]),
        ("^orders-[^1]", ["orders-2"]),
        (r"orders-\d{1,2}", ["orders-1", "orders-2"]),
        ("order", []),
        ("orders$1", []),
    ],
)
def test_members_subscribe_by_any_pattern_of_re2(pattern: str, found: list[str]) -> None:
    described_by(pattern, "it")
    assert matching(pattern, TOPICS) == found


def test_anchors_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    described_by("^my-[a-z]*_orders$", "it")
    assert matching("^my-[a-z]*_orders$", ["my-new_orders", "my-new_orders-2"]) == ["my-new_orders"]


@pytest.mark.parametrize("wrong", ["(", "^[z-a]$", "(?=a)b", r"(a)\1"])
def test_what_re2_does_not_read_is_refused(wrong: str) -> None:
    with pytest.raises(KafkaError) as refused:
        described_by(wrong, "it")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
