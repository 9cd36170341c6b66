"""Reads ZooKeeper's transaction log, with every change and its time, while ZooKeeper writes it.

A transaction is flushed to the log before any client sees the change.

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
"""The header of a log record: the Adler-32 checksum of the transaction, and its size in bytes."""
RECORD_END = b"B"
TXN_HEADER = Struct(">Qiqqi")
"""The header of a transaction: session, number of the request in the session, zxid, time in milliseconds, type."""
INT = Struct(">i")
CREATES, DELETES, SET_DATA, MULTI, CLOSE_SESSION = (1, 15, 19, 21), (2, 20), 5, 14, -11
_LOG = re.compile(r"log\.([0-9a-f]{1,16})")


@dataclass(frozen=True, slots=True)
class Write:
    """A change of one znode.

    Attributes:
        data: new contents; None if the znode was deleted.
        ephemeral: True if ZooKeeper will delete the znode at the end of the session that created it.
    """

    path: str
    data: bytes | None
    ephemeral: bool = False
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryTransaction:
    """One transaction of ZooKeeper's log.

    Attributes:
        wall_ms: time of the transaction by ZooKeeper's clock.
        closes: True if the transaction closes the session, which deletes its ephemeral znodes.
    """

    zxid: int
    session: int
    wall_ms: int
    writes: tuple[Write, ...] = ()
    closes: bool = False


class RegistryTail:
    """Reads new transactions. `log_dir` is ZooKeeper's `dataDir`; it may be emptied meanwhile."""

    def __init__(self, log_dir: Path) -> None:
        self._folder = log_dir / FOLDER
        self._places: dict[str, int] = {}

    def look(self) -> Iterator[RegistryTransaction]:
        """Yield the transactions since the last call.

        Raises:
            PeerViolation: if a file is not a transaction log.
        """
        for path in self._files():
            start = position = self._places.get(path.name, FILE_HEADER_BYTES)
            for transaction, used in transactions(_from(path, position)):
                position = start + used
                yield transaction
            self._places[path.name] = position

    def _files(self) -> list[Path]:
        """Return the log files in the order of their first transactions; none if the folder is missing."""
        try:
            found = [(match, path) for path in self._folder.iterdir() if (match := _LOG.fullmatch(path.name))]
        except FileNotFoundError:
            return []
        return [path for _, path in sorted(found, key=lambda pair: int(pair[0][1], 16))]


def _from(path: Path, position: int) -> bytes:
    """Return the rest of the file from `position` on; nothing if only preallocated zeros follow."""
    with path.open("rb", buffering=0) as file:
        begins = file.read(len(MAGIC))
        if len(begins) == len(MAGIC) and begins != MAGIC:
            raise PeerViolation(f"{path.name} is not a ZooKeeper transaction log")
        file.seek(position)
        head = file.read(RECORD_HEADER.size)
        return head + file.read() if head.strip(b"\0") else b""


def transactions(data: bytes) -> Iterator[tuple[RegistryTransaction, int]]:
    """Yield complete transactions, each with the position after it, up to preallocated space or incomplete data."""
    position = 0
    while position + RECORD_HEADER.size < len(data):
        checksum, size = RECORD_HEADER.unpack_from(data, position)
        start = position + RECORD_HEADER.size
        end = start + size
        if size <= 0 or data[end : end + 1] != RECORD_END or zlib.adler32(data[start:end]) != checksum:
            return
        position = end + 1
        yield _transaction(data[start:end]), position


def _transaction(data: bytes) -> RegistryTransaction:
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
        raise PeerViolation(f"a ZooKeeper transaction is cut short or malformed: {wrong}") from wrong


def _writes(kind: int, data: bytes, position: int) -> Iterator[Write]:
    """Yield the writes of a transaction; there are none for an error or for a type that changes nothing."""
    if kind == MULTI:
        (count,) = INT.unpack_from(data, position)
        position += INT.size
        for _ in range(count):
            (part_kind,) = INT.unpack_from(data, position)
            part, position = _buffer(data, position + INT.size)
            yield from _writes(part_kind, part, 0)
        return
    if kind not in (*CREATES, *DELETES, SET_DATA):
        return
    path, position = _buffer(data, position)
    if kind in DELETES:
        yield Write(path.decode(), None)
        return
    content, position = _buffer(data, position)
    if kind == SET_DATA:
        yield Write(path.decode(), content)
        return
    yield Write(path.decode(), content, ephemeral=_is_ephemeral(data, position), is_new=True)


def _is_ephemeral(data: bytes, position: int) -> bool:
    """Return True if a created znode is ephemeral. This flag follows the list of ACLs."""
    (count,) = INT.unpack_from(data, position)
    position += INT.size
    for _ in range(max(0, count)):
        _, position = _buffer(data, position + INT.size)
        _, position = _buffer(data, position)
    return data[position : position + 1] == b"\1"


def _buffer(data: bytes, position: int) -> tuple[bytes, int]:
    """Decode a Jute buffer or string, and return its bytes and the position after it.

    A size of 4 bytes precedes the bytes. Size -1 means null, which is returned as empty bytes.

    Raises:
        PeerViolation: if `data` ends before the bytes do.
    """
    (size,) = INT.unpack_from(data, position)
    start = position + INT.size
    end = start + max(0, size)
    if end > len(data):
        raise PeerViolation("a ZooKeeper transaction is cut short")
    return data[start:end], end
