"""`highwater lab`, as a shell sees it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command import Highwater

from scenarios.lab.exercise import Exercise, Judgement
from scenarios.lab.hand_in import HandIn

GOLDEN = Path(__file__).parent.parent / "golden"


def test_the_exercises_are_handed_out_and_nothing_is_overwritten(highwater: Highwater) -> None:
    names = [one["exercise"] for one in highwater("lab", "list", "--format", "json").document]
    assert names == ["predict", "loss", "one-setting", "explain", "rule", "smallest"]
    assert highwater("lab", "start", "explain", "--student", "Ada").code == 0
    assert sorted(path.name for path in Path().iterdir()) == ["explain-run", "explain.yaml"]
    assert "# student: Ada\n" in Path("explain.yaml").read_text()
    assert json.loads(Path("explain-run/summary.json").read_text())["run_dir"] == "explain-run"
    Path("explain.yaml").write_text("my answer")
    again = highwater("lab", "start", "explain")
    assert again.code == 2 and again.error_lines[0] == "error: explain.yaml is there already"
    Path("loss.yaml").symlink_to("nowhere.yaml")
    assert highwater("lab", "start", "loss").code == 2 and not Path("nowhere.yaml").exists()
    assert Path("explain.yaml").read_text() == "my answer"


def test_wrong_words_are_one_error(highwater: Highwater) -> None:
    unknown = highwater("lab", "start", "los")
    assert unknown.code == 2 and "did you mean `loss`?" in unknown.err
    assert "at most 60 characters" in highwater("lab", "start", "loss", "--student", "x" * 61).err


def test_a_teacher_collects_one_line_for_each_file(highwater: Highwater) -> None:
    highwater("lab", "start", "loss", "--student", "Ada")
    Path("bad.yaml").write_text("# student: Bob\nschema: [")
    found = highwater("lab", "check", "loss", "loss.yaml", "bad.yaml", "none.yaml", "--format", "json")
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert found.code == 1
    assert [(line["student"], line["passed"], line["missing"]) for line in lines] == [
        ("Ada", False, ["steps"]),
        ("Bob", False, ["valid"]),
        ("", False, ["valid"]),
    ]
    assert set(lines[0]) == {
        "exercise", "student", "passed", "held", "missing", "file", "sha256", "seeds", "version",
    }  # fmt: skip


def test_a_file_is_a_file_and_a_bad_one_leaves_the_others_marked(highwater: Highwater) -> None:
    """A link would show what it points to in the lines of the errors; a pipe would never end."""
    highwater("lab", "start", "rule", "--student", "Eve")
    given = Path("rule.yaml").read_text()
    bomb = "config: {num.network.threads: 300000000, "
    Path("bomb.yaml").write_text(given.replace("config: {", bomb, 1))
    Path("secret").write_text("password: 12345")
    Path("link.yaml").symlink_to("secret")
    Path("folder").mkdir()
    Path("folder/secret.yaml").write_text("password: 12345")
    Path("linked").symlink_to("folder")
    os.mkfifo("pipe.yaml")
    files = ["bomb.yaml", "link.yaml", "linked/secret.yaml", "pipe.yaml", "/dev/zero", "rule.yaml"]
    said = highwater("lab", "check", "rule", *files)
    assert said.code == 1 and "12345" not in said.out + said.err
    assert "`num.network.threads`: 300000000 is above 1,000" in said.out
    lines = [
        json.loads(line) for line in highwater("lab", "check", "rule", *files, "--format", "json").out.splitlines()
    ]
    assert [line["missing"] for line in lines[:5]] == [["valid"]] * 5
    assert lines[5]["student"] == "Eve" and "valid" in lines[5]["held"]


def test_a_file_that_takes_too_much_memory_leaves_the_others_marked(
    highwater: Highwater, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever bound is missing from the language."""
    highwater("lab", "start", "loss", "--student", "Ada")
    Path("mine.yaml").write_text(Path("loss.yaml").read_text().replace("Ada", "Bob"))
    judged = Exercise.judge

    def hungry(self: Exercise, hand_in: HandIn) -> Judgement:
        if hand_in.student == "Ada":
            bytearray(8 << 30)
        return judged(self, hand_in)

    monkeypatch.setattr(Exercise, "judge", hungry)
    found = highwater("lab", "check", "loss", "loss.yaml", "mine.yaml")
    assert found.code == 6 and "memory ran out: this process may have" in found.out
    assert "Bob" in found.out and "the file is a scenario" in found.out


def test_the_screens(highwater: Highwater, request: pytest.FixtureRequest) -> None:
    said = highwater("lab", "list").out + highwater("lab", "start", "smallest", "--student", "Ada").out
    said += highwater("lab", "check", "smallest", "smallest.yaml").out
    Path("smallest.yaml").write_text(Path("smallest.yaml").read_text().replace("acks: all", "akcs: all"))
    said += highwater("lab", "check", "smallest", "smallest.yaml").out
    golden = GOLDEN / "screen_lab.txt"
    if request.config.getoption("--rewrite"):
        golden.write_text(said, encoding="utf-8")
    assert said == golden.read_text(encoding="utf-8")
