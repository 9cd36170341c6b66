"""Rules between the keys of a producer: when idempotence is off, and which settings contradict each other.

Source: ProducerConfig.postProcessAndValidateIdempotenceConfigs, KafkaProducer.configureDeliveryTimeout (3.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cluster.config import ProducerConfig
from replica.config import ConfigError
from replica.ids import ACKS_ALL

MAX_IN_FLIGHT_FOR_IDEMPOTENCE = 5
"""A broker remembers the last five batches of a producer and partition (KAFKA-5494)."""


def producer_config_from(values: Mapping[str, object]) -> ProducerConfig:
    """The configuration a producer really uses, from the keys that are set.

    Idempotence is on unless a setting rules it out: then it is silently off (KIP-679), or, if `enable.idempotence` was
    set as well, the two contradict each other. raises: ConfigError
    """
    config = ProducerConfig.from_mapping(values)
    if config.enable_idempotence:
        conflict = _idempotence_conflict(config)
        if conflict is not None and config.transactional_id:
            raise ConfigError(conflict[0], f"{conflict[1]} when transactional.id is set")
        if conflict is not None and "enable.idempotence" in values:
            raise ConfigError(conflict[0], f"{conflict[1]} when enable.idempotence is true")
        config = replace(config, enable_idempotence=conflict is None)
    elif config.transactional_id:
        raise ConfigError("enable.idempotence", "must be true when transactional.id is set")
    return _with_delivery_timeout(config, explicit="delivery.timeout.ms" in values)


def _idempotence_conflict(config: ProducerConfig) -> tuple[str, str] | None:
    if config.retries == 0:
        return "retries", "must not be 0"
    if config.required_acks != ACKS_ALL:
        return "acks", "must be all"
    if config.max_in_flight_requests_per_connection > MAX_IN_FLIGHT_FOR_IDEMPOTENCE:
        # 3.9 turns idempotence off with a warning here; from 4.0 on this is an error even if it was not asked for.
        return "max.in.flight.requests.per.connection", f"must be at most {MAX_IN_FLIGHT_FOR_IDEMPOTENCE}"
    return None


def _with_delivery_timeout(config: ProducerConfig, *, explicit: bool) -> ProducerConfig:
    least = config.linger_ms + config.request_timeout_ms
    if config.delivery_timeout_ms >= least:
        return config
    if explicit:
        raise ConfigError("delivery.timeout.ms", "must be at least linger.ms + request.timeout.ms")
    return replace(config, delivery_timeout_ms=least)
