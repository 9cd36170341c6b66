"""Keys that stand one level too high or too low, and where they belong: the fix that goes with "unknown field"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from cluster.config import BrokerConfig, ConsumerConfig, ProducerConfig, TransformConfig
from replica.config import Config, TopicConfig

CLUSTER_FIELDS = ("controllers", "brokers", "config", "phases", "heartbeats", "quotas")
NETWORK_FIELDS = ("latency", "jitter", "bandwidth", "card", "cards", "links")

_CONFIG_OF: dict[str, type[Config]] = {
    "`cluster`": BrokerConfig,
    "a topic": TopicConfig,
    "a producer": ProducerConfig,
    "a consumer": ConsumerConfig,
    "a transform": TransformConfig,
}


@cache
def own_config(schema: type[Config]) -> Mapping[str, str]:
    """Keys of Kafka's that stand beside the block's `config`."""
    return dict.fromkeys(schema.keys(), "belongs under `config:`")


@cache
def below_top() -> Mapping[str, str]:
    """Keys that stand at the top of the file. `config` alone could be meant for many places."""
    places: dict[str, list[str]] = {}
    for place, schema in _CONFIG_OF.items():
        for key in list(schema.keys()):
            places.setdefault(key, []).append(place)
    labels = {key: f"belongs under `config:` of {_one_of(owners)}" for key, owners in places.items()}
    for block, fields in (("cluster", CLUSTER_FIELDS), ("network", NETWORK_FIELDS)):
        labels |= {key: f"belongs under `{block}:`" for key in fields if key != "config"}
    return labels


@cache
def inside_cluster(top: tuple[str, ...]) -> Mapping[str, str]:
    """Keys that stand in `cluster`. top: the fields of the file"""
    return {**dict.fromkeys(top, "belongs at the top of the file, beside `cluster:`"), **own_config(BrokerConfig)}


def _one_of(owners: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(owners[:-1]), owners[-1])))
