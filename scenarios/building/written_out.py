"""Constructors of dataclasses, written out for mypyc.

mypyc leaves the methods that `dataclass` makes to Python, so a dataclass is made by an interpreted `__init__`, which
takes some twenty times as long as one that mypyc translates. For the compiled build alone each class gets the
`__init__` that `dataclass` would make, as text, in the blank line below it: line numbers stay what they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scenarios.building.constants import with_final_constants


@dataclass(frozen=True)
class _Field:
    name: str
    annotation: str
    default: str | None
    factory: str | None
    in_init: bool
    is_keyword: bool


class _NotWritten(Exception):
    """A class whose `__init__` is left to `dataclass`."""


def written_out(root: Path, modules: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each of `modules` that has a dataclass or a constant, with its new text."""
    texts = {module: (root / module).read_text(encoding="utf-8") for module in modules}
    trees = {module: ast.parse(text) for module, text in texts.items()}
    classes = {module: _classes(tree) for module, tree in trees.items()}
    for module, tree in trees.items():
        lines = texts[module].split("\n")
        written = with_final_constants(tree, lines)
        for node in classes[module].values():
            try:
                constructor = _constructor(node, _bases(node, module, tree, classes))
            except _NotWritten:
                continue
            if lines[node.end_lineno].strip():  # type: ignore[index]
                continue
            lines[node.end_lineno] = constructor  # type: ignore[index]
            written = True
        if written:
            yield module, "\n".join(lines)


def _classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _decorator(node: ast.ClassDef) -> dict[str, bool] | None:
    """The options of its `dataclass`, None where it has none."""
    for found in node.decorator_list:
        if isinstance(found, ast.Call) and isinstance(found.func, ast.Name) and found.func.id == "dataclass":
            return {option.arg or "": bool(ast.literal_eval(option.value)) for option in found.keywords}
    return None


def _bases(
    node: ast.ClassDef, module: str, tree: ast.Module, classes: Mapping[str, Mapping[str, ast.ClassDef]]
) -> list[ast.ClassDef]:
    """Those from which it has fields, the first of them first."""
    found: list[ast.ClassDef] = []
    for base in node.bases:
        if isinstance(base, ast.Subscript):
            base = base.value
        if not isinstance(base, ast.Name):
            raise _NotWritten
        if base.id in ("Protocol", "Generic", "ABC"):
            continue
        where = module if base.id in classes[module] else _imported_from(base.id, tree)
        above = classes.get(where, {}).get(base.id)
        if above is None or above.bases:
            raise _NotWritten
        if _decorator(above) is not None:
            if where != module:
                raise _NotWritten  # The names of its annotations may be others here.
            found.append(above)
    return found


def _imported_from(name: str, tree: ast.Module) -> str:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and any((found.asname or found.name) == name for found in node.names):
            return (node.module or "").replace(".", "/") + ".py"
    return ""


def _constructor(node: ast.ClassDef, bases: Sequence[ast.ClassDef]) -> str:
    if _decorator(node) is None or _has(node, "__init__"):
        raise _NotWritten
    fields = {field.name: field for part in (*bases, node) for field in _fields(part)}
    by_place = [_parameter(field) for field in fields.values() if field.in_init and not field.is_keyword]
    by_name = [_parameter(field) for field in fields.values() if field.in_init and field.is_keyword]
    if not by_place and not by_name:
        raise _NotWritten
    parameters = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
    body = [f"self.{field.name} = {value}" for field in fields.values() if (value := _value(field))]
    if any(_has(part, "__post_init__") for part in (*bases, node)):
        body.append("self.__post_init__()")
    return f"    def __init__({parameters}) -> None: {'; '.join(body)}  # type: ignore"


def _has(node: ast.ClassDef, method: str) -> bool:
    return any(isinstance(part, ast.FunctionDef) and part.name == method for part in node.body)


def _fields(node: ast.ClassDef) -> Iterator[_Field]:
    is_keyword = (_decorator(node) or {}).get("kw_only", False)
    for part in node.body:
        if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name):
            continue
        annotation = ast.unparse(part.annotation)
        if annotation.startswith("ClassVar"):
            continue
        given = _given(part.value)
        if annotation.startswith(("InitVar", "KW_ONLY")) or set(given) - {"default", "default_factory", "init"}:
            raise _NotWritten
        yield _Field(
            part.target.id,
            annotation,
            given.get("default"),
            given.get("default_factory"),
            given.get("init") != "False",
            is_keyword,
        )


def _given(value: ast.expr | None) -> dict[str, str]:
    """The arguments of `field`, of which one may be all there is."""
    if value is None:
        return {}
    if not isinstance(value, ast.Call):
        return {"default": ast.unparse(value)}
    if isinstance(value.func, ast.Name) and value.func.id == "field":
        return {option.arg or "": ast.unparse(option.value) for option in value.keywords}
    raise _NotWritten  # It may give a field, which `dataclass` reads.


def _parameter(field: _Field) -> str:
    if field.factory:
        return f"{field.name}: {field.annotation} | None = None"
    return f"{field.name}: {field.annotation}" + (f" = {field.default}" if field.default else "")


def _value(field: _Field) -> str | None:
    """What the constructor sets it to, None where `__post_init__` does."""
    if not field.in_init:
        return f"{field.factory}()" if field.factory else field.default
    return f"{field.factory}() if {field.name} is None else {field.name}" if field.factory else field.name
