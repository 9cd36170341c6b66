"""Converts requests to elect leaders and to alter or list reassignments, and their responses.

Source: ReplicationControlManager.electLeaders, .alterPartitionReassignments, .listPartitionReassignments
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from cluster.messages.admin.requests import AdminRequest, Entry, RequestEntries, error_fields, refused
from cluster.slices import paced
from controller.inputs import AlterReassignment, ElectLeader, SingleReply
from replica.errors import ErrorCode

PREFERRED, UNCLEAN = 0, 1


def elect_leaders(asked: AdminRequest) -> RequestEntries:
    request = asked.request
    kind = int(getattr(request, "election_type", PREFERRED))
    named = request.topic_partitions
    if named is None:
        # The response omits partitions that already have the desired leader, so they are left out.
        wanted = [
            (name.topic, name.partition)
            for name, partition in asked.image.partitions()
            if not (partition.has_leader if kind == UNCLEAN else partition.has_preferred_leader)
        ]
    else:
        wanted = [(str(topic.topic), int(number)) for topic in named for number in topic.partitions]
    entries = [_election(asked, topic, number, kind) for topic, number in paced(wanted)]

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        results = [
            {"topic": topic, "partition_result": [{"partition_id": number, **error} for number, error in partitions]}
            for topic, partitions in _by_topic(entries, replies)
        ]
        return {"error_code": ErrorCode.NONE, "replica_election_results": results}

    return RequestEntries(entries, values)


def _election(asked: AdminRequest, topic: str, number: int, kind: int) -> Entry:
    if kind not in (PREFERRED, UNCLEAN):
        return Entry(topic, refused(ErrorCode.INVALID_REQUEST, f"election type {kind} is unknown"), partition=number)
    if asked.image.partition(topic, number) is None:
        # Refused here, so that no name invented by a client enters the trace.
        unknown = refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
        return Entry(topic, unknown, partition=number)
    how: Literal["preferred", "unclean"] = "preferred" if kind == PREFERRED else "unclean"
    return Entry(topic, ElectLeader(now_us=asked.now_us, topic=topic, partition=number, kind=how), partition=number)


def _by_topic(
    entries: Sequence[Entry], replies: Sequence[SingleReply]
) -> Iterator[tuple[str | None, list[tuple[int, dict[str, object]]]]]:
    """Yield each topic with its partitions and the errors of their replies."""
    answered = zip(entries, replies, strict=True)
    for topic, results in groupby(answered, key=lambda pair: pair[0].name):
        yield topic, [(entry.partition, error_fields(reply)) for entry, reply in results]


def alter_partition_reassignments(asked: AdminRequest) -> RequestEntries:
    request = asked.request
    entries = [
        Entry(
            str(topic.name),
            AlterReassignment(
                now_us=asked.now_us,
                topic=str(topic.name),
                partition=int(partition.partition_index),
                replicas=None if partition.replicas is None else tuple(map(int, partition.replicas)),
                may_change_factor=bool(getattr(request, "allow_replication_factor_change", True)),
            ),
            partition=int(partition.partition_index),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        responses = [
            {"name": topic, "partitions": [{"partition_index": number, **error} for number, error in partitions]}
            for topic, partitions in _by_topic(entries, replies)
        ]
        return {"error_code": ErrorCode.NONE, "responses": responses}

    return RequestEntries(entries, values)


def list_partition_reassignments(asked: AdminRequest) -> RequestEntries:
    """Return the reassignments in progress. The response waits until all earlier decisions are committed."""
    named = asked.request.topics
    wanted = None if named is None else {str(item.name): tuple(map(int, item.partition_indexes)) for item in named}
    moving = [
        (name, partition)
        for name, partition in asked.image.partitions()
        if partition.is_reassigning and (wanted is None or name.partition in wanted.get(name.topic, ()))
    ]
    topics = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": name.partition,
                    "replicas": partition.replicas,
                    "adding_replicas": partition.adding_replicas,
                    "removing_replicas": partition.removing_replicas,
                }
                for name, partition in partitions
            ],
        }
        for topic, partitions in groupby(moving, key=lambda pair: pair[0].topic)
    ]
    return RequestEntries((), lambda replies: {"error_code": ErrorCode.NONE, "topics": topics})
