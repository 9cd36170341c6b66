"""Which request a frame on a connection answers: the APIs of frames that pass, by their headers alone."""

from __future__ import annotations

from collections import deque

HEADER = slice(0, 8)
CLIENT_ID_AT = 8
UNKNOWN_API = -1


class Exchanges:
    """Of one connection. A broker answers in order; a request that wants no answer (acks=0) gets none."""

    def __init__(self) -> None:
        self._open: deque[tuple[int, int]] = deque()

    def request(self, frame: bytes | bytearray) -> int:
        """The API key. source: RequestHeader, whose first fields are the same in all versions"""
        api_key = int.from_bytes(frame[0:2], "big", signed=True)
        self._open.append((int.from_bytes(frame[4:8], "big"), api_key))
        return api_key

    def response(self, frame: bytes | bytearray) -> int:
        """The API key of the request that it answers."""
        correlation = int.from_bytes(frame[0:4], "big")
        while self._open:
            asked, api_key = self._open.popleft()
            if asked == correlation:
                return api_key
        return UNKNOWN_API


def client_id(frame: bytes | bytearray) -> str | None:
    """Of a request's first bytes; None if they are not enough or there is none."""
    if len(frame) < CLIENT_ID_AT + 2:
        return None
    length = int.from_bytes(frame[CLIENT_ID_AT : CLIENT_ID_AT + 2], "big", signed=True)
    text = frame[CLIENT_ID_AT + 2 : CLIENT_ID_AT + 2 + max(0, length)]
    return text.decode("utf-8", "replace") if length > 0 and len(text) == length else None
