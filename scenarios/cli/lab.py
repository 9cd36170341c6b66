"""`highwater lab`: the commands `list`, `start`, `check`, `marks` and `handout` for the exercises of a lesson."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from scenarios.cli.common import (
    CommandGroup,
    FileToWrite,
    fail,
    format_option,
    formats,
    must_be_written,
    must_hold_files,
    open_option,
    open_page,
    plain_option,
    print_json,
    style_for_stdout,
)
from scenarios.observe.wording import count_of
from scenarios.process.work_folders import write_new, write_whole
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.progress import ProgressLine
from scenarios.terminal.style import folded, table_lines

if TYPE_CHECKING:
    from scenarios.lab.exercise import Exercise
    from scenarios.lab.marks import Mark, MarksRow
    from scenarios.terminal.style import Style

FILES_MAX = 1000
"""Largest number of files judged at a time, enough for a class with several answers per student."""


@click.group(cls=CommandGroup)
def lab() -> None:
    """Hand out the exercises of the lesson in scenarios/LESSONS.md, and judge the answers."""


@lab.command("list")
@format_option
@plain_option
def list_exercises(format_: str, plain: bool) -> int:
    """List the exercises in the order of the lesson."""
    from scenarios.lab.exercise import exercises

    found = exercises().values()
    if format_ == "json":
        print_json([{"exercise": item.name, "title": item.title, "minutes": item.minutes} for item in found])
        return ExitCode.HELD
    style = style_for_stdout(plain)
    click.echo(f"\n  {'NAME':<12}  {'MINUTES':>7}  EXERCISE")
    for item in found:
        click.echo(f"  {style.bold(f'{item.name:<12}')}  {item.minutes:>7}  {item.title}")
    click.echo('\n  Begin with:  highwater lab start predict --student "YOUR NAME"')
    return ExitCode.HELD


@lab.command(short_help="Write the file of exercise NAME into this folder.")
@click.argument("name")
@click.option("--student", metavar="NAME", help="Your name, or both names of a pair; it determines the exercise.")
def start(name: str, student: str | None) -> int:
    """Write the file of exercise NAME into this folder, and its run if it has one. Nothing is overwritten."""
    exercise = _exercise(name)
    student = _named(student)
    folder = Path()
    must_hold_files(folder, "cd")
    texts, value = exercise.files(student), exercise.given_run(student)
    run_dir = folder / f"{name}-run"
    for path in [*(folder / file for file in texts), *([run_dir] if value is not None else [])]:
        if path.exists() or path.is_symlink():
            fail(f"{path} already exists", ExitCode.USAGE, "move it away, or start in another folder")
    if value is not None:
        from scenarios.observe.columns.names import encodable
        from scenarios.run.runner import run_scenario

        with must_be_written(run_dir), tempfile.TemporaryDirectory(prefix=".lab-", dir=folder) as kept:
            result = run_scenario(value, runs_dir=Path(kept), keep_logs=False)
            assert result.run_dir is not None, "it was played into a folder"
            summary = {**result.summary, "run_dir": str(run_dir)}
            write_whole(result.run_dir / "summary.json", json.dumps(summary, indent=2, default=encodable) + "\n")
            result.run_dir.rename(run_dir)
        click.echo(f"  {run_dir}/")
    for file, text in texts.items():
        with must_be_written(folder / file):
            write_new(folder / file, text)
        click.echo(f"  {file}")
    first = next(iter(texts))
    click.echo(f"\n  {exercise.title}: about {exercise.minutes} minutes.")
    click.echo(f"  Read it:   {first} says what to do")
    click.echo(f"  Check it:  highwater lab check {name} {first}")
    return ExitCode.HELD


@lab.command()
@click.argument("name")
@click.argument("answers", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@formats("Output format: text (the default), or one line of JSON for each file.")
@plain_option
def check(name: str, answers: tuple[Path, ...], format_: str, plain: bool) -> int:
    """Judge the answers in FILEs to exercise NAME. The exit code is 1 if an answer is not complete.

    A scenario is played under several seeds, with limits on its size and memory. Its own `expect` is ignored.
    """
    from scenarios.lab.marks import judge_file

    _must_not_be_too_many(len(answers))
    exercise = _exercise(name)
    codes = {ExitCode.HELD}
    for path in answers:
        mark = judge_file(exercise, path)
        codes.add(_code_of(mark))
        if format_ == "json":
            click.echo(json.dumps(_line(exercise, mark)))
        else:
            click.echo(_screen(mark, style_for_stdout(plain)), nl=False)
    return _worst(codes)


@lab.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--csv",
    "csv_file",
    type=FileToWrite(),
    metavar="FILE",
    help="Also write the table to this file, for a spreadsheet.",
)
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes to use; by default one per core.")
@format_option
@plain_option
def marks(folder: Path, csv_file: Path | None, jobs: int | None, format_: str, plain: bool) -> int:
    """Judge every file below FOLDER that a class has handed in, and print one row for each student.

    The first line of a file, or its file name, names the exercise. Files without an exercise and unreadable files are
    listed but not judged. The exit code is 1 if a file cannot be read, else 0, regardless of the marks.
    """
    from scenarios.lab.marks import CSV_BEGINS, csv_of, files_handed_in, mark_file, rows_of
    from scenarios.process.pool import in_order

    handed_in = list(files_handed_in(folder))
    _must_not_be_too_many(len(handed_in))
    if not handed_in:
        fail(f"there is no file in {folder}", ExitCode.USAGE, "name the folder with the files of the class")
    if csv_file is not None and csv_file.exists():
        with csv_file.open("rb") as there:
            if not there.read(100).removeprefix(BOM_UTF8).startswith(",".join(CSV_BEGINS).encode()):
                fail(f"{csv_file} already exists and is not a table of marks", ExitCode.USAGE, "choose another name")
    found: list[Mark] = []
    work = [(str(folder), file) for file in handed_in]
    with ProgressLine("marks") as line, closing(in_order(mark_file, work, jobs or os.cpu_count() or 1)) as coming:
        for mark in coming:
            found.append(mark)
            line.show(len(found) / len(handed_in), f"{len(found)} of {len(handed_in)} files")
    rows = rows_of(found)
    if csv_file is not None:
        with must_be_written(csv_file):
            write_whole(csv_file, "\N{BOM}" + csv_of(rows))  # Without the BOM, Excel reads the file as Latin-1.
    if format_ == "json":
        print_json([_row(row) for row in rows])
    else:
        click.echo(_marks_screen(rows, style_for_stdout(plain)))
        if csv_file is not None:
            click.echo(f"  Written to {csv_file}")
    unread = [mark for mark in found if mark.judgement.criteria and not mark.is_readable]
    return _worst({ExitCode.HELD, *map(_code_of, unread)})


@lab.command()
@click.option(
    "--out",
    "page",
    type=FileToWrite(),
    default="handout.html",
    show_default=True,
    metavar="FILE",
    help="File to write.",
)
@open_option
def handout(page: Path, opens: bool) -> int:
    """Write a page to print that explains HW, LEO, ISR and acks, on one sheet of A4 or Letter."""
    text = files("scenarios.lab").joinpath("handout.html").read_text("utf-8")
    if not page.exists() or page.read_bytes() != text.encode():
        if page.exists():
            fail(f"{page} already exists", ExitCode.USAGE, "move it away, or choose another file with --out")
        with must_be_written(page):
            write_whole(page, text)
    click.echo(f"  {page}\n\n  Print it from a browser; it fits one page of A4 and of Letter.")
    if opens:
        open_page(page)
    return ExitCode.HELD


def _named(student: str | None) -> str:
    """Return the student's name with single spaces.

    If the name is missing or not allowed, ask for it at a terminal; otherwise end the command with a usage error.
    """
    from scenarios.lab.hand_in import BadName, checked_name

    asks = sys.stdin.isatty()
    while True:
        try:
            if student is None and asks:
                student = click.prompt("  Your name, or both names of a pair", default=_name_before(), err=True)
            name = checked_name(student or "")
            if name:
                return name
            why = 'give a name, such as --student "Ada and Grace"; it determines the exercise'
        except BadName as bad:
            why = f"--student: {bad}"
        if not asks:
            raise click.UsageError(why)
        click.echo(f"  {why}", err=True)
        student = None


def _name_before() -> str | None:
    """Return the student's name from any exercise file in the current folder; None if no file has a name."""
    from scenarios.lab.exercise import exercises
    from scenarios.lab.hand_in import read_hand_in
    from scenarios.language.diagnostics import ScenarioInvalid

    for name in exercises():
        with suppress(ScenarioInvalid):
            if found := read_hand_in(Path(f"{name}.yaml")).student:
                return found
    return None


def _must_not_be_too_many(count: int) -> None:
    if count > FILES_MAX:
        raise click.UsageError(f"{count:,} files were given; at most {FILES_MAX:,} are allowed at a time")


def _code_of(mark: Mark) -> ExitCode:
    if mark.is_our_bug:
        return ExitCode.OUR_BUG
    if mark.judgement.criteria and mark.judgement.criteria[-1].name == "judged":
        return ExitCode.MISSING
    return ExitCode.HELD if mark.judgement.passed else ExitCode.EXPECTATION_FAILED


def _worst(codes: Collection[ExitCode]) -> ExitCode:
    worst = (ExitCode.OUR_BUG, ExitCode.MISSING, ExitCode.EXPECTATION_FAILED, ExitCode.HELD)
    return next(code for code in worst if code in codes)


def _exercise(name: str) -> Exercise:
    from scenarios.lab.exercise import exercises
    from scenarios.language.diagnostics import did_you_mean

    found = exercises()
    if name not in found:
        close = did_you_mean(name, found)
        hint = f"Did you mean `{close}`? " if close else ""
        raise click.UsageError(f"There is no exercise `{name}`. {hint}Choose one of {', '.join(found)}.")
    return found[name]


def _line(exercise: Exercise, mark: Mark) -> dict[str, Any]:
    """Return the result of judging one file as a JSON document."""
    return {
        "exercise": exercise.name,
        "student": mark.student,
        "passed": mark.judgement.passed,
        "held": [criterion.name for criterion in mark.judgement.criteria if criterion.holds],
        "missing": mark.lacks,
        "file": mark.file,
        "sha256": mark.digest,
        "seeds": list(exercise.seeds(mark.student)),
        "version": version("highwater"),
    }


def _screen(mark: Mark, style: Style) -> str:
    from scenarios.language.diagnostics import format_text

    judgement = mark.judgement
    lines = ["", f"  {style.bold(mark.exercise)} {style.sign('dot')} {mark.student or 'no name'}", ""]
    for criterion in judgement.criteria:
        sign, colour = ("good", "green") if criterion.holds else ("bad", "red")
        words = criterion.sentence if criterion.holds else f"{criterion.name}: {criterion.sentence}"
        first, *others = folded(words, style.width - 4 - len(style.sign(sign)))
        lines += [f"  {style.paint(style.sign(sign), colour)} {first}", *(f"    {line}" for line in others)]
        if criterion.hint and not criterion.holds:
            lines.append(f"      {criterion.hint}")
    if judgement.diagnostics:
        lines += ["", format_text(mark.file, judgement.diagnostics)]
    held = sum(criterion.holds for criterion in judgement.criteria)
    done = "complete" if judgement.passed else "not complete yet"
    lines += ["", f"  {held} of {len(judgement.criteria)} criteria met: {done}"]
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------------------------------------------- marks of a class


def _row(row: MarksRow) -> dict[str, Any]:
    from scenarios.lab.exercise import exercises

    names = list(exercises())
    return {
        "files": row.files,
        "student": row.student,
        "exercises": {name: row.marks[name].judgement.passed if name in row.marks else None for name in names},
        "passed": row.passed,
        "missing": row.missing(names),
        "same_file": row.same,
        "similar": row.similar,
    }


def _marks_screen(rows: Sequence[MarksRow], style: Style) -> str:
    from scenarios.lab.exercise import exercises

    names = list(exercises())
    cells: list[Sequence[str]] = [("FILES", "STUDENT", *(_SHORT_HEADS.get(name, name) for name in names), "")]
    notes: list[str] = []
    shared = Counter(folder for row in rows for folder in {str(PurePath(file).parent) for file in row.files})
    for row in rows:
        files, student = _shown_files(row.files, shared), _cut(row.student or style.sign("none"))
        cells.append((files, student, *(_sign_of(row.marks.get(name), style) for name in names), f"{row.passed} of 6"))
        found = [*row.missing(names), *row.same, *row.similar]
        if found:
            notes += ["", f"  {style.bold(f'{files}  {row.student}'.rstrip())}"]
            notes += [line for text in found for line in folded(text, style.width, "    ", "      ")]
    legend = [f"{style.sign(sign)} {meaning}" for sign, meaning in _MEANINGS.items()]
    more = ". Below, unmet criteria follow the name of the exercise; for details: highwater lab check NAME FILE"
    lines = ["", *table_lines(cells), "", *folded(", ".join([*legend, "? unreadable"]) + more, style.width, "  ")]
    lines += notes
    students = [row for row in rows if row.student]
    passed = sum(row.passed == len(names) for row in students)
    return "\n".join([*lines, "", f"  {passed} of {count_of(len(students), 'student')} completed all six exercises"])


_MEANINGS = {"good": "complete", "bad": "not complete", "none": "not handed in"}
_SHORT_HEADS = {"one-setting": "setting"}
NAME_COLUMNS = 22


def _cut(text: str) -> str:
    return text if len(text) <= NAME_COLUMNS else f"{text[: NAME_COLUMNS - 2]}.."


def _shown_files(files: Sequence[str], shared: Mapping[str, int]) -> str:
    """Return a student's files as text: their folder if it has no other files, else the first file and a count.

    Args:
        shared: number of rows with files in each folder.
    """
    folder, *others = sorted({str(PurePath(file).parent) for file in files})
    if not others and folder != "." and shared[folder] == 1:
        return _cut(f"{folder}/")
    return _cut(files[0]) + (f" +{len(files) - 1}" if len(files) > 1 else "")


def _sign_of(mark: Mark | None, style: Style) -> str:
    if mark is None:
        return style.sign("none")
    if mark.judgement.passed:
        return style.paint(style.sign("good"), "green")
    return style.paint(style.sign("bad") if mark.is_readable else "?", "red")
