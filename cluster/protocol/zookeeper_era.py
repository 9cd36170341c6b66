"""Message classes like kio's, for the messages between ZooKeeper-era brokers and controllers (API keys 4 to 7).

kio lacks them. Each has one version: the first with all fields that the simulation needs.

Source: LeaderAndIsrRequest.json, StopReplicaRequest.json, UpdateMetadataRequest.json, ControlledShutdownRequest.json
and their responses, Kafka 3.9
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, field, make_dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType

from cluster.protocol.versions import CONTROLLED_SHUTDOWN, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, api_name
from replica.errors import ErrorCode

Fields = Mapping[str, "str | Fields"]
"""The fields of a structure by name, in wire order.

A value is Kafka's type of a primitive, with `[]` for an array, or the Fields of the structures in an array.
"""

_PARTITION_STATE: Final[Fields] = {
    "partition_index": "int32",
    "controller_epoch": "int32",
    "leader": "int32",
    "leader_epoch": "int32",
    "isr": "int32[]",
}
_CONTROLLER: Final[Fields] = {"controller_id": "int32", "controller_epoch": "int32", "broker_epoch": "int64"}
"""The fields by which a controller identifies itself. A broker epoch of -1 is not checked (KIP-380)."""


class _Api(NamedTuple):
    version: int
    request: Fields
    response: Fields


_APIS: Final[Mapping[int, _Api]] = {
    LEADER_AND_ISR: _Api(
        5,
        request={
            **_CONTROLLER,
            "type": "int8",
            "topic_states": {
                "topic_name": "string",
                "topic_id": "uuid",
                "partition_states": {
                    **_PARTITION_STATE,
                    "partition_epoch": "int32",  # zkVersion
                    "replicas": "int32[]",
                    "adding_replicas": "int32[]",
                    "removing_replicas": "int32[]",
                    "is_new": "bool",
                },
            },
            "live_leaders": {"broker_id": "int32", "host_name": "string", "port": "int32"},
        },
        response={
            "error_code": "error_code",
            "topics": {
                "topic_id": "uuid",
                "partition_errors": {"partition_index": "int32", "error_code": "error_code"},
            },
        },
    ),
    STOP_REPLICA: _Api(
        3,
        request={
            **_CONTROLLER,
            "topic_states": {
                "topic_name": "string",
                "partition_states": {"partition_index": "int32", "leader_epoch": "int32", "delete_partition": "bool"},
            },
        },
        response={
            "error_code": "error_code",
            "partition_errors": {"topic_name": "string", "partition_index": "int32", "error_code": "error_code"},
        },
    ),
    UPDATE_METADATA: _Api(
        7,
        request={
            **_CONTROLLER,
            "topic_states": {
                "topic_name": "string",
                "topic_id": "uuid",
                "partition_states": {
                    **_PARTITION_STATE,
                    "zk_version": "int32",
                    "replicas": "int32[]",
                    "offline_replicas": "int32[]",
                },
            },
            "live_brokers": {
                "id": "int32",
                "endpoints": {"port": "int32", "host": "string", "listener": "string", "security_protocol": "int16"},
                "rack": "string?",
            },
        },
        response={"error_code": "error_code"},
    ),
    CONTROLLED_SHUTDOWN: _Api(
        3,
        # A broker asks the controller to move its leaderships, and learns which partitions it still leads.
        request={"broker_id": "int32", "broker_epoch": "int64"},
        response={
            "error_code": "error_code",
            "remaining_partitions": {"topic_name": "string", "partition_index": "int32"},
        },
    ),
}
_PYTHON: Final[Mapping[str, Any]] = {
    "bool": bool,
    "string": str,
    "string?": str | None,
    "uuid": UUID | None,
    "error_code": ErrorCode,
}
"""Python types by wire type; all other types are int."""
_DEFAULTS: Final[Mapping[str, int]] = {"broker_epoch": -1}


def message_class(api_key: int, kind: str) -> type:
    """Return the message class of an API. `kind` is Request or Response."""
    api, is_request = _APIS[api_key], kind == "Request"
    nested = {
        "__type__": EntityType.nested,
        "__version__": api.version,
        "__flexible__": True,
        "__api_key__": api_key,
        "__module__": f"{__name__}.{kind.lower()}",  # As in kio, its end distinguishes requests and responses.
    }
    namespace = {
        **nested,
        "__type__": EntityType.request if is_request else EntityType.response,
        "__header_schema__": RequestHeader if is_request else ResponseHeader,
    }
    return _class(api_name(api_key) + kind, api.request if is_request else api.response, namespace, nested)


def _class(name: str, fields: Fields, namespace: dict[str, Any], nested: dict[str, Any]) -> type:
    """Create a message class.

    `namespace` are its class attributes, `nested` those of the classes of nested structures.
    """
    members = []
    for field_name, described in fields.items():
        if isinstance(described, str):
            wire_type, default = described.removesuffix("[]"), _DEFAULTS.get(field_name, MISSING)
            hint: Any = _PYTHON.get(wire_type, int)
            is_array, metadata = described.endswith("[]"), {"kafka_type": wire_type.removesuffix("?")}
            of_field = field(default=default, metadata=metadata)
        else:
            hint, is_array, of_field = _class(f"{name}.{field_name}", described, nested, nested), True, field()
        members.append((field_name, tuple[hint, ...] if is_array else hint, of_field))
    return make_dataclass(name, members, namespace=namespace, frozen=True, slots=True, kw_only=True)
