"""A controller's connections to the other voters of its quorum. source: KafkaNetworkChannel.java"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cluster.channel import Channel, Channels
from cluster.messages.quorum import api_of, decode_answer, encode_request
from cluster.outbox import Outbox
from controller.quorum.messages import AnyAnswer, Request
from replica.ids import BrokerId

OnAnswered = Callable[[BrokerId, Request, AnyAnswer | None, int], None]
"""(peer, what it was asked, its answer or None, now_us)"""


class QuorumPeers:
    """One channel per voter, one request in flight on each."""

    def __init__(
        self,
        *,
        client_id: str,
        outbox: Outbox,
        channels: Channels,
        addresses: Mapping[BrokerId, tuple[str, int]],
        request_timeout_ms: int,
        on_answered: OnAnswered,
    ) -> None:
        self._client_id = client_id
        self._timeout_us = request_timeout_ms * 1000
        self._on_answered = on_answered
        self._channels = {peer: Channel(outbox, channels, *address) for peer, address in addresses.items()}

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
