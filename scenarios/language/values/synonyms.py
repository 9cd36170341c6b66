"""Common words for things that have another name in the language or in Kafka.

They are looked up before names of similar spelling, which often suggest the wrong word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from cluster.config import (
    BrokerConfig,
    ConsumerConfig,
    GroupConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
    TransformConfig,
)
from replica.config import Config, TopicConfig

FIELD_SYNONYMS: dict[str, str] = {
    # common word in lower case with dots -> the key of the language or of Kafka, or several: the first that fits
    "replicas": "replication_factor to",
    "rf": "replication_factor",
    "replication": "replication_factor",
    "replication.factor": "replication_factor",
    "name": "id as",
    "node": "brokers broker nodes",
    "to": "broker for topic",
    "partitions": "count",
    "percent": "rate",
    "offset": "by",
    "message": "api",
    "client": "from",
    "alive": "running",
    "up": "running",
    "to.offset": "to",
    "shift.by": "shift",
    "pass": "ok",
    "passed": "ok",
    "success": "ok",
    "no.loss": "ok",
    "fail": "kill lost",
    "leader": "broker",
    "max": "uniform at_most",
    "min": "least at_least",
    "description": "question",
    "era": "profile",
    "version": "profile",
    "length": "duration",
    "until": "duration for",
    "nodes": "brokers",
    "services": "cluster",
    "faults": "timeline",
    "nemesis": "timeline",
    "steps": "timeline",
    "events": "timeline",
    "clients": "workloads",
    "producers": "workloads",
    "consumers": "workloads",
    "expected": "expect",
    "expectations": "expect",
    "sleep": "at",
    "time": "at",
    "at": "between",
    "after": "at",
    "wait": "when",
    "until.state": "when",
    "label": "as",
    "duration": "for",
    "count": "times",
    "repeat": "times",
    "lso": "read_committed",
    "crash": "kill",
    "sigkill": "kill",
    "shutdown": "stop",
    "roll": "rolling_restart",
    "bounce": "rolling_restart",
    "freeze": "pause",
    "sigstop": "pause",
    "thaw": "resume",
    "sigcont": "resume",
    "unpause": "resume",
    "continue": "resume",
    "power.fail": "power_off",
    "power.loss": "power_off",
    "poweroff": "power_off",
    "split": "partition",
    "network.partition": "partition",
    "netsplit": "partition",
    "split.brain": "partition",
    "disconnect": "cut",
    "reconnect": "heal",
    "delay": "latency add append",
    "slow": "latency",
    "drop": "loss",
    "rst": "reset_peer",
    "fsync": "flush",
    "truncate": "tear",
    "add.partitions": "create_partitions",
    "add.controller": "add_voter",
    "remove.controller": "remove_voter",
    "alter.partitions": "create_partitions",
    "trim": "delete_records",
    "purge": "delete_records",
    "reset": "reset_offsets",
    "abort": "abort_transaction",
    "fence": "fence_producer",
    "terminate.transaction": "fence_producer",
    "send": "produce",
    "assert": "check expect",
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
    "producer": "from workloads",
    "records": "count",
    "n": "count",
    "bytes": "size",
    "source": "sources",
    "zone": "rack",
    "throughput": "rate",
    "record.size": "size",
    "message.size": "size",
    "messages": "count records",
    "num.records": "count",
    "num.messages": "count",
    "delete.pod": "kill",
    "pod.kill": "kill",
    "pod.failure": "kill",
    "type": "kind",
    "size": "records",
    "consumer": "workloads",
    "workload": "workloads",
    "topic": "topics",
    "scenario": "timeline",
    "assertions": "expect",
    "kafka": "profile",
    "kafka.version": "profile",
    "release": "profile",
    "summary": "title",
    "group": "group.id",
    "auto.commit": "enable.auto.commit",
    "transactional": "transactional.id",
    "instances": "count",
    "members": "count",
    "loss": "lost rate",
    "latency": "add",
    "data.loss": "lost",
    "lose": "lost",
    "lossy": "lost",
    "disappeared": "lost",
    "vanished": "lost",
    "lost.records": "lost",
    "lost.acked": "lost",
    "duplicates": "duplicated",
    "interval": "every pause",
    "by": "add",
    "block": "cut",
    "sever": "cut",
    "network.delay": "latency",
    "slow.network": "latency",
    "packet.loss": "loss",
    "unpartition": "heal",
    "heal.partition": "heal",
    "heal.network": "heal",
    "boot": "start",
    "power.on": "start",
    "gc": "pause",
    "gc.pause": "pause",
    "hang": "pause",
    "suspend": "pause",
    "skew": "bump_clock",
    "clock": "bump_clock",
    "bump": "bump_clock",
    "clock.skew": "bump_clock",
    "set": "set_config",
    "alter.config": "set_config",
    "alter.configs": "set_config",
    "elect.leader": "elect",
    "elect.leaders": "elect",
    "unclean.election": "elect",
    "break.disk": "fail_disk",
    "disk.failure": "fail_disk",
    "disk.lost": "fail_disk",
    "kill.disk": "fail_disk",
    "lose.disk": "fail_disk",
    "disk.full": "fill_disk",
    "delete.disk": "wipe",
    "erase": "wipe",
    "format": "wipe",
    "replace.disk": "wipe",
    "wipe.disk": "wipe",
    "corrupt": "bitflip",
}


_ACLS = "scenarios have no ACLs or users; `highwater serve --authorize` has them"
_SHARE_GROUPS = "only members of share groups are supported: `kind: share_consumer`"
_LOG_DIRS = "a replica cannot change its log directory; `reassign` moves it to another broker"
_ROLES = "all brokers and controllers exist from the start; use `stop` at 0s and a later `start` instead"
NOT_PLAYED: dict[str, str] = {
    "acls": _ACLS,
    "create_acls": _ACLS,
    "create_acl": _ACLS,
    "add_acl": _ACLS,
    "delete_acls": _ACLS,
    "delete_acl": _ACLS,
    "users": _ACLS,
    "create_user": _ACLS,
    "authorizer": _ACLS,
    "create_delegation_token": _ACLS,
    "alter_share_group_offsets": _SHARE_GROUPS,
    "delete_share_group": _SHARE_GROUPS,
    "share_groups": _SHARE_GROUPS,
    "alter_replica_log_dirs": _LOG_DIRS,
    "move_replica": _LOG_DIRS,
    "add_broker": _ROLES,
    "remove_broker": f"{_ROLES}; `unregister_broker` removes a registration",
    "remove_members": "stop the members instead; a static member leaves its group after its session timeout",
    "alter_credentials": _ACLS,
    "upgrade": "brokers keep the release of `profile`; `update_features` raises the levels of features",
    "upgrade_broker": "brokers keep the release of `profile`; `update_features` raises the levels of features",
    "migrate_to_kraft": "a cluster cannot change its control plane; choose ZooKeeper or KRaft with `profile`",
    "tiered_storage": "all logs are local",
    "remote_storage": "all logs are local",
    "schema_registry": "values have no schema; a serializer of a client can fail (`key.serializer`)",
}
"""Features of Kafka that the language lacks, in lower case with underscores, each with the nearest alternative."""


# ------------------------------------------------------------------------------------------------------------ misplaced
#
# Keys that users write one level too high or too low, and where they belong, for messages about unknown fields.

CLUSTER_FIELDS = (
    *("controllers", "initial_controllers", "brokers", "config", "config_file"),
    *("phases", "heartbeats", "quotas"),
)
NETWORK_FIELDS = ("latency", "jitter", "bandwidth", "card", "cards", "links")

_CONFIG_OF: dict[str, type[Config]] = {
    "`cluster`": BrokerConfig,
    "a topic": TopicConfig,
    "a producer": ProducerConfig,
    "a consumer": ConsumerConfig,
    "a share consumer": ShareConsumerConfig,
    "a transform": TransformConfig,
}


MEMBERS = "write a group member as `kind: transform`"


def of_others(schema: type[Config]) -> Mapping[str, str]:
    """Return hints, by key, for Kafka's keys that `schema` lacks: which block of a scenario they belong in."""
    owners = _owners() if schema in _CONFIG_OF.values() else {}
    return {key: hint for key, hint in owners.items() if key not in schema.keys()}  # noqa: SIM118  A class.


@cache
def _owners() -> Mapping[str, str]:
    of_producers, of_consumers = set(ProducerConfig.keys()), set(ConsumerConfig.keys())
    hints: dict[str, str] = {}
    for keys, hint in (
        (of_producers & of_consumers, "clients: put it under `workloads.NAME.config`"),
        (of_producers, "producers: put it under `workloads.NAME.config`"),
        (of_consumers, "consumers: put it under `workloads.NAME.config`"),
        (GroupConsumerConfig.keys(), f"consumers: {MEMBERS}"),
        (ShareConsumerConfig.keys(), "consumers: write a share group member as `kind: share_consumer`"),
        (TopicConfig.keys(), "topics: put it under `topics.NAME.config`"),
        (BrokerConfig.keys(), "brokers: put it under `cluster.config`"),
    ):
        hints = {**dict.fromkeys(keys, f"a key of {hint}"), **hints}
    return hints


def own_config(schema: type[Config]) -> Mapping[str, str]:
    """Return hints, by key, for Kafka's keys written beside a block's `config` instead of inside."""
    return {**of_others(schema), **dict.fromkeys(schema.keys(), "belongs under `config:`")}


@cache
def below_top() -> Mapping[str, str]:
    """Return hints, by key, for keys written at the top level of the file instead of inside a block.

    The key `config` has no hint, since it exists in many blocks.
    """
    places: dict[str, list[str]] = {}
    for place, schema in _CONFIG_OF.items():
        for key in list(schema.keys()):
            places.setdefault(key, []).append(place)
    labels = {key: f"belongs under `config:` of {_one_of(owners)}" for key, owners in places.items()}
    for block, fields in (("cluster", CLUSTER_FIELDS), ("network", NETWORK_FIELDS)):
        labels |= {key: f"belongs under `{block}:`" for key in fields if not key.startswith("config")}
    return {**labels, "racks": "belongs to each broker: `cluster: {brokers: {b1: {rack: A}}}`"}


@cache
def inside_cluster(top: tuple[str, ...]) -> Mapping[str, str]:
    """Return hints, by key, for keys that are written in `cluster` and belong elsewhere.

    Args:
        top: names of the top-level fields.
    """
    return {
        **dict.fromkeys(top, "belongs at the top of the file, beside `cluster:`"),
        **own_config(BrokerConfig),
        "replication_factor": "belongs to a topic: `t: {partitions: 1, replication_factor: 3}`",
        "racks": "belongs to each broker: `brokers: {b1: {rack: A}}`",
    }


def _one_of(owners: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(owners[:-1]), owners[-1])))
