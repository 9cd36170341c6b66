"""`stop` of a client: it finishes what it was asked for, aborts an open transaction, leaves its group, and exits."""

from __future__ import annotations

import re

import pytest

from replica.trace.events import DataLost, GroupMemberLeft, NodeStarted, NodeStopped, TraceEvent, TransactionEnded
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario

FILE = """\
schema: 1
id: stops
title: Stops
duration: 30s
profile: {profile}
cluster:
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config: {{offsets.topic.num.partitions: 1, transaction.state.log.num.partitions: 1}}
topics:
  orders: {{partitions: 4, replication_factor: 3}}
  bills: {{partitions: 2, replication_factor: 3}}
workloads:
  p1: {{kind: producer, topic: orders, start: 5s, rate: 5/s, stop: 22s, config: {{{producer}}}{pattern}}}
  t1: {{kind: transform, topic: orders, to: bills, {stop}config: {{group.id: g, auto.offset.reset: earliest{of_t1}}}}}
  t2: {{kind: transform, topic: orders, to: bills, config: {{group.id: g, auto.offset.reset: earliest{of_t2}}}}}
timeline: [{steps}]
expect: {{verdict: ok}}
"""
STOP = "{at: 15s, stop: t1}"
CONSUMER = ", group.protocol: consumer"
COOPERATIVE = ", partition.assignment.strategy: cooperative-sticky"


def play(
    steps: str = STOP,
    *,
    config: str = "",
    of_t1: str = "",
    stop: str = "",
    profile: str = "kafka-4.1",
    producer: str = "",
    pattern: str = "",
) -> RunResult:
    """config: of both transforms, in which `#` is the number of each"""
    text = FILE.format(
        steps=steps,
        of_t1=config.replace("#", "1") + of_t1,
        of_t2=config.replace("#", "2"),
        stop=stop,
        profile=profile,
        producer=producer,
        pattern=pattern,
    )
    return run_scenario(load_text(text, "stops.yaml").scenario, runs_dir=None, keep_rows=True)


WAIT_S = 0.6
"""The answer to its last request comes behind that of a fetch, which may wait for fetch.max.wait.ms."""


def events(run: RunResult, *kinds: type[TraceEvent], node: str = "t1") -> list[tuple[float, TraceEvent]]:
    """With their seconds, as far as they are of one client."""
    of_node = [row for row in run.rows if isinstance(row.event, kinds)]
    names = ("node", "client", "client_id")
    mine = [row for row in of_node if node in [getattr(row.event, name, None) for name in names]]
    return [(row.at_us / 1_000_000, row.event) for row in mine]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("config", "profile"),
    [
        ("", "kafka-4.1"),
        (CONSUMER, "kafka-4.1"),
        pytest.param(COOPERATIVE, "kafka-3.5", marks=pytest.mark.soak),
        pytest.param(", transactional.id: x-#", "kafka-4.1", marks=pytest.mark.soak),
    ],
)
def test_a_member_leaves_its_group_before_it_exits(config: str, profile: str) -> None:
    run = play(config=config, profile=profile)
    (left_s, left), (down_s, down) = events(run, GroupMemberLeft, NodeStopped)
    assert isinstance(left, GroupMemberLeft) and isinstance(down, NodeStopped)
    assert 15 <= left_s < 15.1 and left_s < down_s < left_s + WAIT_S
    assert down.how == "stop"
    assert run.verdict.kinds == ()
    sent = {name for name in run.verdict.records["acked"] if name.startswith("r")}
    assert sent and {f"t{name}" for name in sent} <= set(run.verdict.records["acked"])


def test_the_end_of_its_time_is_an_orderly_one() -> None:
    left, down = events(play("", stop="stop: 15s, "), GroupMemberLeft, NodeStopped)
    assert left[0] < 15.1 and left[0] < down[0] < left[0] + WAIT_S


@pytest.mark.soak
@pytest.mark.parametrize(
    ("steps", "config", "left_s"),
    [
        ("{at: 15s, kill: t1}", ", session.timeout.ms: 6000", (18, 21)),  # nothing is said, and the session ends
        (STOP, ", session.timeout.ms: 6000, group.instance.id: i-1", (18, 21)),  # a static member says nothing
        (STOP, ", session.timeout.ms: 6000", (15, 15.1)),
    ],
)
def test_who_says_nothing_is_missed(steps: str, config: str, left_s: tuple[float, float]) -> None:
    ((at_s, _),) = events(play(steps, of_t1=config), GroupMemberLeft)
    assert left_s[0] <= at_s <= left_s[1]


@pytest.mark.soak
def test_a_producer_aborts_the_transaction_that_is_open() -> None:
    run = play("{at: 15.1s, stop: p1}", producer="transactional.id: p", pattern=", transaction: {records: 8}")
    ended = [event for at_s, event in events(run, TransactionEnded, NodeStopped, node="p1") if at_s > 15]
    assert isinstance(ended[0], TransactionEnded) and not ended[0].committed
    assert isinstance(ended[1], NodeStopped) and ended[1].how == "stop"


@pytest.mark.soak
def test_a_client_that_is_frozen_closes_when_it_goes_on() -> None:
    steps = "{at: 15s, pause: t1}, {at: 16s, stop: t1}, {at: 17s, resume: t1}"
    (left_s, _), (down_s, _) = events(play(steps), GroupMemberLeft, NodeStopped)
    assert 17 <= left_s < 17.1 and left_s < down_s < left_s + WAIT_S


@pytest.mark.soak
def test_while_it_closes_it_takes_nothing_more_and_starts_once_it_is_down() -> None:
    """The group's coordinator is out of reach, so that t1 waits for it; KafkaConsumer.close waits for 30 s at most."""
    steps = "{at: 14.9s, pause: [b1, b2, b3]}, {at: 15s, stop: [t1, p1]}, {at: 16s, stop: t1}, {at: 17s, start: t1}"
    run = play(f"{steps}, {{at: 20s, resume: [b1, b2, b3]}}")
    lives = [(at_s, type(event).__name__) for at_s, event in events(run, NodeStarted, NodeStopped) if at_s > 1]
    assert [name for _, name in lives] == ["NodeStopped", "NodeStarted"]
    assert 20 <= lives[0][0] == lives[1][0] < 30
    assert run.verdict.kinds == ()


@pytest.mark.soak
def test_only_a_node_with_a_log_has_a_page_cache_that_survives() -> None:
    run = play("{at: 1s, kill: t1}, {at: 1s, kill: b3}, {at: 1s, kill: c1}")
    kept = "; its page cache survived"
    stops = [row.event.sentence() for row in run.rows if isinstance(row.event, NodeStopped) and row.event.how == "kill"]
    assert stops == [
        f"{node} was killed (kill -9){clause}" for node, clause in (("t1", ""), ("b3", kept), ("c1", kept))
    ]


@pytest.mark.soak
def test_bytes_that_a_disk_loses_are_many() -> None:
    run = play("{at: 20s, power_off: b2}")
    lost = [row.event.sentence() for row in run.rows if isinstance(row.event, DataLost)]
    told = re.compile(r"b2 lost bytes of \S+: [\d,]+ bytes that had never been flushed, and the log now ends at \d+")
    assert lost and all(map(told.fullmatch, lost))
