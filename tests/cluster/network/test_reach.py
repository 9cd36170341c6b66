"""Which nodes a cut leaves within reach of others."""

from __future__ import annotations

import pytest

from cluster.network.links import Latency, Network


@pytest.mark.parametrize(("source", "target"), [("b1", "k1"), ("k1", "b1")])
def test_who_is_cut_off_in_either_direction_comes_last(source: str, target: str) -> None:
    network = Network(1, Latency("constant", 0), {})
    assert network.by_reach(("b1", "b2", "b3"), ("k1", "k2")) == ["b1", "b2", "b3"]
    network.link(source, target).cuts.append("cut")
    network.link("b1", "b2").cuts.append("cut")
    assert network.by_reach(("b1", "b2", "b3"), ("k1", "k2")) == ["b2", "b3", "b1"]
