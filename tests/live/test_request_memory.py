"""Requests that are coming in share their memory: the one that has stalled for longest gives way."""

from __future__ import annotations

from cluster.live.request_memory import RequestMemory


class Connection:
    def __init__(self) -> None:
        self.reason = ""

    def give_up(self, reason: str) -> None:
        self.reason = reason


def test_whoever_stalls_gives_way_and_whoever_goes_on_or_is_done_does_not() -> None:
    memory = RequestMemory(100)
    stalled, done, slow, quick = Connection(), Connection(), Connection(), Connection()
    for connection in (slow, stalled, done, quick):
        memory.grow(connection, 20)
    memory.release(done)
    memory.grow(slow, 20)  # it was first, and has gone on since
    memory.grow(quick, 30)
    assert "and this one, with 20, has stalled for longest" in stalled.reason
    assert (slow.reason, done.reason, quick.reason) == ("", "", "")
    assert memory.total_bytes == 90
    memory.release(stalled)
    assert memory.total_bytes == 90


def test_one_that_alone_takes_too_much_gives_up_itself() -> None:
    memory, large = RequestMemory(100), Connection()
    memory.grow(large, 101)
    assert large.reason and memory.total_bytes == 0
