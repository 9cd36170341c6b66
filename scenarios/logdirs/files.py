"""How a file of a log directory is looked at: only regular files, none larger than such a file can be, never written.

A directory may come from anywhere. A link, a pipe or a device in it is not followed, opened or waited for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replica.wording import shown, spelt_out

SMALL_FILE_BYTES_MAX = 64 << 20
"""Of checkpoints and snapshots: a million partitions, or a million producers."""


class LogDirectoryUnreadable(Exception):
    """place: what cannot be read     fix: what to do about it"""

    def __init__(self, place: Path, why: str, fix: str) -> None:
        super().__init__(f"{path_text(place)}: {why}")
        self.fix = fix


def path_text(path: Path) -> str:
    """A path for a message; bytes that are no text, and what a terminal would obey, are spelt out."""
    return spelt_out(os.fsencode(path).decode(errors="backslashreplace"))


def name_text(name: str) -> str:
    """A single name, bounded."""
    return shown(os.fsencode(name).decode(errors="backslashreplace"))


@contextmanager
def readable(place: Path) -> Iterator[None]:
    """raises: LogDirectoryUnreadable instead of an OSError; a file that is gone stays a FileNotFoundError"""
    try:
        yield
    except FileNotFoundError:
        raise
    except PermissionError as error:
        fix = "read it as a user who may (Kafka's own), or a copy: cp -r"
        raise LogDirectoryUnreadable(place, "no permission to read it", fix) from error
    except NotADirectoryError as error:
        file = next(parent for parent in (place, *place.parents) if parent.exists())
        fix = f"give a directory of a broker, such as runs/0001-NAME/logs/b1: {path_text(file)} is a file"
        raise LogDirectoryUnreadable(place, "not a directory" if file == place else "no such directory", fix) from error
    except OSError as error:
        raise LogDirectoryUnreadable(place, str(error.strerror or error), "read a copy: cp -r") from error


def is_there(path: Path) -> bool:
    """Whether a small file can be read.

    raises: LogDirectoryUnreadable if what has its name is no regular file, or too large to be what it should be
    """
    with readable(path):
        try:
            found = path.lstat()
        except FileNotFoundError:
            return False
    if not stat.S_ISREG(found.st_mode):
        raise LogDirectoryUnreadable(path, "it is no regular file", "name a broker's own directory, without links")
    if found.st_size > SMALL_FILE_BYTES_MAX:
        why = f"{found.st_size:,} bytes are too many for such a file"
        raise LogDirectoryUnreadable(path, why, "move it away in a copy of the directory, and read that")
    return True


def open_to_read(path: Path) -> int:
    """A descriptor of a regular file. raises: FileNotFoundError, LogDirectoryUnreadable"""
    with readable(path):
        # Without O_NONBLOCK a pipe would be waited for.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise LogDirectoryUnreadable(path, "it is no regular file", "name a broker's own directory, without links")
    return fd
