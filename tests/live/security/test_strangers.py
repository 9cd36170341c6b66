"""Who is no node of a live cluster gets nothing by saying so: from a node's address, at its port, or with its words."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Served, fault, serving
from verdicts import expect_nothing_broken
from waiting import wait_for

from cluster.live.neighbours import source_of
from cluster.live.peers import RunSecret
from cluster.messages.envelopes import enclose
from cluster.protocol import cold
from cluster.protocol import versions as v
from replica.errors import ErrorCode
from tests.soak import one_in

pytestmark = pytest.mark.live

PATIENCE_S = 20
NODES = [source_of(place) for place in range(4)]
"""Where the nodes of a cluster of three brokers connect from, with --processes."""
EVERYTHING = {"resource_type": 2, "resource_name": "*", "resource_pattern_type": 3, "operation": 2}
RULE = {**EVERYTHING, "principal": "User:mallory", "host": "*", "permission_type": 3}
USER = {"name": "mallory", "mechanism": 1, "iterations": 4096, "salt": b"x" * 16, "salted_password": b"y" * 32}
TOPIC = {"name": "made-by-mallory", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
PARTITION = {"partition_index": 0, "leader_epoch": 0, "new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": -1}]}
MARKER = {"producer_id": 1, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0,
          "topics": [{"name": "t", "partition_indexes": [0]}]}  # fmt: skip

WISHES: list[tuple[int, int, dict[str, Any]]] = [
    (v.METADATA, 9, {"topics": None}),
    (v.CREATE_TOPICS, 5, {"topics": [TOPIC], "timeout": 4000, "validate_only": False}),
    (v.CREATE_ACLS, 2, {"creations": [RULE]}),
    (v.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": (), "upsertions": [USER]}),
]
OF_NODES: list[tuple[int, int, dict[str, Any]]] = [
    (v.BROKER_HEARTBEAT, 1, {"broker_id": 2, "broker_epoch": 5, "current_metadata_offset": 9, "want_shut_down": True}),
    (v.ALTER_PARTITION, 3, {"broker_id": 1, "broker_epoch": 5, "topics": [{"partitions": [PARTITION]}]}),
    (v.VOTE, 0, {"cluster_id": None, "topics": ()}),
    (v.ALLOCATE_PRODUCER_IDS, 0, {"broker_id": 1, "broker_epoch": 5}),
    (v.ASSIGN_REPLICAS_TO_DIRS, 0, {"broker_id": 1, "broker_epoch": 5, "directories": ()}),
]


def password_file(folder: Path) -> Path:
    file = folder / "alice.password"
    file.touch(mode=0o600)
    file.write_text("wonderland\n")
    return file


@contextlib.contextmanager
def dialed(address: tuple[str, int], source: str | None = None, port: int = 0) -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.settimeout(PATIENCE_S)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if source is not None:
            sock.bind((source, port))
        sock.connect(address)
        yield sock


def received(sock: socket.socket, count: int) -> bytes:
    """Less where the connection ends before, or nothing more comes."""
    data = b""
    with contextlib.suppress(ConnectionError, TimeoutError):
        while len(data) < count and (chunk := sock.recv(count - len(data))):
            data += chunk
    return data


def answer(sock: socket.socket, request: bytes) -> bytes | None:
    """None: the connection was closed instead."""
    with contextlib.suppress(ConnectionError):
        sock.sendall(request)
    size = received(sock, 4)
    return received(sock, struct.unpack(">i", size)[0]) if len(size) == 4 else None


def encoded(key: int, version: int, fields: dict[str, Any]) -> bytes:
    return cold.encode_request(key, version, 7, "stranger", cold.request(key, version, **fields))


def addresses(served: Served) -> list[tuple[str, int]]:
    found = [address.split(":") for address in served.bootstrap.split(",")]
    return [(host, int(port)) for host, port in found]


def processes(served: Served) -> list[int]:
    """All of the session. source: proc(5)"""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    found = [served.process.pid]
    for one in found:
        found += sorted(child for child, parent in parents.items() if parent == one and child not in found)
    return found


def inodes(served: Served) -> set[str]:
    """Sockets of the session."""
    found: set[str] = set()
    for pid in processes(served):
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
                    found.update(match.groups() if match else ())
    return found


def listeners(served: Served) -> list[tuple[str, int]]:
    """Brokers' and controllers', and the page's. source: proc(5), /proc/net/tcp"""
    own, found = inodes(served), []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in own:
            host, port = fields[1].split(":")
            found.append((socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)))
    return sorted(found)


@pytest.mark.soak
@pytest.mark.parametrize("mode", one_in(2, [(), ("--processes",)]))
def test_the_address_of_a_node_makes_no_node(tmp_path: Path, mode: tuple[str, ...]) -> None:
    user = ("--user", f"alice:{password_file(tmp_path)}", "--authorize", "--super-user", "alice")
    with serving(tmp_path, "--topic", "t:1:3", "--view", *user, *mode) as served:
        doors = listeners(served)
        assert {host for host, _ in doors} == {"127.0.0.1"} and len(doors) == 5
        brokers = addresses(served)
        (page,) = [int(port) for port in re.findall(r"http://127\.0\.0\.1:(\d+)/", "\n".join(served.ready))]
        (controller,) = [door for door in doors if door not in brokers and door[1] != page]
        for source in (None, *NODES[:2], "127.77.9.9"):
            for key, version, fields in WISHES:
                with dialed(brokers[0], source) as sock:
                    assert answer(sock, encoded(key, version, fields)) is None, (source, key)
            inside = encoded(v.CREATE_ACLS, 2, {"creations": [RULE]})[4:]
            for principal in ("User:alice", "Node:b1"):
                envelope = enclose(7, "b1", inside, principal, "127.0.0.1")
                for door in (controller, *brokers):
                    with dialed(door, source) as sock:
                        assert answer(sock, envelope) is None
            for key, version, fields in OF_NODES:
                with dialed(controller, source) as sock:
                    assert answer(sock, encoded(key, version, fields)) is None, (source, key)
            # The proof of another run.
            with dialed(brokers[0], source) as sock:
                sock.settimeout(1)
                sock.sendall(RunSecret().proof(sock.getsockname(), brokers[0]))
                assert received(sock, RunSecret.ANSWER_BYTES) == b""
        for _, port in doors:
            with pytest.raises(OSError), socket.create_connection(("::1", port), 5):
                pass
        served.stop()
    expect_nothing_broken(served.summary)
    assert "mallory" not in "\n".join(served.ready) + served.output


@pytest.mark.soak
def test_where_a_node_listened_who_listens_now_learns_nothing_that_opens_a_door(tmp_path: Path) -> None:
    """The port of a node that is down can be listened on by any program of this machine."""
    with serving(tmp_path, "--topic", "t:3:3", "--processes") as served:
        brokers = addresses(served)
        fault(tmp_path, "kill", "b3")
        with socket.socket() as squatter:
            squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            squatter.settimeout(PATIENCE_S)
            squatter.bind(brokers[2])
            squatter.listen()
            while True:  # Brokers go on fetching from the leader that they know.
                sock, caller = squatter.accept()
                sock.settimeout(3)
                proof = received(sock, RunSecret.PROOF_BYTES)
                if caller[0] in NODES and len(proof) == RunSecret.PROOF_BYTES:
                    break
            with sock, pytest.raises(TimeoutError):
                sock.recv(1)  # No request before who listens has proved itself.
        fault(tmp_path, "start", "b3")
        wait_for(lambda: brokers[2] in listeners(served), PATIENCE_S)
        for door in brokers:
            with dialed(door, caller[0]) as sock:
                sock.sendall(proof)
                assert received(sock, RunSecret.ANSWER_BYTES) == b""
        with contextlib.suppress(OSError), dialed(brokers[2], *caller) as sock:  # From its very port.
            sock.sendall(proof)
            assert received(sock, RunSecret.ANSWER_BYTES) == b""
        served.stop()
    expect_nothing_broken(served.summary)


@pytest.mark.soak
@pytest.mark.parametrize("mode", one_in(2, [(), ("--processes",)]))
def test_without_users_no_client_is_a_node_either(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """Kafka without an authorizer would believe it."""
    with serving(tmp_path, "--topic", "t:1:3", *mode) as served:
        brokers = addresses(served)
        (controller,) = [door for door in listeners(served) if door not in brokers]
        for key, version, fields in OF_NODES:
            for door in (controller, brokers[0]):
                with dialed(door) as sock:
                    assert answer(sock, encoded(key, version, fields)) is None, key
        with dialed(controller) as sock:
            inside = encoded(v.CREATE_TOPICS, 5, {"topics": [TOPIC], "timeout": 4000, "validate_only": False})[4:]
            assert answer(sock, enclose(7, "b1", inside, "Node:b1", "127.0.0.1")) is None
        for address in brokers:
            with dialed(address) as sock:
                follower = {"replica_id": 2, "max_wait": 0, "min_bytes": 0, "max_bytes": 1000, "isolation_level": 0,
                            "session_id": 0, "session_epoch": -1, "rack_id": "", "forgotten_topics_data": (),
                            "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0,
                                        "partition_max_bytes": 1000}]}]}  # fmt: skip
                frame = answer(sock, encoded(v.FETCH, 11, follower))
                assert frame is not None
                (topic,) = cold.decode_response(v.FETCH, 11, bytearray(frame)).responses
                assert [one.error_code for one in topic.partitions] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
                frame = answer(sock, encoded(v.WRITE_TXN_MARKERS, 1, {"markers": [MARKER]}))
                assert frame is not None
                (marker,) = cold.decode_response(v.WRITE_TXN_MARKERS, 1, bytearray(frame)).markers
                errors = [one.error_code for one in marker.topics[0].partitions]
                assert errors == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        served.stop()
    expect_nothing_broken(served.summary)
    assert "made-by-mallory" not in served.output


@pytest.mark.soak
def test_no_other_user_can_open_the_sockets_between_processes(tmp_path: Path) -> None:
    """Those that have no name (pairs) were inherited; those that have one lie where others may not look."""
    with serving(tmp_path, "--topic", "t:1:3", "--processes") as served:
        own, places = inodes(served), []
        for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
            fields = line.split()
            is_listening = int(fields[3], 16) & 0x10000  # __SO_ACCEPTCON
            if is_listening and fields[6] in own:
                assert len(fields) > 7 and not fields[7].startswith("@"), "names without a file are open to everybody"
                places.append(Path(fields[7]))
        assert places
        for place in places:
            assert not stat.S_IMODE(place.parent.stat().st_mode) & 0o077, place
        served.stop()
