"""The dispatch of requests to the handlers of a broker's APIs, by API key. Source: KafkaApis.handle

Each module of `cluster/broker/apis` has the handlers of related APIs: its `APIS` maps each API key to the function that
creates a broker's handler. A module is imported at the first request for one of its APIs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final

from cluster.broker.apis.offered import Ranges, offered_under
from cluster.node import ConnectionId
from cluster.protocol import versions
from cluster.protocol.versions import FORWARDED, GUARDED_WITHOUT_RULES, RequestHeader, read_request_header
from cluster.server.responder import Call
from replica.errors import PeerViolation

if TYPE_CHECKING:
    from cluster.authorization.guards import Guards
    from cluster.broker.apis.api import BrokerParts, Serve
    from cluster.server.responder import Handler

FOLDER: Final = "cluster.broker.apis"
_KEYS: Final[Mapping[str, tuple[int, ...]]] = {
    "produce": (versions.PRODUCE,),
    "fetch": (versions.FETCH,),
    "log_offsets": (versions.LIST_OFFSETS, versions.DELETE_RECORDS, versions.OFFSET_FOR_LEADER_EPOCH),
    "metadata": (versions.METADATA, versions.DESCRIBE_CLUSTER, versions.DESCRIBE_TOPIC_PARTITIONS),
    "api_versions": (versions.API_VERSIONS,),
    "by_controller": (
        versions.CREATE_TOPICS,
        versions.DELETE_TOPICS,
        versions.ALTER_CONFIGS,
        versions.CREATE_PARTITIONS,
        versions.ELECT_LEADERS,
        versions.INCREMENTAL_ALTER_CONFIGS,
        versions.ALTER_PARTITION_REASSIGNMENTS,
        versions.LIST_PARTITION_REASSIGNMENTS,
        versions.DESCRIBE_QUORUM,
        versions.UPDATE_FEATURES,
        versions.UNREGISTER_BROKER,
        versions.ADD_RAFT_VOTER,
        versions.REMOVE_RAFT_VOTER,
    ),
    "configs": (versions.DESCRIBE_CONFIGS, versions.LIST_CONFIG_RESOURCES),
    "log_dirs": (versions.ALTER_REPLICA_LOG_DIRS, versions.DESCRIBE_LOG_DIRS),
    "client_quotas": (versions.DESCRIBE_CLIENT_QUOTAS, versions.ALTER_CLIENT_QUOTAS),
    "security": (
        versions.SASL_HANDSHAKE,
        versions.DESCRIBE_ACLS,
        versions.CREATE_ACLS,
        versions.DELETE_ACLS,
        versions.SASL_AUTHENTICATE,
        versions.DESCRIBE_USER_SCRAM_CREDENTIALS,
        versions.ALTER_USER_SCRAM_CREDENTIALS,
    ),
    "group_members": (
        versions.JOIN_GROUP,
        versions.HEARTBEAT,
        versions.LEAVE_GROUP,
        versions.SYNC_GROUP,
        versions.CONSUMER_GROUP_HEARTBEAT,
    ),
    "group_offsets": (
        versions.OFFSET_COMMIT,
        versions.OFFSET_FETCH,
        versions.TXN_OFFSET_COMMIT,
        versions.OFFSET_DELETE,
    ),
    "groups_described": (
        versions.FIND_COORDINATOR,
        versions.DESCRIBE_GROUPS,
        versions.LIST_GROUPS,
        versions.DELETE_GROUPS,
        versions.CONSUMER_GROUP_DESCRIBE,
    ),
    "transactions": (
        versions.INIT_PRODUCER_ID,
        versions.ADD_PARTITIONS_TO_TXN,
        versions.ADD_OFFSETS_TO_TXN,
        versions.END_TXN,
    ),
    "transactions_described": (versions.DESCRIBE_PRODUCERS, versions.DESCRIBE_TRANSACTIONS, versions.LIST_TRANSACTIONS),
    "transaction_markers": (versions.WRITE_TXN_MARKERS,),
    "zookeeper_era": (
        versions.LEADER_AND_ISR,
        versions.STOP_REPLICA,
        versions.UPDATE_METADATA,
        versions.CONTROLLED_SHUTDOWN,
        versions.ALTER_PARTITION,
    ),
    "share.groups": (
        versions.SHARE_GROUP_HEARTBEAT,
        versions.SHARE_GROUP_DESCRIBE,
        versions.DESCRIBE_SHARE_GROUP_OFFSETS,
        versions.ALTER_SHARE_GROUP_OFFSETS,
        versions.DELETE_SHARE_GROUP_OFFSETS,
    ),
    "streams_groups": (versions.STREAMS_GROUP_HEARTBEAT, versions.STREAMS_GROUP_DESCRIBE),
    "share.records": (versions.SHARE_FETCH, versions.SHARE_ACKNOWLEDGE),
    "share.state": (
        versions.INITIALIZE_SHARE_GROUP_STATE,
        versions.READ_SHARE_GROUP_STATE,
        versions.WRITE_SHARE_GROUP_STATE,
        versions.DELETE_SHARE_GROUP_STATE,
        versions.READ_SHARE_GROUP_STATE_SUMMARY,
    ),
    "refusals": (
        versions.CREATE_DELEGATION_TOKEN,
        versions.RENEW_DELEGATION_TOKEN,
        versions.EXPIRE_DELEGATION_TOKEN,
        versions.DESCRIBE_DELEGATION_TOKEN,
    ),
}
"""API keys by module of `cluster/broker/apis`."""
APIS: Final[Mapping[int, str]] = dict(sorted((key, module) for module, keys in _KEYS.items() for key in keys))


def serve_of(key: int) -> Serve:
    """Return the function that creates a broker's handler of the API with this key."""
    apis: Mapping[int, Serve] = import_module(f"{FOLDER}.{APIS[key]}").APIS
    return apis[key]


class ServedApis:
    """The handlers of one broker, each created at the first request for its API."""

    def __init__(self, broker: BrokerParts) -> None:
        self._broker = broker
        self._handlers: dict[int, Handler | None] = {}
        self._refusals = broker.responder.refusals
        self._injections = broker.injections
        self._guarded = self._guards.keys if broker.access.is_on else GUARDED_WITHOUT_RULES

    @cached_property
    def offered(self) -> Ranges:
        """Version ranges by key of the APIs that this broker offers to clients.

        APIs without a handler are left out, and so are APIs of the controller that the broker can neither forward nor
        answer.
        """
        ask = self._broker.plane.for_controller
        return {
            key: versions
            for key, versions in offered_under(self._broker.base.rules).items()
            if key in APIS and (key not in FORWARDED or ask(key) is not None or self._handler(key) is not None)
        }

    @cached_property
    def _guards(self) -> Guards:
        from cluster.authorization.guards import Guards

        return Guards(self._broker.access, self._broker.responder, self._broker.base.config)

    def _handler(self, key: int) -> Handler | None:
        """Return the handler of an API; None if this broker does not answer it."""
        if key not in self._handlers:
            self._handlers[key] = serve_of(key)(self._broker) if key in APIS else None
        return self._handlers[key]

    def handle(self, connection: ConnectionId, peer: str, frame: bytearray, now_us: int) -> RequestHeader:
        """Handle one request from the node or client `peer`, and return its header.

        Raises:
            PeerViolation: if the request is malformed or its API is not served.
        """
        header = read_request_header(frame)
        handler = self._handlers.get(header.api_key) or self._handler(header.api_key)
        if handler is None:
            raise PeerViolation(f"this broker does not support API key {header.api_key}")
        call = Call(connection, peer, header, frame, now_us)
        self._refusals.asked(call)
        left = self._guards.passed(call) if header.api_key in self._guarded else call
        if left is not None and self._injections.concern(header.api_key):
            left = self._injections.passed(left)
        if left is not None:
            handler(left)
        return header
