"""Valid content of CreateTopics and IncrementalAlterConfigs requests: names, settings, assignments.

Source: Topic.validate, ReplicationControlManager.createTopic, .validateManualPartitionAssignment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from controller.image import MetadataImage, metric_name
from controller.placement import UsableBroker
from replica.config import ConfigError, TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.ids import INTERNAL_TOPICS, BrokerId, Names

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
Assignment = tuple[tuple[BrokerId, ...], ...]


def check_name(image: MetadataImage, name: str) -> None:
    """raises: KafkaError INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS"""
    check_legal(name)
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} already exists")
    other = image.metric_names.get(metric_name(name))
    if other is not None:
        # Metric names turn dots into underscores, so these two would share theirs.
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name} collides with {other}")


def check_legal(name: str) -> None:
    """raises: KafkaError INVALID_TOPIC_EXCEPTION     source: Topic.validate"""
    if not _LEGAL_NAME.fullmatch(name) or name in (".", ".."):
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"`{name[:60]}` is not a topic name: at most 249 letters, digits, dots, underscores and dashes",
        )


def check_room(image: MetadataImage, more: int, max_partitions: int) -> None:
    """raises: KafkaError POLICY_VIOLATION if the cluster would have too many, as a CreateTopicPolicy of Kafka's may"""
    if image.partition_count + more > max_partitions:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{more} more than the {image.partition_count} partitions there are would exceed max.partitions="
            f"{max_partitions}",
        )


def is_internal(name: str) -> bool:
    """Topics that brokers keep for themselves. source: Topic.isInternal"""
    return name in INTERNAL_TOPICS


def own_config(values: Mapping[str, object]) -> dict[str, str]:
    """A topic's own settings as the metadata log keeps them; a None is no setting.     raises: KafkaError
    INVALID_CONFIG"""
    stored = checked_config(values)
    return {name: text for name, text in stored.items() if text is not None}


def checked_config(values: Mapping[str, object]) -> dict[str, str | None]:
    """Settings as the metadata log keeps them; None takes one back.     raises: KafkaError INVALID_CONFIG"""
    stored: dict[str, str | None] = {}
    try:
        for name, value in values.items():
            TopicConfig.require(name)
            stored[name] = None if value is None else as_text(TopicConfig.check(name, value))
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return stored


def as_text(value: object) -> str:
    """As Kafka spells a typed value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_assignment(
    image: MetadataImage, assignment: Assignment, names: Names, first: int = 0, replication_factor: int | None = None
) -> None:
    """first: number of the first partition     replication_factor: None takes that of the first
    raises: KafkaError INVALID_REPLICA_ASSIGNMENT
    """
    wanted = len(assignment[0]) if replication_factor is None else replication_factor
    for number, replicas in enumerate(assignment, start=first):
        problem = assignment_problem(image, replicas, names) or _creation_problem(image, replicas, wanted, names)
        if problem:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {number}: {problem}")


def assignment_problem(image: MetadataImage, replicas: tuple[BrokerId, ...], names: Names) -> str | None:
    """Errors in the replicas of one partition that is created or reassigned."""
    if not replicas:
        return "the assignment has no replica"
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            return f"{names(broker_id)} is not registered"
        if replicas.count(broker_id) > 1:
            return f"{names(broker_id)} is named more than once"
    return None


def _creation_problem(
    image: MetadataImage, replicas: tuple[BrokerId, ...], replication_factor: int, names: Names
) -> str | None:
    if len(replicas) != replication_factor:
        return f"{len(replicas)} replicas, but partition 0 has {replication_factor}"
    if not any(image.is_active(broker_id) for broker_id in replicas):
        return f"all of {names.set_of(replicas)} are fenced or in controlled shutdown"
    return None


def usable_brokers(image: MetadataImage) -> list[UsableBroker]:
    """Registered brokers that are not shutting down, by id."""
    return [
        UsableBroker(broker_id, broker.rack, broker.fenced)
        for broker_id, broker in sorted(image.brokers.items())
        if not broker.in_controlled_shutdown
    ]
