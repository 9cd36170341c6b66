"""Settings of groups (ConfigResource.Type.GROUP): what a group has for itself counts before the keys of its brokers.

Source: GroupConfig.java, GroupConfigManager.java (4.1)
"""

from __future__ import annotations

from collections.abc import Mapping

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
    """As they are stored; None takes a key back.     known: what the group has so far     config: of the controller

    raises: KafkaError INVALID_CONFIG     source: GroupConfig.validateNames, .validateValues
    """
    keys = GroupConfig.keys()
    for name in changes:
        if name not in keys:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
    try:
        stored = {
            name: None if value is None else as_text(GroupConfig.check(name, value)) for name, value in changes.items()
        }
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    after = {**known, **stored}
    _check_limits(
        {**defaults_of(config), **{name: value for name, value in after.items() if value is not None}}, config
    )
    return stored


def _check_limits(values: Mapping[str, str], config: BrokerConfig) -> None:
    """raises: KafkaError INVALID_CONFIG"""
    interval_ms, timeout_ms = int(values[HEARTBEAT_INTERVAL]), int(values[SESSION_TIMEOUT])
    intervals = "group.consumer.{}.heartbeat.interval.ms"
    timeouts = "group.consumer.{}.session.timeout.ms"
    less, more = "must be greater than or equal to", "must be less than or equal to"
    wrong = {
        f"{HEARTBEAT_INTERVAL} {less} {intervals.format('min')}": (
            interval_ms < config.group_consumer_min_heartbeat_interval_ms
        ),
        f"{HEARTBEAT_INTERVAL} {more} {intervals.format('max')}": (
            interval_ms > config.group_consumer_max_heartbeat_interval_ms
        ),
        f"{SESSION_TIMEOUT} {less} {timeouts.format('min')}": timeout_ms < config.group_consumer_min_session_timeout_ms,
        f"{SESSION_TIMEOUT} {more} {timeouts.format('max')}": timeout_ms > config.group_consumer_max_session_timeout_ms,
        f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}": timeout_ms <= interval_ms,
    }
    for message, is_wrong in wrong.items():
        if is_wrong:
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
