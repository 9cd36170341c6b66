"""The simulated network, as two or three bare nodes see it: one connection takes 2 ms to make, a message 1 ms."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lab import FETCH, MS, PRODUCE, Lab, Node, frame

from cluster.network import fabric as connection_module
from cluster.network.links import Latency
from cluster.node import Listen, Send
from replica.log.files.open_files import FileSlice
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario
from tests.descriptors import open_descriptors


@pytest.fixture
def lab() -> Lab:
    """a has connected to b by 2 ms."""
    lab = Lab()
    lab.connects(0, "a", "b")
    return lab


async def resets(lab: Lab) -> None:
    assert await lab.fabric.reset("a", "b") == 1


# ------------------------------------------------------------------------------------------------------- connections


def test_a_connection_and_a_message_take_their_latency(lab: Lab) -> None:
    lab.sends(10, "a", "hello")
    lab.run()
    assert lab["a"].seen == [(0, "started", None), (2, "connected", None)]
    assert lab["b"].seen == [(0, "started", None), (1, "accepted", "a"), (11, "received", "hello")]


def test_a_process_that_does_not_listen_yet_refuses() -> None:
    lab = Lab()
    lab.nodes["b"] = Node(listens=False)
    lab.connects(0, "a", "b", connection=1)
    lab.does(10, "b", Listen())
    lab.connects(20, "a", "b", connection=2)
    lab.run()
    assert lab["a"].seen == [(0, "started", None), (2, "disconnected", "refused"), (22, "connected", None)]
    assert lab["b"].what("accepted") == [(21, "accepted", "a")]


def test_each_direction_has_its_own_latency() -> None:
    lab = Lab(links={("a", "b"): Latency("constant", 5 * MS), ("b", "a"): Latency("constant", 20 * MS)})
    lab.connects(0, "a", "b")
    lab.run()
    assert lab["b"].what("accepted") == [(5, "accepted", "a")]
    assert lab["a"].what("connected") == [(25, "connected", None)]


def test_one_connection_keeps_its_order_however_latencies_fall() -> None:
    lab = Lab(latency=Latency("uniform", 1 * MS, 50 * MS))
    lab.connects(0, "a", "b")
    for number in range(100):
        lab.sends(200 + number, "a", f"m{number}")
    lab.run()
    arrivals = lab["b"].texts
    assert [text for _, text in arrivals] == [f"m{number}" for number in range(100)]
    assert len({at - (200 + number) for number, (at, _) in enumerate(arrivals)}) > 10, "latencies should differ"


def test_a_dead_process_refuses_and_an_unknown_host_is_unknown() -> None:
    lab = Lab()
    lab.at(1, lambda: lab.host("b").kill())
    lab.connects(5, "a", "b", 1)
    lab.connects(5, "a", "nobody", 2)
    lab.run()
    assert sorted(lab["a"].what("disconnected")) == [
        (7, "disconnected", "refused"),
        (7, "disconnected", "there is no host nobody"),
    ]


def test_a_machine_without_power_is_silent_until_it_comes_back() -> None:
    lab = Lab()
    lab.at(1, lambda: lab.host("b").power_off())
    lab.connects(5, "a", "b")
    lab.run(100)
    assert lab["a"].what("connected", "disconnected") == []
    lab = Lab()
    lab.at(1, lambda: lab.host("b").power_off())
    lab.connects(5, "a", "b")
    lab.starts(50, "b")
    lab.run(100)
    (at_ms, what, _) = lab["a"].what("connected", "disconnected")[0]
    assert (at_ms >= 50, what in ("connected", "disconnected")) == (True, True)


def test_a_paused_process_accepts_in_its_kernel_and_reads_later() -> None:
    lab = Lab()
    lab.pauses(1, "b")
    lab.connects(5, "a", "b")
    lab.sends(20, "a", "first")
    lab.sends(21, "a", "second")
    lab.at(50, lambda: lab.host("b").resume())
    lab.run()
    assert lab["a"].what("connected") == [(7, "connected", None)]
    assert lab["b"].what("accepted", "received") == [
        (50, "accepted", "a"),
        (50, "received", "first"),
        (50, "received", "second"),
    ]


# ------------------------------------------------------------------------------------------------------------ the end


def test_closing_tells_the_other_side_after_what_was_sent(lab: Lab) -> None:
    lab.sends(10, "a", "last words")
    lab.closes(10, "a")
    lab.run()
    assert lab["b"].what("received", "disconnected") == [
        (11, "received", "last words"),
        (11, "disconnected", "closed by the other side"),
    ]
    assert lab["a"].what("disconnected") == []


def test_kill_closes_connections_at_once(lab: Lab) -> None:
    lab.at(10, lambda: lab.host("b").kill())
    lab.run()
    assert lab["a"].what("disconnected") == [(11, "disconnected", "closed by the other side")]
    assert not lab.host("b").running


def test_power_off_tells_nobody_and_its_next_life_answers_with_a_reset(lab: Lab) -> None:
    lab.at(10, lambda: lab.host("b").power_off())
    lab.sends(20, "a", "into the dark")
    lab.starts(100, "b")
    lab.sends(200, "a", "to a stranger")
    lab.run()
    assert lab["a"].what("disconnected") == [(202, "disconnected", "reset by the other side")]
    assert lab["b"].texts == []


def test_an_exit_closes_everything_and_is_told_of(lab: Lab) -> None:
    lab.exits(10, "b")
    lab.run()
    assert lab["a"].what("disconnected") == [(11, "disconnected", "closed by the other side")]
    assert lab.fabric.exits == [("b", "stop", "")]


def test_what_has_come_in_before_a_reset_is_read(lab: Lab) -> None:
    """tests/live/parts/test_wire.py asks the kernel the same."""
    lab.pauses(5, "b")
    lab.sends(10, "a", "first")
    lab.sends(11, "a", "second")
    lab.at(20, lambda: resets(lab))
    lab.at(30, lambda: lab.host("b").resume())
    lab.run()
    assert lab["a"].what("received", "disconnected") == [(20, "disconnected", "reset by the other side")]
    assert lab["b"].what("received", "disconnected") == [
        (30, "received", "first"), (30, "received", "second"), (30, "disconnected", "reset by the other side"),
    ]  # fmt: skip


def test_an_end_that_was_closed_hears_nothing_more_of_what_came_before_a_reset(lab: Lab) -> None:
    lab.pauses(5, "a")
    lab.sends(10, "b", "an answer", connection=-1)
    lab.at(20, lambda: resets(lab))
    lab.closes(25, "a")
    lab.at(30, lambda: lab.host("a").resume())
    lab.run()
    assert lab["a"].what("received", "disconnected") == []


def test_a_reset_drops_what_is_in_flight(lab: Lab) -> None:
    lab.sends(10, "a", "in flight")
    lab.at(10.5, lambda: resets(lab))
    lab.run()
    assert lab["b"].texts == []


def test_a_former_connection_does_not_reach_the_next_life(lab: Lab) -> None:
    lab.sends(10, "a", "for the dead")
    lab.at(10, lambda: lab.host("b").kill())
    lab.starts(10, "b")
    lab.run()
    assert lab["b"].texts == []


# ----------------------------------------------------------------------------------------------------- pause, resume


@pytest.mark.parametrize("due_ms", [12, 20])
def test_a_paused_process_misses_its_alarm_and_catches_up(due_ms: int, lab: Lab) -> None:
    """What timed out has timed out, though the answer came in time."""
    lab["b"].next_deadline_us = due_ms * MS
    lab.pauses(10, "b")
    lab.sends(15, "a", "while away")
    lab.at(40, lambda: lab.host("b").resume())
    lab.run()
    assert lab["b"].what("received", "tick") == [(40, "tick", None), (40, "received", "while away")]


def test_a_killed_process_takes_nothing_along_into_its_next_life(lab: Lab) -> None:
    lab.pauses(10, "b")
    lab.sends(15, "a", "while away")
    lab.at(20, lambda: lab.host("b").kill())
    lab.starts(30, "b")
    lab.at(40, lambda: lab.host("b").resume())
    lab.run()
    assert lab["b"].texts == []
    assert lab["b"].what("started") == [(0, "started", None), (30, "started", None)]


# -------------------------------------------------------------------------------------------------- mute (one request)


def test_the_next_request_is_read_when_the_last_one_is_answered() -> None:
    class Slow(Node):
        def received(self, connection: int, received: bytearray, now_us: int) -> list[object]:  # type: ignore[override]
            self._see(now_us, "received", bytes(received).decode())
            return []

    lab = Lab()
    lab.nodes["b"] = Slow()
    lab.connects(0, "a", "b")
    for text in ("one", "two"):
        lab.sends(10, "a", text)
    lab.does(50, "b", Send(-1, [frame("answer")], PRODUCE, "response"))
    lab.run()
    assert lab["b"].texts == [(11, "one"), (50, "two")]
    assert lab["a"].texts == [(51, "answer")]


# ------------------------------------------------------------------------------------------------------- real bytes


def test_a_file_slice_leaves_by_sendfile(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    content = os.urandom(3_000_000)
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    got: list[bytes] = []
    lab["b"].received = lambda connection, received, now_us: got.append(bytes(received)) or []  # type: ignore[method-assign,func-returns-value,assignment,misc]
    size = (2_000_003).to_bytes(4, "big")
    lab.does(10, "a", Send(1, [size + b"hdr", FileSlice(fd, 500_000, 2_000_000)], FETCH))
    lab.run()
    os.close(fd)
    assert got == [b"hdr" + content[500_000:2_500_000]]
    counts = lab.host("a").bytes
    assert (counts.sendfile, counts.fetch_payload_through_python, counts.protocol) == (2_000_000, 0, 7)
    assert counts.sendfile_calls >= 1


def test_a_file_that_is_too_short_closes_the_connection(lab: Lab, tmp_path: Path) -> None:
    """The frame's size was already promised: only closing is honest (KIP-74)."""
    path = tmp_path / "segment"
    path.write_bytes(b"short")
    fd = os.open(path, os.O_RDONLY)
    lab.does(10, "a", Send(1, [(100).to_bytes(4, "big"), FileSlice(fd, 0, 100)], FETCH))
    lab.run()
    os.close(fd)
    assert lab["a"].what("disconnected") == [
        (10, "disconnected", "a segment file ended before all bytes of the response were sent")
    ]
    assert lab["b"].what("received", "disconnected") == [(11, "disconnected", "closed by the other side")]


def test_socket_sizes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full socket is pumped: the sender drains the receiving end into its own buffer and goes on."""
    scenario = load_file(find_scenario("acks1-leader-kill")).scenario
    wide = run_scenario(scenario, runs_dir=None).summary
    monkeypatch.setattr(connection_module, "SOCKET_BUFFER_BYTES", 8 << 10)
    narrow = run_scenario(scenario, runs_dir=None).summary
    assert narrow["trace_sha256"] == wide["trace_sha256"]


def test_narrow_sockets_are_really_pumped(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "SOCKET_BUFFER_BYTES", 8 << 10)
    path = tmp_path / "segment"
    content = os.urandom(1_000_000)
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    got: list[bytes] = []
    lab["b"].received = lambda connection, received, now_us: got.append(bytes(received)) or []  # type: ignore[method-assign,func-returns-value,assignment,misc]
    lab.does(10, "a", Send(1, [(1_000_000).to_bytes(4, "big"), FileSlice(fd, 0, 1_000_000)], FETCH))
    lab.run()
    os.close(fd)
    assert got == [content]
    assert lab.host("a").bytes.sendfile_calls > 10


def test_sockets_are_closed_when_both_ends_are_done(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"bytes of a file")
    fd = os.open(path, os.O_RDONLY)
    before = len(open_descriptors())
    for number in range(2, 100):
        lab.connects(number * 5, "a", "b", number)
        lab.does(number * 5 + 3, "a", Send(number, [(5).to_bytes(4, "big"), FileSlice(fd, 0, 5)], FETCH))
        lab.closes(number * 5 + 3, "a", number)
    during: list[int] = []
    lab.at(900, lambda: during.append(len(open_descriptors())))
    lab.run()
    os.close(fd)
    assert during[0] - before < 20
    assert lab.host("a").bytes.sendfile_calls == 98, "each connection had sockets"
