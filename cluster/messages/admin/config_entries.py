"""Settings of topics and brokers as DescribeConfigs and CreateTopics return them: value, type, and where it comes from.

source: ConfigHelper.scala, DescribeConfigsResponse.ConfigSource, .ConfigType
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field
from typing import Any, Final, NamedTuple

from cluster.config import BrokerConfig, topic_defaults
from cluster.messages.admin.broker_description import OwnKey, is_of_the_era
from cluster.messages.admin.passive_broker_keys import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSIVE_BROKER_KEYS,
    PASSWORD,
    STRING,
    PassiveKey,
)
from controller.topics import as_text
from replica.config import BROKER_KEY_OF_TOPIC_KEY, INT32_MAX, DynamicBrokerConfig, TopicConfig
from replica.passive_topic_keys import PassiveTopicConfig
from replica.rules import Rules

DYNAMIC_TOPIC: Final = 1
DYNAMIC_BROKER: Final = 2
DYNAMIC_DEFAULT_BROKER: Final = 3
STATIC_BROKER: Final = 4
DEFAULT: Final = 5

_LONGS = frozenset(
    {
        "connections.max.idle.ms",
        "leader.imbalance.check.interval.seconds",
        "log.dir.failure.timeout.ms",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.retention.bytes",
        "log.retention.check.interval.ms",
        "log.retention.ms",
        "log.roll.ms",
        "log.segment.delete.delay.ms",
        "metadata.log.max.record.bytes.between.snapshots",
        "offsets.retention.check.interval.ms",
        "replica.high.watermark.checkpoint.interval.ms",
        "replica.lag.time.max.ms",
    }
)
"""Numbers of brokers that are no INT in Kafka."""
_NULL_IF_ZERO = frozenset({"log.retention.minutes", "log.retention.ms"})
_LISTS = frozenset(
    {
        "cleanup.policy",
        "log.cleanup.policy",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
)


class Synonym(NamedTuple):
    """A possible source of the value; the first in a list counts."""

    name: str
    value: str
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


def topic_entries(stored: Mapping[str, str], config: BrokerConfig, of_all: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Every topic key, by name.

    stored: as the metadata log keeps a topic's settings     config: of the brokers     of_all: set for all brokers
    """
    defaults = topic_defaults(config)
    for name, item in sorted({**TopicConfig.keys(), **PassiveTopicConfig.keys()}.items()):
        synonyms = []
        broker_key = BROKER_KEY_OF_TOPIC_KEY.get(name)
        if broker_key is not None:
            default = as_text(item.default)
            static = as_text(getattr(defaults, item.name))
            if broker_key in of_all:
                synonyms.append(Synonym(broker_key, of_all[broker_key], DYNAMIC_DEFAULT_BROKER))
            if static != default:
                synonyms.append(Synonym(broker_key, static, STATIC_BROKER))
            synonyms.append(Synonym(broker_key, default, DEFAULT))
        value = stored.get(name, as_text(item.default))
        # A topic is created with the brokers' values, so a value equal to theirs counts as theirs.
        if synonyms[0].value != value if synonyms else name in stored:
            synonyms.insert(0, Synonym(name, value, DYNAMIC_TOPIC))
        source = synonyms[0].source if synonyms else DEFAULT
        yield ConfigEntry(name, value, source, type_of(item), False, tuple(synonyms))


def broker_entries(
    config: BrokerConfig, rules: Rules, own: Sequence[OwnKey], dynamic: Mapping[str, str], default: Mapping[str, str]
) -> list[ConfigEntry]:
    """Every key of a broker, by name.

    own: its own keys     dynamic: settings made while it runs, for it alone     default: for all brokers
    """
    entries = [_active_entry(item, config) for name, item in BrokerConfig.keys().items() if is_of_the_era(name, rules)]
    entries += [_passive_entry(passive) for passive in PASSIVE_BROKER_KEYS]
    entries += [_own_entry(one) for one in own]
    by_name = {entry.name: entry for entry in entries}  # What it says of itself counts: where log.dirs really are.
    for name in sorted({*dynamic, *default}):
        static = by_name.get(name)
        by_name[name] = _dynamic_entry(name, dynamic, default, () if static is None else static.synonyms)
    return [by_name[name] for name in sorted(by_name)]


def default_entries(default: Mapping[str, str]) -> list[ConfigEntry]:
    """Settings made for all brokers at once, by name."""
    return [_dynamic_entry(name, {}, default) for name in sorted(default)]


def _active_entry(item: Field[Any], config: BrokerConfig) -> ConfigEntry:
    name = item.metadata["key"]
    value, default = as_text(getattr(config, item.name)), as_text(item.default)
    if value == "0" and name in _NULL_IF_ZERO:
        kind = LONG if name in _LONGS else INT
        return ConfigEntry(name, None, DEFAULT, kind, True, (), documentation=item.metadata["doc"])
    synonyms = [Synonym(name, default, DEFAULT)]
    if value != default:
        synonyms.insert(0, Synonym(name, value, STATIC_BROKER))
    return ConfigEntry(name, value, synonyms[0].source, _type_of_static(item), True, tuple(synonyms))


def _passive_entry(key: PassiveKey) -> ConfigEntry:
    is_sensitive = key.type == PASSWORD
    synonyms = () if key.default is None else (Synonym(key.name, key.default, DEFAULT),)
    return ConfigEntry(key.name, key.default, DEFAULT, key.type, True, synonyms, is_sensitive, key.documentation)


def _own_entry(key: OwnKey) -> ConfigEntry:
    synonym = Synonym(key.name, key.value, STATIC_BROKER)
    return ConfigEntry(key.name, key.value, STATIC_BROKER, key.type, True, (synonym,), False, key.documentation)


def _dynamic_entry(
    name: str, dynamic: Mapping[str, str], default: Mapping[str, str], static: tuple[Synonym, ...] = ()
) -> ConfigEntry:
    places = ((dynamic, DYNAMIC_BROKER), (default, DYNAMIC_DEFAULT_BROKER))
    synonyms = (*(Synonym(name, values[name], source) for values, source in places if name in values), *static)
    item = BrokerConfig.keys().get(name)
    kind = type_of(DynamicBrokerConfig.require(name)) if item is None else _type_of_static(item)
    return ConfigEntry(name, synonyms[0].value, synonyms[0].source, kind, False, synonyms)


def _type_of_static(item: Field[Any]) -> int:
    kind = type_of(item)
    return INT if kind == LONG and item.metadata["key"] not in _LONGS else kind


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
