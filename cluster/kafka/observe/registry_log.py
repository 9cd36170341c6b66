"""ZooKeeper's transaction log, as it lies on its disk while its process writes it: every change of every file of the
registry, in order, with its time. A transaction is there, and flushed, before anyone hears of it.

Source: ZooKeeper 3.5 FileTxnLog, TxnLogToolkit, zookeeper.jute, ZooDefs.OpCode
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct, error

from replica.errors import PeerViolation

FOLDER = "version-2"
MAGIC = b"ZKLG"
FILE_HEADER_BYTES = 16
RECORD_HEADER = Struct(">qi")
"""Adler-32 of the transaction, and its size in bytes."""
RECORD_END = b"B"
TXN_HEADER = Struct(">Qiqqi")
"""Session, number of the request in it, zxid, time in milliseconds, type."""
INT = Struct(">i")
CREATES, DELETES, SET_DATA, MULTI, CLOSE_SESSION = (1, 15, 19, 21), (2, 20), 5, 14, -11
_LOG = re.compile(r"log\.([0-9a-f]{1,16})")


@dataclass(frozen=True, slots=True)
class Write:
    """One file of the registry. data: None: it is gone     ephemeral: it goes with the session that made it"""

    path: str
    data: bytes | None
    ephemeral: bool = False
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryTransaction:
    """wall_ms: by the registry's clock     closes: the session is over, and its ephemeral files with it"""

    zxid: int
    session: int
    wall_ms: int
    writes: tuple[Write, ...] = ()
    closes: bool = False


class RegistryTail:
    """log_dir: ZooKeeper's `dataDir`, which may be emptied"""

    def __init__(self, log_dir: Path) -> None:
        self._folder = log_dir / FOLDER
        self._places: dict[str, int] = {}

    def look(self) -> Iterator[RegistryTransaction]:
        """What was written since. raises: PeerViolation if it is no transaction log"""
        for path in self._files():
            start = place = self._places.get(path.name, FILE_HEADER_BYTES)
            for transaction, used in transactions(_from(path, place)):
                place = start + used
                yield transaction
            self._places[path.name] = place

    def _files(self) -> list[Path]:
        """In the order of their first transactions; none while there is no folder."""
        try:
            found = [(match, path) for path in self._folder.iterdir() if (match := _LOG.fullmatch(path.name))]
        except FileNotFoundError:
            return []
        return [path for _, path in sorted(found, key=lambda pair: int(pair[0][1], 16))]


def _from(path: Path, place: int) -> bytes:
    """All that is behind `place`; nothing while that begins with the zeros that ZooKeeper fills a file with."""
    with path.open("rb", buffering=0) as file:
        begins = file.read(len(MAGIC))
        if len(begins) == len(MAGIC) and begins != MAGIC:
            raise PeerViolation(f"{path.name} is no transaction log of ZooKeeper")
        file.seek(place)
        head = file.read(RECORD_HEADER.size)
        return head + file.read() if head.strip(b"\0") else b""


def transactions(data: bytes) -> Iterator[tuple[RegistryTransaction, int]]:
    """Those that are whole, each with the place behind it. What follows is zeros, or is being written."""
    place = 0
    while place + RECORD_HEADER.size < len(data):
        checksum, size = RECORD_HEADER.unpack_from(data, place)
        start = place + RECORD_HEADER.size
        end = start + size
        if size <= 0 or data[end : end + 1] != RECORD_END or zlib.adler32(data[start:end]) != checksum:
            return
        place = end + 1
        yield _transaction(data[start:end]), place


def _transaction(data: bytes) -> RegistryTransaction:
    """raises: PeerViolation"""
    try:
        session, _, zxid, wall_ms, kind = TXN_HEADER.unpack_from(data)
        return RegistryTransaction(
            zxid=zxid,
            session=session,
            wall_ms=wall_ms,
            writes=tuple(_writes(kind, data, TXN_HEADER.size)),
            closes=kind == CLOSE_SESSION,
        )
    except (error, UnicodeDecodeError) as wrong:
        raise PeerViolation(f"a transaction of ZooKeeper ends too early or is none: {wrong}") from wrong


def _writes(kind: int, data: bytes, place: int) -> Iterator[Write]:
    """Kinds that change no file, and errors, give none."""
    if kind == MULTI:
        (count,) = INT.unpack_from(data, place)
        place += INT.size
        for _ in range(count):
            (part_kind,) = INT.unpack_from(data, place)
            part, place = _buffer(data, place + INT.size)
            yield from _writes(part_kind, part, 0)
        return
    if kind not in (*CREATES, *DELETES, SET_DATA):
        return
    path, place = _buffer(data, place)
    if kind in DELETES:
        yield Write(path.decode(), None)
        return
    content, place = _buffer(data, place)
    if kind == SET_DATA:
        yield Write(path.decode(), content)
        return
    yield Write(path.decode(), content, ephemeral=_is_ephemeral(data, place), is_new=True)


def _is_ephemeral(data: bytes, place: int) -> bool:
    """Behind the list of who may do what."""
    (count,) = INT.unpack_from(data, place)
    place += INT.size
    for _ in range(max(0, count)):
        _, place = _buffer(data, place + INT.size)
        _, place = _buffer(data, place)
    return data[place : place + 1] == b"\1"


def _buffer(data: bytes, place: int) -> tuple[bytes, int]:
    """Jute's buffer and string: their size, -1 for null, and the bytes."""
    (size,) = INT.unpack_from(data, place)
    start = place + INT.size
    end = start + max(0, size)
    if end > len(data):
        raise PeerViolation("a transaction of ZooKeeper ends too early")
    return data[start:end], end
