"""A cluster for tests that only ask it. The project in `foreign/` is tested by test_foreign_suite.py, in a copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import highwater

collect_ignore = ["foreign"]


@pytest.fixture(scope="session")
def one_broker() -> Iterator[highwater.Cluster]:
    with highwater.cluster(brokers=1, topics={"orders": 1}) as kafka:
        yield kafka
