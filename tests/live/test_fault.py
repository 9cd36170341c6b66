"""`highwater fault` against a running cluster, whose brokers are tasks or processes."""

from __future__ import annotations

import json
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from serving import Served, fault, serving
from verdicts import expect_nothing_broken

from replica.trace.events import MessageHeld, MessageReleased
from scenarios.observe.trace_writer import read_rows
from scenarios.serve.control_place import REQUEST_BYTES_MAX, STATE_FILE, own_directory
from tests.soak import one_in
from tests.waiting import wait_for


def state(record: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(fault(record, "list", "--format", "json").stdout)
    return answer


def wait_until(record: Path, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    return wait_for(lambda: state(record), holds=holds)


def wait_for_line(served: Served, text: str) -> None:
    """On the screen of the cluster."""
    assert served.process.stderr is not None
    for line in served.process.stderr:
        if text in line:
            return
    raise AssertionError(f"it has ended, and never said {text!r}")


def node(found: dict[str, Any], name: str) -> dict[str, Any]:
    (one,) = [one for one in found["nodes"] if one["node"] == name]
    return one


def events_of_faults(served: Served) -> list[tuple[str, str]]:
    rows = read_rows(served.record / (served.record / "last").read_text().strip() / "trace")
    kinds = {"FaultBegan": "began", "FaultEnded": "ended"}
    found: list[Any] = [row.event for row in rows]
    return [(kinds[kind], event.fault) for event in found if (kind := type(event).__name__) in kinds]


@pytest.mark.soak
@pytest.mark.parametrize("world", one_in(2, [(), ("--processes",)]), ids=["tasks", "processes"])
def test_a_broker_that_still_shuts_down_is_started_when_it_is_down(tmp_path: Path, world: tuple[str, ...]) -> None:
    with serving(tmp_path, *world) as served:
        # It may not shut down before the controller has let it go.
        fault(tmp_path, "hold", "c1", "b1", "BrokerHeartbeat", "response", "--as", "unanswered")
        fault(tmp_path, "stop", "b1")
        said = fault(tmp_path, "start", "b1").stdout
        assert "b1 starts as soon as it has shut down" in said
        fault(tmp_path, "release", "unanswered")
        wait_for_line(served, "b1 started again")
        assert node(state(tmp_path), "b1")["state"] == "running"
        served.stop()


@pytest.mark.soak
def test_the_name_of_a_fault_is_free_when_the_fault_has_ended(tmp_path: Path) -> None:
    """Whatever ended it: heal, its time, or the step that undoes it."""
    with serving(tmp_path) as served:
        for words in (["cut", "b1-b2"], ["cut", "b1-b3"]):
            assert "one: " in fault(tmp_path, *words, "--as", "one").stdout
            assert "the label `one` is already used" in fault(tmp_path, "cut", "b2-b3", "--as", "one", code=3).stderr
            fault(tmp_path, "heal", "one")
        for target in ("b2", "b3"):
            assert "two: " in fault(tmp_path, "pause", target, "--as", "two").stdout
            fault(tmp_path, "resume", target)
        for target in ("b2", "b3"):
            assert "three: " in fault(tmp_path, "kill", target, "--as", "three").stdout
            fault(tmp_path, "start", target)
        assert state(tmp_path)["faults"] == []
        served.stop()


@pytest.mark.parametrize("world", one_in(2, [(), ("--processes",)]), ids=["tasks", "processes"])
def test_a_teacher_breaks_and_mends_a_cluster(tmp_path: Path, world: tuple[str, ...]) -> None:
    quick = ("--set", "cluster.config.broker.session.timeout.ms=1000",
             "--set", "cluster.config.broker.heartbeat.interval.ms=100")  # fmt: skip
    with serving(tmp_path, "--topic", "t:1:3", *quick, *world) as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all")
        producer.send("t", b"one").get(20)
        (partition,) = state(tmp_path)["partitions"]
        leader = partition["leader"]
        assert {replica["log_end_offset"] for replica in partition["replicas"]} == {1}
        assert "kill-1" in fault(tmp_path, "kill", "leader(t-0)").stdout
        found = wait_until(tmp_path, lambda found: found["partitions"][0]["leader"] not in (leader, None))
        assert node(found, leader)["state"] == "down"
        assert [one["fault"] for one in found["faults"]] == ["kill-1"]
        producer.send("t", b"two").get(20)
        fault(tmp_path, "start", leader)
        found = wait_until(tmp_path, lambda found: len(found["partitions"][0]["isr"]) == 3)
        assert found["faults"] == []
        fault(tmp_path, "cut", "b1-b3", "--as", "wall")
        fault(tmp_path, "slow_disk", "b2", "1ms")
        assert [one["fault"] for one in state(tmp_path)["faults"]] == ["wall", "slow_disk-4"]
        fault(tmp_path, "heal", "wall")
        fault(tmp_path, "end", "slow_disk-4")
        fault(tmp_path, "--yaml", "{pause: c1, for: 200ms, as: nap}")
        assert wait_until(tmp_path, lambda found: not found["faults"])["nodes"][3]["state"] == "running"
        table = fault(tmp_path, "list", "--plain").stdout
        assert "no fault is in force" in table and "t-0" in table and "2/2" in table
        producer.close()
        served.stop()
    expect_nothing_broken(served.summary)
    expected = [("began", "kill-1"), ("began", "start-2"), ("began", "wall"), ("began", "slow_disk-4"),
                ("began", "heal-5"), ("ended", "wall"), ("ended", "slow_disk-4"),
                ("began", "nap"), ("ended", "nap")]  # fmt: skip
    assert events_of_faults(served) == expected


@pytest.mark.soak
def test_what_changes_nothing_is_refused(tmp_path: Path) -> None:
    quick = ("--set", "cluster.config.broker.session.timeout.ms=1000",
             "--set", "cluster.config.broker.heartbeat.interval.ms=100")  # fmt: skip
    with serving(tmp_path, "--topic", "t:1:3", *quick) as served:
        fault(tmp_path, "kill", "b2")
        assert fault(tmp_path, "kill", "b2", code=1).stderr == "error: b2 is already down\n"
        found = wait_until(tmp_path, lambda found: node(found, "b2")["fenced"])
        assert [one["fault"] for one in found["faults"]] == ["kill-1"]
        refused = fault(tmp_path, "elect", "t-0", "b2", code=1).stderr
        assert refused == "error: refused: a preferred election of b2 (t-0: PREFERRED_LEADER_NOT_AVAILABLE)\n"
        leader = found["partitions"][0]["leader"]
        healed = fault(tmp_path, "heal").stdout
        assert healed.endswith(": no network fault is in force, so there is nothing to heal\n")
        assert f"t-0: ELECTION_NOT_NEEDED); {leader} leads t-0\n" in fault(tmp_path, "elect", "t-0", leader).stdout
        served.stop()


@pytest.mark.soak
@pytest.mark.parametrize("world", [(), ("--processes",)], ids=["tasks", "processes"])
def test_who_asks_for_an_election_hears_who_won(tmp_path: Path, world: tuple[str, ...]) -> None:
    quick = ("--set", "cluster.config.broker.session.timeout.ms=1000",
             "--set", "cluster.config.broker.heartbeat.interval.ms=100", "--set", "profile=kafka-3.9")  # fmt: skip
    with serving(tmp_path, "--topic", "t:1:2", *quick, *world, brokers=2) as served:
        first = state(tmp_path)["partitions"][0]["leader"]
        (second,) = {"b1", "b2"} - {first}
        for down in (second, first):  # The one that dies last is the only member of the ISR.
            fault(tmp_path, "kill", down)
            wait_until(tmp_path, lambda found, down=down: node(found, down)["fenced"])  # type: ignore[misc]
        fault(tmp_path, "start", second)
        wait_until(tmp_path, lambda found: not node(found, second)["fenced"])
        said = fault(tmp_path, "elect", "t-0", "unclean").stdout
        assert said.endswith(f"an unclean election was requested (t-0: done); {second} leads t-0\n")
        served.stop()


@pytest.mark.soak
@pytest.mark.parametrize("world", one_in(2, [(), ("--processes",)]), ids=["tasks", "processes"])
def test_a_teacher_cuts_the_client_of_a_student(tmp_path: Path, world: tuple[str, ...]) -> None:
    """Only this client is cut: its requests wait on the way, and arrive when the network is whole again."""
    with serving(tmp_path, "--topic", "t:1:1", *world, brokers=1) as served:
        producers = [
            KafkaProducer(bootstrap_servers=served.bootstrap, client_id=name, acks="all", request_timeout_ms=60_000)
            for name in ("class-7", "class-8")
        ]
        for producer in producers:
            producer.send("t", b"before").get(20)
        assert {"client/class-7", "client/class-8"} <= set(state(tmp_path)["outside_clients"])
        assert "client/class-8" in fault(tmp_path, "list", "--plain").stdout
        fault(tmp_path, "cut", "client/class-7-b1", "--as", "wall")
        cut_off = producers[0].send("t", b"cut off")
        assert producers[1].send("t", b"meanwhile").get(20).offset == 2
        time.sleep(0.3)
        assert not cut_off.is_done
        fault(tmp_path, "heal", "wall")
        assert cut_off.get(20).offset == 3
        fault(tmp_path, "hold", "client/class-7", "b1", "Produce", "request", "--as", "held")
        held = producers[0].send("t", b"held")
        assert producers[1].send("t", b"meanwhile").get(20).offset == 4
        time.sleep(0.3)
        assert not held.is_done
        fault(tmp_path, "release")
        assert held.get(20).offset == 5
        fault(tmp_path, "latency", "client/class-7-b1", "50ms", "100ms")
        fault(tmp_path, "reset_peer", "client/class-7-b1")
        assert producers[0].send("t", b"again").get(30).offset == 6
        for producer in producers:
            producer.close()
        served.stop()
    expect_nothing_broken(served.summary)
    rows = read_rows(served.record / (served.record / "last").read_text().strip() / "trace")
    held_back = [row.event for row in rows if isinstance(row.event, MessageHeld | MessageReleased)]
    assert [(type(one), one.node, one.peer, one.api) for one in held_back] == [
        (MessageHeld, "client/class-7", "b1", "Produce"),
        (MessageReleased, "client/class-7", "b1", "Produce"),
    ]


@pytest.mark.soak
def test_what_a_student_had_sent_before_a_reset_is_appended_and_told_of(tmp_path: Path) -> None:
    """The broker is stopped meanwhile, so the kernel has it; acks=0, so that no answer of a request before it fails."""
    with serving(tmp_path, "--topic", "t:1:1", brokers=1) as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, client_id="class-7", acks=0)
        producer.send("t", b"before").get(20)
        wait_until(tmp_path, lambda found: found["partitions"][0]["replicas"][0]["log_end_offset"] == 1)
        fault(tmp_path, "pause", "b1")
        producer.send("t", b"meanwhile").get(20)
        fault(tmp_path, "reset_peer", "client/class-7-b1")
        fault(tmp_path, "resume", "b1")
        wait_until(tmp_path, lambda found: found["partitions"][0]["replicas"][0]["log_end_offset"] == 2)
        producer.close()
        served.stop()
    assert served.summary["logs"] == {"t-0": ["before", "meanwhile"]}
    expect_nothing_broken(served.summary)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("serve"), "--topic", "t:1:1", brokers=1) as cluster:
        yield cluster


@pytest.mark.soak
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("kil", "b1"), 2, "did you mean `kill`?"),
        (("kill", "b7"), 3, "unknown broker `b7`"),
        (("cut", "client/nobody-there-b1"), 3, "no client `client/nobody-there` has connected"),
        (("cut", "b1", "client/nobody"), 3, "no client `client/nobody` has connected"),
        (("pause", "client/nobody"), 3, "a step can affect only its network"),
        (("kill", "leader(u-0)"), 3, "unknown topic `u`"),
        (("heal", "nothing"), 3, "no partition or cut"),
        (("start", "b1"), 1, "b1 is already running"),
        (("end", "cut-1"), 1, "no fault named cut-1"),
        (("--yaml", "{kill: b1, stop: b1}"), 3, "two verbs"),
        (("--yaml", "- [kill"), 3, "error["),
        (("--yaml", "!!python/object:os.system {}"), 3, "error["),
        (("--yaml", "x" * 70_000), 6, "65,536 are allowed"),
        (("lst",), 2, "unknown fault `lst`"),
        (("kill", "b1", "--fro", "3s"), 2, "--fro"),
        ((), 2, "name a fault"),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(served: Served, words: tuple[str, ...], code: int, told: str) -> None:
    done = fault(served.record, *words, code=code)
    assert told in " ".join(done.stderr.split()) and "Traceback" not in done.stderr and done.stdout == ""


@pytest.mark.soak
def test_nothing_but_a_small_whole_request_of_this_user_is_obeyed(served: Served) -> None:
    path = Path(json.loads((served.record / STATE_FILE).read_text())["socket"])
    assert path.parent == own_directory()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o600, 0o700]

    def answer(data: bytes) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(str(path))
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            told: dict[str, Any] = json.loads(b"".join(iter(lambda: sock.recv(65536), b"")))
        return told

    deep = b"[" * 60_000
    for data in (b"no json", b"{}", b"\xff\xfe", b"null", deep, b'{"words": [1], "for": null, "as": null}'):
        assert not answer(data)["ok"]
    assert "more than" in answer(b" " * (REQUEST_BYTES_MAX + 1))["error"]
    assert state(served.record)["nodes"][0]["state"] == "running"


def test_nobody_there_is_told_with_the_fix(tmp_path: Path) -> None:
    done = fault(tmp_path, "list", code=6)
    assert "no running cluster" in done.stderr and "highwater serve" in done.stderr


@pytest.mark.soak
def test_of_several_partitions_the_screen_says_which_one_a_new_leader_has(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:1:3", "--topic", "bills:1:3") as served:
        fault(tmp_path, "kill", "leader(orders-0)")
        wait_for_line(served, "b2 was elected leader of orders-0 in epoch 1 as the first member of the ISR")
