"""What the compiled build has written out: constructors of dataclasses, constants."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from scenarios.building.modules import compiled_modules
from scenarios.building.written_out import written_out

ROOT = Path(__file__).parents[2]


@cache
def _written() -> dict[str, str]:
    return dict(written_out(ROOT, list(compiled_modules(ROOT))))


ROOMS = """from __future__ import annotations

from dataclasses import dataclass, field

FIRST_DOOR = 3


@dataclass(slots=True)
class Room:
    doors: int
    names: list[str] = field(default_factory=list)
    is_open: bool = True
    area: int = field(init=False)

    def __post_init__(self) -> None:
        self.area = self.doors * FIRST_DOOR


@dataclass(slots=True, kw_only=True)
class Hall(Room):
    lights: int = FIRST_DOOR


@dataclass(slots=True)
class Own:
    doors: int

    def __init__(self) -> None:
        self.doors = 1


"""


def test_a_class_is_made_as_dataclass_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rooms.py").write_text(ROOMS)
    ((_, new),) = written_out(tmp_path, ["rooms.py"])
    assert len(new.splitlines()) == len(ROOMS.splitlines())
    assert new.count("def __init__") == 3
    (tmp_path / "rooms.py").write_text(new)
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("rooms")
    room, hall, own = made.Room, made.Hall, made.Own
    assert repr(hall(2, ["a"], lights=1)) == "Hall(doors=2, names=['a'], is_open=True, area=6, lights=1)"
    assert hall(2).lights == 3
    assert repr(room(2)) == "Room(doors=2, names=[], is_open=True, area=6)"
    assert repr(room(2, ["a"], False)) == "Room(doors=2, names=['a'], is_open=False, area=6)"
    assert room(2).names is not room(2).names
    assert repr(own()) == "Own(doors=1)"


def test_a_constant_is_final_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "rooms.py").write_text(ROOMS)
    ((_, new),) = written_out(tmp_path, ["rooms.py"])
    assert new.splitlines()[4] == "FIRST_DOOR: Final = 3"


def test_lines_stay_where_they_are() -> None:
    for module, text in _written().items():
        assert len(text.splitlines()) <= len((ROOT / module).read_text().splitlines()) + 1, module


def test_every_written_constructor_is_that_of_its_dataclass() -> None:
    compared = 0
    for module, text in _written().items():
        loaded = importlib.import_module(module.removesuffix(".py").replace("/", "."))
        for node in ast.parse(text).body:
            found = getattr(loaded, node.name) if isinstance(node, ast.ClassDef) else None
            if isinstance(node, ast.ClassDef) and isinstance(found, type) and dataclasses.is_dataclass(found):
                for part in node.body:
                    if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                        _check_alike(part, found)
                        compared += 1
    assert compared > 200


def _check_alike(written: ast.FunctionDef, found: Callable[..., object]) -> None:
    """The same parameters in the same order, by name or by place, with a default where the dataclass has one."""
    own = list(inspect.signature(found).parameters.values())
    args = written.args
    by_place = [argument.arg for argument in args.args[1:]]
    assert by_place == [p.name for p in own if p.kind is p.POSITIONAL_OR_KEYWORD], found
    assert [argument.arg for argument in args.kwonlyargs] == [p.name for p in own if p.kind is p.KEYWORD_ONLY], found
    defaults = [default is not None for default in args.kw_defaults]
    defaults += [False] * (len(by_place) - len(args.defaults)) + [True] * len(args.defaults)
    assert sorted(defaults) == sorted(p.default is not p.empty for p in own), found
