"""Finds the Java that runs Kafka. It must be on this machine; Highwater never downloads it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

OLDEST_JAVA = 17
"""The oldest Java for Kafka 4's brokers (KIP-750). Kafka 2.8 to 3.9 run on it as well."""
ANSWER_S = 60
FIX = f"install a JDK of Java {OLDEST_JAVA} or newer (Debian: apt install openjdk-17-jdk-headless), or set JAVA_HOME"


class KafkaMissing(Exception):
    """Kafka, or something that it needs, is missing. `fix` says what to do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """An installed Java.

    Attributes:
        executable: path of `java`.
        build: full version; a class archive is valid only for this build.
        compiler: path of `javac`, None for a runtime without a compiler.
    """

    executable: Path
    version: str
    build: str
    home: Path

    @property
    def compiler(self) -> Path | None:
        found = self.home / "bin" / "javac"
        return found if os.access(found, os.X_OK) else None

    def needed_compiler(self) -> Path:
        """Return the path of `javac`.

        Raises:
            KafkaMissing: if the runtime has no compiler.
        """
        if self.compiler is None:
            raise KafkaMissing(f"Java {self.version} in {self.home} has no `javac`", FIX)
        return self.compiler


def find_java_for_kafka(environment: Mapping[str, str]) -> JavaRuntime:
    """Find the Java of JAVA_HOME, or `java` on the PATH.

    Raises:
        KafkaMissing: if there is no Java, or only one that is too old.
    """
    candidates = [Path(home) / "bin" / "java"] if (home := environment.get("JAVA_HOME")) else []
    if on_path := shutil.which("java", path=environment.get("PATH")):
        candidates.append(Path(on_path))
    tried = []
    for candidate in candidates:
        found = _ask(candidate)
        if found is None:
            tried.append(f"{candidate} does not run")
        elif _major(found.version) < OLDEST_JAVA:
            tried.append(f"{candidate} is Java {found.version}")
        else:
            return found
    raise KafkaMissing(f"Kafka needs Java {OLDEST_JAVA} or newer ({'; '.join(tried) or 'none found'})", FIX)


def _ask(executable: Path) -> JavaRuntime | None:
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(re.findall(r"^ +([\w.]+) = (.*)$", answer.stderr, re.MULTILINE))
    if answer.returncode or not {"java.version", "java.vm.version", "java.home"} <= properties.keys():
        return None
    return JavaRuntime(
        executable, properties["java.version"], properties["java.vm.version"], Path(properties["java.home"])
    )


def _major(version: str) -> int:
    """Return the major version, 0 if it is unreadable. Java 8 reports its version as 1.8."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else 0
