"""Settings of groups (ConfigResource.Type.GROUP): what a group has for itself counts before the keys of its brokers.

Source: GroupConfig.java, GroupConfigManager.java (4.1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cluster.config import HEARTBEAT_INTERVAL, SESSION_TIMEOUT, BrokerConfig, GroupConfig
from controller.topics import as_text
from replica.config import ConfigError
from replica.errors import ErrorCode, KafkaError


def defaults_of(config: BrokerConfig) -> dict[str, str]:
    """Of a group that has nothing of its own, by key.     config: of the broker"""
    defaults = {name: as_text(item.default) for name, item in GroupConfig.keys().items()}
    defaults[SESSION_TIMEOUT] = as_text(config.group_consumer_session_timeout_ms)
    defaults[HEARTBEAT_INTERVAL] = as_text(config.group_consumer_heartbeat_interval_ms)
    return defaults


def checked_changes(
    changes: Mapping[str, object], known: Mapping[str, str], config: BrokerConfig
) -> dict[str, str | None]:
    """As they are stored; None takes a key back, an unknown one, too.     known: what the group has so far
    config: of the controller

    raises: KafkaError INVALID_CONFIG     source: GroupConfig.validateNames, .validateValues
    """
    keys = GroupConfig.keys()
    for name, value in changes.items():
        if value is not None and name not in keys:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
    try:
        stored = {
            name: None if value is None else as_text(GroupConfig.check(name, value)) for name, value in changes.items()
        }
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    own = {name: value for name, value in {**known, **stored}.items() if value is not None}
    _check_limits({**defaults_of(config), **own}, _limits(config))
    return stored


class _Limit(NamedTuple):
    """key: of the group     of_broker: the keys of brokers that limit it; {} is min or max"""

    key: str
    of_broker: str
    low: int
    high: int


def _limits(config: BrokerConfig) -> tuple[_Limit, ...]:
    """In the order in which Kafka looks at them; those of share groups and of Kafka Streams are Kafka's defaults."""
    interval, timeout = "group.{}.{{}}.heartbeat.interval.ms", "group.{}.{{}}.session.timeout.ms"
    share, streams = "share", "streams"
    lock = "group.share.{}.record.lock.duration.ms"
    return (
        _Limit(
            HEARTBEAT_INTERVAL,
            interval.format("consumer"),
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        _Limit(
            SESSION_TIMEOUT,
            timeout.format("consumer"),
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
        _Limit("share.heartbeat.interval.ms", interval.format(share), 5000, 15_000),
        _Limit("share.session.timeout.ms", timeout.format(share), 45_000, 60_000),
        _Limit("share.record.lock.duration.ms", lock, 15_000, 60_000),
        _Limit("streams.heartbeat.interval.ms", interval.format(streams), 5000, 15_000),
        _Limit("streams.session.timeout.ms", timeout.format(streams), 45_000, 60_000),
        _Limit("streams.num.standby.replicas", "group.streams.{}.standby.replicas", 0, 2),
    )


def _check_limits(values: Mapping[str, str], limits: Iterable[_Limit]) -> None:
    """raises: KafkaError INVALID_CONFIG"""
    for key, of_broker, low, high in limits:
        value = int(values[key])
        if value < low:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{key} must be greater than or equal to {of_broker.format('min')}"
            )
        if value > high:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key} must be less than or equal to {of_broker.format('max')}")
    if int(values[SESSION_TIMEOUT]) <= int(values[HEARTBEAT_INTERVAL]):
        # Of the other two kinds the limits see to it.
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")
