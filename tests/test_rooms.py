"""The rooms of the packages: tests/rooms.toml says which there are and whom each may import within its package.

Who may import which package is in test_imports.py.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("replica", "controller", "cluster", "scenarios")
MODULES_MAX = 25
DOCSTRING_LINES_MAX = 10
TABLE = tomllib.loads((ROOT / "tests" / "rooms.toml").read_text(encoding="utf-8"))
ANNEXES = TABLE.pop("annexes")
ROOMS = {room: tuple(row["may_import"]) for room, row in TABLE.items()}

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


def all_imports() -> Imports:
    known = modules()
    return {
        name: [one for one in imports_of(path, known) if one in known]
        for name, path in known.items()
        if path.name != "__init__.py"
    }


def room_of(module: str, rooms: Mapping[str, object]) -> str:
    """The folder it lies in."""
    room = module if module in rooms else module.rpartition(".")[0]
    assert room in rooms, f"{module} lies in a folder that tests/rooms.toml does not name"
    return room


def wrong_imports(imports: Imports, rooms: Mapping[str, tuple[str, ...]]) -> list[str]:
    """What a room imports of its own package and may not."""
    wrong = []
    for module, imported in imports.items():
        own = room_of(module, rooms)
        for other in imported:
            room = room_of(other, rooms)
            if room != own and room.split(".")[0] == own.split(".")[0] and room not in rooms[own]:
                wrong.append(
                    f"{module} imports {other}, and {own} may import {', '.join(rooms[own]) or 'no other room'}"
                )
    return wrong


def circles(rooms: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    graph = nx.DiGraph([(room, other) for room, allowed in rooms.items() for other in allowed])
    return [sorted(found) for found in nx.strongly_connected_components(graph) if len(found) > 1]


def too_many(files: list[str]) -> list[str]:
    """Folders with more modules than one sees at a glance; __init__.py is none."""
    folders: dict[str, int] = {}
    for file in files:
        folder, _, name = file.rpartition("/")
        if name != "__init__.py":
            folders[folder] = folders.get(folder, 0) + 1
    return [f"{folder} has {count}" for folder, count in folders.items() if count > MODULES_MAX]


def test_rooms_import_only_the_rooms_they_may() -> None:
    wrong = wrong_imports(all_imports(), ROOMS)
    assert not wrong, "see tests/rooms.toml:\n" + "\n".join(wrong)


def test_what_a_room_may_import_it_does_import() -> None:
    used = {
        (room_of(module, ROOMS), room_of(other, ROOMS)) for module, found in all_imports().items() for other in found
    }
    by_name = {("cluster.protocol", "cluster.protocol.zookeeper_era")}  # cold.py imports it by a name it puts together
    unused = [
        (room, other) for room, allowed in ROOMS.items() for other in allowed if (room, other) not in used | by_name
    ]
    assert not unused, f"tests/rooms.toml allows what no module needs: {unused}"


def test_the_core_imports_no_annex() -> None:
    core = tuple(f"scenarios.{room}." for room in ANNEXES["core"])
    doors = ANNEXES["doors"]
    wrong = [
        f"{module} imports {other}"
        for module, found in all_imports().items()
        if module.startswith(core) and module not in doors
        for other in found
        if other in doors or room_of(other, ROOMS) in ANNEXES["annexes"]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_circle_between_rooms() -> None:
    assert not circles(ROOMS)


def test_a_wrong_import_is_found() -> None:
    rooms = {"house": (), "house.cellar": (), "house.attic": ("house.cellar",), "garden": ()}
    imports = {
        "house.attic.trunk": ["house.cellar.wine", "house.attic", "garden.shed"],
        "house.cellar.wine": ["house.attic.trunk"],
        "garden.shed": [],
    }
    assert wrong_imports(imports, rooms) == [
        "house.cellar.wine imports house.attic.trunk, and house.cellar may import no other room"
    ]
    assert circles({**rooms, "house.cellar": ("house.attic",)}) == [["house.attic", "house.cellar"]]
    assert circles(rooms) == []


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
    assert not too_many(files), "give them rooms"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_lives_there(room: str) -> None:
    file = ROOT / room.replace(".", "/") / "__init__.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    said = ast.get_docstring(tree)
    assert said is not None and not tree.body[1:], f"{file}: a docstring, and nothing else"
    assert len(said.splitlines()) <= DOCSTRING_LINES_MAX
    words = " ".join(said.split())
    may_import = words.partition("May import: ")[2].partition(". Open first: ")[0]
    assert may_import == (", ".join(ROOMS[room]) or "no other room of this package"), (
        f"{file} and tests/rooms.toml differ"
    )
    first = words.partition("Open first: ")[2].removesuffix(".")
    assert (file.parent / first).is_file(), f"{file} names {first or 'no file'} to open first"


def test_every_folder_of_modules_is_a_room() -> None:
    folders = {name for name, path in modules().items() if path.name == "__init__.py"}
    assert folders == set(ROOMS)
