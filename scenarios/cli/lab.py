"""`highwater lab list | start NAME | check NAME FILE...`: the exercises of a lesson, handed out and marked."""

from __future__ import annotations

import json
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scenarios.cli.common import (
    CommandGroup,
    fail,
    format_option,
    must_be_written,
    must_hold_files,
    plain_option,
    print_json,
    style_for_stdout,
)
from scenarios.observe.columns.names import encodable
from scenarios.process.failures import first_leaf, lack_behind
from scenarios.process.work_folders import write_new, write_whole
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.style import folded

if TYPE_CHECKING:
    from scenarios.lab.exercise import Exercise, Judgement
    from scenarios.lab.hand_in import HandIn
    from scenarios.terminal.style import Style

FILES_MAX = 500
"""A class, with several answers each."""


@click.group(cls=CommandGroup)
def lab() -> None:
    """The exercises of a lesson: hand them out, and judge what comes back. scenarios/LESSONS.md is the lesson."""


@lab.command("list")
@format_option
@plain_option
def list_exercises(format_: str, plain: bool) -> int:
    """The exercises in the order of the lesson."""
    from scenarios.lab.exercise import exercises

    found = exercises().values()
    if format_ == "json":
        print_json([{"exercise": one.name, "title": one.title, "minutes": one.minutes} for one in found])
        return ExitCode.HELD
    style = style_for_stdout(plain)
    click.echo(f"\n  {'NAME':<12}  {'MINUTES':>7}  EXERCISE")
    for one in found:
        click.echo(f"  {style.bold(f'{one.name:<12}')}  {one.minutes:>7}  {one.title}")
    click.echo('\n  Begin with:  highwater lab start predict --student "YOUR NAME"')
    return ExitCode.HELD


@lab.command(short_help="Write the file of exercise NAME into this folder.")
@click.argument("name")
@click.option("--student", default="", help="Your name: the exercise is drawn from it.")
def start(name: str, student: str) -> int:
    """Write the file of exercise NAME into this folder, and its run if it has one. Nothing is overwritten."""
    from scenarios.lab.hand_in import BadName, checked_name

    exercise = _exercise(name)
    try:
        student = checked_name(student)
    except BadName as bad:
        raise click.UsageError(f"--student: {bad}") from bad
    folder = Path()
    must_hold_files(folder, "cd")
    texts, given = exercise.files(student), exercise.given_run(student)
    run_dir = folder / f"{name}-run"
    for path in [*(folder / file for file in texts), *([run_dir] if given is not None else [])]:
        if path.exists() or path.is_symlink():
            fail(f"{path} is there already", ExitCode.USAGE, "move it away, or start in another folder")
    if given is not None:
        from scenarios.run.runner import run_scenario

        with must_be_written(run_dir), tempfile.TemporaryDirectory(prefix=".lab-", dir=folder) as kept:
            result = run_scenario(given, runs_dir=Path(kept), keep_logs=False)
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
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", help="One line of JSON for each file."
)
@plain_option
def check(name: str, files: tuple[Path, ...], format_: str, plain: bool) -> int:
    """Judge the answers in FILEs to exercise NAME. Exit code 1 if one of them is not complete.

    A scenario is played under several seeds and within bounds; its own `expect` is not looked at.
    """
    from scenarios.lab.exercise import Criterion, Judgement
    from scenarios.lab.hand_in import HandIn, read_hand_in
    from scenarios.lab.sandbox import bounded_memory
    from scenarios.language.diagnostics import ScenarioInvalid

    if len(files) > FILES_MAX:
        raise click.UsageError(f"{len(files)} files: at most {FILES_MAX} at a time")
    exercise = _exercise(name)
    codes = {ExitCode.HELD}
    for path in files:
        hand_in = HandIn(str(path), "", "", "")
        with bounded_memory():
            try:
                hand_in = read_hand_in(path)
                judgement = exercise.judge(hand_in)
                codes.add(ExitCode.HELD if judgement.passed else ExitCode.EXPECTATION_FAILED)
            except ScenarioInvalid as invalid:
                judgement = exercise.unreadable(invalid)
                codes.add(ExitCode.EXPECTATION_FAILED)
            except Exception as error:  # It must not keep the others from being marked.
                lack = lack_behind(error)
                why = (
                    lack.what
                    if lack is not None
                    else f"a bug in highwater: {type(first_leaf(error)).__name__}: {error}"
                )
                judgement = Judgement([Criterion("judged", False, "it can be judged", why)])
                codes.add(ExitCode.MISSING if lack is not None else ExitCode.OUR_BUG)
        if format_ == "json":
            click.echo(json.dumps(_line(exercise, hand_in, judgement)))
        else:
            click.echo(_screen(exercise, hand_in, judgement, style_for_stdout(plain)), nl=False)
    worst = (ExitCode.OUR_BUG, ExitCode.MISSING, ExitCode.EXPECTATION_FAILED, ExitCode.HELD)
    return next(code for code in worst if code in codes)


def _exercise(name: str) -> Exercise:
    from scenarios.lab.exercise import exercises
    from scenarios.language.diagnostics import did_you_mean

    found = exercises()
    if name not in found:
        close = did_you_mean(name, found)
        hint = f"did you mean `{close}`? " if close else ""
        raise click.UsageError(f"There is no exercise `{name}`: {hint}there are {', '.join(found)}")
    return found[name]


def _line(exercise: Exercise, hand_in: HandIn, judgement: Judgement) -> dict[str, Any]:
    """What a teacher collects of one file."""
    return {
        "exercise": exercise.name,
        "student": hand_in.student,
        "passed": judgement.passed,
        "held": [criterion.name for criterion in judgement.criteria if criterion.holds],
        "missing": [criterion.name for criterion in judgement.criteria if not criterion.holds],
        "file": hand_in.file,
        "sha256": hand_in.digest,
        "seeds": list(exercise.seeds(hand_in.student)),
        "version": version("highwater"),
    }


def _screen(exercise: Exercise, hand_in: HandIn, judgement: Judgement, style: Style) -> str:
    from scenarios.language.diagnostics import format_text

    lines = ["", f"  {style.bold(exercise.name)} {style.sign('dot')} {hand_in.student or 'no name'}", ""]
    for criterion in judgement.criteria:
        sign, colour = ("good", "green") if criterion.holds else ("bad", "red")
        first, *others = folded(criterion.sentence, style.width - 4 - len(style.sign(sign)))
        lines += [f"  {style.paint(style.sign(sign), colour)} {first}", *(f"    {line}" for line in others)]
        if criterion.hint and not criterion.holds:
            lines.append(f"      {criterion.hint}")
    if judgement.diagnostics:
        lines += ["", format_text(hand_in.file, judgement.diagnostics)]
    held = sum(criterion.holds for criterion in judgement.criteria)
    done = "complete" if judgement.passed else "not complete yet"
    lines += ["", f"  {held} of {len(judgement.criteria)} hold: {done}"]
    return "\n".join(lines) + "\n"
