"""Requests that are coming in share their memory: the one that has stalled for longest gives way."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from live_cluster import live_cluster

from cluster.live.frames import LargeFrame
from cluster.live.request_memory import RequestMemory
from cluster.protocol.api_00_produce import ProduceRequest, encode_produce_request
from replica.causes import CloseCause
from replica.log.batches.records import build_batch
from replica.trace.events import BatchAppended
from tests.waiting import wait_for


class Connection:
    def __init__(self) -> None:
        self.gave_up: tuple[CloseCause, int, int] | None = None

    def give_up(self, cause: CloseCause, *, amount: int, limit: int) -> None:
        self.gave_up = (cause, amount, limit)


def test_whoever_stalls_gives_way_and_whoever_goes_on_or_is_done_does_not() -> None:
    memory = RequestMemory(100)
    stalled, done, slow, quick = Connection(), Connection(), Connection(), Connection()
    for connection in (slow, stalled, done, quick):
        memory.grow(connection, 20)
    memory.release(done)
    memory.grow(slow, 20)  # it was first, and has gone on since
    memory.grow(quick, 30)
    assert stalled.gave_up == (CloseCause.REQUEST_MEMORY, 20, 100)
    assert (slow.gave_up, done.gave_up, quick.gave_up) == (None, None, None)
    assert memory.total_bytes == 90
    memory.release(stalled)
    assert memory.total_bytes == 90


def test_what_is_in_counts_until_it_is_let_go_and_gives_way_to_nobody() -> None:
    memory, first, second = RequestMemory(100), Connection(), Connection()
    memory.grow(first, 60)
    frame = LargeFrame(60)
    memory.hand_over(first, frame)
    part = memoryview(frame)[10:20]
    del frame
    memory.release(first)  # its connection is over
    memory.grow(second, 40)
    assert memory.total_bytes == 100 and memory.in_progress_bytes == 60
    memory.grow(second, 1)
    assert second.gave_up and not first.gave_up and memory.total_bytes == 60
    part.release()
    assert memory.total_bytes == 0


def test_one_that_alone_takes_too_much_gives_up_itself() -> None:
    memory, large = RequestMemory(100), Connection()
    memory.grow(large, 101)
    assert large.gave_up and memory.total_bytes == 0


@pytest.mark.live
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_broker_lets_a_large_request_go_when_it_has_been_handled(tmp_path: Path, acks: int) -> None:
    """Its records are in the log by then, also where it waits for replicas that never come."""
    settings = ("cluster.config.request.timeout.ms=60000",)
    with live_cluster(tmp_path, "t:1:2", brokers=2, settings=settings) as cluster:
        memory = cluster.request_memory
        assert memory.total_bytes == 0
        follower = next(name for name in ("b1", "b2") if name != cluster.leader("t", 0))
        cluster.pause(follower)
        batch = build_batch([(None, bytes(900_000))], timestamp_ms=0)
        asked = encode_produce_request(9, 1, "x", ProduceRequest(None, acks, 60_000, [("t", [(0, batch)])]))
        with socket.create_connection(cluster.address(cluster.leader("t", 0))) as sock:
            sock.sendall(asked)
            wait_for(lambda: cluster.events(BatchAppended) and not memory.total_bytes)
        cluster.resume(follower)
