"""A guard looks at one request before it is handled: it passes as it is, without some of its parts, or not at all.

The answer says what was left out. source: AuthHelper.scala, KafkaApis.scala
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from cluster.authorization.authorizer import Authorizer, Client
from cluster.config import BrokerConfig
from cluster.messages.refusals import error_values
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
from controller.access import CLUSTER_NAME, Operation, ResourceType
from controller.image import MetadataImage
from replica.errors import ErrorCode

Values = dict[str, object]
"""The fields of an answer, or of a structure in one."""
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
    """One request of a client.     config: of the node that looks at it"""

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

    def on_group(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceType.GROUP, name)

    def on_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def operations(self, kind: ResourceType, name: str = CLUSTER_NAME) -> int:
        return self.authorizer.operations(self.client, kind, name)

    def refusal(self, error: ErrorCode) -> Values:
        """The whole answer is this error."""
        return error_values(self.header, self.request, error)


class Passed(NamedTuple):
    """request: what is to be handled     amend: makes the answer to all that was asked; None: it is that already"""

    request: Entity
    amend: Amend | None = None


Verdict = Passed | Values
"""Values: the answer; there is nothing to handle."""
Guard = Callable[[Inquiry], Verdict]


def entries(asked: Inquiry, field: str, answers: str, denied: Callable[[Entity], Values | None]) -> Verdict:
    """A request with a list, answered by a list.     denied: the answer about one entry; None: it is allowed"""
    told: list[Values] = []
    allowed: list[Entity] = []
    for one in getattr(asked.request, field):
        refused = denied(one)
        if refused is None:
            allowed.append(one)
        else:
            told.append(refused)
    if not told:
        return Passed(asked.request)
    if not allowed:
        return {answers: told}
    fields: Values = {field: tuple(allowed)}
    return Passed(replace(asked.request, **fields), lambda values: with_more(values, answers, told))


def with_more(values: Values, answers: str, told: Sequence[Values]) -> Values:
    return {**values, answers: [*listed(values, answers), *told]}


def listed(values: Values, answers: str) -> list[Values]:
    """A list in an answer."""
    found = values.get(answers) or ()
    assert isinstance(found, Iterable), "a list of structures"
    return list(found)


def by_topic(
    operation: Operation,
    *,
    topic: str = "name",
    partitions: str = "partitions",
    number: str = "partition_index",
    empty: Mapping[str, object] | None = None,
) -> Guard:
    """For each topic an operation; without it each partition has the error.

    topic, partitions, number: names of fields     empty: other fields of a partition's answer
    """

    def guard(asked: Inquiry) -> Verdict:
        def denied(one: Entity) -> Values | None:
            name = str(getattr(one, topic))
            if asked.on_topic(operation, name):
                return None
            numbers = (getattr(part, number, part) for part in getattr(one, partitions))
            fields = {"error_code": NO_TOPIC, **(empty or {})}
            return {topic: name, "partitions": [{number: int(one), **fields} for one in numbers]}

        return entries(asked, "topics", "topics", denied)

    return guard


def on_cluster(operation: Operation) -> Guard:
    """The whole request needs an operation on the cluster."""

    def guard(asked: Inquiry) -> Verdict:
        if asked.on_cluster(operation):
            return Passed(asked.request)
        return asked.refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return guard


def needs(operation: Operation, kind: ResourceType, field: str, then: Guard | None = None) -> Guard:
    """The whole request needs an operation on what a field of it names.     then: looks at the rest"""

    def guard(asked: Inquiry) -> Verdict:
        if not asked.may(operation, kind, str(getattr(asked.request, field))):
            return asked.refusal(DENIED[kind])
        return Passed(asked.request) if then is None else then(asked)

    return guard
