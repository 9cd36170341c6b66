"""`--on kafka`, as a shell sees it; nothing here starts a JVM of Kafka (tests with the marker `kafka` do)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import MINI, Highwater


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A folder that says that it is Kafka 4.1.0, and is not."""
    libraries = tmp_path / "kafka" / "libs"
    libraries.mkdir(parents=True)
    (libraries / "kafka_2.13-4.1.0.jar").write_bytes(b"")
    return str(libraries.parent)


def test_what_cannot_be_played_is_said_before_anything_starts(highwater: Highwater, home: str) -> None:
    done = highwater("run", "slow-leader-disk", "--on", "kafka:4.1", "--kafka-home", home)
    assert done.code == 3
    assert "Kafka 4.1.0 cannot play this" in done.err
    assert "slow_disk (line " in done.err
    assert not Path("runs").exists()


def test_a_test_of_it_by_name_is_refused_as_a_whole(highwater: Highwater, home: str) -> None:
    done = highwater("test", "slow-leader-disk", "acks1-leader-kill", "--on", "kafka", "--kafka-home", home)
    assert (done.code, done.out) == (3, "")
    assert "acks1-leader-kill" not in done.err


def test_another_version_than_the_folders(highwater: Highwater, home: str) -> None:
    done = highwater("run", "acks1-leader-kill", "--on", "kafka:3.9", "--kafka-home", home)
    assert done.code == 6
    assert "has Kafka 4.1.0, not 3.9" in done.err


def test_kafka_that_is_not_installed(highwater: Highwater, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    done = highwater("run", "acks1-leader-kill", "--on", "kafka:4.1.0")
    assert done.code == 6
    assert "highwater kafka install 4.1.0" in done.err


@pytest.mark.soak
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "acks1-leader-kill", "--on", "kafkka"], "is not a mode"),
        (["run", "acks1-leader-kill", "--on", "kafka:x"], "is not a mode"),
        (["run", "acks1-leader-kill", "--live", "--on", "sim"], "--live contradicts --on sim"),
        (["run", "acks1-leader-kill", "--processes"], "add --live"),
        (["run", "acks1-leader-kill", "--kafka-home", "."], "add --on kafka"),
        (["run", "acks1-leader-kill", "--on", "kafka", "--slack", "soon"], "is not a time"),
        (["compare", "acks1-leader-kill", "--kafka-home", "."], "add --on sim,kafka"),
        (["test", "--profile", "kafka-2.0", "--on", "live"], "--profile works only in virtual time"),
        (["list", "--on", "live"], "takes kafka or kafka:VERSION, not live"),
    ],
)
def test_words_that_do_not_fit_are_one_clear_error(highwater: Highwater, words: list[str], said: str) -> None:
    done = highwater(*words)
    assert done.code == 2
    assert said in " ".join(done.err.split())


@pytest.mark.soak
def test_the_list_says_what_kafka_plays_and_fits_the_screen(highwater: Highwater) -> None:
    done = highwater("list", "--on", "kafka:4.1.0", "--tag", "disk", "--plain")
    assert done.code == 0
    assert "slow_disk: the disk of a JVM cannot be slowed down" in " ".join(done.out.split())
    assert max(map(len, done.out.splitlines())) <= 100
    rows = highwater("list", "--on", "kafka:4.1.0", "--tag", "acks", "--format", "json").document
    runs = {row["id"]: row["runs"] for row in rows["scenarios"]}
    assert rows["kafka"] == "4.1.0"
    assert all(run["limits"] == [] for run in runs["acks1-leader-kill"])


def test_the_path_of_a_request_of_it_cannot_be_shown(highwater: Highwater) -> None:
    Path("mini.yaml").write_text(MINI)
    highwater("run", "mini.yaml")
    (file,) = Path("runs").glob("*/summary.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "live": True, "real_kafka": "4.1.0"}))
    done = highwater("path", "last", "r0")
    assert done.code == 2 and "does not show the stages of a request" in done.err
