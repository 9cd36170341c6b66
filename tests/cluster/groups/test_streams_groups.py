"""Streams groups (KIP-1071) beyond their transcript: members in any order, the assignor, topologies, records."""

from __future__ import annotations

from typing import Any

import pytest
from coordinator_world import SECOND, CoordinatorWorld, task, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.groups.inputs import ConsumerHeartbeatResult
from cluster.groups.state.consumer_group import ConsumerGroupState
from cluster.groups.state.consumer_member import MemberState
from cluster.groups.state.consumer_records import (
    CurrentAssignment,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
    TopologyRecord,
    read_consumer_key,
)
from cluster.groups.state.streams_group import (
    StreamsEpochRecord,
    StreamsGroup,
    StreamsMember,
    UserEndpoint,
    encode,
    read_streams_record,
)
from cluster.groups.state.tasks import ACTIVE, STANDBY, StreamsTask, Tasks, assign_sticky
from cluster.groups.state.topology import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    configure,
)
from replica.errors import ErrorCode, KafkaError
from tests.soak import examples

NO_DELAY: dict[str, Any] = {"streams_initial_rebalance_delay_ms": 0, "streams_session_timeout_ms": 10_000}


class Client:
    """A member: it has the tasks that it was given, and gives up what it is to give up.

    A static one has an instance.
    """

    def __init__(self, world: CoordinatorWorld, name: str, process: str, instance: str | None = None) -> None:
        self.world, self.name, self.process, self.instance, self.lives = world, name, process, instance, 0
        self.epoch, self.has, self.is_in = 0, frozenset[StreamsTask](), False

    @property
    def member_id(self) -> str:
        return f"{self.name}-life-{self.lives}"

    def beat(self) -> None:
        active = tuple(f"{one.subtopology}_{one.partition}" for one in self.has if one.kind == ACTIVE)
        standby = tuple(f"{one.subtopology}_{one.partition}" for one in self.has if one.kind == STANDBY)
        self.world.stream(
            self.member_id,
            self.epoch,
            shape="store",
            process=self.process,
            owned=active,
            standby=standby,
            instance=self.instance,
        )
        result = self.world.answers[len(self.world.requests)]
        assert isinstance(result, ConsumerHeartbeatResult)
        if result.error is ErrorCode.NONE:
            self.epoch, self.is_in = result.member_epoch, True
            if result.assigned is not None:
                self.has = frozenset(result.assigned)
        elif result.error is ErrorCode.UNRELEASED_INSTANCE_ID:
            assert self.instance is not None and not self.is_in
        else:
            assert result.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
            self.begin_anew()

    def begin_anew(self) -> None:
        self.epoch, self.has, self.is_in = 0, frozenset(), False
        self.lives += 1

    def leave(self) -> None:
        if self.is_in:
            self.world.stream(self.member_id, -1 if self.instance is None else -2, instance=self.instance)
        self.begin_anew()


def test_members_learn_who_reads_what_when_a_member_comes_and_tasks_move() -> None:
    world = CoordinatorWorld(**NO_DELAY, streams_num_standby_replicas=1)
    world.make_topic("counts", 3)
    knows = {"a": -1, "b": -1}

    def beat(name: str, epoch: int, *owned: str) -> dict[str, str] | None:
        where = UserEndpoint(name, 80)
        world.stream(name, epoch, "store", owned=owned, endpoint=where, knows=knows[name])
        result = world.answers[len(world.requests)]
        assert isinstance(result, ConsumerHeartbeatResult)
        assert (result.endpoints is None) == (result.endpoints_epoch == knows[name])
        knows[name] = result.endpoints_epoch
        if result.endpoints is None:
            return None
        return {
            where.host: f"active {' '.join(map(str, active))}, standby {' '.join(map(str, standby))}"
            for where, active, standby in result.endpoints
        }

    assert beat("a", 0) == {"a": "active t-0 t-1 t-2, standby "}
    assert beat("b", 0) == {"a": "active t-0 t-1 t-2, standby ", "b": "active , standby t-0 t-1"}
    assert beat("a", 2, "0_0", "0_1", "0_2") == {"a": "active t-0 t-1, standby ", "b": "active , standby t-0 t-1"}
    assert beat("a", 2, "0_0", "0_1") is None, "nothing has changed"
    assert beat("b", 3) == {"a": "active t-0 t-1, standby ", "b": "active t-2, standby t-0 t-1"}
    assert beat("a", 3, "0_0", "0_1") == {"a": "active t-0 t-1, standby t-2", "b": "active t-2, standby t-0 t-1"}
    assert knows == {"a": 4, "b": 3}, "b learns of the last change with its next heartbeat"


@pytest.mark.parametrize("instances", [{}, {1: "i1", 2: "i2"}], ids=["dynamic", "static"])
@pytest.mark.parametrize("standbys", [0, 1])
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["beat"] * 6 + ["leave", "vanish", "move", "wait"]))))
@settings(max_examples=examples(100))
def test_a_task_is_with_one_member_and_on_a_process_once(
    standbys: int, instances: dict[int, str], steps: list[tuple[int, str]]
) -> None:
    world = CoordinatorWorld(**NO_DELAY, streams_num_standby_replicas=standbys, has_static_streams=True)
    world.make_topic("counts", 3)
    clients = [Client(world, f"m{number}", f"p{number // 2}", instances.get(number)) for number in range(4)]
    for number, what in steps:
        match what:
            case "beat":
                clients[number].beat()
            case "leave":
                clients[number].leave()
            case "vanish":
                clients[number].begin_anew()
            case "move":
                world.resign()
                world.elect()
            case "wait":
                world.at(world.now_us + 4 * SECOND)
        # A member that was silent for too long is out of the group, and has not heard of it.
        group = world.coordinator.index.consumer_groups.get("g")
        members = [client for client in clients if group is not None and client.member_id in group.members]
        active = sorted(one.id for client in members for one in client.has if one.kind == ACTIVE)
        assert len(active) == len(set(active)), "no task is active twice"
        on_processes = [(client.process, one.id) for client in members for one in client.has]
        assert len(on_processes) == len(set(on_processes)), "members of a process share its state"
    for _ in range(2 * len(clients) + 4):
        world.at(world.now_us + 4 * SECOND)
        clients[0].beat()
        clients[2].beat()
    group = world.coordinator.index.consumer_groups["g"]
    assert group.state is ConsumerGroupState.STABLE
    kinds = [one.kind for client in (clients[0], clients[2]) for one in client.has]
    assert (kinds.count(ACTIVE), kinds.count(STANDBY)) == (3, 3 * standbys)


def held(assigned: dict[str, Tasks]) -> dict[str, str]:
    names = {ACTIVE: "{}_{}", STANDBY: "({}_{})"}
    return {
        member: " ".join(names[one.kind].format(one.subtopology, one.partition) for one in tasks)
        for member, tasks in assigned.items()
    }


def tasks(text: str) -> Tasks:
    return tuple(sorted(task(one.strip("()"), STANDBY if one[0] == "(" else ACTIVE) for one in text.split()))


@pytest.mark.parametrize(
    ("processes", "before", "standbys", "after"),
    [
        pytest.param("a:p b:q", {}, 0, {"a": "0_0 0_2 1_1", "b": "0_1 1_0 1_2"}, id="by-load"),
        pytest.param("a:p b:p c:q", {}, 0, {"a": "0_0 1_0", "b": "0_2 1_2", "c": "0_1 1_1"}, id="by-load-of-processes"),
        pytest.param(
            "a:p b:q",
            {"a": "0_0 0_1 0_2 1_0 1_1 1_2"},
            0,
            {"a": "0_0 0_1 1_0", "b": "0_2 1_1 1_2"},
            id="who-had-it-keeps-it-within-its-share",
        ),
        pytest.param(
            "a:p b:q", {"b": "(1_0) (1_1)"}, 0, {"a": "0_0 0_1 0_2", "b": "1_0 1_1 1_2"}, id="who-has-the-state-goes-on"
        ),
        pytest.param(
            "a:p b:q",
            {},
            1,
            {"a": "0_0 0_2 1_1 (1_0) (1_2)", "b": "0_1 1_0 1_2 (1_1)"},
            id="standbys-on-other-processes",
        ),
        pytest.param("a:p b:p", {}, 1, {"a": "0_0 0_2 1_1", "b": "0_1 1_0 1_2"}, id="no-process-for-standbys"),
    ],
)
def test_tasks_stay_and_are_shared_out(
    processes: str, before: dict[str, str], standbys: int, after: dict[str, str]
) -> None:
    of = dict(one.split(":") for one in processes.split())
    targets = {member: tasks(text) for member, text in before.items()}
    assert held(assign_sticky(of, targets, {"0": 3, "1": 3}, frozenset("1"), standbys)) == after


def part(number: str, **fields: object) -> dict[str, object]:
    return {"subtopology_id": number, **fields}


def internal(name: str, partitions: int = 0) -> dict[str, object]:
    return {"name": name, "partitions": partitions, "topic_configs": []}


JOINED: dict[str, object] = {"copartition_groups": [{"source_topics": [0], "repartition_source_topics": [0]}]}


@pytest.mark.parametrize(
    ("parts", "existing", "counts", "found"),
    [
        pytest.param([part("0", source_topics=["a", "b"])], "a:2 b:3", {"0": 3}, None, id="the-largest-source"),
        pytest.param([part("0", source_topics=["a"])], "", {}, MISSING_SOURCE_TOPICS, id="no-source"),
        pytest.param(
            [
                part("0", source_topics=["a"], repartition_sink_topics=["r"]),
                part("1", repartition_source_topics=[internal("r")], repartition_sink_topics=["s"]),
                part("2", repartition_source_topics=[internal("s")]),
            ],
            "a:4",
            {"0": 4, "1": 4, "2": 4},
            MISSING_INTERNAL_TOPICS,
            id="through-repartition-topics",
        ),
        pytest.param(
            [
                part("0", source_topics=["a"], repartition_sink_topics=["r"]),
                part("1", repartition_source_topics=[internal("r", 6)]),
            ],
            "a:4 r:6",
            {"0": 4, "1": 6},
            None,
            id="as-many-as-the-application-says",
        ),
        pytest.param(
            [
                part("0", source_topics=["a"], repartition_sink_topics=["r"]),
                part("1", repartition_source_topics=[internal("r")]),
            ],
            "a:4 r:3",
            {},
            INCORRECTLY_PARTITIONED_TOPICS,
            id="an-internal-topic-of-another-size",
        ),
        pytest.param(
            [
                part("0", source_topics=["a"], repartition_sink_topics=["r"]),
                part("1", source_topics=["b"], repartition_source_topics=[internal("r")], **JOINED),
            ],
            "a:4 b:2",
            {"0": 4, "1": 2},
            MISSING_INTERNAL_TOPICS,
            id="as-many-as-what-it-is-joined-with",
        ),
        pytest.param(
            [
                part("0", source_topics=["a"], repartition_sink_topics=["r"]),
                part("1", source_topics=["b"], repartition_source_topics=[internal("r", 3)], **JOINED),
            ],
            "a:4 b:2",
            {},
            INCORRECTLY_PARTITIONED_TOPICS,
            id="fixed-and-joined-with-another-size",
        ),
    ],
)
def test_a_topology_has_tasks_and_topics(
    parts: list[dict[str, object]], existing: str, counts: dict[str, int], found: int | None
) -> None:
    sizes = {name: int(size) for name, _, size in (one.partition(":") for one in existing.split())}
    configured = configure(topology(0, parts), sizes.get)
    assert (configured.counts, None if configured.status is None else configured.status[0]) == (counts, found)


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        pytest.param(
            [part("0", repartition_source_topics=[internal("r")], repartition_sink_topics=["r"])],
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            id="loop",
        ),
        pytest.param(
            [part("0", source_topics=["a"], repartition_source_topics=[internal("r")])],
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            id="never-written",
        ),
        pytest.param([part("0")], ErrorCode.UNKNOWN_SERVER_ERROR, id="reads-nothing"),
        pytest.param([part("0", source_topics=["a"])] * 2, ErrorCode.UNKNOWN_SERVER_ERROR, id="twice"),
        pytest.param(
            [part("0", source_topics=["a"], copartition_groups=[{"source_topics": [-1]}])],
            ErrorCode.UNKNOWN_SERVER_ERROR,
            id="names-what-it-does-not-read",
        ),
    ],
)
def test_an_impossible_topology_is_refused(parts: list[dict[str, object]], error: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        configure(topology(0, parts), {"a": 1}.get)
    assert refused.value.code is error


MEMBER = StreamsMember(
    member_id="m",
    rack_id="r",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=60_000,
    topology_epoch=2,
    process_id="p",
    user_endpoint=UserEndpoint("host", 8080),
    client_tags=(("zone", "a"),),
)
CURRENT = CurrentAssignment(
    4,
    3,
    MemberState.UNREVOKED_PARTITIONS,
    (StreamsTask(ACTIVE, "0", 1), StreamsTask(STANDBY, "1", 0)),
    (StreamsTask(ACTIVE, "0", 2),),
    {StreamsTask(ACTIVE, "0", 1): 3, StreamsTask(ACTIVE, "0", 2): 1},
)


@pytest.mark.parametrize(
    "record",
    [
        StreamsEpochRecord(7, 12345, 2, (("num.standby.replicas", "1"),)),
        StreamsEpochRecord(7, 12345),
        GroupEpochRecord(None),
        MemberRecord("m", MEMBER),
        MemberRecord("m", None),
        TargetEpochRecord(7, 1_700_000_000_000),
        TargetEpochRecord(None),
        TargetRecord("m", CURRENT.assigned),
        TargetRecord("m", None),
        CurrentAssignmentRecord("m", CURRENT),
        CurrentAssignmentRecord("m", None),
        TopologyRecord(topology(2, [part("0", source_topics=["a"], state_changelog_topics=[internal("l")])])),
        TopologyRecord(None),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_is_read_as_it_was_written(record: Any) -> None:
    key, value = encode("g", record)
    version, group_id, whose = read_consumer_key(key)
    assert (group_id, read_streams_record(version, whose, value)) == ("g", record)


STATIC: dict[str, Any] = {**NO_DELAY, "has_static_streams": True}


def epochs_of(world: CoordinatorWorld) -> tuple[int, dict[str, int]]:
    group = world.coordinator.index.consumer_groups["g"]
    return group.epoch, {member_id: member.epoch for member_id, member in group.members.items()}


def test_a_static_member_returns_to_its_tasks_without_a_rebalance() -> None:
    world = CoordinatorWorld(**STATIC)
    world.stream("m1", 0, process="p1", instance="i1")
    world.stream("m2", 0, process="p2", instance="i2")
    world.stream("m1", 1, owned=("0_0", "0_1", "0_2"), instance="i1")
    epoch, _ = epochs_of(world)
    before = dict(world.coordinator.index.consumer_groups["g"].targets)
    assert "m9 beat <- UNRELEASED_INSTANCE_ID" in world.stream("m9", 0, process="p1", instance="i1")[-1]
    world.stream("m1", -2, instance="i1")
    assert epochs_of(world) == (epoch, {"m1": -2, "m2": epoch})
    world.stream("m9", 0, process="p1", instance="i1")
    assert epochs_of(world) == (epoch, {"m2": epoch, "m9": epoch})
    assert world.coordinator.index.consumer_groups["g"].targets == {"m9": before["m1"], "m2": before["m2"]}
    assert "FENCED_INSTANCE_ID" in world.stream("m1", epoch, instance="i1")[-1]
    assert "UNKNOWN_MEMBER_ID" in world.stream("m9", epoch, instance="i3")[-1]


def test_a_static_member_in_another_process_is_a_rebalance() -> None:
    world = CoordinatorWorld(**STATIC)
    world.stream("m1", 0, process="p1", instance="i1")
    epoch, _ = epochs_of(world)
    world.stream("m1", -2, instance="i1")
    world.stream("m9", 0, process="p2", instance="i1")
    assert epochs_of(world) == (epoch + 1, {"m9": epoch + 1})
    world.stream("m9", -1, instance="i1")
    assert epochs_of(world) == (epoch + 2, {})


def test_a_static_member_that_left_for_a_while_is_removed_when_its_session_ends() -> None:
    world = CoordinatorWorld(**STATIC)
    world.stream("m1", 0, instance="i1")
    world.stream("m1", -2, instance="i1")
    world.at(world.now_us + 11 * SECOND)
    assert epochs_of(world)[1] == {}


def test_a_refused_static_member_leaves_the_group_as_it_was() -> None:
    world = CoordinatorWorld(**STATIC)
    world.stream("m1", 0, process="p1", instance="i1")
    world.stream("m1", -2, instance="i1")
    before = epochs_of(world)
    assert "INVALID_REQUEST" in world.stream("m9", 0, shape="store", process="p1", instance="i1")[-1]
    assert epochs_of(world) == before


def test_a_full_group_lets_a_static_member_return() -> None:
    world = CoordinatorWorld(**STATIC, streams_max_size=1)
    world.stream("m1", 0, process="p1", instance="i1")
    world.stream("m1", -2, instance="i1")
    assert "GROUP_MAX_SIZE_REACHED" in world.stream("m8", 0, process="p1", instance="i8")[-1]
    world.stream("m9", 0, process="p1", instance="i1")
    assert list(epochs_of(world)[1]) == ["m9"]


def test_before_4_4_there_are_no_static_members() -> None:
    assert "INVALID_REQUEST" in CoordinatorWorld(**NO_DELAY).stream("m1", 0, instance="i1")[-1]


def test_a_failed_write_takes_back_the_topology_too() -> None:
    world = CoordinatorWorld(**NO_DELAY)
    world.hold()
    world.stream("m1", 0)
    assert world.release("NOT_LEADER_OR_FOLLOWER")[-1] == "m1 beat <- NOT_COORDINATOR"
    group = world.coordinator.index.consumer_groups["g"]
    assert isinstance(group, StreamsGroup)
    assert (group.topology, group.configs, group.epoch, group.members) == (None, (), 1, {})
