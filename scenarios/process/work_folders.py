"""Folders that are gone when their owner is: runs that are played until they are kept, and all else that is temporary.

Making one removes those of killed owners first, which is what works for SIGKILL. A lock says whose owner lives:
it ends with the owner, however that ends, and is seen from other containers, where a process id says nothing.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = ".run-"
TEMPORARY = "highwater-temporary-"
"""Of folders in a temporary directory, which others use, too."""
_IN_MEMORY = Path("/dev/shm")  # noqa: S108  Files get names there as in any temporary directory.
_ROOM_BYTES = 1 << 30


def folder_in_memory() -> str | None:
    """Where many small runs one after the other make and remove their files without waiting for a disk: on some, 50 ms
    for the directories of one run. A large run belongs on a disk, for a file system in memory may fill up.

    returns: None where the temporary directory is to be used: it was chosen (TMPDIR), or there is no such room
    """
    if "TMPDIR" in os.environ or not os.access(_IN_MEMORY, os.W_OK | os.X_OK):
        return None
    found = os.statvfs(_IN_MEMORY)
    return str(_IN_MEMORY) if found.f_bavail * found.f_frsize >= _ROOM_BYTES else None


@contextmanager
def work_folder(runs_dir: Path | None) -> Iterator[Path]:
    """Empty, below `runs_dir` or the system's temporary directory, and gone afterwards, unless it was renamed.

    Its owner holds a lock on it, which ends with the owner, however that ends: what former owners have left in
    `runs_dir` is removed first. raises: OSError
    """
    if runs_dir is None:
        with temporary_folder() as temporary:
            yield temporary
        return
    runs_dir.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(runs_dir, PREFIX)
    own, lock = _locked_folder(runs_dir, PREFIX)
    try:
        yield own
    finally:
        with suppress(FileNotFoundError):  # Its owner has given it its final name.
            shutil.rmtree(own)
        os.close(lock)


@contextmanager
def temporary_folder(within: str | None = None) -> Iterator[Path]:
    """Empty, in the system's temporary directory, or `within` another one, and gone afterwards."""
    own, lock = _temporary(within)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        os.close(lock)


def have_own_temporary_folder() -> str | None:
    """From here on, what this process writes to the temporary directory goes to a folder that is gone when it ends.

    returns: the setting before, for `tempfile.tempdir`
    """
    before = tempfile.tempdir
    own, _ = _temporary(None)
    tempfile.tempdir = str(own)
    atexit.register(_leave, own)  # What is registered first is called last: a JVM that writes there has ended.
    return before


def _leave(own: Path) -> None:
    """The JVM of a killed owner may have written for some seconds more, so what it left is looked for here again."""
    shutil.rmtree(own, ignore_errors=True)
    _remove_abandoned(own.parent, TEMPORARY)


def _temporary(within: str | None) -> tuple[Path, int]:
    parent = Path(within or tempfile.gettempdir())
    _remove_abandoned(parent, TEMPORARY)
    return _locked_folder(parent, TEMPORARY)


def _locked_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """And the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):  # Another start has removed it before it was locked.
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # A file system without locks: there nothing is ever removed.
                fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Errors are left to the next start. Others may have put links or folders of theirs there."""
    for folder in sorted(parent.glob(f"{prefix}*")):
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.getuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
            finally:
                os.close(descriptor)
