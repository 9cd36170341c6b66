"""APIs that a broker of the era offers and that do nothing here: each is refused, or answered that there is nothing.

Clients tell a broker's release by the APIs it offers, so they are offered. What Kafka answers where the feature is off
(no authorizer, no SASL listener, no share groups) is answered here, too; the rest is refused as UNSUPPORTED_VERSION.
Differs from Kafka, which has transactions, KIP-848's consumer groups, quotas, SCRAM and moves between log directories.
source: KafkaApis.scala, AclApis.scala
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from cluster.broker.metadata.follower import MetadataCache
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol import versions as v
from cluster.protocol.entities import Entity
from cluster.protocol.headers import RequestHeader
from cluster.server.responder import Handler, Responder
from replica.errors import ErrorCode

Values = dict[str, object]
Refusal = Callable[[Entity], Values]

ABSENT: Final = ErrorCode.UNSUPPORTED_VERSION
NO_SASL: Final = {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": "no listener here uses SASL"}
NO_AUTHORIZER: Final = {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": "No Authorizer is configured."}
NO_TOKENS: Final = {"error_code": ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
NOT_HERE: Final = {"error_code": ABSENT, "error_message": "this is not implemented here"}
NOTHING: Final = {"error_code": ErrorCode.NONE}
TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
"""ConfigResource.Type: those that there are any of here."""


def _always(values: Mapping[str, object]) -> Refusal:
    return lambda request: dict(values)


def _each(answers: str, asked: str, values: Mapping[str, object], **names: str) -> Refusal:
    """One entry per entry of the request; names: field of the answer -> field of what is asked, or "" for itself"""

    def refuse(request: Entity) -> Values:
        return {answers: [{**values, **_named(one, names)} for one in getattr(request, asked)]}

    return refuse


def _named(one: Entity, names: Mapping[str, str]) -> Values:
    return {ours: getattr(one, theirs) if theirs else one for ours, theirs in names.items()}


def _partitions(answers: str, values: Mapping[str, object], topic: Mapping[str, str], number: str) -> Refusal:
    """By topic and partition. number: field of a partition, in the request and in the answer"""

    def refuse(request: Entity) -> Values:
        return {
            answers: [
                {
                    **_named(one, topic),
                    "partitions": [{**values, number: getattr(part, number)} for part in one.partitions],
                }
                for one in request.topics
            ]
        }

    return refuse


def _moves(request: Entity) -> Values:
    topics = [topic for directory in request.dirs for topic in directory.topics]
    return {
        "results": [
            {
                "topic_name": topic.name,
                "partitions": [{"partition_index": number, "error_code": ABSENT} for number in topic.partitions],
            }
            for topic in topics
        ]
    }


def _added_partitions(request: Entity) -> Values:
    def refused(topics: tuple[Entity, ...]) -> list[Values]:
        return [
            {
                "name": topic.name,
                "results_by_partition": [
                    {"partition_index": number, "partition_error_code": ABSENT} for number in topic.partitions
                ],
            }
            for topic in topics
        ]

    if hasattr(request, "transactions"):
        found = [
            {"transactional_id": one.transactional_id, "topic_results": refused(one.topics)}
            for one in request.transactions
        ]
        return {"results_by_transaction": found}
    return {"results_by_topic_v3_and_below": refused(request.v3_and_below_topics)}


def _scram_changes(request: Entity) -> Values:
    names = dict.fromkeys(str(one.name) for one in (*request.deletions, *request.upsertions))
    return {"results": [{"user": name, **NOT_HERE} for name in names]}


def _scram_users(request: Entity) -> Values:
    unknown = {"error_code": ErrorCode.RESOURCE_NOT_FOUND, "error_message": "there are no SCRAM credentials here"}
    return {"results": [{"user": user.name, **unknown} for user in request.users or ()]}


def _quota_changes(request: Entity) -> Values:
    def entity(entry: Entity) -> list[Values]:
        return [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]

    return {"entries": [{**NOT_HERE, "entity": entity(entry)} for entry in request.entries]}


def _consumer_groups(request: Entity) -> Values:
    """Every group is a classic one."""
    return {
        "groups": [
            {
                "group_id": group,
                "error_code": ErrorCode.GROUP_ID_NOT_FOUND,
                "error_message": f"Group {group} is not a consumer group.",
            }
            for group in request.group_ids
        ]
    }


_STATE = {"topic_id": "topic_id"}
_REFUSALS: Final[Mapping[int, Refusal]] = {
    v.SASL_HANDSHAKE: _always({"error_code": ErrorCode.ILLEGAL_SASL_STATE}),
    v.SASL_AUTHENTICATE: _always(NO_SASL),
    v.ADD_PARTITIONS_TO_TXN: _added_partitions,
    v.ADD_OFFSETS_TO_TXN: _always({"error_code": ABSENT}),
    v.END_TXN: _always({"error_code": ABSENT}),
    v.TXN_OFFSET_COMMIT: _partitions("topics", {"error_code": ABSENT}, {"name": "name"}, "partition_index"),
    v.LIST_TRANSACTIONS: _always(NOTHING),
    v.DESCRIBE_TRANSACTIONS: _each(
        "transaction_states",
        "transactional_ids",
        {"error_code": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND},
        transactional_id="",
    ),
    v.DESCRIBE_ACLS: _always(NO_AUTHORIZER),
    v.CREATE_ACLS: _each("results", "creations", NO_AUTHORIZER),
    v.DELETE_ACLS: _each("filter_results", "filters", NO_AUTHORIZER),
    v.CREATE_DELEGATION_TOKEN: _always(NO_TOKENS),
    v.RENEW_DELEGATION_TOKEN: _always(NO_TOKENS),
    v.EXPIRE_DELEGATION_TOKEN: _always(NO_TOKENS),
    v.DESCRIBE_DELEGATION_TOKEN: _always(NO_TOKENS),
    v.ALTER_REPLICA_LOG_DIRS: _moves,
    v.DESCRIBE_CLIENT_QUOTAS: _always({**NOTHING, "entries": ()}),
    v.ALTER_CLIENT_QUOTAS: _quota_changes,
    v.DESCRIBE_USER_SCRAM_CREDENTIALS: _scram_users,
    v.ALTER_USER_SCRAM_CREDENTIALS: _scram_changes,
    v.UNREGISTER_BROKER: _always(NOT_HERE),
    v.ADD_RAFT_VOTER: _always(NOT_HERE),
    v.REMOVE_RAFT_VOTER: _always(NOT_HERE),
    v.CONSUMER_GROUP_HEARTBEAT: _always(NOT_HERE),
    v.CONSUMER_GROUP_DESCRIBE: _consumer_groups,
    v.SHARE_GROUP_HEARTBEAT: _always(NOT_HERE),
    v.SHARE_GROUP_DESCRIBE: _each("groups", "group_ids", NOT_HERE, group_id=""),
    v.SHARE_FETCH: _always(NOT_HERE),
    v.SHARE_ACKNOWLEDGE: _always(NOT_HERE),
    v.INITIALIZE_SHARE_GROUP_STATE: _partitions("results", NOT_HERE, _STATE, "partition"),
    v.READ_SHARE_GROUP_STATE: _partitions("results", NOT_HERE, _STATE, "partition"),
    v.WRITE_SHARE_GROUP_STATE: _partitions("results", NOT_HERE, _STATE, "partition"),
    v.DELETE_SHARE_GROUP_STATE: _partitions("results", NOT_HERE, _STATE, "partition"),
    v.READ_SHARE_GROUP_STATE_SUMMARY: _partitions("results", NOT_HERE, _STATE, "partition"),
    v.DESCRIBE_SHARE_GROUP_OFFSETS: _each("groups", "groups", NOT_HERE, group_id="group_id"),
    v.ALTER_SHARE_GROUP_OFFSETS: _always(NOT_HERE),
    v.DELETE_SHARE_GROUP_OFFSETS: _always(NOT_HERE),
}


class AbsentApis:
    """`handlers` by API key."""

    def __init__(self, cache: MetadataCache, responder: Responder) -> None:
        self._cache = cache
        self._answer = responder.answer
        self.handlers: Mapping[int, Handler] = {
            **{key: partial(self._refuse, refusal) for key, refusal in _REFUSALS.items()},
            v.LIST_CONFIG_RESOURCES: self._list_config_resources,
        }

    def _refuse(
        self,
        refusal: Refusal,
        connection: ConnectionId,
        peer: str,
        header: RequestHeader,
        frame: bytearray,
        now_us: int,
    ) -> None:
        self._answer(connection, header, **refusal(cold.decode_request(header, frame)))

    def _list_config_resources(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        """Version 0 asks for client metrics, which there are none of. source: handleListConfigResources"""
        request = cold.decode_request(header, frame)
        wanted = getattr(request, "resource_types", None)
        image = self._cache.image
        brokers = [str(broker) for broker in sorted(image.brokers)]
        there = {TOPIC: sorted(image.topics), BROKER: brokers, BROKER_LOGGER: brokers}
        types = () if wanted is None else wanted or tuple(there)
        found = [
            {"resource_type": kind, "resource_name": name}
            for kind in sorted(set(types))
            for name in there.get(kind, ())
        ]
        self._answer(connection, header, error_code=ErrorCode.NONE, config_resources=found)
