"""Authorizes the requests of group members and requests about groups. Source: KafkaApis.scala"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from cluster.authorization.guard import (
    DENIED,
    NO_GROUP,
    NO_TOPIC,
    Guard,
    Inquiry,
    Passed,
    Values,
    Verdict,
    by_topic,
    entries,
    listed,
    needs,
)
from cluster.messages.refusals import topic_named
from cluster.protocol.entities import Entity
from cluster.slices import paced
from controller.access import Operation, ResourceType
from replica.errors import ErrorCode

member: Final = needs(Operation.READ, ResourceType.GROUP, "group_id")
offset_commit: Final = needs(Operation.READ, ResourceType.GROUP, "group_id", by_topic(Operation.READ))
offset_delete: Final = needs(Operation.DELETE, ResourceType.GROUP, "group_id", by_topic(Operation.READ))
_KINDS: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
"""Resource types by the key type in a FindCoordinator request."""
_FIRST_OF_MANY: Final = 4
_FIRST_WITH_MANY_GROUPS: Final = 8
_FIRST_WITH_ERROR: Final = 2
_NO_NODE: Final = {"node_id": -1, "host": "", "port": -1}
_NO_ASSIGNMENT: Final[Values] = {"topic_partitions": ()}
"""An empty target assignment. It stands in for that of a share group's member, which ShareGroupDescribe lacks."""


def consumer_group_heartbeat(asked: Inquiry) -> Verdict:
    """Authorize ConsumerGroupHeartbeat and ShareGroupHeartbeat.

    Simplified: a subscription pattern also matches topics that the member may not describe.
    """
    return _heartbeat(asked, map(str, asked.request.subscribed_topic_names or ()))


def streams_group_heartbeat(asked: Inquiry) -> Verdict:
    """Authorize StreamsGroupHeartbeat, which also creates the internal topics in the topology.

    Simplified: no permission is needed to create internal topics.
    """
    topology = asked.request.topology
    parts = topology.subtopologies if topology is not None else ()
    internal = (topic for part in parts for topic in (*part.repartition_source_topics, *part.state_changelog_topics))
    names = {*(str(name) for part in parts for name in part.source_topics), *(str(topic.name) for topic in internal)}
    return _heartbeat(asked, sorted(names))


def _heartbeat(asked: Inquiry, topics: Iterable[str]) -> Verdict:
    if not asked.on_group(Operation.READ, str(asked.request.group_id)):
        return asked.refusal(NO_GROUP)
    if all(asked.on_topic(Operation.DESCRIBE, name) for name in topics):
        return Passed(asked.request)
    return {"error_code": NO_TOPIC}


def find_coordinator(asked: Inquiry) -> Verdict:
    request = asked.request
    kind = _KINDS.get(int(getattr(request, "key_type", 0)))
    if kind is None:
        return asked.passed(asked.on_cluster(Operation.CLUSTER_ACTION), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if asked.header.api_version < _FIRST_OF_MANY:
        if asked.may(Operation.DESCRIBE, kind, str(request.key)):
            return Passed(request)
        return {**asked.refusal(DENIED[kind]), **_NO_NODE}

    def denied(key: object) -> Values | None:
        if asked.may(Operation.DESCRIBE, kind, str(key)):
            return None
        return {"key": str(key), "error_code": DENIED[kind], **_NO_NODE}

    return entries(asked, "coordinator_keys", "coordinators", denied)


def _described(field: str) -> Guard:
    """Return a guard that authorizes each group in `field`, and adds its authorized operations if requested."""

    def guard(asked: Inquiry) -> Verdict:
        verdict = entries(asked, field, "groups", lambda name: _denied_group(asked, Operation.DESCRIBE, str(name)))
        if not isinstance(verdict, Passed) or not getattr(asked.request, "include_authorized_operations", False):
            return verdict

        def amend(values: Values) -> Values:
            groups = listed(values, "groups")
            for group in paced(groups):
                if group["error_code"] is ErrorCode.NONE:
                    operations = asked.operations(ResourceType.GROUP, str(group["group_id"]))
                    group["authorized_operations"] = operations
            return values

        return verdict.amended(amend)

    return guard


describe_groups: Final = _described("groups")
_consumer_groups: Final = _described("group_ids")


def _described_with(topics_of: Callable[[Values], Iterable[str]]) -> Guard:
    """Return a guard for group descriptions that refuses a group with a topic that the client may not describe.

    Such a group gets TOPIC_AUTHORIZATION_FAILED.
    """

    def guard(asked: Inquiry) -> Verdict:
        verdict = _consumer_groups(asked)
        if not isinstance(verdict, Passed):
            return verdict

        def amend(values: Values) -> Values:
            groups = [_with_topics(asked, group, topics_of(group)) for group in paced(listed(values, "groups"))]
            return {**values, "groups": groups}

        return verdict.amended(amend)

    return guard


def _topics_of_tasks(group: Values) -> Iterable[str]:
    topology = group.get("topology") or {"subtopologies": []}
    assert isinstance(topology, dict), "the topology is not a structure"
    names: dict[str, None] = {}
    for item in topology["subtopologies"]:
        internal = (*item["state_changelog_topics"], *item["repartition_source_topics"])
        names.update(dict.fromkeys((*map(str, item["source_topics"]), *(str(topic["name"]) for topic in internal))))
    return names


def _topics_of_members(group: Values) -> Iterable[str]:
    names: dict[str, None] = {}
    for item in listed(group, "members"):
        subscribed = item["subscribed_topic_names"]
        assert isinstance(subscribed, list), "the subscription is not a list"
        names.update(dict.fromkeys(subscribed))
        for field in ("assignment", "target_assignment"):
            assignment = item.get(field, _NO_ASSIGNMENT)
            assert isinstance(assignment, dict), "the assignment is not a structure"
            names.update(dict.fromkeys(str(part["topic_name"]) for part in assignment["topic_partitions"]))
    return names


consumer_group_describe: Final = _described_with(_topics_of_members)
"""Authorizes ConsumerGroupDescribe and ShareGroupDescribe."""
streams_group_describe: Final = _described_with(_topics_of_tasks)


def _with_topics(asked: Inquiry, group: Values, names: Iterable[str]) -> Values:
    if all(asked.on_topic(Operation.DESCRIBE, name) for name in names):
        return group
    message = "The group has described topic(s) that the client is not authorized to describe."
    return {"group_id": group["group_id"], "error_code": NO_TOPIC, "error_message": message}


def _denied_group(asked: Inquiry, operation: Operation, group_id: str) -> Values | None:
    if asked.on_group(operation, group_id):
        return None
    return {"group_id": group_id, "error_code": NO_GROUP}


def delete_groups(asked: Inquiry) -> Verdict:
    return entries(asked, "groups_names", "results", lambda name: _denied_group(asked, Operation.DELETE, str(name)))


def list_groups(asked: Inquiry) -> Verdict:
    """Authorize ListGroups. A client that may not describe the cluster gets only the groups that it may describe."""
    if asked.on_cluster(Operation.DESCRIBE):
        return Passed(asked.request)

    def amend(values: Values) -> Values:
        shown = [
            item
            for item in paced(listed(values, "groups"))
            if asked.on_group(Operation.DESCRIBE, str(item["group_id"]))
        ]
        return {**values, "groups": shown}

    return Passed(asked.request, amend)


# ---------------------------------------------------------------------------------------------------------- offsets


def offset_fetch(asked: Inquiry) -> Verdict:
    request = asked.request
    if asked.header.api_version >= _FIRST_WITH_MANY_GROUPS:
        return _of_groups(asked)
    if not asked.on_group(Operation.DESCRIBE, str(request.group_id)):
        topics = [_no_offsets(topic, NO_GROUP) for topic in request.topics or ()]
        return {"error_code": NO_GROUP, "topics": topics if asked.header.api_version < _FIRST_WITH_ERROR else []}
    if request.topics is None:
        return Passed(request, partial(_only_described, asked))
    return entries(asked, "topics", "topics", lambda topic: _denied_offsets(asked, topic))


def _of_groups(asked: Inquiry) -> Verdict:
    """Authorize each group of an OffsetFetch request separately."""
    refusals: list[Values] = []
    kept: list[Entity] = []
    amends: dict[str, Callable[[Values], Values]] = {}
    for group in asked.request.groups:
        name = str(group.group_id)
        refusal = _denied_group(asked, Operation.DESCRIBE, name)
        if refusal is not None:
            refusals.append({**refusal, "topics": []})
        elif group.topics is None:
            kept.append(group)
            amends[name] = partial(_only_described, asked)
        else:
            answers = [(topic, _denied_offsets(asked, topic)) for topic in group.topics]
            denied = [refused for _, refused in answers if refused is not None]
            kept.append(replace(group, topics=tuple(topic for topic, refused in answers if refused is None)))
            amends[name] = partial(_with_denied, denied)

    def amend(values: Values) -> Values:
        groups = [amends[str(group["group_id"])](group) for group in paced(listed(values, "groups"))]
        return {**values, "groups": [*groups, *refusals]}

    return Passed(replace(asked.request, groups=tuple(kept)), amend) if kept else {"groups": refusals}


def _with_denied(denied: list[Values], values: Values) -> Values:
    if values["error_code"] is not ErrorCode.NONE:
        return values
    return {**values, "topics": [*listed(values, "topics"), *denied]}


def _only_described(asked: Inquiry, values: Values) -> Values:
    shown = [item for item in paced(listed(values, "topics")) if asked.on_topic(Operation.DESCRIBE, str(item["name"]))]
    return {**values, "topics": shown}


def _denied_offsets(asked: Inquiry, topic: Entity) -> Values | None:
    return None if asked.on_topic_of(Operation.DESCRIBE, topic) else _no_offsets(topic, NO_TOPIC)


def describe_share_group_offsets(asked: Inquiry) -> Verdict:
    """Authorize DescribeShareGroupOffsets.

    A refused topic is answered without its id, or left out if the request names no topics.
    """

    def denied(group: Entity) -> Values | None:
        refused = _denied_group(asked, Operation.DESCRIBE, str(group.group_id))
        return None if refused is None else {**refused, "topics": []}

    verdict = entries(asked, "groups", "groups", denied)
    if not isinstance(verdict, Passed):
        return verdict
    names_topics = {str(group.group_id): group.topics is not None for group in asked.request.groups}

    def amend(values: Values) -> Values:
        groups = [
            {**group, "topics": _shown_shares(asked, group, named=names_topics[str(group["group_id"])])}
            for group in paced(listed(values, "groups"))
        ]
        return {**values, "groups": groups}

    return verdict.amended(amend)


def _shown_shares(asked: Inquiry, group: Values, *, named: bool) -> list[Values]:
    shown = []
    for topic in listed(group, "topics"):
        if asked.on_topic(Operation.DESCRIBE, str(topic["topic_name"])):
            shown.append(topic)
        elif named:
            numbers = [item["partition_index"] for item in listed(topic, "partitions")]
            no_offset = {"start_offset": -1, "leader_epoch": 0, "error_code": NO_TOPIC}
            partitions = [{"partition_index": number, **no_offset} for number in numbers]
            shown.append({"topic_name": topic["topic_name"], "topic_id": None, "partitions": partitions})
    return shown


def _share_offsets(operation: Operation, refused: Callable[[Entity], Values]) -> Guard:
    """Return a guard of a change of a share group's start offsets.

    The coordinator gets the request even if no topic is left. If it refuses the whole request, no topic is answered.

    Args:
        operation: operation on the group; READ is required on each topic.
        refused: returns the response's fields of a refused topic besides its name.
    """

    def guard(asked: Inquiry) -> Verdict:
        if not asked.on_group(operation, str(asked.request.group_id)):
            return asked.refusal(NO_GROUP)
        allowed: list[Entity] = []
        refusals: list[Values] = []
        for topic in asked.request.topics:
            name = str(topic.topic_name)
            if asked.on_topic(Operation.READ, name):
                allowed.append(topic)
            else:
                refusals.append({"topic_name": name, **refused(topic)})
        if not refusals:
            return Passed(asked.request)

        def amend(values: Values) -> Values:
            if values["error_code"] is not ErrorCode.NONE:
                return values
            return {**values, "responses": [*refusals, *listed(values, "responses")]}

        return Passed(replace(asked.request, topics=tuple(allowed)), amend)

    return guard


_NO_READ: Final[Values] = {"error_code": NO_TOPIC, "error_message": "Topic authorization failed."}


def alter_share_group_offsets(asked: Inquiry) -> Verdict:
    def refused(topic: Entity) -> Values:
        known = asked.image.topics.get(str(topic.topic_name))
        return {
            "topic_id": None if known is None else known.topic_id,
            "partitions": [
                {"partition_index": int(partition.partition_index), **_NO_READ} for partition in topic.partitions
            ],
        }

    return _share_offsets(Operation.READ, refused)(asked)


delete_share_group_offsets: Final = _share_offsets(Operation.DELETE, lambda topic: {"topic_id": None, **_NO_READ})


def _no_offsets(topic: Entity, error: ErrorCode) -> Values:
    return {
        **topic_named(topic),
        "partitions": [
            {
                "partition_index": int(number),
                "committed_offset": -1,
                "committed_leader_epoch": -1,
                "metadata": "",
                "error_code": error,
            }
            for number in topic.partition_indexes
        ],
    }
