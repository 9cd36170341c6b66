"""The other ends of a broker's channels: what is asked of them, to be answered."""

from __future__ import annotations

from typing import Any

from cluster.node import Close, Connect, Outbox, Send
from cluster.protocol import cold
from cluster.protocol.versions import read_request_header


class Peers:
    """asked: each request by the host it went to; closed: connections that the broker has closed"""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.asked: list[tuple[str, Any]] = []
        self.closed: list[str] = []
        self._hosts: dict[int, str] = {}
        self._requests: list[tuple[int, int, int, int]] = []

    def listen(self, now_us: int = 0) -> None:
        """Connections are taken, requests read."""
        while actions := self.outbox.take():
            for action in actions:
                match action:
                    case Connect(connection, host, _):
                        self._hosts[connection] = host
                        self._caller(connection).connected(now_us)
                    case Send(connection, (bytes() as frame,), api):
                        header = read_request_header(frame[4:])
                        self.asked.append((self._hosts[connection], cold.decode_request(header, frame[4:])))
                        self._requests.append((connection, api, header.api_version, header.correlation_id))
                    case Close(connection):
                        self.closed.append(self._hosts[connection])

    def _caller(self, connection: int) -> Any:
        return self.outbox.callers[connection]

    def answer(self, now_us: int = 0, request: int = -1, **values: object) -> None:
        connection, api, version, correlation_id = self._requests[request]
        entity = cold.response(api, version, **values)
        frame = bytearray(cold.encode_response(api, version, correlation_id, entity)[4:])
        self._caller(connection).received(frame, now_us)
        self.listen(now_us)

    def hang_up(self, now_us: int = 0) -> None:
        """The connection of the last request breaks."""
        self._caller(self._requests[-1][0]).disconnected(now_us)
        self.listen(now_us)

    def run(self, now_us: int) -> None:
        self.outbox.timers.run_due(now_us)
        self.listen(now_us)
