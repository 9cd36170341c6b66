"""PySpark looks up the same class and method names in the JVM many times, for one report ten thousand times.

Here a session remembers them.
"""

from __future__ import annotations

import functools
from typing import Any

from py4j.java_gateway import JavaClass, JavaMember  # type: ignore[import-untyped]

_CLASSES = ("functions", "org.apache.spark.sql.functions", "PythonUtils")
"""By the names PySpark uses, from every F.col, F.lit, F.max, select and join."""


class _RememberingClass(JavaClass):  # type: ignore[misc]
    """A Java class that looks up each of its methods once; fields are looked up each time."""

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
    """Of a session's `_jvm`: from here on those names cost nothing. Columns are immutable: one of a name serves all."""
    for name in _CLASSES:
        found = getattr(jvm, name)
        remembering = _RememberingClass(found._fqn, found._gateway_client)
        if found._fqn.endswith(".functions"):
            remembering.__dict__["col"] = _remembered(remembering.col)
        jvm.__dict__[name] = remembering
