"""The three choices and the change records, after Kafka's PartitionChangeBuilderTest."""

from __future__ import annotations

import pytest

from controller.changes import PartitionChange, Target, build_change
from controller.election import Candidates, Election, elect
from controller.image import PartitionRegistration
from replica.causes import ElectionCause
from replica.ids import NO_BROKER, BrokerId, TopicPartition

FOO = TopicPartition("foo", 0)


def partition(
    replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, recovering: bool = False
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=replicas,
        in_sync_replicas=isr,
        leader=leader,
        leader_epoch=100,
        partition_epoch=200,
        recovering=recovering,
    )


def change(
    before: PartitionRegistration,
    live: tuple[BrokerId, ...],
    election: Election = Election.ONLINE,
    isr: tuple[int, ...] | None = None,
    recovering: bool | None = None,
) -> PartitionChange | None:
    return build_change(
        FOO,
        before,
        is_acceptable=lambda broker_id: broker_id in live,
        election=election,
        target=Target(in_sync_replicas=isr, recovering=recovering),
        reassignment_done="added-in-sync",
    )


# replicas (2, 1, 3), ISR (2, 1, 3), leader 1, as PartitionChangeBuilderTest.FOO
@pytest.mark.parametrize(
    ("election", "live", "isr", "leader", "clean", "cause"),
    [
        (Election.PREFERRED, (1, 2, 3), (2, 1, 3), 2, True, ElectionCause.PREFERRED),
        (Election.PREFERRED, (1, 3), (2, 1, 3), 1, True, ElectionCause.KEEPS_LEADERSHIP),
        (Election.PREFERRED, (3,), (2, 1, 3), 3, True, ElectionCause.FIRST_LIVE),
        (Election.PREFERRED, (1, 2, 3), (1, 3), 1, True, ElectionCause.KEEPS_LEADERSHIP),
        (Election.PREFERRED, (2,), (1, 3), NO_BROKER, True, ElectionCause.NO_LIVE_MEMBER),
        (Election.ONLINE, (1, 2, 3), (2, 1, 3), 1, True, ElectionCause.KEEPS_LEADERSHIP),
        (Election.ONLINE, (2, 3), (2, 1, 3), 2, True, ElectionCause.FIRST_LIVE),
        (Election.ONLINE, (2, 3), (1, 3), 3, True, ElectionCause.FIRST_LIVE),
        (Election.ONLINE, (2,), (1, 3), NO_BROKER, True, ElectionCause.UNCLEAN_DISABLED),
        (Election.ONLINE, (), (2, 1, 3), NO_BROKER, True, ElectionCause.UNCLEAN_DISABLED),
        (Election.UNCLEAN, (1, 2, 3), (2, 1, 3), 1, True, ElectionCause.KEEPS_LEADERSHIP),
        (Election.UNCLEAN, (2, 3), (1, 3), 3, True, ElectionCause.FIRST_LIVE),
        (Election.UNCLEAN, (2,), (1, 3), 2, False, ElectionCause.UNCLEAN),
        (Election.UNCLEAN, (), (2, 1, 3), NO_BROKER, True, ElectionCause.NO_LIVE_REPLICA),
    ],
)
def test_choice(
    election: Election,
    live: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    clean: bool,
    cause: ElectionCause,
) -> None:
    candidates = Candidates(
        partition=partition((2, 1, 3), (2, 1, 3), leader=1),
        replicas=(2, 1, 3),
        in_sync_replicas=isr,
        is_acceptable=lambda broker_id: broker_id in live,
    )
    choice = elect(election, candidates)
    assert choice == (leader, clean, cause, ())


def test_nothing_to_change_writes_nothing() -> None:
    assert change(partition((2, 1, 3), (2, 1, 3), leader=1), live=(1, 2, 3)) is None


def test_an_isr_shrink_or_expansion_keeps_the_leader_epoch() -> None:
    """testNoLeaderEpochBumpOnIsrShrink, testNoLeaderEpochBumpOnIsrExpansion (metadata version 3.6 and later)."""
    before = partition((2, 1, 3), (2, 1), leader=1)
    for isr in ((1,), (2, 1, 3)):
        made = change(before, live=(1, 2, 3), isr=isr)
        assert made is not None
        assert made.record.leader is None
        after = before.merge(made.record)
        assert (after.in_sync_replicas, after.leader_epoch, after.partition_epoch) == (isr, 100, 201)


def test_the_last_isr_member_stays_when_its_broker_goes() -> None:
    before = partition((2, 1, 3), (1,), leader=1)
    made = change(before, live=(2, 3), isr=())
    assert made is not None
    after = before.merge(made.record)
    assert (after.leader, after.in_sync_replicas, after.leader_epoch) == (NO_BROKER, (1,), 101)


def test_an_unclean_leader_starts_alone_and_recovering() -> None:
    """testUncleanLeaderElection."""
    before = partition((2, 1, 3), (1,), leader=1)
    made = change(before, live=(2, 3), election=Election.UNCLEAN, isr=())
    assert made is not None
    assert not made.choice.clean
    after = before.merge(made.record)
    assert (after.leader, after.in_sync_replicas, after.recovering) == (2, (2,), True)


def test_recovering_to_recovered_is_a_change_of_its_own() -> None:
    before = partition((2, 1, 3), (1,), leader=1, recovering=True)
    made = change(before, live=(1,), isr=(1,), recovering=False)
    assert made is not None
    after = before.merge(made.record)
    assert (after.recovering, after.leader_epoch, after.partition_epoch) == (False, 100, 201)
