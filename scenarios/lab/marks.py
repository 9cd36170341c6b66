"""The marks of a class: every file that was handed in is judged, and each student gets a row.

1. The exercise of a file is named by its heading (`# Lab 2: ...`), else by its file name. A file with neither is listed
   but not judged.
2. A row has the files of one student. If files for the same exercise are in two folders, the student has a row for each
   folder, because one of the folders is probably that of another student.
3. A file without a student's name is added to the row with the most files in the same folder. If there is no such row,
   or a tie, the file gets its own row.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import walk
from pathlib import Path, PurePath

from replica.wording import listed
from scenarios.lab.exercise import Criterion, Draw, Exercise, Judgement, ScenarioExercise, exercises
from scenarios.lab.hand_in import HandIn, read_hand_in
from scenarios.lab.sandbox import bounded_memory
from scenarios.language.diagnostics import ScenarioInvalid, printable
from scenarios.language.parse.loading import load_text
from scenarios.language.steps import At
from scenarios.process.failures import first_leaf, lack_behind

UNREADABLE = "valid"
"""Name of the criterion that fails if a file cannot be read."""
_HEADING = re.compile(r"#[ \t]*Lab[ \t]+(\d)\b", re.IGNORECASE)
_GIVEN = re.compile(r"#[ \t]*The run of lab\b")
_HEAD_LINES = 20
_STEPS_MIN = 2
"""Shorter timelines are not compared with others, because two students may both write a single kill."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The judgement of one file.

    Attributes:
        file: path below the folder of the class.
        exercise: name of the exercise; empty if the file belongs to none or does not count.
        student: name of the student; empty if the file has none.
        digest: SHA-256 of the file; empty if it cannot be read.
        trouble: reason why the file was not judged or does not count; empty if it was judged and counts.
        is_our_bug: True if a bug in Highwater prevented the judgement.
        steps: steps of the timeline with placeholders for names, to find copies; empty if there are too few.
    """

    file: str
    exercise: str
    student: str
    digest: str
    judgement: Judgement
    trouble: str = ""
    is_our_bug: bool = False
    steps: str = ""

    @property
    def folder(self) -> str:
        return str(PurePath(self.file).parent)

    @property
    def is_readable(self) -> bool:
        return not self.trouble and not any(
            item.name == UNREADABLE and not item.holds for item in self.judgement.criteria
        )

    @property
    def why_not(self) -> str:
        """The reason why the file is not a complete answer."""
        if self.is_readable:
            return ", ".join(self.lacks)
        why = self.trouble or "; ".join(printable(diagnostic.title) for diagnostic in self.judgement.diagnostics[:1])
        return why if not self.exercise else f"{self.file} cannot be read ({why})"

    @property
    def lacks(self) -> list[str]:
        return [criterion.name for criterion in self.judgement.criteria if not criterion.holds]


@dataclass(slots=True)
class MarksRow:
    """The files of one student.

    Attributes:
        student: name of the student; empty if the files have none.
        marks: marks by exercise.
        others: marks of files that belong to no exercise or do not count.
        same: sentences about identical files.
        similar: sentences about different files with the same steps.
    """

    student: str
    marks: dict[str, Mark] = field(default_factory=dict)
    others: list[Mark] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    similar: list[str] = field(default_factory=list)

    @property
    def all_marks(self) -> list[Mark]:
        return [*self.marks.values(), *self.others]

    @property
    def files(self) -> list[str]:
        return sorted(mark.file for mark in self.all_marks)

    @property
    def passed(self) -> int:
        return sum(mark.judgement.passed for mark in self.marks.values())

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return sentences on what each answer lacks, which exercises are missing, and which files do not count.

        Args:
            names: names of all exercises.
        """
        answered = [self.marks[name] for name in names if name in self.marks]
        lacks = [f"{mark.exercise}: {mark.why_not}" for mark in answered if not mark.judgement.passed]
        absent = [name for name in names if name not in self.marks] if self.student else []
        return [
            *lacks,
            *([f"missing answers: {', '.join(absent)}"] if absent else []),
            *(f"{mark.file}: {mark.why_not}" for mark in self.others),
        ]


# ------------------------------------------------------------------------------------------------------------ one file


def judge_file(exercise: Exercise, path: Path, shown: str | None = None) -> Mark:
    """Judge one file. Every exception becomes part of the mark, so that the other files can still be judged.

    Args:
        shown: name of the file in the mark; None for its path.
    """
    hand_in, trouble, is_our_bug = HandIn(str(path), "", "", ""), "", False
    with bounded_memory():
        try:
            hand_in = read_hand_in(path)
            others = _headed_exercises(hand_in.text)
            if others and exercise.name not in others:
                why = f"it belongs to lab {others[0]}; run highwater lab check {others[0]} {printable(str(path))}"
                judgement = Judgement([Criterion(UNREADABLE, False, f"the file belongs to lab {exercise.name}", why)])
            else:
                judgement = exercise.judge(hand_in)
        except ScenarioInvalid as invalid:
            judgement = exercise.unreadable(invalid)
        except Exception as error:
            lack = lack_behind(error)
            is_our_bug = lack is None
            trouble = f"a bug in highwater: {type(first_leaf(error)).__name__}: {error}" if lack is None else lack.what
            judgement = Judgement([Criterion("judged", False, "the file can be judged", trouble)])
    steps = _steps_of(exercise, hand_in) if judgement.criteria and judgement.criteria[0].holds else ""
    file = shown or str(path)
    return Mark(file, exercise.name, hand_in.student, hand_in.digest, judgement, trouble, is_our_bug, steps)


def mark_file(job: tuple[str, str]) -> Mark:
    """Find the exercise of a file, and judge the file.

    Args:
        job: the folder of the class, and the path of the file below this folder.
    """
    folder, file = job
    found = exercises()
    path = Path(folder, file)
    name = _named_exercise(path.stem, found)
    try:
        headed = _headed_exercises(read_hand_in(path).text)
    except ScenarioInvalid as invalid:
        judgement = next(iter(found.values())).unreadable(invalid)
        why = "; ".join(printable(diagnostic.title).replace(str(path), file) for diagnostic in judgement.diagnostics)
        return Mark(file, name, "", "", judgement, why)
    name = headed[0] if headed else name
    if not name:
        return Mark(file, "", "", "", Judgement(), "neither the heading nor the file name names an exercise")
    return judge_file(found[name], path, file)


def _headed_exercises(text: str) -> list[str]:
    """Return the names of the exercises in headings at the top of a file, such as `# Lab 2: ...`."""
    head = text.splitlines()[:_HEAD_LINES]
    numbers = [int(heading[1]) for line in head if (heading := _HEADING.match(line))]
    return [exercise.name for exercise in exercises().values() if exercise.place in numbers]


def _named_exercise(stem: str, names: dict[str, Exercise]) -> str:
    """Return the exercise that a file name names: `one-setting` for `ada_one setting (2)`; empty if there is none."""
    words = f"-{re.sub(r'[^a-z]+', '-', stem.casefold())}-"
    return next((name for name in names if f"-{name}-" in words), "")


def _steps_of(exercise: Exercise, hand_in: HandIn) -> str:
    """Return the steps of a student's timeline in a form that reveals copies; empty if there are too few.

    Times count from the first step, and placeholders replace the student's topic and brokers. So a copied timeline is
    still equal after a student has adapted it to another topic and other brokers.
    """
    if not isinstance(exercise, ScenarioExercise) or "timeline" not in exercise.may_change:
        return ""
    scenario = load_text(hand_in.text, hand_in.file).scenario
    if len(scenario.timeline) < _STEPS_MIN:
        return ""
    draw, first_us = Draw(exercise.name, hand_in.student), None
    lines = []
    for step in scenario.timeline:
        at_us = step.trigger.at_us if isinstance(step.trigger, At) else 0
        first_us = at_us if first_us is None else first_us
        lines.append(f"{at_us - first_us} {step.payload.sentence()} {step.for_us} {step.every_us} {step.times}")
    text = re.sub(r"@[\w-]+", "@", "\n".join([exercise.name, *lines])).replace(draw.topic(), "TOPIC")
    for index, broker in enumerate(draw.brokers()):
        text = re.sub(rf"\b{broker}\b", f"BROKER-{index}", text)
    return text


# -------------------------------------------------------------------------------------------------------------- a class


def files_handed_in(folder: Path) -> Iterator[str]:
    """Yield the paths of files below a folder, relative to it and sorted.

    Hidden files, folders of runs, and the scenario that lab 1 gives to students are skipped.
    """
    for directory, folders, files in walk(folder):
        links = [name for name in folders if Path(directory, name).is_symlink()]
        folders[:] = sorted(
            name for name in folders if not name.startswith((".", "__MACOSX")) and not _is_run(Path(directory, name))
        )
        for name in sorted([*files, *links]):
            path = Path(directory, name)
            if not name.startswith(".") and not (path.suffix == ".yaml" and _is_given_run(path)):
                yield str(path.relative_to(folder))


def _is_run(folder: Path) -> bool:
    return folder.name == "runs" or (folder / "summary.json").exists()


def _is_given_run(path: Path) -> bool:
    try:
        return _GIVEN.match(read_hand_in(path).text) is not None
    except ScenarioInvalid:
        return False


def rows_of(marks: Sequence[Mark]) -> list[MarksRow]:
    """Return the rows of the students, sorted by name, followed by the rows of files without a student's name."""
    by_student: dict[str, list[Mark]] = defaultdict(list)
    nameless = []
    for mark in marks:
        if mark.student:
            by_student[" ".join(mark.student.casefold().split())].append(mark)
        else:
            nameless.append(mark)
    rows: list[MarksRow] = []
    for name in sorted(by_student):
        rows += _rows_of_student(by_student[name])
    named = list(rows)
    for mark in nameless:
        owner = None if mark.folder == "." else _owner_of(mark.folder, named)
        if owner is None:
            rows.append(owner := MarksRow(""))
        _add(owner, mark)
    _note_copies(rows)
    return rows


def _owner_of(folder: str, rows: Sequence[MarksRow]) -> MarksRow | None:
    """Return the row with the most files in a folder; None if no row has any, or if there is a tie."""
    counted = [(sum(mark.folder == folder for mark in row.all_marks), number) for number, row in enumerate(rows)]
    *_, second, first = [(0, 0), (0, 0), *sorted(counted)]
    return rows[first[1]] if first[0] > second[0] else None


def _rows_of_student(marks: Sequence[Mark]) -> Iterator[MarksRow]:
    places: dict[str, dict[str, None]] = defaultdict(dict)
    for mark in marks:
        places[mark.exercise][mark.folder] = None
    is_split = any(len(folders) > 1 for folders in places.values())
    rows: dict[str, MarksRow] = {}
    for mark in marks:
        _add(rows.setdefault(mark.folder if is_split else "", MarksRow(mark.student)), mark)
    yield from rows.values()


def _add(row: MarksRow, mark: Mark) -> None:
    """Add a mark to a row. Of two answers to the same exercise, only the better counts."""
    known = row.marks.get(mark.exercise)
    if not mark.exercise:
        row.others.append(mark)
    elif known is None or _worth(mark) > _worth(known):
        row.marks[mark.exercise] = mark
        row.others += [] if known is None else [_set_aside(known, mark)]
    else:
        row.others.append(_set_aside(mark, known))


def _worth(mark: Mark) -> tuple[bool, int]:
    return mark.judgement.passed, sum(criterion.holds for criterion in mark.judgement.criteria)


def _set_aside(mark: Mark, better: Mark) -> Mark:
    return replace(mark, exercise="", trouble=mark.trouble or f"does not count, because {better.file} does")


def _note_copies(rows: Sequence[MarksRow]) -> None:
    """Add to each row sentences about its files that are identical to other files, or have the same steps."""
    same: dict[str, list[str]] = defaultdict(list)
    alike: dict[str, list[Mark]] = defaultdict(list)
    marks = [mark for row in rows for mark in row.all_marks]
    for mark in marks:
        if mark.digest:
            same[mark.digest].append(mark.file)
        if mark.steps:
            alike[mark.steps].append(mark)
    for row in rows:
        for mark in sorted(row.all_marks, key=lambda mark: mark.file):
            copies = [file for file in same.get(mark.digest, ()) if file != mark.file]
            row.same += [f"{mark.file} is identical to {listed(copies)}"] if copies else []
            others = [item.file for item in alike.get(mark.steps, ()) if item.digest != mark.digest]
            row.similar += [f"{mark.file} has the same steps as {listed(others)}"] if others else []


# ------------------------------------------------------------------------------------------------------------------ CSV

CSV_BEGINS = ("file", "student")
_FORMULA = re.compile(r"((?:^|[;,|\"'])\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")


def csv_of(rows: Sequence[MarksRow]) -> str:
    """Return the rows as CSV: 1 for a complete answer, 0 for an incomplete answer, and ? for an unreadable file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(exercises())
    writer.writerow([*CSV_BEGINS, *names, "passed", "missing", "same file", "similar"])
    for row in rows:
        marks = [row.marks.get(name) for name in names]
        cells = [
            " | ".join(row.files),
            row.student,
            *("" if mark is None else str(int(mark.judgement.passed)) if mark.is_readable else "?" for mark in marks),
            str(row.passed),
            " | ".join(row.missing(names)),
            " | ".join(row.same),
            " | ".join(row.similar),
        ]
        writer.writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cell(text: str) -> str:
    """Escape a cell so that a spreadsheet reads neither the cell nor, after splitting it, any part as a formula."""
    return _FORMULA.sub(r"\1'", printable(text))
