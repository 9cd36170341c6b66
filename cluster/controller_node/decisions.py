"""Decisions of the active controller on their way: written to the metadata log, told and answered once committed.

source: QuorumController.ControllerWriteEvent, DeferredEventQueue
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cluster.channel import Channel
from cluster.messages.quorum import api_of, decode_answer, encode_request
from cluster.node import Outbox
from controller.inputs import EmitNumbered, OnReply, Reply
from controller.quorum.messages import AnyAnswer, ControllerEpoch, Request
from replica.ids import BrokerId, Offset
from replica.trace.events import Recorder


@dataclass(slots=True)
class Decision:
    """The results of one input, complete once everything below `required_offset` is committed.

    epoch: of the controller that decided     led_here: the trace event that led to the input
    """

    epoch: ControllerEpoch
    required_offset: Offset
    led_here: tuple[int, ...]
    answer: OnReply
    events: list[EmitNumbered] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)


class Chronicle:
    """Decisions that are in the metadata log of a quorum but not in the trace yet.

    A controller may die after a majority has its record and before it hears so. The next one
    then commits what the first has decided, and only then do its events follow: one trace, as there is one log.
    """

    def __init__(self) -> None:
        self._written: list[Decision] = []

    def wrote(self, decision: Decision) -> None:
        self._written.append(decision)

    def tell(self, high_watermark: Offset, epoch_at: Callable[[Offset], int | None], recorder: Recorder) -> None:
        """All below `high_watermark` is committed in the log of epochs `epoch_at`; decisions not in it are void."""
        due = [decision for decision in self._written if decision.required_offset <= high_watermark]
        if due:
            self._written = [decision for decision in self._written if decision.required_offset > high_watermark]
            for decision in sorted(due, key=lambda decision: decision.required_offset):
                if epoch_at(decision.required_offset - 1) == decision.epoch:
                    tell(decision, recorder)


class DecisionQueue:
    """Decisions in the order they were made. One without records waits for those before it: it may build on them."""

    def __init__(self, recorder: Recorder, chronicle: Chronicle) -> None:
        self._recorder = recorder
        self._chronicle = chronicle
        self._waiting: deque[tuple[Decision, bool]] = deque()

    def add(self, decision: Decision, *, written: bool) -> None:
        """written: it has records in the log"""
        self._waiting.append((decision, written))
        if written:
            self._chronicle.wrote(decision)

    def take_committed(self, high_watermark: Offset, epoch_at: Callable[[Offset], int | None]) -> list[Decision]:
        """The decisions that are committed now, in order; all events up to there are emitted."""
        committed = []
        while self._waiting and self._waiting[0][0].required_offset <= high_watermark:
            decision, written = self._waiting.popleft()
            self._chronicle.tell(decision.required_offset, epoch_at, self._recorder)
            if not written:
                tell(decision, self._recorder)
            committed.append(decision)
        self._chronicle.tell(high_watermark, epoch_at, self._recorder)
        return committed

    def revert(self) -> None:
        """No request is answered; the next controller states which of the decisions were committed after all."""
        reverted, self._waiting = self._waiting, deque()
        for decision, _ in reverted:
            decision.answer(None)


def tell(decision: Decision, recorder: Recorder) -> None:
    """Put a decision's events into the trace, each with what led to it."""
    told: dict[int, int] = {}
    for event in decision.events:
        causes = decision.led_here if event.cause is None else (told[event.cause],)
        told[event.number] = recorder.emit(event.event, *causes)


# --------------------------------------------------------------------------------------------------------- quorum peers
#
# A controller's connections to the other voters of its quorum. source: KafkaNetworkChannel.java

OnAnswered = Callable[[BrokerId, Request, AnyAnswer | None, int], None]
"""(peer, what it was asked, its answer or None, now_us)"""


class QuorumPeers:
    """One channel per voter, one request in flight on each."""

    def __init__(
        self,
        *,
        client_id: str,
        outbox: Outbox,
        addresses: Mapping[BrokerId, tuple[str, int]],
        request_timeout_ms: int,
        on_answered: OnAnswered,
    ) -> None:
        self._client_id = client_id
        self._timeout_us = request_timeout_ms * 1000
        self._on_answered = on_answered
        self._channels = {peer: Channel(outbox, *address) for peer, address in addresses.items()}

    def send(self, peer_id: BrokerId, request: Request, now_us: int) -> None:
        def answered(frame: bytearray | None, reason: str, now_us: int) -> None:
            answer = None if frame is None else decode_answer(request, frame)
            self._on_answered(peer_id, request, answer, now_us)

        self._channels[peer_id].request(
            api_of(request),
            lambda correlation_id: encode_request(request, correlation_id, self._client_id),
            answered,
            self._timeout_us,
            now_us,
        )
