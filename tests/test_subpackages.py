"""Which subpackages exist, and which others of its own package each may import, as tests/subpackages.toml says.

Imports between the five packages are checked by test_imports.py.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("replica", "controller", "cluster", "scenarios")
MODULES_MAX = 25
DOCSTRING_LINES_MAX = 10
TABLE = tomllib.loads((ROOT / "tests" / "subpackages.toml").read_text(encoding="utf-8"))
ANNEXES = TABLE.pop("annexes")
SUBPACKAGES = {name: tuple(row["may_import"]) for name, row in TABLE.items()}

Imports = Mapping[str, list[str]]
"""Module -> the modules it imports, wherever in it: for types alone and inside functions, too."""


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            found[name.removesuffix(".__init__")] = path
    return found


def imports_of(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else str(node.module)


@cache
def all_imports() -> Imports:
    known = modules()
    return {
        name: [one for one in imports_of(path, known) if one in known]
        for name, path in known.items()
        if path.name != "__init__.py"
    }


def subpackage_of(module: str, subpackages: Mapping[str, object]) -> str:
    name = module if module in subpackages else module.rpartition(".")[0]
    assert name in subpackages, f"{module} lies in a folder that tests/subpackages.toml does not name"
    return name


def wrong_imports(imports: Imports, subpackages: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return a sentence for each forbidden import between subpackages of one package."""
    wrong = []
    for module, imported in imports.items():
        own = subpackage_of(module, subpackages)
        for other in imported:
            name = subpackage_of(other, subpackages)
            if name != own and name.split(".")[0] == own.split(".")[0] and name not in subpackages[own]:
                allowed = ", ".join(subpackages[own]) or "no sibling package"
                wrong.append(f"{module} imports {other}, and {own} may import {allowed}")
    return wrong


def circles(subpackages: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    graph = nx.DiGraph([(name, other) for name, allowed in subpackages.items() for other in allowed])
    return [sorted(found) for found in nx.strongly_connected_components(graph) if len(found) > 1]


def too_many(files: list[str]) -> list[str]:
    """Return the folders with more than MODULES_MAX modules, not counting __init__.py."""
    folders: dict[str, int] = {}
    for file in files:
        folder, _, name = file.rpartition("/")
        if name != "__init__.py":
            folders[folder] = folders.get(folder, 0) + 1
    return [f"{folder} has {count}" for folder, count in folders.items() if count > MODULES_MAX]


def test_subpackages_import_only_what_they_may() -> None:
    wrong = wrong_imports(all_imports(), SUBPACKAGES)
    assert not wrong, "see tests/subpackages.toml:\n" + "\n".join(wrong)


def test_every_allowed_import_is_used() -> None:
    used = {
        (subpackage_of(module, SUBPACKAGES), subpackage_of(other, SUBPACKAGES))
        for module, found in all_imports().items()
        for other in found
    }
    unused = [(name, other) for name, allowed in SUBPACKAGES.items() for other in allowed if (name, other) not in used]
    assert not unused, f"tests/subpackages.toml allows what no module needs: {unused}"


def test_the_core_imports_no_annex() -> None:
    core = tuple(f"scenarios.{name}." for name in ANNEXES["core"])
    doors = ANNEXES["doors"]
    wrong = [
        f"{module} imports {other}"
        for module, found in all_imports().items()
        if module.startswith(core) and module not in doors
        for other in found
        if other in doors or subpackage_of(other, SUBPACKAGES) in ANNEXES["annexes"]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_circle_between_subpackages() -> None:
    assert not circles(SUBPACKAGES)


def test_a_wrong_import_is_found() -> None:
    subpackages = {"house": (), "house.cellar": (), "house.attic": ("house.cellar",), "garden": ()}
    imports = {
        "house.attic.trunk": ["house.cellar.wine", "house.attic", "garden.shed"],
        "house.cellar.wine": ["house.attic.trunk"],
        "garden.shed": [],
    }
    assert wrong_imports(imports, subpackages) == [
        "house.cellar.wine imports house.attic.trunk, and house.cellar may import no sibling package"
    ]
    assert circles({**subpackages, "house.cellar": ("house.attic",)}) == [["house.attic", "house.cellar"]]
    assert circles(subpackages) == []


def test_a_folder_that_is_too_full_is_found() -> None:
    full = [f"house/{number}.py" for number in range(MODULES_MAX)]
    assert too_many([*full, "house/__init__.py", "garden/shed.py"]) == []
    assert too_many([*full, "house/one_more.py"]) == ["house has 26"]


def test_no_folder_is_too_full() -> None:
    files = [
        path.relative_to(ROOT).as_posix()
        for package in (*PACKAGES, "spark_reports", "tests")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    assert not too_many(files), "split them into subpackages"


@pytest.mark.parametrize("name", SUBPACKAGES)
def test_a_subpackage_describes_itself(name: str) -> None:
    file = ROOT / name.replace(".", "/") / "__init__.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    said = ast.get_docstring(tree)
    assert said is not None and not tree.body[1:], f"{file}: a docstring, and nothing else"
    assert len(said.splitlines()) <= DOCSTRING_LINES_MAX
    words = " ".join(said.split())
    may_import = words.partition("May import: ")[2].partition(". Open first: ")[0]
    assert may_import == (", ".join(SUBPACKAGES[name]) or "no sibling package"), (
        f"{file} and tests/subpackages.toml differ"
    )
    first = words.partition("Open first: ")[2].removesuffix(".")
    assert (file.parent / first).is_file(), f"{file} names {first or 'no file'} to open first"


def test_every_folder_of_modules_is_declared() -> None:
    folders = {name for name, path in modules().items() if path.name == "__init__.py"}
    assert folders == set(SUBPACKAGES)
