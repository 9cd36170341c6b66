"""Common words for things with another name here. Consulted before spelling distance, which picks the wrong word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from cluster.config import BrokerConfig, ConsumerConfig, ProducerConfig, TransformConfig
from replica.config import Config, TopicConfig

FIELD_SYNONYMS: dict[str, str] = {
    # spoken name, folded to lower case with dots -> the language's or Kafka's key
    "replicas": "replication_factor",
    "rf": "replication_factor",
    "replication": "replication_factor",
    "replication.factor": "replication_factor",
    "name": "id",
    "leader": "broker",
    "max": "uniform",
    "min": "least",
    "description": "question",
    "era": "profile",
    "version": "profile",
    "length": "duration",
    "until": "duration",
    "nodes": "brokers",
    "faults": "timeline",
    "steps": "timeline",
    "events": "timeline",
    "clients": "workloads",
    "producers": "workloads",
    "consumers": "workloads",
    "expected": "expect",
    "expectations": "expect",
    "sleep": "at",
    "time": "at",
    "after": "at",
    "wait": "when",
    "until.state": "when",
    "label": "as",
    "duration": "for",
    "count": "times",
    "repeat": "times",
    "crash": "kill",
    "fail": "kill",
    "sigkill": "kill",
    "shutdown": "stop",
    "freeze": "pause",
    "sigstop": "pause",
    "thaw": "resume",
    "sigcont": "resume",
    "unpause": "resume",
    "continue": "resume",
    "power.fail": "power_off",
    "power.loss": "power_off",
    "poweroff": "power_off",
    "isolate": "partition",
    "split": "partition",
    "disconnect": "cut",
    "reconnect": "heal",
    "delay": "latency",
    "slow": "latency",
    "drop": "loss",
    "rst": "reset_peer",
    "fsync": "flush",
    "truncate": "tear",
    "send": "produce",
    "assert": "check",
    "acks.level": "acks",
    "ack": "acks",
    "min.isr": "min.insync.replicas",
    "isr": "min.insync.replicas",
    "idempotence": "enable.idempotence",
    "unclean": "unclean.leader.election.enable",
    "lag": "replica.lag.time.max.ms",
    "session": "broker.session.timeout.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "timeout": "request.timeout.ms",
    "hwm": "hw",
    "high.watermark": "hw",
    "log.end.offset": "leo",
    "leader.epoch": "epoch",
    "in.sync.replicas": "isr",
    "producer": "from",
    "records": "count",
    "n": "count",
    "bytes": "size",
    "source": "sources",
}


# ------------------------------------------------------------------------------------------------------------ misplaced
#
# Keys that stand one level too high or too low, and where they belong: the fix that goes with "unknown field".

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
