"""A scenario file's entry in the table of contents, without building the scenario: `highwater list` reads them all.

A file is taken as valid (`loading.load_file` is the judge of that); missing values have the loader's defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scenarios.language.diagnostics import Problems, ScenarioInvalid, SourceText, did_you_mean
from scenarios.language.expect import ANOMALIES
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, Sequence, parse, read_text


@dataclass(frozen=True, slots=True)
class OutlinedRun:
    """One run of a file: the scenario itself (id "base") or a variant. verdict: None when none is expected."""

    id: str
    title: str
    verdict: tuple[str, ...] | None

    @property
    def words(self) -> str:
        """`ok`, `lost`, `lost, dirty-read`; `-` when it expects nothing."""
        return "-" if self.verdict is None else ", ".join(self.verdict) or "ok"


@dataclass(frozen=True, slots=True)
class Outline:
    """The head of one file. profile: None when the file leaves it to the default."""

    path: str
    id: str
    title: str
    question: str | None
    lesson: int | None
    tags: tuple[str, ...]
    profile: str | None
    base: OutlinedRun
    variants: tuple[OutlinedRun, ...]

    @property
    def all(self) -> tuple[OutlinedRun, ...]:
        return (self.base, *self.variants)


def read_outline(path: Path) -> Outline:
    """raises: ScenarioInvalid when the file cannot be read, or is no mapping"""
    problems = Problems()
    text = read_text(path, str(path), problems)
    root = None if text is None else parse(text, SourceText.of(str(path), text), problems)
    if not isinstance(root, Mapping):
        raise ScenarioInvalid(str(path), problems.sorted())
    lesson = _text(root.get("lesson"))
    title = _text(root.get("title")) or ""
    return Outline(
        path=str(path),
        id=_text(root.get("id")) or "",
        title=title,
        question=_text(root.get("question")),
        lesson=None if lesson is None else int(lesson),
        tags=_texts(root.get("tags")),
        profile=_text(root.get("profile")),
        base=OutlinedRun("base", title, _verdict(root)),
        variants=tuple(_variant(item, title) for item in _items(root.get("variants")) if isinstance(item, Mapping)),
    )


def _variant(node: Mapping, title: str) -> OutlinedRun:
    """source: variants.apply_variant: its own title, else the patch's, else the file's; its own `expect`."""
    patch = node.get("patch")
    patched = _text(patch.get("title")) if isinstance(patch, Mapping) else None
    return OutlinedRun(_text(node.get("id")) or "", _text(node.get("title")) or patched or title, _verdict(node))


def _verdict(node: Mapping) -> tuple[str, ...] | None:
    """source: parse_expect: an `expect` without a verdict means ok"""
    expect = node.get("expect")
    if expect is None:
        return None
    verdict = expect.get("verdict") if isinstance(expect, Mapping) else None
    kinds = (_text(verdict),) if isinstance(verdict, Scalar) else _texts(verdict)
    return tuple(kind for kind in ANOMALIES if kind in kinds)


def _text(node: Node | None) -> str | None:
    return node.text if isinstance(node, Scalar) else None


def _items(node: Node | None) -> list[Node]:
    return node.items if isinstance(node, Sequence) else []


def _texts(node: Node | None) -> tuple[str, ...]:
    return tuple(item.text for item in _items(node) if isinstance(item, Scalar))


# ------------------------------------------------------------------------------------------------------------ catalogue
#
# The bundled scenarios: finding one by id or path, and the table of contents.

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
