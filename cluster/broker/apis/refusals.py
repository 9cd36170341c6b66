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

from cluster.broker.apis.api import BrokerParts, Values
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
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
