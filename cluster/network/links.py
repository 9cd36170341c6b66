"""The links between nodes: latency, loss, bandwidth, cuts and holds, each direction on its own; and machines' cards.

A link answers two questions about a message: when would it arrive, and may it arrive now? What may not arrive waits
in its connection, in order, as bytes wait in TCP. Every link draws from its own random stream, so that a change
elsewhere in the cluster never shifts its latencies.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cluster.network.cards import Card

RETRANSMISSION_TIMEOUT_US = 200_000
"""Linux's minimum RTO: the delay of one lost segment, doubled for each further loss of the same one."""


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of one-way delays: `constant` low, `uniform` [low, high], `exponential` low + mean (high)."""

    kind: str
    low_us: int
    high_us: int = 0

    def draw_us(self, stream: random.Random) -> int:
        if self.kind == "uniform":
            return stream.randint(self.low_us, max(self.low_us, self.high_us))
        if self.kind == "exponential":
            return self.low_us + round(stream.expovariate(1 / self.high_us)) if self.high_us else self.low_us
        return self.low_us


@dataclass(slots=True)
class Link:
    """One direction between two nodes."""

    source: str
    target: str
    stream: random.Random
    base: Latency
    added: dict[str, Latency] = field(default_factory=dict)
    loss: dict[str, float] = field(default_factory=dict)
    bytes_per_second: dict[str, int] = field(default_factory=dict)
    cuts: list[str] = field(default_factory=list)
    busy_until_us: int = 0

    @property
    def is_cut(self) -> bool:
        return bool(self.cuts)

    @property
    def is_clear(self) -> bool:
        """Every message arrives the moment that it leaves."""
        is_disturbed = self.cuts or self.added or self.loss or self.bytes_per_second
        return not (is_disturbed or self.base.low_us or self.base.high_us)

    def arrival_us(self, now_us: int, size_bytes: int) -> int:
        """When a message that leaves now would arrive."""
        leaves_us = now_us
        if self.bytes_per_second:
            rate = min(self.bytes_per_second.values())
            self.busy_until_us = max(now_us, self.busy_until_us) + size_bytes * 1_000_000 // rate
            leaves_us = self.busy_until_us
        base = self.base
        delay_us = base.low_us if base.kind == "constant" else base.draw_us(self.stream)
        if self.added:
            for latency in self.added.values():
                delay_us += latency.draw_us(self.stream)
        if self.loss:
            for rate_lost in self.loss.values():
                delay_us += self._retransmissions_us(rate_lost)
        return leaves_us + delay_us

    def _retransmissions_us(self, rate_lost: float) -> int:
        # Simplified: TCP never loses a message, it sends it again; a lost message costs its retransmission timeouts.
        delay_us, timeout_us = 0, RETRANSMISSION_TIMEOUT_US
        while timeout_us < 120_000_000 and self.stream.random() < rate_lost:
            delay_us += timeout_us
            timeout_us *= 2
        return delay_us

    def remove(self, fault: str) -> None:
        """Undo all effects of one fault on this link."""
        self.added.pop(fault, None)
        self.loss.pop(fault, None)
        self.bytes_per_second.pop(fault, None)
        self.cuts = [other for other in self.cuts if other != fault]


@dataclass(frozen=True, slots=True)
class HoldRule:
    """Keeps back messages of one API between two sets of nodes until it is released.

    part: request, response, None for both; or body: the file bytes of a response, which then leave the file only
    when the hold is released
    """

    fault: str
    sources: Sequence[str]
    targets: Sequence[str]
    api: int | None
    part: str | None

    def matches(self, source: str, target: str, api: int, part: str) -> bool:
        return (
            source in self.sources and target in self.targets and self.api in (None, api) and self.part in (None, part)
        )


class Network:
    """All links, by (source, target), created when first asked for; and the holds in force."""

    def __init__(self, seed: int, base: Latency, per_link: dict[tuple[str, str], Latency]) -> None:
        self._seed = seed
        self._base = base
        self._per_link = per_link
        self._links: dict[tuple[str, str], Link] = {}
        self.cards: dict[str, Card] = {}
        """Of machines whose connections share a rate; to be given before they connect."""
        self.holds: list[HoldRule] = []

    def link(self, source: str, target: str) -> Link:
        found = self._links.get((source, target))
        if found is None:
            base = self._per_link.get((source, target), self._base)
            stream = random.Random(f"{self._seed}/link/{source}->{target}")
            found = self._links[source, target] = Link(source, target, stream, base)
        return found

    def links(self) -> list[Link]:
        return list(self._links.values())

    def by_reach(self, sources: Iterable[str], targets: Sequence[str]) -> list[str]:
        """The sources, those first that fewest of the targets are cut off from, in either direction."""

        def cut_off(source: str) -> int:
            return sum(self.link(source, one).is_cut or self.link(one, source).is_cut for one in targets)

        return sorted(sources, key=cut_off)

    def body_hold_on(self, source: str, target: str, api: int) -> HoldRule | None:
        """The hold that stops a response between its header and its file bytes."""
        for hold in self.holds:
            if hold.part == "body" and hold.matches(source, target, api, "body"):
                return hold
        return None

    def hold_on(self, source: str, target: str, api: int, part: str) -> HoldRule | None:
        for hold in self.holds:
            if hold.matches(source, target, api, part):
                return hold
        return None
