"""Measures Highwater's fetch path over an AF_UNIX socket pair, and compares it with plain copies of a file to a socket.

This process sends and a forked child receives. All ways send the same segment file. Their rounds alternate, so other
load on the machine slows all of them alike.
"""

from __future__ import annotations

import mmap
import os
import resource
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.protocol.api_01_fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from cluster.protocol.fetch_request_codec import decode_fetch_request, encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response, fetch_response_segments
from cluster.protocol.versions import read_request_header
from replica.config import TopicConfig
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import build_batch
from replica.log.files.disk import Disk
from replica.log.files.open_files import FileSlice
from replica.log.log import Log

FETCH_BYTES = 1 << 20
BATCH_BYTES = 64 << 10
NAME = TopicPartition("bench", 0)
FETCH_VERSION = 12
BARE = "bare sendfile loop"
BARE_KEPT = "bare sendfile loop, kept in a file"
FETCH_PATH = "fetch path"
FETCH_PATH_KEPT = "fetch path, CRC checked, appended"


@dataclass(slots=True)
class _Round:
    """The duration and cost of one round of one way to send the log.

    Attributes:
        cpu_s, switches: CPU time and context switches of sender and receiver together.
        sendfile_calls: number of calls of sendfile.
        sent_through_python: number of bytes that passed through Python's memory.
    """

    seconds: float = 0.0
    cpu_s: float = 0.0
    switches: int = 0
    sendfile_calls: int = 0
    sent_through_python: int = 0


@dataclass(slots=True)
class _Way:
    name: str
    send: Callable[[socket.socket, Log, int, _Round], None]
    receive: Callable[[socket.socket, int, Path], None]
    rounds: list[_Round] = field(default_factory=list)


def measure_fetch_path(size_bytes: int, repeat: int, progress: Callable[[float], None]) -> dict[str, Any]:
    """Measure all ways to send a log.

    Args:
        size_bytes: approximate size of the log.
        repeat: number of rounds.

    Returns:
        `rows`: medians of each way. `ratio`: throughput of the fetch path relative to a plain sendfile loop, if the
        receiver discards the data. `ratio_kept`: the same if the receiver writes the data to a file, where only the
        fetch path also checks CRCs.
    """
    with tempfile.TemporaryDirectory(prefix="highwater-") as scratch:
        log = _filled_log(Path(scratch) / "leader", size_bytes)
        total = sum(header.size_bytes for header in log.headers())
        ways = [
            _Way(BARE, _send_sendfile, _receive_bytes),
            _Way(BARE_KEPT, _send_sendfile, _receive_to_file),
            _Way("pread + send", _send_pread, _receive_bytes),
            _Way("mmap + send", _send_mmap, _receive_bytes),
            _Way("splice", _send_splice, _receive_bytes),
            _Way(FETCH_PATH, _send_fetches, _receive_frames),
            _Way(FETCH_PATH_KEPT, _send_fetches, _receive_and_append),
        ]
        for turn in range(repeat):
            for number, way in enumerate(ways):
                progress((turn * len(ways) + number) / (repeat * len(ways)))
                follower = Path(scratch) / "follower"
                way.rounds.append(_measure(way, log, total, follower))
                # Delete the copy before the kernel writes its pages to the disk.
                shutil.rmtree(follower, ignore_errors=True)
        log.close()
    rows = [_row(way, total) for way in ways]
    speed = {row["name"]: row["mb_per_s"] for row in rows}
    return {
        "bytes": total,
        "rows": rows,
        "ratio": round(speed[FETCH_PATH] / speed[BARE], 3),
        "ratio_kept": round(speed[FETCH_PATH_KEPT] / speed[BARE_KEPT], 3),
    }


def _filled_log(directory: Path, size_bytes: int) -> Log:
    """Create a log of about `size_bytes` with batches of 64 KiB in one segment."""
    log, _ = Log.open(directory / str(NAME), NAME, TopicConfig(), Disk(directory, sync=False), clean=True)
    value = b"x" * (BATCH_BYTES - 200)
    while log.log_end_offset * BATCH_BYTES < size_bytes:
        log.append_as_leader(build_batch([(None, value)], timestamp_ms=0), 0, 0)
    return log


def _row(way: _Way, total: int) -> dict[str, Any]:
    def median(of: Callable[[_Round], float]) -> float:
        return statistics.median(map(of, way.rounds))

    return {
        "name": way.name,
        "mb_per_s": round(total / median(lambda item: item.seconds) / 1e6),
        "cpu_s_per_gib": round(median(lambda item: item.cpu_s) / total * (1 << 30), 3),
        "context_switches_per_gib": round(median(lambda item: item.switches) / total * (1 << 30)),
        "sendfile_calls": way.rounds[0].sendfile_calls,
        "sent_through_python": way.rounds[0].sent_through_python,
    }


def _measure(way: _Way, log: Log, total: int, directory: Path) -> _Round:
    near, far = socket.socketpair()
    for end in (near, far):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, FETCH_BYTES)
    found = _Round()
    before = _usage()
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        near.close()
        try:
            way.receive(far, total, directory)
        finally:
            os._exit(0)
    far.close()
    way.send(near, log, total, found)
    near.shutdown(socket.SHUT_WR)
    os.waitpid(child, 0)
    found.seconds = time.perf_counter() - began
    near.close()
    found.cpu_s, found.switches = (after - was for after, was in zip(_usage(), before, strict=True))  # type: ignore[assignment]
    return found


def _usage() -> tuple[float, int]:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in both), sum(item.ru_nvcsw + item.ru_nivcsw for item in both)


# ------------------------------------------------------------------------------------------------------------- senders


def _whole_file(log: Log, total: int) -> FileSlice:
    return log.read(0, total, log.log_end_offset)


def _send_sendfile(sock: socket.socket, log: Log, total: int, found: _Round) -> None:
    part = _whole_file(log, total)
    sent = 0
    while sent < part.length:
        sent += os.sendfile(sock.fileno(), part.fd, part.position + sent, min(FETCH_BYTES, part.length - sent))
        found.sendfile_calls += 1


def _send_pread(sock: socket.socket, log: Log, total: int, found: _Round) -> None:
    part = _whole_file(log, total)
    for position in range(0, part.length, FETCH_BYTES):
        chunk = os.pread(part.fd, min(FETCH_BYTES, part.length - position), part.position + position)
        sock.sendall(chunk)
        found.sent_through_python += len(chunk)


def _send_mmap(sock: socket.socket, log: Log, total: int, found: _Round) -> None:
    part = _whole_file(log, total)
    with mmap.mmap(part.fd, part.length, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
        for position in range(0, part.length, FETCH_BYTES):
            with view[position : position + FETCH_BYTES] as chunk:
                sock.sendall(chunk)
        found.sent_through_python += part.length


def _send_splice(sock: socket.socket, log: Log, total: int, found: _Round) -> None:
    part = _whole_file(log, total)
    out, into = os.pipe()
    moved = 0
    while moved < part.length:
        waiting = os.splice(part.fd, into, min(FETCH_BYTES, part.length - moved), offset_src=part.position + moved)
        moved += waiting
        while waiting:
            waiting -= os.splice(out, sock.fileno(), waiting)
    os.close(out)
    os.close(into)


def _send_fetches(sock: socket.socket, log: Log, total: int, found: _Round) -> None:
    """Send a log as a leader does: for each fetch, decode the request, find the slice, and send header and slice."""
    offset, correlation_id = 0, 0
    while offset < log.log_end_offset:
        correlation_id += 1
        wanted = FetchPartition(0, 0, offset, 0, 0, FETCH_BYTES)
        request = FetchRequest(replica_id=2, max_bytes=FETCH_BYTES, topics=[(NAME.topic, [wanted])])
        frame = encode_fetch_request(FETCH_VERSION, correlation_id, "b2", request)[4:]
        header = read_request_header(frame)
        ((_, (asked,)),) = decode_fetch_request(header, frame).topics
        part = log.read(asked.fetch_offset, asked.max_bytes, log.log_end_offset)
        answer = FetchPartitionResponse(0, ErrorCode.NONE, log.log_end_offset, log.log_end_offset, 0, slice=part)
        segments = fetch_response_segments(FETCH_VERSION, correlation_id, [(NAME.topic, [answer])])
        for segment in segments:
            if isinstance(segment, FileSlice):
                sent = 0
                while sent < segment.length:
                    sent += segment.sendfile(sock.fileno(), sent)
                    found.sendfile_calls += 1
            else:
                sock.sendall(segment)
        offset += part.length // _batch_size(log)


def _batch_size(log: Log) -> int:
    return next(iter(log.headers())).size_bytes


# ----------------------------------------------------------------------------------------------------------- receivers


def _receive_bytes(sock: socket.socket, total: int, directory: Path) -> None:
    buffer = memoryview(bytearray(FETCH_BYTES))
    while sock.recv_into(buffer):
        pass


def _receive_to_file(sock: socket.socket, total: int, directory: Path) -> None:
    buffer = memoryview(bytearray(FETCH_BYTES))
    directory.mkdir(parents=True)
    position = 0
    with (directory / "copy").open("wb", buffering=0) as file:
        while count := sock.recv_into(buffer):
            position += os.pwrite(file.fileno(), buffer[:count], position)


def _frames(sock: socket.socket) -> Any:
    buffer = bytearray(FETCH_BYTES + 4096)
    view = memoryview(buffer)
    while _fill(sock, view[:4]):
        size = int.from_bytes(buffer[:4], "big")
        _fill(sock, view[:size])
        yield view[:size]


def _fill(sock: socket.socket, view: memoryview) -> bool:
    filled = 0
    while filled < len(view):
        count = sock.recv_into(view[filled:])
        if not count:
            return False
        filled += count
    return True


def _receive_frames(sock: socket.socket, total: int, directory: Path) -> None:
    for frame in _frames(sock):
        decode_fetch_response(FETCH_VERSION, frame)


def _receive_and_append(sock: socket.socket, total: int, directory: Path) -> None:
    log, _ = Log.open(directory / str(NAME), NAME, TopicConfig(), Disk(directory, sync=False), clean=True)
    for frame in _frames(sock):
        for _, partitions in decode_fetch_response(FETCH_VERSION, frame).topics:
            for part in partitions:
                log.append_as_follower(part.records, 0, 0)
    log.close()
