"""How other commands of the same user find a running cluster: a socket in a private directory, and files about it.

The socket is AF_UNIX and never TCP: file permissions decide which users may open it. A cluster is found through the
folder its run is kept in, or, without one, in a private directory of this user.
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
    """No cluster can be asked; the text says why, `fix` what to do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Serving:
    """A running cluster. socket, record, trace: paths     started: Unix time, seconds"""

    pid: int
    socket: str
    record: str
    trace: str
    bootstrap: str
    started: int


def own_directory() -> Path:
    """$XDG_RUNTIME_DIR/highwater, else one in the temporary directory that carries the user's number."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "highwater"
    return Path(tempfile.gettempdir()) / f"highwater-{os.getuid()}"


def _make_private(directory: Path) -> None:
    """raises: OSError if it belongs to another user, or others may enter it"""
    directory.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(directory):
        raise PermissionError(f"{directory} is not a directory of this user's alone")


def _is_private(directory: Path) -> bool:
    with suppress(OSError):
        status = directory.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return False


# ------------------------------------------------------------------------------------------------------- who serves


@contextmanager
def announced(record: Path, trace_dir: Path, bootstrap: str, started: int) -> Iterator[socket.socket]:
    """A listening socket that can be found while the block runs. raises: OSError"""
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
            if _read(file) == serving:  # Another cluster may have been announced in the same folder since.
                file.unlink(missing_ok=True)


def _write(file: Path, serving: Serving) -> None:
    temporary = file.with_name(f".{file.name}.{serving.pid}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(asdict(serving), stream)
        temporary.replace(file)
    except OSError:  # The disk is full, say.
        temporary.unlink()
        raise


def _sweep(directory: Path) -> None:
    """Removes the leftovers of clusters that were killed."""
    for file in directory.glob("*.json"):
        serving = _read(file)
        if serving is None or not _answers(serving):
            file.unlink(missing_ok=True)
            file.with_suffix(".sock").unlink(missing_ok=True)


# --------------------------------------------------------------------------------------------------------- who asks


def find_cluster(record: Path | None, default: Path) -> Serving:
    """The cluster whose run is kept in `record`; without one, in `default`, else the only one of this user.

    raises: NoCluster
    """
    serving = _read((record or default) / STATE_FILE)
    if serving is not None and _answers(serving):
        return serving
    start = "start one with `highwater serve`"
    if record is not None:
        raise NoCluster(f"no cluster is running that keeps its run in {record}", start)
    directory = own_directory()
    files = sorted(directory.glob("*.json")) if _is_private(directory) else []
    running = [serving for file in files if (serving := _read(file)) is not None and _answers(serving)]
    if not running:
        raise NoCluster("no cluster is running", start)
    if len(running) > 1:
        places = ", ".join(serving.record for serving in running)
        raise NoCluster(f"{len(running)} clusters are running, in {places}", f"say which: --record {running[0].record}")
    return running[0]


def _read(file: Path) -> Serving | None:
    """None unless it is a small file of this user, of the right shape."""
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
    """raises: OSError"""
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


def _answers(serving: Serving) -> bool:
    with suppress(OSError), _connect(serving):
        return True
    return False


def ask(serving: Serving, request: dict[str, Any]) -> dict[str, Any]:
    """One request, one answer. raises: NoCluster"""
    data = json.dumps(request).encode()
    if len(data) > REQUEST_BYTES_MAX:
        raise NoCluster(
            f"the request has {len(data):,} bytes; {REQUEST_BYTES_MAX:,} are allowed", "give a shorter step"
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
            f"the cluster of process {serving.pid} could not be asked: {why}", "see what its `highwater serve` says"
        ) from error
    if not isinstance(found, dict):
        raise NoCluster(f"process {serving.pid} has given no answer", "is it another version of highwater?")
    return found
