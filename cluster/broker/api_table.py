"""The APIs of a broker, called by the key of a request. source: KafkaApis.handle

A module of `cluster/broker/apis` has those of one subject: its `APIS` says for each what makes the handler of one
broker. It is imported when the first request of one of its keys comes.
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
    "refusals": (
        versions.CREATE_DELEGATION_TOKEN,
        versions.RENEW_DELEGATION_TOKEN,
        versions.EXPIRE_DELEGATION_TOKEN,
        versions.DESCRIBE_DELEGATION_TOKEN,
        versions.SHARE_GROUP_HEARTBEAT,
        versions.SHARE_GROUP_DESCRIBE,
        versions.SHARE_FETCH,
        versions.SHARE_ACKNOWLEDGE,
        versions.ADD_RAFT_VOTER,
        versions.REMOVE_RAFT_VOTER,
        versions.INITIALIZE_SHARE_GROUP_STATE,
        versions.READ_SHARE_GROUP_STATE,
        versions.WRITE_SHARE_GROUP_STATE,
        versions.DELETE_SHARE_GROUP_STATE,
        versions.READ_SHARE_GROUP_STATE_SUMMARY,
        versions.DESCRIBE_SHARE_GROUP_OFFSETS,
        versions.ALTER_SHARE_GROUP_OFFSETS,
        versions.DELETE_SHARE_GROUP_OFFSETS,
    ),
}
"""Module -> its APIs"""
APIS: Final[Mapping[int, str]] = dict(sorted((key, module) for module, keys in _KEYS.items() for key in keys))


def serve_of(key: int) -> Serve:
    """What makes the handler of an API."""
    apis: Mapping[int, Serve] = import_module(f"{FOLDER}.{APIS[key]}").APIS
    return apis[key]


class ServedApis:
    """The handlers of one broker, each made for the first request of its key."""

    def __init__(self, broker: BrokerParts) -> None:
        self._broker = broker
        self._handlers: dict[int, Handler | None] = {}
        self._refusals = broker.responder.refusals
        self._guarded = self._guards.keys if broker.access.is_on else GUARDED_WITHOUT_RULES

    @cached_property
    def offered(self) -> Ranges:
        """Those that clients of its era may send, of what is answered here: what the controller answers may be not."""
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
        """None: this broker does not answer it."""
        if key not in self._handlers:
            self._handlers[key] = serve_of(key)(self._broker) if key in APIS else None
        return self._handlers[key]

    def handle(self, connection: ConnectionId, peer: str, frame: bytearray, now_us: int) -> RequestHeader:
        """One request of `peer`; returns what it was. raises: PeerViolation"""
        header = read_request_header(frame)
        handler = self._handlers.get(header.api_key) or self._handler(header.api_key)
        if handler is None:
            raise PeerViolation(f"api {header.api_key} is not served here")
        self._refusals.asked(connection, header, frame)
        if header.api_key in self._guarded:
            left = self._guards.passed(connection, header, frame)
            if left is None:
                return header
            frame = left
        handler(connection, peer, header, frame, now_us)
        return header
