"""Why a client wrote or read nothing for a time: played scenarios, bundled ones and small ones, and the causes.

What is expected follows from the settings of the scenario and from what Kafka's clients do with them.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.language.spec import Scenario
from scenarios.run.runner import run_scenario

Part = tuple[str, str, float]
"""cause, the setting with its value and who has it, seconds"""


def waits(scenario: Scenario) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run_scenario(scenario, runs_dir=None, traced=False).summary.get("waits", [])
    return found


def parts(wait: dict[str, Any]) -> list[Part]:
    """Those of a second or more."""
    return [
        (part["cause"], setting_of(part), round((part["to_us"] - part["from_us"]) / 1e6, 1))
        for part in wait["stretches"]
        if part["to_us"] - part["from_us"] >= 1_000_000
    ]


def setting_of(part: dict[str, Any]) -> str:
    if part["setting"] is None:
        return ""
    value = "" if part["value_ms"] is None else f"={part['value_ms']}"
    return f"{part['setting']}{value}" + (f" of {part['holder']}" if part["holder"] else "")


def bundled(name: str) -> Scenario:
    name, _, variant = name.partition("@")
    file = load_file(find_scenario(name))
    return file.variants[variant] if variant else file.scenario


SESSION = "broker.session.timeout.ms=9000"
LAG = "replica.lag.time.max.ms=30000 of b1"

BUNDLED: dict[tuple[str, str, str, str], list[list[Part]]] = {
    # b1 has no power, so it does not even refuse: the election takes a session, and p1 waits on.
    ("acks1-leader-power-off@acks-all", "writes", "p1", "t-0"): [
        [("leader_down", SESSION, 8.5), ("request_timeout", "request.timeout.ms=30000 of p1", 21.3)]
    ],
    # Sent when the election is long over, to the broker that p1 still takes for the leader.
    ("acks1-leader-power-off", "writes", "p1", "t-0"): [[("request_timeout", "request.timeout.ms=30000 of p1", 30.0)]],
    # A process that is killed lets its connections go: no timeout of the client governs anything.
    ("acks1-leader-kill@acks-all", "writes", "p1", "t-0"): [[("leader_down", SESSION, 8.5)]],
    ("rack-failure", "writes", "p2", "t-0"): [[("min_isr", "", 70.0)]],
    ("rack-failure@rack-aware", "writes", "p2", "t-0"): [],
    ("rack-failure@one-rack", "writes", "p2", "t-0"): [[("no_leader", "", 70.7)]],
    ("min-isr-equals-rf@kill", "writes", "p1", "t-0"): [[("follower_behind", SESSION, 8.0), ("min_isr", "", 21.0)]],
    # Cut off from its leader alone it has its session: only the leader can put it out of the ISR.
    ("follower-cut-hw-stall", "writes", "p1", "t-0"): [[("follower_behind", LAG, 33.0)]],
    ("follower-cut-hw-stall@kill", "writes", "p1", "t-0"): [[("follower_behind", SESSION, 7.0)]],
    ("controller-down-isr-frozen", "writes", "p1", "t-0"): [
        [("follower_behind", LAG, 33.0), ("no_controller", "", 15.0)]
    ],
    ("txn-reader-held-up", "reads", "c1r", "t-0"): [[("last_stable_offset", "transaction.timeout.ms=20000", 20.1)]],
    ("txn-reader-held-up@read-uncommitted", "reads", "c1r", "t-0"): [],
    ("txn-reader-held-up@short-timeout", "reads", "c1r", "t-0"): [
        [("last_stable_offset", "transaction.timeout.ms=2000", 10.1)]
    ],
    # No coordinator knows of that transaction, so it has no timeout.
    ("txn-hanging", "reads", "c1r", "t-0"): [[("last_stable_offset", "", 35.0)]],
    ("txn-hanging@verified", "reads", "c1r", "t-0"): [],
    ("group-two-topics", "reads", "billing", "orders-0"): [[("member_down", "session.timeout.ms=10000 of m1", 6.2)]],
    ("group-rebalance-waits@long-session", "reads", "billing", "t-0"): [
        [("rebalance", "session.timeout.ms=45000 of m2", 25.0)]
    ],
    ("group-rebalance-waits@no-newcomer", "reads", "billing", "t-0"): [],
    ("group-rebalance-waits@no-newcomer", "reads", "billing", "t-1"): [
        [("member_down", "session.timeout.ms=6000 of m2", 1.2)]
    ],
}  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("case", BUNDLED, ids=" ".join)
def test_the_causes_in_bundled_scenarios(case: tuple[str, str, str, str]) -> None:
    name, what, client, partition = case
    found = [
        parts(wait)
        for wait in waits(bundled(name))
        if (wait["what"], wait["client"], wait["partition"]) == (what, client, partition)
    ]
    assert found == BUNDLED[case]


HEAD = """\
schema: 1
id: small
profile: {release}
title: Small
seed: 1
duration: 60s
cluster:
  controllers: [c1]
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config: {{offsets.topic.num.partitions: 1, transaction.state.log.num.partitions: 1{cluster}}}
topics:
  t: {{partitions: {{0: [b1, b2, b3]}}, config: {{min.insync.replicas: {min_isr}}}}}
  out: {{partitions: {{0: [b2, b3, b1]}}}}
workloads:
{workloads}timeline:
  - {{at: 5s, produce: {{from: p1, count: 1}}}}
{timeline}expect: {{}}
"""


def small(*steps: str, cluster: str = "", release: str = "kafka-4.4", min_isr: int = 2, **workloads: str) -> Scenario:
    """Producer p1 writes to t-0, which b1 leads, with an open connection from 5 s on."""
    clients = {"p1": "kind: producer, topic: t", **workloads}
    listed = "".join(f"  {name}: {{{what}}}\n" for name, what in clients.items())
    timeline = "".join(f"  - {{{step}}}\n" for step in steps)
    text = HEAD.format(cluster=cluster, release=release, min_isr=min_isr, workloads=listed, timeline=timeline)
    return load_text(text, "small.yaml").scenario


def member(instance: str, session_ms: int) -> str:
    config = f"group.id: g, session.timeout.ms: {session_ms}, heartbeat.interval.ms: 2000, auto.offset.reset: earliest"
    return f"kind: transform, topic: t, to: out, config: {{{config}{instance}}}"


STATIC = ", group.instance.id: a"
PRODUCER = "kind: producer, topic: t, config: {{{}}}"
READER = "kind: consumer, topic: t, config: {{auto.offset.reset: earliest, isolation.level: {}}}"
ONE_MORE = "produce: {from: p1, count: 1}"

SMALL: dict[str, tuple[Scenario, str, list[list[Part]]]] = {
    # Sent at 10.5 s, the timeout passes at 22.5 s; the session is over 9 s after a heartbeat from between 8 s and 10 s.
    "no power, and a timeout of 12 s": (
        small("at: 10s, power_off: b1", f"at: 10.5s, {ONE_MORE}", p1=PRODUCER.format("request.timeout.ms: 12000")),
        "writes",
        [[("leader_down", SESSION, 7.5), ("request_timeout", "request.timeout.ms=12000 of p1", 4.5)]],
    ),
    # The timeout passes at 15.5 s, while b1 still is the leader: p1 tries to connect to it, each time twice as long as
    # before (KIP-601), and waits for that until about 32 s, though b2 leads from 30 s on.
    "no power, and a session of 20 s": (
        small(
            "at: 10s, power_off: b1", f"at: 10.5s, {ONE_MORE}", cluster=", broker.session.timeout.ms: 20000",
            p1=PRODUCER.format("request.timeout.ms: 5000, socket.connection.setup.timeout.ms: 1000"),
        ),
        "writes",
        [
            [
                ("leader_down", "broker.session.timeout.ms=20000", 19.5),
                ("setup_timeout", "socket.connection.setup.timeout.max.ms of p1", 2.1),
            ]
        ],
    ),
    # A broker that is frozen keeps its connections; 25.5 s is when the timeout passes.
    "a frozen leader, and a timeout longer than the election": (
        small("at: 10s, pause: b1", f"at: 10.5s, {ONE_MORE}", p1=PRODUCER.format("request.timeout.ms: 15000")),
        "writes",
        [[("leader_down", SESSION, 7.5), ("request_timeout", "request.timeout.ms=15000 of p1", 7.5)]],
    ),
    # It wakes at 22 s, before the timeout, and answers that it does not lead.
    "a frozen leader that wakes before the timeout": (
        small("at: 10s, pause: b1", f"at: 10.5s, {ONE_MORE}", "at: 22s, resume: b1"),
        "writes",
        [[("leader_down", SESSION, 7.5), ("no_answer", "request.timeout.ms=30000 of p1", 4.0)]],
    ),
    # Both followers are fenced at 19 s, and b2 is back at 40 s.
    "two of three killed": (
        small("at: 10s, kill: [b2, b3]", f"at: 25s, {ONE_MORE}", "at: 40s, start: b2"),
        "writes",
        [[("min_isr", "", 15.0)]],
    ),
    "two of three killed, acks=1": (
        small("at: 10s, kill: [b2, b3]", f"at: 25s, {ONE_MORE}", p1=PRODUCER.format("acks: 1")),
        "writes",
        [],
    ),
    # replica.lag.time.max.ms is 10 s; b1 looks every 5 s, so b3 is out between 20 s and 25 s.
    "a follower cut off, and a lag time of 10 s": (
        small(
            "at: 10s, cut: {between: [b1, b3]}", f"at: 11s, {ONE_MORE}",
            cluster=", replica.lag.time.max.ms: 10000",
        ),
        "writes",
        [[("follower_behind", "replica.lag.time.max.ms=10000 of b1", 9.0)]],
    ),
    # It is back before anything puts it out of the ISR.
    "a follower frozen for 6 s": (
        small("at: 10s, pause: b3", f"at: 11s, {ONE_MORE}", "at: 16s, resume: b3"),
        "writes",
        [[("follower_behind", LAG, 5.0)]],
    ),
    # Open since 10 s, it times out at 20 s, and the coordinator looks for such every 10 s.
    "a transaction left open for 10 s": (
        small(
            "at: 10s, produce: {from: p2, count: 1}", "at: 11s, kill: p2", f"at: 12s, {ONE_MORE}",
            p2="kind: producer, topic: t, config: {transactional.id: x, transaction.timeout.ms: 10000},"
            " transaction: {records: 5}",
            c1r=READER.format("read_committed"),
        ),
        "reads",
        [[("last_stable_offset", "transaction.timeout.ms=10000", 10.1)]],
    ),
    "the same, for a reader of all": (
        small(
            "at: 10s, produce: {from: p2, count: 1}", "at: 11s, kill: p2", f"at: 12s, {ONE_MORE}",
            p2="kind: producer, topic: t, config: {transactional.id: x, transaction.timeout.ms: 10000},"
            " transaction: {records: 5}",
            c1r=READER.format("read_uncommitted"),
        ),
        "reads",
        [],
    ),
    # Its last heartbeat is from between 10 s and 12 s, so it is out between 18 s and 20 s.
    "a static member killed, with a session of 8 s": (
        small("at: 12s, kill: m1", f"at: 13s, {ONE_MORE}", m1=member(STATIC, 8000), m2=member("", 8000)),
        "reads",
        [[("member_down", "session.timeout.ms=8000 of m1", 6.0)]],
    ),
    # It is back in its place before its session ends, and nothing is rebalanced.
    "a static member that is back in time": (
        small("at: 12s, kill: m1", f"at: 13s, {ONE_MORE}", "at: 16s, start: m1", m1=member(STATIC, 20000)),
        "reads",
        [[("member_down", "session.timeout.ms=20000 of m1", 3.0)]],
    ),
}  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("case", SMALL)
def test_the_causes_in_small_scenarios(case: str) -> None:
    scenario, what, expected = SMALL[case]
    found = [wait for wait in waits(scenario) if wait["what"] == what and wait["partition"] == "t-0"]
    assert [[part[:2] for part in parts(wait)] for wait in found] == [[part[:2] for part in one] for one in expected]
    for wait, one in zip(found, expected, strict=True):
        assert [part[2] for part in parts(wait)] == pytest.approx([part[2] for part in one], abs=1)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["acks1-leader-power-off", "acks1-leader-power-off@acks-all"])
def test_what_is_advised_shortens_the_wait_by_as_much_as_it_says(name: str) -> None:
    scenario = bundled(name)
    (wait,) = waits(scenario)
    part = wait["stretches"][-1]
    advised = re.search(r"with (\d+) s p1 would have tried again (\d+) s earlier", part["advice"])
    assert advised is not None
    seconds, saved = int(advised[1]), int(advised[2])
    overrides = [f"workloads.p1.config.request.timeout.ms={seconds * 1000}"]
    name, _, variant = name.partition("@")
    file = load_file(find_scenario(name), overrides, variant or "base")
    (shorter,) = waits(file.variants[variant] if variant else file.scenario)
    assert (wait["to_us"] - shorter["to_us"]) / 1e6 == pytest.approx(saved, abs=1.5)


def leaderless(release: str) -> list[dict[str, Any]]:
    """b2, alone in the ISR, loses its disk. b1 left the ISR before and has a log; b3 was cut off earlier still."""
    scenario = small(
        "at: 5s, cut: {between: [b3, [b1, b2]]}", "at: 22s, stop: b1", "at: 27s, power_off: b2", "at: 28s, wipe: b2",
        "at: 29s, start: b1", "at: 45s, start: b2",
        cluster=", replica.lag.time.max.ms: 10000", release=release, min_isr=1,
        p1=PRODUCER.format("acks: 1") + ", rate: 2/s",
    )  # fmt: skip
    (wait,) = (one for one in waits(scenario) if one["what"] == "writes")
    return [part for part in wait["stretches"] if part["cause"] == "no_leader"]


@pytest.mark.parametrize("release", ["kafka-3.9", "kafka-4.4"])
def test_nobody_is_told_to_bring_back_a_replica_that_lost_its_disk(release: str) -> None:
    parts = leaderless(release)
    assert all(part["advice"].startswith("b2 must not lead: its disk has nothing") for part in parts)
    log_ends = r"b1 has the longest log, up to (\d+).*offsets \1 to (\d+) are lost"
    ends = [re.search(log_ends, part["advice"]) for part in parts]
    # Two records a second: b1 stopped about 5 s before b2 lost its power.
    assert ends and all(end and 8 <= int(end[2]) - int(end[1]) <= 11 for end in ends)


def test_a_broker_that_is_back_with_a_new_directory_and_was_not_elected_has_its_reason() -> None:
    before, after = leaderless("kafka-3.9")
    assert before["sentence"] == "there was no leader: no broker of the ISR {b2} was live"
    assert 45e6 <= after["from_us"] <= 46e6
    assert after["sentence"].startswith(
        "there was no leader: b2 was back, but not elected, since its log directory was new"
    )


def test_a_broker_without_a_disk_loss_is_to_be_brought_back() -> None:
    scenario = small("at: 10s, kill: [b2, b3]", "at: 26s, kill: b1", f"at: 40s, {ONE_MORE}", release="kafka-3.9")
    parts = [part for wait in waits(scenario) for part in wait["stretches"] if part["cause"] == "no_leader"]
    assert [part["advice"] for part in parts] == ["bring b1 back"]


def test_a_follower_that_has_left_the_isr_and_still_holds_back_the_high_watermark_is_named() -> None:
    # Kafka's leader waits for a replica that had caught up, until replica.lag.time.max.ms has passed.
    scenario = small(
        "at: 10s, fail_disk: {brokers: b3, log_dir: d2}", f"at: 10s, {ONE_MORE}", cluster=", log.dirs: 'd1,d2'",
        p1="kind: producer, topic: out",
    )  # fmt: skip
    (wait,) = (one for one in waits(scenario) if one["what"] == "writes")
    (part,) = wait["stretches"]
    assert part["sentence"].startswith("b3, no longer in the ISR, but caught up until then, did not fetch the records")
