"""Live tests wait for the wall clock: one after the other, so that they do not wait for each other."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.live)
            item.add_marker(pytest.mark.xdist_group("live"))
