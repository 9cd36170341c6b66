"""Escapes control characters in the output of a command, since it may contain text from clients.

A terminal would obey them: move its cursor, change its title, or worse. All output of a command uses this module.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, TextIO

import click

from scenarios.terminal.interruption import ExitCode

_NOT_OURS = re.compile(r"\x1b(?!\[[0-9;]*[mK])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
"""Matches all control characters except line ends, tabs, and the colours and erasures of Highwater's own screens."""


def printable(text: str) -> str:
    """Return `text` with control characters escaped."""
    return _NOT_OURS.sub(lambda found: ascii(found[0])[1:-1], text)


LATEST_CHARACTERS = 8_192


class OutputFailed(click.ClickException):
    """Raised if the output of a command cannot be written."""

    exit_code = int(ExitCode.MISSING)


class SafeOutput:
    """A text stream that escapes control characters.

    If the reader of a pipe has ended (`| head`), the command continues without output and keeps its usual exit code.
    Other errors, such as a full disk, raise OutputFailed.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.latest = ""
        """The last LATEST_CHARACTERS characters of the output, or more if the latest text was longer."""

    def write(self, text: str) -> int:
        if text == "":
            return 0  # click writes "" to test a stream, and ignores the result.
        self.latest = (self.latest + text)[-LATEST_CHARACTERS:] if len(text) < LATEST_CHARACTERS else text
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())  # The rest of the buffer needs a target.
        if not isinstance(error, BrokenPipeError):
            raise OutputFailed(f"the output cannot be written: {error.strerror}") from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def reopen_closed_streams() -> None:
    """Open the null device in place of each standard stream that is closed (`>&-`).

    Otherwise the next opened file would get the stream's file descriptor, and a child process would print into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # The lowest free descriptor is that of the stream.
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))


def clear_screen(stream: TextIO | SafeOutput) -> None:
    """Clear the screen and move the cursor to the upper left corner. Only Highwater's screens may do that."""
    terminal = stream._stream if isinstance(stream, SafeOutput) else stream
    terminal.write("\x1b[H\x1b[J")
