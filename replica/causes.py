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


# ---------------------------------------------------------------------------------------------------- consumer groups


class JoinCause(Cause):
    """Why a group takes a member in."""

    NEW = "new", "it is new"
    STATIC_RETURNED = "static_returned", "a static member has come back, in the place of its earlier process"


class LeaveCause(Cause):
    """Why a member is no longer part of its group."""

    LEAVE_REQUEST = "leave_request", "it leaves"
    OPERATOR = "operator", "an operator removes it"
    SESSION_TIMEOUT = "session_timeout", "no heartbeat, and nothing else, came in time"
    JOIN_TIMEOUT = "join_timeout", "it did not join again in time"
    SYNC_TIMEOUT = "sync_timeout", "it did not ask for its assignment in time"
    REVOCATION_TIMEOUT = "revocation_timeout", "it did not give up its partitions in time"
    GROUP_FULL = "group_full", "the group has as many members as group.max.size allows"


class RebalanceCause(Cause):
    """Why the members of a group are to join again."""

    MEMBER_JOINED = "member_joined", "a new member has joined"
    MEMBER_LEFT = "member_left", "a member is gone"
    MEMBER_REJOINED = "member_rejoined", "a member has joined again"
    LEADER_REJOINED = "leader_rejoined", "the member that assigns has joined again"
    OTHER_PROTOCOLS = "other_protocols", "a member has joined again with other protocols"
    STATIC_RETURNED = "static_returned", "a static member has come back while its assignment was awaited"
    PROTOCOL_CHANGED = "protocol_changed", "a static member has come back, and another protocol is chosen now"
    SYNC_TIMEOUT = "sync_timeout", "members are out that did not ask for their assignment in time"
    NOT_WRITTEN = "not_written", "the assignment could not be written"
    GROUP_TOO_LARGE = "group_too_large", "the group has more members than group.max.size allows"
    UPGRADE_FAILED = "upgrade_failed", "its change to a consumer group could not be written"
    DOWNGRADED = "downgraded", "its last member of KIP-848 is gone"


class RemovalCause(Cause):
    """Why a group, or an offset that it has committed, is gone."""

    OPERATOR = "operator", "an operator has deleted it"
    TOPIC_DELETED = "topic_deleted", "the topic is deleted"
    NOT_USED = "not_used", "it was not used for offsets.retention.minutes"
    NOT_COMMITTED = "not_committed", "nothing was committed for offsets.retention.minutes"
    EMPTY = "empty", "it has neither members nor offsets any more"


# ------------------------------------------------------------------------------------------------------- transactions


class TransactionCause(Cause):
    """Why a transactional.id has come to another state."""

    INITIALIZED = "initialized", "an instance of its producer begins; all earlier ones are fenced"
    PARTITIONS_ADDED = "partitions_added", "partitions joined the transaction"
    COMMIT = "commit", "the producer commits"
    ABORT = "abort", "the producer aborts"
    NEW_INSTANCE = "new_instance", "a new instance of the producer has come, so what the old one left open is aborted"
    TIMEOUT = "timeout", "it was open for longer than transaction.timeout.ms, so it is aborted"
    MARKERS_WRITTEN = "markers_written", "every partition of the transaction has its marker"
    EXPIRED = "expired", "it was not used for transactional.id.expiration.ms"


# ------------------------------------------------------------------------------------------------------------ clients


class FailureCause(Cause):
    """Why a request, a record or a transaction of a client has failed."""

    ERROR = "error", "the answer has an error"
    REQUEST_TIMEOUT = "request_timeout", "no answer came within request.timeout.ms"
    SETUP_TIMEOUT = "setup_timeout", "the connection was not there within socket.connection.setup.timeout.ms"
    IDLE = "idle", "the connection was idle for longer than connections.max.idle.ms"
    CONNECTION_LOST = "connection_lost", "the connection has ended"
    BAD_ANSWER = "bad_answer", "what came was no answer, so the client has closed the connection"
    NO_VERSION = "no_version", "the broker offers no version of the request that the client can send"
    DELIVERY_TIMEOUT = "delivery_timeout", "delivery.timeout.ms passed before the batch was acknowledged"
    NO_METADATA = "no_metadata", "the partition was not known within max.block.ms"
    NO_MEMORY = "no_memory", "buffer.memory had no room within max.block.ms"
    TOO_LARGE = "too_large", "the record is larger than max.request.size or buffer.memory"
    NOT_SERIALIZED = "not_serialized", "the serializer has refused the record"
    CLOSED = "closed", "the producer was closed before the record was acknowledged"
    ABORTED = "aborted", "the transaction is aborted"
    SEQUENCES_LOST = "sequences_lost", "some sent records were never acknowledged, and cannot be sent again"
    NO_COORDINATOR = "no_coordinator", "FindCoordinator was answered with an error"


class ResetCause(Cause):
    """Why the position of a consumer moved other than by reading."""

    SEEK = "seek", "the application asked for this offset, or for the earliest or latest one"
    COMMITTED_OFFSET = "committed_offset", "the group has committed it"
    NO_COMMITTED_OFFSET = "no_committed_offset", "the group has committed none"
    NO_POSITION = "no_position", "the consumer has none yet"
    OUT_OF_RANGE = "out_of_range", "the leader does not have the offset"
    TRUNCATED = "truncated", "the leader's log parts from what was read"
    UNKNOWN_EPOCH = "unknown_epoch", "the leader's log was truncated: it knows no leader epoch that was read"
    FETCHES_ELSEWHERE = "fetches_elsewhere", "of a client from outside: it fetches from there"
    STATED_AGAIN = "stated_again", "of a client from outside: events about what it read over and over were left out"
    UNREADABLE_BATCH = "unreadable_batch", "of a client from outside: a batch claims more records than it can hold"
