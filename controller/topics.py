"""Checks of names, settings and assignments in CreateTopics and IncrementalAlterConfigs requests.
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
from replica.trace.ranges import counted

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
Assignment = tuple[tuple[BrokerId, ...], ...]


def check_name(image: MetadataImage, name: str) -> None:
    """Check the name of a new topic.

    Raises:
        KafkaError: TOPIC_ALREADY_EXISTS; INVALID_TOPIC_EXCEPTION if the name is illegal or collides in metrics.
    """
    check_legal(name)
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} already exists")
    other = image.metric_names.get(metric_name(name))
    if other is not None:
        # In metric names dots become underscores, so both topics would have the same metric names.
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name} collides with topic {other}: `.` and `_` are the same in metric names",
        )


def check_legal(name: str) -> None:
    """Check that a name is legal for a topic.

    Raises:
        KafkaError: INVALID_TOPIC_EXCEPTION otherwise.

    Source: Topic.validate
    """
    if not _LEGAL_NAME.fullmatch(name) or name in (".", ".."):
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"`{name[:60]}` is not a valid topic name: 1 to 249 letters, digits, `.`, `_` and `-`, but not `.` or `..`",
        )


def check_room(image: MetadataImage, more: int, max_partitions: int) -> None:
    """Check that the cluster may have `more` additional partitions, like a CreateTopicPolicy of Kafka.

    Raises:
        KafkaError: POLICY_VIOLATION otherwise.
    """
    if image.partition_count + more > max_partitions:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"the cluster has {counted(image.partition_count, 'partition')}, and {more} more would exceed "
            f"max.partitions={max_partitions}",
        )


def is_internal(name: str) -> bool:
    """Return True for topics in which brokers store their own data. Source: Topic.isInternal"""
    return name in INTERNAL_TOPICS


def own_config(values: Mapping[str, object]) -> dict[str, str]:
    """Return a topic's own settings as the metadata log stores them, without settings that are None.

    Raises:
        KafkaError: INVALID_CONFIG if a key or value is invalid.
    """
    stored = checked_config(values)
    return {name: text for name, text in stored.items() if text is not None}


def checked_config(values: Mapping[str, object]) -> dict[str, str | None]:
    """Return settings as the metadata log stores them; None removes a setting.

    Raises:
        KafkaError: INVALID_CONFIG if a key or value is invalid.
    """
    stored: dict[str, str | None] = {}
    try:
        for name, value in values.items():
            TopicConfig.require(name)
            stored[name] = None if value is None else as_text(TopicConfig.check(name, value))
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return stored


def as_text(value: object) -> str:
    """Format a value as Kafka does: a bool in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_assignment(
    image: MetadataImage, assignment: Assignment, names: Names, first: int = 0, replication_factor: int | None = None
) -> None:
    """Check the assignment of new partitions.

    Args:
        first: number of the first partition.
        replication_factor: required number of replicas; None for that of the first partition in `assignment`.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT if the assignment is invalid.
    """
    wanted = len(assignment[0]) if replication_factor is None else replication_factor
    for number, replicas in enumerate(assignment, start=first):
        problem = assignment_problem(image, replicas, names) or _creation_problem(image, replicas, wanted, names)
        if problem:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {number}: {problem}")


def assignment_problem(image: MetadataImage, replicas: tuple[BrokerId, ...], names: Names) -> str | None:
    """Return the problem with the replicas of a partition to create or reassign, or None if they are valid."""
    if not replicas:
        return "the partition has no replicas"
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            return f"{names(broker_id)} is not registered"
        if replicas.count(broker_id) > 1:
            return f"{names(broker_id)} is assigned more than once"
    return None


def _creation_problem(
    image: MetadataImage, replicas: tuple[BrokerId, ...], replication_factor: int, names: Names
) -> str | None:
    if len(replicas) != replication_factor:
        return f"the number of replicas is {len(replicas)}, but partition 0 has {replication_factor}"
    if not any(image.is_active(broker_id) for broker_id in replicas):
        return f"all of {names.set_of(replicas)} are fenced or in controlled shutdown"
    return None


def usable_brokers(image: MetadataImage) -> list[UsableBroker]:
    """Return the registered brokers that are not shutting down, sorted by id."""
    return [
        UsableBroker(broker_id, broker.rack, broker.fenced)
        for broker_id, broker in sorted(image.brokers.items())
        if not broker.in_controlled_shutdown
    ]
