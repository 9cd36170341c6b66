"""One error as the answer to a whole request of an admin client: said of everything that the request names.

source: the getErrorResponse methods of Kafka's request classes
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import (
    ADD_PARTITIONS_TO_TXN,
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_REPLICA_LOG_DIRS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_ACLS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    OFFSET_COMMIT,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
    RequestHeader,
)
from replica.errors import ErrorCode

Values = dict[str, object]


def refusal(header: RequestHeader, frame: bytearray, error: ErrorCode) -> bytes:
    """A whole response, size included.     raises: PeerViolation"""
    values = error_values(header, cold.decode_request(header, frame), error)
    entity = cold.response(header.api_key, header.api_version, **values)
    return cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)


def error_values(header: RequestHeader, request: Entity, error: ErrorCode) -> Values:
    """The fields of the answer."""
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
"""source: Errors.message"""


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
            {"error_code": error, "resource_type": one.resource_type, "resource_name": str(one.resource_name)}
            for one in request.resources
        ]
    }


def _alter_user_scram_credentials(request: Entity, error: ErrorCode) -> Values:
    names = dict.fromkeys(str(one.name) for one in (*request.deletions, *request.upsertions))
    return {"results": [{"user": name, "error_code": error} for name in names]}


def _alter_client_quotas(request: Entity, error: ErrorCode) -> Values:
    def entity(entry: Entity) -> list[Values]:
        return [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]

    return {"entries": [{"error_code": error, "entity": entity(entry)} for entry in request.entries]}


def _by_partition(request: Entity, error: ErrorCode) -> Values:
    def topic(one: Entity) -> Values:
        numbers = [int(getattr(part, "partition_index", part)) for part in one.partitions]
        return {
            "name": str(one.name),
            "partitions": [{"partition_index": number, "error_code": error} for number in numbers],
        }

    return {"topics": [topic(one) for one in request.topics]}


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
    def topic(one: Entity) -> Values:
        numbers = [int(number) for number in one.partition_indexes]
        return {
            "name": str(one.name),
            "partitions": [{"partition_index": number, "error_code": error} for number in numbers],
        }

    return {
        "markers": [
            {"producer_id": marker.producer_id, "topics": [topic(one) for one in marker.topics]}
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
    told = {"error_code": error, "error_message": _MESSAGES.get(error)}
    return {"filter_results": [told for _ in request.filters]}


_BY_API: dict[int, Callable[[Entity, ErrorCode], Values]] = {
    CREATE_TOPICS: _create_topics,
    DELETE_TOPICS: _delete_topics,
    CREATE_PARTITIONS: _create_partitions,
    ALTER_CONFIGS: _alter_configs,
    INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    OFFSET_COMMIT: _by_partition,
    TXN_OFFSET_COMMIT: _by_partition,
    ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    WRITE_TXN_MARKERS: _write_txn_markers,
    ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    CREATE_ACLS: _create_acls,
    DELETE_ACLS: _delete_acls,
}
"""The other APIs have an error for the whole of their answer."""
