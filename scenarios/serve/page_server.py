"""The page of a running cluster, on loopback: `highwater serve --view`.

Only what has the token is answered, and only GET of the page and of its feed (server-sent events). The token is in the
address, so another user of the machine cannot read along; a page of another site is kept out by Host, Origin and
Sec-Fetch-Site. Nothing here changes the cluster.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
from dataclasses import dataclass

import h11
import trio

from scenarios.view.live_tape import LiveTape, PageProgress

HEAD_BYTES_MAX = 8_192
HEAD_WITHIN_S = 5.0
TAKEN_WITHIN_S = 10.0
"""A page that does not take its part of the feed in this time is dropped; it may ask again."""
PAUSE_S = 0.25
READERS_MAX = 16
STRANGERS_MAX = 64
"""Of more connections that have asked nothing yet, the oldest is closed."""
CHUNK_BYTES = 65_536

HTML = "text/html; charset=utf-8"
FEED = "text/event-stream"
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Door:
    """Whom to answer. port: the one that the page is served on"""

    token: str
    port: int

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/{self.token}/"

    def judge(self, request: h11.Request) -> tuple[int, str]:
        """(200, content type of what is asked for), else (status, reason)."""
        if request.method != b"GET":
            return 405, "only GET"
        if any(name in (b"content-length", b"transfer-encoding") for name, _ in request.headers):
            return 400, "a request here has no body"
        hosts = [f"{name}:{self.port}".encode() for name in (HOST, "localhost")]
        if [value for name, value in request.headers if name == b"host"] not in ([host] for host in hosts):
            return 421, "not the host of this page"
        given = {name: value for name, value in request.headers if name in (b"origin", b"sec-fetch-site")}
        if given.get(b"origin", b"http://" + hosts[0]) not in [b"http://" + host for host in hosts]:
            return 403, "another origin"
        if given.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            return 403, "another site"
        token, _, rest = request.target[1:].partition(b"/")
        if not hmac.compare_digest(token, self.token.encode()) or rest not in (b"", b"events"):
            return 404, "nothing here"
        return 200, FEED if rest else HTML


def open_door() -> tuple[Door, socket.socket]:
    """A port that is free, and a token that no other process knows."""
    listener = socket.create_server((HOST, 0))
    listener.setblocking(False)
    return Door(secrets.token_urlsafe(24), listener.getsockname()[1]), listener


class PageServer:
    """Answers until it is cancelled."""

    def __init__(self, door: Door, page: str, policy: str, tape: LiveTape) -> None:
        self._door = door
        self._page = page.encode()
        self._tape = tape
        self._limit = trio.CapacityLimiter(READERS_MAX)
        self._strangers: dict[trio.CancelScope, None] = {}
        """Connections that have not shown the token, the oldest first."""
        self._headers = [
            ("Content-Security-Policy", f"{policy}; frame-ancestors 'none'"),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ]

    async def serve(self, listener: trio.abc.Listener[trio.abc.Stream]) -> None:
        async with listener, trio.open_nursery() as nursery:
            while True:
                try:
                    stream = await listener.accept()
                except OSError:  # No file descriptor is left for it: the cluster needs them more than a page.
                    await trio.sleep(PAUSE_S)
                    continue
                nursery.start_soon(self._connection, stream)

    async def _connection(self, stream: trio.abc.Stream) -> None:
        """A request with the token waits for a turn; other connections keep none waiting."""
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        try:
            async with stream:
                with trio.move_on_after(HEAD_WITHIN_S + TAKEN_WITHIN_S) as scope:
                    if len(self._strangers) >= STRANGERS_MAX:
                        next(iter(self._strangers)).cancel()
                    self._strangers[scope] = None
                    try:
                        with trio.fail_after(HEAD_WITHIN_S):
                            status, what = await self._request(http, stream)
                        if status != 200:
                            await self._answer(http, stream, status, f"{what}\n".encode(), "text/plain")
                            return
                    finally:
                        del self._strangers[scope]
                if scope.cancelled_caught:
                    return
                async with self._limit:
                    if what == FEED:
                        await self._feed(http, stream)
                    else:
                        await self._answer(http, stream, 200, self._page, HTML)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, h11.LocalProtocolError):
            pass  # The page is gone, or too slow: the cluster does not wait.

    async def _answer(self, http: h11.Connection, stream: trio.abc.Stream, status: int, body: bytes, kind: str) -> None:
        await _send(http, stream, self._head(status, kind, ("Content-Length", str(len(body)))))
        for first in range(0, len(body), CHUNK_BYTES):
            await _send(http, stream, h11.Data(data=body[first : first + CHUNK_BYTES]))

    async def _request(self, http: h11.Connection, stream: trio.abc.Stream) -> tuple[int, str]:
        try:
            while (event := http.next_event()) is h11.NEED_DATA:
                http.receive_data(bytes(await stream.receive_some(HEAD_BYTES_MAX)))
        except h11.RemoteProtocolError as error:
            return error.error_status_hint, "not a request"
        if not isinstance(event, h11.Request):
            raise trio.BrokenResourceError("closed without a request")
        return self._door.judge(event)

    def _head(self, status: int, kind: str, *more: tuple[str, str]) -> h11.Response:
        return h11.Response(status_code=status, headers=[("Content-Type", kind), *more, *self._headers])

    async def _feed(self, http: h11.Connection, stream: trio.abc.Stream) -> None:
        """Without an end. A part without events moves the page's clock, and finds out that a page has gone."""
        await _send(http, stream, self._head(200, FEED))
        progress = PageProgress()
        while True:
            part = json.dumps(self._tape.part(progress), separators=(",", ":"), ensure_ascii=True)
            await _send(http, stream, h11.Data(data=f"data: {part}\n\n".encode()))
            await trio.sleep(0 if self._tape.has_more(progress) else PAUSE_S)


async def _send(http: h11.Connection, stream: trio.abc.Stream, event: h11.Response | h11.Data) -> None:
    data = http.send(event)
    assert data is not None
    with trio.fail_after(TAKEN_WITHIN_S):
        await stream.send_all(data)
