"""Cache the class and method names that PySpark looks up in the JVM, ten thousand times for one report."""

from __future__ import annotations

import functools
from typing import Any

from py4j.java_gateway import JavaClass, JavaMember  # type: ignore[import-untyped]

_CLASSES = ("functions", "org.apache.spark.sql.functions", "PythonUtils")
"""The classes that F.col, F.lit, F.max, select and join use, by PySpark's names for them."""


class _RememberingClass(JavaClass):  # type: ignore[misc]
    """A Py4J class that looks up each Java method only once. Fields are looked up each time."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            self.__dict__[name] = member
        return member


def _remembered(method: JavaMember) -> Any:
    @functools.cache
    def call(name: str) -> Any:
        return method(name)

    return call


def remember_names(jvm: Any) -> None:
    """Cache the classes and methods of a session's `_jvm`, and columns by name, since columns are immutable."""
    for name in _CLASSES:
        found = getattr(jvm, name)
        remembering = _RememberingClass(found._fqn, found._gateway_client)
        if found._fqn.endswith(".functions"):
            remembering.__dict__["col"] = _remembered(remembering.col)
        jvm.__dict__[name] = remembering
