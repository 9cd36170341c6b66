"""Folders that are gone when their owner is: runs that are played until they are kept, and all else that is temporary.

Making one removes those of killed owners first, which is what works for SIGKILL. A lock says whose owner lives:
it ends with the owner, however that ends, and is seen from other containers, where a process id says nothing.
What a killed live cluster has left has the scenario's lock file from the beginning: it is kept as a run without a
verdict.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = ".run-"
TEMPORARY = "highwater-temporary-"
"""Of folders in a temporary directory, which others use, too."""
LOCK_FILE = "scenario.lock.yaml"
UNJUDGED = "-unjudged"
"""At the end of the name of what is kept of a run that has no verdict."""
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
    keep_abandoned(runs_dir)
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


def keep_abandoned(runs_dir: Path) -> None:
    """Name what killed live clusters have left, and remove what others have. Errors are left to the next start."""

    def keep(folder: Path) -> None:
        if (folder / LOCK_FILE).is_file() and any(folder.glob("trace/*/*.parquet")):
            with next_run_dir(runs_dir, f"serve{UNJUDGED}") as run_dir:
                name_folder(folder, run_dir)
        else:
            shutil.rmtree(folder)

    _of_dead_owners(runs_dir, PREFIX, keep)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    _of_dead_owners(parent, prefix, shutil.rmtree)


def _of_dead_owners(parent: Path, prefix: str, dispose: Callable[[Path], object]) -> None:
    """Errors are left to the next start. Others may have put links or folders of theirs there."""
    for folder in sorted(parent.glob(f"{prefix}*")):
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.getuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    dispose(folder)
            finally:
                os.close(descriptor)


@contextmanager
def next_run_dir(runs_dir: Path, name: str) -> Iterator[Path]:
    """`runs/0007-name`: one more than the largest number there is. Until the end of the block no other process of this
    machine is given a number there, so that runs which end together are all kept.
    """
    folder = os.open(runs_dir, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        starts = [path.name.partition("-")[0] for path in runs_dir.iterdir()]
        numbers = [int(start) for start in starts if start.isdecimal()]
        yield runs_dir / f"{max(numbers, default=0) + 1:04d}-{name}"
    finally:
        os.close(folder)


def name_folder(work_dir: Path, run_dir: Path) -> None:
    work_dir.chmod(0o755)
    work_dir.rename(run_dir)


# ---------------------------------------------------------------------------------------------------------- whole files
#
# Files that are there whole or not at all, whenever what writes them is stopped.


def write_whole(path: Path, text: str) -> None:
    """Replaces an earlier file, and makes its folder. raises: OSError"""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_new(path: Path, text: str) -> None:
    """raises: FileExistsError, OSError"""
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise
