"""One error as the answer to a whole request of an admin client: said of everything that the request names.

source: the getErrorResponse methods of Kafka's request classes
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.headers import RequestHeader
from cluster.protocol.versions import (
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
)
from replica.errors import ErrorCode

Values = dict[str, object]


def refusal(header: RequestHeader, frame: bytearray, error: ErrorCode) -> bytes:
    """A whole response, size included.     raises: PeerViolation"""
    of = _BY_API.get(header.api_key)
    values: Values = {"error_code": error}
    if of is not None:
        values = of(cold.decode_request(header, frame), error)
    entity = cold.response(header.api_key, header.api_version, **values)
    return cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)


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


_BY_API: dict[int, Callable[[Entity, ErrorCode], Values]] = {
    CREATE_TOPICS: _create_topics,
    DELETE_TOPICS: _delete_topics,
    CREATE_PARTITIONS: _create_partitions,
    ALTER_CONFIGS: _alter_configs,
    INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ALTER_CLIENT_QUOTAS: _alter_client_quotas,
}
"""The other APIs have an error for the whole of their answer."""
