"""Why things happen, in Kafka's terms: what cores decide by, and the column `cause` of the trace.

A cause is a word, and the numbers and names that decided stand beside it in the event. spark_reports/TABLES.md lists
all of them: those who query a trace rely on the words.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Cause(StrEnum):
    """Base of the lists of causes: `WORD = "word", "what it means"`."""

    meaning: str

    def __new__(cls, word: str, meaning: str = "") -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member


# ----------------------------------------------------------------------------------------------------- in-sync replicas


class IsrCause(Cause):
    """Why a leader proposes another ISR."""

    CAUGHT_UP = "caught_up", "a follower has reached the high watermark, and the start of the leader's epoch"
    LAG = "lag", "a member has not caught up within replica.lag.time.max.ms, or is no replica any more"
    RETRY = "retry", "the controller did not answer, or answered with an error that leaves the proposal open"


class LagCause(Cause):
    """Why a member is out of sync."""

    NOT_CAUGHT_UP = "not_caught_up", "it had all records last at a time longer ago than replica.lag.time.max.ms"
    NEVER_CAUGHT_UP = "never_caught_up", "it has not had all records since this leader leads"
    NOT_FETCHING = "not_fetching", "to 0.8: it has not fetched for longer than replica.lag.time.max.ms"
    BEHIND = "behind", "to 0.8: it is more than replica.lag.max.messages behind"
    NOT_ASSIGNED = "not_assigned", "it is no replica any more"


class HighWatermarkCause(Cause):
    """Why a follower's high watermark became what it is."""

    LEADER = "leader", "it is the leader's"
    LOG_END = "log_end", "the leader's is beyond the end of the follower's log"
    LOG_START = "log_start", "the leader's is before the start of the follower's log"
    CUT = "cut", "the follower has cut its log back"
    STARTED_ANEW = "started_anew", "the follower has dropped its log, and starts where the leader's does"


# ---------------------------------------------------------------------------------------------------------------- logs


class DeletionCause(Cause):
    """Why a broker deletes its replica of a partition."""

    TOPIC_DELETED = "topic_deleted", "the topic was deleted"
    NOT_ASSIGNED = "not_assigned", "the broker is no replica any more"


class RetentionCause(Cause):
    """By which setting records have expired."""

    SIZE = "size", "retention.bytes: the log is large enough without them"
    TIME = "time", "retention.ms: all records of their segments are older"


# -------------------------------------------------------------------------------------------------- network and servers


class ConnectionEnd(Cause):
    """How a connection ended, as one side of it sees that; the meaning stands in sentences."""

    CLOSED = "closed", "closed by the other side"
    RESET = "reset", "reset by the other side"
    TORN = "torn", "a segment file ended before the bytes its frame had promised"
    TLS_FAILED = "tls_failed", "ended by a failure of TLS"
    GIVEN_UP = "given_up", "closed by this side, which reads no further"


class DropCause(Cause):
    """Why a message that a hold or a cut had kept back will never arrive."""

    CONNECTION_ENDED = "connection_ended", "its connection has ended"
    CONNECTION_CLOSED = "connection_closed", "its sender has closed the connection behind a cut"
    CONNECTION_RESET = "connection_reset", "its sender has reset the connection behind a cut"
    NOT_SENT = "not_sent", "its sender ended before it had sent the body"
    POWER_LOST = "power_lost", "its sender has lost power"
    PROCESS_GONE = "process_gone", "it was in the memory of its sender's process, which has ended"


class CloseCause(Cause):
    """Why a node closed a connection that another one had opened."""

    VIOLATION = "violation", "a frame or a request breaks the protocol"
    REQUEST_TOO_LARGE = "request_too_large", "a request has more than socket.request.max.bytes"
    REQUEST_MEMORY = "request_memory", "requests that come in take too much memory, and its own stalled for longest"
    TOO_MANY = "too_many", "there are max.connections.per.ip from its address already"
    IDLE = "idle", "nothing moved on it for connections.max.idle.ms"
    NODES_ONLY = "nodes_only", "only nodes of the cluster may connect here"
    NO_SECRET = "no_secret", "it has the address of a node, and does not know the secret of the run"
    AUTHENTICATION_FAILED = "authentication_failed", "it did not prove who it is"
    SESSION_OVER = "session_over", "its session is over, and it has not authenticated again"
    BUG = "bug", "closed after a bug"
    ANSWER_NOT_WRITTEN = "answer_not_written", "its answer cannot be written"


class LeftOut(Cause):
    """What a client from outside does more often than the trace has room for."""

    CONNECTIONS = "connections", "connections that it opens and that end"
    REQUESTS = "requests", "requests that it sends"
    READS = "reads", "reads of the same records, and moves to where it reads"
    REFUSALS = "refusals", "requests that are refused"
