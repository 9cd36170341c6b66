"""The paths of Kafka's znodes in the registry (the simulated ZooKeeper), and the formats of their data.

Source: ZkData.scala
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from controller.image import PartitionRegistration
from replica.ids import NO_BROKER, BrokerEpoch, BrokerId, TopicPartition

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONFIGS = "/config/topics"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE = f"{ISR_CHANGES}/isr_change_"


def broker_path(broker_id: BrokerId) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def config_path(topic: str) -> str:
    return f"{CONFIGS}/{topic}"


def state_path(name: TopicPartition) -> str:
    return f"{TOPICS}/{name.topic}/partitions/{name.partition}/state"


def partition_of(path: str) -> TopicPartition | None:
    """Return the partition whose state is stored at `path`, or None."""
    parts = path.split("/")
    if len(parts) == 7 and path.startswith(f"{TOPICS}/") and parts[6] == "state":
        return TopicPartition(parts[3], int(parts[5]))
    return None


def _text(fields: dict[str, object]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


# ------------------------------------------------------------------------------------------------------- controller


def controller_data(broker_id: BrokerId) -> str:
    return _text({"version": 1, "brokerid": broker_id})


def controller_id(data: str) -> BrokerId:
    return int(json.loads(data)["brokerid"])


# ----------------------------------------------------------------------------------------------------------- brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBroker:
    """A broker in the registry. `broker_epoch` is the czxid of the broker's znode (KIP-380)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    host: str
    port: int
    rack: str | None


def broker_data(host: str, port: int, rack: str | None) -> str:
    return _text({"version": 4, "host": host, "port": port, "rack": rack})


def live_broker(broker_id: BrokerId, data: str, czxid: int) -> LiveBroker:
    fields = json.loads(data)
    return LiveBroker(
        broker_id=broker_id, broker_epoch=czxid, host=fields["host"], port=fields["port"], rack=fields["rack"]
    )


# ------------------------------------------------------------------------------------------------------------ topics


def topic_data(topic_id: UUID, assignment: tuple[tuple[BrokerId, ...], ...]) -> str:
    partitions = {str(number): list(replicas) for number, replicas in enumerate(assignment)}
    return _text({"version": 3, "topic_id": str(topic_id), "partitions": partitions})


def topic_of(data: str) -> tuple[UUID, dict[int, tuple[BrokerId, ...]]]:
    """Return the topic's id, and its replicas by partition, from the data of its znode."""
    fields = json.loads(data)
    replicas = {int(number): tuple(members) for number, members in fields["partitions"].items()}
    return UUID(fields["topic_id"]), dict(sorted(replicas.items()))


def with_replicas(data: str, partition: int, replicas: tuple[BrokerId, ...]) -> str:
    """Return the data of a topic's znode with new replicas of one partition."""
    fields = json.loads(data)
    fields["partitions"][str(partition)] = list(replicas)
    return _text(fields)


def config_data(config: dict[str, str]) -> str:
    return _text({"version": 1, "config": config})


def config_of(data: str) -> dict[str, str]:
    config: dict[str, str] = json.loads(data)["config"]
    return config


# --------------------------------------------------------------------------------------------------- partition state


def state_data(registration: PartitionRegistration, controller_epoch: int) -> str:
    """Return the data of a partition's znode, whose version is the partition epoch. Source: ZkData.encode"""
    return _text(
        {
            "version": 1,
            "leader": registration.leader,
            "leader_epoch": registration.leader_epoch,
            "controller_epoch": controller_epoch,
            "isr": list(registration.in_sync_replicas),
        }
    )


def unborn(replicas: tuple[BrokerId, ...]) -> PartitionRegistration:
    """Return the registration of a partition for which the controller has not written a state yet."""
    return PartitionRegistration(
        replicas=replicas, in_sync_replicas=(), leader=NO_BROKER, leader_epoch=-1, partition_epoch=-1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The state of one partition, as in its znode. The replicas are in the topic's znode."""

    leader: BrokerId
    leader_epoch: int
    controller_epoch: int
    in_sync_replicas: tuple[BrokerId, ...]

    def registration(self, replicas: tuple[BrokerId, ...], version: int) -> PartitionRegistration:
        return PartitionRegistration(
            replicas=replicas,
            in_sync_replicas=self.in_sync_replicas,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=version,
        )


def state_of(data: str) -> PartitionState:
    fields = json.loads(data)
    return PartitionState(
        leader=fields["leader"],
        leader_epoch=fields["leader_epoch"],
        controller_epoch=fields["controller_epoch"],
        in_sync_replicas=tuple(fields["isr"]),
    )


def isr_change_data(partitions: list[TopicPartition]) -> str:
    return _text({"version": 1, "partitions": [[name.topic, name.partition] for name in partitions]})


def changed_partitions(data: str) -> list[TopicPartition]:
    return [TopicPartition(str(topic), int(number)) for topic, number in json.loads(data)["partitions"]]
