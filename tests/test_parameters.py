"""How much is handed to one function or constructor: what belongs together is one value, and parts get a base.

The fields of a dataclass are no parameters: it is the value that others are given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_subpackages import ROOT

PLACES = ("replica", "controller", "cluster", "scenarios/run", "scenarios/language", "scenarios/serve")
MOST = 8
LONGER = {
    "replica/log/batches/records.py build_batch": "the fields of a batch's header, most of them left out",
    "replica/log/log.py Log.open": "what a log is, and what the checkpoints say of it",
    "cluster/transactions/transaction.py TransactionMetadata._transit": "the fields of the Transit that it makes",
    "scenarios/run/runner.py run_scenario": "the options of a run, by name; those who play one need few",
}


def parameters(tree: ast.AST, of: str = "") -> Iterator[tuple[str, int]]:
    """(function, parameters beside self)"""
    for node in ast.iter_child_nodes(tree):
        name = getattr(node, "name", None)
        whole = of if name is None else f"{of}.{name}".removeprefix(".")
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            asked = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            yield whole, len([one for one in asked if one.arg not in ("self", "cls")])
        yield from parameters(node, whole)


def too_many(root: Path, places: tuple[str, ...]) -> dict[str, int]:
    return {
        f"{path.relative_to(root).as_posix()} {name}": count
        for place in places
        for path in sorted((root / place).rglob("*.py"))
        for name, count in parameters(ast.parse(path.read_text(encoding="utf-8")))
        if count > MOST
    }


@pytest.mark.soak
def test_nothing_takes_more_than_eight() -> None:
    found = too_many(ROOT, PLACES)
    more = {name: count for name, count in found.items() if name not in LONGER}
    assert not more, f"give them one value, or a base: {more}"
    assert found.keys() == LONGER.keys(), "what takes fewer by now needs no reason any more"


def test_one_that_takes_nine_is_found(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    long, short = (", ".join(f"p{number}" for number in range(count)) for count in (MOST + 1, MOST))
    (tmp_path / "room" / "house.py").write_text(
        f"class House:\n    def __init__(self, *, {long}): ...\n    def enter(self, {short}): ...\n"
    )
    assert too_many(tmp_path, ("room",)) == {"room/house.py House.__init__": MOST + 1}
