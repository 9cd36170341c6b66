"""Constants of modules, marked as such for mypyc.

mypyc looks up a name of a module in a dictionary each time, unless it is Final. For the compiled build alone each name
in capitals that a module binds once becomes Final, on the line where it stands.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

_CAPITALS = re.compile(r"_?[A-Z][A-Z0-9_]+")
_FUTURE = "from __future__ import annotations"
_TYPES = ("TypeVar", "ParamSpec", "NewType")


def with_final_constants(tree: ast.Module, lines: list[str]) -> bool:
    """Changes `lines`, the text of `tree`.   returns: it has such a constant"""
    found = list(_constants(tree))
    if not found or _FUTURE not in lines:
        return False
    lines[lines.index(_FUTURE)] = f"{_FUTURE}; from typing import Final  # type: ignore"
    for name, node in found:
        row = node.lineno - 1
        rest = lines[row][len(name) :]
        if isinstance(node, ast.AnnAssign):
            rest = rest.replace(f": {ast.unparse(node.annotation)}", "", 1)
            lines[row] = f"{name}: Final[{ast.unparse(node.annotation)}]{rest}"
        else:
            lines[row] = f"{name}: Final{rest}"
    return True


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.Assign | ast.AnnAssign]]:
    bound = Counter(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value, annotation=annotation):
                if "Final" in ast.unparse(annotation) or "TypeAlias" in ast.unparse(annotation):
                    continue
            case _:
                continue
        if bound[name] > 1 or not _CAPITALS.fullmatch(name):
            continue
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _TYPES:
            continue
        yield name, node
