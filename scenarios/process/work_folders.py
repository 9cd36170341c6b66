"""Folders that are removed when the process that owns them ends: unfinished runs, and other temporary folders.

A process cannot clean up after SIGKILL, so creating a folder first removes those of dead processes. Each owner holds a
file lock on its folder while it is alive. Unlike a process id, the lock also works across containers. A live cluster
writes the scenario's lock file at its start; if it was killed, its folder is kept as a run without a verdict.
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
"""Prefix of the names of Highwater's folders in a temporary directory, which other programs also use."""
LOCK_FILE = "scenario.lock.yaml"
UNJUDGED = "-unjudged"
"""Suffix of the name of a kept run that has no verdict."""
_IN_MEMORY = Path("/dev/shm")  # noqa: S108  Files get names there as in any temporary directory.
_ROOM_BYTES = 1 << 30


def folder_in_memory() -> str | None:
    """Return a directory in memory for many small runs, None to use the temporary directory.

    On some disks, creating and removing the directories of one run takes 50 ms. Large runs belong on a disk, since
    memory may run out. The result is None if TMPDIR is set or if little memory is free.
    """
    if "TMPDIR" in os.environ or not os.access(_IN_MEMORY, os.W_OK | os.X_OK):
        return None
    found = os.statvfs(_IN_MEMORY)
    return str(_IN_MEMORY) if found.f_bavail * found.f_frsize >= _ROOM_BYTES else None


@contextmanager
def work_folder(runs_dir: Path | None) -> Iterator[Path]:
    """Provide an empty folder in `runs_dir`, or in the temporary directory if that is None. Raises OSError.

    The folder is removed afterwards unless it was renamed. Folders of dead owners in `runs_dir` are removed first.
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
        with suppress(FileNotFoundError):  # The folder has been renamed.
            shutil.rmtree(own)
        os.close(lock)


@contextmanager
def temporary_folder(within: str | None = None) -> Iterator[Path]:
    """Provide an empty folder in `within` or the temporary directory, and remove it afterwards."""
    own, lock = _temporary(within)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        os.close(lock)


def have_own_temporary_folder() -> str | None:
    """Make a new folder the temporary directory of this process, and remove it when the process ends.

    Return the previous value of `tempfile.tempdir`.
    """
    before = tempfile.tempdir
    own, _ = _temporary(None)
    tempfile.tempdir = str(own)
    # The first registered function is called last, so a JVM that writes to the folder has already ended.
    atexit.register(_leave, own)
    return before


def _leave(own: Path) -> None:
    """Remove the folder and those of dead owners, to which a JVM may have written for some seconds."""
    shutil.rmtree(own, ignore_errors=True)
    _remove_abandoned(own.parent, TEMPORARY)


def _temporary(within: str | None) -> tuple[Path, int]:
    parent = Path(within or tempfile.gettempdir())
    _remove_abandoned(parent, TEMPORARY)
    return _locked_folder(parent, TEMPORARY)


def _locked_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """Create and lock a folder. Return its path and the file descriptor that holds the lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):  # Another process has removed the folder before it was locked.
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # On a file system without locks nothing is ever removed.
                fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


def keep_abandoned(runs_dir: Path) -> None:
    """Keep the folders of killed live clusters as runs without a verdict, and remove other folders of dead owners.

    Errors are ignored; the next call tries again.
    """

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
    """Call `dispose` for each folder whose owner is dead, except for links and folders of other users.

    Errors are ignored; the next call tries again.
    """
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
    """Provide the path of the next run folder, such as `runs/0007-name`, without creating it.

    Other processes of this machine wait for the end of the block, so no number is used twice.
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
# Files that are complete or do not exist, whenever their writer is stopped.


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically: create its folder if needed, and replace an earlier file. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_new(path: Path, text: str) -> None:
    """Write a new file, which must not exist yet. Raises FileExistsError, OSError."""
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise
