"""One member of a group, as its coordinator sees it. source: MemberMetadata.scala"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cluster.clocks import Timer
from cluster.coordinators.waiting import RequestId

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) of the ways of assigning partitions that a member knows, the best first; the metadata is opaque."""


@dataclass(slots=True, eq=False, kw_only=True)
class Member:
    """awaiting_join, awaiting_sync: the request that is answered when the group has got so far

    is_new: does not know yet that it is a member, so it sends no heartbeats
    session: when it is given up; None while it waits for the group
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: RequestId | None = None
    awaiting_sync: RequestId | None = None
    is_new: bool = False
    session: Timer | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_awaiting(self) -> bool:
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def metadata(self, protocol: str) -> bytes:
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Collection[str]) -> str:
        """The one it likes best."""
        return next(name for name, _ in self.protocols if name in candidates)

    def stop_session(self) -> None:
        if self.session is not None:
            self.session.cancel()
            self.session = None
