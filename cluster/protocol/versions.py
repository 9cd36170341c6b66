"""Names, keys and versions of the APIs that can be encoded and decoded, and the headers of messages.

    >>> VERSIONS[1]                 # Fetch: lowest and highest version served
    (4, 18)
    >>> api_name(1), api_key("Fetch")
    ('Fetch', 1)
    >>> is_flexible(1, 12)          # KIP-482 encoding from version 12
    True

`VERSIONS` is what the codecs encode and decode: every API of Kafka 4.1 in the versions of 4.4, and those of the
ZooKeeper era. The versions that a broker answers, and offers in each era, are in cluster/broker/apis.
Source: apache/kafka clients/.../common/message.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct
from types import MappingProxyType
from typing import Final

from cluster.protocol import versions
from cluster.protocol.primitives import NO_TAGS, Frame, decodes, read_string, skip_tagged, string
from replica.errors import PeerViolation
from replica.frozen import dataclass

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6
CONTROLLED_SHUTDOWN: Final = 7
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DELETE_RECORDS: Final = 21
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = 23
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
WRITE_TXN_MARKERS: Final = 27
TXN_OFFSET_COMMIT: Final = 28
DESCRIBE_ACLS: Final = 29
CREATE_ACLS: Final = 30
DELETE_ACLS: Final = 31
DESCRIBE_CONFIGS: Final = 32
ALTER_CONFIGS: Final = 33
ALTER_REPLICA_LOG_DIRS: Final = 34
DESCRIBE_LOG_DIRS: Final = 35
SASL_AUTHENTICATE: Final = 36
CREATE_PARTITIONS: Final = 37
CREATE_DELEGATION_TOKEN: Final = 38
RENEW_DELEGATION_TOKEN: Final = 39
EXPIRE_DELEGATION_TOKEN: Final = 40
DESCRIBE_DELEGATION_TOKEN: Final = 41
DELETE_GROUPS: Final = 42
ELECT_LEADERS: Final = 43
INCREMENTAL_ALTER_CONFIGS: Final = 44
ALTER_PARTITION_REASSIGNMENTS: Final = 45
LIST_PARTITION_REASSIGNMENTS: Final = 46
OFFSET_DELETE: Final = 47
DESCRIBE_CLIENT_QUOTAS: Final = 48
ALTER_CLIENT_QUOTAS: Final = 49
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = 50
ALTER_USER_SCRAM_CREDENTIALS: Final = 51
VOTE: Final = 52
BEGIN_QUORUM_EPOCH: Final = 53
END_QUORUM_EPOCH: Final = 54
DESCRIBE_QUORUM: Final = 55
ALTER_PARTITION: Final = 56
UPDATE_FEATURES: Final = 57
ENVELOPE: Final = 58
FETCH_SNAPSHOT: Final = 59
DESCRIBE_CLUSTER: Final = 60
DESCRIBE_PRODUCERS: Final = 61
BROKER_REGISTRATION: Final = 62
BROKER_HEARTBEAT: Final = 63
UNREGISTER_BROKER: Final = 64
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66
ALLOCATE_PRODUCER_IDS: Final = 67
CONSUMER_GROUP_HEARTBEAT: Final = 68
CONSUMER_GROUP_DESCRIBE: Final = 69
CONTROLLER_REGISTRATION: Final = 70
GET_TELEMETRY_SUBSCRIPTIONS: Final = 71
PUSH_TELEMETRY: Final = 72
ASSIGN_REPLICAS_TO_DIRS: Final = 73
LIST_CONFIG_RESOURCES: Final = 74
DESCRIBE_TOPIC_PARTITIONS: Final = 75
SHARE_GROUP_HEARTBEAT: Final = 76
SHARE_GROUP_DESCRIBE: Final = 77
SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79
ADD_RAFT_VOTER: Final = 80
REMOVE_RAFT_VOTER: Final = 81
UPDATE_RAFT_VOTER: Final = 82
INITIALIZE_SHARE_GROUP_STATE: Final = 83
READ_SHARE_GROUP_STATE: Final = 84
WRITE_SHARE_GROUP_STATE: Final = 85
DELETE_SHARE_GROUP_STATE: Final = 86
READ_SHARE_GROUP_STATE_SUMMARY: Final = 87
STREAMS_GROUP_HEARTBEAT: Final = 88
STREAMS_GROUP_DESCRIBE: Final = 89
DESCRIBE_SHARE_GROUP_OFFSETS: Final = 90
ALTER_SHARE_GROUP_OFFSETS: Final = 91
DELETE_SHARE_GROUP_OFFSETS: Final = 92

ZOOKEEPER: Final = 10_000
"""The key, used only here, of messages to and from ZooKeeper, which has its own protocol without API keys."""

# key: (name, lowest version, highest version, first flexible version)
_APIS: Final[Mapping[int, tuple[str, int, int, int]]] = MappingProxyType(
    {
        PRODUCE: ("Produce", 3, 13, 9),
        FETCH: ("Fetch", 4, 18, 12),
        LIST_OFFSETS: ("ListOffsets", 1, 11, 6),
        METADATA: ("Metadata", 0, 13, 9),
        OFFSET_COMMIT: ("OffsetCommit", 2, 10, 8),
        OFFSET_FETCH: ("OffsetFetch", 1, 10, 6),
        FIND_COORDINATOR: ("FindCoordinator", 0, 6, 3),
        JOIN_GROUP: ("JoinGroup", 0, 9, 6),
        HEARTBEAT: ("Heartbeat", 0, 4, 4),
        LEAVE_GROUP: ("LeaveGroup", 0, 5, 4),
        SYNC_GROUP: ("SyncGroup", 0, 5, 4),
        DESCRIBE_GROUPS: ("DescribeGroups", 0, 6, 5),
        LIST_GROUPS: ("ListGroups", 0, 5, 3),
        API_VERSIONS: ("ApiVersions", 0, 5, 3),
        CREATE_TOPICS: ("CreateTopics", 2, 7, 5),
        DELETE_TOPICS: ("DeleteTopics", 1, 6, 4),
        DELETE_RECORDS: ("DeleteRecords", 0, 2, 2),
        INIT_PRODUCER_ID: ("InitProducerId", 0, 5, 2),
        OFFSET_FOR_LEADER_EPOCH: ("OffsetForLeaderEpoch", 2, 4, 4),
        DESCRIBE_CONFIGS: ("DescribeConfigs", 1, 4, 4),
        ALTER_CONFIGS: ("AlterConfigs", 0, 2, 2),
        DESCRIBE_LOG_DIRS: ("DescribeLogDirs", 1, 5, 2),
        CREATE_PARTITIONS: ("CreatePartitions", 0, 3, 2),
        DELETE_GROUPS: ("DeleteGroups", 0, 3, 2),
        ELECT_LEADERS: ("ElectLeaders", 0, 2, 2),
        INCREMENTAL_ALTER_CONFIGS: ("IncrementalAlterConfigs", 0, 1, 1),
        ALTER_PARTITION_REASSIGNMENTS: ("AlterPartitionReassignments", 0, 1, 0),
        LIST_PARTITION_REASSIGNMENTS: ("ListPartitionReassignments", 0, 0, 0),
        # No version is flexible (KIP-496).
        OFFSET_DELETE: ("OffsetDelete", 0, 0, 1),
        VOTE: ("Vote", 0, 2, 0),
        BEGIN_QUORUM_EPOCH: ("BeginQuorumEpoch", 0, 0, 1),
        END_QUORUM_EPOCH: ("EndQuorumEpoch", 0, 0, 1),
        DESCRIBE_QUORUM: ("DescribeQuorum", 0, 2, 0),
        ALTER_PARTITION: ("AlterPartition", 3, 3, 0),
        ENVELOPE: ("Envelope", 0, 0, 0),
        FETCH_SNAPSHOT: ("FetchSnapshot", 0, 1, 0),
        DESCRIBE_CLUSTER: ("DescribeCluster", 0, 2, 0),
        DESCRIBE_PRODUCERS: ("DescribeProducers", 0, 0, 0),
        BROKER_REGISTRATION: ("BrokerRegistration", 3, 4, 0),
        BROKER_HEARTBEAT: ("BrokerHeartbeat", 1, 1, 0),
        ALLOCATE_PRODUCER_IDS: ("AllocateProducerIds", 0, 0, 0),
        ASSIGN_REPLICAS_TO_DIRS: ("AssignReplicasToDirs", 0, 0, 0),
        DESCRIBE_TOPIC_PARTITIONS: ("DescribeTopicPartitions", 0, 0, 0),
        WRITE_TXN_MARKERS: ("WriteTxnMarkers", 1, 2, 0),
        UPDATE_FEATURES: ("UpdateFeatures", 0, 2, 0),
        SHARE_GROUP_HEARTBEAT: ("ShareGroupHeartbeat", 1, 1, 0),
        SHARE_GROUP_DESCRIBE: ("ShareGroupDescribe", 1, 1, 0),
        SHARE_FETCH: ("ShareFetch", 1, 2, 0),
        SHARE_ACKNOWLEDGE: ("ShareAcknowledge", 1, 2, 0),
        INITIALIZE_SHARE_GROUP_STATE: ("InitializeShareGroupState", 0, 0, 0),
        READ_SHARE_GROUP_STATE: ("ReadShareGroupState", 0, 0, 0),
        WRITE_SHARE_GROUP_STATE: ("WriteShareGroupState", 0, 1, 0),
        DELETE_SHARE_GROUP_STATE: ("DeleteShareGroupState", 0, 0, 0),
        READ_SHARE_GROUP_STATE_SUMMARY: ("ReadShareGroupStateSummary", 0, 1, 0),
        STREAMS_GROUP_HEARTBEAT: ("StreamsGroupHeartbeat", 0, 0, 0),
        STREAMS_GROUP_DESCRIBE: ("StreamsGroupDescribe", 0, 0, 0),
        DESCRIBE_SHARE_GROUP_OFFSETS: ("DescribeShareGroupOffsets", 0, 1, 0),
        ALTER_SHARE_GROUP_OFFSETS: ("AlterShareGroupOffsets", 0, 0, 0),
        DELETE_SHARE_GROUP_OFFSETS: ("DeleteShareGroupOffsets", 0, 0, 0),
        # No broker answers these here.
        CONTROLLER_REGISTRATION: ("ControllerRegistration", 0, 0, 0),
        GET_TELEMETRY_SUBSCRIPTIONS: ("GetTelemetrySubscriptions", 0, 0, 0),
        PUSH_TELEMETRY: ("PushTelemetry", 0, 0, 0),
        UPDATE_RAFT_VOTER: ("UpdateRaftVoter", 0, 0, 0),
        # Brokers refuse these, or answer that there is nothing (cluster/broker/apis/refusals.py).
        SASL_HANDSHAKE: ("SaslHandshake", 0, 1, 2),
        ADD_PARTITIONS_TO_TXN: ("AddPartitionsToTxn", 0, 5, 3),
        ADD_OFFSETS_TO_TXN: ("AddOffsetsToTxn", 0, 4, 3),
        END_TXN: ("EndTxn", 0, 5, 3),
        TXN_OFFSET_COMMIT: ("TxnOffsetCommit", 0, 6, 3),
        DESCRIBE_ACLS: ("DescribeAcls", 1, 3, 2),
        CREATE_ACLS: ("CreateAcls", 1, 3, 2),
        DELETE_ACLS: ("DeleteAcls", 1, 3, 2),
        ALTER_REPLICA_LOG_DIRS: ("AlterReplicaLogDirs", 1, 2, 2),
        SASL_AUTHENTICATE: ("SaslAuthenticate", 0, 2, 2),
        CREATE_DELEGATION_TOKEN: ("CreateDelegationToken", 1, 3, 2),
        RENEW_DELEGATION_TOKEN: ("RenewDelegationToken", 1, 2, 2),
        EXPIRE_DELEGATION_TOKEN: ("ExpireDelegationToken", 1, 2, 2),
        DESCRIBE_DELEGATION_TOKEN: ("DescribeDelegationToken", 1, 3, 2),
        DESCRIBE_CLIENT_QUOTAS: ("DescribeClientQuotas", 0, 1, 1),
        ALTER_CLIENT_QUOTAS: ("AlterClientQuotas", 0, 1, 1),
        DESCRIBE_USER_SCRAM_CREDENTIALS: ("DescribeUserScramCredentials", 0, 0, 0),
        ALTER_USER_SCRAM_CREDENTIALS: ("AlterUserScramCredentials", 0, 0, 0),
        UNREGISTER_BROKER: ("UnregisterBroker", 0, 0, 0),
        DESCRIBE_TRANSACTIONS: ("DescribeTransactions", 0, 0, 0),
        LIST_TRANSACTIONS: ("ListTransactions", 0, 2, 0),
        CONSUMER_GROUP_HEARTBEAT: ("ConsumerGroupHeartbeat", 0, 1, 0),
        CONSUMER_GROUP_DESCRIBE: ("ConsumerGroupDescribe", 0, 1, 0),
        LIST_CONFIG_RESOURCES: ("ListConfigResources", 0, 1, 0),
        ADD_RAFT_VOTER: ("AddRaftVoter", 0, 1, 0),
        REMOVE_RAFT_VOTER: ("RemoveRaftVoter", 0, 0, 0),
        LEADER_AND_ISR: ("LeaderAndIsr", 5, 5, 4),
        STOP_REPLICA: ("StopReplica", 3, 3, 2),
        UPDATE_METADATA: ("UpdateMetadata", 7, 7, 6),
        CONTROLLED_SHUTDOWN: ("ControlledShutdown", 3, 3, 3),
    }
)

VERSIONS: Final[Mapping[int, tuple[int, int]]] = MappingProxyType(
    {key: (low, high) for key, (_, low, high, _) in _APIS.items()}
)

LATEST_IN_KIO: Final[Mapping[int, int]] = {API_VERSIONS: 4, TXN_OFFSET_COMMIT: 5, DELETE_GROUPS: 2}
"""The highest versions in kio of APIs for which Kafka has a higher one."""
CONTROL_PLANE: Final = (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN)
"""Requests of the ZooKeeper era. Kafka 4 and kio have dropped them."""
_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {**{key: name for key, (name, *_) in _APIS.items()}, ZOOKEEPER: "ZooKeeper"}
)
_FIRST_FLEXIBLE: Final = {key: first for key, (*_, first) in _APIS.items()}
_KEYS: Final[Mapping[str, int]] = MappingProxyType({name: key for key, name in _NAMES.items()})


def api_name(key: int) -> str:
    """Return Kafka's name of an API key, or `api N` for an unknown key."""
    return _NAMES.get(key, f"api {key}")


def api_key(name: str) -> int:
    """Return the key of an API by Kafka's name.

    Raises:
        KeyError: if the name is unknown.
    """
    return _KEYS[name]


@lru_cache(1024)
def is_flexible(key: int, version: int) -> bool:
    """Return True if requests of this version have compact lengths, tagged fields and request header v2."""
    return version >= _FIRST_FLEXIBLE[key]


@lru_cache(1024)
def has_flexible_response_header(key: int, version: int) -> bool:
    """Return True if responses of this version have response header v1.

    ApiVersions always has v0, because the client does not know the broker's versions yet.
    """
    return key != API_VERSIONS and version >= _FIRST_FLEXIBLE[key]


OF_SHARE_STATE: Final = (
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    WRITE_SHARE_GROUP_STATE,
    DELETE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
)
"""Requests to a share coordinator."""
OF_NODES: Final = (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    CONTROLLED_SHUTDOWN,
    ALTER_PARTITION,
    *OF_SHARE_STATE,
)
"""Requests from brokers and controllers to brokers, except followers' Fetch. Source: ApiKeys.clusterAction

Their other requests go to controllers, which accept no requests from clients.
"""
GUARDED_WITHOUT_RULES: Final = frozenset((*OF_NODES, WRITE_TXN_MARKERS))
"""Requests that clients may not send to a broker even if it has no authorizer."""

FORWARDED: Final = (
    CREATE_TOPICS,
    DELETE_TOPICS,
    CREATE_PARTITIONS,
    ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    ELECT_LEADERS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_QUORUM,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_ACLS,
    DELETE_ACLS,
    UNREGISTER_BROKER,
    UPDATE_FEATURES,
    ADD_RAFT_VOTER,
    REMOVE_RAFT_VOTER,
)
"""Requests that a broker forwards to the controller (ApiKeys.forwardable)."""


# -------------------------------------------------------------------------------------------------------------- headers
#
# Request and response headers, and whole frames made of a header and a body.
#
#     frame = request_frame(METADATA, 12, correlation_id=7, client_id="p1", body=body)     # size prefix included
#
#     header = read_request_header(frame_without_prefix)
#     header.api_key, header.api_version, header.correlation_id, header.client_id
#     body = frame_without_prefix[header.body_position:]           # the decoders do this themselves
#
#     frame = response_frame(METADATA, 12, correlation_id=7, body=body)                     # size prefix included
#     response_correlation_id(frame_without_prefix)                # 7: find the request, and with it key and version
#     response_body_position(METADATA, 12, frame_without_prefix)
#
# Codecs of single APIs (`api_00_produce`, `api_01_fetch`, `cold`) call these; a core needs `read_request_header` to
# dispatch a request and `response_correlation_id` to match a response. Source: RequestHeader.json,
# ResponseHeader.json.

_REQUEST_START = Struct(">hhi")
_SIZE_AND_REQUEST_START = Struct(">ihhi")
_SIZE_AND_CORRELATION_ID = Struct(">ii")
_CORRELATION_ID = Struct(">i")


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """The header of a request. `body_position` is the position of the body in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


@decodes("a request header")
def read_request_header(frame: Frame) -> RequestHeader:
    """Decode the header of a request frame without size prefix.

    ApiVersions of any version is accepted (KIP-511), so that it can be answered with a version 0 body and
    UNSUPPORTED_VERSION; see api_18_api_versions.

    Raises:
        PeerViolation: if the header is malformed, or the API or version is not supported. Kafka closes the connection
            then.
    """
    key, version, correlation_id = _REQUEST_START.unpack_from(frame, 0)
    low, high = versions.VERSIONS.get(key, (0, -1))
    if not low <= version <= high and (key != versions.API_VERSIONS or version <= high):
        raise PeerViolation(f"{versions.api_name(key)} version {version} is not supported")
    # KIP-482: client_id keeps its 16-bit length in header v2 too; only a tagged section is added behind it.
    client_id, position = read_string(frame, 8, flexible=False)
    if versions.is_flexible(key, version):
        position = position + 1 if frame[position] == 0 else skip_tagged(frame, position)
    return RequestHeader(key, version, correlation_id, client_id, position)


def request_frame(api_key: int, version: int, correlation_id: int, client_id: str | None, body: bytes) -> bytes:
    """Return a whole request frame with its size prefix."""
    client = string(client_id, flexible=False)
    tags = NO_TAGS if versions.is_flexible(api_key, version) else b""
    size = 8 + len(client) + len(tags) + len(body)
    return b"".join((_SIZE_AND_REQUEST_START.pack(size, api_key, version, correlation_id), client, tags, body))


def response_frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """Return a whole response frame with its size prefix. `body` may be shared by several responses."""
    tags = NO_TAGS if versions.has_flexible_response_header(api_key, version) else b""
    return _SIZE_AND_CORRELATION_ID.pack(4 + len(tags) + len(body), correlation_id) + tags + body


def response_correlation_id(frame: Frame) -> int:
    """Return the correlation id of a response frame without size prefix.

    Raises:
        PeerViolation: if the frame is too short.
    """
    if len(frame) < _CORRELATION_ID.size:
        raise PeerViolation("a response header is cut short")
    correlation_id: int = _CORRELATION_ID.unpack_from(frame, 0)[0]
    return correlation_id


@decodes("a response header")
def _body_position(frame: Frame, flexible: bool) -> int:
    return skip_tagged(frame, 4) if flexible else 4


def response_body_position(api_key: int, version: int, frame: Frame) -> int:
    """Return the position of the body in a response frame without size prefix."""
    if frame[4:5] == NO_TAGS and versions.has_flexible_response_header(api_key, version):
        return 5  # the usual case
    return _body_position(frame, versions.has_flexible_response_header(api_key, version))
