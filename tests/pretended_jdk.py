"""A machine's `java`, `javac` and `mvn` as real processes that only pretend."""

from __future__ import annotations

from pathlib import Path

from cluster.kafka.installation import install

JAVA = """cat >&2 <<END
Property settings:
    java.home = {home}
    java.version = {version}
    java.vm.version = {version}+6
END
"""
MAVEN = """for word in "$@"; do case $word in -DoutputDirectory=*) libs=${word#*=} ;; esac; done
mkdir -p "$libs"
echo "[INFO] Downloaded from somewhere: proto://host/kafka_2.13-4.1.0.jar (5 MB at 1 MB/s)"
echo broker > "$libs/kafka_2.13-4.1.0.jar"; echo clients > "$libs/kafka-clients-4.1.0.jar"
"""


class Machine:
    """A PATH with what it has of a JDK and Maven, and a cache."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.programs = root / "jdk" / "bin"
        self.cache = root / "cache" / "highwater" / "kafka"
        self.environment = {"PATH": f"{self.programs}:/usr/bin:/bin", "XDG_CACHE_HOME": str(root / "cache")}
        self.said: list[str] = []
        self.program("java", JAVA.format(home=root / "jdk", version="17.0.15"))
        self.program("javac", "")
        self.program("mvn", MAVEN)

    def program(self, name: str, script: str) -> None:
        self.programs.mkdir(parents=True, exist_ok=True)
        (self.programs / name).write_text(f"#!/bin/sh\n{script}")
        (self.programs / name).chmod(0o755)

    def install(self, version: str = "4.1.0") -> None:
        install(version, self.environment, self.said.append)

    @property
    def kept(self) -> list[str]:
        return sorted(place.name for place in self.cache.iterdir()) if self.cache.exists() else []


def members_of(group: int) -> list[str]:
    """Processes of a group that still run."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = place.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state != "Z":
            found.append(place.parent.name)
    return found
