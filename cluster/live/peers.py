"""Identifies the other end of a connection: a node of the run by a proof, an outside client by a name.

A node has the secret of its run. The connecting end sends a proof first and the accepting end answers it. Before that,
neither end sends or accepts anything else. An address proves nothing, because any program on this machine can use it,
and can listen on the port of a node that is down.

An outside client is named `client/` and its client.id, made safe to print. Letters, digits, `_.-~:` and spaces stay;
other characters are escaped as in a URL. No machine in a scenario has such a name.
"""

from __future__ import annotations

import hmac
import secrets
import time
from urllib.parse import quote

from cluster.protocol.versions import read_request_header
from replica.errors import PeerViolation
from replica.ids import OUTSIDE

Address = tuple[str, int]

UNNAMED = f"{OUTSIDE}-"
"""The name of the peer of a connection that has not carried a request yet."""
OUTSIDERS_MAX, OTHERS = 1000, f"{OUTSIDE}others"
"""The maximum number of clients with a name of their own in one run.

Further clients share a name, and with it a link.
"""
MAX_NAME_CHARACTERS = 60
HEADER_BYTES = 1024
"""The number of bytes of a first request in which client.id is searched.

A client with a longer client.id is named by its address.
"""


def client_name(frame: bytearray, address: str) -> str:
    """Return a client's name for traces and links, from its first request.

    Without a client.id it contains the address.
    """
    try:
        client_id = read_request_header(frame[:HEADER_BYTES]).client_id
    except PeerViolation:
        client_id = None
    return f"{OUTSIDE}{quote(client_id or address, safe=': ')[:MAX_NAME_CHARACTERS]}"


class RunSecret:
    """The secret of one run.

    The process that runs the cluster creates it and passes it to node processes over a pipe, so that no file, argument
    or environment variable contains it.

    Simplified: where Kafka would use TLS or SASL between brokers, only the beginning of a connection is protected.
    Later data stays within the kernel of this machine.
    """

    BEGINNING = b"\xffnode of"
    """The first bytes of a proof. No request begins with them, because its length would be negative."""
    TIME_BYTES = 8
    PROOF_BYTES = len(BEGINNING) + TIME_BYTES + 32
    ANSWER_BYTES = 32

    def __init__(self, key: bytes | None = None) -> None:
        """Create the secret of a new run, or use `key` as the secret of a run that another process has started."""
        self.key = secrets.token_bytes(32) if key is None else key

    def proof(self, caller: Address, server: Address) -> bytes:
        """Return the proof with which a node begins a connection that it has just opened from `caller` to `server`."""
        head = self.BEGINNING + time.monotonic_ns().to_bytes(self.TIME_BYTES, "big")
        return head + self._digest(caller, server, head)

    def holds(self, proof: bytes, caller: Address, server: Address, since_ns: int) -> bool:
        """Return True if a node of this run made the proof for this connection.

        Args:
            since_ns: time at which the server began to listen, by the clock that all processes of a machine share. An
                older proof was made for the process that listened there before, and that process may know it.
        """
        head = proof[: len(self.BEGINNING) + self.TIME_BYTES]
        is_right = hmac.compare_digest(proof[len(head) :], self._digest(caller, server, head))
        return is_right and int.from_bytes(head[len(self.BEGINNING) :], "big") >= since_ns

    def answer(self, proof: bytes) -> bytes:
        """Return the answer to a proof. Only a node of this run can compute it."""
        return hmac.digest(self.key, b"accepts " + proof, "sha256")

    def _digest(self, caller: Address, server: Address, head: bytes) -> bytes:
        text = f"connects {caller[0]}:{caller[1]} {server[0]}:{server[1]} "
        return hmac.digest(self.key, text.encode() + head, "sha256")
