"""Downloads the jars of one version of Kafka with Maven, whose own settings name the repositories.

The generated Maven project has nothing but dependencies. Maven checks each download against the repository's checksum.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cluster.child_process import dies_with_parent, held_interrupt
from cluster.kafka.home import LIBRARIES, TRIED
from cluster.kafka.java import JavaRuntime, KafkaMissing

SCALA = "2.13"
LOG4J2 = "2.24.3"
RELOAD4J = "1.2.25"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
ANOTHER_WAY = "or unpack a Kafka release and give its folder with --kafka-home"
SHOWN_MAX = 240
_UNREACHABLE = re.compile(
    r"Could not transfer|Unknown host|Connection (refused|reset|timed out)|Network is unreachable|offline mode"
)

Progress = Callable[[str], None]


def find_maven(environment: Mapping[str, str]) -> Path:
    """Find `mvn` on the PATH.

    Raises:
        KafkaMissing: if `mvn` is missing.
    """
    found = shutil.which("mvn", path=environment.get("PATH"))
    if found is None:
        raise KafkaMissing(
            "Maven is needed to download Kafka's jars, but `mvn` is not on the PATH",
            f"install Maven (Debian: apt install maven), {ANOTHER_WAY}",
        )
    return Path(found)


def project(version: str) -> str:
    """Return the pom.xml of a Maven project that depends on the broker, and on Log4j 2 whatever the version.

    With Log4j 2 one logging configuration serves all versions. The jar of Log4j 1 stays for brokers before 4.0, which
    use its classes but do not log through it.
    """
    old_log = _dependency("ch.qos.reload4j", "reload4j", RELOAD4J) if int(version.partition(".")[0]) < 4 else ""
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>highwater</groupId>
  <artifactId>kafka</artifactId>
  <version>{version}</version>
  <packaging>pom</packaging>
  <dependencies>
{_dependency("org.apache.kafka", f"kafka_{SCALA}", version, without=("slf4j-log4j12", "slf4j-reload4j"))}\
{_dependency("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J2)}\
{_dependency("org.apache.logging.log4j", "log4j-core", LOG4J2)}{old_log}  </dependencies>
</project>
"""


def _dependency(group: str, artifact: str, version: str, without: Iterable[str] = ()) -> str:
    excluded = "".join(
        f"<exclusion><groupId>org.slf4j</groupId><artifactId>{name}</artifactId></exclusion>" for name in without
    )
    exclusions = f"<exclusions>{excluded}</exclusions>" if excluded else ""
    return (
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{exclusions}</dependency>\n"
    )


def get_jars(
    version: str, folder: Path, maven: Path, java: JavaRuntime, environment: Mapping[str, str], progress: Progress
) -> None:
    """Download the jars into `libs/` of the folder.

    Raises:
        KafkaMissing: if Maven fails.
        OSError: if a file cannot be written.
    """
    (folder / "pom.xml").write_text(project(version), encoding="utf-8")
    options = ("--batch-mode", "--strict-checksums", "--update-snapshots")
    copy = ("-DincludeScope=runtime", f"-DoutputDirectory={folder / LIBRARIES}")
    command = [str(maven), *options, PLUGIN, *copy]
    with process_group(command, folder, {**environment, "JAVA_HOME": str(java.home)}) as process:
        assert process.stdout is not None
        errors = list(_watch(process.stdout, progress))
        if process.wait() != 0:
            raise _failure(version, errors)


def _watch(lines: Iterable[str], progress: Progress) -> Iterator[str]:
    """Report Maven's progress, and yield its error lines."""
    count = 0
    for line in lines:
        if match := re.search(r"Downloaded from .*/([^/\s]+) \(", line):
            count += 1
            progress(f"Maven has downloaded {count} {'file' if count == 1 else 'files'}: {match[1]}")
        elif match := re.search(r"Copying (\S+) to ", line):
            progress(f"Maven is copying {match[1]}")
        elif line.startswith("[ERROR]"):
            yield line.removeprefix("[ERROR]").strip()


def _failure(version: str, errors: list[str]) -> KafkaMissing:
    everything = " ".join(errors)
    first = re.sub(r" -> \[Help \d+\]", "", next(iter(errors), "it gave no reason"))
    # The last reason in a chain is the cause.
    said = re.split(r"transfer failed for \S+: |Could not resolve dependencies for project \S+: ", first)[-1][
        :SHOWN_MAX
    ]
    if "hecksum validation failed" in everything:
        return KafkaMissing(f"a file that Maven downloaded does not match its checksum: {said}", "try again")
    if _UNREACHABLE.search(everything):
        return KafkaMissing(
            f"Maven cannot reach its repositories: {said}",
            f"check the network, and the mirrors and proxies in Maven's settings.xml, {ANOTHER_WAY}",
        )
    if f"Could not find artifact org.apache.kafka:kafka_{SCALA}:" in everything:
        return KafkaMissing(f"Maven found no Kafka {version}", f"ask for another version, such as {', '.join(TRIED)}")
    return KafkaMissing(f"Maven failed: {said}", f"fix this error, {ANOTHER_WAY}")


@contextmanager
def process_group(command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Start a process whose output can be read, and kill its process group at the end of the `with` block.

    Raises:
        OSError: if the process cannot be started.
    """
    with ExitStack() as stack:
        with held_interrupt():
            process = stack.enter_context(
                subprocess.Popen(
                    command,
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                    preexec_fn=dies_with_parent(),
                )
            )
            stack.callback(end_group, process)
        yield process


def end_group(process: subprocess.Popen[str]) -> None:
    """Kill the process and all others in its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
