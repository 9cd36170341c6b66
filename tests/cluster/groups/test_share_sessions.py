"""Share sessions: whose requests continue them, and when they end."""

from __future__ import annotations

from uuid import UUID

import pytest

from cluster.protocol.primitives import MAX_INT32
from cluster.share.sessions import FINAL_EPOCH, SessionKey, SessionPartition, ShareSessions
from replica.errors import ErrorCode, KafkaError

M1, M2 = SessionKey("g", "m1"), SessionKey("g", "m2")
PARTITIONS = [SessionPartition(UUID(int=7), 0)]


def refused(sessions: ShareSessions, key: SessionKey, epoch: int) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        sessions.go_on(key, epoch)
    return error.value.code


def test_a_request_has_the_epoch_that_its_session_expects() -> None:
    sessions = ShareSessions(2)
    assert refused(sessions, M1, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    session = sessions.begin(M1, 1, PARTITIONS)
    assert sessions.go_on(M1, 1) is session and session.epoch == 2
    for epoch in (1, 3):
        assert refused(sessions, M1, epoch) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    session.epoch = MAX_INT32
    assert sessions.go_on(M1, MAX_INT32).epoch == 1
    assert sessions.go_on(M1, FINAL_EPOCH).epoch == 1, "the final request does not raise it"


def test_a_broker_has_no_more_sessions_than_its_limit() -> None:
    sessions = ShareSessions(1)
    sessions.begin(M1, 1, PARTITIONS)
    sessions.begin(M1, 1, PARTITIONS)
    with pytest.raises(KafkaError) as error:
        sessions.begin(M2, 2, PARTITIONS)
    assert error.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.end(M1) is not None
    assert sessions.begin(M2, 2, PARTITIONS).key == M2


def test_a_closed_connection_ends_only_the_session_that_still_uses_it() -> None:
    sessions = ShareSessions(2)
    sessions.begin(M1, 1, PARTITIONS)
    moved = sessions.begin(M1, 2, PARTITIONS)
    assert sessions.gone(1) == ("g", None) and sessions.has_members("g")
    assert sessions.gone(2) == ("g", moved) and not sessions.has_members("g")
    assert sessions.gone(2) == (None, None)
