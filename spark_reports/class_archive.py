"""An archive of Spark's classes in the user's cache: with it Spark's JVM need not load and verify them (JEP 350).

It is large, so it is made on request only. It is bound to the JVM, to the jars and to the class path, in which the
folder of Spark's settings stands: with an archive that is a folder without files. A JVM ignores an archive of another
JVM or class path, but dies of one that was cut off: its name says how long it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from spark_reports.jars import first_on_class_path, jars, jars_needed
from spark_reports.java import Java

WRITTEN_WITHIN_S = 900.0
"""The JVM writes the archive when it ends: half a minute of processor time, on a busy machine many times that."""


class NotKept(Exception):
    """No archive was made; the text says why."""


class ClassArchive(NamedTuple):
    """is_new: the JVM is to write it, else to use it."""

    file: Path
    settings_folder: Path
    is_new: bool

    def options(self) -> str:
        """For the JVM, which by itself prints to stdout why it ignores an archive."""
        how = f"-XX:ArchiveClassesAtExit={self.file}" if self.is_new else f"-XX:SharedArchiveFile={self.file}"
        return f"-Xshare:auto -Xlog:disable -Xlog:all=warning:stderr {_quoted(how)}"


def archive_stem(java: Java) -> Path:
    """The path of the archive of this Java and this PySpark, up to its size.

    raises: RuntimeError if the user has no home, OSError if PySpark is not there
    """
    bound_to = [str(java.executable.resolve()), java.version, first_on_class_path(), jars_needed().all_needed]
    for jar in jars():
        status = jar.stat()
        bound_to.append(f"{jar} {status.st_size} {status.st_mtime_ns}")
    digest = hashlib.sha256("\n".join(bound_to).encode()).hexdigest()
    return cache_folder() / "spark" / f"classes-{digest[:16]}"


def _named(stem: Path, size: int) -> Path:
    return stem.with_name(f"{stem.name}-{size}.jsa")


def kept_archive(java: Java) -> ClassArchive | None:
    """The archive for this Java and this PySpark, if there is one."""
    with contextlib.suppress(OSError, RuntimeError):
        stem = archive_stem(java)
        settings = _settings_folder(stem)
        for file in stem.parent.glob(f"{stem.name}-*.jsa"):
            if file == _named(stem, file.stat().st_size) and settings.is_dir():
                return ClassArchive(file, settings, is_new=False)
    return None


@contextlib.contextmanager
def new_archive(java: Java) -> Iterator[ClassArchive]:
    """For one session; once its JVM has written the file, that takes the place of all earlier archives.

    raises: NotKept
    """
    stem = _place_for_new(java)
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=stem.parent) as scratch:
        written = Path(scratch) / "classes.jsa"
        yield ClassArchive(written, _settings_folder(stem), is_new=True)
        if not written.is_file():
            raise NotKept("the JVM has written no archive of them")
        for earlier in stem.parent.glob("classes-*.jsa"):
            earlier.unlink(missing_ok=True)
        written.replace(_named(stem, written.stat().st_size))


def _place_for_new(java: Java) -> Path:
    """raises: NotKept"""
    try:
        stem = archive_stem(java)
        _settings_folder(stem).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=stem.parent).close()
    except (OSError, RuntimeError) as error:
        raise NotKept(f"the cache folder takes no files: {error}") from error
    return stem


def cache_folder() -> Path:
    """Of all that Highwater keeps for the user. raises: RuntimeError if the user has no home"""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "highwater"


def _settings_folder(stem: Path) -> Path:
    return stem.parent / "no-settings"


def _quoted(option: str) -> str:
    """As Spark's launcher splits options."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
