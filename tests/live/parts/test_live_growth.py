"""A live cluster that has answered many requests waits for no more than one that has answered few."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from live_cluster import LiveCluster, live_cluster
from raw_client import RawClient
from waiting import wait_for

from cluster.clocks import CANCELLED_MAX
from replica.log.batches.records import build_batch

pytestmark = pytest.mark.live
ROUNDS, NODES = 400, 4
TIMERS_MAX = NODES * 2 * CANCELLED_MAX
"""A node keeps so many that were cancelled; those that are live are fewer."""


@pytest.mark.soak
def test_neither_answers_nor_connections_leave_anything_that_waits(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "t:1:3") as cluster:
        ask(cluster, 1)
        early = cluster.waiting()
        ask(cluster, ROUNDS)
        # Nodes may have connected to each other meanwhile.
        wait_for(lambda: cluster.waiting()["TcpConnection"] <= early["TcpConnection"] + ROUNDS // 8)
        grown = cluster.waiting() - early - Counter(Timer=TIMERS_MAX)
    assert grown.total() < ROUNDS // 4, grown


def ask(cluster: LiveCluster, rounds: int) -> None:
    """For each round one that is known from before and one new connection, which ends. acks=all: a deadline each."""
    leader = cluster.address(cluster.leader("t", 0))
    with RawClient(leader) as stays:
        for number in range(rounds):
            with RawClient(leader) as goes:
                for client in (stays, goes):
                    client.send("t", {0: build_batch([(None, f"{number}".encode())], timestamp_ms=5)})
                    client.answered()
