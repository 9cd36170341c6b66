"""The znodes that create a topic. An operator's tool writes them, or a broker for its internal topics.

Source: AdminUtils.createTopic (AdminZkClient): the writer assigns the replicas; the controller reacts to the znodes.
"""

from __future__ import annotations

from uuid import UUID

from cluster.config import BrokerConfig, topic_defaults
from controller import topics
from controller.image import MetadataImage
from controller.inputs import CreateTopic
from controller.placement import place
from controller.zookeeper import znodes
from controller.zookeeper.registry import Create, Multi
from replica.config import TopicConfig
from replica.ids import Names


def brokers_settings(broker_config: BrokerConfig) -> dict[str, str]:
    """Return the topic settings whose default in the brokers' configuration differs from Kafka's."""
    # Simplified: they are stored in the topic when it is created; Kafka looks them up at each use.
    defaults = topic_defaults(broker_config)
    values = {name: (getattr(defaults, item.name), item.default) for name, item in TopicConfig.keys().items()}
    return {name: topics.as_text(value) for name, (value, kafkas_own) in values.items() if value != kafkas_own}


def creation(
    image: MetadataImage,
    wanted: CreateTopic,
    *,
    topic_id: UUID,
    broker_config: BrokerConfig,
    names: Names,
    under_way: int = 0,
) -> Multi:
    """Return the ZooKeeper transaction that creates a topic.

    Args:
        image: current brokers and topics.
        wanted: the topic; replicas are assigned if it has no assignment.
        under_way: number of partitions that are written but not in the image yet.

    Raises:
        KafkaError: if the topic cannot be created.
    """
    name, assignment = wanted.name, wanted.assignment
    topics.check_name(image, name)
    complete = {**brokers_settings(broker_config), **topics.own_config(wanted.config)}
    if assignment is None:
        count = broker_config.num_partitions if wanted.partitions is None else wanted.partitions
        factor = wanted.replication_factor
        factor = broker_config.default_replication_factor if factor is None else factor
        assignment = tuple(place(topics.usable_brokers(image), count, factor, start=image.partition_count))
    else:
        topics.check_assignment(image, assignment, names)
    topics.check_room(image, under_way + len(assignment), broker_config.max_partitions)
    return Multi(
        ops=(
            Create(path=znodes.config_path(name), data=znodes.config_data(complete)),
            Create(path=znodes.topic_path(name), data=znodes.topic_data(topic_id, assignment)),
        )
    )
