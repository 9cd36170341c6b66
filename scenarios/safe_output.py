"""What clients have chosen, such as the name of a topic that does not exist, is printed, never as control characters.

A terminal obeys them: they move its cursor, change its title, or worse. So whatever a command prints passes here.
"""

from __future__ import annotations

import re
from typing import Any, TextIO

_NOT_OURS = re.compile(r"\x1b(?!\[[0-9;]*[mK])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
"""All but line ends, tabs, and the colours and erased lines that our own screens are made of."""


def printable(text: str) -> str:
    """`text` with control characters spelt out."""
    return _NOT_OURS.sub(lambda found: ascii(found[0])[1:-1], text)


class SafeOutput:
    """A text stream that prints control characters instead of sending them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
