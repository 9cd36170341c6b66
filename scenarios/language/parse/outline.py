"""A scenario file's entry in the table of contents, without building the scenario: `highwater list` reads them all.

A file is taken as valid (`loading.load_file` is the judge of that); missing values have the loader's defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scenarios.language.anomalies import ANOMALIES
from scenarios.language.diagnostics import Problems, ScenarioInvalid, SourceText
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
