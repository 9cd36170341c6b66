"""What clients have used of one kind of quota, and how long they are to wait: rates over sampled windows.

Times are whole milliseconds, as in Kafka. source: ClientQuotaManager, ClientRequestQuotaManager, QuotaUtils
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Flag
from typing import Generic, NamedTuple, TypeVar

from cluster.sampled_rate import Rate
from controller.client_quotas import CLIENT_ID, USER
from controller.metadata import QuotaEntity

# --------------------------------------------------------------------------------------------------------------- limits
#
# Which quota is whose: the limits of one kind, by user and client-id, and the most specific one that fits.
#
# A client shares its quota with all clients to which the same limit applies as a whole: with those of its user where
# only users have quotas, with those of its client-id where only client-ids have. source: DefaultQuotaCallback

ABSENT = ""
"""An entity without a user, or without a client-id; its default is None."""
_Names = tuple[str | None, str | None]


class Tags(NamedTuple):
    """Who shares one measurement: a user, a client-id, or a client-id of a user; ABSENT for the other."""

    user: str
    client_id: str


class _Levels(Flag):
    NONE = 0
    CLIENT_ID = 1
    USER = 2
    USER_CLIENT_ID = 4


class QuotaLimits:
    """source: ClientQuotaManager.updateQuota, quotaMetricTags, quotaLimit"""

    __slots__ = ("_bounds", "_levels")

    def __init__(self) -> None:
        self._bounds: dict[_Names, float] = {}
        self._levels = _Levels.NONE

    @property
    def is_enabled(self) -> bool:
        """There has been a quota of this kind; as in Kafka it stays so until the broker starts again."""
        return self._levels is not _Levels.NONE

    def set(self, entity: QuotaEntity, bound: float | None) -> None:
        """bound: None takes the limit away"""
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
        """None: no limit"""
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
"""ClientQuotaManager.InactiveSensorExpirationTimeSeconds: how long an unused measurement is kept."""
INT32_MAX = 2**31 - 1
Measure = TypeVar("Measure")


class Exceeded(NamedTuple):
    """A quota that is exceeded.

    throttle_ms: until the client is within it again, if it does nothing     begins: it was within it the last time
    """

    throttle_ms: int
    value: float
    bound: float
    begins: bool


class Sensor(Generic[Measure]):
    """One measurement. bound: None, no limit"""

    __slots__ = ("bound", "is_throttled", "measure", "recorded_ms")

    def __init__(self, measure: Measure, bound: float | None, now_ms: int) -> None:
        self.measure = measure
        self.bound = bound
        self.recorded_ms = now_ms
        self.is_throttled = False

    def exceeded(self, throttle_ms: int, value: float) -> Exceeded:
        assert self.bound is not None, "no limit is exceeded"
        begins, self.is_throttled = not self.is_throttled, True
        return Exceeded(throttle_ms, value, self.bound, begins)


class Sensors(Generic[Measure]):
    """The measurements of one kind of quota, and its limits. source: ClientQuotaManager.getOrCreateQuotaSensors"""

    __slots__ = ("_by_tags", "_limits", "_new")

    def __init__(self, new: Callable[[], Measure]) -> None:
        self._new = new
        self._limits = QuotaLimits()
        self._by_tags: dict[Tags, Sensor[Measure]] = {}
        """The one used longest ago first."""

    def __len__(self) -> int:
        return len(self._by_tags)

    @property
    def is_enabled(self) -> bool:
        return self._limits.is_enabled

    def set(self, entity: QuotaEntity, bound: float | None) -> None:
        """bound: None takes the limit away. What clients have used already counts against the new one."""
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
    """So much a second, over the last `samples` windows: bytes, or microseconds of handler threads.

    max_throttle_ms: the longest wait, None for any
    """

    __slots__ = ("_max_throttle_ms", "_samples", "_window_s", "sensors")

    def __init__(self, samples: int, window_s: int, max_throttle_ms: int | None = None) -> None:
        self._samples = samples
        self._window_s = window_s
        self._max_throttle_ms = max_throttle_ms
        self.sensors: Sensors[Rate] = Sensors(lambda: Rate(samples, window_s * 1_000_000))

    def record(self, user: str, client_id: str, amount: int, now_ms: int) -> Exceeded | None:
        """Counts it, exceeded or not. source: ClientQuotaManager.recordAndGetThrottleTimeMs, QuotaUtils.throttleTime"""
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
        """It was counted, and is not given after all. source: ClientQuotaManager.unrecordQuotaSensor"""
        self.sensors.of(user, client_id, now_ms).measure.record(-amount, now_ms * 1000)

    def most_at_once(self, user: str, client_id: str, now_ms: int) -> int:
        """More than this at once would exceed the quota whatever went before. source: getMaxValueInQuotaWindow"""
        bound = self.sensors.of(user, client_id, now_ms).bound
        return INT32_MAX if bound is None else int(min(INT32_MAX, bound * (self._samples - 1) * self._window_s))
