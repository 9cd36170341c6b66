"""An HTTP server for the page of a running cluster (`highwater serve --view`) or of `highwater play`.

The server answers only requests with its secret token in the URL, so other users of the machine cannot read the page:
GET of the page and of its feed (server-sent events), and POST of the page's commands, if it has any. Requests from
pages of other sites are refused by their Host, Origin and Sec-Fetch-Site. `play --bind` listens on the network and has
a second token for viewers, which allows GET of a separate page and of the feed, but no POST.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import secrets
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Protocol

import h11
import trio

HEAD_BYTES_MAX = 8_192
HEAD_WITHIN_S = 5.0
TAKEN_WITHIN_S = 10.0
"""Seconds that a page has to read a part of the feed. A slower page is disconnected and may connect again."""
PAUSE_S = 0.25
READERS_MAX = 16
STRANGERS_MAX = 64
"""Largest number of connections that have not sent a valid request yet. One more connection closes the oldest."""
CHUNK_BYTES = 65_536
BODY_BYTES_MAX = 512 << 10

Post = Callable[[bytes], Awaitable[object]]
"""A handler that gets the body of a POST request and returns the answer, which is sent as JSON."""


class Feed(Protocol):
    """A stream of events for pages. Each page has its own position (`progress`) in the stream."""

    def begin(self) -> Any:
        """Return the position at the beginning, for a new page."""

    def part(self, progress: Any) -> dict[str, Any]:
        """Return the part of the stream at a position, and advance the position. The part may be empty."""

    def has_more(self, progress: Any) -> bool:
        """Return True if the part at this position would not be empty."""


HTML = "text/html; charset=utf-8"
WATCH = "watch"
"""Result of `Door.judge` for the page of viewers."""
FEED = "text/event-stream"
JSON = "application/json"
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Door:
    """The address of a page, and the checks of requests to it.

    Attributes:
        token: secret part of the URL.
        posts: handlers of POST requests, by the last part of the URL.
        names: host names and addresses of the page. Other machines can use those before 127.0.0.1.
        watch_token: token of viewers, None if there are none.
    """

    token: str
    port: int
    posts: Mapping[str, Post] = field(default_factory=dict)
    names: tuple[str, ...] = (HOST, "localhost")
    watch_token: str | None = None

    @property
    def address(self) -> str:
        return self.addresses_with(self.token)[0]

    def addresses_with(self, token: str) -> list[str]:
        """Return the URLs with a token that other machines can reach or, if there are none, one for this machine."""
        reachable = list(takewhile(HOST.__ne__, self.names)) or self.names[:1]
        return [f"http://{name}:{self.port}/{token}/" for name in reachable]

    def judge(self, request: h11.Request) -> tuple[int, str]:
        """Decide whether a request is answered.

        Returns:
            (200, FEED, HTML, WATCH, or the name of a POST handler), or (HTTP error status, reason).
        """
        is_post = request.method == b"POST" and bool(self.posts)
        if request.method != b"GET" and not is_post:
            return 405, "only GET"
        if not is_post and any(name in (b"content-length", b"transfer-encoding") for name, _ in request.headers):
            return 400, "a request to this page must have no body"
        hosts = [f"{name}:{self.port}".encode() for name in self.names]
        if [value for name, value in request.headers if name == b"host"] not in ([host] for host in hosts):
            return 421, "not the host of this page"
        values = {name: value for name, value in request.headers if name in (b"origin", b"sec-fetch-site")}
        # Browsers send the Origin header with every POST.
        if values.get(b"origin", b"" if is_post else b"http://" + hosts[0]) not in [
            b"http://" + host for host in hosts
        ]:
            return 403, "another origin"
        if values.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            return 403, "another site"
        token, _, rest = request.target[1:].partition(b"/")
        known = [name.encode() for name in self.posts] if is_post else (b"", b"events")
        may_watch = self.watch_token is not None and hmac.compare_digest(token, self.watch_token.encode())
        if not (hmac.compare_digest(token, self.token.encode()) or may_watch) or rest not in known:
            return 404, "nothing here"
        if is_post:
            return (403, "this address is read-only") if may_watch else (200, rest.decode())
        return 200, FEED if rest else WATCH if may_watch else HTML


def open_door(posts: Mapping[str, Post] | None = None) -> tuple[Door, socket.socket]:
    """Listen on a free port of the loopback interface. Return the page's address, with a new token, and the socket."""
    listener = socket.create_server((HOST, 0))
    listener.setblocking(False)
    return Door(secrets.token_urlsafe(24), listener.getsockname()[1], posts or {}), listener


def open_shared_door(host: str, port: int, posts: Mapping[str, Post]) -> tuple[Door, socket.socket]:
    """Listen on the network. Return the page's address, with a second token for viewers, and the socket.

    Args:
        host: name or IPv4 address to listen on, 0.0.0.0 for all interfaces.
        port: port to listen on, 0 for any free port.

    Raises:
        OSError: the address cannot be used.
    """
    listener = socket.create_server((host, port))
    listener.setblocking(False)
    own = [listener.getsockname()[0]]
    if own == ["0.0.0.0"]:  # noqa: S104
        own = [*_reachable_addresses(), HOST, "localhost", socket.gethostname()]
    names = tuple(dict.fromkeys(own if host in ("", "0.0.0.0") else (host, *own)))  # noqa: S104
    tokens = (secrets.token_urlsafe(24), secrets.token_urlsafe(24))
    return Door(tokens[0], listener.getsockname()[1], posts, names, tokens[1]), listener


_SIOCGIFADDR = 0x8915


def _reachable_addresses() -> list[str]:
    """Return the IPv4 addresses of this machine except those of the loopback interface."""
    found: list[str] = []
    for _, name in socket.if_nameindex() if sys.platform == "linux" else ():  # _SIOCGIFADDR is a number of Linux.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked, suppress(OSError):  # Some have no address.
            answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()))
            found.append(socket.inet_ntoa(answer[20:24]))
    with suppress(OSError):
        found += [str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    return [address for address in dict.fromkeys(found) if not address.startswith("127.")]


class PageServer:
    """Serves a page and its feed over HTTP until cancelled.

    Args:
        page: HTML of the page.
        policy: Content-Security-Policy of the page.
        feed: events for the page, None if there are none.
        watch_page: HTML of the page for viewers.
        readers_max: largest number of connections that are served at the same time.
    """

    def __init__(
        self,
        door: Door,
        page: str,
        policy: str,
        feed: Feed | None,
        watch_page: str = "",
        readers_max: int = READERS_MAX,
    ) -> None:
        self._door = door
        self._pages = {HTML: page.encode(), WATCH: watch_page.encode()}
        self._feed = feed
        self._limit = trio.CapacityLimiter(readers_max)
        self._strangers: dict[trio.CancelScope, None] = {}
        """Connections that have not sent the token yet, the oldest first."""
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
                except OSError:  # No file descriptor is left. Wait, since the cluster needs them more than a page.
                    await trio.sleep(PAUSE_S)
                    continue
                nursery.start_soon(self._connection, stream)

    async def _connection(self, stream: trio.abc.Stream) -> None:
        """Answer the request of a connection.

        A valid request waits for one of `readers_max` slots. Connections without the token do not occupy slots.
        """
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
                            body = await self._body(http, stream) if what in self._door.posts else b""
                        if body is None:
                            status, what = 413, "too long"
                        if what == FEED and self._feed is None:
                            status, what = 404, "nothing here"
                        if status != 200:
                            await self._answer(http, stream, status, f"{what}\n".encode(), "text/plain")
                            return
                    finally:
                        del self._strangers[scope]
                if scope.cancelled_caught:
                    return
                async with self._limit:
                    if what == FEED and self._feed is not None:
                        await self._tell(http, stream, self._feed)
                    elif body is not None and what in self._door.posts:
                        answer = json.dumps(await self._door.posts[what](body), separators=(",", ":"))
                        await self._answer(http, stream, 200, answer.encode(), JSON)
                    else:
                        await self._answer(http, stream, 200, self._pages[what], HTML)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, h11.LocalProtocolError, h11.RemoteProtocolError):
            pass  # The page has closed the connection or is too slow. The cluster does not wait for it.

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
            raise trio.BrokenResourceError("the peer closed the connection without a request")
        return self._door.judge(event)

    async def _body(self, http: h11.Connection, stream: trio.abc.Stream) -> bytes | None:
        """Return the body of a request, or None if it is longer than BODY_BYTES_MAX."""
        body = bytearray()
        while not isinstance(event := http.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                http.receive_data(bytes(await stream.receive_some(CHUNK_BYTES)))
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > BODY_BYTES_MAX:
                    return None
            else:
                raise trio.BrokenResourceError("the peer closed the connection within a request")
        return bytes(body)

    def _head(self, status: int, kind: str, *more: tuple[str, str]) -> h11.Response:
        return h11.Response(status_code=status, headers=[("Content-Type", kind), *more, *self._headers])

    async def _tell(self, http: h11.Connection, stream: trio.abc.Stream, feed: Feed) -> None:
        """Send the feed until the page closes the connection.

        Empty parts are sent, too: they set the page's clock, and sending them fails if the page has disconnected.
        """
        await _send(http, stream, self._head(200, FEED))
        progress = feed.begin()
        while True:
            part = json.dumps(feed.part(progress), separators=(",", ":"), ensure_ascii=True)
            await _send(http, stream, h11.Data(data=f"data: {part}\n\n".encode()))
            await trio.sleep(0 if feed.has_more(progress) else PAUSE_S)


async def _send(http: h11.Connection, stream: trio.abc.Stream, event: h11.Response | h11.Data) -> None:
    data = http.send(event)
    assert data is not None
    with trio.fail_after(TAKEN_WITHIN_S):
        await stream.send_all(data)
