"""Settings of topics, brokers and groups as DescribeConfigs and CreateTopics return them: value, type, and source.

source: ConfigHelper.scala, DescribeConfigsResponse.ConfigSource, .ConfigType
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from cluster.config import BrokerConfig, GroupConfig, kafkas_own, topic_defaults
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
from replica.config import BROKER_KEY_OF_TOPIC_KEY, INT32_MAX, TopicConfig
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
"""Numbers of brokers that are no INT in Kafka."""
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
"""Keys of a broker for one thing, the one that counts first.     source: DynamicBrokerConfig.brokerConfigSynonyms"""
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
    """A possible source of the value, None if that is kept secret; the first in a list counts."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """value: None for null, and of what is sensitive"""

    name: str
    value: str | None
    source: int
    type: int
    read_only: bool
    synonyms: tuple[Synonym, ...]
    is_sensitive: bool = False
    documentation: str | None = None


def is_list(name: str) -> bool:
    """Whether values can be appended to the key's value, and taken out of it."""
    return name in _LISTS


def settings_of_all(stored: Mapping[str, str], config: BrokerConfig, *, elr: bool) -> Mapping[str, str]:
    """Settings of all brokers at once.    stored: those in the metadata log

    source: ConfigurationControlManager.maybeGenerateElrSafetyRecords, KIP-966
    Simplified: with ELR Kafka's active controller writes its own min.insync.replicas as a setting of all brokers. Here
    it is in no record, and answers name it.
    """
    if not elr:
        return stored
    return {"min.insync.replicas": as_text(config.min_insync_replicas), **stored}


class Dynamic(NamedTuple):
    """Settings of a broker in the metadata log. own: for it alone     default: for all brokers"""

    own: Mapping[str, str] = {}
    default: Mapping[str, str] = {}

    @property
    def names(self) -> list[str]:
        return sorted({*self.own, *self.default})

    def synonyms(self, *names: str) -> list[Synonym]:
        places = ((self.own, DYNAMIC_BROKER), (self.default, DYNAMIC_DEFAULT_BROKER))
        return [Synonym(name, values[name], source) for values, source in places for name in names if name in values]


def topic_entries(stored: Mapping[str, str], config: BrokerConfig, dynamic: Dynamic) -> Iterator[ConfigEntry]:
    """Every topic key, by name. stored: a topic's own settings     config, dynamic: of the node

    source: ConfigHelper.createTopicConfigEntry
    """
    defaults = topic_defaults(config)
    for name, item in sorted(TopicConfig.keys().items()):
        synonyms = [Synonym(name, stored[name], DYNAMIC_TOPIC)] if name in stored else []
        if name in BROKER_KEY_OF_TOPIC_KEY:
            synonyms += _synonyms(BROKER_KEY_OF_TOPIC_KEY[name], config, dynamic)
        # Without a synonym it may be another key that counts: retention.ms has none if log.retention.hours says it.
        value = synonyms[0].value if synonyms else as_text(getattr(defaults, item.name))
        source = synonyms[0].source if synonyms else DEFAULT
        yield ConfigEntry(name, value, source, type_of(item), False, tuple(synonyms))


def _synonyms(name: str, config: BrokerConfig, dynamic: Dynamic) -> list[Synonym]:
    """Where the value of a broker's key may come from; what counts less than the key itself is left out before it.

    source: ConfigHelper.configSynonyms
    """
    names, keys, kafkas = _SYNONYMS.get(name, (name,)), BrokerConfig.keys(), kafkas_own(config.release)
    values = [
        (one, as_text(getattr(config, keys[one].name)), as_text(getattr(kafkas, keys[one].name))) for one in names
    ]
    found = dynamic.synonyms(*names)
    found += [Synonym(one, value, STATIC_BROKER) for one, value, default in values if value != default]
    found += [Synonym(one, default, DEFAULT) for one, _, default in values if one not in _NULL_BY_DEFAULT]
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def group_entries(stored: Mapping[str, str], config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Every key of a group, by name. stored: its own settings     config: of the broker

    source: ConfigHelper.createGroupConfigEntry
    """
    keys = GroupConfig.keys()
    for name, default in sorted(defaults_of(config).items()):
        value, source = (stored[name], DYNAMIC_GROUP) if name in stored else (default, DEFAULT)
        yield ConfigEntry(name, value, source, type_of(keys[name]), False, (Synonym(name, value, source),))


def broker_entries(config: BrokerConfig, rules: Rules, own: Sequence[OwnKey], dynamic: Dynamic) -> list[ConfigEntry]:
    """Every key of a broker, by name.     config: as it was started     own: its own keys"""
    known = BrokerConfig.keys()
    entries = [_active_entry(item, config, dynamic) for name, item in known.items() if is_of_the_era(name, rules)]
    entries += [_default_entry(item) for item in PASSIVE.values()]
    entries += [_passive_entry(passive) for passive in PASSIVE_BROKER_KEYS]
    entries += [_own_entry(one) for one in own]
    by_name = {entry.name: entry for entry in entries}  # What it says of itself counts: where log.dirs really are.
    for name in dynamic.names:
        if name not in known:
            by_name[name] = _with_dynamic(name, dynamic, by_name.get(name))
    return [by_name[name] for name in sorted(by_name)]


def default_entries(default: Mapping[str, str]) -> list[ConfigEntry]:
    """Settings made for all brokers at once, by name."""
    dynamic, keys = Dynamic(default=default), {**BrokerConfig.keys(), **PASSIVE}
    known = {name: _default_entry(keys[name]) for name in default if name in keys}
    found = [_with_dynamic(name, dynamic, known.get(name)) for name in sorted(default)]
    return [entry._replace(synonyms=entry.synonyms[:1]) for entry in found]


def _with_dynamic(name: str, dynamic: Dynamic, static: ConfigEntry | None) -> ConfigEntry:
    """static: without its dynamic settings; None: no key of Kafka's configuration, so it might be a secret

    source: KafkaConfig.configType, .maybeSensitive
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
    name = item.metadata["key"]
    synonyms = _synonyms(name, config, dynamic)
    return _entry(item, synonyms[0].value if synonyms else None, synonyms)


def _default_entry(item: Field[Any]) -> ConfigEntry:
    value = as_text(item.default)
    return _entry(item, value, [Synonym(item.metadata["key"], value, DEFAULT)])


def _entry(item: Field[Any], value: str | None, synonyms: Sequence[Synonym]) -> ConfigEntry:
    name, kind = item.metadata["key"], type_of(item)
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
    """Kafka's number for the type of a key."""
    if item.metadata["key"] in _LISTS:
        return LIST
    match item.default:
        case bool():
            return BOOLEAN
        case int():
            return INT if item.metadata["high"] <= INT32_MAX else LONG
        case float():
            return DOUBLE
    return STRING
