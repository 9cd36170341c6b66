"""Charts' data in columns: a few lines here unpack them as page.js does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reports.report.embedding import packed

VALUES = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text())


def unpacked(columns: dict[str, Any]) -> list[dict[str, Any]]:
    values = [
        column if isinstance(column, list) else [column["of"][at] for at in column["at"]] for column in columns.values()
    ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


@given(st.lists(st.text(), min_size=1, max_size=4, unique=True).flatmap(
    lambda names: st.lists(st.fixed_dictionaries(dict.fromkeys(names, VALUES)))
))  # fmt: skip
def test_points_survive(points: list[dict[str, Any]]) -> None:
    assert unpacked(json.loads(json.dumps(packed(points)))) == points


def test_points_with_different_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="different keys"):
        packed([{"s": 1, "node": "b1"}, {"s": 2}])


def test_a_word_stands_once() -> None:
    assert packed([{"s": 1, "node": "b1"}, {"s": 2, "node": "b1"}]) == {
        "s": [1, 2],
        "node": {"of": ["b1"], "at": [0, 0]},
    }
