"""Authorizes the requests of admin clients. Source: ControllerApis.scala, KafkaApis.scala, ConfigHelper.scala"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from cluster.authorization.guard import (
    DENIED,
    NO_TOPIC,
    Guard,
    Inquiry,
    Passed,
    Values,
    Verdict,
    entries,
    listed,
)
from cluster.protocol.entities import Entity
from controller.access import CLUSTER_NAME, Operation, ResourceType

NO_ROOM: Final = {"num_partitions": -1, "replication_factor": -1, "configs": ()}
_TOPIC, _GROUP = 2, 32
"""Values of ConfigResource.Type; all other settings belong to the cluster."""
_FIELDS_OF_SETTINGS: Final = ("num_partitions", "replication_factor", "configs")


def create_topics(asked: Inquiry) -> Verdict:
    """Authorize CreateTopics. If the client may not see a topic's settings, the response omits them."""
    makes_all = asked.on_cluster(Operation.CREATE)

    def denied(topic: Entity) -> Values | None:
        name = str(topic.name)
        if makes_all or asked.on_topic(Operation.CREATE, name):
            return None
        return {**NO_ROOM, "name": name, "error_code": NO_TOPIC, "error_message": "Authorization failed."}

    def shown(topic: Values) -> Values:
        if asked.on_topic(Operation.DESCRIBE_CONFIGS, str(topic["name"])):
            return topic
        rest = {key: value for key, value in topic.items() if key not in _FIELDS_OF_SETTINGS}
        return {**rest, **NO_ROOM, "topic_config_error_code": NO_TOPIC}

    verdict = entries(asked, "topics", "topics", denied)
    if not isinstance(verdict, Passed):
        return verdict
    return verdict.amended(lambda values: {**values, "topics": [shown(topic) for topic in listed(values, "topics")]})


def delete_topics(asked: Inquiry) -> Verdict:
    """Authorize DeleteTopics, by name or id.

    If the client may not describe a topic, the response does not reveal its name.
    """
    deletes_all = asked.on_cluster(Operation.DELETE)
    by_name = hasattr(asked.request, "topic_names")

    def denied(topic: object) -> Values | None:
        name, topic_id = (str(topic), None) if by_name else _named(asked, topic)
        if deletes_all or name is None:
            return None
        may_see = asked.on_topic(Operation.DESCRIBE, name)
        if may_see and (asked.on_topic(Operation.DELETE, name) or (topic_id is None and not _is_there(asked, name))):
            return None
        shown_name = name if topic_id is None or may_see else None
        return {"name": shown_name, "topic_id": topic_id, "error_code": NO_TOPIC}

    return entries(asked, "topic_names" if by_name else "topics", "responses", denied)


def _named(asked: Inquiry, topic: Entity) -> tuple[str | None, UUID | None]:
    """Return a topic's name and id. The name is None if it is unknown or ambiguous, which the handler reports."""
    if topic.topic_id is None:
        return None if topic.name is None else str(topic.name), None
    return (None if topic.name is not None else asked.image.topic_names.get(topic.topic_id)), topic.topic_id


def _is_there(asked: Inquiry, name: str) -> bool:
    return name in asked.image.topics


def create_partitions(asked: Inquiry) -> Verdict:
    def denied(topic: Entity) -> Values | None:
        if asked.on_topic(Operation.ALTER, str(topic.name)):
            return None
        return {"name": str(topic.name), "error_code": NO_TOPIC}

    return entries(asked, "topics", "results", denied)


def configs(operation: Operation, answers: str) -> Guard:
    """Return the guard for DescribeConfigs, AlterConfigs or IncrementalAlterConfigs.

    Args:
        operation: operation that the client needs on each resource.
        answers: name of the list in the response.
    """

    def guard(asked: Inquiry) -> Verdict:
        def denied(resource: Entity) -> Values | None:
            kind, name = int(resource.resource_type), str(resource.resource_name)
            of = {_TOPIC: ResourceType.TOPIC, _GROUP: ResourceType.GROUP}.get(kind, ResourceType.CLUSTER)
            if asked.may(operation, of, CLUSTER_NAME if of is ResourceType.CLUSTER else name):
                return None
            refusal: Values = {"error_code": DENIED[of], "resource_type": kind, "resource_name": name}
            return {**refusal, "configs": ()} if operation is Operation.DESCRIBE_CONFIGS else refusal

        return entries(asked, "resources", answers, denied)

    return guard
