"""How a broker finds the active controller, and a channel that follows it.

source: RaftControllerNodeProvider, NodeToControllerChannelManager (the raft client knows who leads the metadata log)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cluster.channel import RECONNECT_BACKOFF_US, Channel, OnAnswer
from cluster.messages.envelopes import error_of as envelope_error
from cluster.node import Outbox
from cluster.protocol.primitives import INT16
from cluster.protocol.versions import ENVELOPE, VERSIONS, response_body_position
from replica.errors import ErrorCode
from replica.ids import BrokerId

NO_CONTROLLER_RETRY_US = 100_000
"""source: NodeToControllerRequestThread.doWork, without a controller to talk to"""
MOVED_RETRY_US = 50_000
"""Simplified: after NOT_CONTROLLER Kafka asks at once the node that its raft client names then, even the same."""
_THROTTLE_TIME_BYTES = 4


class ActiveController:
    """Which controller a broker takes for the active one, by the answers to its metadata fetches.

    A controller alone is taken for the active one from the start; of several, none is until one is named.
    """

    def __init__(self, voters: Mapping[BrokerId, tuple[str, int]]) -> None:
        self.voters = dict(voters)
        self.epoch = 0
        self.leader_id: BrokerId | None = next(iter(voters)) if len(voters) == 1 else None

    @property
    def address(self) -> tuple[str, int] | None:
        return None if self.leader_id is None else self.voters.get(self.leader_id)

    def learn(self, leader_id: BrokerId | None, epoch: int) -> None:
        """A node of epoch `epoch` has named the leader of it (None: it does not know)."""
        if len(self.voters) > 1 and (epoch > self.epoch or (epoch == self.epoch and leader_id is not None)):
            self.epoch, self.leader_id = epoch, leader_id


class ControllerChannel:
    """A `Channel` to the active controller; a request that reaches another one is sent on.

    retry_us: so long a request is tried again, over new connections and with new controllers; 0: it fails at once
    """

    def __init__(self, outbox: Outbox, controller: ActiveController, *, retry_us: int) -> None:
        self._outbox = outbox
        self._controller = controller
        self._retry_us = retry_us
        self._channel: Channel | None = None
        self._address: tuple[str, int] | None = None
        self.busy = False

    def request(
        self, api: int, encode: Callable[[int], bytes], on_answer: OnAnswer, timeout_us: int, now_us: int
    ) -> None:
        """As Channel.request. source: NodeToControllerRequestThread.handleResponse, generateRequests"""
        assert not self.busy, "one request in flight per channel"
        self.busy = True
        give_up_us = now_us + self._retry_us

        def attempt(now_us: int) -> None:
            channel = self._to_controller()
            if channel is None:
                again_or_end(None, "no active controller is known", NO_CONTROLLER_RETRY_US, now_us)
            else:
                channel.request(api, encode, answered, timeout_us, now_us)

        def answered(frame: bytearray | None, reason: str, now_us: int) -> None:
            if frame is None:
                again_or_end(frame, reason, RECONNECT_BACKOFF_US, now_us)
            elif _error_of(api, frame) == ErrorCode.NOT_CONTROLLER:
                again_or_end(frame, "", MOVED_RETRY_US, now_us)
            else:
                end(frame, reason, now_us)

        def again_or_end(frame: bytearray | None, reason: str, wait_us: int, now_us: int) -> None:
            if now_us + wait_us < give_up_us:
                self._outbox.timers.at(now_us + wait_us, attempt)
            else:
                end(frame, reason, now_us)

        def end(frame: bytearray | None, reason: str, now_us: int) -> None:
            self.busy = False
            on_answer(frame, reason, now_us)

        attempt(now_us)

    def _to_controller(self) -> Channel | None:
        """The channel to the controller of this moment; one to an earlier one is closed."""
        address = self._controller.address
        if address is not None and address != self._address:
            if self._channel is not None:
                self._channel.close()
            self._channel = Channel(self._outbox, *address)
            self._address = address
        return None if address is None else self._channel


def _error_of(api: int, frame: bytearray) -> int:
    """Answers to a broker's own requests begin with a throttle time and then the error, in all versions; an envelope
    has the error after the enclosed answer."""
    if api == ENVELOPE:
        return envelope_error(frame)
    code: int = INT16.unpack_from(frame, response_body_position(api, VERSIONS[api][0], frame) + _THROTTLE_TIME_BYTES)[0]
    return code
