"""TLS for connections of outside clients, on non-blocking sockets.

Differs from Kafka: bytes of records pass through Python here. Kafka cannot use sendfile over TLS either. Connections
between the nodes of the cluster have no TLS. There are no client certificates (ssl.client.auth).

Source: SslTransportLayer, DefaultSslEngineFactory
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Any

from cluster.security import TlsFiles
from replica.causes import ConnectionEnd

RECORD_BYTES = 16 * 1024
"""The maximum number of bytes in one TLS record."""


class TlsFilesInvalid(Exception):
    """The certificate and key cannot be used by a server. The text is the reason."""


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the TLS context of a server.

    Raises:
        TlsFilesInvalid: if the certificate or key cannot be used.
    """

    def no_password() -> str:
        raise TlsFilesInvalid(f"the private key {files.key} is encrypted; give a key file without a password")

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
            raise TlsFilesInvalid(
                f"the private key {files.key} does not belong to the certificate {files.certificate}"
            ) from None
        why = f"{files.certificate} and {files.key} are not a PEM certificate and its key ({error.reason or error})"
        raise TlsFilesInvalid(why) from None
    return context


class TlsSocket(ssl.SSLSocket):
    """The server's end of a TLS connection. The first read includes the handshake.

    Reads and writes raise BlockingIOError while TLS itself has to read or write first.

    Raises:
        OSError: as any socket, also if the peer does not speak TLS.
    """

    is_reset = False

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        try:
            return super().recv_into(buffer)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive raw network bytes. This is only useful with MSG_PEEK."""
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
        """Close the connection with TLS's close_notify message, unless the peer must see a reset."""
        if not self.is_reset:
            with contextlib.suppress(OSError, ValueError):
                self.unwrap()
        super().close()


def secured(sock: socket.socket, context: ssl.SSLContext) -> socket.socket:
    """Wrap an accepted connection in TLS.

    Raises:
        OSError: if the connection has already ended.
    """
    return context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)


def how_it_ended(error: OSError) -> tuple[ConnectionEnd, str | None]:
    """Return how a connection ended, from the error of a failed read, and TLS's own message if there is one."""
    if not isinstance(error, ssl.SSLError):
        return ConnectionEnd.RESET, None
    return ConnectionEnd.TLS_FAILED, error.reason or None
