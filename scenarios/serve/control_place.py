"""Lets commands such as `highwater fault` find a running cluster of the same user and send requests to it.

A cluster listens on an AF_UNIX socket in a directory that only its user may open. A state file describes the cluster;
one copy is beside the socket, and one is in the folder in which the run is kept.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

STATE_FILE = ".serving.json"
STATE_BYTES_MAX = 16_384
REQUEST_BYTES_MAX = 65_536
ANSWER_BYTES_MAX = 64 << 20
ANSWER_WITHIN_S = 30.0


class NoCluster(Exception):
    """Raised if no cluster answers, or its answer is unusable. The message is the reason; `fix` is a remedy."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Serving:
    """The content of a running cluster's state file.

    Attributes:
        pid: process id of the cluster.
        socket: path of the socket for requests.
        record: path of the folder in which the run is kept.
        trace: path of the trace's folder.
        bootstrap: value of bootstrap.servers for clients.
        started: Unix time in seconds.
    """

    pid: int
    socket: str
    record: str
    trace: str
    bootstrap: str
    started: int


def own_directory() -> Path:
    """Return the user's directory for sockets: $XDG_RUNTIME_DIR/highwater, or else one in the temporary directory."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "highwater"
    return Path(tempfile.gettempdir()) / f"highwater-{os.getuid()}"


def _make_private(directory: Path) -> None:
    """Create a directory that only this user may open. Raises OSError if it exists and others may open it."""
    directory.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(directory):
        raise PermissionError(
            f"{directory} must belong to this user, and no other user may have access to it (mode 0700)"
        )


def _is_private(directory: Path) -> bool:
    with suppress(OSError):
        status = directory.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return False


# ------------------------------------------------------------------------------------------------------- who serves


@contextmanager
def announced(record: Path, trace_dir: Path, bootstrap: str, started: int) -> Iterator[socket.socket]:
    """Provide a listening socket, and write the state files by which other commands find it. Raises OSError."""
    directory = own_directory()
    _make_private(directory)
    _sweep(directory)
    path = directory / f"{os.getpid()}.sock"
    path.unlink(missing_ok=True)
    serving = Serving(os.getpid(), str(path), str(record.resolve()), str(trace_dir.resolve()), bootstrap, started)
    files = [path.with_suffix(".json"), record / STATE_FILE]
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(16)
        for file in files:
            _write(file, serving)
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)
        for file in files:
            if _read(file) == serving:  # Another cluster may have replaced the file.
                file.unlink(missing_ok=True)


def _write(file: Path, serving: Serving) -> None:
    temporary = file.with_name(f".{file.name}.{serving.pid}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(asdict(serving), stream)
        temporary.replace(file)
    except OSError:  # For example, the disk is full.
        temporary.unlink()
        raise


def _sweep(directory: Path) -> None:
    """Remove the state files and sockets of clusters that were killed."""
    for file in directory.glob("*.json"):
        serving = _read(file)
        if serving is None or not _is_running(serving):
            file.unlink(missing_ok=True)
            file.with_suffix(".sock").unlink(missing_ok=True)


# --------------------------------------------------------------------------------------------------------- who asks


def find_cluster(record: Path | None, default: Path) -> Serving:
    """Return the running cluster that keeps its run in `record`.

    If `record` is None, return the cluster that keeps its run in `default` or, if there is none, the user's only
    running cluster.

    Raises:
        NoCluster: no cluster matches, or several are running.
    """
    serving = _read((record or default) / STATE_FILE)
    if serving is not None and _is_running(serving):
        return serving
    start = "start one with `highwater serve`"
    if record is not None:
        raise NoCluster(f"no running cluster records to {record}", start)
    directory = own_directory()
    files = sorted(directory.glob("*.json")) if _is_private(directory) else []
    running = [serving for file in files if (serving := _read(file)) is not None and _is_running(serving)]
    if not running:
        raise NoCluster("no cluster is running", start)
    if len(running) > 1:
        places = ", ".join(serving.record for serving in running)
        raise NoCluster(
            f"{len(running)} clusters are running, in {places}", f"choose one: --record {running[0].record}"
        )
    return running[0]


def _read(file: Path) -> Serving | None:
    """Return the content of a state file, or None if it is not a valid state file of this user."""
    try:
        with file.open("rb") as stream:
            if os.fstat(stream.fileno()).st_uid != os.getuid():
                return None
            fields = json.loads(stream.read(STATE_BYTES_MAX))
        serving = Serving(**fields)
    except (OSError, ValueError, TypeError):
        return None
    texts = (serving.socket, serving.record, serving.trace, serving.bootstrap)
    return serving if all(isinstance(text, str) for text in texts) else None


def _connect(serving: Serving) -> socket.socket:
    """Connect to a cluster's socket. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if os.lstat(serving.socket).st_uid != os.getuid():
            raise PermissionError(f"{serving.socket} belongs to another user")
        sock.settimeout(ANSWER_WITHIN_S)
        sock.connect(serving.socket)
    except BaseException:
        sock.close()
        raise
    return sock


def _is_running(serving: Serving) -> bool:
    """Return True if a process listens on the cluster's socket, even if it is too busy to accept connections."""
    try:
        _connect(serving).close()
    except (ConnectionRefusedError, FileNotFoundError, PermissionError):
        return False
    except OSError:  # For example, more connections wait than the socket's backlog allows.
        return True
    return True


def ask(serving: Serving, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request to a cluster and return its answer. Raises NoCluster if there is no valid answer."""
    data = json.dumps(request).encode()
    if len(data) > REQUEST_BYTES_MAX:
        raise NoCluster(
            f"the request has {len(data):,} bytes; at most {REQUEST_BYTES_MAX:,} are allowed", "write a shorter step"
        )
    answer = bytearray()
    try:
        with _connect(serving) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while len(answer) <= ANSWER_BYTES_MAX and (chunk := sock.recv(65_536)):
                answer += chunk
        found = json.loads(answer)
    except (OSError, ValueError) as error:
        why = "it does not answer" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        raise NoCluster(
            f"the request to the cluster of process {serving.pid} failed: {why}", "read the output of `highwater serve`"
        ) from error
    if not isinstance(found, dict):
        raise NoCluster(
            f"process {serving.pid} sent an invalid answer", "check that it has the same version of highwater"
        )
    return found
