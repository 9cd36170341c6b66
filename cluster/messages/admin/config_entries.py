"""Settings of topics, brokers and groups as DescribeConfigs and CreateTopics return them: value, type, and source.

Source: ConfigHelper.scala, DescribeConfigsResponse.ConfigSource, .ConfigType
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from cluster.config import BrokerConfig, GroupConfig, is_of_release, kafkas_own, topic_defaults
from cluster.dynamic_keys import DYNAMIC, PASSIVE, RATES
from cluster.dynamic_settings import defaults_of
from cluster.messages.admin.broker_description import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSIVE_BROKER_KEYS,
    PASSWORD,
    SHORT,
    STRING,
    UNKNOWN,
    OwnKey,
    PassiveKey,
    is_of_the_era,
)
from controller.topics import as_text
from replica.config import BROKER_KEY_OF_TOPIC_KEY, INT32_MAX, TopicConfig, key_of
from replica.rules import Rules

DYNAMIC_TOPIC: Final = 1
DYNAMIC_BROKER: Final = 2
DYNAMIC_DEFAULT_BROKER: Final = 3
STATIC_BROKER: Final = 4
DEFAULT: Final = 5
DYNAMIC_GROUP: Final = 8

_LONGS = frozenset(
    {
        "connections.max.idle.ms",
        "connections.max.reauth.ms",
        "leader.imbalance.check.interval.seconds",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.compaction.lag.ms",
        "log.dir.failure.timeout.ms",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.retention.bytes",
        "log.retention.check.interval.ms",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.delete.delay.ms",
        "metadata.log.max.record.bytes.between.snapshots",
        "offsets.retention.check.interval.ms",
        "replica.high.watermark.checkpoint.interval.ms",
        "replica.lag.time.max.ms",
    }
)
"""Broker keys of type LONG in Kafka; other numbers are INT."""
_SHORTS = frozenset({"offsets.topic.replication.factor", "transaction.state.log.replication.factor"})
_NULL_BY_DEFAULT = frozenset(
    {"log.flush.interval.ms", "log.retention.minutes", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"}
)
_SAME_THING = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Groups of broker keys for the same setting, highest priority first.

Source: DynamicBrokerConfig.brokerConfigSynonyms
"""
_SYNONYMS = {name: names for names in _SAME_THING for name in names if name != "log.flush.scheduler.interval.ms"}
_LISTS = frozenset(
    {
        "cleanup.policy",
        "log.cleanup.policy",
        "metric.reporters",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
)


class Synonym(NamedTuple):
    """One possible source of a setting's value.

    In a list of synonyms the first one counts. `value` is None for a secret.
    """

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """One setting of a resource. `value` is None for null and for a secret."""

    name: str
    value: str | None
    source: int
    type: int
    read_only: bool
    synonyms: tuple[Synonym, ...]
    is_sensitive: bool = False
    documentation: str | None = None


def is_list(name: str) -> bool:
    """Return True if the key's value is a list, to which values can be appended."""
    return name in _LISTS


def settings_of_all(stored: Mapping[str, str], config: BrokerConfig, *, elr: bool) -> Mapping[str, str]:
    """Return the settings of all brokers, from those stored in the metadata log.

    Simplified: with ELR, Kafka's active controller writes its own min.insync.replicas as a setting of all brokers. Here
    no record has it, and only responses show it.

    Source: ConfigurationControlManager.maybeGenerateElrSafetyRecords, KIP-966
    """
    if not elr:
        return stored
    return {"min.insync.replicas": as_text(config.min_insync_replicas), **stored}


class Dynamic(NamedTuple):
    """The settings of a broker in the metadata log: its own, and the defaults of all brokers."""

    own: Mapping[str, str] = {}
    default: Mapping[str, str] = {}

    @property
    def names(self) -> list[str]:
        return sorted({*self.own, *self.default})

    def synonyms(self, *names: str) -> list[Synonym]:
        places = ((self.own, DYNAMIC_BROKER), (self.default, DYNAMIC_DEFAULT_BROKER))
        return [Synonym(name, values[name], source) for values, source in places for name in names if name in values]


def topic_entries(stored: Mapping[str, str], config: BrokerConfig, dynamic: Dynamic) -> Iterator[ConfigEntry]:
    """Yield an entry for each topic setting, by name. Source: ConfigHelper.createTopicConfigEntry

    Args:
        stored: the topic's own settings.
        config, dynamic: settings of the node.
    """
    defaults = topic_defaults(config)
    keys = TopicConfig.keys()
    for name, item in sorted((name, keys[name]) for name in keys if is_of_release(name, config.release)):
        synonyms = [Synonym(name, stored[name], DYNAMIC_TOPIC)] if name in stored else []
        if name in BROKER_KEY_OF_TOPIC_KEY:
            synonyms += _synonyms(BROKER_KEY_OF_TOPIC_KEY[name], config, dynamic)
        # Without a synonym another key may count: retention.ms has none if log.retention.hours is set.
        value = synonyms[0].value if synonyms else as_text(getattr(defaults, item.name))
        source = synonyms[0].source if synonyms else DEFAULT
        yield ConfigEntry(name, value, source, type_of(item), False, tuple(synonyms))


def _synonyms(name: str, config: BrokerConfig, dynamic: Dynamic) -> list[Synonym]:
    """Return the synonyms of a broker key, beginning with the first of its own name.

    Source: ConfigHelper.configSynonyms
    """
    names, keys, kafkas = _SYNONYMS.get(name, (name,)), BrokerConfig.keys(), kafkas_own(config.release)
    values = [
        (item, as_text(getattr(config, keys[item].name)), as_text(getattr(kafkas, keys[item].name))) for item in names
    ]
    found = dynamic.synonyms(*names)
    found += [Synonym(item, value, STATIC_BROKER) for item, value, default in values if value != default]
    found += [Synonym(item, default, DEFAULT) for item, _, default in values if item not in _NULL_BY_DEFAULT]
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def group_entries(stored: Mapping[str, str], config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Yield an entry for each group setting, by name. Source: ConfigHelper.createGroupConfigEntry

    Args:
        stored: the group's own settings.
        config: configuration of the broker.
    """
    keys = GroupConfig.keys()
    for name, default in sorted(defaults_of(config).items()):
        value, source = (stored[name], DYNAMIC_GROUP) if name in stored else (default, DEFAULT)
        yield ConfigEntry(name, value, source, type_of(keys[name]), False, (Synonym(name, value, source),))


def broker_entries(config: BrokerConfig, rules: Rules, own: Sequence[OwnKey], dynamic: Dynamic) -> list[ConfigEntry]:
    """Return an entry for each broker setting, by name.

    Args:
        config: configuration at the broker's start.
        own: settings from own_keys.
    """
    known = BrokerConfig.keys()
    entries = [_active_entry(item, config, dynamic) for name, item in known.items() if is_of_the_era(name, rules)]
    entries += [_default_entry(item) for item in PASSIVE.values()]
    entries += [_passive_entry(passive) for passive in PASSIVE_BROKER_KEYS]
    entries += [_own_entry(item) for item in own]
    by_name = {entry.name: entry for entry in entries}  # Settings in `own` win, as for log.dirs.
    for name in dynamic.names:
        if name not in known:
            by_name[name] = _with_dynamic(name, dynamic, by_name.get(name))
    return [by_name[name] for name in sorted(by_name)]


def default_entries(default: Mapping[str, str]) -> list[ConfigEntry]:
    """Return an entry for each setting that is a default of all brokers, by name."""
    dynamic, keys = Dynamic(default=default), {**BrokerConfig.keys(), **PASSIVE}
    known = {name: _default_entry(keys[name]) for name in default if name in keys}
    found = [_with_dynamic(name, dynamic, known.get(name)) for name in sorted(default)]
    return [entry._replace(synonyms=entry.synonyms[:1]) for entry in found]


def _with_dynamic(name: str, dynamic: Dynamic, static: ConfigEntry | None) -> ConfigEntry:
    """Apply dynamic settings to an entry. Source: KafkaConfig.configType, .maybeSensitive

    Args:
        static: the entry without dynamic settings; None for a key unknown to Kafka, which might be a secret.
    """
    set_now = dynamic.synonyms(name)
    if name in RATES:
        value, kind = set_now[0].value, type_of(RATES[name])
        return ConfigEntry(name, value, set_now[0].source, kind, name not in DYNAMIC, tuple(set_now))
    if static is None or static.is_sensitive:
        hidden = tuple(synonym._replace(value=None) for synonym in set_now)
        kind = UNKNOWN if static is None else static.type
        return ConfigEntry(name, None, set_now[0].source, kind, name not in DYNAMIC, hidden, is_sensitive=True)
    synonyms = (*set_now, *static.synonyms)
    return static._replace(value=synonyms[0].value, source=synonyms[0].source, synonyms=synonyms)


def _active_entry(item: Field[Any], config: BrokerConfig, dynamic: Dynamic) -> ConfigEntry:
    name = key_of(item)
    synonyms = _synonyms(name, config, dynamic)
    return _entry(item, synonyms[0].value if synonyms else None, synonyms)


def _default_entry(item: Field[Any]) -> ConfigEntry:
    value = as_text(item.default)
    return _entry(item, value, [Synonym(key_of(item), value, DEFAULT)])


def _entry(item: Field[Any], value: str | None, synonyms: Sequence[Synonym]) -> ConfigEntry:
    name, kind = key_of(item), type_of(item)
    if name in _SHORTS:
        kind = SHORT
    elif kind == LONG and name not in _LONGS and name not in PASSIVE:
        kind = INT
    source = synonyms[0].source if synonyms else DEFAULT
    documentation = item.metadata["doc"] or None
    return ConfigEntry(name, value, source, kind, name not in DYNAMIC, tuple(synonyms), documentation=documentation)


def _passive_entry(key: PassiveKey) -> ConfigEntry:
    is_sensitive = key.type == PASSWORD
    synonyms = () if key.default is None else (Synonym(key.name, key.default, DEFAULT),)
    is_fixed = key.name not in DYNAMIC
    return ConfigEntry(key.name, key.default, DEFAULT, key.type, is_fixed, synonyms, is_sensitive, key.documentation)


def _own_entry(key: OwnKey) -> ConfigEntry:
    synonym = Synonym(key.name, key.value, STATIC_BROKER)
    is_read_only = key.name not in DYNAMIC
    return ConfigEntry(key.name, key.value, STATIC_BROKER, key.type, is_read_only, (synonym,), False, key.documentation)


def type_of(item: Field[Any]) -> int:
    """Return Kafka's number for the type of a key (ConfigType)."""
    if key_of(item) in _LISTS:
        return LIST
    match item.default:
        case bool():
            return BOOLEAN
        case int():
            return INT if item.metadata["high"] <= INT32_MAX else LONG
        case float():
            return DOUBLE
    return STRING
