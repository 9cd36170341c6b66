"""The quotas of clients at one broker: what each request counts, and for how long its client has to wait (KIP-13,
KIP-124). A client that has to wait gets its answer at once, with the time in it, and its connection is mute for as long
(KIP-219). source: KafkaApis, RequestHandlerHelper
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cluster.config import BrokerConfig
from cluster.node import ConnectionId
from cluster.protocol.versions import (
    ALTER_PARTITION,
    CONTROLLED_SHUTDOWN,
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    WRITE_TXN_MARKERS,
    RequestHeader,
    api_name,
)
from cluster.quotas.managers import INT32_MAX, Exceeded, RateQuota
from controller.client_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from controller.metadata import QuotaEntity
from replica.trace.events import ClientThrottled, Recorder

EXEMPT: Final = frozenset(
    {LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN, WRITE_TXN_MARKERS, ALTER_PARTITION}
)
"""Requests of brokers to brokers; the fetches of followers are exempt as well. source: sendResponseExemptThrottle"""
US_PER_PERCENT: Final = 10_000
"""One percent of a handler thread is so many microseconds of each second; the limit is over all handlers."""


class ClientQuotas:
    """principal: who sends on a connection, as `User:name`     peer: the client at its other end, for the trace
    now: the time of the step in progress, microseconds
    thread_us: for how long a handler has been busy with the request that is answered on a connection
    mute: keep a connection mute for so many milliseconds
    """

    __slots__ = (
        "_fetch",
        "_known",
        "_mute",
        "_node",
        "_now",
        "_peer",
        "_principal",
        "_produce",
        "_recorder",
        "_request",
        "_thread_us",
        "is_enabled",
        "measures_threads",
    )

    def __init__(
        self,
        *,
        node: str,
        config: BrokerConfig,
        recorder: Recorder,
        now: Callable[[], int],
        principal: Callable[[ConnectionId], str],
        peer: Callable[[ConnectionId], str | None],
        thread_us: Callable[[ConnectionId], int],
        mute: Callable[[ConnectionId, int, int], None],
    ) -> None:
        samples, window_s = config.quota_window_num, config.quota_window_size_seconds
        self._node = node
        self._recorder = recorder
        self._now = now
        self._principal = principal
        self._peer = peer
        self._thread_us = thread_us
        self._mute = mute
        self._produce = RateQuota(samples, window_s)
        self._fetch = RateQuota(samples, window_s)
        self._request = RateQuota(samples, window_s, max_throttle_ms=window_s * 1000)
        self._known: dict[QuotaEntity, dict[str, float]] = {}
        self.is_enabled = False
        """False as long as no client has ever had a quota: then no request is counted."""
        self.measures_threads = False
        """Whether the time of handlers counts."""

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """quotas: of the metadata, whole     source: ClientQuotaMetadataManager"""
        for entity in {**self._known, **quotas}:
            before, after = self._known.get(entity, {}), quotas.get(entity, {})
            for key, manager, unit in (
                (PRODUCER_BYTE_RATE, self._produce, 1),
                (CONSUMER_BYTE_RATE, self._fetch, 1),
                (REQUEST_PERCENTAGE, self._request, US_PER_PERCENT),
            ):
                bound = after.get(key)
                if before.get(key) != bound:
                    manager.sensors.set(entity, None if bound is None else bound * unit)
        self._known = {entity: dict(found) for entity, found in quotas.items()}
        self.measures_threads = self._request.sensors.is_enabled
        self.is_enabled = self.is_enabled or bool(quotas)

    # ---------------------------------------------------------------------------------------------------- requests

    def produced(self, connection: ConnectionId, header: RequestHeader, size_bytes: int, acks: int) -> int:
        """How long the client of a Produce has to wait, in milliseconds.

        size_bytes: of the request     acks: 0 is exempt from the quota of threads, as it has no answer
        """
        by_bytes = self._record(self._produce, connection, header, size_bytes)
        by_threads = None if acks == 0 else self._record_threads(connection, header)
        return self._throttle(connection, header, (PRODUCER_BYTE_RATE, by_bytes), (REQUEST_PERCENTAGE, by_threads))

    def fetched(self, connection: ConnectionId, header: RequestHeader, size_bytes: int) -> int:
        """As `produced`; a consumer that has to wait is to get nothing, and nothing is counted.

        size_bytes: of the answer
        """
        by_threads = self._record_threads(connection, header)
        by_bytes = self._record(self._fetch, connection, header, size_bytes)
        throttle_ms = self._throttle(
            connection, header, (CONSUMER_BYTE_RATE, by_bytes), (REQUEST_PERCENTAGE, by_threads)
        )
        if throttle_ms and self._fetch.sensors.is_enabled:
            user, client_id = self._whose(connection, header)
            self._fetch.take_back(user, client_id, size_bytes, self._now() // 1000)
        return throttle_ms

    def answered(self, connection: ConnectionId, header: RequestHeader, controller_ms: int = 0) -> int:
        """As `produced`, of any other request. controller_ms: as the controller has decided, which answers it"""
        if header.api_key in EXEMPT:
            return 0
        exceeded = self._record_threads(connection, header)
        if exceeded is None or exceeded.throttle_ms < controller_ms:
            self._keep_mute(connection, controller_ms)
            return controller_ms
        return self._throttle(connection, header, (REQUEST_PERCENTAGE, exceeded))

    def most_to_fetch(self, connection: ConnectionId, header: RequestHeader) -> int:
        """Bytes for one fetch of a consumer: with more it would have to wait whatever went before, and get nothing."""
        if not self._fetch.sensors.is_enabled:
            return INT32_MAX
        return self._fetch.most_at_once(*self._whose(connection, header), self._now() // 1000)

    # ------------------------------------------------------------------------------------------------------- counting

    def _whose(self, connection: ConnectionId, header: RequestHeader) -> tuple[str, str]:
        return self._principal(connection).partition(":")[2], header.client_id or ""

    def _record(
        self, quota: RateQuota, connection: ConnectionId, header: RequestHeader, amount: int
    ) -> Exceeded | None:
        if not quota.sensors.is_enabled:
            return None
        user, client_id = self._whose(connection, header)
        return quota.record(user, client_id, amount, self._now() // 1000)

    def _record_threads(self, connection: ConnectionId, header: RequestHeader) -> Exceeded | None:
        # Simplified: Kafka adds the time that its network threads need to send the answer.
        return (
            self._record(self._request, connection, header, self._thread_us(connection))
            if self.measures_threads
            else None
        )

    def _throttle(self, connection: ConnectionId, header: RequestHeader, *found: tuple[str, Exceeded | None]) -> int:
        """The longest wait of all."""
        exceeded = [(one.throttle_ms, key, one) for key, one in found if one is not None]
        for _, key, one in exceeded:
            if one.begins:
                self._state(connection, header, key, one)
        throttle_ms = max((one[0] for one in exceeded), default=0)
        self._keep_mute(connection, throttle_ms)
        return throttle_ms

    def _keep_mute(self, connection: ConnectionId, throttle_ms: int) -> None:
        if throttle_ms > 0:
            self._mute(connection, throttle_ms, self._now())

    def _state(self, connection: ConnectionId, header: RequestHeader, key: str, exceeded: Exceeded) -> None:
        peer = self._peer(connection)
        if peer is None:
            return
        if key == REQUEST_PERCENTAGE:
            value, bound = (f"{one / US_PER_PERCENT:,.1f} % of a handler" for one in (exceeded.value, exceeded.bound))
        else:
            value, bound = (f"{one:,.0f} bytes a second" for one in (exceeded.value, exceeded.bound))
        limit = f"{value}, more than its {key} of {bound}"
        self._recorder.emit(
            ClientThrottled(
                node=self._node,
                peer=peer,
                api=api_name(header.api_key),
                key=key,
                throttle_time_us=exceeded.throttle_ms * 1000,
                reason=f"{self._node} has {peer} wait {exceeded.throttle_ms:,} ms: it uses {limit}",
            )
        )
