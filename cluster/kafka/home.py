"""Finds the Apache Kafka on this machine: an unpacked release, a folder of jars, or a version from `kafka install`.

This module uses no network and writes nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cluster.kafka.java import JavaRuntime, KafkaMissing, find_java_for_kafka

VERSION_FORM = r"\d{1,4}(\.\d{1,4}){2,3}"
TRIED = ("4.1.1", "4.1.0", "4.0.1", "3.9.1", "3.7.2", "2.8.2")
"""Versions tested with Highwater, newest first; only the last one runs with ZooKeeper."""
CHECKSUMS = "SHA256SUMS"
"""The file of checksums in an installed version's folder, in the format of `sha256sum`."""
LIBRARIES = "libs"
ARCHIVE = "classes-{build}.jsa"
FORMATS = "formats"
_SERVER_JAR = re.compile(rf"kafka_\d+\.\d+-({VERSION_FORM})\.jar")


@dataclass(frozen=True, slots=True)
class KafkaJars:
    """The jars of one version of Kafka.

    Attributes:
        folder: folder of the version; an installed version also has its class archive and checkpoints there.
        libraries: folder of the jars.
    """

    folder: Path
    libraries: Path
    version: str
    is_installed: bool

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(map(int, self.version.split(".")))

    @property
    def classpath(self) -> str:
        """The class path, sorted by name because a class archive is valid only for one order of jars."""
        return os.pathsep.join(str(jar) for jar in sorted(self.libraries.glob("*.jar")))

    @property
    def logging(self) -> Literal["log4j2", "log4j"]:
        """The logging library among the jars; unpacked releases before 4.0 have Log4j 1 (reload4j)."""
        return "log4j2" if any(self.libraries.glob("log4j-slf4j*-impl-*.jar")) else "log4j"

    @property
    def zookeeper(self) -> str | None:
        """The version of ZooKeeper among the jars, None if there is none."""
        for jar in sorted(self.libraries.glob("zookeeper-[0-9]*.jar")):
            return jar.stem.removeprefix("zookeeper-")
        return None

    def damaged(self) -> list[str]:
        """Return the names of jars that differ from the installed jars; none if the version was not installed."""
        if not self.is_installed:
            return []
        wrong = []
        for line in (self.folder / CHECKSUMS).read_text(encoding="utf-8").splitlines():
            digest, _, name = line.partition("  ")
            if not (self.folder / name).is_file() or sha256_of(self.folder / name) != digest:
                wrong.append(name)
        return wrong


@dataclass(frozen=True, slots=True)
class KafkaHome:
    """A version of Kafka, and the Java that runs it."""

    jars: KafkaJars
    java: JavaRuntime

    @property
    def version(self) -> str:
        return self.jars.version

    @property
    def archive_place(self) -> Path:
        return self.jars.folder / ARCHIVE.format(build=self.java.build)

    def format_place(self, features: Mapping[str, int]) -> Path | None:
        """Return the folder of the checkpoints with these feature levels; None if the version was not installed.

        Only a version from `kafka install` keeps checkpoints.
        """
        levels = ",".join(f"{name}={level}" for name, level in sorted(features.items()))
        return self.jars.folder / FORMATS / (levels or "no-features") if self.jars.is_installed else None

    @property
    def class_archive(self) -> Path | None:
        """The path of the class archive (-XX:SharedArchiveFile); None if there is none.

        It halves a JVM's start time.
        """
        return self.archive_place if self.jars.is_installed and self.archive_place.is_file() else None


def sha256_of(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return Highwater's folder in the user's cache (XDG_CACHE_HOME, else ~/.cache). Its contents can be made again."""
    value = Path(environment.get("XDG_CACHE_HOME", ""))
    # The XDG specification: a path that is not absolute is to be ignored.
    return (value if value.is_absolute() else Path.home() / ".cache") / "highwater" / "kafka"


def installed(environment: Mapping[str, str]) -> list[KafkaJars]:
    """Return the versions from `kafka install`, oldest first."""
    cache = cache_folder(environment)
    folders = [
        folder
        for folder in (cache.iterdir() if cache.is_dir() else ())
        if re.fullmatch(VERSION_FORM, folder.name, re.ASCII) and (folder / CHECKSUMS).is_file()
    ]
    found = [KafkaJars(folder, folder / LIBRARIES, folder.name, is_installed=True) for folder in folders]
    return sorted(found, key=lambda jars: jars.number)


def is_of_version(version: str, wanted: str | None) -> bool:
    """Return True if `version` matches `wanted`: 4.1 stands for every 4.1.x, None for any version."""
    return wanted is None or f"{version}.".startswith(f"{wanted}.")


def jars_in(folder: Path) -> KafkaJars:
    """Return the jars of an unpacked release (its libs/), or of a folder of jars.

    Raises:
        KafkaMissing: if the folder has no jars of Kafka, or those of several versions.
    """
    fix = "give the folder of an unpacked Kafka release, which has libs/, or the folder of its jars"
    for libraries in (folder / LIBRARIES, folder):
        matches = [match for jar in sorted(libraries.glob("kafka_*.jar")) if (match := _SERVER_JAR.fullmatch(jar.name))]
        versions = sorted({match[1] for match in matches})
        if len(versions) > 1:
            raise KafkaMissing(f"{libraries} has jars of more than one release: Kafka {' and '.join(versions)}", fix)
        if versions:
            return KafkaJars(folder.absolute(), libraries.absolute(), versions[0], is_installed=False)
    raise KafkaMissing(f"{folder} has no jar of Kafka's broker (kafka_2.13-VERSION.jar)", fix)


def find_home(version: str | None, folder: Path | None, environment: Mapping[str, str]) -> KafkaHome:
    """Find a version of Kafka and a Java.

    Args:
        version: None for the version in the folder, or for the newest installed version.
        folder: None to use installed versions.

    Raises:
        KafkaMissing: if Kafka or Java cannot be found.
    """
    return KafkaHome(_find_jars(version, folder, environment), find_java_for_kafka(environment))


def _find_jars(version: str | None, folder: Path | None, environment: Mapping[str, str]) -> KafkaJars:
    if folder is not None:
        jars = jars_in(folder)
        if not is_of_version(jars.version, version):
            raise KafkaMissing(
                f"{folder} has Kafka {jars.version}, not {version}", f"choose version {jars.version}, or another folder"
            )
        return jars
    known = installed(environment)
    for jars in reversed(known):
        if is_of_version(jars.version, version):
            return jars
    there = f"; installed versions: {', '.join(jars.version for jars in known)}" if known else ""
    raise KafkaMissing(
        f"Kafka{f' {version}' if version else ''} is not installed{there}",
        f"run `highwater kafka install {version or TRIED[0]}`, or give --kafka-home the folder of an unpacked release",
    )
