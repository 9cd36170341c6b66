"""Quotas of partitions created and deleted per second (KIP-599), at the active controller.

A request may exceed the quota and make the number of tokens negative. A strict quota then refuses changes until the
token bucket has recovered. A permissive quota, for clients that do not know the error, only throttles them.

Source: ControllerMutationQuotaManager, StrictControllerMutationQuota, PermissiveControllerMutationQuota
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from cluster.protocol.versions import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from cluster.quotas.client_quotas import INT32_MAX, Sensor, Sensors
from controller.client_quotas import CONTROLLER_MUTATION_RATE
from controller.metadata import QuotaEntity

MUTATIONS: Final[Mapping[int, int]] = {CREATE_TOPICS: 6, DELETE_TOPICS: 5, CREATE_PARTITIONS: 3}
"""The APIs that count, each with the first version whose clients know THROTTLING_QUOTA_EXCEEDED."""


class MutationQuota:
    """The quota of one client, for one of its requests."""

    __slots__ = ("_is_strict", "_sensor", "throttle_ms")

    def __init__(self, sensor: Sensor[TokenBucket], *, is_strict: bool) -> None:
        self._sensor = sensor
        self._is_strict = is_strict
        self.throttle_ms = 0
        """The client's throttle time in milliseconds, from the time of the decision."""
        # Simplified: Kafka deducts the time until the decision is committed.

    def record(self, partitions: int, now_us: int) -> bool:
        """Count new or deleted partitions. Return False if the quota refuses the change."""
        bound, bucket, now_ms = self._sensor.bound, self._sensor.measure, now_us // 1000
        if bound is None:
            return True
        if self._is_strict and bucket.tokens(bound, now_ms) < 0:
            self._exceeded(bound, now_ms)
            return False
        bucket.take(partitions, bound, now_ms)
        if not self._is_strict and bucket.tokens(bound, now_ms) < 0:
            self._exceeded(bound, now_ms)
        return True

    def _exceeded(self, bound: float, now_ms: int) -> None:
        missing = -self._sensor.measure.tokens(bound, now_ms)
        self.throttle_ms = min(INT32_MAX, math.floor(missing / bound * 1000 + 0.5))


class MutationQuotas:
    """The mutation quotas of all clients.

    Args:
        samples, window_s: controller.quota.window.num, controller.quota.window.size.seconds.
    """

    __slots__ = ("_known", "_sensors")

    def __init__(self, samples: int, window_s: int) -> None:
        self._sensors: Sensors[TokenBucket] = Sensors(lambda: TokenBucket(samples * window_s))
        self._known: dict[QuotaEntity, float] = {}

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Apply the quotas in the metadata."""
        bounds = {
            entity: found[CONTROLLER_MUTATION_RATE]
            for entity, found in quotas.items()
            if CONTROLLER_MUTATION_RATE in found
        }
        for entity in {**self._known, **bounds}:
            if self._known.get(entity) != bounds.get(entity):
                self._sensors.set(entity, bounds.get(entity))
        self._known = bounds

    def of(self, user: str, client_id: str, now_us: int, *, is_strict: bool) -> MutationQuota | None:
        """Return the quota of a client for one request; None if no mutation quota was ever set."""
        if not self._sensors.is_enabled:
            return None
        return MutationQuota(self._sensors.of(user, client_id, now_us // 1000), is_strict=is_strict)


class TokenBucket:
    """A token bucket, full at first. `burst_s` is its capacity, in seconds of its rate."""

    __slots__ = ("_burst_s", "_last_ms", "_tokens")

    def __init__(self, burst_s: int) -> None:
        self._burst_s = burst_s
        self._tokens: float | None = None
        self._last_ms = 0

    def tokens(self, per_second: float, now_ms: int) -> float:
        """Return the current number of tokens. It is negative while the quota is exceeded."""
        burst = self._burst_s * per_second
        filled = burst if self._tokens is None else self._tokens + per_second * (now_ms - self._last_ms) / 1000
        self._tokens, self._last_ms = min(burst, filled), now_ms
        return self._tokens

    def take(self, count: int, per_second: float, now_ms: int) -> None:
        self._tokens = min(self._burst_s * per_second, self.tokens(per_second, now_ms) - count)
