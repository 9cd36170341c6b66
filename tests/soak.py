"""What of a long list of cases, and of random examples, is in the quick run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

ALL_EXAMPLES = "HIGHWATER_ALL_EXAMPLES"
"""In the environment, as `.ci/run` sets it: hypothesis plays all its examples."""


def one_in(count: int, cases: Iterable[object]) -> list[Any]:
    """Every `count`th case, beginning with the first, for `make test`; the others are soaks."""
    return [
        pytest.param(case, marks=() if place % count == 0 else pytest.mark.soak) for place, case in enumerate(cases)
    ]


def examples(count: int) -> int:
    """A quarter of them if not all are asked for."""
    return count if os.environ.get(ALL_EXAMPLES) else count // 4
