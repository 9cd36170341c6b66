"""The bundled scenarios: finding one by id or path, and the table of contents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scenarios.language.diagnostics import did_you_mean
from scenarios.language.parse.outline import Outline, read_outline

LIBRARY = Path(__file__).parents[2] / "library"
SCHEMA_FILE = Path(__file__).parents[2] / "scenario.schema.json"

LESSONS = {
    1: "What does an ack promise?",
    2: "Who is in sync?",
    3: "Who is the leader?",
    4: "Which log is right after a crash?",
    5: "What happens exactly once?",
}
"""The lessons of the curriculum."""


class UnknownScenario(LookupError):
    """Neither a bundled id nor a file; `suggestion` is a file with that name, or the closest id."""

    def __init__(self, name: str, suggestion: str | None) -> None:
        hint = f"did you mean `{suggestion}`?" if suggestion else "`highwater list` names the bundled ones."
        super().__init__(f"There is no scenario `{name}`: {hint}")
        self.suggestion = suggestion


def bundled() -> dict[str, Path]:
    """id -> file, sorted by id."""
    return {path.stem: path for path in sorted(LIBRARY.glob("*.yaml"))}


def find_scenario(name: str) -> Path:
    """The file of a bundled id, or the path itself when it looks like one. raises: UnknownScenario"""
    known = bundled()
    if name in known:
        return known[name]
    path = Path(name)
    # A path that does not exist is for the loader to report, with its own code; a bare word is a misspelt id.
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1 or path.exists():
        return path
    beside = f"{name}.yaml"
    if Path(beside).is_file():
        raise UnknownScenario(name, beside)
    begun = next((one for one in known if name and one.startswith(name)), None)
    raise UnknownScenario(name, begun or did_you_mean(name, known))


@dataclass(frozen=True, slots=True)
class Section:
    """A lesson with its scenarios, or what is beside the lessons (lesson None)."""

    lesson: int | None
    title: str
    files: tuple[Outline, ...]


def sections(tag: str | None = None) -> tuple[Section, ...]:
    """All bundled scenarios (with `tag`), lessons first, in curriculum order; empty sections left out."""
    files = [read_outline(path) for path in bundled().values()]
    chosen = [file for file in files if tag is None or tag in file.tags]
    found = [
        Section(lesson, title, tuple(file for file in chosen if file.lesson == lesson))
        for lesson, title in LESSONS.items()
    ]
    found.append(Section(None, "Besides", tuple(file for file in chosen if file.lesson is None)))
    return tuple(section for section in found if section.files)


def all_tags() -> tuple[str, ...]:
    return tuple(sorted({tag for path in bundled().values() for tag in read_outline(path).tags}))
