"""What `highwater serve --scenario` says of the steps and the clients that the file brings."""

from __future__ import annotations

import pytest
from small_scenario import HEAD, load

from scenarios.serve.serving import cluster_of, own_plan

CLIENTS = "workloads p1, p2, c1r run alongside your clients"


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((), f"  {CLIENTS}"),
        (("{at: 5s, kill: b1}",), f"  timeline: 1 step until 5 s; {CLIENTS}"),
        (
            ("{at: 5s, kill: b1, for: 20s}", "{at: 10s, flush: b1, every: 10s, times: 4}"),
            f"  timeline: 2 steps until 40 s; {CLIENTS}",
        ),
        (
            ("{at: 5s, kill: b1}", "{when: {t-0: {isr: [b2, b3]}}, start: b1}"),
            f"  timeline: 2 steps until 5 s, 1 of them when its condition is true; {CLIENTS}",
        ),
        (
            ("{when: {t-0: {hw: 5}}, kill: b1}",),
            f"  timeline: 1 step, when its condition is true; {CLIENTS}",
        ),
    ],
)
def test_the_banner_says_what_the_file_does_by_itself(steps: tuple[str, ...], told: str) -> None:
    assert own_plan(load(*steps)) == [told]


def test_one_client_alone_and_nothing_at_all() -> None:
    one = HEAD.replace("  p2: {kind: producer, topic: t}\n  c1r: {kind: consumer, topic: t}\n", "")
    assert own_plan(load(head=one)) == ["  workload p1 runs alongside your clients"]
    assert own_plan(cluster_of(1, [], None, ()).scenario) == []
