"""Sentences that say the same of several partitions are one, and what decides is never in a range."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from replica.trace.alike import TOGETHER_US, Told, together


def texts(*sentences: str | tuple[int, str], topic: str = "orders") -> list[str]:
    """Each about a partition of its own, at one moment or at the given one."""
    told = []
    for number, one in enumerate(sentences):
        at_us, text = (0, one) if isinstance(one, str) else one
        told.append(Told(at_us, text, (topic, number), number))
    return [group.text for group in together(told)]


@pytest.mark.parametrize(
    ("sentences", "one"),
    [
        (["HW 9 (epoch 1)", "HW 12 (epoch 1)", "HW 1,400 (epoch 2)"], "HW 9..1,400 (epoch 1..2)"),
        (["no heartbeat for 9.1 s", "no heartbeat for 10 s"], "no heartbeat for 9.1..10 s"),
        (["ISR {b1, b2}: b3 left", "ISR {b2, b1}: b3 left"], "ISR {b1, b2}: b3 left"),
        (["ISR {b1, b2}: b3 left", "ISR {b1, b4}: b3 left"], "ISR {b1, b2} or {b1, b4}: b3 left"),
        (["ISR {b2}", "ISR {b3}", "ISR {b4}"], "ISR {b2}, {b3} or {b4}"),
        (["ISR {a-1, b}", "ISR {a-2, b}", "ISR {a-1, a-2}"], "ISR {2 of b, a-1, a-2}"),
        ([f"ISR {{b{n}}}" for n in range(9)], "ISR {1 of 9 brokers}"),
        ([f"ISR {{b{n}, b9}}" for n in range(9)], "ISR {2 of 10 brokers}"),
        (
            ["ISR {a}: kafka-east-1 wants b9 in", "ISR {a}: kafka-east-2 wants b9 in"],
            "ISR {a}: each leader wants b9 in",
        ),
        (["orders-0 is moved to 3", "orders-1 is moved to 4"], "the partition is moved to 3..4"),
        (["as it was said", "as it was said"], "as it was said"),
        (["orders-0 alone"], "orders-0 alone"),
        (["4 of offsets 3..5 are gone", "2 of offsets 3..5 are gone"], "2..4 of offsets 3..5 are gone"),
    ],
)
def test_numbers_sets_and_the_asking_leader_may_differ(sentences: Sequence[str], one: str) -> None:
    assert texts(*sentences) == [one]


@pytest.mark.parametrize(
    "sentences",
    [
        ["b1 leads", "b2 leads"],
        ["kafka-east-1 left the ISR", "kafka-east-2 left the ISR"],
        ["b1 wants b2 out", "b1 wants b3 out"],
        ["the ISR is {b1, b2}", "the ISR is {b1}"],  # below min.insync.replicas, perhaps
        ["r10 is refused", "r11 is refused"],
        ["for 980 ms", "for 1.2 s"],
        ["killed (kill -9)", "killed (kill -15)"],
        ["other-1 is full", "other-2 is full"],
        ["offsets 3..5 are gone", "offsets 4..5 are gone"],
        ["offsets 3..5 are gone", "offsets 3..6 are gone"],
        ["1,400..1,500 are gone", "1,401..1,500 are gone"],
    ],
)
def test_names_decide(sentences: Sequence[str]) -> None:
    assert texts(*sentences) == sentences


def test_a_number_that_is_the_name_of_a_broker_a_topic_or_a_client_is_no_number() -> None:
    def told(*sentences: str) -> list[str]:
        all_told = [Told(0, text, ("2024", number), number) for number, text in enumerate(sentences)]
        return [group.text for group in together(all_told, {"1", "2", "3", "2024"})]

    leads = ["2 is the first live member", "3 is the first live member"]
    assert told(*leads) == leads
    assert told("3 is the first, HW 10", "3 is the first, HW 12") == ["3 is the first, HW 10..12"]
    assert told("ISR {1, 2}: 1 wants 2 in", "ISR {2, 3}: 3 wants 2 in") == [
        "ISR {1, 2} or {2, 3}: each leader wants 2 in"
    ]
    assert told("ISR {1}: 1-a wants 2 in", "ISR {1}: 2-a wants 2 in") == ["ISR {1}: each leader wants 2 in"]


def test_only_what_is_said_within_a_second_of_the_first_is_one() -> None:
    assert texts((0, "HW 1"), (TOGETHER_US, "HW 2"), (TOGETHER_US + 1, "HW 3"), (TOGETHER_US + 2, "HW 4")) == [
        "HW 1..2", "HW 3..4"
    ]  # fmt: skip


def test_a_second_event_of_a_partition_is_news_and_what_is_about_none_stands_alone() -> None:
    told = [Told(0, "HW 1", ("t", 0), 0), Told(0, "HW 1", ("t", 0), 1), Told(1, "HW 2", ("t", 0), 2)]
    told += [Told(1, "HW 3", None, 3), Told(1, "HW 4", None, 4), Told(1, "HW 4", None, 5)]
    groups = together(told)
    assert [(group.text, group.numbers, group.places) for group in groups] == [
        ("HW 1", [0, 1], [("t", 0)]), ("HW 2", [2], [("t", 0)]), ("HW 3", [3], []), ("HW 4", [4, 5], [])
    ]  # fmt: skip
