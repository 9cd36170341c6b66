"""A changed min.insync.replicas voids the ELR, which raises the partition epoch without an election or another ISR."""

from __future__ import annotations

import pytest

from replica.trace.events import ElrCommitted, IsrCommitted, IsrRejected
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

SCENARIO = """\
schema: 1
id: elr-cleared
title: The ELR is void, and then its member comes back
duration: 20s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500}
topics: {t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 3}}}
workloads: {p1: {kind: producer, topic: t, rate: 2/s, start: 1s, stop: 15s}}
timeline:
  - {at: 2s, kill: b1}
  - {at: 8s, set_config: {topic: t, config: {min.insync.replicas: 2}}}
  - {at: 12s, start: b1}
"""


def test_a_leader_that_learns_of_it_takes_replicas_into_the_isr_again() -> None:
    rows = run_scenario(load_text(SCENARIO, "test.yaml").scenario, runs_dir=None, keep_rows=True).rows
    elrs = [row.event.elr for row in rows if isinstance(row.event, ElrCommitted)]
    isrs = [row.event.isr for row in rows if isinstance(row.event, IsrCommitted)]
    assert elrs == [("b1",), ()]
    assert isrs == [("b2", "b3"), ("b2", "b3", "b1")]
    assert not [row for row in rows if isinstance(row.event, IsrRejected)]


NOBODY_IN_SYNC = """\
schema: 1
id: elr-cleared-offline
title: The ELR is void while nobody is in the ISR
duration: 90s
profile: kafka-4.1
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500}
topics: {t: {partitions: {0: [b1, b2]}, config: {min.insync.replicas: 2}}}
workloads: {p1: {kind: producer, topic: t, rate: 2/s, start: 1s, stop: 3s}}
timeline:
  - {at: 4s, cut: {between: [c1, [b1, b2]]}, as: wall}
  - {at: 10s, set_config: {topic: t, config: {min.insync.replicas: 2}}}
  - {at: 12s, heal: all}
"""


@pytest.mark.parametrize("is_set", [True, False])
def test_where_nobody_is_in_sync_nobody_leads_any_more(is_set: bool) -> None:
    """Found by a search. As in Kafka: ReplicationControlManager.removeTopicElrs does not look at the ISR."""
    text = (
        NOBODY_IN_SYNC if is_set else "\n".join(line for line in NOBODY_IN_SYNC.split("\n") if "set_config" not in line)
    )
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None)
    assert [(event.invariant, event.promised) for event in result.broken] == [("L2 cleared-elr", False)] * is_set
