"""The catalogue: outlines of scenario files, read without building the scenarios. `highwater list` reads them all.

A file is assumed to be valid; `loading.load_file` checks that. Missing values have the loader's defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Sequence as SequenceType
from dataclasses import dataclass, replace
from pathlib import Path

from scenarios.language.diagnostics import Problems, ScenarioInvalid, SourceText, did_you_mean
from scenarios.language.expect import ANOMALIES
from scenarios.language.steps import MODIFIERS
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, Sequence, parse, read_text


@dataclass(frozen=True, slots=True)
class OutlinedRun:
    """One run of a file: the scenario itself, with the id "base", or a variant.

    Attributes:
        verdict: the expected kinds of anomalies, () for ok; None if nothing is expected.
    """

    id: str
    title: str
    verdict: tuple[str, ...] | None

    @property
    def words(self) -> str:
        """Return the expected verdict as text: `ok`, `lost`, or `lost, dirty-read`; `-` if nothing is expected."""
        return "-" if self.verdict is None else ", ".join(self.verdict) or "ok"


@dataclass(frozen=True, slots=True)
class Outline:
    """The head of a scenario file, with the settings and verbs that `highwater list` can search for.

    Attributes:
        profile: the era; None for the default.
        settings: each `key=value` of the cluster, topics, clients, network and rules, variants included.
        verbs: the verbs of its steps, variants included.
        sources: what it is about in Kafka, such as `KIP-853: KRaft Controller Membership Changes`.
    """

    path: str
    id: str
    title: str
    question: str | None
    lesson: int | None
    tags: tuple[str, ...]
    profile: str | None
    base: OutlinedRun
    variants: tuple[OutlinedRun, ...]
    settings: tuple[str, ...]
    verbs: tuple[str, ...]
    sources: tuple[str, ...]

    def places_of(self, word: str) -> tuple[str, ...]:
        """Return the parts of the outline that contain a word, such as `title` or `setting acks=all`; empty if none."""
        return (
            *(["name"] if _holds(self.id, word) else []),
            *(["title"] if _holds(self.title, word) else []),
            *(["question"] if _holds(self.question or "", word) else []),
            *(f"tag {tag}" for tag in self.tags if _holds(tag, word)),
            *(f"verb {verb}" for verb in self.verbs if _holds(verb, word)),
            *(f"setting {setting}" for setting in self.settings if _holds(setting, word)),
            *(f"variant {run.id}" for run in self.variants if _holds(run.id, word) or _holds(run.title, word)),
            *(f"source {source}" for source in self.sources if _holds(source, word)),
            *(
                f"verdict {kind}"
                for kind in dict.fromkeys(kind for run in self.all for kind in run.verdict or ())
                if _holds(kind, word)
            ),
        )

    @property
    def all(self) -> tuple[OutlinedRun, ...]:
        return (self.base, *self.variants)


def read_outline(path: Path) -> Outline:
    """Read the outline of a file.

    Raises:
        ScenarioInvalid: the file cannot be read or is not a mapping.
    """
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
        settings=tuple(dict.fromkeys(_settings(root))),
        verbs=tuple(dict.fromkeys(_verbs(root))),
        sources=_texts_of(root.get("sources"), "ref"),
    )


def _blocks(root: Mapping) -> Iterator[tuple[str, Node]]:
    """Yield the top-level entries (key, value) of the file, of its variants and of their patches."""
    variants = [item for item in _items(root.get("variants")) if isinstance(item, Mapping)]
    for tree in (root, *variants, *(patch for item in variants if isinstance(patch := item.get("patch"), Mapping))):
        yield from ((name, node) for name, (_, node) in tree.entries.items())


def _settings(root: Mapping) -> Iterator[str]:
    for name, node in _blocks(root):
        if name in ("profile", "protocol", "cluster", "topics", "network", "workloads"):
            yield from _leaves(name, node)


def _leaves(name: str, node: Node) -> Iterator[str]:
    if isinstance(node, Scalar):
        yield f"{name}={node.text}"
    elif isinstance(node, Mapping):
        for key, (_, value) in node.entries.items():
            yield from _leaves(key, value)


def _verbs(root: Mapping) -> Iterator[str]:
    for name, node in _blocks(root):
        for step in _items(node) if name in ("timeline", "add_timeline") else ():
            yield from (key for key in step.entries if key not in MODIFIERS) if isinstance(step, Mapping) else ()


def _holds(text: str, word: str) -> bool:
    """Return True if a word or number of `text` begins with `word`, ignoring case.

    A blank, `.`, `-` or `_` inside `word` matches any number of these, even none: `KIP-101` is in `kip101-replicas`.
    """
    parts = (re.escape(part) for part in re.split(r"(?<=\w)[._\s-]+(?=\w)", word.lower()))
    begins = "(?<![0-9])" if word[:1].isdigit() else "(?<![a-z0-9])" if word[:1].isalpha() else ""
    return re.search(begins + r"[._\s-]*".join(parts), text.lower()) is not None


def _variant(node: Mapping, title: str) -> OutlinedRun:
    """Return the outline of a variant.

    As in `variants.apply_variant`, the title is the variant's, or else the one in its patch, or else the file's.
    """
    patch = node.get("patch")
    patched = _text(patch.get("title")) if isinstance(patch, Mapping) else None
    return OutlinedRun(_text(node.get("id")) or "", _text(node.get("title")) or patched or title, _verdict(node))


def _verdict(node: Mapping) -> tuple[str, ...] | None:
    """Return the kinds of anomalies that a file or variant expects, as `parse.expect.read_expect` does.

    Return () if `expect` has no verdict, which means ok, and None if there is no `expect`.
    """
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


def _texts_of(node: Node | None, key: str) -> tuple[str, ...]:
    """Return the text of `key` in each mapping of a list. Mappings without a text for that key are skipped."""
    found = (_text(item.get(key)) for item in _items(node) if isinstance(item, Mapping))
    return tuple(text for text in found if text is not None)


# ------------------------------------------------------------------------------------------------------------ catalogue
#
# The bundled scenarios: finding one by id or path, and listing them by lesson.

LIBRARY = Path(__file__).parents[2] / "library"
SCHEMA_FILE = Path(__file__).parents[2] / "scenario.schema.json"

LESSONS = {
    1: "What an ack promises",
    2: "Retries, order and duplicates",
    3: "In sync, and out",
    4: "Too few replicas",
    5: "The high watermark, and who reads",
    6: "Who may lead",
    7: "Operating a cluster",
    8: "Controllers and lives of brokers",
    9: "Which log is right",
    10: "Disks and power",
    11: "The ZooKeeper era",
    12: "Transactions",
    13: "Luck or law",
}
"""Title of each lesson in scenarios/LESSONS.md that has scenarios, by its number."""


class UnknownScenario(LookupError):
    """Raised if a name is neither the id of a bundled scenario nor a file.

    Attributes:
        suggestion: a file with that name, or the closest id; None if there is none.
    """

    def __init__(self, name: str, suggestion: str | None) -> None:
        words = f" {name}" if " " in name and name.isprintable() else ""
        hint = (
            f"Did you mean `{suggestion}`?"
            if suggestion
            else f"For the bundled scenarios, run `highwater list{words}`."
        )
        super().__init__(f"There is no scenario `{name}`. {hint}")
        self.suggestion = suggestion


def bundled() -> dict[str, Path]:
    """Return the files of the bundled scenarios by id, sorted by id."""
    return dict(sorted((path.stem, path) for path in LIBRARY.glob("*.yaml")))


def find_scenario(name: str) -> Path:
    """Return the path of the bundled scenario `name`, or `name` as a path if it has the form of one.

    Raises:
        UnknownScenario: `name` is neither.
    """
    known = bundled()
    if name in known:
        return known[name]
    path = Path(name)
    # The loader reports a path that does not exist, with its own code. A plain word is a misspelt id.
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1 or path.exists():
        return path
    beside = f"{name}.yaml"
    if Path(beside).is_file():
        raise UnknownScenario(name, beside)
    begun = next((item for item in known if name and item.startswith(name)), None)
    raise UnknownScenario(name, begun or did_you_mean(name, known))


@dataclass(frozen=True, slots=True)
class Section:
    """A lesson and its scenarios, or the scenarios without a lesson.

    Attributes:
        lesson: number of the lesson; None for scenarios without one.
    """

    lesson: int | None
    title: str
    files: tuple[Outline, ...]


def sections(tag: str | None = None) -> tuple[Section, ...]:
    """Return the bundled scenarios by lesson, in the order of the lessons, without empty sections.

    Args:
        tag: return only scenarios with this tag; None for all.
    """
    files = [read_outline(path) for path in bundled().values()]
    chosen = [file for file in files if tag is None or tag in file.tags]
    found = [
        Section(lesson, title, tuple(file for file in chosen if file.lesson == lesson))
        for lesson, title in LESSONS.items()
    ]
    found.append(Section(None, "Besides", tuple(file for file in chosen if file.lesson is None)))
    return tuple(section for section in found if section.files)


def with_words(sections: SequenceType[Section], words: SequenceType[str]) -> tuple[Section, ...]:
    """Return the sections, each with only the scenarios that contain every word. Empty sections are left out."""
    chosen = (
        replace(section, files=tuple(file for file in section.files if all(map(file.places_of, words))))
        for section in sections
    )
    return tuple(section for section in chosen if section.files)


def all_tags() -> tuple[str, ...]:
    return tuple(sorted({tag for path in bundled().values() for tag in read_outline(path).tags}))
