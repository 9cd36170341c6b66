"""Dependencies between a producer's settings: the default of idempotence, and settings that contradict each other.

Source: ProducerConfig.postProcessAndValidateIdempotenceConfigs, KafkaProducer.configureDeliveryTimeout (3.9)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cluster.config import BASE_RELEASE, ProducerConfig
from cluster.defaults import defaults_of
from replica.config import INT32_MAX, ConfigError
from replica.ids import ACKS_ALL
from replica.rules import KafkaRelease

IDEMPOTENCE = "enable.idempotence"
MAX_IN_FLIGHT_FOR_IDEMPOTENCE = 5
"""The number of batches per producer and partition that a broker remembers (KAFKA-5494)."""


def producer_config_from(values: Mapping[str, object], release: KafkaRelease = BASE_RELEASE) -> ProducerConfig:
    """Return a producer's effective configuration from the keys that are set.

    Since 3.0 idempotence is on by default (KIP-679). An incompatible setting silently turns it off, or is an error if
    `enable.idempotence` or `transactional.id` is set. In older releases idempotence is on only if one of these two keys
    is set, and it changes the defaults of other keys (KafkaProducer.configureRetries, configureAcks,
    configureInflightRequests of 0.11).

    Args:
        release: the release whose defaults apply.

    Raises:
        ConfigError: if settings contradict each other.
    """
    defaults = defaults_of(ProducerConfig, release)
    if str(values.get(IDEMPOTENCE, bool(values.get("transactional.id")))).lower() == "true":
        defaults |= {IDEMPOTENCE: True, "acks": "all", "retries": INT32_MAX}
    config = ProducerConfig.from_mapping({**defaults, **values})
    if config.enable_idempotence:
        conflict = _idempotence_conflict(config)
        if conflict is not None and config.transactional_id:
            raise ConfigError(conflict[0], f"{conflict[1]} when transactional.id is set")
        if conflict is not None and IDEMPOTENCE in values:
            raise ConfigError(conflict[0], f"{conflict[1]} when enable.idempotence is true")
        config = replace(config, enable_idempotence=conflict is None)
    elif config.transactional_id:
        raise ConfigError(IDEMPOTENCE, "must be true when transactional.id is set")
    return _with_delivery_timeout(config, explicit="delivery.timeout.ms" in values)


def _idempotence_conflict(config: ProducerConfig) -> tuple[str, str] | None:
    if config.retries == 0:
        return "retries", "must not be 0"
    if config.required_acks != ACKS_ALL:
        return "acks", "must be all"
    if config.max_in_flight_requests_per_connection > MAX_IN_FLIGHT_FOR_IDEMPOTENCE:
        # 3.9 turns idempotence off with a warning here; from 4.0 on this is an error even if idempotence was not set.
        return "max.in.flight.requests.per.connection", f"must be at most {MAX_IN_FLIGHT_FOR_IDEMPOTENCE}"
    return None


def _with_delivery_timeout(config: ProducerConfig, *, explicit: bool) -> ProducerConfig:
    least = config.linger_ms + config.request_timeout_ms
    if config.delivery_timeout_ms >= least:
        return config
    if explicit:
        raise ConfigError("delivery.timeout.ms", "must be at least linger.ms + request.timeout.ms")
    return replace(config, delivery_timeout_ms=least)
