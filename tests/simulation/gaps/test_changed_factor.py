"""A reassignment changes the number of replicas, and with it how many are enough; who is removed may stay eligible."""

from __future__ import annotations

import pytest

from replica.trace.events import ElrCommitted
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario
from tests.soak import one_in, one_row_in


def played(text: str, *, keep_rows: bool = False) -> RunResult:
    return run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None, keep_rows=keep_rows)


ONE_TO_THREE = """\
schema: 1
id: factor-one-to-three
title: From one replica to three
duration: 50s
profile: kafka-4.1
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}}}
topics: {t: {partitions: {0: [b1]}, config: {min.insync.replicas: 2}}}
workloads:
  p1: {kind: producer, topic: t, config: {acks: all, delivery.timeout.ms: 60000}}
timeline:
  - {at: 3s, produce: {from: p1, count: 5}}
  - {at: 8s, reassign: {partition: t-0, to: [b1, b2, b3]}}
  - {at: 14s, check: {state: {t-0: {leader: b1, isr: [b1, b2, b3], elr: none}}}}
  - {at: 15s, stop: b3}
  - {at: 20s, stop: b2}
  - {at: 25s, check: {state: {t-0: {leader: b1, isr: [b1], elr: [b2]}}}}
  - {at: 26s, produce: {from: p1, count: 1}}
  - {at: 29s, check: {records: {acked: r0..r4}}}
  - {at: 30s, start: [b2, b3]}
expect:
  verdict: ok
  records: {acked: r0..r5, lost: none}
  state: {t-0: {leader: b1, isr: [b1, b2, b3], elr: none}}
"""

# The leader commits alone until it has heard of the others.
GROWS_WHILE_IT_WRITES = """\
schema: 1
id: factor-grows
title: A busy topic gets two more replicas
duration: 40s
profile: kafka-4.1
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}}}
topics: {t: {partitions: {0: [b1]}, config: {min.insync.replicas: 3}}}
workloads:
  p1: {kind: producer, topic: t, config: {acks: all, linger.ms: 0}, rate: 400/s, start: 9s, stop: 12s}
timeline:
  - {at: 10s, latency: {between: [c1, b1], add: 300ms}, for: 2s}
  - {at: 10.1s, reassign: {partition: t-0, to: [b1, b2, b3]}}
expect: {verdict: ok}
"""

# Three are asked for and there are two: both are enough. Then one is taken back, and one is enough.
SHRINKS = """\
schema: 1
id: factor-shrinks
title: A topic loses replicas one by one, and goes on taking writes
duration: 60s
profile: kafka-4.1
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}}}
topics: {t: {partitions: {0: [b1, b2, b3], 1: [b1, b2, b3]}, config: {min.insync.replicas: 3}}}
workloads:
  p1: {kind: producer, topic: t, config: {acks: all}, rate: 10/s, start: 2s, stop: 40s}
timeline:
  - {at: 10s, reassign: {partition: t-0, to: [b1, b2]}}
  - {at: 16s, reassign: {partition: t-0, to: [b1]}}
  - {at: 20s, reassign: {partition: t-1, to: [b1, b2]}}
  - {at: 28s, reassign: {partition: t-1, to: [b2]}}
  - {at: 34s, reassign: {partition: t-0, to: [b1, b2, b3]}}
expect: {verdict: ok}
"""

# Before KAFKA-15583 a minimum above the number of replicas lets no write through: the producer waits to the end.
NEVER_WRITABLE = """\
schema: 1
id: minimum-above-the-factor
title: Two in-sync replicas are asked for, and there is one
duration: 70s
profile: kafka-3.5
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}}}
topics: {t: {partitions: {0: [b1]}, config: {min.insync.replicas: 2}}}
workloads:
  p1: {kind: producer, topic: t, config: {acks: all, delivery.timeout.ms: 300000}}
timeline:
  - {at: 2s, produce: {from: p1, count: 1}}
expect: {verdict: ok, records: {acked: none}}
"""


RAISED = NEVER_WRITABLE.replace("min.insync.replicas: 2}", "min.insync.replicas: 1}").replace(
    "timeline:", "timeline:\n  - {at: 1s, set_config: {topic: t, config: {min.insync.replicas: 2}}}"
)


@pytest.mark.parametrize(
    "text",
    one_in(
        3,
        [ONE_TO_THREE, GROWS_WHILE_IT_WRITES, SHRINKS]
        + [
            text.replace("kafka-3.5", f"kafka-{era}")
            for text in (NEVER_WRITABLE, RAISED)
            for era in ("3.5", "2.7", "0.10")
        ],
    ),
)
def test_the_minimum_follows_the_number_of_replicas(text: str) -> None:
    result = played(text)
    assert result.held, result.expectations
    assert not result.broken


REMOVED_STAYS = """\
schema: 1
id: elr-keeps-a-removed-replica
title: A replica that a reassignment removes stays in the ELR
duration: 45s
profile: kafka-4.1
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}}}
topics: {t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 3}}}
workloads:
  p1: {kind: producer, topic: t, config: {acks: all}}
timeline:
  - {at: 3s, produce: {from: p1, count: 5}}
  - {at: 10s, reassign: {partition: t-0, to: [b1, b2]}}
  - {at: 13s, produce: {from: p1, count: 5}}
  - {at: 16s, check: {state: {t-0: {leader: b1, epoch: 1, isr: [b1, b2], elr: [b3]}}}}
  - {at: 20s, stop: b2}
  - {at: 26s, check: {state: {t-0: {leader: b1, isr: [b1], elr: [b2, b3]}}}}
  - {at: 30s, start: b2}
expect:
  verdict: ok
  records: {acked: r0..r9, lost: none}
  state: {t-0: {leader: b1, isr: [b1, b2], elr: none}}
  events:
    - {event: reassignment_completed, partition: t-0, replicas: [b1, b2], between: [10s, 12s]}
"""


def test_a_removed_replica_stays_in_the_elr() -> None:
    """As PartitionChangeBuilder.maybePopulateTargetElr leaves it, which filters by no replicas (seen on 4.1.0)."""
    result = played(REMOVED_STAYS, keep_rows=True)
    assert result.held, result.expectations
    elrs = [row.event.elr for row in result.rows if isinstance(row.event, ElrCommitted)]
    assert elrs == [("b3",), ("b2", "b3"), ()]
    assert not result.broken


BEFORE_IT_COMES_BACK = REMOVED_STAYS.split("  - {at: 13s")[0].replace("45s", "110s")

AGAIN_WITH_AN_EMPTY_LOG = """\
  - {at: 14s, stop: b2}
  - {at: 16s, cut: {between: [b3, b1]}, as: wall}
  - {at: 17s, reassign: {partition: t-0, to: [b3, b1, b2]}}
  - {at: 20s, stop: b1}
  - {at: 30s, heal: all}
  - {at: 35s, start: [b1, b2]}
"""

AS_IT_IS_ADDED = """\
  - {at: 14s, stop: b2}
  - {at: 20s, kill: b1}
  - {at: 35s, reassign: {partition: t-0, to: [b3]}}
  - {at: 40s, start: [b1, b2]}
"""

ALONE_IN_THE_ELR = """\
  - {at: 14s, kill: b2}
  - {at: 20s, kill: b1}
  - {at: 35s, start: [b1, b2]}
"""


@pytest.mark.parametrize(
    ("steps", "broken", "fate"),
    one_row_in(
        3,
        [
            (AGAIN_WITH_AN_EMPTY_LOG, "S6 removed-eligible", "lost"),
            (AS_IT_IS_ADDED, "S6 removed-eligible", "lost"),
            (ALONE_IN_THE_ELR, "L2 removed-eligible", "unseen"),
        ],
    ),
)
def test_what_a_removed_replica_in_the_elr_does_is_promised_by_no_release(steps: str, broken: str, fate: str) -> None:
    """It is elected cleanly once it is a replica again; while it is none, it keeps the last leader from its place."""
    result = played(BEFORE_IT_COMES_BACK + steps)
    assert [(event.invariant, event.promised) for event in result.broken] == [(broken, False)]
    assert fate in result.verdict.kinds
