"""The guard of each API that clients may use, by API key. Source: KafkaApis.scala, ControllerApis.scala

Produce, Fetch, ShareFetch and ShareAcknowledge check their partitions themselves, with `Access`, because each partition
has its own result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.authorization import admin_guards as admin
from cluster.authorization import group_guards as groups
from cluster.authorization import topic_guards as topics
from cluster.authorization import transaction_guards as transactions
from cluster.authorization.authorizer import Access, Authorizer, Client
from cluster.authorization.guard import Guard, Inquiry, Passed, Verdict, by_topic, on_cluster
from cluster.config import BrokerConfig
from cluster.messages.refusals import error_values
from cluster.protocol import versions
from cluster.protocol.entities import Entity
from cluster.protocol.versions import FORWARDED, RequestHeader
from cluster.server.responder import Call, Responder
from controller.access import Operation
from replica.errors import ErrorCode

_NO_OFFSET: Final = {"timestamp": -1, "offset": -1, "leader_epoch": -1}
_NO_EPOCH: Final = {"leader_epoch": -1, "end_offset": -1}
_epochs: Final = by_topic(Operation.DESCRIBE, topic="topic", number="partition", empty=_NO_EPOCH)


def _offset_for_leader_epoch(asked: Inquiry) -> Verdict:
    return Passed(asked.request) if asked.on_cluster(Operation.CLUSTER_ACTION) else _epochs(asked)


GUARDS: Final[Mapping[int, Guard]] = {
    **dict.fromkeys(versions.OF_NODES, on_cluster(Operation.CLUSTER_ACTION)),
    versions.LIST_OFFSETS: by_topic(Operation.DESCRIBE, empty=_NO_OFFSET),
    versions.METADATA: topics.metadata,
    versions.OFFSET_COMMIT: groups.offset_commit,
    versions.OFFSET_FETCH: groups.offset_fetch,
    versions.FIND_COORDINATOR: groups.find_coordinator,
    versions.JOIN_GROUP: groups.member,
    versions.HEARTBEAT: groups.member,
    versions.LEAVE_GROUP: groups.member,
    versions.SYNC_GROUP: groups.member,
    versions.DESCRIBE_GROUPS: groups.describe_groups,
    versions.LIST_GROUPS: groups.list_groups,
    versions.CREATE_TOPICS: admin.create_topics,
    versions.DELETE_TOPICS: admin.delete_topics,
    versions.DELETE_RECORDS: by_topic(Operation.DELETE, empty={"low_watermark": -1}),
    versions.INIT_PRODUCER_ID: transactions.init_producer_id,
    versions.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    versions.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
    versions.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
    versions.END_TXN: transactions.end_txn,
    versions.WRITE_TXN_MARKERS: transactions.write_txn_markers,
    versions.TXN_OFFSET_COMMIT: transactions.txn_offset_commit,
    versions.DESCRIBE_ACLS: on_cluster(Operation.DESCRIBE),
    versions.CREATE_ACLS: on_cluster(Operation.ALTER),
    versions.DELETE_ACLS: on_cluster(Operation.ALTER),
    versions.DESCRIBE_CONFIGS: admin.configs(Operation.DESCRIBE_CONFIGS, "results"),
    versions.ALTER_CONFIGS: admin.configs(Operation.ALTER_CONFIGS, "responses"),
    versions.ALTER_REPLICA_LOG_DIRS: on_cluster(Operation.ALTER),
    versions.DESCRIBE_LOG_DIRS: on_cluster(Operation.DESCRIBE),
    versions.CREATE_PARTITIONS: admin.create_partitions,
    versions.DELETE_GROUPS: groups.delete_groups,
    versions.ELECT_LEADERS: on_cluster(Operation.ALTER),
    versions.INCREMENTAL_ALTER_CONFIGS: admin.configs(Operation.ALTER_CONFIGS, "responses"),
    versions.ALTER_PARTITION_REASSIGNMENTS: on_cluster(Operation.ALTER),
    versions.LIST_PARTITION_REASSIGNMENTS: on_cluster(Operation.DESCRIBE),
    versions.OFFSET_DELETE: groups.offset_delete,
    versions.DESCRIBE_CLIENT_QUOTAS: on_cluster(Operation.DESCRIBE_CONFIGS),
    versions.ALTER_CLIENT_QUOTAS: on_cluster(Operation.ALTER_CONFIGS),
    versions.DESCRIBE_USER_SCRAM_CREDENTIALS: on_cluster(Operation.DESCRIBE),
    versions.ALTER_USER_SCRAM_CREDENTIALS: on_cluster(Operation.ALTER),
    versions.DESCRIBE_QUORUM: on_cluster(Operation.DESCRIBE),
    versions.UPDATE_FEATURES: on_cluster(Operation.ALTER),
    versions.DESCRIBE_CLUSTER: topics.describe_cluster,
    versions.DESCRIBE_PRODUCERS: by_topic(Operation.READ, partitions="partition_indexes"),
    versions.UNREGISTER_BROKER: on_cluster(Operation.ALTER),
    versions.DESCRIBE_TRANSACTIONS: transactions.describe_transactions,
    versions.LIST_TRANSACTIONS: transactions.list_transactions,
    versions.CONSUMER_GROUP_HEARTBEAT: groups.consumer_group_heartbeat,
    versions.CONSUMER_GROUP_DESCRIBE: groups.consumer_group_describe,
    versions.SHARE_GROUP_HEARTBEAT: groups.consumer_group_heartbeat,
    versions.SHARE_GROUP_DESCRIBE: groups.consumer_group_describe,
    versions.STREAMS_GROUP_HEARTBEAT: groups.streams_group_heartbeat,
    versions.STREAMS_GROUP_DESCRIBE: groups.streams_group_describe,
    versions.SHARE_FETCH: groups.member,
    versions.SHARE_ACKNOWLEDGE: groups.member,
    versions.DESCRIBE_SHARE_GROUP_OFFSETS: groups.describe_share_group_offsets,
    versions.ALTER_SHARE_GROUP_OFFSETS: groups.alter_share_group_offsets,
    versions.DELETE_SHARE_GROUP_OFFSETS: groups.delete_share_group_offsets,
    versions.LIST_CONFIG_RESOURCES: on_cluster(Operation.DESCRIBE_CONFIGS),
    versions.DESCRIBE_TOPIC_PARTITIONS: topics.describe_topic_partitions,
    versions.ADD_RAFT_VOTER: on_cluster(Operation.ALTER),
    versions.REMOVE_RAFT_VOTER: on_cluster(Operation.ALTER),
}


def verdict_of(
    header: RequestHeader, request: Entity, client: Client, authorizer: Authorizer, config: BrokerConfig
) -> Verdict:
    guard = GUARDS.get(header.api_key)
    return Passed(request) if guard is None else guard(Inquiry(header, request, client, authorizer, config))


class Guards:
    """The guards of one broker. The controller authorizes forwarded requests.

    Attributes:
        keys: APIs whose requests are authorized here.
    """

    def __init__(self, access: Access, responder: Responder, config: BrokerConfig) -> None:
        self._access = access
        self._responder = responder
        self._config = config
        looked_at = versions.GUARDED_WITHOUT_RULES if access.authorizer is None else GUARDS
        self.keys = frozenset(key for key in looked_at if key not in FORWARDED)

    def passed(self, call: Call) -> Call | None:
        """Return the allowed part of a request. If nothing is allowed, respond and return None.

        Raises:
            PeerViolation: if the request is malformed.
        """
        header = call.header
        client, authorizer = self._access.client(call.connection), self._access.authorizer
        if client is None or header.api_key not in self.keys:
            return call
        request = call.decoded()
        if authorizer is None:
            verdict = _without_rules(header, request)
        else:
            verdict = verdict_of(header, request, client, authorizer, self._config)
        if not isinstance(verdict, Passed):
            self._responder.answer(call, **verdict)
            return None
        if verdict.amend is not None:
            self._responder.amend(call.connection, verdict.amend)
        return call if verdict.request is request else call.of(verdict.request)


def _without_rules(header: RequestHeader, request: Entity) -> Verdict:
    """Decide on a request if there is no authorizer: only markers that abort a hanging transaction pass (KIP-664).

    `Access` says how this differs from Kafka.
    """
    if header.api_key == versions.WRITE_TXN_MARKERS and not any(
        marker.transaction_result for marker in request.markers
    ):
        return Passed(request)
    return error_values(header, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
