"""enable.auto.commit: when a member commits by itself, and which offsets.

It commits in `poll`, once auto.commit.interval.ms are over; before a rebalance takes partitions away; when it closes.
It commits where the next poll begins: the records that earlier polls have returned count as done, whatever the
application has done with them. An application that stands in its own code commits nothing.

Simplified: what a coordinator does not take is sent again as it is; Java commits anew after retry.backoff.ms.

Source: ConsumerCoordinator.maybeAutoCommitOffsetsAsync, onJoinPrepare, close; CommitRequestManager.AutoCommitState.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from replica.errors import ErrorCode
from replica.ids import Offset, TopicPartition

Consumed = Callable[[], Mapping[TopicPartition, Offset]]


class AutoCommit:
    """consumed: the position of each partition that the member reads, as the application knows it (allConsumed)"""

    def __init__(self, interval_ms: int, consumed: Consumed) -> None:
        self.consumed = consumed
        self.due_us = 0
        self.has_prepared = False
        """It has committed for the rebalance that is under way."""
        self.has_closed = False
        """It has committed for the last time."""
        self._interval_us = interval_ms * 1000

    def restart(self, now_us: int) -> None:
        """The interval begins: with each commit, and with each assignment."""
        self.due_us = now_us + self._interval_us


def ignore(error: ErrorCode) -> None:
    """A commit that fails is logged, and the application does not hear of it."""
