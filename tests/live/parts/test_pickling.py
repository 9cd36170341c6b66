"""Values on their way between processes of one run: what arrives is equal."""

from __future__ import annotations

import pickle

import pytest

from cluster.network.links import Latency
from cluster.security import OPEN
from replica.rules import PROFILES
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file


@pytest.mark.parametrize("era", PROFILES)
def test_the_rules_of_an_era_arrive(era: str) -> None:
    assert pickle.loads(pickle.dumps(PROFILES[era])) == PROFILES[era]


def test_what_a_node_is_started_with_arrives() -> None:
    """Frozen dataclasses with and without slots, one in the other."""
    scenario = load_file(find_scenario("compaction-tombstone-gone")).scenario
    values = (scenario, Latency("constant", 250), OPEN, Latency, frozenset({"b1"}))
    assert pickle.loads(pickle.dumps(values)) == values
