"""Every verb, trigger and modifier of the timeline: the text in a file and the step for the runner."""

from __future__ import annotations

import pytest
from small_scenario import errors_of, file_of, load

from replica.ids import TopicPartition
from scenarios.language.expect import (
    EndOffsetTest,
    LogTest,
    NodeTest,
    NumberTest,
    PartitionTest,
    RecordsTest,
    ReplicaTest,
    StateTest,
    TimeTest,
)
from scenarios.language.parse.loading import load_text
from scenarios.language.selectors import NO_NODES, Selector, Term
from scenarios.language.spec import RecordTime
from scenarios.language.steps import At, Delay, When
from scenarios.language.verbs.checks import Check
from scenarios.language.verbs.clients import Produce, Seek
from scenarios.language.verbs.clock import BumpClock, StrobeClock
from scenarios.language.verbs.cluster import (
    CancelReassign,
    DropVoter,
    Elect,
    EndHangingTransaction,
    FenceOff,
    MakeTopic,
    MakeVoter,
    MorePartitions,
    Reassign,
    RemoveGroup,
    RemoveOffsets,
    RemoveRecords,
    RemoveTopic,
    ResetGroupOffsets,
    SetConfig,
    SetQuota,
    Throttle,
    Unregister,
    UpdateFeatures,
)
from scenarios.language.verbs.disk import Bitflip, FailDisk, FillDisk, Flush, SlowDisk, Tear
from scenarios.language.verbs.every import VERBS
from scenarios.language.verbs.network import (
    AddLatency,
    Cut,
    Heal,
    Hold,
    LimitBandwidth,
    Loss,
    PartitionNetwork,
    Release,
    ResetPeer,
)
from scenarios.language.verbs.process import Kill, Pause, PowerOff, Restart, Resume, RollingRestart, Start, Stop, Wipe
from scenarios.language.verbs.requests import Fail
from scenarios.language.write.lock import dump

T0 = TopicPartition("t", 0)
TWO_CUTS = ("{at: 1s, cut: {between: [b1, b2]}, as: one}", "{at: 2s, hold: {from: b1, to: b2}, as: two}")


def nodes(*names: str) -> Selector:
    return Selector(tuple(Term("node", (name,)) for name in names))


LEADER = Selector((Term("leader", (), T0),))

PAYLOADS = [
    ("stop: b1", Stop(nodes("b1"))),
    ("kill: leader(t-0)", Kill(LEADER)),
    ("power_off: [b1, b2]", PowerOff(nodes("b1", "b2"))),
    ("pause: p1", Pause(nodes("p1"))),
    ("resume: controller", Resume(Selector((Term("controller"),)))),
    ("rolling_restart: [b1, b2]", RollingRestart(nodes("b1", "b2"))),
    ("rolling_restart: rack(B)", RollingRestart(Selector((Term("rack", ("B",)),)))),
    (
        "rolling_restart: {brokers: b1, wait_for: unfenced, down: 10s, pause: 5s, timeout: 2m}",
        RollingRestart(nodes("b1"), "unfenced", 10_000_000, 5_000_000, 120_000_000),
    ),
    ("restart: clients", Restart(Selector((Term("clients"),)))),
    ("partition: [[b1], [b2, c1]]", PartitionNetwork((nodes("b1"), nodes("b2", "c1")))),
    ("cut: {between: [b1, [b2, b3]]}", Cut((nodes("b1"), nodes("b2", "b3")), "both")),
    ("cut: {between: [b1, p1], direction: to}", Cut((nodes("b1"), nodes("p1")), "to")),
    ("heal: all", Heal()),
    ("heal: one", Heal(("one",))),
    ("heal: [one]", Heal(("one",))),
    ("release: two", Release(("two",))),
    ("latency: {between: [b1, b2], add: 200ms}", AddLatency((nodes("b1"), nodes("b2")), Delay("constant", 200_000))),
    (
        "latency: {between: [b1, b2], add: {uniform: [1ms, 3ms]}, direction: from}",
        AddLatency((nodes("b1"), nodes("b2")), Delay("uniform", 1000, 2000), "from"),
    ),
    (
        "latency: {between: [b1, b2], add: {exponential: 5ms, least: 1ms}}",
        AddLatency((nodes("b1"), nodes("b2")), Delay("exponential", 1000, 5000)),
    ),
    ("bandwidth: {between: [b1, b2], rate: 50kB/s}", LimitBandwidth((nodes("b1"), nodes("b2")), 50_000)),
    ("loss: {between: [b1, b2], rate: 0.5%}", Loss((nodes("b1"), nodes("b2")), 5000)),
    ("reset_peer: {between: [p1, b1]}", ResetPeer((nodes("p1"), nodes("b1")))),
    (
        "hold: {from: leader(t-0), to: followers(t-0), api: Fetch, part: response}",
        Hold(LEADER, Selector((Term("followers", (), T0),)), "Fetch", "response"),
    ),
    ("hold: {from: b1, to: b2, api: Fetch, part: body}", Hold(nodes("b1"), nodes("b2"), "Fetch", "body")),
    ("hold: {from: b1, to: b2, part: both}", Hold(nodes("b1"), nodes("b2"))),
    ("hold: {from: b1, to: b2, count: 2}", Hold(nodes("b1"), nodes("b2"), count=2)),
    ("fail: {api: Produce, errors: NOT_LEADER_OR_FOLLOWER}", Fail("Produce", ("NOT_LEADER_OR_FOLLOWER",))),
    (
        "fail: {api: Produce, broker: b1, errors: [CORRUPT_MESSAGE, CORRUPT_MESSAGE], times: 3, when: after,"
        " partitions: t-0}",
        Fail("Produce", ("CORRUPT_MESSAGE", "CORRUPT_MESSAGE"), nodes("b1"), (T0,), 3, "after"),
    ),
    ("fail: {api: Fetch, delay: 2s, times: all}", Fail("Fetch", times=None, delay_us=2_000_000)),
    ("fail: {api: OffsetCommit, throttle: 5ms, close: after}", Fail("OffsetCommit", throttle_us=5000, close="after")),
    ("flush: rack(B)", Flush(Selector((Term("rack", ("B",)),)))),
    ("flush: {brokers: b1, partition: t-0}", Flush(nodes("b1"), T0)),
    ("bitflip: {broker: b2, partition: t-0, offset: 5}", Bitflip(nodes("b2"), T0, 5)),
    ("slow_disk: {brokers: b1, append: 2s}", SlowDisk(nodes("b1"), None, 2_000_000)),
    (
        "slow_disk: {brokers: b1, append: 10ms, read: 1s, throughput: 1MB/s}",
        SlowDisk(nodes("b1"), None, 10_000, 1_000_000, 1_000_000),
    ),
    ("fill_disk: [b1, b2]", FillDisk(nodes("b1", "b2"))),
    ("fail_disk: {brokers: b1}", FailDisk(nodes("b1"))),
    ("bump_clock: {brokers: b1, by: 1.5s}", BumpClock(nodes("b1"), 1_500_000)),
    ("bump_clock: {brokers: [b1, b2], by: -1m}", BumpClock(nodes("b1", "b2"), -60_000_000)),
    ("strobe_clock: {brokers: b1, by: -4s, period: 100ms}", StrobeClock(nodes("b1"), -4_000_000, 100_000)),
    ("elect: b2", Elect(broker=nodes("b2"))),
    ("elect: preferred", Elect()),
    ("elect: {partition: t-0, unclean: true}", Elect(T0, None, True)),
    ("elect: {partition: t-0, broker: b2, unclean: true}", Elect(T0, nodes("b2"), True)),
    ("reassign: {partition: t-0, to: [b1, b3]}", Reassign(T0, nodes("b1", "b3"))),
    ("reassign: {partition: t-0, to: b1, throttle: 1MB/s}", Reassign(T0, nodes("b1"), 1_000_000)),
    ("cancel_reassign: t-0", CancelReassign(T0)),
    ("throttle: {brokers: b3, rate: 80kB/s}", Throttle(nodes("b3"), 80_000)),
    (
        "throttle: {brokers: [b1, b3], rate: none, side: follower, topic: t}",
        Throttle(nodes("b1", "b3"), None, "follower", "t"),
    ),
    (
        "set_config: {topic: t, config: {min.insync.replicas: 1, segment.bytes: default}}",
        SetConfig("t", None, None, (("min.insync.replicas", "1"), ("segment.bytes", None))),
    ),
    (
        "set_config: {brokers: b1, config: {leader.replication.throttled.rate: 1000}}",
        SetConfig(None, nodes("b1"), None, (("leader.replication.throttled.rate", "1000"),)),
    ),
    (
        "set_config: {entity_default: brokers, config: {log.retention.ms: 1000}}",
        SetConfig(None, None, "brokers", (("log.retention.ms", "1000"),)),
    ),
    ("create_topic: t", MakeTopic("t")),
    ("delete_topic: t", RemoveTopic("t")),
    ("create_partitions: {topic: t, count: 3}", MorePartitions("t", 3)),
    ("delete_records: t-0", RemoveRecords(TopicPartition("t", 0))),
    ("delete_records: {partition: t-0, offset: 5}", RemoveRecords(TopicPartition("t", 0), 5)),
    ("delete_group: g", RemoveGroup("g")),
    ("delete_offsets: {group: g, topic: t}", RemoveOffsets("g", "t")),
    ("reset_offsets: {group: g, topic: t, to: earliest}", ResetGroupOffsets("g", "t", to="earliest")),
    ("reset_offsets: {group: g, topic: t, partition: 0, to: 0}", ResetGroupOffsets("g", "t", 0, 0)),
    ("reset_offsets: {group: g, topic: t, shift: -3}", ResetGroupOffsets("g", "t", shift=-3)),
    ("abort_transaction: t-0", EndHangingTransaction(T0)),
    ("abort_transaction: {partition: t-0, offset: 5}", EndHangingTransaction(T0, 5)),
    ("fence_producer: orders", FenceOff("orders")),
    ("unregister_broker: b1", Unregister(nodes("b1"))),
    ("add_voter: c1", MakeVoter(nodes("c1"))),
    ("remove_voter: c1", DropVoter(nodes("c1"))),
    ("update_features: {features: {transaction.version: 2}}", UpdateFeatures((("transaction.version", 2),))),
    (
        "update_features: {features: {group.version: 0, share.version: 1}, upgrade_type: safe_downgrade}",
        UpdateFeatures((("group.version", 0), ("share.version", 1)), "safe_downgrade"),
    ),
    (
        "set_quota: {client: p1, quota: {producer_byte_rate: 1000, request_percentage: 0.5}}",
        SetQuota("p1", None, (("producer_byte_rate", "1000"), ("request_percentage", "0.5"))),
    ),
    (
        "set_quota: {client: default, user: alice, quota: {consumer_byte_rate: default}}",
        SetQuota("default", "alice", (("consumer_byte_rate", None),)),
    ),
    ("produce: {from: p1, count: 3}", Produce("p1", 3)),
    (
        "produce: {from: p1, count: 6, batch: 3, size: 1kB, key: k, partition: 0}",
        Produce("p1", 6, 3, 1000, "k", 0),
    ),
    (
        "produce: {from: p1, count: 1, timestamp: -2s, headers: {trace-id: t7, empty: }}",
        Produce("p1", 1, time=RecordTime(-2_000_000), headers=(("trace-id", "t7"), ("empty", None))),
    ),
    ("produce: {from: p1, count: 1, timestamp: 1700000000}", Produce("p1", 1, time=RecordTime(at_ms=1_700_000_000))),
    ("seek: {consumer: c1r, partition: t-0, to: 5}", Seek("c1r", T0, 5)),
    ("seek: {consumer: c1r, partition: t-0, to: end}", Seek("c1r", T0, "end")),
    (
        "check: {clock: {after: 5s}, end_offset: {consumer: c1r, partition: t-0, error: OFFSET_NOT_AVAILABLE}}",
        Check(clock=TimeTest(5_000_000, None), end_offset=EndOffsetTest("c1r", T0, None, "OFFSET_NOT_AVAILABLE")),
    ),
    (
        'check: {logs: {t-0: {b1: "r0, s1"}}, records: {acked: r0..r1, lost: {count: {at_most: 2}}}}',
        Check(
            logs=(LogTest(partition=T0, node="b1", records=("r0", "s1")),),
            records=(
                RecordsTest(kind="acked", at_least=("r0", "r1"), at_most=("r0", "r1")),
                RecordsTest(kind="lost", count=NumberTest(None, 2)),
            ),
        ),
    ),
]


@pytest.mark.soak
@pytest.mark.parametrize(("text", "payload"), PAYLOADS, ids=[text for text, _ in PAYLOADS])
def test_payload(text: str, payload: object) -> None:
    scenario = load(*TWO_CUTS, f"{{at: 5s, {text}}}")
    step = scenario.timeline[-1]
    assert step.payload == payload
    assert step.trigger == At(5_000_000)
    assert step.payload.sentence()
    assert load_text(dump(scenario), "lock").scenario == scenario


def test_starting_wiping_tearing_need_a_broker_that_is_down() -> None:
    scenario = load(
        "{at: 1s, kill: b1}",
        "{at: 2s, tear: {broker: b1, partition: t-0, bytes: 10}}",
        "{at: 3s, wipe: b1}",
        "{at: 4s, start: b1}",
    )
    assert [step.payload for step in scenario.timeline[1:]] == [
        Tear(nodes("b1"), T0, 10),
        Wipe(nodes("b1")),
        Start(nodes("b1")),
    ]
    assert load_text(dump(scenario), "lock").scenario == scenario


def test_a_broker_that_may_have_halted_may_be_started() -> None:
    assert load("{at: 1s, fail_disk: b1}", "{at: 2s, wipe: b1}", "{at: 3s, start: b1}").timeline


def test_every_verb_is_covered_by_the_tests_above() -> None:
    assert {type(payload) for _, payload in PAYLOADS} | {Start, Tear, Wipe} == {verb.made for verb in VERBS.values()}


def test_a_start_that_only_the_run_can_judge_is_let_through() -> None:
    assert not errors_of(file_of("{at: 1s, kill: leader(t-0), as: victim}", "{at: 2s, start: b1}"))
    assert not errors_of(file_of("{when: {t-0: {hw: 5}}, kill: b2}", "{at: 2s, start: b2}"))
    assert [error.code for error in errors_of(file_of("{at: 3s, kill: b1}", "{at: 2s, start: b1}"))] == ["E130"]


def test_modifiers() -> None:
    (step,) = load("{at: 10.5s, pause: b3, for: 1600ms, every: 5s, times: 10, as: blink}").timeline
    assert (step.for_us, step.every_us, step.times) == (1_600_000, 5_000_000, 10)
    assert (step.label, step.name, step.verb, step.index, step.line) == ("blink", "blink", "pause", 0, 14)
    assert load("{at: 1s, kill: b1}", "{at: 2s, kill: b2}").timeline[1].name == "kill-2"


def test_when_waits_for_a_state() -> None:
    (step,) = load(
        "{when: {t-0: {leader: none, isr: [b1, b2], epoch: {at_least: 1}, hw: 3, leo: {at_least: 3, at_most: 5},"
        " offline: true}, b2: {running: true, fenced: false, t-0: {leo: 11, hw: 10, epoch: 2, leading: false}}},"
        " timeout: 60s, kill: b1}"
    ).timeline
    assert step.trigger == When(
        StateTest(
            partitions=(
                PartitionTest(
                    partition=T0,
                    leader=NO_NODES,
                    epoch=NumberTest(1, None),
                    isr=nodes("b1", "b2"),
                    hw=NumberTest(3, 3),
                    leo=NumberTest(3, 5),
                    offline=True,
                ),
            ),
            nodes=(
                NodeTest(
                    node=nodes("b2"),
                    running=True,
                    fenced=False,
                    replicas=(
                        ReplicaTest(
                            partition=T0,
                            leo=NumberTest(11, 11),
                            hw=NumberTest(10, 10),
                            epoch=NumberTest(2, 2),
                            leading=False,
                        ),
                    ),
                ),
            ),
        ),
        60_000_000,
    )


def test_what_an_earlier_step_captured_can_be_asked_about() -> None:
    scenario = load(
        "{at: 1s, kill: leader(t-0), as: victim}", '{when: {"@victim": {running: false}}, start: "@victim"}'
    )
    trigger = scenario.timeline[1].trigger
    assert isinstance(trigger, When)
    assert trigger.state.nodes[0].node == Selector((Term("captured", ("victim",)),))
    assert load_text(dump(scenario), "lock").scenario == scenario
