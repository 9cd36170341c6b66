"""New producer ids for transactional ids: asked of the broker, whose controller gives them out in blocks."""

from __future__ import annotations

from collections.abc import Callable

from cluster.transactions.desk import TransactionDesk
from cluster.transactions.inputs import AskProducerId, ProducerIdGiven

Taken = Callable[[int | None, int], None]
"""(producer id or None, now_us)"""


class NewProducerIds:
    def __init__(self, desk: TransactionDesk) -> None:
        self._desk = desk
        self._waiting: dict[int, Taken] = {}
        self._last_ticket = 0

    def ask(self, taken: Taken, now_us: int) -> None:
        self._last_ticket += 1
        self._waiting[self._last_ticket] = taken
        self._desk.want(AskProducerId(self._last_ticket))

    def given(self, given: ProducerIdGiven) -> None:
        self._waiting.pop(given.ticket)(given.producer_id, given.now_us)
