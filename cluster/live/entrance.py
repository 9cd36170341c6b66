"""Network faults on the way of a request from outside of the cluster.

Messages of our own machines are delayed, cut or held where they leave (`cluster.network.passage`); an outside client
has no such end, so its requests are held up where they have come in. Kernels have carried them by then; the broker has
not seen them. source: as Passage
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
    """Of one connection. node: the machine that has accepted it"""

    def __init__(self, fabric: TcpFabric, node: str) -> None:
        self._fabric = fabric
        self._node = node
        self._hold: HoldRule | None = None
        self._held_event = NO_EVENT

    def is_clear(self, client: str) -> bool:
        """Nothing holds its requests up: neither of the questions below needs to be asked."""
        network = self._fabric.network
        return self._hold is None and not network.holds and network.link(client, self._node).is_clear

    def arrival_us(self, client: str, frame: bytearray) -> int:
        """When the request would be here if nothing held it up."""
        link = self._fabric.network.link(client, self._node)
        return link.arrival_us(self._fabric.time.now_us, len(frame) + SIZE_BYTES)

    def must_wait(self, client: str, frame: bytearray) -> bool:
        """Whether a cut or a hold keeps it; emits an event when a hold begins to keep it and when it ends."""
        events = self._fabric.events
        api, hold = _api(frame), self._hold_on(client, frame)
        if hold is not None and hold != self._hold:
            self._held_event = events.held(client, self._node, api, REQUEST, hold)
        if hold is None and self._hold is not None:
            events.released(client, self._node, api, REQUEST, self._held_event)
        self._hold = hold
        return hold is not None or self._is_cut(client)

    def lets_in(self, client: str, frame: bytearray) -> bool:
        """Whether no cut and no hold would keep it."""
        return self._hold_on(client, frame) is None and not self._is_cut(client)

    def _hold_on(self, client: str, frame: bytearray) -> HoldRule | None:
        network = self._fabric.network
        return network.hold_on(client, self._node, _api(frame), REQUEST) if network.holds else None

    def _is_cut(self, client: str) -> bool:
        return self._fabric.network.link(client, self._node).is_cut

    def client(self, known_as: str, frame: bytearray, *, is_identified: bool) -> str:
        """The client that sends it, known by its first request."""
        return known_as if is_identified else self._fabric.outsider(client_name(frame, known_as))


def _api(frame: bytearray) -> int:
    return int.from_bytes(frame[:2], "big", signed=True)
