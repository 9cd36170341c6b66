"""The group coordinator against its transcripts, tests/golden/groups_*.txt, and what they do not show."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from coordinator_world import SECOND, CoordinatorWorld, partition
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.coordinators.core import Elected, LeadershipResigned
from cluster.groups.inputs import (
    CommitOffsets,
    CommitResult,
    JoinedMember,
    JoinResult,
    Loaded,
    SyncGroup,
    SyncResult,
)
from cluster.groups.state.group import Group, Member, State
from cluster.groups.state.offsets import GroupOffsets, OffsetAndMetadata
from cluster.groups.state.records import value_versions
from replica.errors import ErrorCode, KafkaError
from replica.ids import TopicPartition
from replica.rules import KafkaRelease
from tests.soak import examples

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "golden").glob("groups_*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, transcript: Callable[[Path, object], None]) -> None:
    transcript(path, CoordinatorWorld())


@pytest.mark.parametrize(("release", "is_kept"), [("2.0", False), ("2.1", True)])
def test_before_kip_211_offsets_expire_though_a_member_reads_on(release: str, is_kept: bool) -> None:
    """GroupMetadata.removeExpiredOffsets: nothing new came, so the member had nothing to commit."""
    versions = value_versions(KafkaRelease.parsed(release))
    world = CoordinatorWorld(retention_ms=60_000, retention_check_interval_ms=5000, versions=versions)
    world.join("c1", version=3)
    world.at(3 * SECOND)
    world.sync("c1-1", 1)
    world.commit("c1-1", 1, t_0=7)
    for seconds in range(5, 80, 5):
        world.at(seconds * SECOND)
        world.heartbeat("c1-1", 1)
    group = world.coordinator.index.groups["g"]
    assert group.state is State.STABLE
    assert (TopicPartition("t", 0) in group.offsets.committed) is is_kept


def test_a_full_group_takes_no_one_more_and_keeps_whom_it_has() -> None:
    """source: GroupMetadataManager.acceptJoiningMember"""
    world = CoordinatorWorld(max_size=2)
    for name in ("c1", "c2"):
        world.join(name, version=3)
    assert world.join("c3", version=3)[-1] == "c3 join <- GROUP_MAX_SIZE_REACHED"
    assert "GROUP_MAX_SIZE_REACHED" not in "".join(world.join("c1", member="c1-1")), "it waits already"
    world.at(6 * SECOND)
    assert world.join("c3", version=3)[-1] == "c3 join <- GROUP_MAX_SIZE_REACHED"
    assert "GROUP_MAX_SIZE_REACHED" not in "".join(world.join("c2", member="c2-2")), "it is in it"
    world.sync("c1-1", 1, assign=("c1-1:t-0", "c2-2:t-1"))
    assert len(world.coordinator.index.groups["g"].members) == 2


@pytest.mark.parametrize("since_4_0", [False, True])
def test_a_member_that_finds_its_group_full_is_out_of_it(since_4_0: bool) -> None:
    """GroupMetadataManager.classicGroupJoinToClassicGroup: the others, who wait, are answered with the next event;
    GroupCoordinator.handleJoinGroup looks at the rebalance at once"""
    world = CoordinatorWorld(max_size=2, one_coordinator=since_4_0)
    world.join("c1", version=3)
    world.at(3 * SECOND)
    world.sync("c1-1", 1, assign=("c1-1:t-0",))
    for name in ("c2", "c3"):
        world.join(name, version=3)
    answers = "\n".join(world.join("c1", member="c1-1"))
    assert "c1 join <- GROUP_MAX_SIZE_REACHED" in answers
    assert ("c2 join <- generation 2" in answers) is not since_4_0
    assert "c2 join <- generation 2" in "\n".join([answers, *world.join("c2", member="c2-2")])


@pytest.mark.parametrize("since_4_0", [False, True])
def test_a_group_that_was_empty_waits_like_a_new_one_since_4_0(since_4_0: bool) -> None:
    """GroupMetadataManager.addMemberThenRebalanceOrCompleteJoin; GroupCoordinator.addMemberAndRebalance"""
    world = CoordinatorWorld(one_coordinator=since_4_0)
    world.join("c1", version=3)
    world.at(3 * SECOND)
    world.leave("c1-1")
    world.join("c2", version=3)
    world.at(5 * SECOND)
    world.join("c3", version=3)
    world.at(6 * SECOND)
    group = world.coordinator.index.groups["g"]
    assert group.state is (State.PREPARING_REBALANCE if since_4_0 else State.COMPLETING_REBALANCE)
    world.at(9 * SECOND)
    assert (group.state, len(group.members)) == (State.COMPLETING_REBALANCE, 2)


def member_of_group(name: str, *protocols: str) -> Member:
    """It says the protocol's name by each."""
    return Member(
        member_id=name,
        instance_id=None,
        client_id=name,
        client_host="/host",
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        protocol_type="consumer",
        protocols=tuple((protocol, protocol.encode()) for protocol in protocols),
    )


def commit(world: CoordinatorWorld, **offsets: OffsetAndMetadata) -> dict[str, ErrorCode]:
    """Somebody's, of t_0 and others: what is answered of each."""
    number = len(world.requests) + 1
    world.requests[number] = "commit"
    event = CommitOffsets(
        now_us=world.now_us,
        request=number,
        group_id="g",
        generation=-1,
        member_id="",
        instance_id=None,
        offsets={partition(name.replace("_", "-")): value for name, value in offsets.items()},
        knows_epochs=True,
        transaction=None,
    )
    assert "write " not in world.step(event), "nothing is written where there is nothing to write"
    result = world.answers[number]
    assert isinstance(result, CommitResult)
    return {str(name): error for name, error in result.errors.items()}


def test_of_a_commit_what_has_too_long_a_metadata_is_left_out() -> None:
    """It is counted in UTF-16 units, as Java's strings are."""
    world = CoordinatorWorld(metadata_max_bytes=4)
    fits, too_long = OffsetAndMetadata(5, metadata="\U0001f600ab"), OffsetAndMetadata(5, metadata="\U0001f600abc")
    none, refused = ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(world, t_0=too_long, t_1=fits) == {"t-0": refused, "t-1": none}
    assert list(map(str, world.coordinator.index.groups["g"].offsets.names)) == ["t-1"]
    assert commit(world, t_0=too_long) == {"t-0": refused}


@pytest.mark.parametrize(("release", "ends"), [("2.0", [61_000, 99]), ("4.1", [-1, 99])], ids=["2.0", "4.1"])
def test_until_2_0_each_commit_has_its_end_in_the_log(release: str, ends: list[int]) -> None:
    """Some clients give their own."""
    world = CoordinatorWorld(retention_ms=60_000, versions=value_versions(KafkaRelease.parsed(release)))
    own = OffsetAndMetadata(5, committed_ms=1000, expires_ms=99)
    commit(world, t_0=OffsetAndMetadata(5, committed_ms=1000), t_1=own)
    known = world.coordinator.index.groups["g"].offsets.committed.values()
    assert [one.value.expires_ms for one in known] == ends


EXPIRING = {"retention_ms": 60_000, "retention_check_interval_ms": 5000}


@pytest.mark.parametrize(("is_known", "gone_s"), [(True, 160), (False, 105)])
def test_offsets_expire_so_long_after_their_group_is_empty(is_known: bool, gone_s: int) -> None:
    """is_known: since when it is empty, which the log does not say before 2.1"""
    world = CoordinatorWorld(**EXPIRING)
    world.join("c1", version=3, session=200 * SECOND)
    world.at(3 * SECOND)
    world.sync("c1-1", 1)
    world.commit("c1-1", 1, t_0=7)
    world.at(100 * SECOND)
    world.leave("c1-1")
    if not is_known:
        world.coordinator.index.groups["g"].since_ms = None
    world.at(gone_s * SECOND - 1)
    assert world.fetch() == ["t-0 at 7"]
    world.at(gone_s * SECOND)
    assert world.fetch() == ["t-0 none"]
    assert world.show() == ["no group g"]


@pytest.mark.parametrize(
    ("kind", "synced_s", "expires"), [("range", 3, True), ("range", 0, False), ("connect", 3, False)]
)
def test_in_a_stable_group_what_nobody_reads_expires(kind: str, synced_s: int, expires: bool) -> None:
    """Of a group of another kind than consumers' nobody knows what it reads."""
    world = CoordinatorWorld(**EXPIRING)
    world.join("c1", version=3, session=200 * SECOND, kind="consumer" if kind == "range" else kind)
    world.at(3 * SECOND)
    world.sync("c1-1", 1)
    world.commit("c1-1", 1, t_0=7, u_0=8)
    if not synced_s:
        world.join("c2", version=3, session=200 * SECOND)
    world.at(62 * SECOND)
    assert world.fetch("t-0") == ["t-0 at 7"]
    world.at(65 * SECOND)
    assert (world.fetch("t-0"), world.fetch("u-0")) == (["t-0 at 7"], ["u-0 none" if expires else "u-0 at 8"])


@pytest.mark.parametrize("since_4_0", [False, True])
def test_a_group_that_was_never_written_has_a_tombstone_since_4_0(since_4_0: bool) -> None:
    """GroupMetadataManager.cleanupGroupMetadata; ClassicGroup.createGroupTombstoneRecords"""
    world = CoordinatorWorld(one_coordinator=since_4_0)
    world.commit(t_0=7)
    told = world.delete("g")
    assert ("write offset of t-0 in g is no more, group g is no more" in told) is since_4_0
    assert ("write offset of t-0 in g is no more" in told) is not since_4_0
    world.join("c1", version=3)
    world.at(3 * SECOND)
    world.leave("c1-1")
    assert "write group g is no more" in world.delete("g")


@pytest.mark.parametrize("producer", [None, 5])
def test_a_group_whose_commit_is_on_its_way_stays(producer: int | None) -> None:
    world = CoordinatorWorld(**EXPIRING)
    world.hold()
    world.commit(t_0=7, transaction=producer)
    world.at(5 * SECOND)
    world.release()
    if producer is not None:
        world.marker(producer, "commit")
    assert world.fetch() == ["t-0 at 7"]


def test_a_commit_that_is_on_its_way_is_not_stable() -> None:
    world = CoordinatorWorld()
    world.hold()
    world.commit(t_0=7)
    assert world.fetch() == ["t-0 UNSTABLE_OFFSET_COMMIT"]
    name = partition("t-0")
    assert world.coordinator.offsets("g", [name], stable=False) == {name: None}
    world.release()
    assert world.fetch() == ["t-0 at 7"]


@pytest.mark.parametrize("producer", [None, 5])
def test_what_was_deleted_before_it_is_written_stays_deleted(producer: int | None) -> None:
    world = CoordinatorWorld()
    world.hold()
    world.commit(t_0=7, t_1=8, transaction=producer)
    world.delete_offsets("t-0")
    world.release()
    if producer is not None:
        world.marker(producer, "commit")
    assert (world.fetch("t-0"), world.fetch("t-1")) == (["t-0 none"], ["t-1 at 8"])


def test_of_two_commits_the_later_one_counts() -> None:
    name = partition("t-0")
    first, second, third = ({name: OffsetAndMetadata(number)} for number in (7, 8, 9))
    offsets = GroupOffsets()
    for values in (first, second, third):
        offsets.prepare(values)
    offsets.appended(second, 2)
    offsets.appended(first, 1)
    assert offsets.committed[name].value.offset == 8


def test_a_commit_that_fails_takes_no_later_one() -> None:
    first, second = ({partition("t-0"): OffsetAndMetadata(number)} for number in (7, 8))
    offsets = GroupOffsets()
    offsets.prepare(first)
    offsets.prepare(second)
    offsets.failed(first)
    offsets.appended(second, 2)
    assert [one.value.offset for one in offsets.committed.values()] == [8]


def test_offsets_of_a_classic_group_are_told_to_any_member() -> None:
    world = CoordinatorWorld()
    world.commit(t_0=7)
    found: list[TopicPartition] = []
    with suppress(KafkaError):
        found += world.coordinator.offsets("g", None, stable=True, member_id="m", member_epoch=3)
    assert found == [partition("t-0")]


def test_only_a_commit_outside_of_transactions_may_be_of_the_group_without_a_name() -> None:
    world = CoordinatorWorld()
    assert world.commit(group="", t_0=7)[-1] == "somebody commit <- t-0 NONE"
    assert world.commit(group="", t_0=8, transaction=5)[-1] == "somebody commit <- t-0 INVALID_GROUP_ID"
    assert world.join("c1", group="") == ["c1 join <- INVALID_GROUP_ID"]


@pytest.mark.parametrize(("since_4_0", "version"), [(False, 8), (False, 9), (True, 8), (True, 9)])
def test_a_commit_of_a_generation_makes_no_group(since_4_0: bool, version: int) -> None:
    world = CoordinatorWorld(one_coordinator=since_4_0)
    error = "GROUP_ID_NOT_FOUND" if since_4_0 and version == 9 else "ILLEGAL_GENERATION"
    assert world.commit("m", 0, version=version, t_0=7)[-1] == f"m commit <- t-0 {error}"
    assert world.show() == ["no group g"]


@pytest.mark.parametrize("producer", [None, 5])
def test_a_commit_of_a_generation_names_a_member(producer: int | None) -> None:
    world = CoordinatorWorld()
    world.commit(t_0=7)
    unknown = "somebody commit <- t-0 UNKNOWN_MEMBER_ID"
    assert world.commit(generation=0, t_0=8, transaction=producer)[-1] == unknown
    world.beat("m1", 0, group="of-consumers")
    world.beat("m1", -1, group="of-consumers")
    assert world.commit(generation=0, t_0=8, transaction=producer, group="of-consumers")[-1] == unknown
    world.join("c1", version=3)
    assert world.commit(instance="i", t_0=8, transaction=producer)[-1] == unknown


def test_a_second_partition_begins_no_second_check() -> None:
    world = CoordinatorWorld(**EXPIRING)
    world.at(2 * SECOND)
    world.commit(t_0=7)
    world.beat("m1", 0, group="of-consumers")
    world.at(3 * SECOND)
    for unreadable in (0, 1):
        world.coordinator.step(Elected(now_us=world.now_us, partition=1, leader_epoch=5))
        loaded = Loaded(now_us=0, partition=1, leader_epoch=5, groups=(), unreadable=unreadable)
        assert len(world.step(loaded)) == unreadable
        assert world.step(LeadershipResigned(now_us=0, partition=1, leader_epoch=None)) == []
    world.at(65 * SECOND - 1)
    assert world.fetch() == ["t-0 at 7"]
    world.at(65 * SECOND)
    assert world.show() == ["no group g"]
    world.resign()
    world.at(70 * SECOND)
    assert world.coordinator.next_deadline_us is None


def test_offsets_expire_under_a_coordinator_that_read_its_log_at_the_time_of_a_check() -> None:
    world = CoordinatorWorld(**EXPIRING)
    world.commit(t_0=7)
    world.resign()
    world.elect(read="later")
    world.at(5 * SECOND)
    world.finish_reading()
    world.at(60 * SECOND)
    assert world.show() == ["no group g"]


def test_offsets_are_told_by_their_coordinator() -> None:
    world = CoordinatorWorld()
    world.commit(t_0=7)
    world.resign()
    found = []
    for _ in range(2):
        try:
            world.fetch()
        except KafkaError as error:
            found.append(error.code)
        world.elect(read="later")
    assert found == [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


def test_an_offset_expires_when_its_client_says_so() -> None:
    """OffsetCommit 2 to 4: retention_time_ms."""
    world = CoordinatorWorld(**EXPIRING)
    commit(world, t_0=OffsetAndMetadata(7, expires_ms=20_000))
    world.at(20 * SECOND - 1)
    assert world.fetch() == ["t-0 at 7"]
    world.at(20 * SECOND)
    assert world.fetch() == ["t-0 none"]


@pytest.mark.parametrize("since_4_0", [False, True])
def test_a_commit_on_its_way_is_deleted_with_a_tombstone_since_4_0(since_4_0: bool) -> None:
    world = CoordinatorWorld(one_coordinator=since_4_0)
    world.commit(t_1=7)
    world.hold()
    world.commit(t_0=7)
    told = world.delete_offsets("t-0")
    assert ("write offset of t-0 in g is no more" in told) is since_4_0


def test_a_group_of_whose_transaction_nothing_is_left_is_gone() -> None:
    world = CoordinatorWorld(**EXPIRING)
    world.commit(t_0=7, transaction=5)
    world.delete_offsets("t-0")
    world.at(5 * SECOND)
    assert world.show() == ["no group g"]


@pytest.mark.parametrize("producer", [None, 5])
def test_an_offset_that_is_committed_anew_does_not_expire(producer: int | None) -> None:
    world = CoordinatorWorld(**EXPIRING)
    world.commit(t_0=7)
    world.at(58 * SECOND)
    if producer is None:
        world.hold()
    world.commit(t_0=8, transaction=producer)
    assert not [line for line in world.at(60 * SECOND) if "no more" in line]
    if producer is None:
        world.release()
    else:
        world.marker(producer, "abort")
        assert world.fetch() == ["t-0 at 7"]
        assert [line for line in world.at(65 * SECOND) if "no more" in line]


def test_of_two_commits_of_a_transaction_the_later_one_counts() -> None:
    name = partition("t-0")
    first, second = {name: OffsetAndMetadata(7)}, {name: OffsetAndMetadata(8)}
    offsets = GroupOffsets()
    for values in (first, second):
        offsets.prepare_in_transaction(5, values)
    offsets.appended_in_transaction(5, first, 1)
    assert offsets.transactional[5][name] == (second[name], None)
    offsets.appended_in_transaction(5, second, 2)
    assert offsets.transaction_ended(5, committed=True) == second


def test_a_commit_of_a_transaction_that_fails_takes_itself_alone() -> None:
    world = CoordinatorWorld(**EXPIRING)
    world.commit(t_0=7, transaction=5)
    for producer in (5, 6):
        world.hold()
        world.commit(t_1=8, transaction=producer)
        world.release("NOT_ENOUGH_REPLICAS")
    assert list(world.coordinator.index.groups["g"].offsets.transactional) == [5]
    world.marker(5, "commit")
    assert (world.fetch("t-0"), world.fetch("t-1")) == (["t-0 at 7"], ["t-1 none"])


def test_in_a_group_that_never_had_members_each_offset_expires_by_itself() -> None:
    world = CoordinatorWorld(**EXPIRING)
    world.commit(t_0=7)
    world.at(50 * SECOND)
    world.commit(t_1=8)
    world.at(60 * SECOND)
    assert (world.fetch("t-0"), world.fetch("t-1")) == (["t-0 none"], ["t-1 at 8"])
    world.at(110 * SECOND)
    assert world.show() == ["no group g"]


def test_an_empty_consumer_group_is_gone_with_its_last_offset_and_from_the_log() -> None:
    """What a member reads does not expire."""
    world = CoordinatorWorld(**EXPIRING)
    world.beat("m1", 0)
    world.commit("m1", 1, t_0=7, u_0=8)
    world.at(40 * SECOND)
    world.beat("m1", 1)
    world.commit("m1", 1, t_1=9)
    told = world.at(60 * SECOND)
    assert [line for line in told if line.startswith("write")] == ["write offset of u-0 in g is no more"]
    world.beat("m1", -1)
    told = world.at(65 * SECOND)
    assert [line for line in told if line.startswith("write")] == ["write offset of t-0 in g is no more"]
    world.at(100 * SECOND - 1)
    assert world.fetch("t-1") == ["t-1 at 9"]
    world.restart()
    assert world.show()[0].startswith("g is Empty")
    world.at(110 * SECOND)
    assert world.show() == ["no group g"]
    world.restart()
    assert world.show() == ["no group g"]


def test_what_comes_late_of_an_election_is_passed_over() -> None:
    world = CoordinatorWorld()
    world.join("c1", version=3)
    world.at(3 * SECOND)
    world.sync("c1-1", 1, assign=("c1-1:t-0",))
    known = world.coordinator.index.groups["g"]
    later, late, lost = world.epoch + 2, world.epoch, world.epoch + 1
    for said in (
        Elected(now_us=0, partition=0, leader_epoch=later),  # It led before, too.
        LeadershipResigned(now_us=0, partition=0, leader_epoch=lost),
        Elected(now_us=0, partition=0, leader_epoch=late),
        LeadershipResigned(now_us=0, partition=0, leader_epoch=lost),
        LeadershipResigned(now_us=0, partition=0, leader_epoch=later),
    ):
        assert world.step(said) == []
        assert world.coordinator.index.groups["g"] is known
    assert known.state is State.STABLE
    elected = Elected(now_us=0, partition=1, leader_epoch=5)
    assert len(world.coordinator.step(elected)) == 1
    assert world.coordinator.step(elected) == []
    world.step(Loaded(now_us=0, partition=1, leader_epoch=4, groups=()))
    assert world.coordinator.index.loading == {1: 5}


def test_a_group_that_is_larger_than_it_may_be_by_now_begins_a_rebalance() -> None:
    """GroupMetadataManager.onLoaded"""
    world = CoordinatorWorld()
    for name in ("c1", "c2"):
        world.join(name, version=3)
    world.at(6 * SECOND)
    world.sync("c1-1", 1, assign=("c1-1:t-0", "c2-2:t-1"))
    world.restart()
    assert world.coordinator.index.groups["g"].state is State.STABLE
    world.set_max_size(2)
    assert world.coordinator.index.groups["g"].state is State.STABLE
    world.set_max_size(1)
    assert world.coordinator.index.groups["g"].state is State.PREPARING_REBALANCE


def test_who_gives_up_a_pattern_that_others_have_begins_a_new_epoch() -> None:
    """GroupMetadataManager.maybeUpdateRegularExpressions, since 4.1.1: the topics of the group are the same"""
    world = CoordinatorWorld()
    world.beat("m1", 0, pattern="t.*")
    world.at(SECOND)
    world.beat("m2", 0, pattern="t.*")
    group = world.coordinator.index.consumer_groups["g"]
    epoch, known = group.epoch, group.members["m2"].epoch
    world.beat("m2", known, pattern="", topics=())
    assert group.epoch == epoch + 1
    assert group.targets["m2"] == ()
    assert list(group.resolved) == ["t.*"]


def test_patterns_are_looked_up_together_and_where_there_are_some() -> None:
    world = CoordinatorWorld()
    world.beat("m1", 0)
    assert world.coordinator.index.consumer_groups["g"].resolving is None
    world.beat("m2", 0, pattern="t.*")
    world.beat("m3", 0, pattern="u.*")
    written = [line for line in world.at(0) if line.startswith("write")]
    assert [line.count("pattern of") for line in written] == [2]


@pytest.mark.parametrize("is_late", [False, True], ids=["new", "late"])
def test_a_pattern_is_looked_up_once_ten_seconds_have_passed(is_late: bool) -> None:
    """Another one that has come before that is looked up then."""
    world = CoordinatorWorld()
    world.make_topic("u", 1)
    world.beat("m1", 0, pattern="t.*")
    world.at(0)
    if is_late:
        world.at(5 * SECOND)
        world.beat("m2", 0, pattern="u.*")
    world.at(11 * SECOND)
    group = world.coordinator.index.consumer_groups["g"]
    assert list(group.resolved) == ["t.*"]
    world.beat("m1", group.members["m1"].epoch, pattern=None if is_late else "u.*")
    world.at(11 * SECOND)
    assert list(group.resolved) == (["t.*", "u.*"] if is_late else ["u.*"])


def test_what_a_pattern_describes_begins_an_epoch_as_do_topics_that_have_changed() -> None:
    world = CoordinatorWorld()
    world.beat("m1", 0)
    world.beat("m2", 0, pattern="t.*")
    group = world.coordinator.index.consumer_groups["g"]
    assert group.epoch == 1
    world.at(0)
    assert group.epoch == 2
    world.at(11 * SECOND)
    world.beat("m3", 0, pattern="x.*")
    world.make_topic("t", 5)
    world.at(11 * SECOND)
    assert group.epoch == 3


def test_a_tombstone_that_is_left_makes_no_group() -> None:
    world = CoordinatorWorld()
    world.beat("m1", 0)
    world.log[:] = [(offset, key, None) for offset, key, _ in world.log]
    world.restart()
    assert world.show() == ["no group g"]


def test_the_leader_of_a_classic_group() -> None:
    """Where it is not the first member, as after a rebalance that the first one has missed."""
    group = Group("g", State.PREPARING_REBALANCE)
    for number, name in enumerate(("a", "b", "c")):
        group.add(member_of_group(name, "range"))
        group.members[name].awaiting_join = number or None
    assert (group.elect_joined_leader(), group.leader_id) == (True, "b")
    group.members["a"].awaiting_join = 3
    assert (group.elect_joined_leader(), group.leader_id) == (True, "b")
    group.remove("c")
    assert group.leader_id == "b"
    group.remove("b")
    assert group.leader_id == "a"


def test_a_rebalance_waits_for_ids_that_were_given_out() -> None:
    world = CoordinatorWorld()
    world.join("c1", version=3)
    world.at(3 * SECOND)
    world.sync("c1-1", 1)
    world.join("c2")
    world.join("c3", version=3)
    assert not [line for line in world.join("c1", member="c1-1") if "generation" in line]
    assert [line for line in world.join("c2", member="c2-2") if line.startswith("c2 join <- generation 2")]


@pytest.mark.parametrize(("kind", "protocols"), [("", ("range",)), ("consumer", ())])
def test_who_says_no_kind_or_no_protocol_is_refused(kind: str, protocols: tuple[str, ...]) -> None:
    world = CoordinatorWorld()
    assert world.join("c1", version=3, kind=kind, protocols=protocols) == ["c1 join <- INCONSISTENT_GROUP_PROTOCOL"]


def test_a_group_has_the_protocol_that_all_its_members_know() -> None:
    world = CoordinatorWorld()
    world.join("c1", version=3, protocols=("sticky",))
    world.leave("c1-1")
    assert "INCONSISTENT" not in "".join(world.join("c2", version=3, protocols=("range",)))
    group = Group("g")
    for name, protocols in (("a", ("one", "two")), ("b", ("two", "three"))):
        group.add(member_of_group(name, *protocols))
    assert group.select_protocol() == "two"


def test_who_coordinates_a_group_no_more_looks_no_patterns_up() -> None:
    world = CoordinatorWorld()
    world.beat("m1", 0, pattern="t.*")
    world.resign()
    assert world.at(0) == []


def test_offsets_of_members_that_read_nobody_knows_what_are_not_deleted() -> None:
    world = CoordinatorWorld()
    world.join("c1", version=3, metadata="ff")
    world.at(3 * SECOND)
    world.sync("c1-1", 1)
    world.commit("c1-1", 1, t_0=7)
    assert world.delete_offsets("t-0")[-1] == "delete-offsets <- t-0 GROUP_SUBSCRIBED_TO_TOPIC"


@pytest.mark.parametrize("comes_back", [False, True])
def test_who_never_asks_under_the_id_of_before_begins_a_rebalance(comes_back: bool) -> None:
    """A static member that comes back before it has asked, and asks under its new id: as in Kafka."""
    world = CoordinatorWorld()
    for name, instance in (("c1", "i1"), ("c2", "i2")):
        world.join(name, instance=instance, session=100 * SECOND)
    world.at(6 * SECOND)
    world.sync("i1-1", 1, instance="i1", assign=("i1-1:t-0", "i2-2:t-1"))
    if comes_back:
        world.join("c2", instance="i2", session=100 * SECOND)
    world.sync("i2-3" if comes_back else "i2-2", 1, instance="i2")
    world.at(66 * SECOND)
    state = world.coordinator.index.groups["g"].state
    assert state is (State.PREPARING_REBALANCE if comes_back else State.STABLE)


def test_a_refused_sync_names_no_protocol() -> None:
    world = CoordinatorWorld()
    for name in ("c1", "c2"):
        world.join(name, version=3)
    world.at(6 * SECOND)
    world.sync("c2-2", 1)
    waits = len(world.requests)
    world.join("c3", version=3)
    assert world.answers[waits] == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_new_member_waits_for_five_minutes() -> None:
    world = CoordinatorWorld()
    world.join("c1", version=3, session=1000 * SECOND, rebalance=900 * SECOND)
    world.at(3 * SECOND)
    world.sync("c1-1", 1)
    world.join("c2", version=3)
    assert world.at(303 * SECOND - 1) == []
    assert "c2 join <- UNKNOWN_MEMBER_ID" in world.at(303 * SECOND)


def test_a_new_group_gives_out_as_many_ids_as_it_may_have_members() -> None:
    world = CoordinatorWorld(max_size=2)
    told = [world.join("c1")[-1] for _ in range(3)]
    assert [line.split()[3] for line in told] == ["MEMBER_ID_REQUIRED", "MEMBER_ID_REQUIRED", "GROUP_MAX_SIZE_REACHED"]


def test_an_id_that_was_given_out_is_no_static_member_s() -> None:
    """GroupMetadataManager.classicGroupJoinExistingMember throws an IllegalStateException."""
    world = CoordinatorWorld()
    world.join("c1")
    assert world.join("c1", member="c1-1", instance="i") == ["c1 join <- UNKNOWN_SERVER_ERROR"]
    assert "c1 join <- generation 1" in "".join([*world.join("c1", member="c1-1"), *world.at(3 * SECOND)])


@pytest.mark.parametrize(("kind", "error"), [("consumer", "NONE"), ("connect", "INCONSISTENT_GROUP_PROTOCOL")])
def test_who_asks_for_an_assignment_is_of_the_kind_of_its_group(kind: str, error: str) -> None:
    world = CoordinatorWorld()
    world.join("c1", version=3)
    world.at(3 * SECOND)
    world.requests[9] = "sync"
    event = SyncGroup(
        now_us=world.now_us,
        request=9,
        group_id="g",
        generation=1,
        member_id=world.member_id("c1-1"),
        instance_id=None,
        protocol_type=kind,
        protocol="range",
        assignments={},
    )
    world.step(event)
    result = world.answers[9]
    assert isinstance(result, SyncResult)
    assert result.error is ErrorCode[error]


def test_who_waits_for_its_assignment_is_not_silent() -> None:
    world = CoordinatorWorld()
    for name in ("c1", "c2"):
        world.join(name, version=3)
    world.at(6 * SECOND)
    world.sync("c2-2", 1)
    for second in (12, 20):
        world.at(second * SECOND)
        world.heartbeat("c1-1", 1)
    assert "c2-2 sync <- t-1" in world.sync("c1-1", 1, assign=("c1-1:t-0", "c2-2:t-1"))


def test_a_member_votes_for_the_best_that_all_know_and_says_what_it_wants_by_it() -> None:
    member = member_of_group("m", "a", "b", "c")
    assert member.vote(["c", "b"]) == "b"
    assert member.metadata("b") == b"b"


def test_a_pattern_that_is_not_looked_up_yet_begins_no_epoch() -> None:
    world = CoordinatorWorld()
    for name in ("m1", "m2"):
        world.beat(name, 0, pattern="t.*")
    group = world.coordinator.index.consumer_groups["g"]
    assert group.epoch == 1
    world.at(0)
    assert group.epoch == 2
    world.beat("m3", 0, pattern="t.*")
    assert group.epoch == 3


def test_an_id_that_no_answer_could_carry_is_not_made() -> None:
    world = CoordinatorWorld()
    assert world.join("c" * 32_767)[-1].endswith("UNKNOWN_SERVER_ERROR")
    assert world.coordinator.index.groups["g"].pending_members == {}


class Client:
    """A client that does what Kafka's do, as far as it is not killed: one request at a time, and it takes its answer to
    heart."""

    def __init__(self, world: CoordinatorWorld, name: str, instance: str | None) -> None:
        self.world, self.name, self.instance = world, name, instance
        self.member_id, self.generation, self.leads = "", -1, False
        self.members: tuple[JoinedMember, ...] = ()
        self.waits_for: int | None = None

    def act(self, choice: int) -> None:
        if self.waits_for is not None and not self.take_answer():
            return
        match choice:
            case 0:
                self.ask(self.world.join, self.name, member=self.member_id, instance=self.instance)
            case 1:
                assign = tuple(f"{one.member_id}:{one.member_id}" for one in self.members) if self.leads else ()
                self.ask(self.world.sync, self.member_id, self.generation, assign=assign, instance=self.instance)
            case 2:
                self.ask(self.world.heartbeat, self.member_id, self.generation, instance=self.instance)
            case 3:
                offset = len(self.world.answers)
                self.ask(self.world.commit, self.member_id, self.generation, instance=self.instance, t_0=offset)
            case 4:
                self.ask(self.world.leave, self.member_id, instance=self.instance)
            case _:  # Its process dies and another one starts under the same name.
                self.member_id, self.generation, self.leads, self.waits_for = "", -1, False, None

    def ask(self, verb: Callable[..., object], *args: object, **values: Any) -> None:
        self.waits_for = len(self.world.requests) + 1
        verb(*args, **values)
        self.take_answer()

    def take_answer(self) -> bool:
        answer = self.world.answers.get(self.waits_for or 0)
        if answer is None:
            return False
        self.waits_for = None
        if isinstance(answer, JoinResult):
            if answer.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id, self.generation, self.members = answer.member_id, answer.generation, answer.members
                self.leads = answer.leader_id == answer.member_id and not answer.skip_assignment
            else:
                self.member_id, self.generation = "", -1
        elif isinstance(answer, SyncResult) and answer.error is ErrorCode.NONE:
            assert answer.assignment.decode() in ("", self.member_id), "each member is given its own"
        return True


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from([0, 0, 1, 4, 20])), max_size=60)


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS, moves=st.sets(st.integers(0, 59), max_size=2))
def test_whatever_clients_do_the_log_knows_what_was_told(steps: list[tuple[int, int, int]], moves: set[int]) -> None:
    """Two static and two dynamic members, in any order, their coordinator moving in between."""
    world = CoordinatorWorld(initial_rebalance_delay_ms=1000)
    clients = [Client(world, f"c{n}", f"i{n}" if n < 2 else None) for n in range(4)]
    generation = 0
    for number, (who, what, seconds) in enumerate(steps):
        if number in moves:
            world.resign()
            assert not world.coordinator.index.groups
            world.elect()
            generation = 0  # A generation without assignments may come again.
        clients[who].act(what)
        world.at(world.now_us + seconds * SECOND)
        group = world.coordinator.index.groups.get("g")
        if group is not None:
            assert group.generation >= generation
            generation = group.generation
            check(group)
    for client in clients:
        if client.waits_for is not None:
            world.at(world.now_us + 400 * SECOND)
            # A client that died while it waited may have been answered; no other client waits longer than any timeout.
            assert client.take_answer()
    live = world.coordinator.index.groups.get("g")
    replayed = {group.group_id: group for group in world.replay()}.get("g")
    assert (replayed.offsets.committed if replayed else {}) == (live.offsets.committed if live else {})


def check(group: Group) -> None:
    assert (group.state is State.EMPTY) <= (not group.members)
    assert group.leader_id is None or group.leader_id in group.members
    statics = {one.instance_id: one.member_id for one in group.members.values() if one.instance_id is not None}
    assert group.static_members == statics
    assert list(group.members) == [one.member_id for one in group.members.values()]
    for member in group.members.values():
        watched = member.session is not None and member.session.callback is not None
        assert watched or member.is_awaiting, "a member that says nothing is dropped some day"
