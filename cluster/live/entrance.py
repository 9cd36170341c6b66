"""Applies network faults to requests from outside the cluster.

Messages of the cluster's own machines are delayed, cut or held at the sender (`cluster.network.passage`). An outside
client is beyond reach, so its requests are delayed at the receiver: after the kernels have delivered them and before
the broker sees them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.live.frames import SIZE_BYTES
from cluster.live.peers import client_name
from cluster.network.links import HoldRule
from cluster.network.passage import NO_EVENT

if TYPE_CHECKING:
    from cluster.live.fabric import TcpFabric

REQUEST = "request"


class Entrance:
    """The faults on requests that arrive at a node over one connection."""

    def __init__(self, fabric: TcpFabric, node: str) -> None:
        self._fabric = fabric
        self._node = node
        self._hold: HoldRule | None = None
        self._held_event = NO_EVENT

    def is_clear(self, client: str) -> bool:
        """Return True if no fault affects the client's requests. The other methods then need not be called."""
        network = self._fabric.network
        return self._hold is None and not network.holds and network.link(client, self._node).is_clear

    def arrival_us(self, client: str, frame: bytearray) -> int:
        """Return the arrival time of a request under the delays of its link."""
        link = self._fabric.network.link(client, self._node)
        return link.arrival_us(self._fabric.time.now_us, len(frame) + SIZE_BYTES)

    def must_wait(self, client: str, frame: bytearray) -> bool:
        """Return True if a cut or a hold stops the request. Emit an event when a hold of it begins or ends."""
        events = self._fabric.events
        api, hold = _api(frame), self._hold_on(client, frame)
        if hold is not None and hold != self._hold:
            self._fabric.network.keeps_another(hold)
            self._held_event = events.held(client, self._node, api, REQUEST, hold)
        if hold is None and self._hold is not None:
            events.released(client, self._node, api, REQUEST, self._held_event)
        self._hold = hold
        return hold is not None or self._is_cut(client)

    def lets_in(self, client: str, frame: bytearray) -> bool:
        """Return True if no cut and no hold would stop the request."""
        return self._hold_on(client, frame) is None and not self._is_cut(client)

    def _hold_on(self, client: str, frame: bytearray) -> HoldRule | None:
        network = self._fabric.network
        return network.hold_on(client, self._node, _api(frame), REQUEST, self._hold) if network.holds else None

    def _is_cut(self, client: str) -> bool:
        return self._fabric.network.link(client, self._node).is_cut

    def client(self, known_as: str, frame: bytearray, *, is_identified: bool) -> str:
        """Return the name of the client that sends a frame; the first request of an unidentified client states it."""
        return known_as if is_identified else self._fabric.outsider(client_name(frame, known_as))


def _api(frame: bytearray) -> int:
    return int.from_bytes(frame[:2], "big", signed=True)
