"""What of a long list of cases, and of random examples, is in the quick run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

ALL_EXAMPLES = "HIGHWATER_ALL_EXAMPLES"
"""In the environment, as `.ci/run` sets it: hypothesis plays all its examples."""


def one_in(count: int, cases: Iterable[object], others: pytest.MarkDecorator = pytest.mark.soak) -> list[Any]:
    """Every `count`th case, beginning with the first, as the test is marked; the others are soaks, or for the night."""
    return one_row_in(count, ((case,) for case in cases), others)


def one_row_in(
    count: int, rows: Iterable[tuple[object, ...]], others: pytest.MarkDecorator = pytest.mark.soak
) -> list[Any]:
    """The same for several parameters: each row has a value of each."""
    return [pytest.param(*row, marks=() if place % count == 0 else others) for place, row in enumerate(rows)]


def examples(count: int) -> int:
    """A quarter of them if not all are asked for."""
    return count if os.environ.get(ALL_EXAMPLES) else count // 4
