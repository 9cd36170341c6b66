"""What a client needs to take part in groups, and to see them. source: KafkaApis.scala"""

from __future__ import annotations

from collections.abc import Callable
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
from cluster.protocol.entities import Entity
from cluster.slices import paced
from controller.access import Operation, ResourceType
from replica.errors import ErrorCode

member: Final = needs(Operation.READ, ResourceType.GROUP, "group_id")
offset_commit: Final = needs(Operation.READ, ResourceType.GROUP, "group_id", by_topic(Operation.READ))
offset_delete: Final = needs(Operation.DELETE, ResourceType.GROUP, "group_id", by_topic(Operation.READ))
_KINDS: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
"""Types of keys in FindCoordinator."""
_FIRST_OF_MANY: Final = 4
_FIRST_WITH_MANY_GROUPS: Final = 8
_FIRST_WITH_ERROR: Final = 2
_NO_NODE: Final = {"node_id": -1, "host": "", "port": -1}


def consumer_group_heartbeat(asked: Inquiry) -> Verdict:
    """Simplified: a pattern of topics finds those, too, that the member may not describe."""
    request = asked.request
    if not asked.on_group(Operation.READ, str(request.group_id)):
        return asked.refusal(NO_GROUP)
    if all(asked.on_topic(Operation.DESCRIBE, str(name)) for name in request.subscribed_topic_names or ()):
        return Passed(request)
    return {"error_code": NO_TOPIC}


def find_coordinator(asked: Inquiry) -> Verdict:
    request = asked.request
    kind = _KINDS.get(int(getattr(request, "key_type", 0)))
    if kind is None:
        may = asked.on_cluster(Operation.CLUSTER_ACTION)
        return Passed(request) if may else asked.refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
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
    """Each group that is named; with the operations on each, where they are wanted."""

    def guard(asked: Inquiry) -> Verdict:
        verdict = entries(asked, field, "groups", lambda name: _denied_group(asked, Operation.DESCRIBE, str(name)))
        if not isinstance(verdict, Passed) or not getattr(asked.request, "include_authorized_operations", False):
            return verdict
        earlier = verdict.amend

        def amend(values: Values) -> Values:
            groups = listed(values, "groups")
            for group in paced(groups):
                if group["error_code"] is ErrorCode.NONE:
                    operations = asked.operations(ResourceType.GROUP, str(group["group_id"]))
                    group["authorized_operations"] = operations
            return values if earlier is None else earlier(values)

        return Passed(verdict.request, amend)

    return guard


describe_groups: Final = _described("groups")
_consumer_groups: Final = _described("group_ids")


def consumer_group_describe(asked: Inquiry) -> Verdict:
    """A group that has to do with a topic that may not be described is not described either."""
    verdict = _consumer_groups(asked)
    if not isinstance(verdict, Passed):
        return verdict
    earlier = verdict.amend

    def amend(values: Values) -> Values:
        shown = values if earlier is None else earlier(values)
        return {**shown, "groups": [_without_topics(asked, group) for group in paced(listed(shown, "groups"))]}

    return Passed(verdict.request, amend)


def _without_topics(asked: Inquiry, group: Values) -> Values:
    names: dict[str, None] = {}
    for one in listed(group, "members"):
        subscribed = one["subscribed_topic_names"]
        assert isinstance(subscribed, list), "names"
        names.update(dict.fromkeys(subscribed))
        for field in ("assignment", "target_assignment"):
            assignment = one[field]
            assert isinstance(assignment, dict), "a structure"
            names.update(dict.fromkeys(str(part["topic_name"]) for part in assignment["topic_partitions"]))
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
    """Who may not describe the cluster sees the groups that it may describe."""
    if asked.on_cluster(Operation.DESCRIBE):
        return Passed(asked.request)

    def amend(values: Values) -> Values:
        shown = [
            one for one in paced(listed(values, "groups")) if asked.on_group(Operation.DESCRIBE, str(one["group_id"]))
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
    """Of each group what its own entry names."""
    told: list[Values] = []
    kept: list[Entity] = []
    amends: dict[str, Callable[[Values], Values]] = {}
    for group in asked.request.groups:
        name = str(group.group_id)
        refusal = _denied_group(asked, Operation.DESCRIBE, name)
        if refusal is not None:
            told.append({**refusal, "topics": []})
        elif group.topics is None:
            kept.append(group)
            amends[name] = partial(_only_described, asked)
        else:
            denied = [one for topic in group.topics if (one := _denied_offsets(asked, topic)) is not None]
            names = {one["name"] for one in denied}
            kept.append(replace(group, topics=tuple(one for one in group.topics if str(one.name) not in names)))
            amends[name] = partial(_with_denied, denied)

    def amend(values: Values) -> Values:
        groups = [amends[str(group["group_id"])](group) for group in paced(listed(values, "groups"))]
        return {**values, "groups": [*groups, *told]}

    return Passed(replace(asked.request, groups=tuple(kept)), amend) if kept else {"groups": told}


def _with_denied(denied: list[Values], values: Values) -> Values:
    if values["error_code"] is not ErrorCode.NONE:
        return values
    return {**values, "topics": [*listed(values, "topics"), *denied]}


def _only_described(asked: Inquiry, values: Values) -> Values:
    shown = [one for one in paced(listed(values, "topics")) if asked.on_topic(Operation.DESCRIBE, str(one["name"]))]
    return {**values, "topics": shown}


def _denied_offsets(asked: Inquiry, topic: Entity) -> Values | None:
    return None if asked.on_topic(Operation.DESCRIBE, str(topic.name)) else _no_offsets(topic, NO_TOPIC)


def _no_offsets(topic: Entity, error: ErrorCode) -> Values:
    return {
        "name": str(topic.name),
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
