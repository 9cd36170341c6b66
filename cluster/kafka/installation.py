"""Installs and removes versions of Kafka in the user's cache folder.

A version is complete or absent: it is built in a separate folder and renamed. Its checksums are kept.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cluster.kafka.class_archive import NotArchived, make_class_archive
from cluster.kafka.clients.helper import NotCompiled, compiled
from cluster.kafka.home import CHECKSUMS, LIBRARIES, KafkaHome, KafkaJars, cache_folder, installed, jars_in, sha256_of
from cluster.kafka.java import FIX, JavaRuntime, KafkaMissing, find_java_for_kafka
from cluster.kafka.maven import Progress, find_maven, get_jars

_PARTIAL = r"\.partial-(\d+)-.*"


class Installed(NamedTuple):
    """An installed version. `no_archive` says why it has no class archive, None if it has one."""

    home: KafkaHome
    no_archive: str | None


def install(version: str, environment: Mapping[str, str], progress: Progress) -> Installed:
    """Install the missing or damaged parts of a version: the jars, the Java clients' program, and the class archive.

    Raises:
        KafkaMissing: if Java, its compiler or Maven is missing.
        OSError: if a file cannot be written.
    """
    java = find_java_for_kafka(environment)
    java.needed_compiler()
    home = KafkaHome(
        _sound_jars(version, environment, progress) or _new_jars(version, java, environment, progress), java
    )
    progress("compiling the program of the Java clients")
    client_classes(home, environment)
    try:
        make_class_archive(home, progress)
    except NotArchived as error:
        return Installed(home, str(error))
    return Installed(home, None)


def client_classes(home: KafkaHome, environment: Mapping[str, str]) -> Path:
    """Return the folder of the Java clients' compiled program; compile it if needed.

    An installed version keeps the program in its own folder, other versions in the user's cache.

    Raises:
        KafkaMissing: if the program cannot be compiled.
        OSError: if a file cannot be written.
    """
    jars = home.jars
    folder = jars.folder if jars.is_installed else cache_folder(environment) / "unpacked" / jars.version
    try:
        return compiled(home.java.needed_compiler(), jars.classpath, folder)
    except NotCompiled as error:
        raise KafkaMissing(f"the Java clients of Kafka {jars.version} could not be compiled: {error}", FIX) from error


def _sound_jars(version: str, environment: Mapping[str, str], progress: Progress) -> KafkaJars | None:
    """Return the jars of an installed version, None if the version is missing. Remove a damaged version first."""
    for jars in installed(environment):
        if jars.version == version:
            progress(f"checking the checksums of Kafka {version}")
            if not jars.damaged():
                return jars
            remove(jars)
    return None


def _new_jars(version: str, java: JavaRuntime, environment: Mapping[str, str], progress: Progress) -> KafkaJars:
    maven, cache = find_maven(environment), cache_folder(environment)
    with _partial(cache, version) as folder:
        get_jars(version, folder, maven, java, environment, progress)
        found = jars_in(folder).version
        if found != version:
            raise KafkaMissing(f"Maven downloaded Kafka {found} instead of {version}", "check Maven's settings.xml")
        _keep_checksums(folder)
        path = cache / version
        try:
            folder.rename(path)
        except OSError:
            if not (path / CHECKSUMS).is_file():
                raise
            # Another process was faster.
    return KafkaJars(path, path / LIBRARIES, version, is_installed=True)


def remove(jars: KafkaJars) -> None:
    """Remove a version. If the removal is interrupted, what is left does not count as a version.

    Raises:
        OSError: if a file cannot be removed.
    """
    with _partial(jars.folder.parent, jars.version) as folder:
        jars.folder.rename(folder / jars.version)


def _keep_checksums(folder: Path) -> None:
    names = sorted(str(jar.relative_to(folder)) for jar in (folder / LIBRARIES).glob("*.jar"))
    lines = [f"{sha256_of(folder / name)}  {name}\n" for name in names]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


@contextmanager
def _partial(cache: Path, version: str) -> Iterator[Path]:
    """Create a folder for an unfinished version, and remove it after the `with` block unless it was renamed.

    Remove such folders of killed processes, too.
    """
    cache.mkdir(parents=True, exist_ok=True)
    for path in cache.iterdir():
        left = re.fullmatch(_PARTIAL, path.name)
        if left is not None and not _runs(int(left[1])):
            shutil.rmtree(path, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f".partial-{os.getpid()}-{version}-", dir=cache))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
