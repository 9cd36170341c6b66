"""A member of KIP-848's groups by itself, and several of them with the real coordinator."""

from __future__ import annotations

from uuid import UUID

import pytest
from coordinator_world import SECOND, CoordinatorWorld
from hypothesis import given
from hypothesis import strategies as st

from cluster.client.consumer.member_state import ClientMemberState, MembershipManager, Partitions
from cluster.groups.inputs import ConsumerHeartbeat, ConsumerHeartbeatResult
from cluster.groups.state.assignors import TopicIdPartition
from cluster.groups.state.consumer_group import ConsumerGroupState
from replica.errors import ErrorCode
from replica.ids import TopicPartition

TOPIC = UUID(int=100)


def member(instance: str | None = None) -> MembershipManager:
    return MembershipManager("m", instance, ["t"], 300_000, None)


def named(topic_id: UUID) -> str | None:
    return "t" if topic_id == TOPIC else None


def parts(*numbers: int) -> Partitions:
    return tuple((TOPIC, number) for number in numbers)


def reads(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("t", number) for number in numbers)


def joined(*numbers: int) -> MembershipManager:
    one = member()
    one.join()
    one.heartbeat()
    one.answered("m", 1, parts(*numbers))
    one.reconcile(named)
    one.heartbeat()
    assert one.state is ClientMemberState.STABLE
    return one


def test_a_heartbeat_says_what_is_new():
    one = member()
    one.join()
    assert one.heartbeat() == {
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 300_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    one.answered("m", 3, parts(0, 1))
    assert one.state is ClientMemberState.RECONCILING
    change = one.reconcile(named)
    assert change is not None and (change.revoked, change.added) == ((), reads(0, 1))
    assert one.state is ClientMemberState.ACKNOWLEDGING and one.beats_now
    owned = [{"topic_id": TOPIC, "partitions": [0, 1]}]
    assert one.heartbeat() == {"member_id": "m", "member_epoch": 3, "topic_partitions": owned}
    assert one.state is ClientMemberState.STABLE and not one.beats_now
    assert one.heartbeat() == {"member_id": "m", "member_epoch": 3}
    one.unheard()
    assert one.heartbeat()["topic_partitions"] == owned and one.state is ClientMemberState.STABLE


def test_only_what_moves_is_given_up():
    one = joined(0, 1, 2)
    one.answered("m", 1, parts(1, 2))
    change = one.reconcile(named)
    assert change is not None and (change.revoked, change.added) == (reads(0), ())
    one.answered("m", 2, None)
    assert one.state is ClientMemberState.ACKNOWLEDGING, "an epoch alone changes nothing"


def test_a_new_target_that_comes_while_the_last_one_is_acknowledged_is_reconciled_next():
    one = joined(0, 1)
    one.answered("m", 1, parts(0))
    one.reconcile(named)
    one.answered("m", 2, parts(0, 2))
    assert one.state is ClientMemberState.RECONCILING
    assert one.reconcile(named) is not None and one.owned == reads(0, 2)


@pytest.mark.parametrize("then", [(0, 1), ()])
def test_a_topic_that_the_metadata_lacks_waits(then: tuple[int, ...]):
    one = member()
    one.join()
    one.heartbeat()
    one.answered("m", 1, (*parts(*then), (UUID(int=7), 0)))
    assert one.has_unnamed(named)
    change = one.reconcile(named)
    assert change is not None and change.added == reads(*then)
    one.heartbeat()
    assert one.state is ClientMemberState.RECONCILING
    assert one.reconcile(named) is None, "the answer is not awaited in a loop"
    one.reconcile(lambda topic_id: named(topic_id) or "u")
    one.heartbeat()
    assert one.state is ClientMemberState.STABLE and one.owned == (*reads(*then), TopicPartition("u", 0))


def test_a_fenced_member_reads_until_the_application_polls_and_then_joins_anew():
    one = joined(0, 1)
    one.fence()
    assert (one.state, one.epoch, one.owned, one.is_silent) == (ClientMemberState.FENCED, 0, reads(0, 1), True)
    one.answered("m", 9, parts(2))
    assert one.epoch == 0, "an answer that comes late means nothing"
    assert one.release() == reads(0, 1)
    one.join()
    assert one.heartbeat()["topic_partitions"] == []


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_who_does_not_poll_leaves_until_it_does(instance: str | None, epoch: int):
    one = member(instance)
    one.join()
    one.heartbeat()
    one.answered("m", 1, parts(0))
    one.reconcile(named)
    one.leave(poll_expired=True)
    assert one.heartbeat()["member_epoch"] == epoch
    assert one.state is ClientMemberState.STALE and one.is_silent
    one.release()
    one.join()
    assert one.heartbeat()["member_epoch"] == 0


def test_who_leaves_is_out_and_a_fence_changes_nothing():
    one = joined(0)
    one.leave()
    one.fence()
    assert one.state is ClientMemberState.UNSUBSCRIBED
    two = joined(0)
    two.leave()
    two.heartbeat()
    two.fence()
    assert two.state is ClientMemberState.UNSUBSCRIBED


def test_a_member_that_is_refused_for_good_reads_nothing():
    one = joined(0, 1)
    assert one.fail() == reads(0, 1)
    assert (one.state, one.owned, one.is_silent) == (ClientMemberState.FATAL, (), True)


# ----------------------------------------------------------------------------------------------- with the coordinator


class Process:
    """A member and the network to its coordinator. Its heartbeat and the answer may be lost, and it may stall."""

    def __init__(self, world: CoordinatorWorld, name: str) -> None:
        self.world = world
        self.member = MembershipManager(name, None, ["t"], 20_000, None)
        self.member.join()

    def beat(self, *, loses_answer: bool = False) -> None:
        if self.member.state in (ClientMemberState.FENCED, ClientMemberState.UNSUBSCRIBED):
            self.member.release()
            self.member.join()
        fields = self.member.heartbeat()
        self.world.requests[len(self.world.requests) + 1] = "beat"
        number = len(self.world.requests)
        owned = fields.get("topic_partitions")
        self.world.step(
            ConsumerHeartbeat(
                now_us=self.world.now_us,
                request=number,
                group_id="g",
                member_id=str(fields["member_id"]),
                member_epoch=int(str(fields["member_epoch"])),
                instance_id=None,
                rack_id=None,
                client_id=self.member.member_id,
                client_host="/host",
                rebalance_timeout_ms=int(str(fields.get("rebalance_timeout", -1))),
                topics=("t",) if "subscribed_topic_names" in fields else None,
                topic_regex=None,
                assignor=None,
                owned=None if owned is None else _partitions(owned),
            )
        )
        if loses_answer:
            self.member.unheard()
            return
        result = self.world.answers[number]
        assert isinstance(result, ConsumerHeartbeatResult)
        if result.error is not ErrorCode.NONE:
            assert result.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
            self.member.unheard()
            self.member.fence()
            return
        self.member.answered(result.member_id, result.member_epoch, result.assigned)
        self.member.reconcile(named)

    def leave(self) -> None:
        if self.member.is_in_group:
            self.member.leave()
            self.beat(loses_answer=True)  # Java does not look at it either.


def _partitions(owned: object) -> tuple[TopicIdPartition, ...]:
    assert isinstance(owned, list)
    return tuple(TopicIdPartition(topic["topic_id"], number) for topic in owned for number in topic["partitions"])


STEPS = ["beat", "beat", "beat", "beat", "lost", "leave", "wait", "move"]


@given(steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(STEPS)), max_size=60))
def test_members_come_go_and_stall_and_no_partition_has_two(steps: list[tuple[int, str]]) -> None:
    """Of those whose session stands: a member that stalls for longer than it reads what another one has by then."""
    world = CoordinatorWorld(consumer_session_timeout_ms=10_000)
    world.make_topic("t", 7)
    group = [Process(world, f"m{number}") for number in range(4)]

    def check() -> None:
        known = world.coordinator.index.consumer_groups.get("g")
        live = [one for one in group if known is not None and one.member.member_id in known.members]
        has = sorted(tp for one in live for tp in one.member.owned if one.member.epoch > 0)
        assert len(set(has)) == len(has)

    for number, what in steps:
        match what:
            case "beat":
                group[number].beat()
            case "lost":
                group[number].beat(loses_answer=True)
            case "leave":
                group[number].leave()
            case "wait":
                world.at(world.now_us + 4 * SECOND)
            case "move":
                world.resign()
                world.elect()
        check()
    for _ in range(16):
        world.at(world.now_us + 1 * SECOND)
        for one in group:
            one.beat()
            check()
    assert sorted(tp for one in group for tp in one.member.owned) == [*reads(*range(7))]
    assert world.coordinator.index.consumer_groups["g"].state is ConsumerGroupState.STABLE
    assert {one.member.state for one in group} == {ClientMemberState.STABLE}
