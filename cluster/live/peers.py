"""Who is at the other end of a connection: another node, which proves it, or a client from outside.

A node is known by the secret of its run. The end that connects sends a proof first, the end that accepts answers it,
and neither sends or believes anything else before. An address proves nothing: every program on this machine can use it,
and can listen where a node that is down has listened.

A client from outside has the name `client/` and its client.id, made safe to print. Letters, digits, `_.-~:` and spaces
stay; everything else is spelt as in a URL. No file has such a name.
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
"""The link of a connection over which nothing was said yet."""
OUTSIDERS_MAX, OTHERS = 1000, f"{OUTSIDE}others"
"""So many clients have a name of their own in one run; all further ones share a name, and with it a link."""
MAX_NAME_CHARACTERS = 60
HEADER_BYTES = 1024
"""More of a first request is not looked at: a client with a longer name goes by its address."""


def client_name(frame: bytearray, address: str) -> str:
    """The name for traces and links; by its address if its first request does not say who it is."""
    try:
        client_id = read_request_header(frame[:HEADER_BYTES]).client_id
    except PeerViolation:
        client_id = None
    return f"{OUTSIDE}{quote(client_id or address, safe=': ')[:MAX_NAME_CHARACTERS]}"


class RunSecret:
    """The secret of one run. It is made by the process that runs the cluster, which hands it to those of its nodes over
    a pipe: no file, argument or variable of the environment has it.

    Simplified: where Kafka would use TLS or SASL between brokers, only the beginning of a connection is protected; what
    follows stays within the kernel of this machine.
    """

    BEGINNING = b"\xffnode of"
    """No request begins so: its length would be negative."""
    TIME_BYTES = 8
    PROOF_BYTES = len(BEGINNING) + TIME_BYTES + 32
    ANSWER_BYTES = 32

    def __init__(self, key: bytes | None = None) -> None:
        """key: of the run; None: this process begins a run"""
        self.key = secrets.token_bytes(32) if key is None else key

    def proof(self, caller: Address, server: Address) -> bytes:
        """Return the first bytes of a connection that a node has just made from `caller` to `server`."""
        head = self.BEGINNING + time.monotonic_ns().to_bytes(self.TIME_BYTES, "big")
        return head + self._digest(caller, server, head)

    def holds(self, proof: bytes, caller: Address, server: Address, since_ns: int) -> bool:
        """Return True if a node of this run made the proof for this very connection.

        Args:
            since_ns: when the server began to listen, by the clock that all processes of a machine share. An older
                proof was made for the process that listened there before, and may be known to it.
        """
        head = proof[: len(self.BEGINNING) + self.TIME_BYTES]
        is_right = hmac.compare_digest(proof[len(head) :], self._digest(caller, server, head))
        return is_right and int.from_bytes(head[len(self.BEGINNING) :], "big") >= since_ns

    def answer(self, proof: bytes) -> bytes:
        """Return what only a node of this run can answer to a proof."""
        return hmac.digest(self.key, b"accepts " + proof, "sha256")

    def _digest(self, caller: Address, server: Address, head: bytes) -> bytes:
        text = f"connects {caller[0]}:{caller[1]} {server[0]}:{server[1]} "
        return hmac.digest(self.key, text.encode() + head, "sha256")
