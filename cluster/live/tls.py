"""TLS of connections from outside, on sockets that never wait.

# Differs from Kafka: bytes of records pass through Python here; Kafka, too, cannot sendfile over TLS. Connections
between the nodes of the cluster have no TLS. There are no certificates of clients (ssl.client.auth).
source: SslTransportLayer, DefaultSslEngineFactory
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Any

from cluster.security import TlsFiles
from replica.causes import ConnectionEnd

RECORD_BYTES = 16 * 1024
"""The most that one record of TLS carries."""


class TlsFilesInvalid(Exception):
    """A certificate and key that no server can use; the text says why."""


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """raises: TlsFilesInvalid"""

    def no_password() -> str:
        raise TlsFilesInvalid(f"the key {files.key} is encrypted; it must be there without a password")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # ssl.enabled.protocols
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.sslsocket_class = TlsSocket
    for file in files:
        try:
            file.open("rb").close()
        except OSError as error:
            raise TlsFilesInvalid(f"{file} cannot be read: {error.strerror}") from None
    try:
        context.load_cert_chain(files.certificate, files.key, no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsFilesInvalid(f"the key {files.key} is not that of the certificate {files.certificate}") from None
        why = f"{files.certificate} and {files.key} are no certificate and key in PEM ({error.reason or error})"
        raise TlsFilesInvalid(why) from None
    return context


class TlsSocket(ssl.SSLSocket):
    """Our end. Where TLS itself has to read or write first, that is as if the socket was not ready.

    The handshake is part of the first read. raises: OSError, as any socket, also for what is no TLS
    """

    is_reset = False

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        try:
            return super().recv_into(buffer)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """With MSG_PEEK: of what came over the network, not of what it says."""
        return socket.socket.recv(self, buflen, flags)

    def send(self, data: Any, flags: int = 0) -> int:
        try:
            return super().send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def setsockopt(self, *args: Any) -> None:
        self.is_reset = self.is_reset or args[:2] == (socket.SOL_SOCKET, socket.SO_LINGER)
        super().setsockopt(*args)

    def close(self) -> None:
        """With a word of TLS to the other end, unless it is to see a reset."""
        if not self.is_reset:
            with contextlib.suppress(OSError, ValueError):
                self.unwrap()
        super().close()


def secured(sock: socket.socket, context: ssl.SSLContext) -> socket.socket:
    """An accepted connection. raises: OSError if it is over already"""
    return context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)


def how_it_ended(error: OSError) -> tuple[ConnectionEnd, str | None]:
    """Of a read that failed; with the message of TLS, if it was that."""
    if not isinstance(error, ssl.SSLError):
        return ConnectionEnd.RESET, None
    return ConnectionEnd.TLS_FAILED, error.reason or None
