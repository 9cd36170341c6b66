"""Guards, which authorize a request before it is handled: the whole request, some of its entries, or none.

The response states what was refused. Source: AuthHelper.scala, KafkaApis.scala
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from cluster.authorization.authorizer import Authorizer, Client
from cluster.config import BrokerConfig
from cluster.messages.refusals import error_values, topic_named
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
from controller.access import CLUSTER_NAME, Operation, ResourceType
from controller.image import MetadataImage
from replica.errors import ErrorCode

Values = dict[str, object]
"""The fields of a response, or of a structure in one."""
Amend = Callable[[Values], Values]

DENIED: Final[Mapping[ResourceType, ErrorCode]] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
NO_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A client's request to be authorized. `config` is the configuration of the node that authorizes it."""

    header: RequestHeader
    request: Entity
    client: Client
    authorizer: Authorizer
    config: BrokerConfig

    @property
    def image(self) -> MetadataImage:
        return self.authorizer.image

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        return self.authorizer.allows(self.client, operation, kind, name)

    def on_topic(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceType.TOPIC, name)

    def on_topic_of(self, operation: Operation, entity: Entity, field: str = "name") -> bool:
        """Return True if the operation is allowed on a topic that the request identifies by name or id.

        On an unknown id any operation is allowed, because the handler then reports that the topic is unknown.
        """
        name = str(getattr(entity, field)) if hasattr(entity, field) else self.image.topic_names.get(entity.topic_id)
        return name is None or self.on_topic(operation, name)

    def on_group(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceType.GROUP, name)

    def on_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def operations(self, kind: ResourceType, name: str = CLUSTER_NAME) -> int:
        return self.authorizer.operations(self.client, kind, name)

    def refusal(self, error: ErrorCode) -> Values:
        """Return a response that refuses the whole request."""
        return error_values(self.header, self.request, error)

    def passed(self, allowed: bool, error: ErrorCode) -> Verdict:
        """Return the verdict on a request that is either passed as a whole or refused."""
        return Passed(self.request) if allowed else self.refusal(error)


class Passed(NamedTuple):
    """A request without its refused entries, to be handled. `amend` changes the response; None for no change."""

    request: Entity
    amend: Amend | None = None

    def amended(self, change: Amend) -> Passed:
        """Return the request with one more change of its response, which is made before the existing one."""
        earlier = self.amend
        return Passed(self.request, change if earlier is None else lambda values: earlier(change(values)))


Verdict = Passed | Values
"""A request to be handled, or the fields of a response that refuses it."""
Guard = Callable[[Inquiry], Verdict]


def entries(asked: Inquiry, field: str, answers: str, denied: Callable[[Entity], Values | None]) -> Verdict:
    """Authorize each entry of a list in the request; the response has an entry for each, too.

    Args:
        field: name of the list in the request.
        answers: name of the list in the response.
        denied: returns the response's entry for a refused entry, None for an allowed one.
    """
    refusals: list[Values] = []
    allowed: list[Entity] = []
    for item in getattr(asked.request, field):
        refused = denied(item)
        if refused is None:
            allowed.append(item)
        else:
            refusals.append(refused)
    if not refusals:
        return Passed(asked.request)
    if not allowed:
        return {answers: refusals}
    fields: Values = {field: tuple(allowed)}
    return Passed(replace(asked.request, **fields), lambda values: with_more(values, answers, refusals))


def with_more(values: Values, answers: str, refusals: Sequence[Values]) -> Values:
    return {**values, answers: [*listed(values, answers), *refusals]}


def listed(values: Values, answers: str) -> list[Values]:
    """Return the structures in a response's field `answers`; an empty list if the field is absent."""
    found = values.get(answers) or ()
    assert isinstance(found, Iterable), "the field is not a list"
    return list(found)


def by_topic(
    operation: Operation,
    *,
    topic: str = "name",
    partitions: str = "partitions",
    number: str = "partition_index",
    empty: Mapping[str, object] | None = None,
) -> Guard:
    """Return a guard that requires an operation on each topic. Each partition of a refused topic gets the error.

    Args:
        topic, partitions, number: names of fields.
        empty: other fields of a partition's response.
    """

    def guard(asked: Inquiry) -> Verdict:
        def denied(entity: Entity) -> Values | None:
            if asked.on_topic_of(operation, entity, topic):
                return None
            numbers = (getattr(part, number, part) for part in getattr(entity, partitions))
            fields = {"error_code": NO_TOPIC, **(empty or {})}
            return {**topic_named(entity, topic), "partitions": [{number: int(item), **fields} for item in numbers]}

        return entries(asked, "topics", "topics", denied)

    return guard


def on_cluster(operation: Operation) -> Guard:
    """Return a guard that requires an operation on the cluster, for the whole request."""

    def guard(asked: Inquiry) -> Verdict:
        return asked.passed(asked.on_cluster(operation), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return guard


def needs(operation: Operation, kind: ResourceType, field: str, then: Guard | None = None) -> Guard:
    """Return a guard that requires an operation on the resource in `field`, then applies the guard `then`."""

    def guard(asked: Inquiry) -> Verdict:
        if not asked.may(operation, kind, str(getattr(asked.request, field))):
            return asked.refusal(DENIED[kind])
        return Passed(asked.request) if then is None else then(asked)

    return guard
