"""Our column builder against pyarrow's own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.observe.trace_writer import column

INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
CASES = [
    (pa.int64(), INTS),
    (pa.string(), TEXTS),
    (pa.bool_(), st.booleans()),
    (pa.list_(pa.field("element", pa.int64(), nullable=False)), st.lists(INTS).map(tuple)),
    (pa.list_(pa.field("element", pa.string(), nullable=False)), st.lists(TEXTS).map(tuple)),
]


@pytest.mark.parametrize(("arrow_type", "values"), CASES, ids=lambda case: str(case)[:20])
@given(data=st.data())
def test_a_column_equals_the_one_pyarrow_builds(arrow_type: pa.DataType, values: Any, data: st.DataObject) -> None:
    one_over_and_over = st.tuples(st.none() | values, st.integers(1, 9)).map(lambda drawn: [drawn[0]] * drawn[1])
    chosen = data.draw(st.lists(st.none() | values) | one_over_and_over)
    built = column(chosen, arrow_type)
    built.validate(full=True)
    assert built.equals(pa.array(chosen, arrow_type))
