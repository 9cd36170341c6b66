"""The start offsets of share groups (KIP-932), which operators alter and delete, and members that read from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from broker_world import B1, BrokerWorld, Caller, batch
from group_world import coordinating

from cluster.protocol import cold
from cluster.protocol.versions import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_GROUPS,
    DELETE_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_STATE,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    VERSIONS,
    read_request_header,
)
from replica.errors import ErrorCode
from replica.ids import SHARE_STATE_TOPIC
from replica.trace.events import ShareStateReset

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
NO_OFFSETS = "There is no offset information to delete."
RECORDS = 10


class Shares:
    """b1, leader of t-0 with ten records, which coordinates groups and share states, and asks itself for the latter.

    Attributes:
        held: APIs whose requests to the share coordinator stay on their way.
        relayed: APIs of the requests that it got.
    """

    def __init__(self, root: Path) -> None:
        self.world: BrokerWorld = coordinating(root, "kafka-4.4")
        self.world.create(B1, topic=SHARE_STATE_TOPIC)
        self.world.run(10)
        producer = self.world.call("producer")
        for number in range(RECORDS):
            producer.produce(batch(f"r{number}"))
        self._own = self.world.call("b1")
        self._tool = self.world.call("tool")
        self.held: list[int] = []
        self.relayed: list[int] = []

    def relay(self) -> None:
        """Carry what b1 asks its own share coordinator."""
        while asked := [one for one in self.world.asked.get("b1", ()) if self._api(one) not in self.held]:
            connection, frame = asked[0]
            self.world.asked["b1"].remove(asked[0])
            self.relayed.append(self._api(asked[0]))
            self.world.to_broker("received", self._own._connection, bytearray(frame))
            self.world.to_broker("received", connection, bytearray(self._own.answers[-1]))

    @staticmethod
    def _api(asked: tuple[int, bytearray]) -> int:
        return read_request_header(asked[1]).api_key

    def ask(self, api: int, caller: Caller | None = None, **values: Any) -> Any:
        caller = self._tool if caller is None else caller
        before = len(caller.answers)
        caller.send_only(api, VERSIONS[api][1], **values)
        self.relay()
        assert len(caller.answers) == before + 1
        return self.answer(api, caller)

    def answer(self, api: int, caller: Caller | None = None) -> Any:
        caller = self._tool if caller is None else caller
        return cold.decode_response(api, VERSIONS[api][1], caller.answers[-1])

    def alter(self, offset: int, *numbers: int, topic: str = "t") -> Any:
        partitions = [{"partition_index": number, "start_offset": offset} for number in numbers or (0,)]
        topics = [{"topic_name": topic, "partitions": partitions}]
        return self.ask(ALTER_SHARE_GROUP_OFFSETS, group_id="g", topics=topics)

    def delete(self, *topics: str) -> Any:
        named = [{"topic_name": topic} for topic in topics]
        return self.ask(DELETE_SHARE_GROUP_OFFSETS, group_id="g", topics=named)

    def start_offsets(self) -> dict[str, int]:
        (group,) = self.ask(DESCRIBE_SHARE_GROUP_OFFSETS, groups=[{"group_id": "g", "topics": None}]).groups
        return {
            f"{topic.topic_name}-{one.partition_index}": one.start_offset
            for topic in group.topics
            for one in topic.partitions
        }

    def beat(self, epoch: int, member_id: str = MEMBER) -> Any:
        topics = ["t"] if epoch == 0 else None
        return self.ask(
            SHARE_GROUP_HEARTBEAT, group_id="g", member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics
        )

    def read(self, consumer: Caller) -> list[tuple[int, int, int]]:
        """Begin a session once the leader has loaded the share partition.

        Returns:
            (first offset, last offset, delivery count) of the records acquired in it
        """
        for _ in range(2):
            self.ask(SHARE_FETCH, consumer, **self._of_session(0), max_wait=0, **LIMITS)
        (topic,) = self.answer(SHARE_FETCH, consumer).responses
        (partition,) = topic.partitions
        assert partition.error_code is NONE
        return [(one.first_offset, one.last_offset, one.delivery_count) for one in partition.acquired_records]

    def close(self, consumer: Caller, **acknowledged: Any) -> None:
        self.ask(SHARE_ACKNOWLEDGE, consumer, **self._of_session(-1, **acknowledged))

    def _of_session(self, epoch: int, **more: Any) -> dict[str, Any]:
        partitions = [{"partition_index": 0, **more}]
        topic_id: UUID = self.world.topic_id("t")
        topics = [{"topic_id": topic_id, "partitions": partitions}]
        return {"group_id": "g", "member_id": MEMBER, "share_session_epoch": epoch, "topics": topics}


LIMITS = {"max_bytes": 1 << 20, "max_records": 100, "batch_size": 100}


@pytest.fixture
def shares(tmp_path: Path) -> Shares:
    return Shares(tmp_path)


def test_an_altered_group_begins_with_its_start_offsets(shares: Shares) -> None:
    answer = shares.alter(8)
    assert answer.error_code is NONE
    (topic,) = answer.responses
    assert (topic.topic_name, topic.topic_id) == ("t", shares.world.topic_id("t"))
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(0, NONE)]
    assert shares.start_offsets() == {"t-0": 8}
    shares.beat(0)
    consumer = shares.world.call("consumer")
    assert shares.read(consumer) == [(8, 9, 1)]


def test_unknown_partitions_are_refused_one_by_one(shares: Shares) -> None:
    (topic,) = shares.alter(3, 0, 7).responses
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(0, NONE), (7, UNKNOWN)]
    (topic,) = shares.alter(3, topic="none").responses
    assert (topic.topic_id, topic.partitions[0].error_code) == (None, UNKNOWN)
    assert shares.start_offsets() == {"t-0": 3}


def test_what_a_share_coordinator_refuses_stays_begun(shares: Shares) -> None:
    (topic,) = shares.alter(3, 0, -1).responses
    first, second = topic.partitions
    assert (first.partition_index, first.error_code) == (0, NONE)
    assert (second.partition_index, second.error_code) == (-1, ErrorCode.INVALID_REQUEST)
    assert second.error_message == "The partition id cannot be a negative number."
    assert shares.start_offsets() == {}, "the group's record does not say that it is done"
    assert shares.delete("t").responses[0].error_message == NO_OFFSETS


def test_only_an_empty_share_group_is_altered(shares: Shares) -> None:
    assert shares.ask(ALTER_SHARE_GROUP_OFFSETS, group_id="", topics=[]).error_code is ErrorCode.INVALID_GROUP_ID
    assert shares.delete("t").error_code is ErrorCode.GROUP_ID_NOT_FOUND
    epoch = shares.beat(0).member_epoch
    for answer in (shares.alter(3), shares.delete("t")):
        assert (answer.error_code, answer.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        assert answer.responses == ()
    assert epoch > 0 and shares.beat(-1).error_code is NONE
    assert shares.alter(3).error_code is NONE


def test_a_leader_forgets_what_a_closed_session_had_of_a_group_that_is_altered(shares: Shares) -> None:
    """The group is empty once the connection is gone, though its session had ended before."""
    shares.alter(2)
    shares.beat(0)
    consumer = shares.world.call("consumer")
    assert shares.read(consumer) == [(2, 9, 1)]
    shares.close(consumer)
    consumer.hang_up()
    shares.relay()
    shares.beat(-1)
    shares.alter(5)
    shares.beat(0)
    again = shares.world.call("consumer")
    assert shares.read(again) == [(5, 9, 1)]


def test_deleted_offsets_are_gone_and_known_to_be(shares: Shares) -> None:
    shares.alter(8)
    answer = shares.delete("t", "none")
    assert answer.error_code is NONE
    assert [(one.topic_name, one.topic_id, one.error_code) for one in answer.responses] == [
        ("t", shares.world.topic_id("t"), NONE),
        ("none", None, UNKNOWN),
    ]
    assert shares.start_offsets() == {}
    told = [(one.name, one.group, one.start_offset) for one in shares.world.events(ShareStateReset)]
    assert told == [("t-0", "g", 8), ("t-0", "g", None)]
    (topic,) = shares.delete("t").responses
    assert (topic.error_code, topic.error_message) == (UNKNOWN, NO_OFFSETS)


def test_a_deletion_that_does_not_end_is_taken_up_by_the_next_one(shares: Shares) -> None:
    shares.alter(8)
    shares.held.append(DELETE_SHARE_GROUP_STATE)
    first = shares.world.call("first")
    first.send_only(DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[{"topic_name": "t"}])
    shares.relay()
    assert first.answers == [], "the share coordinator has not answered"
    assert shares.start_offsets() == {}
    shares.held.clear()
    (topic,) = shares.delete("t").responses
    assert topic.error_code is NONE
    assert len(first.answers) == 1
    assert shares.alter(4).error_code is NONE
    assert shares.start_offsets() == {"t-0": 4}


def test_a_group_takes_the_states_of_unfinished_deletions_along(shares: Shares) -> None:
    shares.alter(8)
    shares.held.append(DELETE_SHARE_GROUP_STATE)
    first = shares.world.call("first")
    first.send_only(DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[{"topic_name": "t"}])
    tool = shares.world.call("second")
    tool.send_only(DELETE_GROUPS, VERSIONS[DELETE_GROUPS][1], groups_names=["g"])
    shares.held.clear()
    before = len(shares.relayed)
    shares.relay()
    assert shares.relayed[before:] == [DELETE_SHARE_GROUP_STATE] * 2
    assert [one.error_code for one in shares.answer(DELETE_GROUPS, tool).results] == [NONE]
    assert shares.answer(DELETE_SHARE_GROUP_OFFSETS, first).responses[0].error_code is NONE
