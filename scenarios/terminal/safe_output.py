"""Text from clients, such as the name of a topic that does not exist, is printed, but never as control characters.

A terminal obeys them: they move its cursor, change its title, or worse. So all output of a command passes here.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, TextIO

import click

from scenarios.terminal.interruption import ExitCode

_NOT_OURS = re.compile(r"\x1b(?!\[[0-9;]*[mK])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
"""All but line ends, tabs, and the colours and erased lines that our own screens are made of."""


def printable(text: str) -> str:
    """`text` with control characters spelt out."""
    return _NOT_OURS.sub(lambda found: ascii(found[0])[1:-1], text)


class OutputFailed(click.ClickException):
    """The output of a command cannot be written."""

    exit_code = int(ExitCode.MISSING)


class SafeOutput:
    """A text stream that prints control characters instead of sending them.

    When its reader has gone (`| head`), the command goes on in silence: its exit code still says how it ended.
    raises: OutputFailed, such as on a full disk
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if text == "":
            return 0  # click tries a stream with nothing, and keeps to itself how that went.
        try:
            self._stream.write(printable(text))
        except OSError as error:
            self._fall_silent(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._fall_silent(error)

    def _fall_silent(self, error: OSError) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())  # The rest of the buffer must go somewhere.
        if not isinstance(error, BrokenPipeError):
            raise OutputFailed(f"the output cannot be written: {error.strerror}") from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def reopen_closed_streams() -> None:
    """A standard stream that the caller has closed (`>&-`) leads nowhere. Else there is no object to write to, and the
    next file to be opened has the number of the stream: a child process would print into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is that of the stream
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))


def clear_screen(stream: TextIO | SafeOutput) -> None:
    """Cursor to the upper left, and nothing below it: only Highwater's screens may do that, no text shown on them."""
    terminal = stream._stream if isinstance(stream, SafeOutput) else stream
    terminal.write("\x1b[H\x1b[J")
