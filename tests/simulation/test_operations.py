"""What operators do while faults happen, and what looked like a bug in Highwater once: a swarm found it."""

from __future__ import annotations

import random
import re

import pytest

from replica.rules import PROFILES
from replica.trace.events import (
    IsrCommitted,
    LogStartOffsetAdvanced,
    OffsetCommitted,
    TransactionFailed,
    TransactionMarkerWritten,
)
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario
from scenarios.search.mix import mix_of
from scenarios.search.schedules import random_schedule
from tests.soak import one_in, one_row_in

EXPIRE = "{at: %s, set_config: {entity_default: brokers, config: {log.retention.ms: 4000}}}"
SESSION = "broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 1000, replica.lag.time.max.ms: 4000"


def scenario(*steps: str, producer: str, config: str = "", **topics: str) -> str:
    """topics: their partitions     producer: more of its configuration; each topic has one, and half a minute of it"""
    assigned = ", ".join(f"{name}: {{partitions: {partitions}}}" for name, partitions in topics.items())
    clients = "\n".join(
        f"  p{name}: {{kind: producer, topic: {name}, rate: 5/s, start: 1s, stop: 16s, {producer}}}" for name in topics
    )
    return "\n".join([
        "{schema: 1, id: operations, title: An operator and a fault, seed: 3, duration: 100s, profile: kafka-4.1,",
        "cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}},",
        f"  config: {{{SESSION}, log.retention.check.interval.ms: 1000{config}}}}},",
        f"topics: {{{assigned}}},",
        "workloads: {",
        ",\n".join(line.strip() for line in clients.splitlines()),
        "},",
        f"timeline: [{', '.join(steps)}]}}",
    ])  # fmt: skip


IDEMPOTENT = "config: {acks: all, delivery.timeout.ms: 120000, request.timeout.ms: 2500, linger.ms: 0}"
TRANSACTIONAL = "config: {acks: all, transactional.id: tx, linger.ms: 0}, transaction: {records: 8, abort-every: 2}"
SMALL = ", log.segment.bytes: 1024"

FROZEN_LEADER = scenario(
    "{at: 3910ms, pause: b1, as: frozen, for: 14s}",
    EXPIRE % "7310ms",
    "{at: 8s, set_config: {topic: t, config: {segment.ms: 1000}}}",
    producer=IDEMPOTENT,
    t="{0: [b1, b2]}",
)
"""It wakes and appends what has been written elsewhere, and has expired there; then it cuts that off."""

OPEN_TRANSACTION = scenario(EXPIRE % "9510ms", producer=TRANSACTIONAL, config=SMALL, t="{0: [b1, b2]}")
"""Its first records expire; those of ended ones and their markers, too."""

MADE_AGAIN = scenario(
    "{at: 9s, stop: b2, as: away, for: 1s}",
    "{at: 12s, delete_topic: u}",
    "{at: 12015ms, create_topic: u}",
    producer=IDEMPOTENT,
    t="{0: [b1, b3]}",
    u="{0: [b2, b3], 1: [b2, b3]}",
)
"""Its epochs begin anew, below those that its clients know."""

DEPARTS_BELOW_THE_START = f"""\
schema: 1
id: departs-below-the-start
title: The leader drops the records that its follower has otherwise
duration: 100s
profile: kafka-4.1
cluster:
  controllers: [c1]
  brokers: {{b1: {{}}, b2: {{}}}}
  config: {{{SESSION}, log.retention.check.interval.ms: 1000}}
topics: {{t: {{partitions: {{0: [b1, b2]}}}}}}
workloads:
  p1: {{kind: producer, topic: t, config: {{acks: 1, linger.ms: 0}}}}
  p2: {{kind: producer, topic: t, config: {{acks: 1, linger.ms: 0, request.timeout.ms: 1000}}}}
timeline:
  - {{at: 3s, produce: {{from: p1, count: 3}}}}
  - {{at: 5s, partition: [[b1, p1], [b2, c1, p2]], as: split}}
  - {{at: 5.1s, produce: {{from: p1, count: 1}}}}
  - {{at: 8s, produce: {{from: p2, count: 1}}}}
  - {EXPIRE % "12s"}
  - {{at: 24s, heal: split}}
  - {{at: 27s, produce: {{from: p2, count: 2}}}}
"""


PART_OF_A_BATCH = scenario(
    "{at: 6s, produce: {from: pt, count: 9, batch: 3}}",
    "{at: 8646ms, delete_records: {partition: t-0, offset: 20}}",
    "{at: 11s, reassign: {partition: t-0, to: [b1, b3]}}",
    producer="batch: 3, " + IDEMPOTENT,
    t="{0: [b1, b2]}",
)
"""The log starts within a batch, which b3 is sent whole (UnexpectedAppendOffsetException)."""

FORGOTTEN_MEMBER = scenario(
    "{at: 9620ms, unregister_broker: b3}",
    producer="config: {acks: 1, linger.ms: 0}",
    t="{0: [b1, b2, b3]}, config: {min.insync.replicas: 3}",
)
"""All replicas are asked for, and one is out for good: the high watermark stands, at rest, too."""


WAKES_BELOW_THE_START = scenario(
    "{at: 3910ms, pause: b1, as: frozen, for: 14s}",
    "{when: {t-0: {leader: b2, hw: 16}}, delete_records: t-0}",
    producer=IDEMPOTENT,
    t="{0: [b1, b2]}",
)
"""The leader that wakes appends what has waited for it: it reaches the start with records that are another's."""


@pytest.mark.soak
@pytest.mark.parametrize(
    "text",
    one_in(
        3,
        [
            FROZEN_LEADER,
            OPEN_TRANSACTION,
            MADE_AGAIN,
            DEPARTS_BELOW_THE_START,
            PART_OF_A_BATCH,
            FORGOTTEN_MEMBER,
            WAKES_BELOW_THE_START,
        ],
    ),
)
def test_what_an_operator_does_is_no_bug(text: str) -> None:
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None)
    assert [event.sentence() for event in result.broken if event.promised] == []
    assert not result.verdict.our_bug


GROUP = """\
{schema: 1, id: verbs, title: What operators ask of all nodes, duration: 60s, profile: PROFILE,
cluster: {brokers: {b1: {}, b2: {}, b3: {}, b4: {}}, config: {offsets.topic.num.partitions: 1}},
topics: {t: {partitions: {0: [b1, b2, b3]}}, o: {partitions: {0: [b1, b2, b3]}}},
workloads: {
  p1: {kind: producer, topic: t, rate: 5/s, start: 1s, stop: 40s, config: {metadata.max.age.ms: 5000}},
  x1: {kind: transform, topic: t, to: o, config: {group.id: g, auto.offset.reset: earliest}}},
timeline: [{at: 20s, stop: x1, as: away}, STEPS]}
"""


def asked(*steps: str, profile: str = "kafka-4.1") -> RunResult:
    text = GROUP.replace("PROFILE", profile).replace("STEPS", ", ".join(steps))
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None, keep_rows=True)
    assert not result.broke_an_invariant
    return result


def refused(*steps: str) -> list[str]:
    return [one.why.partition(" was refused: ")[2] for one in asked(*steps).expectations if not one.held]


@pytest.mark.soak
def test_partitions_that_are_added_are_written_to() -> None:
    result = asked(
        "{at: 10s, create_partitions: {topic: t, count: 3}}",
        "{at: 20s, produce: {from: p1, count: 2, partition: 1}}",
        "{at: 20s, produce: {from: p1, count: 3, partition: 2}}",
        "{at: 30s, delete_records: {partition: t-2, offset: 1}}",
    )
    assert result.summary["records"]["lost"] == [] and len(result.summary["records"]["deleted"]) == 1
    assert all(len(result.summary["logs"][name]) >= 2 for name in ("t-1", "t-2"))
    fewer = ("{at: 9s, create_partitions: {topic: t, count: 3}}", "{at: 10s, create_partitions: {topic: t, count: 2}}")
    assert refused(*fewer) == ["INVALID_PARTITIONS topic t already has 3 partitions; 2 is not an increase"]


@pytest.mark.soak
@pytest.mark.parametrize("profile", one_in(2, ["kafka-4.1", "kafka-2.0"]))
def test_records_that_an_operator_deletes_are_not_lost(profile: str) -> None:
    result = asked("{at: 10s, delete_records: t-0}", profile=profile)
    started = [
        row.event for row in result.rows if isinstance(row.event, LogStartOffsetAdvanced) and row.event.topic == "t"
    ]
    assert [event.node for event in started] == ["b1", "b2", "b3"], "the leader, and then its followers"
    assert len(result.summary["records"]["deleted"]) == started[0].log_start_offset > 40
    assert result.verdict.kinds == ()


@pytest.mark.soak
def test_what_leaders_and_coordinators_refuse() -> None:
    assert refused(
        "{at: 10s, delete_records: {partition: t-0, offset: 500}}",
        "{at: 11s, delete_group: g}",
        "{at: 11s, delete_offsets: {group: g, topic: t}}",
        "{at: 11s, delete_group: nobody}",
        "{at: 12s, delete_offsets: {group: g, topic: o}}",
        "{at: 25s, delete_offsets: {group: g, topic: t}}",
    ) == ["OFFSET_OUT_OF_RANGE", "NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC", "GROUP_ID_NOT_FOUND"]  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize(
    ("profile", "config"),
    one_row_in(3, [("kafka-4.1", "group.protocol: consumer, "), ("kafka-4.1", ""), ("kafka-2.0", "")]),
)
def test_offsets_are_reset_only_while_the_group_has_no_members(profile: str, config: str) -> None:
    def of_steps(*steps: str) -> RunResult:
        text = GROUP.replace("group.id: g", f"{config}group.id: g").replace("PROFILE", profile)
        text = text.replace("STEPS", ", ".join(steps))
        return run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None, keep_rows=True)

    early = of_steps("{at: 15s, reset_offsets: {group: g, topic: t, to: earliest}}", "{at: 30s, start: '@away'}")
    assert [one.why.partition(" was refused: ")[2] for one in early.expectations if not one.held] == [
        "UNKNOWN_MEMBER_ID"
    ]
    assert early.summary["records"]["duplicated"] == []
    again = of_steps("{at: 25s, reset_offsets: {group: g, topic: t, to: earliest}}", "{at: 30s, start: '@away'}")
    assert len(again.summary["records"]["duplicated"]) > 50 and not again.broke_an_invariant


def committed(result: RunResult, after_s: float) -> list[int]:
    """What groups have been set to without a member."""
    events = [row.event for row in result.rows if row.at_us > after_s * 1e6]
    return [one.offset for one in events if isinstance(one, OffsetCommitted) and one.member is None]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("where", "offset"),
    one_row_in(
        3,
        [
            ("to: 100000", 123),
            ("to: 7", 7),
            ("shift: -100000", 0),
            ("shift: -1", 94),
            ("shift: 1", 96),
            ("to: latest", 123),
        ],
    ),
)
def test_a_reset_goes_where_it_is_asked_to_and_not_beyond_the_log(where: str, offset: int) -> None:
    """At 20 s the group is at 95; at 25.6 s the log ends at 123."""
    result = asked(f"{{at: 25.6s, reset_offsets: {{group: g, topic: t, partition: 0, {where}}}}}")
    assert committed(result, 25) == [offset]


@pytest.mark.soak
def test_no_offset_lies_below_the_records_that_were_deleted() -> None:
    result = asked(
        "{at: 24s, delete_records: {partition: t-0, offset: 30}}",
        "{at: 25s, reset_offsets: {group: g, topic: t, to: 0}}",
    )
    assert committed(result, 25) == [30] and result.verdict.kinds == ()


@pytest.mark.soak
def test_a_group_that_has_no_offsets_cannot_be_shifted_and_can_be_set() -> None:
    assert refused("{at: 25s, reset_offsets: {group: new, topic: t, shift: -1}}") == [
        "the group has no committed offset for t-0, so it cannot be shifted"
    ]
    assert committed(asked("{at: 25s, reset_offsets: {group: new, topic: t, to: 3}}"), 25) == [3]


@pytest.mark.soak
def test_what_an_operator_lets_a_group_skip_is_not_lost() -> None:
    """x1 has read records whose outputs are held back when it is killed; the group then goes on behind them."""
    result = asked(
        "{at: 10s, hold: {from: x1, to: brokers, api: Produce}, as: outputs}",
        "{at: 12s, kill: x1}",
        "{at: 25s, release: outputs}",
        "{at: 26s, reset_offsets: {group: g, topic: t, to: latest}}",
        "{at: 30s, start: x1}",
    )
    assert result.summary["records"]["lost"] == [] and "lost" not in result.verdict.kinds


TRANSACTIONS = """\
{schema: 1, id: aborts, title: Transactions and an operator, duration: 60s, profile: PROFILE,
cluster: {brokers: {b1: {}, b2: {}, b3: {}}, config: {transaction.state.log.num.partitions: 1}},
topics: {t: {partitions: {0: [b1, b2, b3], 1: [b2, b3, b1]}, config: {min.insync.replicas: 2}}},
workloads: {p1: {kind: producer, topic: t, config: {transactional.id: orders}, transaction: {records: 4}}},
timeline: [{at: 5s, produce: {from: p1, count: 1, partition: 0}}, {at: 5s, produce: {from: p1, count: 1, partition: 1}},
  STEPS]}
"""


def in_transactions(*steps: str, profile: str = "kafka-4.1") -> RunResult:
    text = TRANSACTIONS.replace("PROFILE", profile).replace("STEPS", ", ".join(steps))
    return run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None, keep_rows=True)


@pytest.mark.parametrize("profile", one_in(3, ["kafka-4.1", "kafka-3.5", "kafka-0.11"]))
def test_a_live_transaction_that_an_operator_aborts_is_in_two_parts_and_no_bug(profile: str) -> None:
    result = in_transactions(
        "{at: 10s, abort_transaction: t-0}",
        "{at: 12s, produce: {from: p1, count: 2, partition: 1}}",
        profile=profile,
    )
    assert {event.invariant for event in result.broken} == {"S30 aborted-by-operator"}
    assert not result.broke_an_invariant


def test_only_an_open_transaction_is_aborted() -> None:
    result = in_transactions(
        "{at: 10s, abort_transaction: {partition: t-0, offset: 1}}",
        "{at: 11s, abort_transaction: {partition: t-0, offset: 0}}",
        "{at: 12s, abort_transaction: t-0}",
    )
    assert [one.why.partition(" was refused: ")[2] for one in result.expectations if not one.held] == [
        "t-0 has no open transaction that starts at offset 1",
        "t-0 has no open transaction",
    ]
    (marker,) = [row.event for row in result.rows if isinstance(row.event, TransactionMarkerWritten)]
    assert (marker.partition, marker.first_offset, marker.committed, marker.coordinator_epoch) == (0, 0, False, 0)


@pytest.mark.soak
@pytest.mark.parametrize("profile", ["kafka-4.1", "kafka-0.11"])
def test_a_producer_that_is_fenced_loses_its_transaction_everywhere(profile: str) -> None:
    result = in_transactions(
        "{at: 10s, fence_producer: orders}", "{at: 12s, produce: {from: p1, count: 2, partition: 1}}", profile=profile
    )
    markers = [row.event for row in result.rows if isinstance(row.event, TransactionMarkerWritten)]
    assert sorted((one.partition, one.committed) for one in markers) == [(0, False), (1, False)]
    assert any(isinstance(row.event, TransactionFailed) for row in result.rows)
    assert result.broken == ()


@pytest.mark.soak
@pytest.mark.parametrize(
    "step",
    one_in(
        5,
        [
            "delete_records: t-0",
            "delete_group: g",
            "delete_offsets: {group: g, topic: t}",
            "reset_offsets: {group: g, topic: t, to: latest}",
            "abort_transaction: t-0",
        ],
    ),
)
def test_the_step_says_which_broker_would_decide_and_is_down(step: str) -> None:
    """Nothing was asked, so that is a step that could not be done, and no fault."""
    (failed,) = [
        one for one in asked("{at: 19s, kill: [b1, b2, b3]}", f"{{at: 20s, {step}}}").expectations if not one.held
    ]
    assert re.search("b[123], which is the leader or coordinator for it, does not answer$", failed.why)


@pytest.mark.soak
def test_a_group_that_is_deleted_has_no_offsets() -> None:
    """Its next member begins where auto.offset.reset says, so the outputs are there twice."""
    again = asked("{at: 25s, delete_group: g}", "{at: 30s, start: '@away'}")
    assert len(again.summary["records"]["duplicated"]) > 50
    assert asked("{at: 30s, start: '@away'}").summary["records"]["duplicated"] == []


@pytest.mark.soak
def test_a_broker_that_is_unregistered_is_out_until_it_starts_again() -> None:
    result = asked("{at: 10s, unregister_broker: [b2, b4]}", "{at: 20s, restart: b2}")
    committed = [(row.at_us, row.event) for row in result.rows if isinstance(row.event, IsrCommitted)]
    isrs = [(at_us, event.isr) for at_us, event in committed if event.topic == "t"]
    assert [("b2" in isr, at_us > 20_000_000) for at_us, isr in isrs] == [(False, False), (True, True)]
    assert refused("{at: 10s, unregister_broker: b4}", "{at: 11s, unregister_broker: b4}") == [
        "BROKER_ID_NOT_REGISTERED Broker ID 4 is not currently registered"
    ]


@pytest.mark.soak
@pytest.mark.parametrize("profile", one_in(6, reversed(list(PROFILES))))
def test_a_swarm_draws_what_operators_and_errors_do_in_every_era(profile: str) -> None:
    verbs: dict[str, None] = {}
    for seed in range(0, 960, 16):
        mix = mix_of(seed, profile, safe=False)
        schedule = random_schedule(random.Random(seed), safe=False, profile=profile, mix=mix)
        schedule.scenario()  # It has no errors.
        verbs.update(dict.fromkeys(verb for step in schedule.tree["timeline"] for verb in step))
    wanted = {"set_config", "fail"}
    if PROFILES[profile].membership == "registration":
        wanted |= {"reassign", "cancel_reassign", "throttle", "set_quota", "delete_topic", "create_topic"}
        wanted |= {"create_partitions", "unregister_broker"}
        assert {"delete_group", "delete_offsets", "reset_offsets"} & set(verbs)
    if PROFILES[profile].transactions != "none":
        wanted |= {"delete_records", "abort_transaction", "fence_producer"}
    if PROFILES[profile].elr:
        wanted |= {"update_features"}
    assert wanted <= set(verbs)
