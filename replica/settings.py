"""What a node knows of its own settings: defaults of topics, and which of them can change while it runs (KIP-226).

Source: KafkaConfigSchema, ConfigurationValidator
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from replica.config import Config, ConfigError, DynamicBrokerConfig, TopicConfig
from replica.errors import ErrorCode, KafkaError


class NodeSettings(Protocol):
    """Of one node. Dynamic settings are those in the metadata log: of all brokers, overlaid by its own."""

    def topic_defaults(self, dynamic: Mapping[str, str]) -> TopicConfig:
        """A topic's settings unless it has its own."""
        ...

    def check(
        self, changes: Mapping[str, object], dynamic: Mapping[str, str], *, of_all: bool
    ) -> dict[str, str | None]:
        """Changes as they are stored; None takes a key back. dynamic: settings of that broker, or of all, so far

        raises: KafkaError INVALID_REQUEST     source: DynamicBrokerConfig.validate
        """
        ...

    def check_group(self, changes: Mapping[str, object], known: Mapping[str, str]) -> dict[str, str | None]:
        """Changes of a group's settings as they are stored.     known: those it has so far

        raises: KafkaError INVALID_CONFIG     source: GroupConfigManager.validate
        """
        ...


def checked(schema: type[Config], name: str, value: object) -> Any:
    """The typed value of a broker's key.     raises: KafkaError INVALID_REQUEST"""
    try:
        return schema.check(name, value)
    except ConfigError as error:
        # Not INVALID_CONFIG, as of a topic (KAFKA-13609).
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


class FixedSettings:
    """Of a node whose own file is `defaults` for ever; only the rates of throttles can be set."""

    def __init__(self, defaults: TopicConfig | None = None) -> None:
        self._defaults = defaults or TopicConfig()

    def topic_defaults(self, dynamic: Mapping[str, str]) -> TopicConfig:
        return self._defaults

    def check(
        self, changes: Mapping[str, object], dynamic: Mapping[str, str], *, of_all: bool
    ) -> dict[str, str | None]:
        return {
            name: None if value is None else str(checked(DynamicBrokerConfig, name, value))
            for name, value in changes.items()
        }

    def check_group(self, changes: Mapping[str, object], known: Mapping[str, str]) -> dict[str, str | None]:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {next(iter(changes))}")


KAFKAS_OWN: Final = FixedSettings()
"""Kafka's own defaults."""
