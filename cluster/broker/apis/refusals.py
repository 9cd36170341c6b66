"""Error responses of APIs that brokers offer, but do not implement or have disabled.

They are offered because clients infer a broker's release from its APIs. If the feature is disabled (no authorizer, no
SASL listener, share.version 0), the response is that of Kafka; otherwise it is UNSUPPORTED_VERSION.

Differs from Kafka, which has delegation tokens.
Source: KafkaApis.scala, AclApis.scala
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve, Values
from cluster.protocol import versions
from cluster.protocol.entities import Entity
from cluster.server.responder import Call, Handler
from replica.errors import ErrorCode

Refusal = Callable[[Entity], Values]
"""Returns the fields of the response to a request that is refused."""
ABSENT: Final = ErrorCode.UNSUPPORTED_VERSION
NOT_HERE: Final = {"error_code": ABSENT, "error_message": "this broker does not implement this API"}
NO_AUTHORIZER: Final = {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": "No Authorizer is configured."}
NO_TOKENS: Final = {"error_code": ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
NO_SHARES: Final = {"error_code": ABSENT, "error_message": "The version of API is not supported."}
NOTHING: Final = {"error_code": ErrorCode.NONE}


@dataclass(frozen=True, slots=True)
class Refused:
    """A callable that creates the handler of an API in a broker: one that refuses every request with `refusal`."""

    refusal: Refusal

    def __call__(self, broker: BrokerParts) -> Handler:
        def refuse(call: Call) -> None:
            broker.responder.answer(call, **self.refusal(call.decoded()))

        return refuse


def always(values: Mapping[str, object]) -> Refusal:
    return lambda request: dict(values)


def each(answers: str, asked: str, values: Mapping[str, object], **names: str) -> Refusal:
    """Return a function that builds the response to a refused request, with an entry for each entry of the request.

    Args:
        answers: name of the array in the response.
        asked: name of the array in the request.
        values: fields that all entries of the response have.
        names: for each copied field of a response's entry, that of the request's entry; "" copies the entry itself.
    """

    def refuse(request: Entity) -> Values:
        return {answers: [{**values, **_named(item, names)} for item in getattr(request, asked)]}

    return refuse


def _named(entity: Entity, names: Mapping[str, str]) -> Values:
    return {field: getattr(entity, asked) if asked else entity for field, asked in names.items()}


def by_partition(answers: str, values: Mapping[str, object], topic: Mapping[str, str], number: str) -> Refusal:
    """Return a function that builds the response to a refused request, with an entry for each topic and partition.

    Args:
        answers: name of the array of topics in the response.
        values: fields that all partitions of the response have.
        topic: fields to copy from the request's topics, as `names` of `each`.
        number: name of the field with a partition's number, in request and response.
    """

    def refuse(request: Entity) -> Values:
        return {
            answers: [
                {
                    **_named(item, topic),
                    "partitions": [{**values, number: getattr(part, number)} for part in item.partitions],
                }
                for item in request.topics
            ]
        }

    return refuse


APIS: Final[Mapping[int, Serve]] = {
    # CreateDelegationToken (38): create a token that a client can use instead of a password (KIP-48).
    # There are no tokens on a listener without authentication, here as in Kafka.
    #   1  a throttled client gets its response before the delay (KIP-219): the oldest version that Kafka 4 accepts
    #   2  flexible
    #   3  a token for another owner (KIP-373)
    versions.CREATE_DELEGATION_TOKEN: Refused(always(NO_TOKENS)),
    # RenewDelegationToken (39): extend the lifetime of a token (KIP-48).
    # There are no tokens on a listener without authentication, here as in Kafka.
    #   1  a throttled client gets its response before the delay (KIP-219): the oldest version that Kafka 4 accepts
    #   2  flexible
    versions.RENEW_DELEGATION_TOKEN: Refused(always(NO_TOKENS)),
    # ExpireDelegationToken (40): shorten the lifetime of a token (KIP-48).
    # There are no tokens on a listener without authentication, here as in Kafka.
    #   1  a throttled client gets its response before the delay (KIP-219): the oldest version that Kafka 4 accepts
    #   2  flexible
    versions.EXPIRE_DELEGATION_TOKEN: Refused(always(NO_TOKENS)),
    # DescribeDelegationToken (41): the tokens of some owners (KIP-48).
    # There are no tokens on a listener without authentication, here as in Kafka.
    #   1  a throttled client gets its response before the delay (KIP-219): the oldest version that Kafka 4 accepts
    #   2  flexible
    #   3  who asked for each token (KIP-373)
    versions.DESCRIBE_DELEGATION_TOKEN: Refused(always(NO_TOKENS)),
}

_BY_PARTITION: Final = Refused(by_partition("results", NO_SHARES, {"topic_id": "topic_id"}, "partition"))
WITHOUT_SHARES: Final[Mapping[int, Refused]] = {
    versions.SHARE_GROUP_HEARTBEAT: Refused(always(NO_SHARES)),
    versions.SHARE_GROUP_DESCRIBE: Refused(each("groups", "group_ids", NO_SHARES, group_id="")),
    versions.SHARE_FETCH: Refused(always(NO_SHARES)),
    versions.SHARE_ACKNOWLEDGE: Refused(always(NO_SHARES)),
    versions.INITIALIZE_SHARE_GROUP_STATE: _BY_PARTITION,
    versions.READ_SHARE_GROUP_STATE: _BY_PARTITION,
    versions.WRITE_SHARE_GROUP_STATE: _BY_PARTITION,
    versions.DELETE_SHARE_GROUP_STATE: _BY_PARTITION,
    versions.READ_SHARE_GROUP_STATE_SUMMARY: _BY_PARTITION,
    versions.DESCRIBE_SHARE_GROUP_OFFSETS: Refused(each("groups", "groups", NO_SHARES, group_id="group_id")),
    versions.ALTER_SHARE_GROUP_OFFSETS: Refused(always(NO_SHARES)),
    versions.DELETE_SHARE_GROUP_OFFSETS: Refused(always(NO_SHARES)),
}
"""Creators of the handlers that refuse the share group APIs while share.version is 0, by API key."""
