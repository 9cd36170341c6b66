"""Messages between the registry (the simulated ZooKeeper) and its clients, and the records in the registry's log.

Differs from Kafka: JSON instead of ZooKeeper's jute records, so that people can read frames and log. The order within
a connection is ZooKeeper's: requests are answered in turn, and a watch event does not overtake an earlier answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from controller.zookeeper.registry import (
    Change,
    CheckVersion,
    Create,
    Delete,
    GetChildren,
    GetData,
    Multi,
    Operation,
    RegistryError,
    Result,
    SetData,
    Transaction,
)
from replica.errors import PeerViolation

WATCH_XID: Final = -1
"""The xid of a frame that reports a fired watch."""

_CHANGES: Final[Mapping[str, Callable[..., Change]]] = {
    kind.__name__: kind for kind in (Create, SetData, Delete, CheckVersion)
}
_READS: Final[Mapping[str, Callable[..., GetData | GetChildren]]] = {
    kind.__name__: kind for kind in (GetData, GetChildren)
}


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as a whole frame with its size prefix. Equal messages have equal bytes."""
    body = json.dumps(message, sort_keys=True, separators=(",", ":")).encode()
    return len(body).to_bytes(4, "big") + body


def decode(frame: bytes | bytearray) -> dict[str, Any]:
    """Decode a frame without its size prefix.

    Raises:
        PeerViolation: if the frame is not a JSON object.
    """
    try:
        message = json.loads(bytes(frame))
    except ValueError as error:
        raise PeerViolation(f"the registry got an invalid message: {bytes(frame[:80])!r} ({error})") from error
    if not isinstance(message, dict):
        raise PeerViolation(f"the registry got an invalid message: {bytes(frame[:80])!r}")
    return message


def operation_fields(operation: Operation) -> dict[str, Any]:
    if isinstance(operation, Multi):
        return {"op": "Multi", "ops": [operation_fields(item) for item in operation.ops]}
    return {"op": type(operation).__name__, **asdict(operation)}


def operation_of(fields: Mapping[str, Any]) -> Operation:
    """Return the operation of a request.

    Raises:
        PeerViolation: if the request is malformed.
    """
    try:
        if fields["op"] == "Multi":
            return Multi(ops=tuple(_change_of(field) for field in fields["ops"]))
        if fields["op"] in _READS:
            return _READS[fields["op"]](**_given(fields))
        return _change_of(fields)
    except (KeyError, TypeError) as error:
        raise PeerViolation(
            f"the simulated ZooKeeper got a malformed request: {str(fields)[:80]}; unknown or missing: {error}"
        ) from error


def _change_of(fields: Mapping[str, Any]) -> Change:
    return _CHANGES[fields["op"]](**_given(fields))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in ("op", "xid")}


def result_fields(result: Result) -> dict[str, Any]:
    fields = asdict(result)
    fields["error"] = None if result.error is None else result.error.value
    return fields


def result_of(fields: Mapping[str, Any]) -> Result:
    error = fields["error"]
    return Result(
        **{
            **fields,
            "error": None if error is None else RegistryError(error),
            "children": tuple(fields["children"]),
        }
    )


def encode_transaction(transaction: Transaction) -> bytes:
    """Encode a transaction for the registry's log, without `note` and `before`."""
    fields = {name: value for name, value in asdict(transaction).items() if name not in ("note", "before") and value}
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def decode_transaction(data: bytes | memoryview) -> Transaction:
    return Transaction(**json.loads(bytes(data)))
