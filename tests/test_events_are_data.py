"""Events are data: no code but their classes makes a sentence about them, and no reader takes one apart.

What a client, a broker's answer or an operating system says is data, too: it comes as a value, and is not made where
the event is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica.trace.events import EVENT_CLASSES
from tests.test_subpackages import ROOT

PLACES = ("replica", "controller", "cluster", "scenarios")
CLASSES = {cls.__name__ for cls in EVENT_CLASSES}


def name_of(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def event_arguments(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that makes an event, `partial` included."""
    is_partial = name_of(call.func) == "partial" and call.args
    made = name_of(call.args[0] if is_partial else call.func)
    return [*call.args, *(keyword.value for keyword in call.keywords)] if made in CLASSES else []


def has_words(expression: ast.expr, texts: set[str]) -> bool:
    """Whether it holds a text with a space in it, or one of the variables `texts`."""
    return any(
        (isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value)
        or (isinstance(node, ast.Name) and node.id in texts)
        for node in ast.walk(expression)
    )


def sentences(tree: ast.AST) -> Iterator[int]:
    """The lines where an event is made with a text that is made there, or before in the same function."""
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for scope in [tree, *scopes]:
        texts: set[str] = set()
        for node in ast.walk(scope) if scope is not tree else ():
            if isinstance(node, ast.Assign) and has_words(node.value, set()):
                texts |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        for node in ast.walk(scope):
            if isinstance(node, ast.Call) and any(has_words(one, texts) for one in event_arguments(node)):
                yield node.lineno


def found_in(root: Path, places: tuple[str, ...]) -> list[str]:
    return sorted(
        {
            f"{path.relative_to(root).as_posix()}:{line}"
            for place in places
            for path in (root / place).rglob("*.py")
            if not path.is_relative_to(root / "replica" / "trace")
            for line in sentences(ast.parse(path.read_text(encoding="utf-8")))
        }
    )


@pytest.mark.soak
def test_no_event_is_given_a_sentence() -> None:
    assert not found_in(ROOT, PLACES), "give it a cause and numbers; its class makes the sentence"


def test_events_have_no_field_for_a_sentence() -> None:
    assert not [cls for cls in EVENT_CLASSES if "reason" in cls.__dataclass_fields__]


def test_sentences_are_found(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "state.py").write_text(
        "def tell(node, say):\n"
        "    say(LogFlushed(node, 't', 0, offset=1))\n"
        "    say(trace.NodeStarted(node=node, role=f'the {node}'))\n"
        "    made = partial(NodeStopped, node=node, how='by hand')\n"
        "    why = f'{node} is gone' if node else ''\n"
        "    say(NodeStopped(node=node, how=why))\n"
    )
    assert found_in(tmp_path, ("core",)) == ["core/state.py:3", "core/state.py:4", "core/state.py:6"]


# ------------------------------------------------------------------------------------------------------------ readers

TAKES_APART = {
    "startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "removesuffix", "find", "index",
    "replace", "match", "search", "fullmatch", "findall", "sub",
}  # fmt: skip
MAKES = {"sentence", "sentence_of"}


def _is_sentence(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is a sentence: a call that makes one, a `reason`, or a name that holds one."""
    match node:
        case ast.Call(func=ast.Attribute(attr=attr)):
            return attr in MAKES
        case ast.Attribute(value=ast.Name(id="error")):
            return False  # ssl.SSLError.reason, which is a word of OpenSSL
        case ast.Attribute(attr=attr):
            return attr == "reason"
        case ast.Subscript(slice=ast.Constant(value=key)):
            return key == "reason"
        case ast.Name(id=name):
            return name in names
    return False


def offences(source: str) -> list[int]:
    """Lines that test or take apart a sentence."""
    found = []
    for function in [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]:
        names: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and _is_sentence(node.value, set()):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        for node in ast.walk(function):
            if isinstance(node, ast.Compare):
                is_none = any(isinstance(one, ast.Constant) and one.value is None for one in node.comparators)
                sides = () if is_none else (node.left, *node.comparators)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKES_APART:
                sides = (node.func.value, *node.args)
            else:
                continue
            if any(_is_sentence(side, names) for side in sides):
                found.append(node.lineno)
    return sorted(set(found))


@pytest.mark.parametrize(
    ("line", "is_offence"),
    [
        ("event.sentence().startswith('b1')", True),
        ("'b1' in event.reason", True),
        ("row['reason'] == 'b1'", True),
        ("re.match('b1', event.sentence())", True),
        ("said = event.sentence(); return said.endswith('.')", True),
        ("event.reason is None", False),
        ("event.cause == 'lag'", False),
        ("words.sentence(row['reason'])", False),
        ("f'{event.sentence()}; more'", False),
    ],
)
def test_what_counts_as_taking_a_sentence_apart(line: str, is_offence: bool) -> None:
    assert bool(offences(f"def read(event, row):\n    {line}\n")) is is_offence


@pytest.mark.soak
def test_no_reader_takes_a_sentence_apart() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in (*PLACES, "spark_reports")
        for path in sorted((ROOT / package).rglob("*.py"))
        if not path.is_relative_to(ROOT / "replica" / "trace")
        for line in offences(path.read_text())
    ]
    assert found == []
