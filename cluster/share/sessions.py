"""Share sessions: the partitions that a member of a share group fetches from this broker, and its request epochs.

Source: ShareSession.java, ShareSessionCache.java, SharePartitionManager.newContext, acknowledgeSessionUpdate
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from cluster.node import ConnectionId
from cluster.protocol.primitives import MAX_INT32
from replica.errors import ErrorCode, KafkaError

INITIAL_EPOCH, FINAL_EPOCH = 0, -1


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class SessionPartition(NamedTuple):
    topic_id: UUID
    partition: int


@dataclass(slots=True, eq=False)
class ShareSession:
    """The share session of a member. `epoch` is that expected in the next request."""

    key: SessionKey
    connection: ConnectionId
    partitions: dict[SessionPartition, None] = field(default_factory=dict)
    epoch: int = INITIAL_EPOCH + 1


class ShareSessions:
    """The share sessions of one broker."""

    def __init__(self, max_sessions: int) -> None:
        self._max_sessions = max_sessions
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_connection: dict[ConnectionId, SessionKey] = {}

    def begin(self, key: SessionKey, connection: ConnectionId, partitions: Iterable[SessionPartition]) -> ShareSession:
        """Begin a session of a member, which replaces an earlier one.

        Raises:
            KafkaError: SHARE_SESSION_LIMIT_REACHED.
        """
        self._sessions.pop(key, None)
        if len(self._sessions) >= self._max_sessions:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key, connection, dict.fromkeys(partitions))
        self._of_connection[connection] = key
        return session

    def go_on(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session of a request, after checking the request's epoch and advancing the session's.

        Raises:
            KafkaError: if there is no session, or it expects another epoch.
        """
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.epoch = 1 if epoch == MAX_INT32 else epoch + 1
        return session

    def end(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.pop(key, None)

    def gone(self, connection: ConnectionId) -> tuple[str | None, ShareSession | None]:
        """End the session of a closed connection.

        Returns:
            (group of the last session on this connection, None if it had none; the session, None if it had ended
            before or moved to another connection)

        Source: onDisconnect
        """
        key = self._of_connection.pop(connection, None)
        if key is None:
            return None, None
        session = self._sessions.get(key)
        if session is None or session.connection != connection:
            return key.group_id, None
        return key.group_id, self._sessions.pop(key)

    def has_members(self, group_id: str) -> bool:
        return any(key.group_id == group_id for key in self._sessions)
