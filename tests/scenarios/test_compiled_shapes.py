"""Shapes that mypyc refuses or gets wrong, found without compiling: "Code that compiles" in CONTRIBUTING.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica.plain_python import PACKAGES
from scenarios.building.modules import compiled_modules

ROOT = Path(__file__).parents[2]
FREE_BASES = (
    "Protocol",
    "NamedTuple",
    "Enum",
    "IntEnum",
    "StrEnum",
    "Exception",
    "ValueError",
    "LookupError",
    "TypedDict",
)
"""Classes of these kinds are Python's own even in a compiled module, or errors, of which C makes real classes."""


def parsed(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def functions(tree: ast.AST) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef))


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield child
            yield from own_nodes(child)


def strange(tree: ast.Module) -> Iterator[str]:
    for function in functions(tree):
        names: dict[str, str] = {}
        for node in own_nodes(function):
            if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                kind = ast.unparse(node.type)
                if names.setdefault(node.name, kind) != kind:
                    yield f"line {node.lineno}: `except ... as {node.name}` for two types in one function"
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            tuples = [one for one in node.comparators if isinstance(one, ast.Tuple | ast.List)]
            if any(isinstance(item, ast.Starred) for one in tuples for item in one.elts):
                yield f"line {node.lineno}: a star behind `in`"
        if isinstance(node, ast.ClassDef):
            yield from strange_class(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("super()."):
            starred = [argument for argument in node.args if isinstance(argument, ast.Starred)]
            yield from (f"line {argument.lineno}: a star in a call of super()" for argument in starred)


def strange_class(node: ast.ClassDef) -> Iterator[str]:
    decorators = [ast.unparse(one) for one in node.decorator_list]
    is_dataclass = any(one.startswith("dataclass") for one in decorators)
    if any(not one.startswith("dataclass") for one in decorators):
        yield f"line {node.lineno}: {node.name} has a decorator other than dataclass"
    if any(ast.unparse(base) in ("OSError", "str", "int") for base in node.bases):
        yield f"line {node.lineno}: {node.name} inherits from what C cannot extend"
    for item in node.body:
        if isinstance(item, ast.AnnAssign):
            kind = ast.unparse(item.annotation)
            if is_dataclass and "ClassVar" in kind:
                yield f"line {item.lineno}: a ClassVar in a dataclass becomes a field"
            if kind in ("object", "memoryview"):
                yield f"line {item.lineno}: a field cannot have the type {kind} by itself"
        if isinstance(item, ast.FunctionDef) and "cached_property" in map(ast.unparse, item.decorator_list):
            yield f"line {item.lineno}: a cached_property needs a __dict__"


def native_classes(file: str) -> set[str]:
    found: set[str] = set()
    for node in parsed(file).body:
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
            if not bases & {*FREE_BASES}:
                found.add(node.name)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_compiled_modules_have_shapes_that_mypyc_knows(package: str) -> None:
    files = [file for file in compiled_modules(ROOT) if file.startswith(package + "/")]
    found = [f"{file}, {words}" for file in files for words in strange(parsed(file))]
    assert files and not found, 'CONTRIBUTING.md, "Code that compiles":\n' + "\n".join(found)


def test_no_plain_class_inherits_from_a_compiled_one() -> None:
    compiled = {*compiled_modules(ROOT)}
    native = {file.removesuffix(".py").replace("/", "."): native_classes(file) for file in compiled}
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if file in compiled or "node_modules" in path.parts:
                continue
            tree = parsed(file)
            imported = {
                alias.asname or alias.name
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
                if alias.name in native.get(node.module or "", ())
            }
            found += [
                f"{file}, line {node.lineno}: {node.name}"
                for node in ast.walk(tree)
                if isinstance(node, ast.ClassDef)
                and imported & {ast.unparse(base).partition("[")[0] for base in node.bases}
            ]
    assert not found, "the base is compiled (scenarios/building/modules.py), the class is not:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "try: f()\nexcept A as e: g(e)\nexcept B as e: h(e)",
        "x in (*A, b)",
        "@dataclass\nclass C:\n    X: ClassVar[str] = 'x'",
        "class C:\n    x: object",
        "class C(OSError): pass",
        "class C:\n    @cached_property\n    def x(self): pass",
        "class C(B):\n    def __init__(self): super().__init__(*f())",
    ],
)
def test_a_strange_shape_is_found(text: str) -> None:
    assert len([*strange(ast.parse(text))]) == 1
