"""The invariants of consumer groups: coordinators' words that keep each of them, and that break it."""

from __future__ import annotations

from typing import Any

import pytest
from trace_script import TraceScript

from replica.rules import PROFILES
from replica.trace import events as trace
from tests.group_script import CAUSES


class GroupWords(TraceScript):
    coordinator = "b1"
    """Broker that says the next words."""

    def say(self, kind: type[trace.TraceEvent], **columns: Any) -> None:
        given: dict[str, Any] = {"node": self.coordinator, "group": "g"}
        self.emit(kind(**given | CAUSES.get(kind, {}) | columns))

    def joined(self, member: str, instance: str | None = None) -> None:
        about = {"member": member, "client_id": member, "instance": instance, "generation": 1}
        self.say(trace.GroupMemberJoined, **about)

    def left(self, member: str) -> None:
        about = {"member": member, "client_id": member, "instance": None, "generation": 1}
        self.say(trace.GroupMemberLeft, **about)

    def reconciled(
        self, member: str, epoch: int, *partitions: str, revoking: tuple[str, ...] = (), kind: str = "consumer"
    ) -> None:
        about = {"member": member, "client_id": member, "generation": epoch, "group_type": kind}
        self.say(trace.GroupMemberReconciled, partitions=partitions, revoking=revoking, **about)

    def committed(self, member: str | None, epoch: int) -> None:
        about = {"member": member, "generation": epoch, "topic": "t", "partition": 0, "offset": 1}
        self.say(trace.OffsetCommitted, **about)

    def migrated(self, kind: str) -> None:
        self.say(trace.GroupMigrated, generation=2, members=("m1", "m2"), protocol=kind)

    def begins_to_lead(self, topic: str) -> None:
        self.coordinator = "b2"
        self.emit(
            trace.LeadershipBegan(
                node="b2",
                topic=topic,
                partition=0,
                leader_epoch=2,
                partition_epoch=2,
                isr=("b2",),
                log_end_offset=0,
                high_watermark=0,
            )
        )

    def loaded(self, node: str) -> None:
        self.coordinator = node
        about = {"node": node, "topic": "__consumer_offsets", "partition": 0, "leader_epoch": 1}
        self.emit(trace.GroupsLoaded(groups=1, offsets=0, **about))  # type: ignore[arg-type]


def two_readers(era: str = "kafka-4.2") -> GroupWords:
    script = GroupWords(rules=PROFILES[era])
    script.joined("m1")
    script.reconciled("m1", 1, "t-0", "t-1")
    script.joined("m2")
    script.reconciled("m2", 2)
    script.reconciled("m1", 1, "t-0", revoking=("t-1",))
    return script


def test_what_is_given_up_may_be_given_on() -> None:
    script = two_readers()
    script.reconciled("m1", 2, "t-0")
    script.reconciled("m2", 2, "t-1")
    script.committed("m2", 2)
    script.committed(None, -1)
    script.left("m1")
    script.reconciled("m2", 3, "t-0", "t-1")
    script.committed("m2", 3)
    assert script.broken() == []


def test_what_a_member_has_still_to_give_up_is_nobody_elses() -> None:
    script = two_readers()
    script.reconciled("m2", 2, "t-1")
    assert script.broken() == ["S34"]


def test_another_coordinator_may_know_more_than_the_trace() -> None:
    script = two_readers()
    script.loaded("b2")
    script.reconciled("m2", 2, "t-1")
    script.committed("m1", 2)
    assert script.broken() == []


def test_a_frozen_coordinator_does_not_know_its_successors_members() -> None:
    script = two_readers()
    script.begins_to_lead("__consumer_offsets")
    script.reconciled("m2", 3, "t-0", "t-1")
    script.committed("m2", 3)
    script.coordinator = "b1"
    script.reconciled("m1", 2, "t-0")
    script.committed("m1", 2)
    script.coordinator = "b2"
    script.committed("m2", 3)
    assert script.broken() == []


def test_a_coordinator_keeps_its_members_when_another_broker_begins_to_lead() -> None:
    script = two_readers()
    script.begins_to_lead("__consumer_offsets")
    script.coordinator = "b1"
    script.reconciled("m2", 2, "t-1")
    script.committed("m1", 9)
    assert script.broken() == ["S34", "S35"]


def test_a_coordinator_whose_log_is_lost_knows_no_member() -> None:
    script = two_readers()
    script.begins_to_lead("__consumer_offsets")
    script.joined("m3")
    script.reconciled("m3", 1, "t-0", "t-1")
    script.committed("m3", 1)
    assert script.broken() == []


def test_a_static_member_is_replaced_at_another_coordinator_than_the_one_it_joined() -> None:
    """That one's words name members, and not their instances."""
    script = GroupWords()
    script.joined("m1", instance="i")
    script.loaded("b2")
    script.reconciled("m1", 2, "t-0")
    script.joined("m2", instance="i")
    script.reconciled("m2", 2, "t-0")
    assert script.broken() == []
    script.joined("m3", instance="j")
    script.reconciled("m3", 2, "t-0")
    assert script.broken() == ["S34"]


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_commit_at_another_epoch_is_refused(epoch: int) -> None:
    script = two_readers()
    script.committed("m2", epoch)
    assert script.broken() == ["S35"]


def test_an_older_epoch_commits_what_the_member_has_had_since_then() -> None:
    script = two_readers("kafka-4.3")
    script.reconciled("m1", 3, "t-0")
    script.committed("m1", 1)
    assert script.broken() == []
    script.reconciled("m1", 4)
    script.reconciled("m2", 4, "t-0")
    script.committed("m2", 2)
    assert script.broken() == ["S35"]


@pytest.mark.parametrize(("kind", "broken"), [("consumer", ["S35"]), ("streams", [])])
def test_an_older_epoch_of_a_streams_group_commits_before_4_3_too(kind: str, broken: list[str]) -> None:
    script = GroupWords(rules=PROFILES["kafka-4.2"])
    script.joined("m1")
    script.reconciled("m1", 1, "t-0", kind=kind)
    script.reconciled("m1", 2, "t-0", kind=kind)
    script.committed("m1", 1)
    assert script.broken() == broken


def test_a_commit_of_one_that_has_left_is_refused() -> None:
    script = two_readers()
    script.left("m1")
    script.committed("m1", 1)
    assert script.broken() == ["S35"]


def test_without_an_epoch_one_that_has_left_commits_only_where_the_group_has_no_members() -> None:
    script = two_readers()
    script.left("m1")
    script.left("m2")
    script.committed("m1", -1)
    script.reconciled("m3", 4, "t-0")
    script.committed("m2", -1)
    assert script.broken() == [], "it was taken before m3 came, and is said when it is replicated"
    script.reconciled("m4", 5, "t-1")
    script.left("m4")
    script.committed("m4", -1)
    assert script.broken() == ["S35"]


def test_a_static_member_that_was_replaced_commits_nothing() -> None:
    script = GroupWords()
    script.joined("m1", "i")
    script.reconciled("m1", 1, "t-0")
    script.joined("m2", "i")
    script.reconciled("m2", 1, "t-0")
    script.committed("m2", 1)
    assert script.broken() == []
    script.committed("m1", 1)
    assert script.broken() == ["S35"]


def test_a_group_that_changes_its_protocol_begins_anew() -> None:
    script = two_readers()
    script.migrated("classic")
    script.committed("m1", 7)
    script.committed("m2", 7)
    script.migrated("consumer")
    script.reconciled("m2", 8, "t-0", "t-1")
    script.reconciled("m1", 8)
    script.committed("m2", 8)
    assert script.broken() == []
    script.reconciled("m1", 9, "t-0")
    script.committed("m2", 7)
    assert script.broken() == ["S34", "S35"]
