"""Functions that format names, lists and durations for the sentences of the trace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence, such as `b1`, `b1 and b2`, or `b1, b2 and b3`."""
    if len(words) < 2:
        return "".join(words)
    return ", ".join(words[:-1]) + " and " + words[-1]


def set_of(names: Iterable[str]) -> str:
    """Return names as a set, such as `{b1, b2}`."""
    return f"{{{', '.join(names)}}}"


def duration(microseconds: int) -> str:
    """Return a duration as rounded text, such as `34.5 s`, `30 s` or `250 ms`."""
    if abs(microseconds) >= 1_000_000:
        return f"{round(microseconds / 1_000_000, 1):g} s"
    return f"{round(microseconds / 1_000, 1):g} ms"


SHOWN_MAX = 100


def shown(text: str) -> str:
    """Return a name that a client or a file chose, with a limited length and unprintable characters escaped."""
    cut = text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + "..."
    return spelt_out(cut)


def shown_if_any(text: str | None) -> str | None:
    return None if text is None else shown(text)


_UUID = re.compile(r"-?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_UUID_OF_KAFKA = re.compile(r"[A-Za-z0-9_-]{22}$")
SUFFIX_CHARACTERS = 6


def member_name(member_id: str, client_id: str = "") -> str:
    """Return a short name of a group member, such as `shop-1f3a9c`: the client.id and the end of the UUID.

    A coordinator appends a UUID to the client.id or the group.instance.id (KIP-394, KIP-345). With KIP-848 the id is
    only a UUID, in the form of Kafka's Uuid.toString. Any other id is returned unchanged.
    """
    match = _UUID.search(member_id)
    if match is not None:
        return shown(f"{member_id[: match.start()] or client_id}-{member_id[-SUFFIX_CHARACTERS:]}")
    if client_id and _UUID_OF_KAFKA.match(member_id):
        return shown(f"{client_id}-{member_id[-SUFFIX_CHARACTERS:]}")
    return shown(member_id)


def spelt_out(text: str) -> str:
    """Return `text` with control characters and other unprintable characters escaped, such as `\x1b` or `\n`."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
