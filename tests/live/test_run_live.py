"""A scenario over TCP, by the wall clock, is judged as in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.trace.events import LogTruncated, RecordSerialized
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario
from scenarios.run.worlds import live

pytestmark = pytest.mark.live

LOST = """
schema: 1
id: quick-leader-kill
title: Acked by the leader, gone with the leader, within seconds
seed: 1
duration: 8s
cluster:
  controllers: [c1]
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {broker.session.timeout.ms: 1500, broker.heartbeat.interval.ms: 100}
topics:
  t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}
workloads:
  p1: {kind: producer, topic: t, config: {acks: 1, enable.idempotence: false}}
  c1r: {kind: consumer, topic: t, config: {auto.offset.reset: earliest}}
timeline:
  - {at: 2s, produce: {from: p1, count: 10}}
  - {at: 3s, hold: {from: "leader(t-0)", to: "followers(t-0)", api: Fetch, part: response}, as: freeze}
  - {at: 3.2s, produce: {from: p1, count: 5}}
  - {at: 3.6s, kill: "leader(t-0)", as: victim}
  - {at: 5.8s, produce: {from: p1, count: 5}}
  - {at: 6s, start: "@victim"}
expect:
  verdict: [lost]
  records: {acked: r0..r19, lost: r10..r14, duplicated: none}
  logs: {t-0: "r0..r9, r15..r19"}
  state: {t-0: {leader: b2, isr: [b1, b2, b3]}}
"""


@pytest.mark.soak
def test_a_killed_leader_takes_what_it_alone_had_acked_over_tcp_as_well(tmp_path: Path) -> None:
    scenario = load_text(LOST, "quick.yaml").scenario
    result = run_scenario(scenario, runs_dir=tmp_path, world=live, keep_rows=True)
    assert [(each.what, each.why) for each in result.expectations if not each.held] == []
    assert result.summary["live"] and not result.broke_an_invariant
    assert result.summary["bytes"]["fetch_payload_through_python"] == 0 < result.summary["bytes"]["sendfile"]
    cut = next(row for row in result.rows if isinstance(row.event, LogTruncated))
    assert cut.causes and cut.causes[0] > 0  # events over TCP still have their causes


POISONED = """
schema: 1
id: quick-poison-pill
title: A record that nobody can read, within seconds
duration: 8s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {offsets.topic.num.partitions: 1, group.initial.rebalance.delay.ms: 0}
topics:
  t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}
  out: {partitions: {0: [b2, b3, b1]}, config: {min.insync.replicas: 2}}
workloads:
  p1:
    kind: producer
    topic: t
    cpu: {serializer: 20ms}
    config:
      value.serializer: IntegerSerializer
      key.serializer: IntegerSerializer
      interceptor.classes: AuditInterceptor
  p2: {kind: producer, topic: t, config: {interceptor.classes: "StampInterceptor, ThrowingInterceptor"}}
  m1:
    kind: transform
    topic: t
    to: out
    offsets: after
    config: {group.id: g, auto.offset.reset: earliest, value.deserializer: IntegerDeserializer}
timeline:
  - {at: 2s, produce: {from: p1, count: 2}}
  - {at: 2.5s, produce: {from: p1, count: 1, key: abc}}
  - {at: 3s, produce: {from: p2, count: 1}}
  - {at: 4s, produce: {from: p1, count: 2}}
  - {at: 4.5s, stop: m1}
  - {at: 5.5s, start: m1}
expect:
  verdict: ok
  records: {acked: "r0, r1, r3, r4, s0, tr0, tr1", failed: r2, lost: none, duplicated: none}
  errors: {m1: {RECORD_DESERIALIZATION: {count: 2}}}
  events:
    - {event: record_failed, client: p1, record: r2, error: SERIALIZATION, definite: true}
    - {event: deserialization_failed, client: m1, record: s0, offset: 2, count: 2}
    - {event: record_intercepted, client: p2, record: s0, hook: onSend, outcome: changed}
    - {event: record_intercepted, client: p1, record: r2, hook: onAcknowledgement, calls: 3}
    - {never: record_read, record: r3}
"""


@pytest.mark.soak
def test_clients_serialize_and_stop_at_a_poison_pill_over_tcp_as_well(tmp_path: Path) -> None:
    scenario = load_text(POISONED, "quick.yaml").scenario
    result = run_scenario(scenario, runs_dir=tmp_path, world=live, keep_rows=True)
    assert [(each.what, each.why) for each in result.expectations if not each.held] == []
    assert not result.broke_an_invariant
    first, second = [row.at_us for row in result.rows if isinstance(row.event, RecordSerialized)][:2]
    assert second - first >= 20_000


AUTO_COMMIT = """
schema: 1
id: quick-auto-commit
title: Committed before it is done, within seconds
duration: 10s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {offsets.topic.num.partitions: 1, group.initial.rebalance.delay.ms: 0}
topics:
  t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}
  out: {partitions: {0: [b2, b3, b1]}, config: {min.insync.replicas: 2}}
workloads:
  p1: {kind: producer, topic: t}
  m1:
    kind: transform
    topic: t
    to: out
    flush: false
    config:
      group.id: g
      auto.offset.reset: earliest
      enable.auto.commit: true
      auto.commit.interval.ms: 300
      linger.ms: 60000
      delivery.timeout.ms: 120000
timeline:
  - {at: 3s, produce: {from: p1, count: 3}}
  - {at: 5s, kill: m1}
expect:
  verdict: lost
  records: {acked: r0..r2, lost: tr0..tr2}
  events:
    - {event: offset_committed, group: g, partition: t-0, offset: 3}
"""


@pytest.mark.soak
def test_what_is_committed_before_it_is_done_is_lost_over_tcp_as_well(tmp_path: Path) -> None:
    scenario = load_text(AUTO_COMMIT, "quick.yaml").scenario
    result = run_scenario(scenario, runs_dir=tmp_path, world=live, keep_rows=True)
    assert [(each.what, each.why) for each in result.expectations if not each.held] == []


NEW_TOPIC = """
schema: 1
id: quick-pattern
title: A topic is made that the pattern of a group describes
seed: 1
duration: 24s
cluster:
  controllers: [c1]
  brokers: {b1: {}, b2: {}, b3: {}}
  config:
    offsets.topic.num.partitions: 1
    group.initial.rebalance.delay.ms: 200
    group.consumer.min.heartbeat.interval.ms: 500
    group.consumer.heartbeat.interval.ms: 500
topics:
  orders-1: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}
  orders-2: {partitions: {0: [b2, b3, b1]}, config: {min.insync.replicas: 2}}
  bills: {partitions: {0: [b3, b1, b2]}, config: {min.insync.replicas: 2}}
workloads:
  p1: {kind: producer, topic: orders-1}
  p2: {kind: producer, topic: orders-2}
  m1:
    kind: transform
    topics: {pattern: "orders-.*"}
    to: bills
    config: {group.id: g, group.protocol: PROTOCOL, auto.offset.reset: earliest, metadata.max.age.ms: 2000}
timeline:
  - {at: 5s, produce: {from: p1, count: 2}}
  - {at: 14s, create_topic: orders-2}
  - {at: 14.1s, produce: {from: p2, count: 2}}
expect:
  verdict: ok
  records: {acked: "r0, r1, s0, s1, tr0, tr1, ts0, ts1", lost: none, duplicated: none}
  events: [{event: record_read, record: s1, after: 14s}]
"""


@pytest.mark.soak
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_a_step_makes_is_read_by_its_pattern_over_tcp_as_well(protocol: str, tmp_path: Path) -> None:
    scenario = load_text(NEW_TOPIC.replace("PROTOCOL", protocol), "quick.yaml").scenario
    result = run_scenario(scenario, runs_dir=tmp_path, world=live, keep_rows=True)
    assert [(each.what, each.why) for each in result.expectations if not each.held] == []
    assert not result.broke_an_invariant
