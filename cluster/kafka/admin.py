"""The requests of an operator's tools. They go directly to the brokers, bypassing all network faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import trio

from cluster.kafka.addresses import Address
from cluster.operated import BrokerInput
from cluster.protocol import cold, versions
from cluster.protocol.config_resources import BROKER, DELETE, GROUP, SET, TOPIC
from cluster.protocol.entities import Entity
from cluster.protocol.framing import FrameReader
from controller.features import UPGRADE
from controller.inputs import (
    AlterClientQuota,
    AlterReassignment,
    ChangeBrokerConfig,
    ChangeConfig,
    ChangeFeatureLevels,
    ChangeGroupConfig,
    ChangeVoters,
    ControllerInput,
    CreateTopic,
    CreateTopicReply,
    DeleteTopic,
    ElectLeader,
    PlainReply,
)
from replica.errors import ErrorCode
from replica.ids import EVERY_BROKER, BrokerId, TopicPartition

NAME = "highwater-operator"
VERSIONS = {
    versions.METADATA: 9,
    versions.CREATE_TOPICS: 5,
    versions.DELETE_TOPICS: 5,
    versions.DESCRIBE_CONFIGS: 2,
    versions.ELECT_LEADERS: 2,
    versions.INCREMENTAL_ALTER_CONFIGS: 1,
    versions.ALTER_PARTITION_REASSIGNMENTS: 0,
    versions.ALTER_CLIENT_QUOTAS: 0,
    versions.UPDATE_FEATURES: 1,
}
"""Request versions that every Kafka from 2.8 to 4.x supports, by API key; UpdateFeatures exists from 3.3 on."""
ANSWER_S = 30
REQUEST_TIMEOUT_MS = 25_000
ANSWER_BYTES_MAX = 16 << 20
SOURCE_TOPIC = 1
"""The ConfigSource of a DescribeConfigs response that means that a setting is set on the topic itself."""


class NoAnswer(Exception):
    """No broker answered the request."""


class Admin:
    """An operator's client.

    Args:
        brokers: returns the addresses of the running brokers.
        address_of: returns the address of a broker.
    """

    def __init__(self, brokers: Callable[[], Sequence[Address]], address_of: Callable[[BrokerId], Address]) -> None:
        self._brokers = brokers
        self._place = address_of
        self._electing = trio.Lock()
        """Allows one election at a time, since each temporarily changes the order of replicas."""

    async def ask(self, api_key: int, *, at: BrokerId | None = None, **fields: object) -> Entity:
        """Send a request to the broker `at`, or to any broker, and return the response.

        Raises:
            NoAnswer: if no broker answers.
        """
        for address in self._brokers() if at is None else [self._place(at)]:
            try:
                return await ask_at(address, api_key, **fields)
            except NoAnswer:
                continue
        raise NoAnswer("no broker answered")

    async def create_topic(self, wanted: CreateTopic, config: Mapping[str, str]) -> CreateTopicReply:
        topic = {
            "name": wanted.name,
            "num_partitions": -1 if wanted.partitions is None else wanted.partitions,
            "replication_factor": -1 if wanted.replication_factor is None else wanted.replication_factor,
            "assignments": [
                {"partition_index": number, "broker_ids": replicas}
                for number, replicas in enumerate(wanted.assignment or ())
            ],
            "configs": [{"name": key, "value": value} for key, value in config.items()],
        }
        while not self._brokers():  # A broker registers before it reports that it has started.
            await trio.sleep(0.05)
        answer = await self.ask(versions.CREATE_TOPICS, topics=[topic], timeout=REQUEST_TIMEOUT_MS)
        (created,) = answer.topics
        return CreateTopicReply(error=created.error_code, message=created.error_message or "")

    async def _elect_leader(self, wanted: ElectLeader) -> PlainReply:
        """Elect a leader. If a replica is desired, make it the preferred replica until the election is over."""
        partition, desired, unclean = (
            TopicPartition(wanted.topic, wanted.partition),
            wanted.desired,
            wanted.kind == "unclean",
        )
        async with self._electing:
            replicas = [] if desired is None else await self._replicas(partition)
            if desired not in replicas or desired == replicas[0]:
                return await self._elect_preferred(partition, unclean)
            first = [desired, *(replica for replica in replicas if replica != desired)]
            before = await self._reassign(partition, first)
            if before.error is not ErrorCode.NONE:
                return before
            reply = await self._elect_preferred(partition, unclean)
            await self._reassign(partition, replicas)
            return reply

    async def _replicas(self, partition: TopicPartition) -> list[BrokerId]:
        answer = await self.ask(versions.METADATA, topics=[{"name": partition.topic}])
        return [
            replica
            for topic in answer.topics
            for found in topic.partitions
            if found.partition_index == partition.partition
            for replica in found.replica_nodes
        ]

    async def _elect_preferred(self, partition: TopicPartition, unclean: bool) -> PlainReply:
        """Elect the preferred leader or, if `unclean`, the first live replica in the order of preference."""
        wanted = [{"topic": partition.topic, "partitions": [partition.partition]}]
        answer = await self.ask(
            versions.ELECT_LEADERS, election_type=int(unclean), topic_partitions=wanted, timeout=REQUEST_TIMEOUT_MS
        )
        for topic in answer.replica_election_results:
            for result in topic.partition_result:
                return PlainReply(error=result.error_code, message=result.error_message or "")
        return PlainReply(error=answer.error_code)

    async def operate(self, wanted: ControllerInput | ChangeVoters | BrokerInput) -> PlainReply:
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
            case ElectLeader():
                return await self._elect_leader(wanted)
            case DeleteTopic():
                return await self._delete_topic(wanted.name)
            case _:
                raise AssertionError(f"{type(wanted).__name__} cannot be sent to a real Kafka")

    async def _delete_topic(self, name: str) -> PlainReply:
        answer = await self.ask(versions.DELETE_TOPICS, topic_names=[name], timeout=REQUEST_TIMEOUT_MS)
        (result,) = answer.responses
        return PlainReply(error=result.error_code, message=result.error_message or "")

    async def _reassign(self, partition: TopicPartition, replicas: Sequence[BrokerId] | None) -> PlainReply:
        """Reassign a partition to replicas in the order of preference; None cancels the reassignment."""
        wanted = {"partition_index": partition.partition, "replicas": replicas}
        topics = [{"name": partition.topic, "partitions": [wanted]}]
        answer = await self.ask(versions.ALTER_PARTITION_REASSIGNMENTS, topics=topics, timeout=REQUEST_TIMEOUT_MS)
        for topic in answer.responses:
            for result in topic.partitions:
                return PlainReply(error=result.error_code, message=result.error_message or "")
        return PlainReply(error=answer.error_code, message=answer.error_message or "")

    async def _set_quota(self, wanted: AlterClientQuota) -> PlainReply:
        entry = {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in wanted.entity],
            "ops": [
                {"key": key, "value": 0.0 if value is None else value, "remove": value is None}
                for key, value in wanted.quotas.items()
            ],
        }
        answer = await self.ask(versions.ALTER_CLIENT_QUOTAS, entries=[entry], validate_only=False)
        (result,) = answer.entries
        return PlainReply(error=result.error_code, message=result.error_message or "")

    async def _update_features(self, wanted: ChangeFeatureLevels) -> PlainReply:
        """Change feature levels, and return the first error, or NONE."""
        updates = [
            {"feature": name, "max_version_level": level, "upgrade_type": wanted.upgrade_types.get(name, UPGRADE)}
            for name, level in wanted.levels.items()
        ]
        answer = await self.ask(versions.UPDATE_FEATURES, feature_updates=updates, timeout=REQUEST_TIMEOUT_MS)
        refused = [result for result in (answer, *answer.results) if result.error_code is not ErrorCode.NONE]
        if refused:
            return PlainReply(error=refused[0].error_code, message=refused[0].error_message or "")
        return PlainReply(error=ErrorCode.NONE)

    async def _configure_broker(self, broker_id: BrokerId, config: Mapping[str, object]) -> PlainReply:
        """Change a broker's settings at that broker, since others refuse them ("Unexpected broker id").

        Source: ConfigAdminManager.preprocess
        """
        at = None if broker_id == EVERY_BROKER else broker_id
        return await self._configure(BROKER, "" if at is None else str(at), config, at=at)

    async def _configure(
        self, kind: int, name: str, config: Mapping[str, object], *, at: BrokerId | None = None
    ) -> PlainReply:
        changes = [
            {
                "name": key,
                "config_operation": DELETE if value is None else SET,
                "value": None if value is None else str(value),
            }
            for key, value in config.items()
        ]
        resource = {"resource_type": kind, "resource_name": name, "configs": changes}
        answer = await self.ask(versions.INCREMENTAL_ALTER_CONFIGS, at=at, resources=[resource], validate_only=False)
        (result,) = answer.responses
        return PlainReply(error=result.error_code, message=result.error_message or "")

    async def topic_config(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings, without any defaults."""
        resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}
        answer = await self.ask(versions.DESCRIBE_CONFIGS, resources=[resource], include_synonyms=False)
        (result,) = answer.results
        return {
            entry.name: entry.value
            for entry in result.configs
            if entry.config_source == SOURCE_TOPIC and entry.value is not None
        }


async def ask_at(address: Address, api_key: int, **fields: object) -> Entity:
    """Send one request on a new connection and return the response.

    Raises:
        NoAnswer: if the broker does not answer.
    """
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
    raise NoAnswer(f"{address[0]}:{address[1]} closed the connection")


async def knows_leaders(address: Address, topics: Mapping[str, int]) -> bool:
    """Ask the broker at this address for metadata. Return True if every partition of these topics has a leader there.

    Args:
        topics: number of partitions of each topic, by name.
    """
    try:
        answer = await ask_at(address, versions.METADATA, topics=[{"name": name} for name in topics])
    except NoAnswer:
        return False
    found = {topic.name: topic for topic in answer.topics}
    return all(
        name in found
        and len(found[name].partitions) == count
        and all(partition.error_code is ErrorCode.NONE for partition in found[name].partitions)
        for name, count in topics.items()
    )
