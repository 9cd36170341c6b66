"""Builds the response that refuses a whole request, with the same error for every entry.

Source: the getErrorResponse methods of Kafka's request classes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from cluster.protocol import cold, versions
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode
from replica.ids import NO_BROKER

Values = dict[str, object]
_FIRST_OFFSET_FETCH_WITH_ERROR = 2


def refusal(header: RequestHeader, frame: bytearray, error: ErrorCode) -> bytes:
    """Return a whole response frame, with its size prefix, that refuses the request.

    Raises:
        PeerViolation: if the request is malformed.
    """
    values = error_values(header, cold.decode_request(header, frame), error)
    entity = cold.response(header.api_key, header.api_version, **values)
    return cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)


def error_values(header: RequestHeader, request: Entity, error: ErrorCode) -> Values:
    """Return the fields of a response that refuses the request."""
    of = _BY_API.get(header.api_key)
    if of is not None:
        return of(request, error)
    values: Values = {"error_code": error}
    if "error_message" in cold.field_names(cold.response_class(header.api_key, header.api_version)):
        values["error_message"] = _MESSAGES.get(error)
    return values


_MESSAGES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""The messages of errors, as in Errors.message."""


def _create_topics(request: Entity, error: ErrorCode) -> Values:
    names = dict.fromkeys(str(topic.name) for topic in request.topics)
    empty = {"num_partitions": -1, "replication_factor": -1, "configs": ()}
    return {"topics": [{"name": name, "error_code": error, **empty} for name in names]}


def _delete_topics(request: Entity, error: ErrorCode) -> Values:
    if hasattr(request, "topic_names"):
        return {"responses": [{"name": str(name), "error_code": error} for name in request.topic_names]}
    return {
        "responses": [{"name": topic.name, "topic_id": topic.topic_id, "error_code": error} for topic in request.topics]
    }


def _create_partitions(request: Entity, error: ErrorCode) -> Values:
    return {"results": [{"name": str(topic.name), "error_code": error} for topic in request.topics]}


def _alter_configs(request: Entity, error: ErrorCode) -> Values:
    return {
        "responses": [
            {"error_code": error, "resource_type": resource.resource_type, "resource_name": str(resource.resource_name)}
            for resource in request.resources
        ]
    }


def _alter_user_scram_credentials(request: Entity, error: ErrorCode) -> Values:
    names = dict.fromkeys(str(deletion.name) for deletion in (*request.deletions, *request.upsertions))
    return {"results": [{"user": name, "error_code": error} for name in names]}


def _alter_client_quotas(request: Entity, error: ErrorCode) -> Values:
    def entity(entry: Entity) -> list[Values]:
        return [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]

    return {"entries": [{"error_code": error, "entity": entity(entry)} for entry in request.entries]}


def _by_partition(
    request: Entity,
    error: ErrorCode,
    *,
    topic: str = "name",
    number: str = "partition_index",
    empty: Mapping[str, object] = MappingProxyType({}),
) -> Values:
    """Return the fields of a response with the error for each partition of the request.

    Args:
        topic, number: names of the fields that identify a topic and a partition.
        empty: other fields of a partition's response.
    """

    def refused(entity: Entity) -> Values:
        numbers = [int(getattr(part, number, part)) for part in entity.partitions]
        parts = [{number: part, "error_code": error, **empty} for part in numbers]
        return {**topic_named(entity, topic), "partitions": parts}

    return {"topics": [refused(item) for item in request.topics]}


def topic_named(entity: Entity, field: str = "name") -> Values:
    """Return the field that identifies a topic in a response, as in the request: by name, or else by id."""
    return {field: str(getattr(entity, field))} if hasattr(entity, field) else {"topic_id": entity.topic_id}


def _share_states(request: Entity, error: ErrorCode) -> Values:
    return {
        "results": [
            {
                "topic_id": topic.topic_id,
                "partitions": [
                    {"partition": int(partition.partition), "error_code": error} for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _find_coordinator(request: Entity, error: ErrorCode) -> Values:
    no_node: Values = {"error_code": error, "node_id": NO_BROKER, "host": "", "port": NO_BROKER}
    if hasattr(request, "coordinator_keys"):
        return {"coordinators": [{"key": str(key), **no_node} for key in request.coordinator_keys]}
    return no_node


def _offset_fetch(request: Entity, error: ErrorCode) -> Values:
    if hasattr(request, "groups"):
        return {
            "groups": [{"group_id": str(group.group_id), "error_code": error, "topics": ()} for group in request.groups]
        }
    if request.__version__ >= _FIRST_OFFSET_FETCH_WITH_ERROR:
        return {"error_code": error, "topics": ()}
    no_offset = {"committed_offset": -1, "metadata": "", "error_code": error}
    topics = (
        {
            "name": str(topic.name),
            "partitions": [{"partition_index": int(number), **no_offset} for number in topic.partition_indexes],
        }
        for topic in request.topics
    )
    return {"topics": list(topics)}


def _add_partitions_to_txn(request: Entity, error: ErrorCode) -> Values:
    if hasattr(request, "transactions"):
        return {"error_code": error}
    results = [
        {
            "name": str(topic.name),
            "results_by_partition": [
                {"partition_index": int(number), "partition_error_code": error} for number in topic.partitions
            ],
        }
        for topic in request.v3_and_below_topics
    ]
    return {"results_by_topic_v3_and_below": results}


def _write_txn_markers(request: Entity, error: ErrorCode) -> Values:
    def topic(entity: Entity) -> Values:
        numbers = [int(number) for number in entity.partition_indexes]
        return {
            "name": str(entity.name),
            "partitions": [{"partition_index": number, "error_code": error} for number in numbers],
        }

    return {
        "markers": [
            {"producer_id": marker.producer_id, "topics": [topic(item) for item in marker.topics]}
            for marker in request.markers
        ]
    }


def _alter_replica_log_dirs(request: Entity, error: ErrorCode) -> Values:
    topics: dict[str, list[int]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            topics.setdefault(str(topic.name), []).extend(int(number) for number in topic.partitions)
    return {
        "results": [
            {
                "topic_name": name,
                "partitions": [{"partition_index": number, "error_code": error} for number in numbers],
            }
            for name, numbers in topics.items()
        ]
    }


def _create_acls(request: Entity, error: ErrorCode) -> Values:
    return {"results": [{"error_code": error, "error_message": _MESSAGES.get(error)} for _ in request.creations]}


def _delete_acls(request: Entity, error: ErrorCode) -> Values:
    fields = {"error_code": error, "error_message": _MESSAGES.get(error)}
    return {"filter_results": [fields for _ in request.filters]}


_BY_API: dict[int, Callable[[Entity, ErrorCode], Values]] = {
    versions.CREATE_TOPICS: _create_topics,
    versions.DELETE_TOPICS: _delete_topics,
    versions.CREATE_PARTITIONS: _create_partitions,
    versions.ALTER_CONFIGS: _alter_configs,
    versions.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    versions.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    versions.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    versions.DELETE_RECORDS: partial(_by_partition, empty={"low_watermark": -1}),
    versions.FIND_COORDINATOR: _find_coordinator,
    versions.LIST_OFFSETS: partial(_by_partition, empty={"timestamp": -1, "offset": -1, "leader_epoch": -1}),
    versions.OFFSET_COMMIT: _by_partition,
    versions.OFFSET_FETCH: _offset_fetch,
    versions.OFFSET_FOR_LEADER_EPOCH: partial(
        _by_partition, topic="topic", number="partition", empty={"leader_epoch": -1, "end_offset": -1}
    ),
    versions.TXN_OFFSET_COMMIT: _by_partition,
    versions.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    versions.WRITE_TXN_MARKERS: _write_txn_markers,
    versions.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    versions.CREATE_ACLS: _create_acls,
    versions.DELETE_ACLS: _delete_acls,
    **dict.fromkeys(versions.OF_SHARE_STATE, _share_states),
}
"""Functions that build the response, by API key. Other responses have one error for the whole request."""
