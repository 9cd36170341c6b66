"""How long a voter waits for what. Source: QuorumConfig, KafkaRaftClient.randomElectionTimeoutMs (3.9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ELECTION_BACKOFF_BASE_MS = 100
Draw = Callable[[int], int]
"""`draw(n)`: a random integer in [0, n)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumTimeouts:
    """controller.quorum.election.timeout.ms, .fetch.timeout.ms, .election.backoff.max.ms"""

    election_ms: int = 1000
    fetch_ms: int = 2000
    election_backoff_max_ms: int = 1000

    @property
    def check_quorum_us(self) -> int:
        """A leader that no majority fetched from for so long resigns (KAFKA-15489, LeaderState: 1.5 times)."""
        return self.fetch_ms * 1500

    @property
    def begin_epoch_us(self) -> int:
        """A leader announces itself to all voters so often."""
        return self.fetch_ms * 500

    def election_due_us(self, now_us: int, draw: Draw) -> int:
        """Between one and two election timeouts from now."""
        return now_us + (self.election_ms + draw(self.election_ms)) * 1000

    def fetch_due_us(self, now_us: int) -> int:
        return now_us + self.fetch_ms * 1000

    def election_backoff_us(self, retries: int, draw: Draw) -> int:
        """After a lost election. Source: binaryExponentialElectionBackoffMs"""
        backoff_ms = ELECTION_BACKOFF_BASE_MS * draw(2 << min(20, retries - 1))
        return min(backoff_ms, self.election_backoff_max_ms) * 1000

    def succession_backoff_us(self, place: int, successors: int) -> int:
        """After the leader has resigned. place: in the order of its choice, `successors` for a voter not among them;
        the first stands at once. Source: strictExponentialElectionBackoffMs"""
        if place == 0:
            return 0
        maximum = self.election_backoff_max_ms
        return min(maximum, maximum >> (successors - 1) << (place - 1)) * 1000
