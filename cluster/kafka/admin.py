"""The requests of an operator's tools, sent to the brokers directly: no fault of the network is between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import trio

from cluster.kafka.addresses import Address
from cluster.operated import BrokerInput
from cluster.protocol import cold
from cluster.protocol.config_resources import BROKER, DELETE, GROUP, SET, TOPIC
from cluster.protocol.entities import Entity
from cluster.protocol.framing import FrameReader
from cluster.protocol.versions import (
    ALTER_CLIENT_QUOTAS,
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
    UPDATE_FEATURES,
)
from controller.features import UPGRADE
from controller.inputs import (
    AlterClientQuota,
    AlterReassignment,
    ChangeBrokerConfig,
    ChangeConfig,
    ChangeFeatureLevels,
    ChangeGroupConfig,
    ControllerInput,
    CreateTopicReply,
    DeleteTopic,
    ElectReply,
    TopicReply,
)
from replica.errors import ErrorCode
from replica.ids import EVERY_BROKER, BrokerId, TopicPartition

NAME = "highwater-operator"
VERSIONS = {
    METADATA: 9,
    CREATE_TOPICS: 5,
    DELETE_TOPICS: 5,
    DESCRIBE_CONFIGS: 2,
    ELECT_LEADERS: 2,
    INCREMENTAL_ALTER_CONFIGS: 1,
    ALTER_PARTITION_REASSIGNMENTS: 0,
    ALTER_CLIENT_QUOTAS: 0,
    UPDATE_FEATURES: 1,
}
"""Spoken by every Kafka from 2.8 to 4.x; UpdateFeatures from 3.3 on."""
ANSWER_S = 30
REQUEST_TIMEOUT_MS = 25_000
ANSWER_BYTES_MAX = 16 << 20
SOURCE_TOPIC = 1
"""DescribeConfigsResponse.ConfigSource"""


class NoAnswer(Exception):
    """No broker has answered."""


class Admin:
    """brokers: where those that run are reached, at the time of asking     place(id): of one of them"""

    def __init__(self, brokers: Callable[[], Sequence[Address]], place: Callable[[BrokerId], Address]) -> None:
        self._brokers = brokers
        self._place = place
        self._electing = trio.Lock()
        """One election after the other: each changes the order of preference for a while, and states it anew after."""

    async def ask(self, api_key: int, *, at: BrokerId | None = None, **fields: object) -> Entity:
        """at: the one broker that will do; None: any. raises: NoAnswer"""
        for address in self._brokers() if at is None else [self._place(at)]:
            try:
                return await ask_at(address, api_key, **fields)
            except NoAnswer:
                continue
        raise NoAnswer("no broker answers")

    async def create_topic(
        self,
        name: str,
        assignment: tuple[tuple[BrokerId, ...], ...] | None,
        partitions: int | None,
        replication_factor: int | None,
        config: Mapping[str, str],
    ) -> CreateTopicReply:
        topic = {
            "name": name,
            "num_partitions": -1 if assignment is not None or partitions is None else partitions,
            "replication_factor": -1 if assignment is not None or replication_factor is None else replication_factor,
            "assignments": [
                {"partition_index": number, "broker_ids": replicas} for number, replicas in enumerate(assignment or ())
            ],
            "configs": [{"name": key, "value": value} for key, value in config.items()],
        }
        while not self._brokers():  # A broker registers before it says that it has started.
            await trio.sleep(0.05)
        answer = await self.ask(CREATE_TOPICS, topics=[topic], timeout=REQUEST_TIMEOUT_MS)
        (created,) = answer.topics
        return CreateTopicReply(error=created.error_code, message=created.error_message or "")

    async def elect_leader(self, partition: TopicPartition, desired: BrokerId | None, unclean: bool) -> ElectReply:
        """desired: a certain replica. ElectLeaders knows the preferred one only, so it is that for so long."""
        async with self._electing:
            replicas = [] if desired is None else await self._replicas(partition)
            if desired not in replicas or desired == replicas[0]:
                return await self._elect_preferred(partition, unclean)
            first = [desired, *(replica for replica in replicas if replica != desired)]
            before = await self._reassign(partition, first)
            if before.error is not ErrorCode.NONE:
                return ElectReply(error=before.error, message=before.message)
            reply = await self._elect_preferred(partition, unclean)
            await self._reassign(partition, replicas)
            return reply

    async def _replicas(self, partition: TopicPartition) -> list[BrokerId]:
        """In the order of preference."""
        answer = await self.ask(METADATA, topics=[{"name": partition.topic}])
        return [
            replica
            for topic in answer.topics
            for found in topic.partitions
            if found.partition_index == partition.partition
            for replica in found.replica_nodes
        ]

    async def _elect_preferred(self, partition: TopicPartition, unclean: bool) -> ElectReply:
        """With `unclean` any live replica, in the order of preference."""
        wanted = [{"topic": partition.topic, "partitions": [partition.partition]}]
        answer = await self.ask(
            ELECT_LEADERS, election_type=int(unclean), topic_partitions=wanted, timeout=REQUEST_TIMEOUT_MS
        )
        for topic in answer.replica_election_results:
            for result in topic.partition_result:
                return ElectReply(error=result.error_code, message=result.error_message or "")
        return ElectReply(error=answer.error_code)

    async def operate(self, wanted: ControllerInput | BrokerInput) -> TopicReply:
        match wanted:
            case AlterReassignment():
                return await self._reassign(TopicPartition(wanted.topic, wanted.partition), wanted.replicas)
            case ChangeConfig():
                return await self._configure(TOPIC, wanted.topic, wanted.config)
            case ChangeBrokerConfig():
                return await self._configure_broker(wanted.broker_id, wanted.config)
            case ChangeGroupConfig():
                return await self._configure(GROUP, wanted.group, wanted.config)
            case AlterClientQuota():
                return await self._set_quota(wanted)
            case ChangeFeatureLevels():
                return await self._update_features(wanted)
            case DeleteTopic():
                return await self._delete_topic(wanted.name)
            case _:
                raise AssertionError(f"no step of a timeline asks for {type(wanted).__name__}")

    async def _delete_topic(self, name: str) -> TopicReply:
        answer = await self.ask(DELETE_TOPICS, topic_names=[name], timeout=REQUEST_TIMEOUT_MS)
        (result,) = answer.responses
        return TopicReply(error=result.error_code, message=result.error_message or "")

    async def _reassign(self, partition: TopicPartition, replicas: Sequence[BrokerId] | None) -> TopicReply:
        """replicas: in the order of preference; None cancels"""
        wanted = {"partition_index": partition.partition, "replicas": replicas}
        topics = [{"name": partition.topic, "partitions": [wanted]}]
        answer = await self.ask(ALTER_PARTITION_REASSIGNMENTS, topics=topics, timeout=REQUEST_TIMEOUT_MS)
        for topic in answer.responses:
            for result in topic.partitions:
                return TopicReply(error=result.error_code, message=result.error_message or "")
        return TopicReply(error=answer.error_code, message=answer.error_message or "")

    async def _set_quota(self, wanted: AlterClientQuota) -> TopicReply:
        entry = {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in wanted.entity],
            "ops": [
                {"key": key, "value": 0.0 if value is None else value, "remove": value is None}
                for key, value in wanted.quotas.items()
            ],
        }
        answer = await self.ask(ALTER_CLIENT_QUOTAS, entries=[entry], validate_only=False)
        (result,) = answer.entries
        return TopicReply(error=result.error_code, message=result.error_message or "")

    async def _update_features(self, wanted: ChangeFeatureLevels) -> TopicReply:
        """The first refusal, if there is one."""
        updates = [
            {"feature": name, "max_version_level": level, "upgrade_type": wanted.upgrade_types.get(name, UPGRADE)}
            for name, level in wanted.levels.items()
        ]
        answer = await self.ask(UPDATE_FEATURES, feature_updates=updates, timeout=REQUEST_TIMEOUT_MS)
        refused = [result for result in (answer, *answer.results) if result.error_code is not ErrorCode.NONE]
        if refused:
            return TopicReply(error=refused[0].error_code, message=refused[0].error_message or "")
        return TopicReply(error=ErrorCode.NONE)

    async def _configure_broker(self, broker_id: BrokerId, config: Mapping[str, object]) -> TopicReply:
        """A broker's own settings are for that broker to take; another one refuses them ("Unexpected broker id").

        source: ConfigAdminManager.preprocess
        """
        at = None if broker_id == EVERY_BROKER else broker_id
        return await self._configure(BROKER, "" if at is None else str(at), config, at=at)

    async def _configure(
        self, kind: int, name: str, config: Mapping[str, object], *, at: BrokerId | None = None
    ) -> TopicReply:
        changes = [
            {
                "name": key,
                "config_operation": DELETE if value is None else SET,
                "value": None if value is None else str(value),
            }
            for key, value in config.items()
        ]
        resource = {"resource_type": kind, "resource_name": name, "configs": changes}
        answer = await self.ask(INCREMENTAL_ALTER_CONFIGS, at=at, resources=[resource], validate_only=False)
        (result,) = answer.responses
        return TopicReply(error=result.error_code, message=result.error_message or "")

    async def topic_config(self, topic: str) -> Mapping[str, str]:
        """Its own settings."""
        resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}
        answer = await self.ask(DESCRIBE_CONFIGS, resources=[resource], include_synonyms=False)
        (result,) = answer.results
        return {
            entry.name: entry.value
            for entry in result.configs
            if entry.config_source == SOURCE_TOPIC and entry.value is not None
        }


async def ask_at(address: Address, api_key: int, **fields: object) -> Entity:
    """One request on a connection of its own. raises: NoAnswer"""
    version = VERSIONS[api_key]
    frame = cold.encode_request(api_key, version, 1, NAME, cold.request(api_key, version, **fields))
    reader = FrameReader(ANSWER_BYTES_MAX)
    try:
        with trio.fail_after(ANSWER_S):
            stream = await trio.open_tcp_stream(*address)
            async with stream:
                await stream.send_all(frame)
                while chunk := await stream.receive_some():
                    for answer in reader.feed(chunk):
                        return cold.decode_response(api_key, version, answer)
    except (OSError, trio.TooSlowError, trio.BrokenResourceError) as error:
        raise NoAnswer(str(error)) from error
    raise NoAnswer(f"{address[0]}:{address[1]} has closed the connection")


async def knows_leaders(address: Address, topics: Mapping[str, int]) -> bool:
    """Whether a broker names a leader for every partition of these topics (name -> partitions)."""
    try:
        answer = await ask_at(address, METADATA, topics=[{"name": name} for name in topics])
    except NoAnswer:
        return False
    found = {topic.name: topic for topic in answer.topics}
    return all(
        name in found
        and len(found[name].partitions) == count
        and all(partition.error_code is ErrorCode.NONE for partition in found[name].partitions)
        for name, count in topics.items()
    )
