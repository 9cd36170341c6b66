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
