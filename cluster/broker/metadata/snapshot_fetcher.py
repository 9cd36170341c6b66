"""How a broker comes by a snapshot of the metadata: piece by piece, from the node that sent it there. KIP-630"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.channel import Channel
from cluster.messages.metadata_snapshots import decode_snapshot
from cluster.messages.quorum import decode_snapshot_answer, encode_fetch_snapshot
from cluster.protocol.versions import FETCH_SNAPSHOT
from controller.quorum.messages import ControllerEpoch, FetchSnapshot, OffsetAndEpoch
from controller.snapshot import Snapshot
from replica.errors import ErrorCode

OnSnapshot = Callable[[Snapshot | None, int, int], None]
"""(the snapshot, or None: there is no answer or no such snapshot any more; its size in bytes; now_us)"""


class SnapshotFetcher:
    """One snapshot from one controller, asked as the leader of `epoch`."""

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        channel: Channel,
        end: OffsetAndEpoch,
        epoch: ControllerEpoch,
        timeout_us: int,
        on_snapshot: OnSnapshot,
    ) -> None:
        self._identity = identity
        self._channel = channel
        self._end = end
        self._epoch = epoch
        self._timeout_us = timeout_us
        self._on_snapshot = on_snapshot
        self._data = bytearray()

    def fetch(self, now_us: int) -> None:
        wanted = FetchSnapshot(self._identity.broker_id, self._epoch, self._end, len(self._data))
        self._channel.request(
            FETCH_SNAPSHOT,
            lambda correlation_id: encode_fetch_snapshot(wanted, correlation_id, self._identity.name),
            self._answered,
            self._timeout_us,
            now_us,
        )

    def _answered(self, frame: bytearray | None, reason: str, now_us: int) -> None:
        answer = None if frame is None else decode_snapshot_answer(frame)
        if answer is None or answer.error is not ErrorCode.NONE:
            self._on_snapshot(None, 0, now_us)
            return
        self._data += answer.data
        if len(self._data) < answer.size_bytes:
            self.fetch(now_us)
        else:
            self._on_snapshot(decode_snapshot(self._end, bytes(self._data)), len(self._data), now_us)
