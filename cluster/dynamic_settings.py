"""The dynamic settings of a node (KIP-226). They are in the metadata log and override those in the node's file.

Source: DynamicBrokerConfig.scala, DynamicLogConfig, DynamicThreadPool, LogCleaner.validateReconfiguration (4.1)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NoReturn

from cluster.config import (
    GROUP_LIMITS,
    BrokerConfig,
    GroupConfig,
    is_of_release,
    topic_defaults,
)
from cluster.dynamic_keys import (
    OF_LISTENERS_ONLY,
    OF_ONE_BROKER,
    PASSIVE,
    RATES,
    READ_ONLY,
    THREADS,
    WITH_EFFECT,
    PassiveDynamicConfig,
)
from controller.topics import as_text
from replica.config import Config, ConfigError, DynamicBrokerConfig, TopicConfig, checked
from replica.errors import ErrorCode, KafkaError
from replica.rules import KafkaRelease

# --------------------------------------------------------------------------------------------------------- group config
#
# Settings of groups (ConfigResource.Type.GROUP), which override the keys of brokers.
#
# Source: GroupConfig.java, GroupConfigManager.java (4.4)

STANDBY_REPLICAS: Final = "streams.num.standby.replicas"
LIMITS_AS_NUMBERS_SINCE: Final = KafkaRelease(4, 4)
"""Errors for values beyond a limit show numbers since then. Before they named the broker's key."""


def defaults_of(config: BrokerConfig) -> dict[str, str]:
    """Return the default settings of a group, by key.

    Args:
        config: configuration of the broker.
    """
    keys = GroupConfig.keys()
    return {
        name: as_text(getattr(config, f"group_{key.name}", key.default))
        for name, key in keys.items()
        if is_of_release(name, config.release)
    }


def checked_changes(
    changes: Mapping[str, object], known: Mapping[str, str], config: BrokerConfig
) -> dict[str, str | None]:
    """Check changes of a group's settings, and return them as they are stored. None deletes a key, even an unknown one.

    Args:
        known: current settings of the group.
        config: configuration of the controller.

    Raises:
        KafkaError: INVALID_CONFIG.

    Source: GroupConfig.validateNames, .validateValues
    """
    keys = GroupConfig.keys()
    for name, value in changes.items():
        if value is not None and not (name in keys and is_of_release(name, config.release)):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
    try:
        stored = {
            name: None if value is None else as_text(GroupConfig.check(name, value)) for name, value in changes.items()
        }
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    own = {name: value for name, value in {**known, **stored}.items() if value is not None}
    _check_limits({**defaults_of(config), **own}, config)
    return stored


def _check_limits(values: Mapping[str, str], config: BrokerConfig) -> None:
    """Check a group's settings, or raise INVALID_CONFIG. Source: GroupConfig.validateValues"""
    shows_numbers = config.release >= LIMITS_AS_NUMBERS_SINCE
    for kind in GROUP_LIMITS:
        key = kind.format("").removeprefix("group.")
        if key not in values:
            continue
        low, high = config.limits(kind)
        value = int(values[key])
        if shows_numbers and not low <= value <= high:
            _invalid(key, f"must be in the range {low} to {high} inclusive.")
        if value < low:
            _invalid(key, f"must be greater than or equal to {kind.format('min.')}")
        if value > high:
            _invalid(key, f"must be less than or equal to {kind.format('max.')}")
    most = config.group_streams_max_standby_replicas
    if int(values[STANDBY_REPLICAS]) > most:
        _invalid(
            STANDBY_REPLICAS,
            f"must be less than or equal to {most if shows_numbers else 'group.streams.max.standby.replicas'}",
        )
    for of_type in ("consumer", "share", "streams"):
        session, interval = f"{of_type}.session.timeout.ms", f"{of_type}.heartbeat.interval.ms"
        if int(values[session]) <= int(values[interval]):
            _invalid(session, f"must be greater than {interval}")


def _invalid(key: str, title: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key} {title}")


CLEANER_THREADS = "log.cleaner.threads"
_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
_OF_ALL_LISTENERS = ("max.connections", "max.connection.creation.rate", "num.network.threads")
_UNSET_IF_ZERO = "log.retention.ms"


class DynamicSettings:
    """Checks and applies the dynamic settings of a node.

    Implements `NodeSettings`. `static` are the settings in its file.
    """

    def __init__(self, static: BrokerConfig) -> None:
        self.static = static

    def effective(self, dynamic: Mapping[str, str]) -> BrokerConfig:
        """Return the node's configuration: the static one, overridden by valid dynamic settings."""
        keys = BrokerConfig.keys()
        known = {keys[name].name: BrokerConfig.check(name, value) for name, value in dynamic.items() if _acts(name)}
        return replace(self.static, **known) if known else self.static

    def topic_defaults(self, dynamic: Mapping[str, str]) -> TopicConfig:
        return topic_defaults(self.effective(dynamic))

    def check(
        self, changes: Mapping[str, object], dynamic: Mapping[str, str], *, of_all: bool
    ) -> dict[str, str | None]:
        """Check changed settings, and return them as they are stored; None deletes a setting.

        An unknown key is accepted, because a plugin may know it.

        Args:
            dynamic: current dynamic settings.
            of_all: True if the settings are defaults of all brokers.

        Raises:
            KafkaError: INVALID_REQUEST if a key is not dynamic or a value is invalid.
        """
        set_now = [name for name, value in changes.items() if value is not None]
        _refuse("Cannot update these configs dynamically", READ_ONLY.intersection(changes))
        _refuse(
            "These security configs can be dynamically updated only per-listener using the listener prefix",
            OF_LISTENERS_ONLY.intersection(set_now),
        )
        stored = {name: None if value is None else _checked(name, value) for name, value in changes.items()}
        if of_all:
            where = "Cannot update these configs at default cluster level, broker id must be specified"
            _refuse(where, filter(_is_of_one_broker, set_now))
        for name in set_now:
            if name in THREADS or name == CLEANER_THREADS:
                self._check_threads(name, int(str(stored[name])), dynamic)
        return stored

    def check_group(self, changes: Mapping[str, object], known: Mapping[str, str]) -> dict[str, str | None]:
        return checked_changes(changes, known, self.static)

    def _static_threads(self, name: str) -> int:
        schema = _schema(name)
        return int(getattr(self.static if schema is BrokerConfig else schema(), schema.require(name).name))

    def _check_threads(self, name: str, wanted: int, dynamic: Mapping[str, str]) -> None:
        """Check that a new number of threads is at least half and at most twice the current one.

        Args:
            name: the setting.
            wanted: the new number.
            dynamic: current dynamic settings, which precede the static ones.

        Raises:
            KafkaError: INVALID_REQUEST if the new number is out of these bounds.
        """
        now = int(dynamic.get(name) or self._static_threads(name))
        if now // 2 <= wanted <= now * 2:
            return
        if name == CLEANER_THREADS:
            less, more = "cannot be reduced to less than half", "cannot be increased to more than double"
            message = f"Log cleaner threads {less if wanted < now else more} the current value {now}"
        else:
            bound = "be at least half" if wanted < now else "not be greater than double"
            what = f"Dynamic thread count update validation failed for {name}={wanted}"
            message = f"{what}, value should {bound} the current value {now}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


class RunningConfig:
    """The current settings of a running broker.

    Args:
        on_change: called with each new `current` and the time.
    """

    def __init__(self, settings: DynamicSettings) -> None:
        self.settings = settings
        self.current = settings.static
        self.on_change: list[Callable[[BrokerConfig, int], None]] = []

    def follow(self, dynamic: Mapping[str, str], now_us: int) -> None:
        """Apply dynamic settings. Source: DynamicBrokerConfig.updateBrokerConfig, .updateDefaultConfig"""
        config = self.settings.effective(dynamic)
        if config != self.current:
            self.current = config
            for changed in self.on_change:
                changed(config, now_us)


def _acts(name: str) -> bool:
    return name in WITH_EFFECT


def _schema(name: str) -> type[Config]:
    if name in PASSIVE:
        return PassiveDynamicConfig
    return DynamicBrokerConfig if name in RATES else BrokerConfig


def _checked(name: str, value: object) -> str:
    """Check a value, and return it as it is stored.

    Raises:
        KafkaError: INVALID_REQUEST if the value is invalid.
    """
    match = _LISTENER.fullmatch(name)
    base = match[1] if match else name
    if not (_acts(base) or base in PASSIVE or base in RATES):
        return str(value)
    typed = checked(_schema(base), base, value)
    if base == _UNSET_IF_ZERO and typed == 0:
        message = f"{base} must be unlimited (-1) or, equal or greater than 1"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return as_text(typed)


def _is_of_one_broker(name: str) -> bool:
    match = _LISTENER.fullmatch(name)
    return match[1] not in _OF_ALL_LISTENERS if match else name in OF_ONE_BROKER


def _refuse(why: str, names: Iterable[str]) -> None:
    """Refuse a change if `names` has any items. The message is `why`, followed by the names.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    found = sorted(names)
    if found:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{why}: Set({', '.join(found)})")
