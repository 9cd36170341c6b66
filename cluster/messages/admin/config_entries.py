"""Settings of topics and brokers as DescribeConfigs and CreateTopics tell them: value, type, and where it comes from.

source: ConfigHelper.scala, DescribeConfigsResponse.ConfigSource, .ConfigType
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field
from typing import Any, Final, NamedTuple

from cluster.config import BrokerConfig, topic_defaults
from controller.topics import as_text
from replica.config import BROKER_KEY_OF_TOPIC_KEY, INT32_MAX, DynamicBrokerConfig, TopicConfig
from replica.passive_topic_keys import PassiveTopicConfig

DYNAMIC_TOPIC: Final = 1
DYNAMIC_BROKER: Final = 2
STATIC_BROKER: Final = 4
DEFAULT: Final = 5

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
_LISTS = frozenset(
    {
        "cleanup.policy",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "log.dirs",
    }
)


class Synonym(NamedTuple):
    """A place where the value could come from, the one that counts first."""

    name: str
    value: str
    source: int


class ConfigEntry(NamedTuple):
    name: str
    value: str
    source: int
    type: int
    read_only: bool
    synonyms: tuple[Synonym, ...]


def is_list(name: str) -> bool:
    """Whether values can be appended to the key's value, and taken out of it."""
    return name in _LISTS


def topic_entries(stored: Mapping[str, str], config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Every topic key, by name. stored: as the metadata log keeps a topic's settings     config: of the brokers"""
    defaults = topic_defaults(config)
    broker_keys = BrokerConfig.keys()
    for name, item in sorted({**TopicConfig.keys(), **PassiveTopicConfig.keys()}.items()):
        synonyms = []
        broker_key = BROKER_KEY_OF_TOPIC_KEY.get(name)
        if broker_key is not None:
            default = as_text(broker_keys[broker_key].default)
            static = as_text(getattr(defaults, item.name))
            if static != default:
                synonyms.append(Synonym(broker_key, static, STATIC_BROKER))
            synonyms.append(Synonym(broker_key, default, DEFAULT))
        value = stored.get(name, as_text(item.default))
        # A topic is created with the brokers' values, so one that equals theirs counts as theirs.
        if synonyms[0].value != value if synonyms else name in stored:
            synonyms.insert(0, Synonym(name, value, DYNAMIC_TOPIC))
        source = synonyms[0].source if synonyms else DEFAULT
        yield ConfigEntry(name, value, source, type_of(item), False, tuple(synonyms))


def broker_entries(config: BrokerConfig, dynamic: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Every key of a broker, by name. dynamic: what was set while it runs"""
    for name, item in sorted(BrokerConfig.keys().items()):
        value, default = as_text(getattr(config, item.name)), as_text(item.default)
        synonyms = [Synonym(name, default, DEFAULT)]
        if value != default:
            synonyms.insert(0, Synonym(name, value, STATIC_BROKER))
        yield ConfigEntry(name, value, synonyms[0].source, type_of(item), True, tuple(synonyms))
    for name, value in sorted(dynamic.items()):
        synonym = Synonym(name, value, DYNAMIC_BROKER)
        yield ConfigEntry(name, value, DYNAMIC_BROKER, type_of(DynamicBrokerConfig.require(name)), False, (synonym,))


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
