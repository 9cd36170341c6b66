"""Streams group APIs (KIP-1071) of members and operators: StreamsGroupHeartbeat (88), StreamsGroupDescribe (89).

Simplified: a description includes uncommitted state of the coordinator. Only version 0 is
offered, even by brokers of 4.4; it lacks the topology descriptions of KIP-1331.
Source: KafkaApis.scala, GroupCoordinatorService.java
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve, Values
from cluster.broker.apis.group_members import MemberHeartbeatHandler, where_it_is_on
from cluster.broker.apis.groups_described import DescribesGroups
from cluster.broker.apis.refusals import ABSENT, Refused, always, each
from cluster.groups.inputs import ConsumerHeartbeatResult, StreamsHeartbeat
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.streams_group import EndpointPartitions, StreamsGroup, StreamsMember, UserEndpoint
from cluster.groups.state.tasks import ACTIVE, STANDBY, WARMUP, StreamsTask, Tasks, by_subtopology
from cluster.groups.state.topology import configure, subtopologies
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import STREAMS_GROUP_DESCRIBE, STREAMS_GROUP_HEARTBEAT
from cluster.server.responder import Handler
from controller.features import STREAMS_VERSION
from replica.errors import ErrorCode
from replica.ids import TopicPartition

KINDS: Final = {"active_tasks": ACTIVE, "standby_tasks": STANDBY, "warmup_tasks": WARMUP}
"""Kind of tasks by field of a request or response."""


class StreamsGroupHeartbeatHandler(MemberHeartbeatHandler):
    """StreamsGroupHeartbeat (88): a member of a Kafka Streams application joins, learns its tasks, and leaves.

    0  first version
    """

    def _heartbeat(self, request: Entity, version: int) -> Callable[..., StreamsHeartbeat]:
        endpoint, tags = request.user_endpoint, request.client_tags
        return partial(
            StreamsHeartbeat,
            instance_id=request.instance_id,
            rebalance_timeout_ms=cold.milliseconds(request.rebalance_timeout),
            topology=request.topology,
            owned=(
                _tasks(ACTIVE, request.active_tasks),
                _tasks(STANDBY, request.standby_tasks),
                _tasks(WARMUP, request.warmup_tasks),
            ),
            process_id=request.process_id,
            user_endpoint=None if endpoint is None else UserEndpoint(str(endpoint.host), int(endpoint.port)),
            client_tags=None if tags is None else tuple(sorted((str(tag.key), str(tag.value)) for tag in tags)),
            shuts_down=bool(request.shutdown_application),
            endpoints_epoch=int(request.endpoint_information_epoch),
        )

    def _fields(self, result: ConsumerHeartbeatResult) -> Values:
        statuses: list[Values] = [{"status_code": code, "status_detail": detail} for code, detail in result.statuses]
        return {
            "error_code": result.error,
            "error_message": result.message,
            "member_id": result.member_id or "",
            "member_epoch": result.member_epoch,
            "heartbeat_interval": result.heartbeat_interval_ms,
            "status": statuses if result.error is ErrorCode.NONE else None,
            **({} if result.assigned is None else _by_kind(result.assigned)),
            "endpoint_information_epoch": result.endpoints_epoch,
            "partitions_by_user_endpoint": None if result.endpoints is None else list(map(_endpoint, result.endpoints)),
        }


def _endpoint(known: EndpointPartitions) -> Values:
    return {
        "user_endpoint": known.endpoint._asdict(),
        "active_partitions": _by_topic(known.active),
        "standby_partitions": _by_topic(known.standby),
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> list[Values]:
    topics = groupby(partitions, key=lambda name: name.topic)
    return [{"topic": topic, "partitions": [name.partition for name in names]} for topic, names in topics]


def _tasks(kind: int, named: Iterable[Entity] | None) -> Tasks | None:
    if named is None:
        return None
    return tuple(
        sorted(
            {StreamsTask(kind, str(item.subtopology_id), int(number)) for item in named for number in item.partitions}
        )
    )


def _by_kind(tasks: Tasks) -> dict[str, list[Values]]:
    return {
        field: [{"subtopology_id": name, "partitions": numbers} for name, numbers in by_subtopology(tasks, kind)]
        for field, kind in KINDS.items()
    }


class StreamsGroupDescribeHandler(DescribesGroups):
    """StreamsGroupDescribe (89): return streams groups, their topologies, members, and the members' tasks.

    0  first version
    """

    TYPE = StreamsGroup.TYPE

    def _fields(self, group: ConsumerGroup) -> Values:
        assert isinstance(group, StreamsGroup), "the group is not a streams group"
        members = [self._member(member, group.targets.get(member.member_id, ())) for member in group.members.values()]
        return {
            "error_code": ErrorCode.NONE,
            "group_id": group.group_id,
            "group_state": group.state.value,
            "group_epoch": group.epoch,
            "assignment_epoch": group.target_epoch,
            "topology": None if group.topology is None else self._topology(group.topology),
            "members": members,
        }

    def _topology(self, topology: Entity) -> Values:
        """Return the response's structure of a topology, with derived partition counts if the topology is valid."""
        topics = self._cache.image.topics
        configured = configure(topology, lambda name: len(topics[name].partitions) if name in topics else None)
        derived = configured.partitions if configured.status is None else {}

        def internal(some: Sequence[Entity]) -> list[Values]:
            return [
                {
                    "name": topic.name,
                    "partitions": derived.get(str(topic.name), topic.partitions),
                    "replication_factor": topic.replication_factor,
                    "topic_configs": [{"key": entry.key, "value": entry.value} for entry in topic.topic_configs],
                }
                for topic in sorted(some, key=lambda topic: str(topic.name))
            ]

        parts = [
            {
                "subtopology_id": subtopology.subtopology_id,
                "source_topics": sorted(subtopology.source_topics),
                "repartition_sink_topics": sorted(subtopology.repartition_sink_topics),
                "state_changelog_topics": internal(subtopology.state_changelog_topics),
                "repartition_source_topics": internal(subtopology.repartition_source_topics),
            }
            for subtopology in subtopologies(topology)
        ]
        return {"epoch": topology.epoch, "subtopologies": parts}

    def _member(self, member: StreamsMember, target: Tasks) -> Values:
        endpoint = member.user_endpoint
        return {
            "member_id": member.member_id,
            "member_epoch": member.epoch,
            "instance_id": member.instance_id,
            "rack_id": member.rack_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "topology_epoch": member.topology_epoch,
            "process_id": member.process_id,
            "user_endpoint": None if endpoint is None else endpoint._asdict(),
            "client_tags": [{"key": key, "value": value} for key, value in member.client_tags],
            "assignment": _by_kind(member.assigned),
            "target_assignment": _by_kind(target),
        }


def serve_heartbeat(broker: BrokerParts) -> Handler:
    refused = Refused(always({"error_code": ABSENT}))(broker)
    return where_it_is_on(broker, StreamsGroupHeartbeatHandler(broker), refused, STREAMS_VERSION)


def serve_describe(broker: BrokerParts) -> Handler:
    refused = Refused(each("groups", "group_ids", {"error_code": ABSENT}, group_id=""))(broker)
    return where_it_is_on(broker, StreamsGroupDescribeHandler(broker), refused, STREAMS_VERSION)


APIS: Final[Mapping[int, Serve]] = {
    STREAMS_GROUP_HEARTBEAT: serve_heartbeat,
    STREAMS_GROUP_DESCRIBE: serve_describe,
}
