"""One member of a group, and a coordinator that answers as the transcript says."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from itertools import groupby
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from cluster.client.api_versions import Allowed
from cluster.client.connections import Answered, ClientConnections
from cluster.client.consumer.assignors import (
    COOPERATIVE_STICKY,
    assignment,
    owner,
    owning_subscription,
    partitions_in,
    subscription,
)
from cluster.client.consumer.classic_membership import ClassicMembership
from cluster.client.consumer.consumer_membership import HeartbeatMembership
from cluster.client.consumer.membership import GroupMembership
from cluster.client.metadata_cache import ClientMetadata
from cluster.config import CONSUMER, GroupConsumerConfig
from cluster.protocol.cold import response
from cluster.protocol.consumer_protocol import read_subscription
from cluster.protocol.versions import (
    CONSUMER_GROUP_HEARTBEAT,
    FIND_COORDINATOR,
    JOIN_GROUP,
    METADATA,
    OFFSET_FETCH,
    SYNC_GROUP,
    api_name,
)
from cluster.topic_pattern import TopicPattern
from replica.config import NEVER
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.rules import PROFILES

TOPIC_IDS = {"t": UUID(int=100), "u": UUID(int=101), "v": UUID(int=102)}
PARTITIONS = 4
STATES = {"UNJOINED": "joins, or is out", "JOINED": "waits for its assignment", "STABLE": "stable"}


def listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "nothing"


def named(one: int | str) -> TopicPartition:
    """1 is t-1."""
    topic, _, number = str(one).rpartition("-")
    return TopicPartition(topic or "t", int(number))


class Connections:
    """To one broker, which is always ready; it names itself as the coordinator of every group."""

    def __init__(self) -> None:
        self.metadata = ClientMetadata(
            [("b1", 9092)], max_age_ms=300_000, retry_backoff_ms=100, retry_backoff_max_ms=100, rng=random.Random(1)
        )
        self.asked: list[tuple[int, Mapping[str, Any], Allowed | None]] = []
        self.pending: dict[str, Answered] = {}
        self.knows_coordinator = True

    def metadata_come(self, counts: Mapping[str, int], now_us: int) -> None:
        """counts: partitions by topic"""
        topics = [
            {
                "name": topic,
                "topic_id": TOPIC_IDS[topic],
                "partitions": [{"partition_index": one, "leader_id": 1, "leader_epoch": 0} for one in range(count)],
            }
            for topic, count in counts.items()
        ]
        brokers = [{"node_id": 1, "host": "b1", "port": 9092}]
        self.metadata.update(response(METADATA, 12, brokers=brokers, topics=topics), now_us)

    def least_loaded(self, now_us: int) -> int:
        return 1

    def ready(self, node_id: int, now_us: int) -> bool:
        return True

    def is_unavailable(self, node_id: int, now_us: int) -> bool:
        return False

    def ask(
        self,
        node_id: int,
        api_key: int,
        values: Mapping[str, Any],
        answered: Answered,
        now_us: int,
        *,
        timeout_us: int | None = None,
        allowed: Allowed | None = None,
    ) -> None:
        if api_key == FIND_COORDINATOR:
            error = ErrorCode.NONE if self.knows_coordinator else ErrorCode.COORDINATOR_NOT_AVAILABLE
            answered(SimpleNamespace(node_id=1, host="b1", port=9092), error, now_us)
            return
        self.asked.append((api_key, values, allowed))
        self.pending[api_name(api_key)] = answered


class MemberWorld:
    """Its verbs are those of the transcripts. Times count from the start."""

    def __init__(self) -> None:
        self.now_us = 0
        self._lines: list[str] = []
        self._member: GroupMembership

    def member(
        self,
        protocol: str = "classic",
        strategy: str | tuple[str, ...] = "range",
        instance: str = "",
        profile: str = "kafka-4.1",
        topics: tuple[str, ...] = ("t",),
        there: tuple[str, ...] = ("t",),
        pattern: str = "",
    ) -> list[str]:
        """A process starts. topics: that it subscribes to     there: those of which metadata have come"""
        self._topics = topics
        self._connections = Connections()
        self._connections.metadata_come(dict.fromkeys(there, PARTITIONS), self.now_us)
        strategies = (strategy,) if isinstance(strategy, str) else strategy
        self._strategy = strategies[0]
        config = GroupConsumerConfig(
            group_id="g",
            group_protocol=protocol,
            partition_assignment_strategy=", ".join(strategies),
            group_instance_id=instance,
            max_poll_interval_ms=60_000,
        )
        connections = cast(ClientConnections, self._connections)
        wanted: Any = TopicPattern(pattern) if pattern else topics
        parts = config, wanted, connections, self._assigned, self._revoked, PROFILES[profile]
        self._member = HeartbeatMembership(*parts, "m") if protocol == CONSUMER else ClassicMembership(*parts)
        return self._run()

    def there_is(self, topic: str, count: int = PARTITIONS) -> list[str]:
        """Metadata come."""
        self._connections.metadata_come({topic: count}, self.now_us)
        return self._run()

    def wants_metadata(self) -> list[str]:
        self._connections.metadata.request_update()
        return self._run()

    def at(self, at_us: int) -> list[str]:
        self.now_us = at_us
        return self._run()

    # ---------------------------------------------------------------------------------------------------- application

    def stalls(self) -> list[str]:
        self._member.may_join = False
        return self._run()

    def polls(self) -> list[str]:
        self._member.may_join = True
        return self._run()

    def commit(self, *offsets: str) -> list[str]:
        self._member.commit(self._offsets(offsets), lambda error: self._lines.append(f"commit: {error.name}"))
        return self._run()

    def leave(self) -> list[str]:
        self._member.leave()
        return self._run()

    def _assigned(self, committed: Mapping[TopicPartition, int]) -> None:
        if committed:
            froms = {
                name: offset if offset >= 0 else "where auto.offset.reset says" for name, offset in committed.items()
            }
            self._lines.append("reads " + ", ".join(f"{name} from {start}" for name, start in froms.items()))

    def _revoked(self, revoked: Any) -> None:
        self._lines.append("gives up " + listed(revoked))

    # ---------------------------------------------------------------------------------------------------- coordinator

    def joined(
        self, member: str, generation: int, leader: str, members: tuple[str, ...] = (), by: str = ""
    ) -> list[str]:
        """members: m1:0+u-1@3: it has t-0 and u-1 since generation 3     by: the strategy that all support"""
        self._strategy = by or self._strategy
        found = [
            SimpleNamespace(member_id=name, group_instance_id=None, metadata=data) for name, data in self._of(members)
        ]
        answer = SimpleNamespace(
            member_id=member,
            generation_id=generation,
            leader=leader,
            members=found,
            protocol_name=self._strategy,
        )
        return self._answer("JoinGroup", answer)

    def _of(self, members: tuple[str, ...]) -> list[tuple[str, bytes]]:
        written = []
        for one in members:
            name, _, has = one.partition(":")
            numbers, _, generation = has.partition("@")
            owned = [named(number) for number in numbers.split("+") if number]
            cooperates = self._strategy == COOPERATIVE_STICKY
            of_it = self._topics
            data = owning_subscription(of_it, owned, int(generation or -1)) if cooperates else subscription(of_it)
            written.append((name, data))
        return written

    def synced(self, *partitions: int | str) -> list[str]:
        given = [named(one) for one in partitions]
        return self._answer("SyncGroup", SimpleNamespace(assignment=assignment(given)))

    def beaten(self, epoch: int = 0, assigned: tuple[int | str, ...] | None = None) -> list[str]:
        """A heartbeat is answered. epoch, assigned: by KIP-848"""
        if "Heartbeat" in self._connections.pending:
            return self._answer("Heartbeat", SimpleNamespace())
        topics = [
            SimpleNamespace(topic_id=TOPIC_IDS[topic], partitions=[one.partition for one in found])
            for topic, found in groupby(map(named, assigned or ()), lambda one: one.topic)
        ]
        answer = SimpleNamespace(
            member_id=self._member.member_id,
            member_epoch=epoch,
            heartbeat_interval=timedelta(seconds=5),
            assignment=None if assigned is None else SimpleNamespace(topic_partitions=topics),
        )
        return self._answer("ConsumerGroupHeartbeat", answer)

    def fetched(self, *offsets: str) -> list[str]:
        found = self._offsets(offsets)
        topics = [
            SimpleNamespace(
                name=name.topic,
                partitions=[
                    SimpleNamespace(partition_index=name.partition, committed_offset=offset, error_code=ErrorCode.NONE)
                ],
            )
            for name, offset in found.items()
        ]
        group = SimpleNamespace(error_code=ErrorCode.NONE, topics=topics)
        group.groups = [group]
        return self._answer("OffsetFetch", group)

    def committed(self) -> list[str]:
        return self._answer("OffsetCommit", SimpleNamespace(topics=[]))

    def left(self) -> list[str]:
        return self._answer("LeaveGroup", SimpleNamespace())

    def refuse(self, api: str, error: str, member: str = "") -> list[str]:
        return self._answer(api, SimpleNamespace(member_id=member, topics=[]), ErrorCode[error])

    def lost(self) -> list[str]:
        """The connection, with all that waits for an answer; there is no other coordinator yet."""
        self._connections.knows_coordinator = False
        for answered in self._taken():
            answered(None, ErrorCode.NETWORK_EXCEPTION, self.now_us)
        return self._run()

    def found(self) -> list[str]:
        """The coordinator is there again."""
        self._connections.knows_coordinator = True
        return self._run()

    def _taken(self) -> list[Answered]:
        pending = list(self._connections.pending.values())
        self._connections.pending.clear()
        return pending

    def _answer(self, api: str, answer: object, error: ErrorCode = ErrorCode.NONE) -> list[str]:
        assert api in self._connections.pending, f"no {api} waits for an answer"
        self._connections.pending.pop(api)(answer, error, self.now_us)
        return self._run()

    # ----------------------------------------------------------------------------------------------------- what it says

    def show(self) -> list[str]:
        one = self._member
        state = one.member.state.name if isinstance(one, HeartbeatMembership) else STATES[one.state.name]  # type: ignore[attr-defined]
        return [
            f"{one.member_id or 'no member'} in {one.generation}: {state}"
            + (", fenced" if one.refused else "")
            + (", has left" if one.has_left else ""),
            f"has {listed(one.assigned)}",
            *self._shown_ids(),
        ]

    def _shown_ids(self) -> list[str]:
        """Of topics that it knows no names of."""
        ids = self._connections.metadata.topic_ids
        names = [name for name, topic_id in TOPIC_IDS.items() if topic_id in ids]
        return [f"asks for metadata by the ids of {', '.join(names)}"] if names else []

    def _run(self) -> list[str]:
        while self._member.run_once(self.now_us):
            pass
        for api_key, values, allowed in self._connections.asked:
            versions = f" {allowed.oldest} or newer" if api_key == CONSUMER_GROUP_HEARTBEAT and allowed else ""
            self._lines.append(f"-> {api_name(api_key)}{versions}{_said(api_key, values)}")
        self._connections.asked.clear()
        wakes_us = self._member.next_deadline_us
        if wakes_us < NEVER:
            self._lines.append(f"looks again at {wakes_us / 1_000_000:g} s")
        lines, self._lines = self._lines, []
        return lines

    def _offsets(self, offsets: tuple[str, ...]) -> dict[TopicPartition, int]:
        """0:5 is offset 5 of t-0, u-0:5 that of u-0."""
        pairs = [one.split(":") for one in offsets]
        return {named(name): int(offset) for name, offset in pairs}


def _said(api_key: int, values: Mapping[str, Any]) -> str:
    of_member = values["groups"][0] if "groups" in values else values
    who = of_member.get("member_id") or "no member"
    if api_key == OFFSET_FETCH and "groups" not in values:
        who = values["group_id"]
    describe: Callable[[Mapping[str, Any]], str] | None = {
        JOIN_GROUP: _join,
        SYNC_GROUP: _sync,
        CONSUMER_GROUP_HEARTBEAT: _beat,
    }.get(api_key)
    generation = values.get("generation_id", values.get("generation_id_or_member_epoch"))
    of_generation = "" if generation is None else f" in generation {generation}"
    if "members" in values:
        who = ", ".join(one["member_id"] for one in values["members"])
    return f" of {who}{of_generation}{'' if describe is None else describe(values)}"


def _join(values: Mapping[str, Any]) -> str:
    said = []
    for protocol in values["protocols"]:
        topics = ", ".join(read_subscription(protocol["metadata"]).topics)
        if protocol["name"] != COOPERATIVE_STICKY:
            said.append(str(protocol["name"]) + (f", reads {topics}" if topics != "t" else ""))
            continue
        known = owner("m", protocol["metadata"])
        has = listed(known.owned)
        said.append(f"{protocol['name']}, has {has} since generation {known.generation}")
    return ": " + "; ".join(said)


def _sync(values: Mapping[str, Any]) -> str:
    given = [f"{one['member_id']} gets {listed(partitions_in(one['assignment']))}" for one in values["assignments"]]
    return ": " + "; ".join(given) if given else ""


def _beat(values: Mapping[str, Any]) -> str:
    said = [f" at epoch {values['member_epoch']}"]
    if "subscribed_topic_names" in values:
        said.append(f"subscribes to {', '.join(values['subscribed_topic_names']) or 'no names'}")
    if "subscribed_topic_regex" in values:
        said.append(f"and to `{values['subscribed_topic_regex']}`")
    if "topic_partitions" in values:
        names = {topic_id: name for name, topic_id in TOPIC_IDS.items()}
        has = [
            TopicPartition(names[topic["topic_id"]], one)
            for topic in values["topic_partitions"]
            for one in topic["partitions"]
        ]
        said.append(f"has {listed(has)}")
    return ", ".join(said)
