"""Consumer groups on a real broker: the answers to clients, the offsets topic, and the choice of coordinator."""

import pytest
from broker_world import B1, B2, BrokerWorld, batch
from group_world import SUBSCRIPTION, Consumer, coordinating

from cluster.protocol.versions import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    METADATA,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from controller.inputs import DeleteTopic, ElectLeader
from replica.causes import LeaveCause, RemovalCause
from replica.errors import ErrorCode
from replica.ids import OFFSETS_TOPIC, TopicPartition, java_hash, partition_of
from replica.rules import PROFILES
from replica.trace.events import (
    BatchAppended,
    CommittedOffsetRemoved,
    GroupMemberLeft,
    GroupsLoaded,
    GroupsUnloaded,
    OffsetCommitted,
)

LOG = TopicPartition(OFFSETS_TOPIC, 0)


@pytest.fixture
def world(tmp_path):
    """b1 alone leads the offsets topic; nothing waits for b2 unless a test lets it follow."""
    world = BrokerWorld(tmp_path, group_initial_rebalance_delay_ms="100").start()
    world.run(100)
    world.join(B2)
    world.create(B1)
    world.create(B1, topic=OFFSETS_TOPIC)
    world.run(10)
    return world


def stable_member(world, name="c1", **who):
    member = Consumer(world, name, **who)
    assert member.join() is None
    world.run(200)
    assert member.joined().leader == member.member_id
    assert member.sync(5, **{member.member_id: b"all"}).assignment == b"all"
    return member


def test_a_group_from_the_first_member_to_a_commit_that_is_read_back(world):
    member = stable_member(world)
    assert member.heartbeat() == ErrorCode.NONE
    assert member.committed() == (-1, 0)
    assert member.commit(7, metadata="mine") == ErrorCode.NONE
    assert [member.committed(version) for version in range(1, 11)] == [(7, 0)] * 10
    assert [event.offset for event in world.events(OffsetCommitted)] == [7]


def test_two_members_share_and_the_second_leaves(world):
    first = stable_member(world)
    second = Consumer(world, "c2")
    assert second.join() is None
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    answer = first.join()
    assert [one.member_id for one in answer.members] == [first.member_id, second.member_id]
    assert second.joined().members == () and second.generation == first.generation == 2
    assert second.sync() is None
    assert first.sync(**{first.member_id: b"a", second.member_id: b"b"}).assignment == b"a"
    assert second.answer.assignment == b"b"
    assert second.leave().members[0].error_code is ErrorCode.NONE
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    (left,) = world.events(GroupMemberLeft)
    assert left.member == second.member_id and left.cause is LeaveCause.LEAVE_REQUEST


def test_a_commit_counts_once_every_in_sync_replica_has_it(tmp_path):
    world = BrokerWorld(tmp_path, group_initial_rebalance_delay_ms="0").start()
    world.run(100)
    world.join(B2)
    world.create(B1)
    world.create(B1, B2, topic=OFFSETS_TOPIC)
    world.run(10)
    fetch = world.follower(B2)
    simple = Consumer(world, "tool")
    assert simple.commit(5) is None
    other = Consumer(world, "other")
    assert other.committed() == (-1, 0)
    assert other.committed(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    fetch(0, topic=OFFSETS_TOPIC)
    fetch(1, topic=OFFSETS_TOPIC)
    assert simple.commit_error() == ErrorCode.NONE
    assert other.committed(stable=True) == (5, 0)


def test_a_commit_that_misses_its_replicas_is_no_commit(tmp_path):
    world = BrokerWorld(tmp_path, group_initial_rebalance_delay_ms="0").start()
    world.run(100)
    world.join(B2)
    world.create(B1)
    world.create(B1, B2, topic=OFFSETS_TOPIC, min_insync_replicas="2")
    world.run(10)
    simple = Consumer(world, "tool")
    assert simple.commit(5) is None
    world.run(5000)
    assert simple.commit_error() == ErrorCode.REQUEST_TIMED_OUT
    assert simple.committed() == (-1, 0)
    world.fall_silent(B2)
    assert simple.commit(5) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_kip_848s_coordinator_appends_with_any_isr_and_waits_for_the_high_watermark(tmp_path):
    world = BrokerWorld(tmp_path, rules=PROFILES["kafka-4.1"], group_initial_rebalance_delay_ms="0").start()
    world.run(100)
    world.join(B2)
    world.create(B1)
    world.create(B1, B2, topic=OFFSETS_TOPIC, min_insync_replicas="2")
    world.run(10)
    world.fall_silent(B2)
    simple = Consumer(world, "tool")
    assert simple.commit(5) is None
    world.run(5000)
    assert simple.commit_error() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    (batch,) = [event for event in world.events(BatchAppended) if event.topic == OFFSETS_TOPIC]
    assert batch.log_end_offset == 1, "it stays, and counts once it is replicated"


def test_a_broker_that_starts_again_knows_its_groups_from_the_log(world):
    member = stable_member(world)
    member.commit(7)
    world.kill()
    world.start()
    world.run(20_000)
    assert [(loaded.groups, loaded.offsets) for loaded in world.events(GroupsLoaded)] == [(1, 1)]
    again = Consumer(world, "c1")
    again.member_id, again.generation = member.member_id, member.generation
    assert again.committed() == (7, 0)


def test_a_broker_that_no_longer_leads_the_partition_stops_coordinating(tmp_path):
    """And a broker that leads it again reads the other's records written meanwhile."""
    world = BrokerWorld(tmp_path, group_initial_rebalance_delay_ms="0").start()
    world.run(100)
    world.join(B2)
    world.create(B1)
    world.create(B1, B2, topic=OFFSETS_TOPIC)
    world.run(10)
    waiting, member = Consumer(world, "c2"), Consumer(world, "c1")
    assert member.join() is None
    world.run(1)
    member.joined()
    assert waiting.join() is None
    world.decide(ElectLeader(now_us=world.now_us, topic=OFFSETS_TOPIC, partition=0, desired=B2))
    world.run(10)
    assert int(waiting.answer.error_code) == ErrorCode.NOT_COORDINATOR
    assert member.heartbeat() == ErrorCode.NOT_COORDINATOR
    assert member.commit(1) == ErrorCode.NOT_COORDINATOR
    assert member.committed() == (-1, ErrorCode.NOT_COORDINATOR)
    assert len(world.events(GroupsUnloaded)) == 1
    world.decide(ElectLeader(now_us=world.now_us, topic=OFFSETS_TOPIC, partition=0, desired=B1))
    assert member.heartbeat() in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    world.run(10)
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


# ----------------------------------------------------------------------------------------------------- finding, looking


def find(member, version, *keys, key_type=0):
    if version < 4:
        return member.ask(FIND_COORDINATOR, version, key=keys[0], key_type=key_type)
    return member.ask(FIND_COORDINATOR, version, key_type=key_type, coordinator_keys=keys).coordinators


def test_the_first_who_looks_for_a_coordinator_has_the_topic_created(tmp_path):
    world = BrokerWorld(tmp_path, offsets_topic_num_partitions="3", offsets_topic_replication_factor="1").start()
    world.run(100)
    seeker = Consumer(world, "c1")
    assert int(find(seeker, 0, "g").error_code) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.run(100)
    topic = world.controller.state.image.topics[OFFSETS_TOPIC]
    assert len(topic.partitions) == 3 and topic.config["cleanup.policy"] == "compact"
    for version in range(4):
        found = find(seeker, version, "g")
        assert (int(found.error_code), int(found.node_id), found.host, int(found.port)) == (0, B1, "b1", 9092)
        assert getattr(found, "error_message", "NONE") == "NONE"
    for version in range(4, 7):
        found = find(seeker, version, "g", "h")
        assert [(one.key, int(one.node_id), one.error_message) for one in found] == [("g", B1, ""), ("h", B1, "")]


@pytest.mark.parametrize(
    ("key_type", "code", "why"),
    [
        (2, ErrorCode.INVALID_REQUEST, "coordinator type 2 is not supported"),
        (9, ErrorCode.INVALID_REQUEST, "coordinator type 9 is not supported"),
    ],
)
def test_what_has_no_coordinator_says_why(world, key_type, code, why):
    seeker = Consumer(world, "c1r")
    found = find(seeker, 1, "tx", key_type=key_type)
    assert found.error_code is code and found.error_message.startswith(why)
    (found,) = find(seeker, 6, "tx", key_type=key_type)
    assert found.error_code is code and found.error_message.startswith(why)
    (internal,) = seeker.ask(METADATA, 12, topics=[{"name": OFFSETS_TOPIC}], allow_auto_topic_creation=False).topics
    assert internal.is_internal


def test_too_few_brokers_for_the_replicas_of_the_topic(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    seeker = Consumer(world, "c1")
    for _ in range(2):
        found = find(seeker, 3, "g")
        assert int(found.error_code) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert found.error_message == "The coordinator is not available."
        (found,) = find(seeker, 4, "g")
        assert (int(found.error_code), found.error_message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
        world.run(100)
    assert OFFSETS_TOPIC not in world.controller.state.image.topics


def test_clients_cannot_write_where_groups_are_kept(world):
    client = world.call("p1")
    client.produce(batch("r0"), topic=OFFSETS_TOPIC)
    assert client.produced().error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert world.broker.replicas.partitions[LOG].log.log_end_offset == 0


@pytest.mark.parametrize(("profile", "told"), [("kafka-3.9", b""), ("kafka-4.1", b"all")])
def test_what_members_have_is_described_in_a_rebalance_since_4_0(tmp_path, profile, told):
    """ClassicGroupMember.describeNoMetadata; MemberMetadata.summaryNoMetadata"""
    world = coordinating(tmp_path, profile, group_initial_rebalance_delay_ms="100")
    member = stable_member(world)
    Consumer(world, "c2").join(3)
    (group,) = member.ask(DESCRIBE_GROUPS, 5, groups=["g"]).groups
    assert group.group_state == "PreparingRebalance"
    assert [one.member_assignment for one in group.members] == [told, b""]
    assert [one.member_metadata for one in group.members] == [b"", b""]


def test_groups_are_described_listed_and_deleted(world):
    member = stable_member(world)
    member.commit(3)
    for version in range(7):
        (group,) = member.ask(DESCRIBE_GROUPS, version, groups=["g"], include_authorized_operations=True).groups
        (only,) = group.members
        assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
        assert (only.member_id, only.client_id, only.client_host) == (member.member_id, "c1", "/c1")
        assert only.member_assignment == b"all"
    (dead,) = member.ask(DESCRIBE_GROUPS, 5, groups=["nobody"]).groups
    assert (int(dead.error_code), dead.group_state) == (0, "Dead")
    (missing,) = member.ask(DESCRIBE_GROUPS, 6, groups=["nobody"]).groups
    assert int(missing.error_code) == ErrorCode.GROUP_ID_NOT_FOUND

    def listed(version=5, **filters):
        return [group.group_id for group in member.ask(LIST_GROUPS, version, **filters).groups]

    assert [listed(version) for version in range(6)] == [["g"]] * 6
    assert listed(states_filter=["stable"], types_filter=["Classic"]) == ["g"]
    assert listed(states_filter=["Empty"]) == listed(types_filter=["consumer"]) == []

    def deleted(version):
        results = member.ask(DELETE_GROUPS, version, groups_names=["g", "g"]).results
        return [(one.group_id, int(one.error_code)) for one in results]

    assert deleted(0) == [("g", ErrorCode.NON_EMPTY_GROUP)]
    member.leave()
    assert deleted(2) == [("g", ErrorCode.NONE)]
    assert deleted(1) == [("g", ErrorCode.GROUP_ID_NOT_FOUND)]
    assert listed() == [] and member.committed() == (-1, 0)
    world.kill()
    world.start()
    world.run(20_000)
    assert Consumer(world, "c2").committed() == (-1, 0)


def test_offsets_are_deleted_unless_they_are_in_use(world):
    member = stable_member(world)
    member.commit(3)

    def delete(*numbers):
        partitions = [{"partition_index": number} for number in numbers]
        answer = member.ask(OFFSET_DELETE, 0, group_id="g", topics=[{"name": "t", "partitions": partitions}])
        return int(answer.error_code), [int(one.error_code) for topic in answer.topics for one in topic.partitions]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(0, 9) == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, unknown])
    member.leave()
    assert delete(0) == (0, [ErrorCode.NONE])
    assert member.committed() == (-1, 0)


def test_offsets_of_a_deleted_topic_are_forgotten(world):
    stable_member(world).commit(3)
    world.decide(DeleteTopic(now_us=world.now_us, name="t"))
    (removed,) = world.events(CommittedOffsetRemoved)
    assert (removed.topic, removed.cause) == ("t", RemovalCause.TOPIC_DELETED)


def test_all_offsets_and_many_groups_at_once(world):
    member = stable_member(world)
    member.commit(3)
    Consumer(world, "tool", group="h").commit(4)
    for version in range(2, 8):
        answer = member.ask(OFFSET_FETCH, version, group_id="g", topics=None)
        assert [(topic.name, [int(one.committed_offset) for one in topic.partitions]) for topic in answer.topics] == [
            ("t", [3])
        ]
    groups = member.ask(OFFSET_FETCH, 8, groups=[{"group_id": name, "topics": None} for name in ("g", "h", "i")]).groups
    found = [[int(one.committed_offset) for topic in group.topics for one in topic.partitions] for group in groups]
    assert found == [[3], [4], []]


# ------------------------------------------------------------------------------------------------------------- hostile


def test_what_no_group_can_be_asked(world):
    member = stable_member(world)
    assert Consumer(world, "c2", group="").heartbeat() == ErrorCode.INVALID_GROUP_ID
    assert member.commit(1, metadata="m" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert member.commit(1, partition=77) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert member.committed() == (-1, 0)
    assert int(member.sync(version=5).error_code) == 0
    nameless = member.ask(SYNC_GROUP, 5, group_id="g", generation_id=1, member_id=member.member_id, assignments=[])
    assert int(nameless.error_code) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    huge = Consumer(world, "c3", group="huge")
    assert huge.join(protocols=(("range", bytes(2 << 20)),)) is None
    world.run(200)
    huge.joined()
    assert int(huge.sync(5, **{huge.member_id: b""}).error_code) == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("length", [32_730, 32_731])
def test_an_id_that_no_message_can_hold_is_not_given_out(world, length):
    member = Consumer(world, "c1", instance="i" * length)
    answer = member.join()
    assert (answer is None) == (length == 32_730) and (answer is None or int(answer.error_code) == -1)
    world.run(200)
    if answer is None:
        assert len(member.joined().member_id) == 32_767
        assert int(member.sync(5, **{member.member_id: b"all"}).error_code) == 0


def test_a_name_longer_than_any_string_closes_the_connection(world):
    """A compact length can say more than Kafka's strings may have."""
    simple = Consumer(world, "tool", group="g" * 32_768)
    assert simple.commit(1) is None and simple._caller.closed
    longest = Consumer(world, "tool", group="g" * 32_767)
    assert longest.commit(1) == ErrorCode.NONE


def test_names_that_clients_choose_are_told_cut_and_printable(world):
    wild = "\x1b[31m<script>" + "x" * 5000
    simple = Consumer(world, "tool", group=wild)
    assert simple.commit(1) == ErrorCode.NONE and simple.committed() == (1, 0)
    (told,) = world.events(OffsetCommitted)
    assert len(told.group) < 110 and told.group.isprintable() and told.sentence().isprintable()


def test_a_group_is_no_larger_than_it_may_be_ids_given_out_included(tmp_path):
    world = BrokerWorld(tmp_path, group_initial_rebalance_delay_ms="100", group_max_size="2").start()
    world.run(100)
    world.create(B1)
    world.create(B1, topic=OFFSETS_TOPIC)
    world.run(10)
    answers = [Consumer(world, f"c{number}")._join_once(9, (("range", SUBSCRIPTION),)) for number in range(3)]
    errors = [int(answer.error_code) for answer in answers]
    assert errors == [ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_a_client_that_hangs_up_while_it_waits_leaves_nothing_behind(world):
    member = Consumer(world, "c1")
    assert member.join() is None
    member._caller.hang_up()
    requests = world.broker.groups._requests
    assert not requests._waiting and not requests._in_progress
    world.run(400_000)
    assert world.broker.groups.coordinator.index.groups["g"].members == {}


# ---------------------------------------------------------------------------------------------------------- the records


def test_the_log_has_kafkas_own_formats(world):
    """OffsetCommitKey 1, OffsetCommitValue 3, GroupMetadataKey 2, GroupMetadataValue 3."""
    member = stable_member(world)
    member.commit(7, metadata="m")
    (_, group), (_, offset) = world.broker.replicas.partitions[LOG].log.records()
    assert group.key == b"\0\2\0\1g"
    assert group.value.startswith(b"\0\3\0\x08consumer\0\0\0\1\0\5range\0\x27" + member.member_id.encode())
    me = b"\0\x27" + member.member_id.encode() + b"\xff\xff\0\2c1\0\3/c1\0\0\xea\x60\0\0\x27\x10"
    subscription = len(SUBSCRIPTION).to_bytes(4, "big") + SUBSCRIPTION
    assert group.value.endswith(b"\0\0\0\1" + me + subscription + b"\0\0\0\3all")
    assert offset.key == b"\0\1\0\1g\0\1t\0\0\0\0"
    time = offset.timestamp_ms.to_bytes(8, "big")
    assert offset.value == b"\0\3" + (7).to_bytes(8, "big") + b"\xff\xff\xff\xff\0\1m" + time


def test_a_group_lies_where_java_puts_it():
    """String.hashCode, and Utils.abs, for which the smallest integer is 0."""
    assert [java_hash(text) for text in ("", "Aa", "BB", "hello")] == [0, 2112, 2112, 99162322]
    assert java_hash("polygenelubricants") == -(2**31) and partition_of("polygenelubricants", 50) == 0
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00, "UTF-16 units, not characters"


def test_the_same_requests_give_the_same_trace(tmp_path):
    def play(root):
        world = BrokerWorld(root, group_initial_rebalance_delay_ms="100").start()
        world.run(100)
        world.create(B1)
        world.create(B1, topic=OFFSETS_TOPIC)
        world.run(10)
        members = [stable_member(world, f"c{number}", group=f"g{number}") for number in range(3)]
        for member in members:
            member.commit(5)
        world.run(30_000)
        return world.rows

    one, other = play(tmp_path / "one"), play(tmp_path / "other")
    assert one == other and any(type(row.event) is OffsetCommitted for row in one)
