"""Kafka's configuration keys as typed, frozen objects: the base class, and the keys of topics, quotas and throttles.

Keys keep Kafka's spelling (`min.insync.replicas`); attributes have underscores instead of dots. Times are in
milliseconds, as in Kafka. Numeric keys accept `never` for the largest value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import Field, field, fields, replace
from functools import cache
from typing import Any, ClassVar, Final, Protocol, Self

from replica.errors import ErrorCode, KafkaError
from replica.frozen import dataclass

NEVER = 2**63 - 1
"""Long.MAX_VALUE, which Kafka uses as "never" for intervals and limits."""
INT32_MAX = 2**31 - 1
"""The largest value of Kafka's type INT."""


CLEANUP_POLICIES = r"|(compact|delete)(\s*,\s*(compact|delete))*"
"""Pattern for cleanup.policy, a comma-separated list. If the list is empty, nothing is deleted."""
THROTTLED_REPLICAS = r"\*|([0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?"
THROTTLED_REPLICAS_FORM = "partition:broker,partition:broker,... or *"
CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = CREATE_TIME, LOG_APPEND_TIME = ("CreateTime", "LogAppendTime")


class ConfigError(ValueError):
    """An unknown configuration key or an invalid value.

    `key` is the key, and `suggestion` the key or value that the user probably meant.
    """

    def __init__(self, key: str, message: str, suggestion: str | None = None) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key
        self.message = message
        self.suggestion = suggestion


def key(
    default: Any,
    *,
    low: float | None = None,
    high: float = NEVER,
    choices: tuple[str, ...] = (),
    is_list: bool = False,
    pattern: str = "",
    doc: str = "",
    is_dynamic: bool = False,
) -> Any:
    """Declare one Kafka key as a dataclass field, whose name has underscores instead of the key's dots.

    The type of the default is the type of the key.

    Args:
        low: the smallest number allowed, None for no limit.
        high: the largest number allowed, which is also the value of `never`.
        choices: the allowed values of a key that is a string.
        is_list: True if the value is a list of distinct choices, separated by commas.
        pattern: regular expression that the whole value must match.
        doc: description of `pattern`, for error messages.
        is_dynamic: True if the key can be set while a broker runs (KIP-226).
    """
    limits = {"low": low, "high": high, "choices": choices, "is_list": is_list}
    return field(default=default, metadata={**limits, "pattern": pattern, "doc": doc, "is_dynamic": is_dynamic})


def key_of(item: Field[Any]) -> str:
    """Return Kafka's key that a field declares."""
    return item.name.replace("_", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Base class of configurations; `from_mapping` checks keys, types and ranges."""

    WHAT: ClassVar[str] = "configuration"

    @classmethod
    @cache
    def keys(cls) -> Mapping[str, Field[Any]]:
        return {key_of(item): item for item in fields(cls) if item.metadata}

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """Build a configuration.

        Raises ConfigError for the first bad key or value. To find all errors, call `check` for each key.
        """
        typed = {name: cls.check(name, value) for name, value in values.items()}
        return cls(**{cls.keys()[name].name: value for name, value in typed.items()})

    @classmethod
    def require(cls, name: str) -> Field[Any]:
        """Return the field of a key. Raises ConfigError if there is no such key."""
        known = cls.keys()
        if name not in known:
            close = difflib.get_close_matches(name.replace("_", "."), list(known), n=1)
            raise ConfigError(name, f"unknown {cls.WHAT} key", close[0] if close else None)
        return known[name]

    @classmethod
    def check(cls, name: str, value: object) -> Any:
        """Return the typed value of one key. Raises ConfigError for an unknown key or a bad value."""
        item = cls.require(name)
        pattern = item.metadata["pattern"]
        if pattern and not re.fullmatch(pattern, str(value).strip()):
            raise ConfigError(
                name, f"`{str(value)[:60]}` does not have the form that Kafka requires ({item.metadata['doc']})"
            )
        return _coerce(name, value, item)


SPOKEN_BOOLEANS = {
    **dict.fromkeys(("yes", "on", "1", "true", "y"), "true"),
    **dict.fromkeys(("no", "off", "0", "false", "n"), "false"),
}
"""For a lower-case word such as `yes`, the boolean that the user probably meant; used to suggest a value."""
SIZE_UNITS = {"B": 1, "kB": 1000, "KB": 1000, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
"""Number of bytes in each unit."""

_UNITS = {
    "ms": {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000},
    "bytes": SIZE_UNITS,
}


def _in_own_unit(name: str, text: str) -> str | None:
    """Convert a value with a unit to the unit of the key, such as `30s` to 30000 for a key that ends in `.ms`.

    Returns:
        None if the value is not a number with a suitable unit.
    """
    parts = re.fullmatch(r"([0-9]{1,12}) ?([A-Za-z]{1,3})", text)
    factor = _UNITS.get(name.rpartition(".")[2], {}).get(parts[2]) if parts else None
    return str(int(parts[1]) * factor) if parts and factor else None


def _coerce(name: str, value: object, item: Field[Any]) -> Any:
    default, low, high, choices = item.default, *(item.metadata[part] for part in ("low", "high", "choices"))
    text = str(value).strip()
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ConfigError(name, f"must be true or false, not `{text}`", SPOKEN_BOOLEANS.get(text.lower()))
    if isinstance(default, str):
        chosen = items_of(text) if item.metadata["is_list"] else (text,)
        for other in chosen if choices else ():
            if other not in choices:
                word = other.rpartition(".")[2]  # perhaps a class's full name
                close = difflib.get_close_matches(word, choices, n=1) or [x for x in choices if x == word.lower()]
                raise ConfigError(name, f"`{other}` is not one of {', '.join(choices)}", close[0] if close else None)
            if chosen.count(other) > 1:
                raise ConfigError(name, f"`{other}` occurs more than once")
        return text
    if text == "never":
        return high
    if not re.fullmatch(_FRACTION if isinstance(default, float) else _INTEGER, text):
        title = f"`{text[:60]}` is not a number; write it in Kafka's unit, without a suffix"
        raise ConfigError(name, title, _in_own_unit(name, text))
    number = float(text) if isinstance(default, float) else int(text)
    if low is not None and number < low:
        raise ConfigError(name, f"must be at least {low:g}, not {text}")
    if number > high:
        raise ConfigError(name, f"must be at most {high:,}, not {text}")
    return number


def items_of(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


_INTEGER = r"[+-]?[0-9]{1,30}"
_FRACTION = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(Config):
    """The settings of a topic. The controller merges in a broker's `log.*` defaults. Source: LogConfig.java"""

    WHAT: ClassVar[str] = "topic"

    min_insync_replicas: int = key(1, low=1, high=INT32_MAX)
    unclean_leader_election_enable: bool = key(False)
    segment_bytes: int = key(1 << 30, low=1024, high=INT32_MAX)
    segment_ms: int = key(604_800_000, low=1)
    segment_index_bytes: int = key(10 << 20, low=12, high=INT32_MAX)
    index_interval_bytes: int = key(4096, low=0, high=INT32_MAX)
    max_message_bytes: int = key(1_048_588, low=0, high=INT32_MAX)
    flush_messages: int = key(NEVER, low=1)
    flush_ms: int = key(NEVER, low=0)
    message_timestamp_type: str = key(CREATE_TIME, choices=TIMESTAMP_TYPES)
    message_timestamp_before_max_ms: int = key(NEVER, low=0)
    message_timestamp_after_max_ms: int = key(NEVER, low=0)
    cleanup_policy: str = key("delete", pattern=CLEANUP_POLICIES, doc="delete, compact, both or empty")
    retention_ms: int = key(604_800_000, low=-1)
    retention_bytes: int = key(-1, low=-1)
    file_delete_delay_ms: int = key(60_000, low=0)
    min_cleanable_dirty_ratio: float = key(0.5, low=0, high=1)
    min_compaction_lag_ms: int = key(0, low=0)
    max_compaction_lag_ms: int = key(NEVER, low=1)
    delete_retention_ms: int = key(86_400_000, low=0)
    leader_replication_throttled_replicas: str = key("", pattern=THROTTLED_REPLICAS, doc=THROTTLED_REPLICAS_FORM)
    follower_replication_throttled_replicas: str = key("", pattern=THROTTLED_REPLICAS, doc=THROTTLED_REPLICAS_FORM)
    # Differs from Kafka: the value is checked, stored and described, but a batch keeps the codec that it came with.
    compression_type: str = key("producer", choices=CODECS)
    compression_gzip_level: int = key(-1, low=-1, high=9)
    compression_lz4_level: int = key(9, low=1, high=17)
    compression_zstd_level: int = key(3, low=-131_072, high=22)
    preallocate: bool = key(False)
    segment_jitter_ms: int = key(0, low=0)
    # Without tiered storage the local log is the whole log, as in Kafka.
    remote_storage_enable: bool = key(
        False, pattern="(?i)false", doc="only false, because the broker has no tiered storage"
    )
    remote_log_copy_disable: bool = key(False)
    remote_log_delete_on_disable: bool = key(False)
    local_retention_ms: int = key(-2, low=-2)
    local_retention_bytes: int = key(-2, low=-2)
    errors_deadletterqueue_group_enable: bool = key(False)

    def with_own(self, stored: Mapping[str, str]) -> Self:
        """Return a topic's settings: those in `stored`, with these settings as defaults for the other keys."""
        keys = self.keys()
        own = {keys[name].name: self.check(name, value) for name, value in stored.items()}
        return replace(self, **own) if own else self

    @property
    def is_stamped_by_the_leader(self) -> bool:
        """True if records get the time of the leader's clock (message.timestamp.type=LogAppendTime)."""
        return self.message_timestamp_type == LOG_APPEND_TIME

    @property
    def is_compacted(self) -> bool:
        """True if the log is compacted: every record needs a key, and the last record of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """True if old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBrokerConfig(Config):
    """Broker settings that can only be set dynamically, through the controller. Source: DynamicConfig.Broker, KIP-73

    The third rate has no effect, since replicas cannot move between log directories here. It is accepted because
    Kafka's tools clear all three rates.
    """

    WHAT: ClassVar[str] = "dynamic broker"

    leader_replication_throttled_rate: int = key(NEVER, low=0)
    follower_replication_throttled_rate: int = key(NEVER, low=0)
    replica_alter_log_dirs_io_max_bytes_per_second: int = key(NEVER, low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaConfig(Config):
    """Quotas of a user or a client. Source: QuotaConfig.java"""

    WHAT: ClassVar[str] = "quota"

    producer_byte_rate: int = key(NEVER, low=1)
    consumer_byte_rate: int = key(NEVER, low=1)
    request_percentage: float = key(float(INT32_MAX), low=1e-6)
    controller_mutation_rate: float = key(float(INT32_MAX), low=1e-6)

    @classmethod
    @cache
    def keys(cls) -> Mapping[str, Field[Any]]:
        return {item.name: item for item in fields(cls)}


BROKER_KEY_OF_TOPIC_KEY: Mapping[str, str] = {
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.message.bytes": "message.max.bytes",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "cleanup.policy": "log.cleanup.policy",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "compression.type": "compression.type",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
    "preallocate": "log.preallocate",
    "local.retention.ms": "log.local.retention.ms",
    "local.retention.bytes": "log.local.retention.bytes",
}
"""For each topic key, the broker key that sets its default. Source: the first entries in ServerTopicConfigSynonyms"""


# ------------------------------------------------------------------------------------------------------------- settings
#
# The settings that a node knows: defaults of topics, and the keys that can change while it runs (KIP-226).
#
# Source: KafkaConfigSchema, ConfigurationValidator


class NodeSettings(Protocol):
    """A node's settings: its file, overridden by dynamic settings of all brokers, then by its own dynamic settings."""

    def topic_defaults(self, dynamic: Mapping[str, str]) -> TopicConfig:
        """Return the settings of a topic that overrides none.

        Args:
            dynamic: the node's dynamic settings.
        """

    def check(
        self, changes: Mapping[str, object], dynamic: Mapping[str, str], *, of_all: bool
    ) -> dict[str, str | None]:
        """Validate changes of broker settings, and return them as the strings to store; None resets a key.

        Args:
            dynamic: current dynamic settings of the broker, or of all brokers if `of_all`.

        Raises:
            KafkaError: INVALID_REQUEST if a key or value is invalid.

        Source: DynamicBrokerConfig.validate
        """

    def check_group(self, changes: Mapping[str, object], known: Mapping[str, str]) -> dict[str, str | None]:
        """Validate changes of a group's settings, and return them as the strings to store.

        Args:
            known: current settings of the group.

        Raises:
            KafkaError: INVALID_CONFIG if a key or value is invalid.

        Source: GroupConfigManager.validate
        """


def checked(schema: type[Config], name: str, value: object) -> Any:
    """Return the typed value of a broker's setting.

    Raises:
        KafkaError: INVALID_REQUEST for an unknown key or a bad value.
    """
    try:
        return schema.check(name, value)
    except ConfigError as error:
        # Kafka answers INVALID_CONFIG for topics only (KAFKA-13609).
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


class FixedSettings:
    """Kafka's default settings of a node, of which only the replication throttle rates can be changed."""

    def topic_defaults(self, dynamic: Mapping[str, str]) -> TopicConfig:
        return TopicConfig()

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
"""The settings of a node that has Kafka's defaults."""
