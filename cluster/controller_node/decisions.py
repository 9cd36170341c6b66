"""The decisions of the active controller, from the metadata log until their commit.

Once a decision is committed, its events are emitted and its request is answered.

Source: QuorumController.ControllerWriteEvent, DeferredEventQueue
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
    """The results of one input. They take effect when everything below `required_offset` is committed.

    Attributes:
        epoch: epoch of the controller that decided.
        led_here: numbers of the trace events that caused the input.
    """

    epoch: ControllerEpoch
    required_offset: Offset
    led_here: tuple[int, ...]
    answer: OnReply
    events: list[EmitNumbered] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)


class Chronicle:
    """The decisions of a quorum whose events are not in the trace yet. All controllers of the quorum share it.

    A controller may die after a majority has stored a decision but before the controller knows. The next leader then
    commits the decision and emits its events.
    """

    def __init__(self) -> None:
        self._written: list[Decision] = []

    def wrote(self, decision: Decision) -> None:
        self._written.append(decision)

    def tell(self, high_watermark: Offset, epoch_at: Callable[[Offset], int | None], recorder: Recorder) -> None:
        """Emit the events of all committed decisions, those below `high_watermark`.

        Decisions that a later leader overwrote in the log are dropped.

        Args:
            epoch_at: returns the epoch of the committed log's record at an offset.
        """
        due = [decision for decision in self._written if decision.required_offset <= high_watermark]
        if due:
            self._written = [decision for decision in self._written if decision.required_offset > high_watermark]
            for decision in sorted(due, key=lambda decision: decision.required_offset):
                if epoch_at(decision.required_offset - 1) == decision.epoch:
                    tell(decision, recorder)


class DecisionQueue:
    """One controller's decisions that await their commit, in order.

    A decision without records waits for earlier decisions, on which it may depend.
    """

    def __init__(self, recorder: Recorder, chronicle: Chronicle) -> None:
        self._recorder = recorder
        self._chronicle = chronicle
        self._waiting: deque[tuple[Decision, bool]] = deque()

    def add(self, decision: Decision, *, written: bool) -> None:
        """Add a decision. `written` is True if the decision has records in the log."""
        self._waiting.append((decision, written))
        if written:
            self._chronicle.wrote(decision)

    def take_committed(self, high_watermark: Offset, epoch_at: Callable[[Offset], int | None]) -> list[Decision]:
        """Remove the committed decisions, emit their events, and return them in order."""
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
        """Answer all waiting requests with None. If their decisions are committed, the next leader emits the events."""
        reverted, self._waiting = self._waiting, deque()
        for decision, _ in reverted:
            decision.answer(None)


def tell(decision: Decision, recorder: Recorder) -> None:
    """Emit a decision's events with their causes."""
    numbers: dict[int, int] = {}
    for event in decision.events:
        causes = decision.led_here if event.cause is None else (numbers[event.cause],)
        numbers[event.number] = recorder.emit(event.event, *causes)


# --------------------------------------------------------------------------------------------------------- quorum peers
#
# A controller's connections to the other voters of its quorum. source: KafkaNetworkChannel.java

OnAnswered = Callable[[BrokerId, Request, AnyAnswer | None, int], None]
"""Called with the peer, the request, its response (None if it failed) and the current time."""


class QuorumPeers:
    """The channels to the other voters, one for each, with one request in flight."""

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
        def answered(frame: bytearray | None, now_us: int) -> None:
            answer = None if frame is None else decode_answer(request, frame)
            self._on_answered(peer_id, request, answer, now_us)

        self._channels[peer_id].request(
            api_of(request),
            lambda correlation_id: encode_request(request, correlation_id, self._client_id),
            answered,
            self._timeout_us,
            now_us,
        )
