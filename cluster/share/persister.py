"""Requests to share coordinators, by which leaders and group coordinators read and write states of share partitions.

There is one connection to each share coordinator, with one request in flight.

Simplified: each request is for one share partition; Kafka combines requests that wait for the same broker. The
coordinator is looked up in the broker's own metadata; Kafka asks another broker. Retry delays are not random.

Source: PersisterStateManager.java, DefaultStatePersister.java
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from cluster.channel import Channels
from cluster.node import Outbox
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import VERSIONS
from cluster.share.state import ShareKey
from controller.image import BrokerRegistration
from replica.errors import ErrorCode, PeerViolation

MAX_ATTEMPTS = 5
BACKOFF_US, BACKOFF_MAX_US = 1_000_000, 30_000_000
NO_COORDINATOR = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
RETRIED = (*NO_COORDINATOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
K = TypeVar("K", bound=tuple[UUID, int])
FindCoordinator = Callable[[str, int], BrokerRegistration | None]
"""Returns the broker that coordinates a share partition (`str(ShareKey)`, now_us), None if there is none."""


@dataclass(slots=True, kw_only=True, eq=False)
class StateRequest:
    """A request for one share partition.

    Attributes:
        fields: fields of the partition in the request, besides its number.
        answered: called once with (error, message, partition's entry of the response or None, now_us).
        finds: number of searches for the coordinator since it was last found.
        attempts: number of responses, or of failures to get one.
    """

    api: int
    key: ShareKey
    answered: Callable[[ErrorCode, str | None, Entity | None, int], None]
    fields: Mapping[str, object] = field(default_factory=dict)
    finds: int = 0
    attempts: int = 0


def backoff_us(failed: int) -> int:
    """Return the time until the next attempt, without Kafka's jitter. Source: ExponentialBackoffManager

    Args:
        failed: number of failed attempts, at least 1. The first one already doubles the time.
    """
    return min(BACKOFF_US << failed, BACKOFF_MAX_US)


class Persister:
    """Sends requests to share coordinators. Without an answer, it retries a few times with growing delays."""

    def __init__(self, *, node: str, outbox: Outbox, find: FindCoordinator, request_timeout_us: int) -> None:
        self._node = node
        self._outbox = outbox
        self._find = find
        self._request_timeout_us = request_timeout_us
        self._channels = Channels(outbox)

    def ask(self, request: StateRequest, now_us: int) -> None:
        broker = self._find(str(request.key), now_us)
        if broker is None:
            request.finds += 1
            self._again(request, request.finds, ErrorCode.COORDINATOR_NOT_AVAILABLE, None, now_us)
            return
        request.finds = 0
        version = VERSIONS[request.api][1]
        partition = {"partition": request.key.partition, **request.fields}
        entity = cold.request(
            request.api,
            version,
            group_id=request.key.group_id,
            topics=[{"topic_id": request.key.topic_id, "partitions": [partition]}],
        )

        def encode(correlation_id: int) -> bytes:
            return cold.encode_request(request.api, version, correlation_id, self._node, entity)

        def answered(frame: bytearray | None, answered_us: int) -> None:
            self._answered(request, _result_in(request.api, version, frame), answered_us)

        address = broker.host, broker.port
        self._channels.request(address, request.api, encode, answered, self._request_timeout_us, now_us)

    def _answered(self, request: StateRequest, result: Entity | None, now_us: int) -> None:
        request.attempts += 1
        if result is None:
            self._again(request, request.attempts, ErrorCode.NETWORK_EXCEPTION, None, now_us)
        elif result.error_code in RETRIED:
            self._again(request, request.attempts, result.error_code, result.error_message, now_us)
        else:
            request.answered(result.error_code, result.error_message, result, now_us)

    def later(self, what: Callable[[int], None], now_us: int) -> None:
        """Call `what(now_us)` at the current time, but after the current step."""
        self._outbox.timers.at(now_us, what)

    def _again(self, request: StateRequest, failed: int, error: ErrorCode, message: str | None, now_us: int) -> None:
        if failed >= MAX_ATTEMPTS:
            self.later(lambda at_us: request.answered(error, message, None, at_us), now_us)
        else:
            self._outbox.timers.at(now_us + backoff_us(failed), lambda at_us: self.ask(request, at_us))


def _result_in(api: int, version: int, frame: bytearray | None) -> Entity | None:
    """Return the entry of the only partition in a response, None if there is no readable response."""
    if frame is None:
        return None
    try:
        answer = cold.decode_response(api, version, frame)
    except PeerViolation:
        return None
    partitions = [partition for topic in answer.results for partition in topic.partitions]
    return partitions[0] if partitions else None


def change_states(
    persister: Persister,
    api: int,
    which: tuple[str, Mapping[K, Mapping[str, object]]],
    done: Callable[[dict[K, tuple[ErrorCode, str | None]], int], None],
    now_us: int,
) -> None:
    """Initialize or delete the states of share partitions. Source: persisterInitialize, deleteShareGroup

    Args:
        which: (group id, fields of each share partition in the request by (topic id, partition number)).
        done: called once with ((error, message) of each share partition that failed, now_us).
    """
    group_id, partitions = which
    refused: dict[K, tuple[ErrorCode, str | None]] = {}
    waiting = dict.fromkeys(partitions)
    if not partitions:
        persister.later(lambda at_us: done(refused, at_us), now_us)

    def answered(item: K, error: ErrorCode, message: str | None, at_us: int) -> None:
        if error is not ErrorCode.NONE:
            refused[item] = error, message
        del waiting[item]
        if not waiting:
            done(refused, at_us)

    def ask(item: K, fields: Mapping[str, object]) -> None:
        request = StateRequest(
            api=api,
            key=ShareKey(group_id, *item),
            answered=lambda error, message, result, at_us: answered(item, error, message, at_us),
            fields=fields,
        )
        persister.ask(request, now_us)

    for item, fields in partitions.items():
        ask(item, fields)
