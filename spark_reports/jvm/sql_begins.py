"""The SQL part of Spark begins beside its context, not after it.

Each takes Spark one thread and most of a second, for its classes. Neither needs the other until there is a session.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

_CATALYST = "org.apache.spark.sql.catalyst"
_STATEMENT = """\
SELECT a.k, max(b.v) AS most, count(*) AS n FROM VALUES (1, 'x') AS a(k, v) LEFT JOIN VALUES (1, 'x') AS b(k, v)
ON a.k = b.k WHERE a.v IS NOT NULL GROUP BY a.k
"""
"""Without a window: Spark makes errors on its way to understand one, and reads for them a file that contexts read."""


@contextlib.contextmanager
def sql_begins(jvm: Any) -> Iterator[None]:
    """While the block runs, which makes a context. When it ends, both are done: two threads that began the same parts
    of Spark could wait for each other, and context and SQL have none in common but Scala's collections.
    """
    thread = threading.Thread(target=_begin, args=(jvm,), daemon=True)
    thread.start()
    yield
    thread.join()


def _begin(jvm: Any) -> None:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    # Another release may lack these objects, which only costs time, and a JVM that ends here ends the block, too.
    with contextlib.suppress(Py4JError, OSError, TypeError):
        analysed(jvm)


def analysed(jvm: Any) -> Any:
    """The plan of a statement, as a session would have it: now all functions, the parser and the analyzer are there."""
    parsed = _object(jvm, f"{_CATALYST}.parser.CatalystSqlParser").parsePlan(_STATEMENT)
    return _object(jvm, f"{_CATALYST}.analysis.SimpleAnalyzer").execute(parsed)


def _object(jvm: Any, name: str) -> Any:
    """Scala's `object` of this name."""
    return getattr(getattr(jvm, f"{name}$"), "MODULE$")
