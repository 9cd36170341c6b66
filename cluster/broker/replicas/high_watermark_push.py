"""The switch `hw-push`: is a fetch answered for the sake of a new high watermark alone?

`immediate` was Kafka 2.4 only, for consumers that read from followers (KIP-392): a fetch is answered as soon as the
high watermark is above the one last sent to the follower. It raised the rate of fetches by half or more, and was
taken out again (KAFKA-9731, KAFKA-9952); since then the news waits for the next answer, at most
replica.fetch.wait.max.ms.
Simplified: for every fetch of a follower, as in 2.4.0; from 2.4.2 on only where a replica selector was configured.
source: 2.4 Replica.lastSentHighWatermark, DelayedFetch.tryComplete (case H), LogReadResult.followerNeedsHwUpdate
"""

from __future__ import annotations

from replica.ids import BrokerId, Offset
from replica.rules import Rules


def pushes_high_watermark(rules: Rules) -> bool:
    """Whether the switch is on."""
    return rules.hw_push == "immediate"


class HighWatermarkPush:
    """The last high watermark sent to each follower of one partition, as its leader recorded it.

    Only the first read of a fetch is recorded. An answer that was parked and brings a newer one is not: the fetch that
    follows is then answered at once, with nothing new. That is where Kafka's additional fetches came from.
    """

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent: dict[BrokerId, Offset] = {}

    def begin(self) -> None:
        """This broker becomes the leader."""
        self._sent.clear()

    def is_news(self, follower: BrokerId, high_watermark: Offset) -> bool:
        """Whether the follower's fetch should be answered although there are no records for it."""
        return high_watermark > self._sent.get(follower, 0)

    def sent(self, follower: BrokerId, high_watermark: Offset) -> None:
        self._sent[follower] = high_watermark
