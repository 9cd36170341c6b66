"""Injected request faults: a scenario makes a broker answer an error, before or after it executes a request.

The handlers of Produce and Fetch call `meet` and apply the error to each partition. For other APIs, `passed` removes
the partitions that get the error from the request and later adds their errors to the response, as
`cluster/authorization/guards.py` does with partitions that a client may not access.

Differs from Kafka: Kafka has no such faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.delayed import ProduceResults
from cluster.node import ConnectionId
from cluster.protocol.api_00_produce import ProducePartitionResponse
from cluster.protocol.entities import Entity
from cluster.protocol.versions import ADD_PARTITIONS_TO_TXN, FETCH, METADATA, PRODUCE, api_name
from cluster.quotas.client_quotas import ClientQuotas
from cluster.request_faults import RequestFault, RequestFaults
from cluster.server.accepted_connections import outsider
from cluster.server.responder import Call, Responder
from cluster.server.socket_server import SocketServer
from replica.causes import InjectionCause
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.trace.events import Recorder, ResponseInjected

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Injection:
    """The effect of a fault on one request.

    Attributes:
        error: NONE if the fault has no error, but a delay or a throttle time, for example.
        event: the trace event that reports the fault.
        seq: sequence number of the event; None until the request has been executed, if the error follows that.
        cause: sequence number of the event that led to the request.
    """

    rule: RequestFault
    error: ErrorCode
    event: ResponseInjected
    seq: int | None
    cause: int | None

    @property
    def refuses(self) -> bool:
        """Return True if the request is not executed for the partitions that get the error."""
        return self.error is not ErrorCode.NONE and not self.rule.is_applied

    @property
    def alters(self) -> bool:
        """Return True if the request is executed also for the partitions that get the error."""
        return self.error is not ErrorCode.NONE and self.rule.is_applied


class Injections:
    """The errors, delays and throttle times that `fail` steps of a scenario inject into one broker's responses."""

    def __init__(
        self,
        faults: RequestFaults,
        base: BrokerBase,
        server: SocketServer,
        responder: Responder,
        quotas: ClientQuotas,
    ) -> None:
        self._faults = faults
        self._node = base.node
        self._cache = base.cache
        self._recorder: Recorder = base.recorder
        self._server = server
        self._responder = responder
        self._quotas = quotas

    def concern(self, api_key: int) -> bool:
        """Return True if a fault is active for requests of this API."""
        rules = self._faults.rules
        return bool(rules) and any(rule.api == api_key for rule in rules)

    def meet(
        self, connection: ConnectionId, peer: str, api_key: int, partitions: Iterable[TopicPartition] | None
    ) -> Injection | None:
        """Apply the fault that matches a request. Return its effect, or None if no fault matches.

        The delay, the throttle time and the closing of the connection are scheduled here; the caller applies the error.

        Args:
            partitions: partitions that the request names; None if the API names none.
        """
        met = self._faults.meet(self._node, peer, api_key, partitions)
        if met is None:
            return None
        rule, error = met
        if rule.delay_us or rule.close is not None:
            self._server.late.expected[connection] = rule
        if rule.throttle_ms:
            self._quotas.demand(connection, rule.throttle_ms)
        event = ResponseInjected(
            node=self._node,
            peer=outsider(peer) or peer,
            api=api_name(api_key),
            fault=rule.fault,
            cause=InjectionCause.APPLIED if rule.is_applied else InjectionCause.NOT_APPLIED,
            error=None if error is ErrorCode.NONE else error.name,
            waited_us=rule.delay_us or None,
            amount=rule.throttle_ms or None,
            how=rule.close,
        )
        cause = self._recorder.cause
        follows = rule.is_applied and error is not ErrorCode.NONE
        return Injection(rule, error, event, None if follows else self._recorder.emit(event), cause)

    def produced(
        self, injection: Injection, results: ProduceResults, cause: int | None
    ) -> tuple[ProduceResults, int | None]:
        """Return a Produce request's results with the injected error, and the sequence number of their cause."""
        if not injection.alters:
            return results, injection.seq if cause is None else cause
        seq = self.carried_out(injection, *(() if cause is None else (cause,)))
        altered = {
            name: ProducePartitionResponse(name.partition, injection.error) if injection.rule.hits(name) else result
            for name, result in results.items()
        }
        return altered, seq

    def carried_out(self, injection: Injection, *causes: int) -> int:
        """Emit the event of a fault, unless that was done before. Return the event's sequence number."""
        if injection.seq is not None:
            return injection.seq
        known = (injection.cause,) if injection.cause is not None else ()
        return self._recorder.emit(injection.event, *dict.fromkeys((*known, *causes)))

    def passed(self, call: Call) -> Call | None:
        """Return the part of a request to execute, or None if the whole request was answered with the error.

        Raises:
            PeerViolation: if the request is malformed.
        """
        key, connection = call.header.api_key, call.connection
        if key in (PRODUCE, FETCH):
            return call
        request = call.decoded()
        injection = self.meet(connection, call.peer, key, _partitions_of(self._cache, key, request))
        if injection is None or injection.error is ErrorCode.NONE:
            return call
        if key == METADATA:
            self._responder.amend(connection, partial(self._without_topics, injection))
            return call
        from cluster.messages.refusals import error_values

        refused, left = _split(self._cache, key, request, injection.rule)
        errors = error_values(call.header, refused, injection.error)
        if injection.alters:
            self._responder.amend(connection, partial(self._altered, injection, errors, left is None))
            return call
        if left is None:
            self._responder.answer(call, **errors)
            return None
        self._responder.amend(connection, partial(_merged, errors))
        return call.of(left)

    def _altered(self, injection: Injection, errors: Values, is_whole: bool, values: Values) -> Values:
        self.carried_out(injection)
        return errors if is_whole else _merged(errors, values)

    def _without_topics(self, injection: Injection, values: Values) -> Values:
        """Return a Metadata response in which every topic has the error and no partitions."""
        self.carried_out(injection)
        refused = [{**topic, "error_code": injection.error, "partitions": []} for topic in values["topics"]]
        return {**values, "topics": refused}


# The field with the list of topics, for APIs where it is not `topics`.
_TOPICS: Final[Mapping[int, str]] = {ADD_PARTITIONS_TO_TXN: "v3_and_below_topics"}


def _topics_of(api_key: int, request: Entity) -> Iterable[Entity] | None:
    """Return a request's topics with their partitions, None if the API has none."""
    topics = getattr(request, _TOPICS.get(api_key, "topics"), None)
    return topics if topics and hasattr(topics[0], "partitions") else None


def _name(cache: MetadataCache, topic: Entity, part: Any) -> TopicPartition:
    """Return the name of a partition in a request, with the topic id as the topic if that id is unknown."""
    known = getattr(topic, "name", None) or getattr(topic, "topic", None)
    number = getattr(part, "partition_index", getattr(part, "partition", part))
    return TopicPartition(str(known or cache.topic_name(topic.topic_id) or topic.topic_id), int(number))


def _partitions_of(cache: MetadataCache, api_key: int, request: Entity) -> list[TopicPartition] | None:
    topics = _topics_of(api_key, request)
    return None if topics is None else [_name(cache, topic, part) for topic in topics for part in topic.partitions]


def _split(cache: MetadataCache, api_key: int, request: Entity, rule: RequestFault) -> tuple[Entity, Entity | None]:
    """Split a request into the part that gets the error and the rest, None if nothing is left."""
    topics = _topics_of(api_key, request)
    if topics is None or not rule.partitions:
        return request, None
    sides: dict[bool, list[Entity]] = {True: [], False: []}
    for topic in topics:
        for side, chosen in sides.items():
            parts = tuple(part for part in topic.partitions if rule.hits(_name(cache, topic, part)) is side)
            if parts:
                chosen.append(replace(topic, partitions=parts))
    field = _TOPICS.get(api_key, "topics")
    hit, left = (replace(request, **{field: tuple(chosen)}) for chosen in sides.values())
    return hit, left if sides[False] else None


def _merged(errors: Values, values: Values) -> Values:
    """Return the response `values` with the entries of the partitions in `errors` replaced by the errors."""
    ((field, refused),) = errors.items()
    taken = {(_topic(item), _number(part)): None for item in refused for part in _parts(item)[1]}
    kept = []
    for value in values[field]:
        parts, results = _parts(value)
        left = [part for part in results if (_topic(value), _number(part)) not in taken]
        if left:
            kept.append({**value, parts: left})
    return {**values, field: [*kept, *refused]}


def _topic(values: Values) -> str:
    return str(values.get("topic_id") or values.get("name") or values["topic"])


def _parts(values: Values) -> tuple[str, list[Values]]:
    field = "results_by_partition" if "results_by_partition" in values else "partitions"
    return field, list(values[field])


def _number(part: Values) -> int:
    return int(part["partition_index"] if "partition_index" in part else part["partition"])
