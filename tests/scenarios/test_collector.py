"""The work of one search for cycles of garbage: counted in objects, not in seconds."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from scenarios.process.own_python import collect_in_short_pauses

CONNECTIONS = 1_000_000


class Ends:
    """As of a connection: each knows the other, and only a collector finds them."""

    def __init__(self) -> None:
        self.other = [self]


@pytest.fixture
def searched() -> Iterator[list[int]]:
    """How many objects each collection has looked at."""
    sizes: list[int] = []

    def starts(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            sizes.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))

    before = gc.get_threshold()
    collect_in_short_pauses()
    gc.callbacks.append(starts)
    yield sizes
    gc.callbacks.remove(starts)
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.soak
def test_a_process_that_answers_clients_never_looks_at_very_many_objects(searched: list[int]) -> None:
    for _ in range(CONNECTIONS):
        Ends()
    assert len(searched) > 100, "it still finds them"
    assert max(searched) < 50_000, "a hundred thousand young ones, or all that was imported, would be too many"
