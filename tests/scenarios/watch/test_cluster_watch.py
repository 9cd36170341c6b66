"""The core of `highwater watch`: answers of brokers in, events and the state of a screen out."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from golden_runner import check_transcript

from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceLog, TraceRow
from scenarios.cli.watch.screen import hold_lines, screen_lines, standing_of
from scenarios.terminal.style import Style
from scenarios.watch.cluster_watch import ClusterWatch
from scenarios.watch.questions import ClusterAnswer, ListedBroker, PartitionAnswer, ReplicaAnswer

GOLDEN = Path(__file__).parents[2] / "golden"
ORDERS = TopicPartition("orders", 0)
Ids = tuple[int, ...]


class Watched:
    """One partition, `orders-0`; verbs print the events that they led to."""

    def __init__(self) -> None:
        self._rows: list[TraceRow] = []
        self._watch = ClusterWatch(TraceLog([self._rows.append]))

    def metadata(
        self,
        leader: int,
        epoch: int,
        isr: Ids,
        elr: Ids = (),
        replicas: Ids = (1, 2, 3),
        brokers: Ids = (1, 2, 3),
        min_isr: int = 0,
        topic_id: int = 1,
        at: int = 0,
    ) -> list[str]:
        if min_isr:
            self._watch.min_isrs_answered(at, {"orders": min_isr})
        addresses = tuple(ListedBroker(broker_id, "h", 9092) for broker_id in brokers)
        one = PartitionAnswer(ORDERS, leader, epoch, replicas, isr, elr, UUID(int=topic_id))
        self._watch.brokers_answered(at, "b1", addresses)
        self._watch.cluster_answered(at, ClusterAnswer(addresses, (one,)))
        return self._news()

    def ends(self, broker: int, leo: int, hw: int, at: int) -> list[str]:
        self._watch.replicas_answered(at, broker, [ReplicaAnswer(ORDERS, leo, hw)])
        return self._news()

    def refused(self, broker: int, at: int) -> list[str]:
        answer = ReplicaAnswer(ORDERS, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self._watch.replicas_answered(at, broker, [answer])
        return self._news()

    def silent(self, broker: int, since: int, at: int) -> list[str]:
        self._watch.silent(at, broker, since, "no answer")
        return self._news()

    def look(self, at: int) -> list[str]:
        self._watch.look(at)
        return self._news()

    def now(self, at: int) -> list[str]:
        known = self._watch.partitions[ORDERS]
        standing = standing_of(self._watch, known, at)
        lags = [f"b{one} {known.lag_records(one)} {known.lag_us(one, at) / 1e6:g}s" for one in known.answer.replicas]
        return [f"{standing.trouble.name} {standing.words}; behind: {', '.join(lags)}"]

    def held(self) -> list[str]:
        return [line for hold in self._watch.holds.longest() for line in hold_lines(hold)]

    def _news(self) -> list[str]:
        lines = [f"{trace.EVENT_NAMES[type(row.event)]} {_words(row.event)}" for row in self._rows]
        self._rows.clear()
        return lines


def _words(event: trace.TraceEvent) -> str:
    if "reason" in [column.name for column in trace.columns_of_event(type(event))]:
        return event.sentence()
    shown = ("node", "peer", "fetch_offset", "high_watermark", "log_end_offset", "in_isr")
    return " ".join(f"{name}={getattr(event, name)}" for name in shown if hasattr(event, name))


@pytest.mark.parametrize("name", ["watch_paused_follower", "watch_changes"])
def test_transcript(name: str, pytestconfig: pytest.Config) -> None:
    check_transcript(GOLDEN / f"{name}.txt", Watched(), rewrite=pytestconfig.getoption("--rewrite"))


def described(watch: ClusterWatch, at: int, asked: int, brokers: Ids, isr: Ids) -> None:
    """A broker describes the cluster, if it is asked and its answer counts."""
    watch.answered(at, asked)
    addresses = tuple(ListedBroker(broker_id, "h", 9092) for broker_id in brokers)
    if watch.may_describe(asked) and watch.may_describe(asked, addresses):
        watch.brokers_answered(at, f"b{asked}", addresses)
        one = PartitionAnswer(ORDERS, 1, 5, (1, 2, 3), isr, (), UUID(int=1))
        watch.cluster_answered(at, ClusterAnswer(addresses, (one,)))


def test_a_broker_that_is_cut_off_does_not_bring_back_what_was_before() -> None:
    """b3 was fenced and has left the ISR, and does not hear of it until the third second."""
    rows: list[TraceRow] = []
    watch = ClusterWatch(TraceLog([rows.append]))
    described(watch, 0, 1, (1, 2, 3), (1, 2, 3))
    rows.clear()
    for second in (1, 2):
        described(watch, second * 1_000_000, second, (1, 2), (1, 2))
        described(watch, second * 1_000_000 + 1, 3, (1, 2, 3), (1, 2, 3))
    described(watch, 3_000_000, 1, (1, 2, 3), (1, 2))
    described(watch, 4_000_000, 3, (1, 2, 3), (1, 2, 3))
    kinds = [trace.BrokerFenced, trace.IsrCommitted, trace.BrokerUnfenced, trace.IsrCommitted]
    assert [type(row.event) for row in rows] == kinds


def test_a_broker_that_lists_nobody_has_just_started_unless_nobody_else_answers() -> None:
    watch = ClusterWatch(TraceLog())
    listed = tuple(ListedBroker(broker_id, "h", 9092) for broker_id in (1, 2))
    assert watch.may_describe(1, ())
    watch.brokers_answered(0, "b1", listed)
    assert watch.may_describe(2, ())
    watch.answered(1, 1)
    assert not watch.may_describe(2, ())
    assert watch.may_describe(2, listed)
    watch.silent(2, 1, 1, "no answer")
    assert watch.may_describe(2, ())


def test_a_screen_of_ten_thousand_partitions_shows_the_worst() -> None:
    watch = ClusterWatch(TraceLog())
    addresses = tuple(ListedBroker(broker_id, "h" * 200, 9092) for broker_id in (1, 2, 3))
    names = [TopicPartition("x" * 249, number) for number in range(10_000)]
    without = names[7_777]
    watch.brokers_answered(0, "b1", addresses)
    partitions = tuple(PartitionAnswer(name, -1 if name == without else 1, 0, (1, 2, 3), (1, 3)) for name in names)
    watch.cluster_answered(0, ClusterAnswer(addresses, partitions, 12))
    watch.replicas_answered(1, 1, [ReplicaAnswer(name, 10**15, 10**15 - 5) for name in names])
    watch.silent(2, 2, 0, "z" * 500)
    lines = screen_lines(watch, 3, Style(plain=True, width=80), ["n" * 300], 40)
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    first = next(place for place, line in enumerate(lines) if line.startswith("  partition ")) + 1
    assert "-7777" in lines[first] and "no leader" in lines[first + 1]
    assert lines[0].endswith("  A cluster of 3 brokers, 10,000 partitions")
    watch.cluster_id = "abc"
    watch.brokers_answered(4, "b1", addresses[:2])
    assert watch.title == "Cluster abc: 3 brokers (1 not listed), 10,000 partitions"
    assert lines[-1] == f"  and {10_000 - (len(lines) - 1 - first) // 2:,} more partitions"
