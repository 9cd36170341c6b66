"""What the docs (Markdown files) name that does not exist; used by tests/test_docs.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from scenarios.cli.main import cli
from scenarios.language.parse.catalogue import bundled

ROOT = Path(__file__).parent.parent
PACKAGES = ("replica", "controller", "cluster", "scenarios", "spark_reports", "tests")
DIFFERENCE = re.compile(r"Simplified:|Differs from Kafka:")
PLAYS = ("run", "compare", "show", "sweep", "test", "verify")
CELL_CHARACTERS_MAX = 160
OPTION = re.compile(r"(?<!\S)(--[a-z-]+)")


@cache
def files() -> tuple[Path, ...]:
    """Return the files of the repository, without environments and kept runs."""
    inside = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*")) if path.is_file()]
    inside = [path for path in inside if "node_modules" not in path.parts]
    return (*(path for path in sorted(ROOT.iterdir()) if path.is_file()), *inside)


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def docs() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def sources(*suffixes: str) -> Iterator[tuple[Path, str]]:
    for path in files():
        if path.suffix in suffixes and path.name != "test_docs.py":
            yield path, text_of(path)


def shown_text(doc: str) -> str:
    """Return the text without code blocks, in which paths are examples."""
    return re.sub(r"^```.*?^```", "", doc, flags=re.DOTALL | re.MULTILINE)


def anchors(doc: str) -> list[str]:
    """Return the anchors that GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", shown_text(doc), flags=re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def wrong_links(path: Path, text: str) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", shown_text(text)):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        found = path if not file else (path.parent / file).resolve()
        if not found.exists():
            yield f"{path.name} links to {target}, which does not exist"
        elif anchor and anchor not in anchors(found.read_text(encoding="utf-8")):
            yield f"{path.name} links to {target}, and there is no such heading"


def missing_paths(path: Path, text: str) -> list[str]:
    """Paths of this repository that a doc names in code style: `replica/leader.py`, `tests/golden/*.txt`."""
    named = re.findall(rf"`((?:{'|'.join(PACKAGES)}|\.ci|\.github)/[\w./*-]*)[`:]", shown_text(text))
    return [name for name in named if not next(ROOT.glob(name), None)]


def defines(path: Path, name: str) -> bool:
    """`Class`, `function`, `CONSTANT` or `Class.method`, at the top of a module."""
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.split("."):
        found = next((node for node in body if part in _names(node)), None)
        if found is None:
            return False
        body = found.body if isinstance(found, ast.ClassDef) else []
    return True


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def long_cells(text: str) -> Iterator[str]:
    """Yield the cells of tables, or their parts between line breaks, that are longer than a line."""
    for line in re.findall(r"^\|.*\|$", shown_text(text), flags=re.MULTILINE):
        for cell in re.split(r"(?<!\\)\||<br>", line):
            if len(cell.strip()) > CELL_CHARACTERS_MAX:
                yield cell.strip()


def places_of_differences(path: Path) -> list[str]:
    """`replica/leader.py:LeaderState.step` for each comment within it, `replica/leader.py` for one outside of all."""
    source = path.read_text(encoding="utf-8")
    if not DIFFERENCE.search(source):
        return []
    spans: list[tuple[int, int, str]] = []

    def visit(node: ast.AST, outer: str) -> None:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                spans.append((inner.lineno, inner.end_lineno or inner.lineno, f"{outer}{inner.name}"))
                visit(inner, f"{outer}{inner.name}.")

    visit(ast.parse(source), "")
    file = path.relative_to(ROOT).as_posix()
    places = []
    for number, line in enumerate(source.splitlines(), start=1):
        within = [name for first, last, name in spans if first <= number <= last]
        places += [":".join([file, *within[-1:]])] * len(DIFFERENCE.findall(line))
    return places


def wrong_commands(text: str) -> Iterator[str]:
    """Commands in code style or in blocks that name a subcommand or an option that does not exist."""
    inline = re.findall(r"`(highwater [^`]+)`", text)
    blocks = re.findall(r"^(?: {4}|\$ |\.venv/bin/)?(highwater .+)$", text.replace("\\\n", " "), re.MULTILINE)
    context = click.Context(cli)
    for line in (*inline, *blocks):
        words = re.split(r" #|[;|]", line)[0].split()
        command: click.Command = cli
        for word in (word for word in words[1:] if not word.startswith("-")):
            if not isinstance(command, click.Group):
                break
            subcommand = command.get_command(context, word)
            if subcommand is None:
                yield f"{line}: there is no {word}"
                break
            command = subcommand
        known = [option for one in command.params for option in one.opts] + ["--help"]
        if words[1] in PLAYS:
            named = re.findall(r"^(?!-)[a-z0-9]+-[a-z0-9-]+$", "\n".join(words[2:3]))
            yield from (f"{line}: there is no scenario {name}" for name in named if name not in bundled())
        yield from (f"{line}: no {option}" for option in OPTION.findall(" ".join(words)) if option not in known)
