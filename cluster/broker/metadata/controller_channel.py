"""A broker's view of which controller is active, and a channel that sends requests to that controller.

Source: RaftControllerNodeProvider, NodeToControllerChannelManager (which ask the raft client for the leader)
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
"""Pause between attempts while no controller is known (NodeToControllerRequestThread.doWork)."""
MOVED_RETRY_US = 50_000
"""Pause after NOT_CONTROLLER. Simplified: Kafka immediately retries at the leader that its raft client knows."""
_THROTTLE_TIME_BYTES = 4


class ActiveController:
    """The controller that a broker believes to be active, according to the responses to its metadata fetches.

    A quorum of one is known from the start; in a larger one, no controller is active until a response names it.
    """

    def __init__(self, voters: Mapping[BrokerId, tuple[str, int]]) -> None:
        self.voters = dict(voters)
        self.epoch = 0
        self.leader_id: BrokerId | None = next(iter(voters)) if len(voters) == 1 else None

    @property
    def address(self) -> tuple[str, int] | None:
        return None if self.leader_id is None else self.voters.get(self.leader_id)

    def learn(self, leader_id: BrokerId | None, epoch: int) -> None:
        """Update the active controller from a response, unless a newer epoch is known.

        Args:
            leader_id: leader named in the response, None if it names none.
            epoch: controller epoch in the response.
        """
        if len(self.voters) > 1 and (epoch > self.epoch or (epoch == self.epoch and leader_id is not None)):
            self.epoch, self.leader_id = epoch, leader_id


class ControllerChannel:
    """A `Channel` to the active controller. A request that reached another controller is sent again.

    Args:
        retry_us: how long a request is retried, over new connections and at new controllers; 0 to fail immediately.
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
        """Send a request, like Channel.request.

        Source: NodeToControllerRequestThread.handleResponse, generateRequests
        """
        assert not self.busy, "the channel already has a request in flight"
        self.busy = True
        give_up_us = now_us + self._retry_us

        def attempt(now_us: int) -> None:
            channel = self._to_controller()
            if channel is None:
                again_or_end(None, NO_CONTROLLER_RETRY_US, now_us)
            else:
                channel.request(api, encode, answered, timeout_us, now_us)

        def answered(frame: bytearray | None, now_us: int) -> None:
            if frame is None:
                again_or_end(frame, RECONNECT_BACKOFF_US, now_us)
            elif _error_of(api, frame) == ErrorCode.NOT_CONTROLLER:
                again_or_end(frame, MOVED_RETRY_US, now_us)
            else:
                end(frame, now_us)

        def again_or_end(frame: bytearray | None, wait_us: int, now_us: int) -> None:
            if now_us + wait_us < give_up_us:
                self._outbox.timers.at(now_us + wait_us, attempt)
            else:
                end(frame, now_us)

        def end(frame: bytearray | None, now_us: int) -> None:
            self.busy = False
            on_answer(frame, now_us)

        attempt(now_us)

    def _to_controller(self) -> Channel | None:
        """Return the channel to the known controller, None if there is none. Close one to a former controller."""
        address = self._controller.address
        if address is not None and address != self._address:
            if self._channel is not None:
                self._channel.close()
            self._channel = Channel(self._outbox, *address)
            self._address = address
        return None if address is None else self._channel


def _error_of(api: int, frame: bytearray) -> int:
    """Return the error code in a response.

    All versions of a broker's requests have it after the throttle time at the beginning, except that an envelope has it
    after the enclosed response.
    """
    if api == ENVELOPE:
        return envelope_error(frame)
    code: int = INT16.unpack_from(frame, response_body_position(api, VERSIONS[api][0], frame) + _THROTTLE_TIME_BYTES)[0]
    return code
