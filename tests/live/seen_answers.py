"""What came back to those who attack: how many answers, the largest and the slowest of each API."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections import Counter

from cluster.protocol.versions import api_name


class SeenAnswers:
    """The first answer of each connection, by the size in front of it. It stays unread, as an attacker leaves it.

    Times are as exact as `look` is frequent. A connection that was closed early counts as silent.
    """

    def __init__(self) -> None:
        self._waiting = selectors.DefaultSelector()
        self.asked: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self.closed: Counter[int] = Counter()
        self.largest_bytes: Counter[int] = Counter()
        self.slowest_s: Counter[int] = Counter()

    def expect(self, sock: socket.socket, frame: bytes) -> None:
        (key,) = struct.unpack_from(">h", frame)
        self.asked[key] += 1
        self._waiting.register(sock, selectors.EVENT_READ, (key, time.monotonic()))

    def look(self) -> None:
        for entry, _ in self._waiting.select(0):
            key, began = entry.data
            assert isinstance(entry.fileobj, socket.socket)
            try:
                head = entry.fileobj.recv(4, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except ConnectionError:
                head = b""
            if 0 < len(head) < 4:
                continue
            self._waiting.unregister(entry.fileobj)
            if not head:
                self.closed[key] += 1
                continue
            self.answered[key] += 1
            self.largest_bytes[key] = max(self.largest_bytes[key], *struct.unpack(">i", head))
            self.slowest_s[key] = max(self.slowest_s[key], time.monotonic() - began)

    def forget(self, sock: socket.socket) -> None:
        """Before it is closed."""
        if sock in self._waiting.get_map():
            self._waiting.unregister(sock)

    def lines(self) -> list[str]:
        """One for each API: connections, answers, closed by the broker, largest answer, slowest one."""
        return [
            f"{api_name(key)}: {asked:,} asked, {self.answered[key]:,} answered, {self.closed[key]:,} closed, "
            f"largest {self.largest_bytes[key]:,} bytes, slowest {self.slowest_s[key]:.2f} s"
            for key, asked in sorted(self.asked.items())
        ]
