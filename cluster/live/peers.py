"""The name of a client from outside: `client/` and its client.id, made safe to print.

Letters, digits, `_.-~:` and spaces stay; everything else is spelt as in a URL. No file has such a name.
"""

from __future__ import annotations

from urllib.parse import quote

from cluster.protocol.headers import read_request_header
from replica.errors import PeerViolation
from replica.ids import OUTSIDE

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
