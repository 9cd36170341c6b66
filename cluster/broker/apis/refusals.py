"""APIs that a broker of the era offers and that do nothing here: each is refused, or answered that there is nothing.

Clients know a broker's release by the APIs it offers, so they are offered. Where the feature is off (no authorizer,
no SASL listener, no share groups) the answer is Kafka's; the rest is refused as UNSUPPORTED_VERSION.
Differs from Kafka, which has delegation tokens and share groups.
source: KafkaApis.scala, AclApis.scala
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve, Values
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import (
    ADD_RAFT_VOTER,
    ALTER_SHARE_GROUP_OFFSETS,
    CREATE_DELEGATION_TOKEN,
    DELETE_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_STATE,
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    EXPIRE_DELEGATION_TOKEN,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    REMOVE_RAFT_VOTER,
    RENEW_DELEGATION_TOKEN,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_DESCRIBE,
    SHARE_GROUP_HEARTBEAT,
    WRITE_SHARE_GROUP_STATE,
    RequestHeader,
)
from cluster.server.responder import Handler
from replica.errors import ErrorCode

Refusal = Callable[[Entity], Values]
"""Fields of the answer to a request."""
ABSENT: Final = ErrorCode.UNSUPPORTED_VERSION
NOT_HERE: Final = {"error_code": ABSENT, "error_message": "this is not implemented here"}
NO_AUTHORIZER: Final = {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": "No Authorizer is configured."}
NO_TOKENS: Final = {"error_code": ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
NOTHING: Final = {"error_code": ErrorCode.NONE}


@dataclass(frozen=True, slots=True)
class Refused:
    """`serve` of an API that does nothing here."""

    refusal: Refusal

    def __call__(self, broker: BrokerParts) -> Handler:
        def refuse(connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int) -> None:
            broker.responder.answer(connection, header, **self.refusal(cold.decode_request(header, frame)))

        return refuse


def always(values: Mapping[str, object]) -> Refusal:
    return lambda request: dict(values)


def each(answers: str, asked: str, values: Mapping[str, object], **names: str) -> Refusal:
    """One entry per entry of the request; names: field of the answer -> field of what is asked, or "" for itself"""

    def refuse(request: Entity) -> Values:
        return {answers: [{**values, **_named(one, names)} for one in getattr(request, asked)]}

    return refuse


def _named(one: Entity, names: Mapping[str, str]) -> Values:
    return {ours: getattr(one, theirs) if theirs else one for ours, theirs in names.items()}


def by_partition(answers: str, values: Mapping[str, object], topic: Mapping[str, str], number: str) -> Refusal:
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


APIS: Final[Mapping[int, Serve]] = {
    # CreateDelegationToken (38): a token in place of a password (KIP-48).
    # There are no tokens on a listener without authentication, here as in Kafka.
    #   1  a throttled client is answered first and held back then (KIP-219): the oldest version that Kafka 4 takes
    #   2  flexible
    #   3  a token for another owner (KIP-373)
    CREATE_DELEGATION_TOKEN: Refused(always(NO_TOKENS)),
    # RenewDelegationToken (39): a token lives longer (KIP-48).
    # There are no tokens on a listener without authentication, here as in Kafka.
    #   1  a throttled client is answered first and held back then (KIP-219): the oldest version that Kafka 4 takes
    #   2  flexible
    RENEW_DELEGATION_TOKEN: Refused(always(NO_TOKENS)),
    # ExpireDelegationToken (40): a token ends sooner (KIP-48).
    # There are no tokens on a listener without authentication, here as in Kafka.
    #   1  a throttled client is answered first and held back then (KIP-219): the oldest version that Kafka 4 takes
    #   2  flexible
    EXPIRE_DELEGATION_TOKEN: Refused(always(NO_TOKENS)),
    # DescribeDelegationToken (41): the tokens of some owners (KIP-48).
    # There are no tokens on a listener without authentication, here as in Kafka.
    #   1  a throttled client is answered first and held back then (KIP-219): the oldest version that Kafka 4 takes
    #   2  flexible
    #   3  who asked for each token (KIP-373)
    DESCRIBE_DELEGATION_TOKEN: Refused(always(NO_TOKENS)),
    # ShareGroupHeartbeat (76): a member of a share group lives (KIP-932). Not implemented here.
    #   1  the first that Kafka keeps: version 0 was for early access in 4.0
    SHARE_GROUP_HEARTBEAT: Refused(always(NOT_HERE)),
    # ShareGroupDescribe (77): share groups and their members (KIP-932). Not implemented here.
    #   1  the first that Kafka keeps: version 0 was for early access in 4.0
    SHARE_GROUP_DESCRIBE: Refused(each("groups", "group_ids", NOT_HERE, group_id="")),
    # ShareFetch (78): records for a member of a share group (KIP-932). Not implemented here.
    #   1  the first that Kafka keeps: version 0 was for early access in 4.0
    SHARE_FETCH: Refused(always(NOT_HERE)),
    # ShareAcknowledge (79): a member of a share group is done with records (KIP-932). Not implemented here.
    #   1  the first that Kafka keeps: version 0 was for early access in 4.0
    SHARE_ACKNOWLEDGE: Refused(always(NOT_HERE)),
    # AddRaftVoter (80): the quorum gets one more controller (KIP-853). Not implemented here.
    #   0  the only version
    ADD_RAFT_VOTER: Refused(always(NOT_HERE)),
    # RemoveRaftVoter (81): the quorum loses a controller (KIP-853). Not implemented here.
    #   0  the only version
    REMOVE_RAFT_VOTER: Refused(always(NOT_HERE)),
    # InitializeShareGroupState (83): a share group begins with partitions (KIP-932). Not implemented here.
    #   0  the only version
    INITIALIZE_SHARE_GROUP_STATE: Refused(by_partition("results", NOT_HERE, {"topic_id": "topic_id"}, "partition")),
    # ReadShareGroupState (84): how far a share group has come (KIP-932). Not implemented here.
    #   0  the only version
    READ_SHARE_GROUP_STATE: Refused(by_partition("results", NOT_HERE, {"topic_id": "topic_id"}, "partition")),
    # WriteShareGroupState (85): keep how far a share group has come (KIP-932). Not implemented here.
    #   0  the only version
    WRITE_SHARE_GROUP_STATE: Refused(by_partition("results", NOT_HERE, {"topic_id": "topic_id"}, "partition")),
    # DeleteShareGroupState (86): forget a share group's partitions (KIP-932). Not implemented here.
    #   0  the only version
    DELETE_SHARE_GROUP_STATE: Refused(by_partition("results", NOT_HERE, {"topic_id": "topic_id"}, "partition")),
    # ReadShareGroupStateSummary (87): where a share group begins to read (KIP-932). Not implemented here.
    #   0  the only version
    READ_SHARE_GROUP_STATE_SUMMARY: Refused(by_partition("results", NOT_HERE, {"topic_id": "topic_id"}, "partition")),
    # DescribeShareGroupOffsets (90): where share groups begin to read (KIP-932). Not implemented here.
    #   0  the only version
    DESCRIBE_SHARE_GROUP_OFFSETS: Refused(each("groups", "groups", NOT_HERE, group_id="group_id")),
    # AlterShareGroupOffsets (91): set where a share group begins to read (KIP-932). Not implemented here.
    #   0  the only version
    ALTER_SHARE_GROUP_OFFSETS: Refused(always(NOT_HERE)),
    # DeleteShareGroupOffsets (92): forget where a share group begins to read (KIP-932). Not implemented here.
    #   0  the only version
    DELETE_SHARE_GROUP_OFFSETS: Refused(always(NOT_HERE)),
}
