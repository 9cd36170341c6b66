"""`topic` and `topics`: what a consumer reads."""

from __future__ import annotations

import pytest
from small_scenario import HEAD, caret_text, errors_of, file_of, load, load_whole

from scenarios.language.write.lock import dump
from scenarios.run.kafka_limits import limits_of

TWO = HEAD.replace("  t: {part", "  u: {partitions: 2, replication_factor: 3}\n  t: {part").replace(
    "consumer, topic: t", "consumer, topics: [t, u]"
)


def test_a_consumer_may_read_several_topics() -> None:
    scenario = load("{at: 1s, seek: {consumer: c1r, partition: u-1, to: end}}", head=TWO)
    assert scenario.workloads["c1r"].topics == ("t", "u")
    assert load_whole(dump(scenario)).scenario.workloads["c1r"] == scenario.workloads["c1r"]


def test_so_does_each_of_several_that_are_alike() -> None:
    workloads = load(head=TWO.replace("[t, u]}", "[t, u], count: 2}")).workloads
    assert [workloads[name].topics for name in ("c1r-1", "c1r-2")] == [("t", "u"), ("t", "u")]


@pytest.mark.parametrize(
    ("wrong", "code", "text"),
    [
        ("topics: [t, nowhere]", "E131", "nowhere"),
        ("topics: [t, t]", "E112", "t"),
        ("topics: []", "E111", "[]"),
        ("topics: t", "E111", "t"),
        ("topic: t, topics: [t]", "E111", "topics"),
        ("start: 1s", "E105", "{kind: consumer, start: 1s}"),
    ],
)
def test_what_is_refused(wrong: str, code: str, text: str) -> None:
    (error,) = errors_of(file_of(head=TWO.replace("topics: [t, u]", wrong)))
    assert error.code == code
    assert caret_text(error) == text


def test_it_seeks_in_what_it_reads() -> None:
    head = TWO.replace("  u: {part", "  v: {partitions: 2, replication_factor: 3}\n  u: {part")
    (error,) = errors_of(file_of("{at: 1s, seek: {consumer: c1r, partition: v-0, to: end}}", head=head))
    assert (error.code, error.title) == ("E131", "`c1r` reads `t, u`, not `v`")


@pytest.mark.parametrize("java_clients", [True, False])
def test_either_kind_of_consumers_reads_both_on_kafka(java_clients: bool) -> None:
    assert limits_of(load(head=TWO), "4.1.0", java_clients=java_clients) == []
