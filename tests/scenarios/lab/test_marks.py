"""Marks of a class: whose file is whose, which exercise it answers, and what a spreadsheet makes of the table."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from scenarios.lab.exercise import Criterion, Draw, Judgement, exercises
from scenarios.lab.marks import Mark, MarksRow, csv_of, files_handed_in, judge_file, mark_file, rows_of
from tests.soak import one_row_in

EXERCISES = exercises()
NAMES = list(EXERCISES)
STEPS = """
  - {at: START, latency: {between: ["leader(T-0)", "followers(T-0)"], add: 400ms}}
  - {at: KILL, kill: "leader(T-0)"}
"""


def blank(name: str, student: str) -> str:
    return EXERCISES[name].text(student)


def loss(student: str, start_s: int = 12) -> str:
    steps = STEPS.replace("T-0", f"{Draw('loss', student).topic()}-0")
    steps = steps.replace("START", f"{start_s}s").replace("KILL", f"{start_s + 2}s")
    return blank("loss", student).replace("timeline:\n", f"timeline:{steps}")


def mark(files: Mapping[str, str | bytes]) -> list[MarksRow]:
    """The rows of a class that has handed in these files."""
    for name, content in files.items():
        path = Path("class", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return rows_of([mark_file(("class", file)) for file in files_handed_in(Path("class"))])


def table(rows: list[MarksRow]) -> list[dict[str, str]]:
    return list(csv.DictReader(csv_of(rows).splitlines()))


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("one", "two"),
    one_row_in(
        3, [("ada/loss.yaml", "ada/rule.yaml"), ("loss/ada.yaml", "rule/ada.yaml"), ("a-loss.yaml", "a-rule.yaml")]
    ),
)
def test_a_student_has_one_row_however_the_files_are_sorted_into_folders(one: str, two: str) -> None:
    rows = table(mark({one: loss("Ada"), two: blank("rule", "ada "), "x/loss.yaml": blank("loss", "Bob")}))
    assert [(row["student"], row["loss"], row["rule"], row["passed"]) for row in rows] == [
        ("Ada", "1", "0", "1"), ("Bob", "0", "", "0"),
    ]  # fmt: skip
    assert rows[0]["file"] == " | ".join(sorted([one, two]))
    assert rows[0]["missing"] == "rule: steps | missing answers: predict, one-setting, explain, smallest"


@pytest.mark.soak
@pytest.mark.parametrize("name", ["answer.txt", "Lab two.yaml", "rule.yaml", "loss (2).yaml", "LOSS_Ada.YAML"])
def test_the_heading_says_which_exercise_it_is(name: str) -> None:
    (row,) = mark({name: loss("Ada")})
    assert list(row.marks) == ["loss"] and row.passed == 1


def test_the_file_of_another_exercise_hears_whose_it_is() -> None:
    Path("predict.yaml").write_text(blank("predict", "Ada"))
    (criterion,) = judge_file(EXERCISES["loss"], Path("predict.yaml")).judgement.criteria
    assert criterion.hint == "it belongs to lab predict; run highwater lab check predict predict.yaml"


@pytest.mark.soak
@pytest.mark.parametrize("name", ["ada_one setting.yaml", "One-Setting (1).yaml", "one_setting.final.yaml"])
def test_without_a_heading_the_name_says_it(name: str) -> None:
    text = blank("one-setting", "Ada").split("\n", 1)[1].replace("acks: 1", "acks: all")
    (row,) = mark({name: text})
    assert list(row.marks) == ["one-setting"] and row.passed == 1


@pytest.mark.soak
def test_what_cannot_be_read_is_named_and_the_others_are_marked() -> None:
    rows = mark(
        {
            "ada/loss.yaml": loss("Ada"),
            "ada/rule.yaml": "# Lab 5: a rule\n# student: Ada\nschema: [",
            "ada/predict.yaml": "# Lab 1\n# student: Zoë\n".encode("latin-1"),
            "bob/loss.pdf": b"%PDF-1.4 \xff\xfe",
            "notes.txt": "nothing of the lab",
            "empty.yaml": "",
        }
    )
    by_file = {row["file"]: row for row in table(rows)}
    ada = by_file["ada/loss.yaml | ada/predict.yaml | ada/rule.yaml"]
    assert (ada["loss"], ada["rule"], ada["predict"]) == ("1", "?", "?")
    assert "rule: ada/rule.yaml cannot be read (not YAML" in ada["missing"]
    assert "predict: ada/predict.yaml cannot be read (`ada/predict.yaml` is not UTF-8 text" in ada["missing"]
    assert "bob/loss.pdf cannot be read" in by_file["bob/loss.pdf"]["missing"]
    assert by_file["notes.txt"]["missing"] == "notes.txt: neither the heading nor the file name names an exercise"
    assert "empty.yaml" in by_file and len(rows) == 4


@pytest.mark.soak
def test_links_pipes_runs_and_hidden_files_are_not_followed() -> None:
    Path("elsewhere").mkdir()
    Path("elsewhere/loss.yaml").write_text(loss("Eve"))
    for folder in ("class/ada/runs/0001-loss", "class/ada/explain-run", "class/.git", "class/__MACOSX"):
        Path(folder).mkdir(parents=True)
        Path(folder, "scenario.yaml").write_text("secret")
    Path("class/ada/explain-run/summary.json").write_text("{}")
    Path("class/ada/predict-run.yaml").write_text(EXERCISES["predict"].files("Ada")["predict-run.yaml"])
    Path("class/linked").symlink_to(Path("elsewhere").resolve())
    Path("class/loss.yaml").symlink_to(Path("elsewhere/loss.yaml").resolve())
    os.mkfifo("class/pipe.yaml")
    rows = mark({"ada/loss.yaml": loss("Ada"), ".DS_Store": b"\0"})
    assert [(row.student, row.files) for row in rows] == [
        ("Ada", ["ada/loss.yaml"]), ("", ["linked"]), ("", ["loss.yaml"]), ("", ["pipe.yaml"]),
    ]  # fmt: skip
    assert "secret" not in csv_of(rows) and all("link" in row.missing(NAMES)[0] for row in rows[1:3])


@pytest.mark.soak
def test_a_file_that_is_there_twice_is_named_in_both_rows() -> None:
    """Bob hands in Ada's file: it says Ada, so it stands in a row of its own."""
    rows = table(
        mark({"ada/loss.yaml": loss("Ada"), "bob/loss.yaml": loss("Ada"), "bob/rule.yaml": blank("rule", "Bob")})
    )
    assert [(row["file"], row["student"], row["same file"]) for row in rows] == [
        ("ada/loss.yaml", "Ada", "ada/loss.yaml is identical to bob/loss.yaml"),
        ("bob/loss.yaml", "Ada", "bob/loss.yaml is identical to ada/loss.yaml"),
        ("bob/rule.yaml", "Bob", ""),
    ]


@pytest.mark.soak
def test_steps_that_were_fitted_to_other_names_and_moved_are_similar() -> None:
    rows = table(mark({"ada.yaml": loss("Ada"), "bob.yaml": loss("Bob", 13), "cy.yaml": blank("loss", "Cy")}))
    assert [row["similar"] for row in rows] == [
        "ada.yaml has the same steps as bob.yaml",
        "bob.yaml has the same steps as ada.yaml",
        "",
    ]
    slower = loss("Bob").replace("400ms", "500ms")
    rows = table(mark({"bob.yaml": slower}))
    assert [row["similar"] for row in rows] == ["", "", ""]


@pytest.mark.soak
def test_the_better_of_two_answers_counts() -> None:
    (row,) = mark({"a/loss.yaml": blank("loss", "Ada"), "a/loss (1).yaml": loss("Ada")})
    assert row.passed == 1 and row.marks["loss"].file == "a/loss (1).yaml"
    assert row.missing(NAMES)[-1] == "a/loss.yaml: does not count, because a/loss (1).yaml does"


@pytest.mark.parametrize(
    "name",
    ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r\n=1", "＝1", "a;=1", "a,+1", 'a"=1', "a|@x", "a'=1", "a ; -1"],
)
def test_no_cell_is_a_formula_however_it_is_split(name: str) -> None:
    judgement = Judgement([Criterion("steps", False, "")])
    text = csv_of([MarksRow(name, {"loss": Mark(f"{name}.yaml", "loss", name, "", judgement)})])
    for delimiter in (",", ";", "\t", "|"):
        for row in csv.reader(text.splitlines()[1:], delimiter=delimiter):
            assert not [cell for cell in row if cell.strip().startswith(("=", "+", "-", "@", "＝"))]


def test_a_name_with_a_hyphen_stays_as_it_is() -> None:
    row = MarksRow("Jean-Luc - Ada & Zoë, 2")
    assert next(csv.DictReader(csv_of([row]).splitlines()))["student"] == "Jean-Luc - Ada & Zoë, 2"
