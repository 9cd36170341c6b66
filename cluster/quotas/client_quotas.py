"""Measures the usage of client quotas as rates over sampled windows, and computes the throttle times.

Times are whole milliseconds, as in Kafka. Source: ClientQuotaManager, ClientRequestQuotaManager, QuotaUtils
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Flag
from typing import Final, Generic, NamedTuple, TypeVar

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
from cluster.sampled_rate import Rate
from controller.client_quotas import CLIENT_ID, CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, USER
from controller.metadata import QuotaEntity
from replica.trace.events import ClientThrottled, Recorder

# --------------------------------------------------------------------------------------------------------------- limits
#
# The limits of one kind of quota, by user and client-id. The most specific matching limit applies to a client.
#
# Clients share a quota if the same limit applies to them as a whole: those of one user where only users have quotas,
# those of one client-id where only client-ids have. source: DefaultQuotaCallback

ABSENT = ""
"""The user or client-id of an entity that has none; None stands for the default entity."""
_Names = tuple[str | None, str | None]


class Tags(NamedTuple):
    """The clients that share one measurement: by user, client-id or both. An unused part is ABSENT."""

    user: str
    client_id: str


class _Levels(Flag):
    NONE = 0
    CLIENT_ID = 1
    USER = 2
    USER_CLIENT_ID = 4


class QuotaLimits:
    """The limits of one kind of quota. Source: ClientQuotaManager.updateQuota, quotaMetricTags, quotaLimit"""

    __slots__ = ("_bounds", "_levels")

    def __init__(self) -> None:
        self._bounds: dict[_Names, float] = {}
        self._levels = _Levels.NONE

    @property
    def is_enabled(self) -> bool:
        """True once a quota of this kind was set. As in Kafka, it stays True until the broker restarts."""
        return self._levels is not _Levels.NONE

    def set(self, entity: QuotaEntity, bound: float | None) -> None:
        """Set the limit of an entity; None removes it."""
        names = dict(entity)
        user, client_id = names.get(USER, ABSENT), names.get(CLIENT_ID, ABSENT)
        if user == ABSENT:
            self._levels |= _Levels.CLIENT_ID
        else:
            self._levels |= _Levels.USER if client_id == ABSENT else _Levels.USER_CLIENT_ID
        if bound is None:
            self._bounds.pop((user, client_id), None)
        else:
            self._bounds[user, client_id] = bound

    def tags(self, user: str, client_id: str) -> Tags:
        match self._levels:
            case _Levels.NONE | _Levels.CLIENT_ID:
                return Tags(ABSENT, client_id)
            case _Levels.USER:
                return Tags(user, ABSENT)
            case _Levels.USER_CLIENT_ID:
                return Tags(user, client_id)
        # In the order of precedence, the most specific first.
        for names, tags in (
            ((user, client_id), Tags(user, client_id)),
            ((user, None), Tags(user, client_id)),
            ((user, ABSENT), Tags(user, ABSENT)),
            ((None, client_id), Tags(user, client_id)),
            ((None, None), Tags(user, client_id)),
            ((None, ABSENT), Tags(user, ABSENT)),
        ):
            if names in self._bounds:
                return tags
        return Tags(ABSENT, client_id)

    def bound(self, tags: Tags) -> float | None:
        """Return the limit of these clients; None if they have none."""
        user, client_id = tags
        found: tuple[_Names, ...] = ()
        if user and client_id:
            found = ((user, client_id), (user, None), (None, client_id), (None, None))
        elif user:
            found = ((user, ABSENT), (None, ABSENT))
        elif client_id:
            found = ((ABSENT, client_id), (ABSENT, None))
        return next((self._bounds[names] for names in found if names in self._bounds), None)


INACTIVE_MS = 3_600_000
"""How long an unused measurement is kept (ClientQuotaManager.InactiveSensorExpirationTimeSeconds)."""
INT32_MAX = 2**31 - 1
Measure = TypeVar("Measure")


class Exceeded(NamedTuple):
    """An exceeded quota.

    Attributes:
        throttle_ms: time until an inactive client is within the quota again.
        begins: True if the client was within the quota before.
    """

    throttle_ms: int
    value: float
    bound: float
    begins: bool


class Sensor(Generic[Measure]):
    """The measured usage of one quota. `bound` is the limit, None for no limit."""

    __slots__ = ("bound", "is_throttled", "measure", "recorded_ms")

    def __init__(self, measure: Measure, bound: float | None, now_ms: int) -> None:
        self.measure = measure
        self.bound = bound
        self.recorded_ms = now_ms
        self.is_throttled = False

    def exceeded(self, throttle_ms: int, value: float) -> Exceeded:
        assert self.bound is not None, "the quota has no limit to exceed"
        begins, self.is_throttled = not self.is_throttled, True
        return Exceeded(throttle_ms, value, self.bound, begins)


class Sensors(Generic[Measure]):
    """The measurements of one kind of quota, and its limits. Source: ClientQuotaManager.getOrCreateQuotaSensors"""

    __slots__ = ("_by_tags", "_limits", "_new")

    def __init__(self, new: Callable[[], Measure]) -> None:
        self._new = new
        self._limits = QuotaLimits()
        self._by_tags: dict[Tags, Sensor[Measure]] = {}
        """Measurements by clients, least recently used first."""

    def __len__(self) -> int:
        return len(self._by_tags)

    @property
    def is_enabled(self) -> bool:
        return self._limits.is_enabled

    def set(self, entity: QuotaEntity, bound: float | None) -> None:
        """Set the limit of an entity; None removes it. Usage before the change counts against the new limit."""
        self._limits.set(entity, bound)
        for tags, sensor in self._by_tags.items():
            sensor.bound = self._limits.bound(tags)

    def of(self, user: str, client_id: str, now_ms: int) -> Sensor[Measure]:
        tags = self._limits.tags(user, client_id)
        sensor = self._by_tags.pop(tags, None)
        if sensor is None:
            self._forget_unused(now_ms)
            sensor = Sensor(self._new(), self._limits.bound(tags), now_ms)
        self._by_tags[tags] = sensor
        sensor.recorded_ms = now_ms
        return sensor

    def _forget_unused(self, now_ms: int) -> None:
        while self._by_tags:
            tags, oldest = next(iter(self._by_tags.items()))
            if now_ms - oldest.recorded_ms < INACTIVE_MS:
                return
            del self._by_tags[tags]


class RateQuota:
    """A quota of bytes per second, or of microseconds of handler threads per second, over `samples` windows.

    Args:
        max_throttle_ms: longest throttle time, None for no maximum.
    """

    __slots__ = ("_max_throttle_ms", "_samples", "_window_s", "sensors")

    def __init__(self, samples: int, window_s: int, max_throttle_ms: int | None = None) -> None:
        self._samples = samples
        self._window_s = window_s
        self._max_throttle_ms = max_throttle_ms
        self.sensors: Sensors[Rate] = Sensors(lambda: Rate(samples, window_s * 1_000_000))

    def record(self, user: str, client_id: str, amount: int, now_ms: int) -> Exceeded | None:
        """Record usage. Return by how much it exceeds the quota, None if it does not.

        Source: ClientQuotaManager.recordAndGetThrottleTimeMs, QuotaUtils.throttleTime
        """
        sensor = self.sensors.of(user, client_id, now_ms)
        now_us = now_ms * 1000
        sensor.measure.record(amount, now_us)
        if sensor.bound is None:
            return None
        rate = sensor.measure.per_second(now_us)
        if rate <= sensor.bound:
            sensor.is_throttled = False
            return None
        window_ms = sensor.measure.window_us(now_us) // 1000
        throttle_ms = math.floor((rate - sensor.bound) / sensor.bound * window_ms + 0.5)
        if self._max_throttle_ms is not None:
            throttle_ms = min(throttle_ms, self._max_throttle_ms)
        return sensor.exceeded(min(throttle_ms, INT32_MAX), rate)

    def take_back(self, user: str, client_id: str, amount: int, now_ms: int) -> None:
        """Remove recorded usage that did not happen after all. Source: ClientQuotaManager.unrecordQuotaSensor"""
        self.sensors.of(user, client_id, now_ms).measure.record(-amount, now_ms * 1000)

    def most_at_once(self, user: str, client_id: str, now_ms: int) -> int:
        """Return the largest amount that fits into the quota at once. Source: getMaxValueInQuotaWindow"""
        bound = self.sensors.of(user, client_id, now_ms).bound
        return INT32_MAX if bound is None else int(min(INT32_MAX, bound * (self._samples - 1) * self._window_s))


# -------------------------------------------------------------------------------------------------------- client quotas
#
# The quotas of clients at one broker: what each request counts, and for how long its client has to wait (KIP-13,
# KIP-124). A client that has to wait gets its answer immediately, with the time in it, and its connection is mute for
# as long (KIP-219). source: KafkaApis, RequestHandlerHelper

EXEMPT: Final = frozenset(
    {LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN, WRITE_TXN_MARKERS, ALTER_PARTITION}
)
"""Requests between brokers. Like followers' fetches, they count against no quota. Source: sendResponseExemptThrottle"""
US_PER_PERCENT: Final = 10_000
"""One percent of a handler thread, in microseconds per second. The limit applies to all handlers together."""


class ClientQuotas:
    """The client quotas of one broker.

    Args:
        now: returns the time of the current step in microseconds.
        principal: returns the principal of a connection as `User:name`.
        peer: returns the client of a connection, for the trace.
        thread_us: returns the handler time of the request that is being answered on a connection.
        mute: keeps a connection mute for a number of milliseconds.
    """

    __slots__ = (
        "_demanded",
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
        self._demanded: dict[ConnectionId, int] = {}
        """The minimum throttle time of the next response on a connection, in milliseconds; set by `demand`."""
        self.is_enabled = False
        """True once a client has a quota or a throttle time was demanded. Before that, no request is measured."""
        self.measures_threads = False
        """True if handler time is measured."""

    def demand(self, connection: ConnectionId, throttle_ms: int) -> None:
        """Throttle the client whose request is in progress on a connection, whatever its quotas are."""
        self._demanded[connection] = throttle_ms
        self.is_enabled = True

    def gone(self, connection: ConnectionId) -> None:
        self._demanded.pop(connection, None)

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Apply the quotas in the metadata. Source: ClientQuotaMetadataManager"""
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
        """Record a Produce request and return its client's throttle time in milliseconds.

        Args:
            size_bytes: size of the request.
            acks: acks of the request; with 0 there is no response, and the request quota does not apply.
        """
        by_bytes = self._record(self._produce, connection, header, size_bytes)
        by_threads = None if acks == 0 else self._record_threads(connection, header)
        return self._throttle(connection, header, (PRODUCER_BYTE_RATE, by_bytes), (REQUEST_PERCENTAGE, by_threads))

    def fetched(self, connection: ConnectionId, header: RequestHeader, size_bytes: int) -> int:
        """Record a Fetch response, and return its client's throttle time in milliseconds.

        A throttled consumer gets no records, so their bytes are not counted.

        Args:
            size_bytes: size of the response.
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
        """Record a request of another API, and return its throttle time in milliseconds.

        Args:
            controller_ms: throttle time that the controller has set, in milliseconds.
        """
        if header.api_key in EXEMPT:
            return 0
        exceeded = self._record_threads(connection, header)
        controller_ms = max(controller_ms, self._demanded.pop(connection, 0))
        if exceeded is None or exceeded.throttle_ms < controller_ms:
            self._keep_mute(connection, controller_ms)
            return controller_ms
        return self._throttle(connection, header, (REQUEST_PERCENTAGE, exceeded))

    def most_to_fetch(self, connection: ConnectionId, header: RequestHeader) -> int:
        """Return the maximum size in bytes of a consumer's fetch.

        A larger one would exceed the quota and get no records.
        """
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
        """Throttle a connection for the longest of these throttle times, and return that time in milliseconds."""
        exceeded = [(item.throttle_ms, key, item) for key, item in found if item is not None]
        for _, key, item in exceeded:
            if item.begins:
                self._state(connection, header, key, item)
        throttle_ms = max((item[0] for item in exceeded), default=0)
        throttle_ms = max(throttle_ms, self._demanded.pop(connection, 0))
        self._keep_mute(connection, throttle_ms)
        return throttle_ms

    def _keep_mute(self, connection: ConnectionId, throttle_ms: int) -> None:
        if throttle_ms > 0:
            self._mute(connection, throttle_ms, self._now())

    def _state(self, connection: ConnectionId, header: RequestHeader, key: str, exceeded: Exceeded) -> None:
        peer = self._peer(connection)
        if peer is None:
            return
        self._recorder.emit(
            ClientThrottled(
                node=self._node,
                peer=peer,
                api=api_name(header.api_key),
                key=key,
                throttle_time_us=exceeded.throttle_ms * 1000,
                used=round(exceeded.value),
                limit=round(exceeded.bound),
            )
        )
