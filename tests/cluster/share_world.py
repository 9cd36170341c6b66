"""A broker with a share group's partition, group coordinator and share coordinator, and the clients of the group."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from broker_world import B1, BrokerWorld, Caller, batch
from group_world import coordinating

from cluster.protocol import cold
from cluster.protocol.versions import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    VERSIONS,
    read_request_header,
)
from replica.errors import ErrorCode
from replica.ids import SHARE_STATE_TOPIC

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
RECORDS = 10
LIMITS = {"max_bytes": 1 << 20, "max_records": 100, "batch_size": 100}


class Shares:
    """b1, leader of t-0 with ten records, which coordinates groups and share states, and asks itself for the latter.

    Attributes:
        held: APIs whose requests to the share coordinator stay on their way.
        relayed: APIs of the requests that it got.
    """

    def __init__(self, root: Path, **config: str) -> None:
        self.world: BrokerWorld = coordinating(root, "kafka-4.4", **config)
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
        assert partition.error_code is ErrorCode.NONE
        return [(one.first_offset, one.last_offset, one.delivery_count) for one in partition.acquired_records]

    def close(self, consumer: Caller, **acknowledged: Any) -> None:
        self.ask(SHARE_ACKNOWLEDGE, consumer, **self._of_session(-1, **acknowledged))

    def _of_session(self, epoch: int, **more: Any) -> dict[str, Any]:
        partitions = [{"partition_index": 0, **more}]
        topic_id: UUID = self.world.topic_id("t")
        topics = [{"topic_id": topic_id, "partitions": partitions}]
        return {"group_id": "g", "member_id": MEMBER, "share_session_epoch": epoch, "topics": topics}
