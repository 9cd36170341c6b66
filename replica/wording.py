"""Small phrases that the sentences in the trace share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def listed(words: Sequence[str]) -> str:
    """`b1`, `b1 and b2`, `b1, b2 and b3`."""
    if len(words) < 2:
        return "".join(words)
    return ", ".join(words[:-1]) + " and " + words[-1]


def set_of(names: Iterable[str]) -> str:
    """`{b1, b2}`."""
    return f"{{{', '.join(names)}}}"


def duration(microseconds: int) -> str:
    """`34.5 s`, `30 s`, `250 ms`: rounded for reading."""
    if abs(microseconds) >= 1_000_000:
        return f"{round(microseconds / 1_000_000, 1):g} s"
    return f"{round(microseconds / 1_000, 1):g} ms"


def torn_bytes(count: int) -> str:
    """What a recovery has found at the end of a log, `; 1 byte was torn and is cut off`, to stand behind a sentence."""
    if count == 0:
        return ""
    return f"; {count:,} {'byte was' if count == 1 else 'bytes were'} torn and {'is' if count == 1 else 'are'} cut off"


SHOWN_MAX = 100


def shown(text: str) -> str:
    """A name chosen by a client or a file, fit for a trace and a screen: only printable characters, bounded."""
    cut = text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + "..."
    return spelt_out(cut)


def shown_if_any(text: str | None) -> str | None:
    return None if text is None else shown(text)


_UUID = re.compile(r"-?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_UUID_OF_KAFKA = re.compile(r"[A-Za-z0-9_-]{22}$")
SUFFIX_CHARACTERS = 6


def member_name(member_id: str, client_id: str = "") -> str:
    """A member of a group, for people: `shop-1f3a9c`, its client.id and the end of its UUID.

    A coordinator puts a UUID behind the client.id or the group.instance.id (KIP-394, KIP-345); with KIP-848 the id is
    a UUID alone, as Kafka's Uuid.toString spells it. An id of another shape is shown as it is.
    """
    found = _UUID.search(member_id)
    if found is not None:
        return shown(f"{member_id[: found.start()] or client_id}-{member_id[-SUFFIX_CHARACTERS:]}")
    if client_id and _UUID_OF_KAFKA.match(member_id):
        return shown(f"{client_id}-{member_id[-SUFFIX_CHARACTERS:]}")
    return shown(member_id)


def spelt_out(text: str) -> str:
    """`text` with what a terminal would obey, or would not show, in letters: `\\x1b`, `\\n`."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
