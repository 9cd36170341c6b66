"""What a changed min.insync.replicas does: it voids the ELR, and a leader goes by the one that it knows."""

from __future__ import annotations

import pytest

from replica.trace.events import ElrCommitted, IsrCommitted, IsrRejected
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario
from tests.soak import one_in

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
  - {at: 10s, set_config: {topic: t, config: {min.insync.replicas: TO}}}
  - {at: 12s, heal: all}
"""


@pytest.mark.parametrize(("to", "is_cleared"), [(1, True), (2, False)])
def test_where_nobody_is_in_sync_nobody_leads_any_more(to: int, is_cleared: bool) -> None:
    """Found by a search. As in Kafka: ReplicationControlManager.removeTopicElrs does not look at the ISR. The value
    that it has changes nothing, and leaves no record (seen on 4.1.0)."""
    result = run_scenario(load_text(NOBODY_IN_SYNC.replace("TO", str(to)), "test.yaml").scenario, runs_dir=None)
    assert [(event.invariant, event.promised) for event in result.broken] == [("L2 cleared-elr", False)] * is_cleared


NEW_DISK = """\
schema: 1
id: new-disk
title: The last leader comes back, with an empty disk
duration: 90s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500}
topics: {t: {partitions: {0: [b1, b2]}, config: {min.insync.replicas: 1}}}
workloads: {p1: {kind: producer, topic: t, rate: 2/s, start: 1s, stop: 3s}}
timeline:
  - {at: 2s, kill: b2}
  - {at: 6s, kill: b1}
  - {at: WHEN, start: b2}
  - {at: 12s, wipe: b1}
  - {at: 13s, start: b1}
"""


@pytest.mark.soak
@pytest.mark.parametrize(("when", "broken"), [("10s", ["L2 new-disk"]), ("14s", [])])
def test_a_last_leader_on_a_new_disk_is_elected_only_once_another_broker_is_unfenced(
    when: str, broken: list[str]
) -> None:
    """Found by a search. As in Kafka: LeaderAcceptor judges by the directory in the metadata."""
    result = run_scenario(load_text(NEW_DISK.replace("WHEN", when), "test.yaml").scenario, runs_dir=None)
    assert [(event.invariant, event.promised) for event in result.broken] == [(name, False) for name in broken]


TOGETHER = """\
schema: 1
id: earlier-min-isr
title: A larger min.insync.replicas comes with an ISR that is too small for it
duration: 40s
profile: kafka-4.1
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500, replica.lag.time.max.ms: 10000}
topics: {t: {partitions: {0: [b1, b2]}, config: {min.insync.replicas: 1}}}
workloads:
  p1:
    kind: producer
    topic: t
    config: {acks: all, linger.ms: 0, request.timeout.ms: 15000, delivery.timeout.ms: 20000}
    rate: 5/s
    start: 1s
    stop: 10s
timeline:
  - {at: 4s, cut: {between: [b2, [c1, b1]]}, as: follower}
  - {at: 6s, cut: {between: [c1, b1]}, as: leader}
  - {at: 6.1s, set_config: {topic: t, config: {retention.ms: 100000}}}  # answers the fetch of metadata that waits
  - {at: SET, set_config: {topic: t, config: {min.insync.replicas: 2}}}
  - {at: 7s, heal: leader}  # b2 was fenced at 6.5 s
  - {at: 9s, kill: b1}
  - {at: 9.1s, heal: follower}
"""


@pytest.mark.parametrize(
    ("set_at", "broken", "lost"),
    [("6.2s", ["S6 earlier-min-isr"], ["r15"]), ("3s", [], [])],
    ids=["too-late", "in-time"],
)
def test_a_leader_commits_by_the_minimum_that_it_knows(set_at: str, broken: list[str], lost: list[str]) -> None:
    """Found by a search. As in Kafka: BrokerMetadataPublisher.onMetadataUpdate applies topics before configuration.
    The controller keeps b2 in the ELR, and the record that b1 commits without b2 is lost with b1."""
    result = run_scenario(load_text(TOGETHER.replace("SET", set_at), "test.yaml").scenario, runs_dir=None)
    assert [(event.invariant, event.promised) for event in result.broken] == [(name, False) for name in broken]
    assert list(result.verdict.records["lost"]) == lost


RAISED = """\
schema: 1
id: raised-min-isr
title: min.insync.replicas is raised above the size of the ISR
duration: 30s
profile: kafka-4.1
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500}
topics: {t: {partitions: {0: [b1, b2, b3]}}}
network: {latency: 5ms}
workloads: {p1: {kind: producer, topic: t, config: {acks: all, linger.ms: 0}, rate: 200/s, start: 5s, stop: 11s}}
timeline:
  - {at: 2s, stop: [b2, b3], as: down}
  - {at: 10s, set_config: {WHOSE, config: {min.insync.replicas: 2}}}
  - {at: 12s, start: "@down"}
"""


@pytest.mark.soak
@pytest.mark.parametrize("whose", one_in(3, ["topic: t", "entity_default: brokers", "brokers: b1"]))
def test_a_raised_minimum_holds_from_when_the_leader_hears_of_it(whose: str) -> None:
    """What it has committed until then is on every member of the ISR: nothing is broken."""
    result = run_scenario(load_text(RAISED.replace("WHOSE", whose), "test.yaml").scenario, runs_dir=None)
    assert not result.broken and not result.verdict.records["lost"]
    assert result.summary["records"]["acked"]
