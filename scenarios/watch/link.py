"""A connection to one broker, with TLS and SASL if configured, and with one request in flight at a time."""

from __future__ import annotations

import ssl
import time
from collections.abc import Generator
from typing import TypeVar

import trio
from scramp import ScramClient, ScramException

from cluster.protocol.framing import FrameReader
from cluster.protocol.versions import response_correlation_id
from replica.errors import ErrorCode, PeerViolation
from replica.wording import shown, spelt_out
from scenarios.watch import questions
from scenarios.watch.client_properties import MECHANISMS, SaslSettings, Security
from scenarios.watch.questions import NotSpoken, Speaks, WireQuestion

REQUESTS_PER_SECOND = 10
"""Maximum rate of requests to one broker."""
CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0
FRAME_BYTES_MAX = 64 << 20
SETTINGS = "put security.protocol and its settings into a file, and use --command-config FILE"

T = TypeVar("T")


class LinkFailed(Exception):
    """Raised if a request to a broker fails. `fix` is a remedy if the cluster was never reached before."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class RequestPace:
    """A rate limit on the requests to one broker."""

    def __init__(self, per_second: int = REQUESTS_PER_SECOND) -> None:
        self._between_s = 1 / per_second
        self._next = 0.0

    async def wait(self) -> None:
        at = max(self._next, trio.current_time())
        self._next = at + self._between_s
        await trio.sleep_until(at)


class BrokerLink:
    """An open connection to a broker.

    Attributes:
        asked_since: time.monotonic() at which the request in flight was sent, None if there is none.
    """

    def __init__(self, broker: str, stream: trio.abc.Stream, pace: RequestPace) -> None:
        self.speaks = Speaks({})
        self.asked_since: float | None = None
        self._broker = broker
        self._stream = stream
        self._pace = pace
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._correlation_id = 0
        self._answered = False

    @classmethod
    async def open(cls, host: str, port: int, security: Security, pace: RequestPace) -> BrokerLink:
        """Connect to a broker, request its API versions, and authenticate if configured. Raises LinkFailed."""
        broker = f"{shown(host)}:{port}"
        stream = await _connected(host, port, broker, security.tls)
        link = cls(broker, stream, pace)
        try:
            link.speaks = Speaks(await link.ask(questions.versions()))
            if security.sasl is not None:
                await link._authenticate(security)
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return link

    async def close(self) -> None:
        await trio.aclose_forcefully(self._stream)

    async def ask(self, question: WireQuestion[T]) -> T:
        """Send a request and return the decoded response. Raises LinkFailed, after which the link is unusable."""
        await self._pace.wait()
        self._correlation_id += 1
        self.asked_since = time.monotonic()
        try:
            with trio.fail_after(ANSWER_TIMEOUT_S):
                await self._stream.send_all(question.frame(self._correlation_id))
                frame = await self._frame(question.name)
            if response_correlation_id(frame) != self._correlation_id:
                raise PeerViolation("the correlation ids of request and response differ")
            answer = question.read(frame)
        except trio.TooSlowError:
            raise LinkFailed(
                f"{self._broker} did not answer {question.name} within {ANSWER_TIMEOUT_S:g} s",
                "check that it is running",
            ) from None
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise self._broken(question.name, error) from error
        except PeerViolation as violation:
            raise self._not_kafka(violation) from violation
        self.asked_since = None
        self._answered = True
        return answer

    async def _frame(self, name: str) -> bytearray:
        while True:
            chunk = await self._stream.receive_some(1 << 16)
            if not chunk:
                raise self._closed(name)
            if not self._answered and bytes(chunk[:2]) == b"\x15\x03":
                raise LinkFailed(f"{self._broker} expects TLS", f"set security.protocol=SSL or SASL_SSL: {SETTINGS}")
            frames = self._frames.feed(chunk)
            if len(frames) > 1:
                raise PeerViolation("it sent a response without a request")
            if frames:
                return frames[0]

    # ----------------------------------------------------------------------------------------------------------- SASL

    async def _authenticate(self, security: Security) -> None:
        settings = security.sasl
        assert settings is not None
        error, offered = await self.ask(questions.sasl_handshake(settings.mechanism))
        if error is not ErrorCode.NONE:
            known = ", ".join(item for item in MECHANISMS if item in offered)
            unknown = f"use a broker with one of {', '.join(MECHANISMS)}"
            raise LinkFailed(
                f"{self._broker} does not support sasl.mechanism={settings.mechanism}",
                f"set a mechanism that the broker supports: {known}" if known else unknown,
            )
        messages = exchange(settings)
        message = next(messages)
        try:
            while True:
                error, why, answer = await self.ask(questions.sasl_authenticate(message))
                if error is not ErrorCode.NONE:
                    text = f" ({shown(_without(why, settings.password))})" if why else ""
                    raise LinkFailed(
                        f"{self._broker} refused the user {shown(settings.username)}{text}",
                        "check username, password and sasl.mechanism in the --command-config file",
                    )
                message = messages.send(answer)
        except StopIteration:
            return
        except ServerNotProven as error_of_theirs:
            raise LinkFailed(
                f"{self._broker} did not prove that it has the user's SCRAM credentials: {error_of_theirs}",
                "check the address, the user and sasl.mechanism",
            ) from error_of_theirs

    # --------------------------------------------------------------------------------------------------------- errors

    def _closed(self, name: str) -> LinkFailed:
        if self._answered:
            return LinkFailed(
                f"{self._broker} closed the connection at {name}", f"if the broker requires SASL, {SETTINGS}"
            )
        return LinkFailed(
            f"{self._broker} closed the connection without an answer: it requires TLS, or is not a Kafka broker",
            SETTINGS,
        )

    def _broken(self, name: str, error: Exception) -> LinkFailed:
        if isinstance(error.__cause__, ssl.SSLError):
            return _tls_failed(self._broker, error.__cause__)
        return self._closed(name)

    def _not_kafka(self, violation: PeerViolation) -> LinkFailed:
        what = "violates Kafka's protocol" if self._answered else "does not speak Kafka's protocol"
        return LinkFailed(
            f"{self._broker} {what}: {shown(str(violation))}", "name a broker's listener for clients, as HOST:PORT"
        )


def _without(text: str, password: str) -> str:
    return text.replace(password, "***") if password else text


async def _connected(host: str, port: int, broker: str, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    """Return a TCP or TLS stream to a broker. `broker` is its address for messages. Raises LinkFailed."""
    try:
        with trio.fail_after(CONNECT_TIMEOUT_S):
            stream = await trio.open_tcp_stream(host, port)
            if tls is None:
                return stream
            secured = trio.SSLStream(stream, tls, server_hostname=host, https_compatible=True)
            try:
                await secured.do_handshake()
            except BaseException:
                await trio.aclose_forcefully(stream)
                raise
            return secured
    except trio.TooSlowError:
        raise LinkFailed(
            f"{broker} could not be reached within {CONNECT_TIMEOUT_S:g} s", "check the address and the firewall"
        ) from None
    except trio.BrokenResourceError as error:
        if isinstance(error.__cause__, ssl.SSLError):
            raise _tls_failed(broker, error.__cause__) from error
        raise LinkFailed(f"{broker} ended the TLS handshake", "check security.protocol") from error
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else _first_words(error)
        raise LinkFailed(f"{broker} cannot be reached: {why}", "check the address, and that the broker runs") from error


def _first_words(error: Exception) -> str:
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ExceptionGroup):
        cause = cause.exceptions[0]
    found = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(error)
    return spelt_out(found.rpartition(": ")[2])[:100]


def _tls_failed(broker: str, error: ssl.SSLError) -> LinkFailed:
    if isinstance(error, ssl.SSLCertVerificationError):
        return LinkFailed(
            f"the certificate of {broker} is not trusted: {spelt_out(error.verify_message)}",
            "set ssl.truststore.type=PEM, and ssl.truststore.location to a file with its certificate authority",
        )
    reason = (error.reason or "TLS").replace("_", " ").lower()
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"):
        return LinkFailed(f"{broker} does not use TLS ({reason})", "set security.protocol=PLAINTEXT or SASL_PLAINTEXT")
    return LinkFailed(f"TLS with {broker} failed: {reason}", "check ssl.keystore.location and what the broker requires")


__all__ = ["BrokerLink", "LinkFailed", "NotSpoken", "RequestPace"]


# ----------------------------------------------------------------------------------------------------------------- SASL
#
# The messages of SASL authentication, without I/O. They are sent in SaslAuthenticate, after a SaslHandshake (KIP-152).


class ServerNotProven(Exception):
    """Raised if a broker does not prove with SCRAM that it knows the password, so it may be an impostor."""


def exchange(settings: SaslSettings) -> Generator[bytes, bytes, None]:
    """Yield the client's SASL messages. The caller passes in the broker's answers by `send`. Raises ServerNotProven."""
    if settings.mechanism == "PLAIN":
        yield f"\0{settings.username}\0{settings.password}".encode()
        return
    try:
        client = ScramClient([settings.mechanism], settings.username, settings.password)
        answer = yield client.get_client_first().encode()
        client.set_server_first(answer.decode())
        answer = yield client.get_client_final().encode()
        client.set_server_final(answer.decode())
    except (ScramException, ValueError) as error:
        raise ServerNotProven("its SCRAM messages do not match this user's password") from error
