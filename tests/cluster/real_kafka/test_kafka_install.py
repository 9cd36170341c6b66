"""Kafka's jars on this machine. Java, its compiler and Maven are real processes here that only pretend."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.kafka.home import CHECKSUMS, cache_folder, find_home, installed, jars_in
from cluster.kafka.installation import install, remove
from cluster.kafka.java import KafkaMissing
from tests.pretended_jdk import JAVA, MAVEN, Machine, members_of
from tests.waiting import wait_for


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_installed_version_is_whole_and_found_again(machine: Machine) -> None:
    machine.install()
    assert machine.kept == ["4.1.0"]
    assert "Maven has downloaded 1 file: kafka_2.13-4.1.0.jar" in machine.said
    (jars,) = installed(machine.environment)
    assert jars.damaged() == []
    assert [Path(jar).name for jar in jars.classpath.split(os.pathsep)] == [
        "kafka-clients-4.1.0.jar",
        "kafka_2.13-4.1.0.jar",
    ]
    for asked in (None, "4", "4.1", "4.1.0"):
        home = find_home(asked, None, machine.environment)
        assert (home.version, home.java.version, home.class_archive) == ("4.1.0", "17.0.15", None)
    with pytest.raises(KafkaMissing, match=r"Kafka 4\.10? is not installed; installed versions: 4\.1\.0"):
        find_home("4.10", None, machine.environment)


def test_a_version_that_is_there_needs_no_maven_unless_it_is_damaged(machine: Machine) -> None:
    machine.install()
    (machine.programs / "mvn").rename(machine.root / "mvn")
    machine.install()
    jar = machine.cache / "4.1.0" / "libs" / "kafka-clients-4.1.0.jar"
    jar.write_text("something else")
    (jars,) = installed(machine.environment)
    assert jars.damaged() == ["libs/kafka-clients-4.1.0.jar"]
    (machine.root / "mvn").rename(machine.programs / "mvn")
    machine.install()
    assert jar.read_text() == "clients\n" and jars.damaged() == []


FAILURES = {
    "unknown": (
        "[ERROR] Failed to execute goal on project kafka: Could not resolve dependencies for project x:kafka:pom:9: "
        "Could not find artifact org.apache.kafka:kafka_2.13:jar:4.1.0 in there -> [Help 1]",
        "Maven found no Kafka 4.1.0",
        "ask for another version",
    ),
    "unreachable": (
        "[ERROR] Plugin p or one of its dependencies could not be resolved: Could not transfer artifact p from there: "
        "transfer failed for proto://host/p.pom: Connection refused -> [Help 1]",
        "Maven cannot reach its repositories: Connection refused",
        "check the network",
    ),
    "checksum": (
        "[ERROR] Could not transfer artifact a from there: Checksum validation failed, expected 1 but is 2 -> [Help 1]",
        "a file that Maven downloaded does not match its checksum",
        "try again",
    ),
    "another": ("[ERROR] Non-parseable settings -> [Help 1]", "Maven failed: Non-parseable settings", "fix this error"),
    "wordless": ("", "Maven failed: it gave no reason", "fix this error"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_of_maven_is_one_error_with_the_fix(machine: Machine, failure: str) -> None:
    said, error, fix = FAILURES[failure]
    machine.program("mvn", f"{MAVEN}\necho '{said}'\nexit 1\n")
    with pytest.raises(KafkaMissing) as missing:
        machine.install()
    assert str(missing.value).startswith(error) and missing.value.fix.startswith(fix)
    assert machine.kept == []


def test_a_version_is_not_taken_for_another(machine: Machine) -> None:
    with pytest.raises(KafkaMissing, match=r"Maven downloaded Kafka 4\.1\.0 instead of 3\.9\.1"):
        machine.install("3.9.1")
    assert machine.kept == []


@pytest.mark.parametrize(
    ("name", "script", "error"),
    [
        ("mvn", None, "`mvn` is not on the PATH"),
        ("javac", None, "has no `javac`"),
        ("java", "exit 1", "java does not run"),
        ("java", JAVA.format(home="/", version="11.0.2"), "is Java 11.0.2"),
        ("java", JAVA.format(home="/", version="1.8.0_402"), "is Java 1.8.0_402"),
    ],
)
def test_what_is_missing_is_named_with_the_fix(machine: Machine, name: str, script: str | None, error: str) -> None:
    machine.environment["PATH"] = str(machine.programs)
    if script is None:
        (machine.programs / name).unlink()
    else:
        machine.program(name, script)
    machine.environment["JAVA_HOME"] = str(machine.root / "jdk")
    with pytest.raises(KafkaMissing) as missing:
        machine.install()
    assert error in str(missing.value) and "install" in missing.value.fix
    assert machine.kept == []


def test_an_interrupted_install_leaves_nothing(machine: Machine) -> None:
    machine.program("mvn", f"echo $$ > {machine.root}/pid\n{MAVEN}\nsleep 1000\n")

    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install("4.1.0", machine.environment, interrupt)
    assert machine.kept == []
    group = int((machine.root / "pid").read_text())
    wait_for(lambda: members_of(group), holds=lambda found: found == [])


def test_what_a_killed_install_has_left_is_cleared_away_and_that_of_a_running_one_is_not(machine: Machine) -> None:
    dead, running = machine.cache / ".partial-999999999-4.0.1-x", machine.cache / f".partial-{os.getppid()}-4.0.1-x"
    for folder in (dead, running):
        (folder / "libs").mkdir(parents=True)
    machine.install()
    assert machine.kept == [running.name, "4.1.0"]


def test_a_version_is_removed_at_once(machine: Machine) -> None:
    machine.install()
    (jars,) = installed(machine.environment)
    remove(jars)
    assert machine.kept == [] and installed(machine.environment) == []


def test_a_folder_without_checksums_is_no_installed_version(machine: Machine) -> None:
    machine.install()
    (machine.cache / "4.1.0" / CHECKSUMS).unlink()
    assert installed(machine.environment) == []


def test_the_cache_is_the_users(tmp_path: Path) -> None:
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "highwater" / "kafka"
    assert cache_folder({"XDG_CACHE_HOME": "not/absolute"}) == Path.home() / ".cache" / "highwater" / "kafka"


def test_an_unpacked_release_and_a_folder_of_jars_are_kafka_too(tmp_path: Path, machine: Machine) -> None:
    release = tmp_path / "kafka_2.13-3.9.1"
    (release / "libs").mkdir(parents=True)
    for name in (
        "kafka_2.13-3.9.1.jar",
        "kafka_2.13-3.9.1-test.jar",
        "zookeeper-3.8.4.jar",
        "zookeeper-jute-3.8.4.jar",
    ):
        (release / "libs" / name).touch()
    for folder in (release, release / "libs"):
        home = find_home("3.9", folder, machine.environment)
        assert (home.version, home.jars.zookeeper, home.jars.logging) == ("3.9.1", "3.8.4", "log4j")
        assert home.jars.damaged() == [] and home.class_archive is None
    with pytest.raises(KafkaMissing, match=r"has Kafka 3\.9\.1, not 4\.1"):
        find_home("4.1", release, machine.environment)
    (release / "libs" / "log4j-slf4j-impl-2.24.3.jar").touch()
    assert jars_in(release).logging == "log4j2"
    (release / "libs" / "kafka_2.13-4.1.0.jar").touch()
    with pytest.raises(KafkaMissing, match=r"has jars of more than one release: Kafka 3\.9\.1 and 4\.1\.0"):
        jars_in(release)
    with pytest.raises(KafkaMissing, match="has no jar of Kafka's broker"):
        jars_in(tmp_path)
