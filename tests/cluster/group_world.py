"""Clients of consumer groups, as far as a test needs them, in front of b1 of a BrokerWorld."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from broker_world import B1, BrokerWorld, Caller

from cluster.protocol import cold
from cluster.protocol.versions import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from replica.ids import OFFSETS_TOPIC
from replica.rules import PROFILES

SESSION_MS, REBALANCE_MS = 10_000, 60_000
SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"
"""Of topic t, as consumers write it: version 0, one topic, no user data."""


def coordinating(root: Path, profile: str, **config: str) -> BrokerWorld:
    """b1 alone, leader of t-0 and of the offsets topic."""
    world = BrokerWorld(root, PROFILES[profile], **config).start()
    world.run(100)
    world.create(B1)
    world.create(B1, topic=OFFSETS_TOPIC)
    world.run(10)
    return world


class Consumer:
    """A member, or a client that wants to be one. Requests may wait: `answer` is the last answer to the last one."""

    def __init__(self, world: BrokerWorld, name: str, *, group: str = "g", instance: str | None = None) -> None:
        self.world = world
        self.name = name
        self.group = group
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self._caller: Caller = world.call(name)
        self._api, self._version, self._before = 0, 0, 0

    def ask(self, api: int, version: int, **values: Any) -> Any:
        """The answer, or None while there is none."""
        entity = cold.request(api, version, **values)
        self._api, self._version, self._before = api, version, len(self._caller.answers)
        self._caller.send(cold.encode_request(api, version, 1, self.name, entity))
        return self.answer

    @property
    def answer(self) -> Any:
        answers = self._caller.answers
        return cold.decode_response(self._api, self._version, answers[-1]) if len(answers) > self._before else None

    def join(self, version: int = 9, protocols: tuple[tuple[str, bytes], ...] = (("range", SUBSCRIPTION),)) -> Any:
        """Twice, if an id has to be fetched first."""
        answer = self._join_once(version, protocols)
        if answer is not None and int(answer.error_code) == 79:
            self.member_id = str(answer.member_id)
            answer = self._join_once(version, protocols)
        return self.joined() if answer is not None else None

    def _join_once(self, version: int, protocols: tuple[tuple[str, bytes], ...]) -> Any:
        return self.ask(
            JOIN_GROUP,
            version,
            group_id=self.group,
            session_timeout=SESSION_MS,
            rebalance_timeout=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[{"name": name, "metadata": metadata} for name, metadata in protocols],
        )

    def joined(self) -> Any:
        """The group has got so far: take over what the answer says."""
        answer = self.answer
        if int(answer.error_code) == 0:
            self.member_id, self.generation = str(answer.member_id), int(answer.generation_id)
        return answer

    def sync(self, version: int = 5, **assignments: bytes) -> Any:
        """assignments: by member id"""
        return self.ask(
            SYNC_GROUP,
            version,
            **self._me(),
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": one, "assignment": data} for one, data in assignments.items()],
        )

    def heartbeat(self, version: int = 4) -> int:
        return int(self.ask(HEARTBEAT, version, **self._me()).error_code)

    def leave(self, version: int = 5) -> Any:
        member = {"member_id": self.member_id, "group_instance_id": self.instance}
        if version < 3:
            return self.ask(LEAVE_GROUP, version, group_id=self.group, member_id=self.member_id)
        return self.ask(LEAVE_GROUP, version, group_id=self.group, members=[member])

    def commit(self, offset: int, version: int = 9, partition: int = 0, metadata: str = "", **values: Any) -> Any:
        """The error, or None while it waits."""
        one = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
        me = self._me()
        me["generation_id_or_member_epoch"] = me.pop("generation_id")
        topics = [{"name": "t", "topic_id": self._topic_id, "partitions": [one]}]
        answer = self.ask(OFFSET_COMMIT, version, **{**me, **values}, topics=topics)
        return None if answer is None else self.commit_error()

    def commit_error(self) -> int:
        return int(self.answer.topics[0].partitions[0].error_code)

    def committed(self, version: int = 9, partition: int = 0, *, stable: bool = False) -> tuple[int, int]:
        """(offset, error) of what the group has committed for the partition."""
        topics: list[dict[str, Any]] = [{"name": "t", "partition_indexes": [partition]}]
        if version < 8:
            answer = self.ask(OFFSET_FETCH, version, group_id=self.group, topics=topics, require_stable=stable)
            topic, error = answer.topics, getattr(answer, "error_code", 0)
        else:
            groups = [{"group_id": self.group, "topics": [{**topics[0], "topic_id": self._topic_id}]}]
            (group,) = self.ask(OFFSET_FETCH, version, groups=groups, require_stable=stable).groups
            topic, error = group.topics, group.error_code
        if int(error):
            return -1, int(error)
        found = topic[0].partitions[0]
        return int(found.committed_offset), int(found.error_code)

    @property
    def _topic_id(self) -> UUID:
        """Later versions of requests name topics by it."""
        return self.world.topic_id("t")

    def _me(self) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }
