"""Kafka's configuration keys as typed, frozen objects: the machinery, and the keys that a log and its partition use.

Keys keep Kafka's spelling (`min.insync.replicas`), attributes replace dots by underscores. Times stay in Kafka's
milliseconds here; the cores convert once. Numeric keys accept `never` for "as good as infinite".
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
"""Long.MAX_VALUE: Kafka's own "never" for intervals and limits."""
INT32_MAX = 2**31 - 1
"""The most that keys of Kafka's type INT hold."""


CLEANUP_POLICIES = r"|(compact|delete)(\s*,\s*(compact|delete))*"
"""A list; an empty one means that nothing is deleted."""
THROTTLED_REPLICAS = r"\*|([0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?"
THROTTLED_REPLICAS_FORM = "partition:broker,partition:broker,... or *"
CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = CREATE_TIME, LOG_APPEND_TIME = ("CreateTime", "LogAppendTime")


class ConfigError(ValueError):
    """A configuration key or value that cannot be used; `key` says where, `suggestion` names the likely intent."""

    def __init__(self, key: str, message: str, suggestion: str | None = None) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key
        self.message = message
        self.suggestion = suggestion


def key(
    name: str,
    default: Any,
    *,
    low: float | None = None,
    high: float = NEVER,
    choices: tuple[str, ...] = (),
    is_list: bool = False,
    pattern: str = "",
    doc: str = "",
) -> Any:
    """A dataclass field for one Kafka key; the default's type is the key's type.

    high: the most a number may be; `never` is that, too
    pattern: the whole text of a string must match it
    is_list: of several choices, each once, with commas between them
    """
    limits = {"low": low, "high": high, "choices": choices, "is_list": is_list}
    return field(default=default, metadata={"key": name, **limits, "pattern": pattern, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Base: `from_mapping` checks keys, types and ranges and names the place of every error."""

    WHAT: ClassVar[str] = "configuration"

    @classmethod
    @cache
    def keys(cls) -> Mapping[str, Field[Any]]:
        return {item.metadata["key"]: item for item in fields(cls) if "key" in item.metadata}

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """raises: ConfigError for the first bad key or value (callers that want all errors check key by key)"""
        typed = {name: cls.check(name, value) for name, value in values.items()}
        return cls(**{cls.keys()[name].name: value for name, value in typed.items()})

    @classmethod
    def require(cls, name: str) -> Field[Any]:
        """The field of a key. raises: ConfigError if there is no such key"""
        known = cls.keys()
        if name not in known:
            close = difflib.get_close_matches(name.replace("_", "."), list(known), n=1)
            raise ConfigError(name, f"unknown {cls.WHAT} key", close[0] if close else None)
        return known[name]

    @classmethod
    def check(cls, name: str, value: object) -> Any:
        """The typed value of one key. raises: ConfigError"""
        item = cls.require(name)
        pattern = item.metadata["pattern"]
        if pattern and not re.fullmatch(pattern, str(value).strip()):
            raise ConfigError(
                name, f"`{str(value)[:60]}` does not have the form that Kafka asks for ({item.metadata['doc']})"
            )
        return _coerce(name, value, item)


SIZE_UNITS = {"B": 1, "kB": 1000, "KB": 1000, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
"""Bytes of each."""

_UNITS = {
    "ms": {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000},
    "bytes": SIZE_UNITS,
}


def _in_own_unit(name: str, text: str) -> str | None:
    """`30s` of a key that ends in `.ms` is 30000; None for what has no such meaning."""
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
        raise ConfigError(name, f"`{text}` is not true or false")
    if isinstance(default, str):
        chosen = items_of(text) if item.metadata["is_list"] else (text,)
        for one in chosen if choices else ():
            if one not in choices:
                close = difflib.get_close_matches(one, choices, n=1)
                raise ConfigError(name, f"`{one}` is not one of {', '.join(choices)}", close[0] if close else None)
            if chosen.count(one) > 1:
                raise ConfigError(name, f"`{one}` is there twice")
        return text
    if text == "never":
        return high
    if not re.fullmatch(_FRACTION if isinstance(default, float) else _INTEGER, text):
        title = f"`{text[:60]}` is not a number (Kafka's own unit, without suffix)"
        raise ConfigError(name, title, _in_own_unit(name, text))
    number = float(text) if isinstance(default, float) else int(text)
    if low is not None and number < low:
        raise ConfigError(name, f"{text} is below {low:g}")
    if number > high:
        raise ConfigError(name, f"{text} is above {high:,}")
    return number


def items_of(text: str) -> tuple[str, ...]:
    """Of the value of a key that is a list."""
    return tuple(one.strip() for one in text.split(","))


_INTEGER = r"[+-]?[0-9]{1,30}"
_FRACTION = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(Config):
    """Topic-level keys; a broker's `log.*` defaults are merged in by the controller. Source: LogConfig.java."""

    WHAT: ClassVar[str] = "topic"

    min_insync_replicas: int = key("min.insync.replicas", 1, low=1, high=INT32_MAX)
    unclean_leader_election_enable: bool = key("unclean.leader.election.enable", False)
    segment_bytes: int = key("segment.bytes", 1 << 30, low=1024, high=INT32_MAX)
    segment_ms: int = key("segment.ms", 604_800_000, low=1)
    segment_index_bytes: int = key("segment.index.bytes", 10 << 20, low=12, high=INT32_MAX)
    index_interval_bytes: int = key("index.interval.bytes", 4096, low=0, high=INT32_MAX)
    max_message_bytes: int = key("max.message.bytes", 1_048_588, low=0, high=INT32_MAX)
    flush_messages: int = key("flush.messages", NEVER, low=1)
    flush_ms: int = key("flush.ms", NEVER, low=0)
    message_timestamp_type: str = key("message.timestamp.type", CREATE_TIME, choices=TIMESTAMP_TYPES)
    message_timestamp_before_max_ms: int = key("message.timestamp.before.max.ms", NEVER, low=0)
    message_timestamp_after_max_ms: int = key("message.timestamp.after.max.ms", NEVER, low=0)
    cleanup_policy: str = key(
        "cleanup.policy", "delete", pattern=CLEANUP_POLICIES, doc="delete, compact, both or empty"
    )
    retention_ms: int = key("retention.ms", 604_800_000, low=-1)
    retention_bytes: int = key("retention.bytes", -1, low=-1)
    file_delete_delay_ms: int = key("file.delete.delay.ms", 60_000, low=0)
    min_cleanable_dirty_ratio: float = key("min.cleanable.dirty.ratio", 0.5, low=0, high=1)
    min_compaction_lag_ms: int = key("min.compaction.lag.ms", 0, low=0)
    max_compaction_lag_ms: int = key("max.compaction.lag.ms", NEVER, low=1)
    delete_retention_ms: int = key("delete.retention.ms", 86_400_000, low=0)
    leader_replication_throttled_replicas: str = key(
        "leader.replication.throttled.replicas", "", pattern=THROTTLED_REPLICAS, doc=THROTTLED_REPLICAS_FORM
    )
    follower_replication_throttled_replicas: str = key(
        "follower.replication.throttled.replicas", "", pattern=THROTTLED_REPLICAS, doc=THROTTLED_REPLICAS_FORM
    )
    # Differs from Kafka: checked, kept and described only; a batch keeps the codec that it came with.
    compression_type: str = key("compression.type", "producer", choices=CODECS)
    compression_gzip_level: int = key("compression.gzip.level", -1, low=-1, high=9)
    compression_lz4_level: int = key("compression.lz4.level", 9, low=1, high=17)
    compression_zstd_level: int = key("compression.zstd.level", 3, low=-131_072, high=22)
    preallocate: bool = key("preallocate", False)
    segment_jitter_ms: int = key("segment.jitter.ms", 0, low=0)
    # Without tiered storage the local log is the whole log, in Kafka as well.
    remote_storage_enable: bool = key(
        "remote.storage.enable", False, pattern="(?i)false", doc="false, as tiered storage is disabled in the broker"
    )
    remote_log_copy_disable: bool = key("remote.log.copy.disable", False)
    remote_log_delete_on_disable: bool = key("remote.log.delete.on.disable", False)
    local_retention_ms: int = key("local.retention.ms", -2, low=-2)
    local_retention_bytes: int = key("local.retention.bytes", -2, low=-2)

    def with_own(self, stored: Mapping[str, str]) -> Self:
        """These settings as a cluster's defaults, and over them a topic's own, as they are stored."""
        keys = self.keys()
        own = {keys[name].name: self.check(name, value) for name, value in stored.items()}
        return replace(self, **own) if own else self

    @property
    def is_stamped_by_the_leader(self) -> bool:
        """The leader's clock when it appends counts as a record's time, not that of its producer."""
        return self.message_timestamp_type == LOG_APPEND_TIME

    @property
    def is_compacted(self) -> bool:
        """Every record must have a key, and of each key the last record stays."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Old segments go by time and size."""
        return "delete" in self.cleanup_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBrokerConfig(Config):
    """Keys of a running broker that can be set only through the controller. Source: DynamicConfig.Broker, KIP-73.

    Nothing moves between log directories here, so the third rate limits nothing; Kafka's tools clear all three.
    """

    WHAT: ClassVar[str] = "dynamic broker"

    leader_replication_throttled_rate: int = key("leader.replication.throttled.rate", NEVER, low=0)
    follower_replication_throttled_rate: int = key("follower.replication.throttled.rate", NEVER, low=0)
    replica_alter_log_dirs_io_max_bytes_per_second: int = key(
        "replica.alter.log.dirs.io.max.bytes.per.second", NEVER, low=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaConfig(Config):
    """Quotas of a user or a client, as keys of a file. Source: QuotaConfig.java"""

    WHAT: ClassVar[str] = "quota"

    producer_byte_rate: int = key("producer_byte_rate", NEVER, low=1)
    consumer_byte_rate: int = key("consumer_byte_rate", NEVER, low=1)
    request_percentage: float = key("request_percentage", float(INT32_MAX), low=1e-6)
    controller_mutation_rate: float = key("controller_mutation_rate", float(INT32_MAX), low=1e-6)


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
"""The broker-wide default of each topic key (ServerTopicConfigSynonyms, the first of each list)."""


# ------------------------------------------------------------------------------------------------------------- settings
#
# What a node knows of its own settings: defaults of topics, and which of them can change while it runs (KIP-226).
#
# Source: KafkaConfigSchema, ConfigurationValidator


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
