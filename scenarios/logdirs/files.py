"""Opens the files of a log directory safely: only regular files of plausible size, and only for reading.

A directory may come from anywhere, so links are not followed, and pipes and devices are not opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replica.wording import shown, spelt_out

SMALL_FILE_BYTES_MAX = 64 << 20
"""Largest size of a checkpoint or snapshot that is read, enough for a million partitions or producers."""


class LogDirectoryUnreadable(Exception):
    """Raised if a log directory cannot be read. `fix` is a remedy."""

    def __init__(self, folder: Path, why: str, fix: str) -> None:
        super().__init__(f"{path_text(folder)}: {why}")
        self.fix = fix


def path_text(path: Path) -> str:
    """Return a path for a message, with undecodable bytes and control characters escaped."""
    return spelt_out(os.fsencode(path).decode(errors="backslashreplace"))


def name_text(name: str) -> str:
    """Return a file name for a message, escaped and shortened."""
    return shown(os.fsencode(name).decode(errors="backslashreplace"))


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Convert an OSError in the block to LogDirectoryUnreadable with a remedy, except for FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except PermissionError as error:
        fix = "run highwater as the user of the Kafka broker, or read a copy made with cp -r"
        raise LogDirectoryUnreadable(folder, "no permission to read it", fix) from error
    except NotADirectoryError as error:
        file = next(parent for parent in (folder, *folder.parents) if parent.exists())
        fix = f"{path_text(file)} is a file; name a log directory of a broker, such as runs/0001-NAME/logs/b1"
        raise LogDirectoryUnreadable(
            folder, "not a directory" if file == folder else "no such directory", fix
        ) from error
    except OSError as error:
        raise LogDirectoryUnreadable(folder, str(error.strerror or error), "read a copy made with cp -r") from error


def is_there(path: Path) -> bool:
    """Return True if a checkpoint or another small file exists.

    Raises:
        LogDirectoryUnreadable: the file is not a regular file, or is larger than SMALL_FILE_BYTES_MAX.
    """
    with readable(path):
        try:
            found = path.lstat()
        except FileNotFoundError:
            return False
    if not stat.S_ISREG(found.st_mode):
        raise LogDirectoryUnreadable(
            path, "it is not a regular file", "name the log directory of a broker itself, without symbolic links"
        )
    if found.st_size > SMALL_FILE_BYTES_MAX:
        why = f"the file has {found.st_size:,} bytes; at most {SMALL_FILE_BYTES_MAX:,} are read"
        raise LogDirectoryUnreadable(path, why, "copy the directory, remove the file from the copy, and read the copy")
    return True


def open_to_read(path: Path) -> int:
    """Open a regular file for reading and return its descriptor. Raises FileNotFoundError, LogDirectoryUnreadable."""
    with readable(path):
        # Without O_NONBLOCK, opening a pipe would block.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise LogDirectoryUnreadable(
            path, "it is not a regular file", "name the log directory of a broker itself, without symbolic links"
        )
    return fd
