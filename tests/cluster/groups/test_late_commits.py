"""A commit that was written and is not replicated in time."""

from __future__ import annotations

import pytest
from coordinator_world import CoordinatorWorld

from cluster.config import BrokerConfig
from cluster.groups.service import group_settings
from replica.rules import PROFILES


@pytest.mark.parametrize(("release", "told"), [("3.9", "REQUEST_TIMED_OUT"), ("4.1", "COORDINATOR_NOT_AVAILABLE")])
def test_it_is_answered_as_the_coordinator_of_its_era_does(release: str, told: str) -> None:
    """source: CoordinatorOperationExceptionHelper; before it GroupMetadataManager.storeOffsets, which passes it on"""
    world = CoordinatorWorld(late_commit=group_settings(BrokerConfig(), PROFILES[f"kafka-{release}"]).late_commit)
    world.hold()
    world.commit(t_0=5)
    (answer,) = [line for line in world.release("REQUEST_TIMED_OUT") if "<-" in line]
    assert answer.endswith(told)
