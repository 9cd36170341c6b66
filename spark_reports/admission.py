"""The Spark plans that `report --sql` runs: those made only of parts that `admitted` lists.

Spark's own parser and analyzer say what a statement is; this module reads their trees through the JVM gateway, part by
part. The parsed plan is looked at before it is analysed, for analysing alone opens the files and loads the classes that
a plan names; the analysed plan is looked at before it is run.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]

from spark_reports.admitted import FUNCTIONS, LEAVES, NODES, TABLE_FUNCTIONS, TYPES

_ANALYSIS = "org.apache.spark.sql.catalyst.analysis"
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
_COMMAND = "org.apache.spark.sql.execution.command"

_SHOW_TABLES = f"{_LOGICAL}.ShowTables"
_COMMANDS_ANALYSED = (_SHOW_TABLES, f"{_COMMAND}.ShowTablesCommand", f"{_COMMAND}.DescribeTableCommand")
_IN_WORDS = {
    "ScriptTransformation": "TRANSFORM ... USING a program",
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER(...)",
    "PlanWithUnresolvedIdentifier": "IDENTIFIER(...)",
    "CompoundBody": "a script (BEGIN ... END)",
    "NamedStreamingRelation": "STREAM",
}


class NotAdmitted(Exception):
    """A part of a plan that is not admitted, in words; `line`: where in the statement, from 1."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


def tables_read_by(parsed: JavaObject, tables: Sequence[str]) -> list[str]:
    """Names of the tables that a statement reads, as `tables` spells them; of SHOW TABLES none.

    parsed: Spark's plan before analysis     tables: all there are
    raises: NotAdmitted
    """
    kind = _class_of(parsed)
    look = _Look(tables)
    if kind == _SHOW_TABLES and _class_of(parsed.namespace()) == f"{_ANALYSIS}.CurrentNamespace$":
        return []
    if kind == f"{_LOGICAL}.DescribeRelation" and not parsed.isExtended():
        look.look_into(parsed.relation())
    else:
        look.look_into(parsed)
    return look.tables_named()


def shows_tables(parsed: JavaObject) -> bool:
    return _class_of(parsed) == _SHOW_TABLES


def admit_analysed(analysed: JavaObject, tables: Sequence[str]) -> None:
    """raises: NotAdmitted for the resolved meaning of names and functions"""
    if _class_of(analysed) not in _COMMANDS_ANALYSED:  # The names in those were checked when they were parsed.
        _Look(tables).look_into(analysed)


class _Look:
    """One look over a whole plan: subqueries, lambda functions and definitions of WITH are parts like any other."""

    def __init__(self, tables: Sequence[str]) -> None:
        self._tables = {name.lower(): name for name in tables}
        self._defined: set[str] = set()
        self._named: list[tuple[str, int]] = []
        self._kinds = {
            f"{_ANALYSIS}.UnresolvedFunction": self._function,
            f"{_ANALYSIS}.UnresolvedGenerator": self._generator,
            f"{_ANALYSIS}.UnresolvedTableValuedFunction": self._table_function,
            f"{_ANALYSIS}.UnresolvedRelation": self._relation,
            f"{_ANALYSIS}.UnresolvedTableOrView": self._described,
            f"{_LOGICAL}.UnresolvedWith": self._with,
            f"{_LOGICAL}.View": self._view,
        }

    def look_into(self, plan: JavaObject) -> None:
        waiting: list[Any] = [plan]
        while waiting:
            part = waiting.pop()
            if isinstance(part, JavaObject):  # Text and numbers have become Python's.
                waiting.extend(self._parts(part))

    def tables_named(self) -> list[str]:
        """Once all has been looked at, for WITH may stand anywhere around the name that it defines."""
        for name, line in self._named:
            if name.lower() not in self._tables and name.lower() not in self._defined:
                close = difflib.get_close_matches(name.lower(), self._tables, n=1)
                hint = f" Did you mean `{self._tables[close[0]]}`?" if close else ""
                raise NotAdmitted(f"`{name}` is no table of a run.{hint}", line)
        named = dict.fromkeys(name.lower() for name, _ in self._named)
        return [self._tables[name] for name in named if name in self._tables]

    def _parts(self, part: JavaObject) -> Iterable[Any]:
        kind = _class_of(part)
        if kind in self._kinds:
            return self._kinds[kind](part)
        if kind in NODES or kind.startswith(("scala.Some", "scala.Tuple", "scala.util.")):
            return _each(part.productIterator())
        if kind.startswith("scala.collection."):
            return _each(part.iterator())
        if kind in LEAVES or kind.startswith(TYPES):
            return ()
        name = kind.rpartition(".")[2].removesuffix("$")
        raise NotAdmitted(f"{_IN_WORDS.get(name, name)} is not let run", _line_of(part))

    def _function(self, node: JavaObject) -> Iterable[Any]:
        _must_be(_joined(node.nameParts()), FUNCTIONS, node)
        return _each(node.productIterator())

    def _table_function(self, node: JavaObject) -> Iterable[Any]:
        _must_be(_joined(node.name()), TABLE_FUNCTIONS, node)
        return _each(node.productIterator())

    def _generator(self, node: JavaObject) -> Iterable[Any]:
        _must_be(node.name().unquotedString(), TABLE_FUNCTIONS, node)
        return _each(node.children().iterator())

    def _relation(self, node: JavaObject) -> Iterable[Any]:
        if not node.options().isEmpty():
            raise NotAdmitted(f"`{_joined(node.multipartIdentifier())}` WITH options is not let run", _line_of(node))
        return self._described(node)

    def _described(self, node: JavaObject) -> Iterable[Any]:
        self._named.append((_joined(node.multipartIdentifier()), _line_of(node)))
        return ()

    def _with(self, node: JavaObject) -> Iterable[Any]:
        self._defined.update(named._1().lower() for named in _each(node.cteRelations().iterator()))
        return _each(node.productIterator())

    def _view(self, node: JavaObject) -> Iterable[Any]:
        name = node.desc().identifier().unquotedString()
        if not node.isTempView() or name.lower() not in self._tables:
            raise NotAdmitted(f"the view `{name}` is no table of a run.", _line_of(node))
        return ()  # Our own definition.


def _must_be(function: str, admitted: frozenset[str], node: JavaObject) -> None:
    if function.lower() not in admitted:
        raise NotAdmitted(f"the function `{function}` is not let run", _line_of(node))


def _class_of(thing: JavaObject) -> str:
    return str(thing.getClass().getName())


def _each(iterator: JavaObject) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def _joined(names: JavaObject) -> str:
    return ".".join(_each(names.iterator()))


def _line_of(part: JavaObject) -> int:
    """Only nodes of a tree know their line."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        line = part.origin().line()
    except Py4JError:
        return 1
    return int(line.get()) if line.isDefined() else 1
