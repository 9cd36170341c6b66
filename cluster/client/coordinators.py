"""A client's requests to its group and transaction coordinators, sent one at a time after finding the coordinator.

Source: AbstractCoordinator.java (ensureCoordinatorReady), TransactionManager.java (lookupCoordinator), Sender.java
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cluster.client.api_versions import Allowed
from cluster.client.connections import Answered, ClientConnections
from cluster.protocol.versions import FIND_COORDINATOR
from replica.config import NEVER
from replica.errors import ErrorCode
from replica.ids import NO_BROKER

GROUP: Literal[0] = 0
TRANSACTION: Literal[1] = 1
"""Values of FindCoordinatorRequest.CoordinatorType."""
LOOK_AGAIN = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
)
"""Errors after which the coordinator has to be found again."""


@dataclass(slots=True)
class Coordinator:
    """The coordinator of a group or a transactional id.

    Attributes:
        key: the group id or transactional id.
        node_id: None until it is found.
        is_apart: True for a separate connection, on which responses never wait for a fetch (consumers only).
    """

    key: str
    key_type: Literal[0, 1]
    node_id: int | None = None
    is_apart: bool = False


class CoordinatorRequests:
    """The requests of a client to its coordinator, sent one at a time.

    Args:
        on_not_found: called with the coordinator and the error of FindCoordinator, which is then repeated after
            retry.backoff.ms.

    Attributes:
        in_flight: True while a request waits for its response.
        next_deadline_us: time of the next request if no other event is needed first.
    """

    def __init__(
        self,
        connections: ClientConnections,
        retry_backoff_ms: int,
        on_not_found: Callable[[Coordinator, ErrorCode], None] | None = None,
    ) -> None:
        self.in_flight = False
        self.next_deadline_us = NEVER
        self._connections = connections
        self._retry_us = retry_backoff_ms * 1000
        self._not_before_us = 0
        self._on_not_found = on_not_found

    def wake_at(self, at_us: int | None) -> None:
        if at_us is not None and at_us < self.next_deadline_us:
            self.next_deadline_us = at_us

    def again(self, now_us: int) -> None:
        """Delay the next request by retry.backoff.ms."""
        self._not_before_us = now_us + self._retry_us

    def run_once(self, coordinator: Coordinator, ask: Callable[[int, int], None], now_us: int) -> bool:
        """Call `ask` with (node id, now_us) if the coordinator is connected; otherwise find it or connect to it.

        Return True if a request was sent.
        """
        if self.in_flight:
            return False
        if now_us < self._not_before_us:
            self.wake_at(self._not_before_us)
            return False
        node_id = coordinator.node_id
        if node_id is None or self._connections.metadata.address(node_id) is None:
            return self._find(coordinator, now_us)
        if coordinator.is_apart and self._connections.is_unavailable(node_id, now_us):
            # The coordinator may have changed, since it cannot be reached: find it again (AbstractCoordinator).
            coordinator.node_id = None
            self.again(now_us)
            self.wake_at(self._not_before_us)
            return False
        if not self._is_ready(node_id, now_us):
            return False
        ask(node_id, now_us)
        return True

    def _is_ready(self, node_id: int, now_us: int) -> bool:
        if self._connections.ready(node_id, now_us):
            return True
        self.wake_at(self._connections.retry_at_us(node_id, now_us))
        return False

    def _find(self, coordinator: Coordinator, now_us: int) -> bool:
        node_id = self._connections.least_loaded(now_us)
        if node_id is None or not self._is_ready(node_id, now_us):
            return False

        def found(answer: Any, error: ErrorCode, answered_us: int) -> None:
            if error is ErrorCode.NONE and int(answer.node_id) != NO_BROKER:
                coordinator.node_id = self._found(coordinator, answer)
            else:
                self.again(answered_us)
                if self._on_not_found is not None:
                    self._on_not_found(coordinator, error)

        values = {"key": coordinator.key, "key_type": coordinator.key_type}
        self.ask(node_id, FIND_COORDINATOR, values, found, now_us)
        return True

    def _found(self, coordinator: Coordinator, answer: Any) -> int:
        node_id, host, port = int(answer.node_id), str(answer.host), int(answer.port)
        if coordinator.is_apart:
            return self._connections.metadata.group_coordinator_is(node_id, host, port)
        self._connections.metadata.coordinator_is(node_id, host, port)
        return node_id

    def ask(
        self,
        node_id: int,
        api_key: int,
        values: Mapping[str, object],
        answered: Answered,
        now_us: int,
        *,
        timeout_us: int | None = None,
        allowed: Allowed | None = None,
    ) -> None:
        """Send one request to the node that `run_once` has passed to its callback."""

        def on_answer(answer: Any, error: ErrorCode, answered_us: int) -> None:
            self.in_flight = False
            answered(answer, error, answered_us)

        self.in_flight = True
        self._connections.ask(node_id, api_key, values, on_answer, now_us, timeout_us=timeout_us, allowed=allowed)
