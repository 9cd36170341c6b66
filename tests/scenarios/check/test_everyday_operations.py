"""What operators and clients do every day breaks no promise, so no invariant may be reported for it (RULES.md)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import pytest

from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario
from tests.soak import one_in

GROUPS = """\
offsets.topic.num.partitions: 3, group.consumer.min.session.timeout.ms: 5000,
    group.consumer.session.timeout.ms: 5000, group.consumer.min.heartbeat.interval.ms: 500,
    group.consumer.heartbeat.interval.ms: 500"""
SCENARIO = """\
schema: 1
id: everyday
title: An everyday operation
duration: 50s
profile: kafka-4.1
cluster:
  controllers: [{controllers}]
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}, b4: {{}}}}
  config: {{{config}}}
topics:
  t: {{partitions: {{0: [b1, b2, b3], 1: [b2, b3, b1]}}, config: {{min.insync.replicas: 2{topic}}}}}
  out: {{partitions: {{0: [b3, b1, b2]}}, config: {{min.insync.replicas: 2}}}}
workloads:
{workloads}
timeline:
{timeline}
"""
WRITES = """\
  p1: {kind: producer, topic: t, rate: 10/s, start: 1s, stop: 40s,
       config: {delivery.timeout.ms: 9000, request.timeout.ms: 3000}}
"""
READS = "  c1r: {kind: consumer, topic: t, config: {auto.offset.reset: earliest}}\n"
TRANSACTIONS = """\
  p1: {kind: producer, topic: t, rate: 20/s, start: 1s, stop: 40s, transaction: {records: 5, abort-every: 3},
       config: {transactional.id: x}}
"""
SMALL_SEGMENTS = ", segment.bytes: 2048, min.cleanable.dirty.ratio: 0.01"


def member(name: str, start: str, *config: str) -> str:
    keys = ", ".join(("group.id: g", "auto.offset.reset: earliest", *config))
    return f"  {name}: {{kind: transform, topic: t, to: out, start: {start}, config: {{{keys}}}}}\n"


def is_a(kind: type, event: Any, **columns: Any) -> bool:
    return isinstance(event, kind) and all(getattr(event, name) == value for name, value in columns.items())


class Everyday(NamedTuple):
    """took_place: each is true of an event of the run     may_break: what no release promises of such an operation"""

    steps: tuple[str, ...]
    took_place: tuple[partial[bool], ...]
    workloads: str = WRITES + READS
    config: str = ""
    topic: str = ""
    controllers: str = "c1"
    may_break: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


happened = partial(partial, is_a)

CASES = {
    # S1 to S4, S18, S23: members of the ISR are taken away, proposals are overtaken, the leader itself goes.
    "replicas come and go": Everyday(
        (
            "at: 5s, reassign: {partition: t-0, to: [b4]}",
            "at: 8s, reassign: {partition: t-0, to: [b1, b2, b3, b4]}",
            "at: 8.02s, reassign: {partition: t-0, to: [b2, b3, b4]}",
            "at: 8.04s, cancel_reassign: t-0",
            "at: 12s, reassign: {partition: t-0, to: [b3, b1]}",
            "at: 12.005s, elect: b3",
            "at: 16s, reassign: {partition: t-1, to: [b4, b1]}",
            "at: 16s, elect: preferred, every: 300ms, times: 10",
            "at: 22s, reassign: {partition: t-1, to: [b1, b2, b3, b4]}",
            "at: 22.01s, stop: b1, for: 5s",
            "at: 30s, reassign: {partition: t-1, to: [b3]}",
            "at: 30.03s, restart: b3",
            "at: 35s, reassign: {partition: t-1, to: [b1, b2, b3]}",
        ),
        (
            happened(trace.ReassignmentCancelled),
            happened(trace.ReassignmentCompleted, replicas=("b4",)),
            happened(trace.ReassignmentCompleted, replicas=("b3",)),
            happened(trace.ReplicaDeleted),
        ),
        may_break=("S6 removed-eligible",),
    ),
    # S4, S12, S18: leaders are moved about while their followers lag.
    "preferred leaders": Everyday(
        (
            "at: 3s, elect: b2, every: 700ms, times: 40",
            "at: 3.2s, elect: b3, every: 700ms, times: 40",
            "at: 3.4s, elect: b1, every: 700ms, times: 40",
            "at: 8s, latency: {between: [b1, [b2, b3]], add: 400ms}, for: 5s",
            "at: 15s, pause: b3, for: 8s",
            "at: 26s, stop: b2, for: 4s",
        ),
        (happened(trace.LeaderElected, broker="b3"), happened(trace.LeaderElected, broker="b2")),
    ),
    # S12, S13, S23, S28, S35: a topic of the same name begins in epoch 0 under another leader.
    "a topic is made again": Everyday(
        (
            "at: 8s, delete_topic: t",
            "at: 10s, create_topic: t",
            "at: 13s, elect: b2",
            "at: 15s, kill: b3",
            "at: 18s, delete_topic: t",
            "at: 18.2s, create_topic: t",
            "at: 20s, start: b3",
            "at: 24s, reassign: {partition: t-0, to: [b4, b1]}",
            "at: 24.01s, delete_topic: t",
            "at: 27s, create_topic: t",
            "at: 29s, restart: c1r",
            "at: 33s, pause: b1, for: 6s",
            "at: 34s, delete_topic: t",
            "at: 36s, create_topic: t",
        ),
        (happened(trace.TopicDeleted, topic="t"), happened(trace.ReassignmentBegan)),
        workloads=WRITES + READS + member("m1", "0s"),
        config="auto.create.topics.enable: false",
    ),
    # S2, S3, S5, S24, S28: records are deleted, expire and are read at once; a follower is away meanwhile.
    "records are deleted": Everyday(
        (
            "at: 5s, delete_records: t-0, every: 2s, times: 15",
            "at: 6s, kill: b3",
            "at: 12s, set_config: {topic: t, config: {retention.ms: 2000}}",
            "at: 18s, start: b3",
            "at: 22s, elect: b3",
            "at: 22.01s, delete_records: t-1",
            "at: 25s, set_config: {topic: t, config: {retention.ms: default, retention.bytes: 5000}}",
            "at: 27s, pause: b2, for: 6s",
            "at: 30s, delete_records: t-1",
            "at: 34s, bump_clock: {brokers: b1, by: 7200s}",
            "at: 36s, reassign: {partition: t-0, to: [b4, b1, b2]}",
            "at: 36.02s, delete_records: t-0",
        ),
        (happened(trace.LogStartOffsetAdvanced, role="leader"), happened(trace.RecordsExpired)),
        config="log.retention.check.interval.ms: 1000",
        topic=SMALL_SEGMENTS,
    ),
    # S3, S5, S24: the minimum goes up and down, of the topic and of all brokers, while brokers go and come.
    "min.insync.replicas": Everyday(
        (
            "at: 5s, set_config: {topic: t, config: {min.insync.replicas: 3}}",
            "at: 6s, stop: b3",
            "at: 9s, set_config: {topic: t, config: {min.insync.replicas: 1}}",
            "at: 12s, stop: b2",
            "at: 15s, set_config: {topic: t, config: {min.insync.replicas: 2}}",
            "at: 18s, start: [b2, b3]",
            "at: 25s, set_config: {entity_default: brokers, config: {min.insync.replicas: 3}}",
            "at: 26s, set_config: {topic: t, config: {min.insync.replicas: default}}",
            "at: 28s, kill: b1, for: 7s",
            "at: 38s, set_config: {topic: t, config: {min.insync.replicas: 4}}",
        ),
        (
            happened(trace.ConfigAltered, key="min.insync.replicas", min_isr=1),
            happened(trace.ConfigAltered, key="min.insync.replicas", min_isr=3),
        ),
    ),
    # S12, S13, S22: controllers are started again, begin with snapshots, and write settings meanwhile.
    "controllers are started again": Everyday(
        (
            "at: 4s, set_config: {topic: t, config: {retention.ms: 1000000}}, every: 500ms, times: 30",
            "at: 4.1s, set_config: {topic: t, config: {retention.ms: 2000000}}, every: 500ms, times: 30",
            "at: 8s, kill: controller, for: 4s",
            "at: 16s, create_partitions: {topic: t, count: 6}",
            "at: 18s, restart: c3",
            "at: 20s, restart: b1",
            "at: 24s, pause: controller, for: 9s",
            "at: 38s, reassign: {partition: t-0, to: [b4, b2]}",
            "at: 40s, restart: [b1, b2, b3, b4]",
        ),
        (
            happened(trace.SnapshotLoaded),
            happened(trace.QuorumLeaderElected),
            happened(trace.PartitionCreated, partition=5),
        ),
        controllers="c1, c2, c3",
        config="metadata.log.max.record.bytes.between.snapshots: 600",
    ),
    # S34, S35: members come, leave, are replaced and are too slow; partitions are added, offsets are deleted.
    "members come and go": Everyday(
        (
            "at: 9s, stop: m1, for: 300ms",
            "at: 11s, kill: m2",
            "at: 12s, create_partitions: {topic: t, count: 7}",
            "at: 13s, start: m2",
            "at: 14s, pause: m3, for: 8s",
            "at: 16s, restart: m4, every: 700ms, times: 8",
            'at: 24s, kill: "leader(__consumer_offsets-0)", for: 4s',
            "at: 25s, set_config: {group: g, config: {consumer.session.timeout.ms: 8000}}",
            "at: 30s, restart: m1",
            "at: 34s, stop: [m1, m2, m3, m4]",
            "at: 35s, kill: m1",
            "at: 42s, delete_offsets: {group: g, topic: t}",
            "at: 43s, delete_group: g",
            "at: 44s, start: [m1, m2, m3, m4]",
        ),
        (
            happened(trace.GroupMemberReconciled),
            happened(trace.GroupMemberLeft, client_id="m3"),
            happened(trace.GroupRemoved, group="g"),
            happened(trace.PartitionCreated, partition=6),
        ),
        workloads=WRITES
        + member("m1", "0s", "group.protocol: consumer", "group.instance.id: one")
        + "".join(
            member(name, start, "group.protocol: consumer")
            for name, start in (("m2", "0s"), ("m3", "6s"), ("m4", "6.05s"))
        ),
        config=GROUPS,
    ),
    # S34, S35: a group goes over to KIP-848 and back, with a static member in both.
    "a group changes its protocol": Everyday(
        (
            "at: 13s, stop: k1",
            "at: 15s, kill: k2",
            "at: 18s, create_partitions: {topic: t, count: 5}",
            "at: 24s, start: [k1, k2]",
            "at: 28s, stop: [n1, n2]",
            "at: 32s, start: n1",
            "at: 34s, pause: k1, for: 9s",
            'at: 38s, restart: "leader(__consumer_offsets-0)"',
        ),
        (happened(trace.GroupMigrated), happened(trace.GroupMemberReconciled)),
        workloads=WRITES
        + member("k1", "1s", "session.timeout.ms: 6000", "heartbeat.interval.ms: 1000", "group.instance.id: s1")
        + member("k2", "2s", "session.timeout.ms: 6000", "heartbeat.interval.ms: 1000")
        + member("n1", "8s", "group.protocol: consumer")
        + member("n2", "10s", "group.protocol: consumer", "group.instance.id: s2"),
        config=GROUPS,
    ),
    # S1, S5, S18: brokers are forgotten while they run, while they are down, and in the middle of a reassignment.
    "brokers are unregistered": Everyday(
        (
            "at: 5s, kill: b3",
            "at: 6s, unregister_broker: b3",
            "at: 12s, start: b3",
            "at: 18s, unregister_broker: b2",
            "at: 22s, restart: b2",
            "at: 26s, reassign: {partition: t-0, to: [b4, b1, b2]}",
            "at: 26.05s, unregister_broker: b4",
            "at: 30s, restart: b4",
        ),
        (happened(trace.BrokerUnregistered, broker="b2"), happened(trace.BrokerUnregistered, broker="b4")),
    ),
    # S2, S10, S16: a topic becomes compacted under its producer, and is taken back.
    "a topic becomes compacted": Everyday(
        (
            "at: 1s, produce: {from: p1, count: 1, key: a}, every: 100ms, times: 380",
            "at: 1.05s, produce: {from: p1, count: 1, key: b}, every: 100ms, times: 380",
            "at: 5.5s, latency: {between: [c1, b1], add: 700ms}, for: 30s",
            "at: 6s, set_config: {topic: t, config: {cleanup.policy: compact}}",
            "at: 9s, kill: b2",
            'at: 15s, set_config: {topic: t, config: {cleanup.policy: "compact,delete", retention.ms: 3000}}',
            "at: 20s, start: b2",
            "at: 22s, elect: b3",
            "at: 24s, set_config: {topic: t, config: {cleanup.policy: delete}}",
            "at: 26s, delete_records: t-0",
            "at: 28s, set_config: {topic: t, config: {cleanup.policy: compact, segment.bytes: 1024}}",
            'at: 33s, kill: "leader(t-0)", for: 4s',
        ),
        (happened(trace.BatchCompacted, new_crc=None), happened(trace.RecordsExpired)),
        workloads=WRITES.replace(" rate: 10/s, start: 1s, stop: 40s,", "") + READS,
        config="log.retention.check.interval.ms: 1000, log.cleaner.backoff.ms: 500",
        topic=SMALL_SEGMENTS,
    ),
    # S10: no broker with a replica runs when the topic becomes compacted.
    "a topic becomes compacted while its brokers are down": Everyday(
        (
            "at: 1s, produce: {from: p1, count: 1, key: a}, every: 100ms, times: 300",
            "at: 1.05s, produce: {from: p1, count: 1, key: b}, every: 100ms, times: 150",
            "at: 20s, kill: [b1, b2, b3]",
            "at: 21s, set_config: {topic: t, config: {cleanup.policy: compact}}",
            "at: 23s, start: [b1, b2, b3]",
        ),
        (happened(trace.BatchCompacted, new_crc=None),),
        workloads=WRITES.replace(" rate: 10/s, start: 1s, stop: 40s,", "") + READS,
        config="log.cleaner.backoff.ms: 500",
        topic=SMALL_SEGMENTS,
    ),
    # S10: the cleaner of b1 gives its log up before it has taken anything.
    "a topic with a damaged batch becomes compacted": Everyday(
        (
            "at: 1s, produce: {from: p1, count: 1, key: a, size: 400B}, every: 100ms, times: 300",
            "at: 10s, bitflip: {broker: b1, partition: t-0, offset: 40}",
            "at: 10s, bitflip: {broker: b1, partition: t-1, offset: 1}",
            "at: 12s, set_config: {topic: t, config: {cleanup.policy: compact}}",
        ),
        (
            happened(trace.LogCompacted, node="b1", offset=0),
            happened(trace.BatchCompacted, node="b2", new_crc=None),
        ),
        workloads=WRITES.replace(" rate: 10/s, start: 1s, stop: 40s,", ""),
        config="log.cleaner.backoff.ms: 500",
        topic=SMALL_SEGMENTS,
    ),
    # S10: it gives it up after it has taken r0, for which r30 stands in no other log.
    "a batch that was compacted before is damaged": Everyday(
        (
            f"at: 1s, set_config: {{topic: out, config: {{min.insync.replicas: 1{SMALL_SEGMENTS}}}}}",
            *(f"at: 2s, produce: {{from: p1, count: 1, key: k{n}, size: 400B}}" for n in range(12)),
            "at: 3s, produce: {from: p1, count: 18, key: a, size: 400B}",
            "at: 5s, set_config: {topic: out, config: {cleanup.policy: compact}}",
            "at: 7s, kill: [b1, b2]",
            "at: 8s, bitflip: {broker: b3, partition: out-0, offset: 7}",
            "at: 20s, produce: {from: p1, count: 1, key: k0, size: 400B}",
            "at: 21s, produce: {from: p1, count: 18, key: a, size: 400B}",
        ),
        (happened(trace.BatchCompacted, node="b3", base_offset=0, new_crc=None),),
        workloads=WRITES.replace(" topic: t, rate: 10/s, start: 1s, stop: 40s,", " topic: out,"),
        config="log.cleaner.backoff.ms: 500",
        lost=("r7",),
    ),
    # r0, which r2 had replaced, is replaced by a record that was appended while the topic was not compacted.
    "a topic is compacted for a while, and its disk loses the end": Everyday(
        (
            f"at: 1s, set_config: {{topic: out, config: {{min.insync.replicas: 1{SMALL_SEGMENTS}}}}}",
            "at: 2s, stop: [b1, b2]",
            *(f"at: 12s, produce: {{from: p1, count: 1, key: {key}, size: 400B}}" for key in "kzk"),
            "at: 13s, produce: {from: p1, count: 9, key: a, size: 400B}",
            "at: 14s, set_config: {topic: out, config: {cleanup.policy: compact}}",
            "at: 17s, set_config: {topic: out, config: {cleanup.policy: delete}}",
            "at: 18s, kill: b3",
            "at: 19s, tear: {broker: b3, partition: out-0, bytes: 2500B}",
            "at: 20s, start: b3",
            "at: 35s, produce: {from: p1, count: 1, key: k}",
        ),
        (happened(trace.BatchCompacted, node="b3", base_offset=0, new_crc=None), happened(trace.BatchAppended)),
        workloads=WRITES.replace(" topic: t, rate: 10/s, start: 1s, stop: 40s,", " topic: out,"),
        config="log.cleaner.backoff.ms: 500",
        lost=tuple(f"r{n}" for n in range(2, 12)),
    ),
    # S10: what has no key goes with the first round of the cleaner.
    "a topic without keys becomes compacted": Everyday(
        ("at: 20s, set_config: {topic: t, config: {cleanup.policy: compact}}",),
        (happened(trace.BatchCompacted, new_crc=None),),
        config="log.cleaner.backoff.ms: 500",
        topic=SMALL_SEGMENTS,
    ),
    # S10, S30: the cleaner takes the records of aborted transactions, and the markers.
    "a topic with transactions becomes compacted": Everyday(
        ("at: 20s, set_config: {topic: t, config: {cleanup.policy: compact}}",),
        (happened(trace.BatchCompacted, aborted=True),),
        workloads=TRANSACTIONS + READS,
        config="log.cleaner.backoff.ms: 500",
        topic=SMALL_SEGMENTS,
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", one_in(8, CASES), ids=lambda name: name.replace(" ", "-"))
def test_what_is_done_every_day_breaks_nothing(name: str) -> None:
    case = CASES[name]
    text = SCENARIO.format(
        controllers=case.controllers,
        config=case.config,
        topic=case.topic,
        workloads=case.workloads,
        timeline="\n".join(f"  - {{{step}}}" for step in case.steps),
    )
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None, keep_rows=True)
    assert [one for one in result.broken if one.invariant not in case.may_break] == []
    assert case.may_break or result.verdict.records["lost"] == case.lost
    missing = [one.keywords for one in case.took_place if not any(one(row.event) for row in result.rows)]
    assert missing == [], "did not take place"
