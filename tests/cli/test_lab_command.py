"""`highwater lab`, as a shell sees it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from codecs import BOM_UTF8
from contextlib import suppress
from pathlib import Path

import pytest
from command import Highwater

from scenarios.lab.exercise import Exercise, Judgement, exercises
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
    again = highwater("lab", "start", "explain", "--student", "Ada")
    assert again.code == 2 and again.error_lines[0] == "error: explain.yaml already exists"
    Path("loss.yaml").symlink_to("nowhere.yaml")
    assert highwater("lab", "start", "loss", "--student", "Ada").code == 2 and not Path("nowhere.yaml").exists()
    assert Path("explain.yaml").read_text() == "my answer"


def test_wrong_words_are_one_error(highwater: Highwater) -> None:
    unknown = highwater("lab", "start", "los")
    assert unknown.code == 2 and "Did you mean `loss`?" in unknown.err
    assert "at most 60 are allowed" in highwater("lab", "start", "loss", "--student", "x" * 61).err
    for nameless in ([], ["--student", ""], ["--student", "  "]):
        outcome = highwater("lab", "start", "loss", *nameless)
        assert outcome.code == 2 and "give a name, such as --student" in outcome.err
    assert not list(Path().iterdir())


def typed(folder: Path, keys: bytes, *words: str) -> str:
    """What a terminal shows after these keys; the command has succeeded."""
    keyboard, terminal = os.openpty()
    command = [sys.executable, "-m", "scenarios.cli", *words]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=folder) as process:
        os.close(terminal)
        os.write(keyboard, keys)
        said = ""
        with suppress(OSError):  # The other end is closed: it has ended.
            while data := os.read(keyboard, 10_000):
                said += data.decode()
    os.close(keyboard)
    assert process.returncode == 0
    return said


def test_at_a_terminal_a_student_is_asked_for_a_name(tmp_path: Path) -> None:
    said = typed(tmp_path, b"=1+1\nAda and Grace\n", "lab", "start", "loss")
    assert said.count("both names of a pair") == 2 and "the name must not begin with `=`" in said
    assert "# student: Ada and Grace\n" in (tmp_path / "loss.yaml").read_text()
    said = typed(tmp_path, b"\n", "lab", "start", "rule")  # The name is proposed the second time.
    assert "[Ada and Grace]" in said and "# student: Ada and Grace\n" in (tmp_path / "rule.yaml").read_text()


@pytest.mark.soak
def test_the_marks_of_a_class(highwater: Highwater) -> None:
    class_ = Path("class")
    for student in ("Ada", "Bob"):
        (class_ / student).mkdir(parents=True)
        text = exercises()["one-setting"].text(student)
        (class_ / student / "one-setting.yaml").write_text(
            text.replace("acks: 1", "acks: all") if student == "Ada" else text
        )
    (class_ / "Bob" / "answers.txt").write_text("With an ISR of one.")
    said = highwater("lab", "marks", "class", "--csv", "marks.csv", "--jobs", "1")
    assert "Bob/answers.txt: neither the heading nor the file name names an exercise" in said.out
    assert "✓ complete, ✕ not complete, – not handed in, ? unreadable. " in " ".join(said.out.split())
    assert "highwater lab check NAME FILE" in said.out
    assert (
        said.code == 0
        and "0 of 2 students completed all six exercises" in said.out
        and "Written to marks.csv" in said.out
    )
    assert Path("marks.csv").read_bytes().startswith(BOM_UTF8), "Excel takes it for Latin-1 without"
    assert Path("marks.csv").read_text("utf-8-sig").splitlines()[0] == (
        "file,student,predict,loss,one-setting,explain,rule,smallest,passed,missing,same file,similar"
    )
    (class_ / "Bob" / "loss.yaml").write_bytes(b"\xff")
    again = highwater("lab", "marks", "class", "--csv", "marks.csv", "--format", "json")
    assert again.code == 1
    rows = again.document
    assert [(row["student"], row["passed"]) for row in rows] == [("Ada", 1), ("Bob", 0)]
    assert "Bob/loss.yaml cannot be read" in rows[1]["missing"][0]
    assert "Bob/loss.yaml" in Path("marks.csv").read_text()


def test_the_handout_is_a_page_of_its_own_and_overwrites_nothing(highwater: Highwater) -> None:
    assert highwater("lab", "handout").code == 0
    text = Path("handout.html").read_text(encoding="utf-8")
    assert text.count("<li>") == 12 and text.count("<svg") == 1
    assert not re.search(r"(?:src|href)=|@import|url\((?!#)", text)  # It needs nothing from elsewhere.
    assert highwater("lab", "handout").code == 0
    Path("handout.html").write_text("notes of mine")
    assert highwater("lab", "handout").code == 2 and Path("handout.html").read_text() == "notes of mine"
    assert highwater("lab", "handout", "--out", "print/sheet.html").code == 0
    assert Path("print/sheet.html").read_text(encoding="utf-8") == text


def test_marks_replace_nothing_but_marks(highwater: Highwater) -> None:
    Path("class").mkdir()
    assert "there is no file in class" in highwater("lab", "marks", "class").err
    Path("class/loss.yaml").write_text(exercises()["loss"].text("Ada"))
    Path("thesis.csv").write_text("years of work")
    refused = highwater("lab", "marks", "class", "--csv", "thesis.csv")
    assert refused.code == 2 and "thesis.csv already exists and is not a table of marks" in refused.err
    assert Path("thesis.csv").read_text() == "years of work"
    assert highwater("lab", "marks", "nowhere").code == 2


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
    assert "`num.network.threads`: must be at most 1,000, not 300000000" in said.out
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
    assert found.code == 6 and "memory ran out; this process may use" in found.out
    assert "Bob" in found.out and "the file is a scenario" in found.out


@pytest.mark.soak
def test_the_screens(highwater: Highwater, request: pytest.FixtureRequest) -> None:
    said = highwater("lab", "list").out + highwater("lab", "start", "smallest", "--student", "Ada").out
    said += highwater("lab", "check", "smallest", "smallest.yaml").out
    Path("smallest.yaml").write_text(Path("smallest.yaml").read_text().replace("acks: all", "akcs: all"))
    said += highwater("lab", "check", "smallest", "smallest.yaml").out
    golden = GOLDEN / "screen_lab.txt"
    if request.config.getoption("--rewrite"):
        golden.write_text(said, encoding="utf-8")
    assert said == golden.read_text(encoding="utf-8")
