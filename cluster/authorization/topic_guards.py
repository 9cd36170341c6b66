"""Authorizes Metadata and DescribeTopicPartitions: which topics a client may see.

Source: KafkaApis.handleTopicMetadataRequest, DescribeTopicPartitionsRequestHandler
"""

from __future__ import annotations

from dataclasses import replace

from cluster.authorization.guard import NO_TOPIC, Inquiry, Passed, Values, Verdict, listed
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.slices import paced
from controller.access import Operation, ResourceType

NOT_ASKED = -(2**31)


def metadata(asked: Inquiry) -> Verdict:
    """Authorize Metadata.

    Topics that the client may not describe are refused if the request names them, and omitted if it is for all topics.
    """
    request = asked.request
    wants_all = request.topics is None or (asked.header.api_version == 0 and not request.topics)
    allowed: list[Entity] = []
    denied: list[Values] = []
    for item in paced(dict.fromkeys(request.topics or ())):
        refusal = _denied(asked, item)
        if refusal is None:
            allowed.append(item)
        else:
            denied.append(refusal)

    def amend(values: Values) -> Values:
        topics = listed(values, "topics")
        if wants_all:
            topics = [topic for topic in paced(topics) if asked.on_topic(Operation.DESCRIBE, str(topic["name"]))]
        elif not allowed:
            topics = []  # In version 0 an empty list means all topics.
        if getattr(request, "include_topic_authorized_operations", False):
            for topic in paced(topics):
                operations = asked.operations(ResourceType.TOPIC, str(topic["name"]))
                topic["topic_authorized_operations"] = operations
        of_cluster = getattr(request, "include_cluster_authorized_operations", False)
        described = of_cluster_for(asked) if of_cluster else NOT_ASKED
        return {**values, "topics": [*topics, *denied], "cluster_authorized_operations": described}

    if denied:
        request = replace(request, topics=tuple(allowed))
    return Passed(request, amend)


def of_cluster_for(asked: Inquiry) -> int:
    return asked.operations(ResourceType.CLUSTER) if asked.on_cluster(Operation.DESCRIBE) else 0


def describe_cluster(asked: Inquiry) -> Verdict:
    def amend(values: Values) -> Values:
        return {**values, "cluster_authorized_operations": of_cluster_for(asked)}

    return Passed(asked.request, amend if asked.request.include_cluster_authorized_operations else None)


def _denied(asked: Inquiry, topic: Entity) -> Values | None:
    """Return the refusal of a topic; None if the client may describe it and, if it does not exist, create it."""
    topic_id = getattr(topic, "topic_id", None)
    if topic_id is not None:
        known = asked.image.topic_names.get(topic_id)
        if known is None or asked.on_topic(Operation.DESCRIBE, known):
            return None
        return {"error_code": NO_TOPIC, "name": None, "topic_id": topic_id, "partitions": []}
    name = str(topic.name or "")
    if asked.on_topic(Operation.DESCRIBE, name) and _may_be_made(asked, name):
        return None
    return {"error_code": NO_TOPIC, "name": name, "partitions": []}


def _may_be_made(asked: Inquiry, name: str) -> bool:
    creates = asked.config.auto_create_topics_enable and getattr(asked.request, "allow_auto_topic_creation", True)
    if not creates or name in asked.image.topics:
        return True
    return asked.on_cluster(Operation.CREATE) or asked.on_topic(Operation.CREATE, name)


def describe_topic_partitions(asked: Inquiry) -> Verdict:
    """Authorize DescribeTopicPartitions. The handler sees only topics that the client may describe."""
    request = asked.request
    named = dict.fromkeys(str(topic.name) for topic in request.topics)
    wanted = paced(named or list(asked.image.topics))
    names = {name: None for name in wanted if asked.on_topic(Operation.DESCRIBE, name)}
    refused = [name for name in named if name not in names]
    denied: list[Values] = [{"error_code": NO_TOPIC, "name": name, "partitions": []} for name in paced(refused)]
    cursor = request.cursor
    if cursor is not None and cursor.topic_name not in names and not named:
        names = {name: None for name in names if name > cursor.topic_name}
        cursor = None
    if not names:
        return {"topics": denied, "next_cursor": None}

    def amend(values: Values) -> Values:
        topics = listed(values, "topics")
        for topic in paced(topics):
            topic["topic_authorized_operations"] = asked.operations(ResourceType.TOPIC, str(topic["name"]))
        return {**values, "topics": [*topics, *denied]}

    shown = cold.request(
        asked.header.api_key,
        asked.header.api_version,
        topics=[{"name": name} for name in names],
        response_partition_limit=request.response_partition_limit,
        cursor=cursor,
    )
    return Passed(shown, amend)
