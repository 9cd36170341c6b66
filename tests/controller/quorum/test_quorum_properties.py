"""Safety of the quorum under loss, delay, cuts and restarts: one leader per epoch, committed records stay.

The rules themselves are asserted by `quorum_world.QuorumWorld` after every step.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from quorum_world import LATENCY_US, MS, QuorumWorld

from controller.quorum.messages import AddVoter, RemoveVoter
from tests.soak import examples

SECOND = 1000 * MS

VERBS = (
    *("run", "run", "append", "append", "kill", "start", "start", "cut", "cut", "heal", "lossy", "slow", "stale"),
    "snapshot",
)


CHANGES = (*VERBS, "add", "add", "add", "remove", "remove", "new disk")


class Play:
    def __init__(self, voters: int, seed: int, asks_first: bool, observers: int | None = None) -> None:
        self.world = QuorumWorld(voters, seed, asks_first=asks_first, observers=observers)
        self.verbs = VERBS if observers is None else CHANGES
        self.island = 0
        self.loss_percent = 0
        self.slowest_ms = 1
        self.world.passes = self._passes
        self.world.delay_us = lambda: LATENCY_US + self.world.random.randrange(self.slowest_ms * MS)
        for voter in self.world.ids:
            self.world.start(voter)

    def _passes(self, sender: int, receiver: int) -> bool:
        apart = (self.island >> sender & 1) != (self.island >> receiver & 1)
        return not apart and self.world.random.randrange(100) >= self.loss_percent

    def step(self) -> None:
        world, chance = self.world, self.world.random
        voter = chance.choice(world.ids)
        match chance.choice(self.verbs):
            case "run":
                world.run_until(world.now_us + chance.randrange(3000 * MS))
            case "append":
                for leader in world.leaders:  # also a leader that is cut off: it decides in vain
                    world.append(leader, f"{world.now_us} by {leader}")
            case "kill":
                world.kill(voter)
            case "start" if world.voters[voter].quorum is None:
                world.start(voter)
            case "cut":
                self.island = chance.randrange(2 ** len(world.ids)) << 1
            case "heal":
                self.heal()
            case "lossy":
                self.loss_percent = chance.randrange(50)
            case "slow":
                self.slowest_ms = chance.randrange(1, 1000)
            case "snapshot":
                world.take_snapshot(voter)
            case "stale" if self.world.leaders:  # only the leader is cut off, with a record that no other has
                leader = chance.choice(world.leaders)
                self.island = 1 << leader
                world.append(leader, f"{world.now_us} by {leader}, alone")
            case "add":
                for leader in world.leaders:
                    world.change(leader, AddVoter(world.replica(voter)))
            case "remove":
                for leader in world.leaders:
                    world.change(leader, RemoveVoter(world.replica(voter)))
            case "new disk" if chance.randrange(6) == 0:
                world.new_disk(voter)
        world.run_until(world.now_us + chance.randrange(400 * MS))

    def heal(self) -> None:
        self.island = self.loss_percent = 0
        self.slowest_ms = 1


@pytest.mark.parametrize("asks_first", [False, True])
@pytest.mark.parametrize("voters", [1, 3, 5])
@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=8085)  # with five voters a candidate hears of its votes when the next epoch has committed records
def test_one_leader_per_epoch_and_no_committed_record_is_lost_or_changed(
    voters: int, asks_first: bool, seed: int
) -> None:
    play = Play(voters, seed, asks_first)
    for _ in range(60):
        play.step()
    ends_well(play)


@pytest.mark.soak
@pytest.mark.parametrize("asks_first", [False, True])
@pytest.mark.parametrize("voters", [1, 3])
@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_so_it_is_while_voters_are_added_and_removed_and_disks_are_lost(
    voters: int, asks_first: bool, seed: int
) -> None:
    play = Play(voters, seed, asks_first, observers=2)
    world = play.world
    for _ in range(60):
        play.step()
    if any(world.is_electable(voter) for voter in world.ids):
        ends_well(play)


def ends_well(play: Play) -> None:
    world = play.world
    # When all is well again there is one leader soon, and its decisions reach every voter.
    play.heal()
    for voter in world.ids:
        if world.voters[voter].quorum is None:
            world.start(voter)
    world.run_until(world.now_us + 60 * SECOND)
    (leader,) = world.leaders
    world.append(leader, "the last")
    world.run_until(world.now_us + 2 * SECOND)
    assert world.committed[-1][1] == "the last"
    logs = [world.voters[voter].log.entries for voter in world.ids]
    assert all(log == logs[0] for log in logs)
