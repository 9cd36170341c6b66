"""Snapshots of the metadata as files beside the metadata log: `<end offset>-<epoch>.checkpoint`, batches of records.

Source: KIP-630; Snapshots.java (names), FileRawSnapshotWriter, RecordsSnapshotReader
"""

from __future__ import annotations

import re
from pathlib import Path

from controller.metadata import decode_record, encode_record
from controller.quorum.messages import OffsetAndEpoch
from controller.snapshot import Snapshot, check_complete
from replica.errors import KafkaError, PeerViolation
from replica.log.batches.records import batches, build_batch, check_crc, read_records
from replica.log.files.checkpoints import write_atomically

SNAPSHOTS_KEPT = 2
"""Simplified: Kafka keeps as many as metadata.max.retention.bytes and .ms allow, and looks once a minute."""
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def file_name(end: OffsetAndEpoch) -> str:
    return f"{end.offset:020d}-{end.epoch:010d}.checkpoint"


def encode_snapshot(snapshot: Snapshot, timestamp_ms: int) -> bytes:
    """Offsets count from 0, as in Kafka: a snapshot's records are not those of the log."""
    values = [(None, encode_record(record)) for record in snapshot.records]
    return bytes(build_batch(values, timestamp_ms=timestamp_ms, leader_epoch=snapshot.end.epoch))


def decode_snapshot(end: OffsetAndEpoch, data: bytes) -> Snapshot:
    """raises: PeerViolation if it is not whole"""
    records = []
    try:
        for position, header in batches(data):
            if not check_crc(data, position, header):
                raise PeerViolation(f"snapshot {file_name(end)} is damaged")
            found = read_records(memoryview(data)[position : position + header.size_bytes])
            records += [decode_record(record.value) for record in found if record.value is not None]
    except KafkaError as error:
        raise PeerViolation(f"snapshot {file_name(end)} is damaged: {error.message}") from error
    check_complete(records)
    return Snapshot(end, records)


class SnapshotFiles:
    """The snapshots of one controller; `ids` ascend.

    Simplified: each is written in one step, where Kafka fills a `.part` file that it renames.
    """

    def __init__(self, directory: Path, *, sync: bool) -> None:
        self._directory = directory
        self._sync = sync
        found = (_NAME.fullmatch(path.name) for path in directory.iterdir())
        self.ids = sorted(OffsetAndEpoch(epoch=int(name[2]), offset=int(name[1])) for name in found if name)

    @property
    def earliest(self) -> OffsetAndEpoch | None:
        return self.ids[0] if self.ids else None

    @property
    def latest(self) -> OffsetAndEpoch | None:
        return self.ids[-1] if self.ids else None

    def write(self, end: OffsetAndEpoch, data: bytes) -> None:
        write_atomically(self._directory / file_name(end), data, sync=self._sync)
        self.ids.append(end)

    def read(self, end: OffsetAndEpoch) -> bytes | None:
        """None: there is no such snapshot (any more)."""
        return (self._directory / file_name(end)).read_bytes() if end in self.ids else None

    def load(self) -> Snapshot | None:
        """The latest.     raises: PeerViolation"""
        if self.latest is None:
            return None
        data = self.read(self.latest)
        assert data is not None
        return decode_snapshot(self.latest, data)

    def keep_last(self, count: int) -> None:
        for end in self.ids[:-count]:
            (self._directory / file_name(end)).unlink()
        del self.ids[:-count]
