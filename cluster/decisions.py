"""Decisions of the active controller on their way: written to the metadata log, told and answered once committed.

source: QuorumController.ControllerWriteEvent, DeferredEventQueue
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.events import Fact, Reply
from replica.ids import Offset
from replica.trace import Recorder

OnReply = Callable[[Reply | None], None]
"""None: the controller was deposed first; what it had decided never happened."""


@dataclass(slots=True)
class Decision:
    """What one event led to, complete once everything below `required_offset` is committed.

    led_here: the fact in the trace that led to the event
    """

    required_offset: Offset
    led_here: tuple[int, ...]
    answer: OnReply
    facts: list[Fact] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)


class DecisionQueue:
    """Decisions in the order they were made. One without records waits for those before it: it may build on them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: deque[Decision] = deque()

    def add(self, decision: Decision) -> None:
        self._waiting.append(decision)

    def take_committed(self, high_watermark: Offset) -> list[Decision]:
        """The decisions that have become real, in order; their facts are told now."""
        committed = []
        while self._waiting and self._waiting[0].required_offset <= high_watermark:
            committed.append(self._waiting.popleft())
        for decision in committed:
            self._tell(decision)
        return committed

    def _tell(self, decision: Decision) -> None:
        told: dict[int, int] = {}
        for fact in decision.facts:
            causes = decision.led_here if fact.cause is None else (told[fact.cause],)
            told[fact.number] = self._recorder.emit(fact.event, *causes)

    def revert(self) -> None:
        """Nothing of what waits will be."""
        reverted, self._waiting = self._waiting, deque()
        for decision in reverted:
            decision.answer(None)
