"""Verbs for requests of an operator to the controller."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, cast

from cluster.config import GroupConfig
from cluster.dynamic_keys import AnyDynamicConfig
from controller.features import NAMES as FEATURES
from replica.config import ClientQuotaConfig, TopicConfig
from replica.config import Config as AnyConfig
from replica.ids import TopicPartition
from scenarios.language.diagnostics import did_you_mean
from scenarios.language.selectors import Selector
from scenarios.language.spec import PARTITIONS_MAX, ClientQuota
from scenarios.language.steps import DEFAULT
from scenarios.language.values.links import ref
from scenarios.language.values.reading import NUMBER_MAX, Fields
from scenarios.language.values.scope import Scope
from scenarios.language.verbs.command_words import PARTITION_WORD, ShorthandWords, listed
from scenarios.language.verbs.declaration import LASTING, Given, Kind, Verb, key, verb
from scenarios.language.verbs.kinds import (
    BANDWIDTH,
    BANDWIDTH_OR_NONE,
    BOOLEAN,
    BROKERS,
    CONTROLLERS,
    PARTITION,
    REPLICAS,
    TEXT,
    TOPIC,
    check_partition,
    choice,
    integer,
)

Side = Literal["both", "leader", "follower"]
Config = tuple[tuple[str, str | None], ...]
"""Values by key. None resets a key to its default, or removes a quota."""
Levels = tuple[tuple[str, int], ...]
LEVEL_MAX = 32_767
UpgradeType = Literal["upgrade", "safe_downgrade", "unsafe_downgrade"]
"""The values of Kafka's FeatureUpdate.UpgradeType."""


@verb(
    "elect",
    example="b2",
    more={
        "preferred": "Elect the preferred leader of every partition.",
        "{partition: t-0, broker: b2, unclean: true}": (
            "Elect b2 for one partition. Without `broker`, elect the preferred leader, or with `unclean` any replica."
        ),
    },
    usage="elect orders-0 b1",
    word="preferred",
)
class Elect(Verb):
    """Make b2 leader of every partition it can lead."""

    partition: TopicPartition | None = key(PARTITION, default=None)
    broker: Selector | None = key(BROKERS, default=None, bare=True)
    unclean: bool = key(BOOLEAN, default=False)

    def sentence(self) -> str:
        where = f" for {self.partition}" if self.partition else ""
        who = str(self.broker) if self.broker else ("any live replica" if self.unclean else "the preferred leader")
        return f"elect {who}{where}{', even uncleanly' if self.unclean else ''}"

    def tree(self) -> Any:
        return "preferred" if self == Elect() else Verb.tree(self)

    @classmethod
    def of_words(cls, words: ShorthandWords) -> object:
        unclean = words.take_if("unclean".__eq__)
        partition = words.take_if(lambda word: PARTITION_WORD.fullmatch(word) and word not in words.nodes)
        broker = words.left.pop(0) if words.left else None
        if partition is None and unclean is None:
            return broker or "preferred"
        fields = {"partition": partition, "broker": broker, "unclean": True if unclean else None}
        return {name: value for name, value in fields.items() if value is not None}


@verb("reassign", example="{partition: t-0, to: [b1, b2, b4], throttle: 100kB/s}", usage="reassign orders-0 b1,b2,b3")
class Reassign(Verb):
    """Move replicas (KIP-455). `throttle` limits leaders and followers, as in kafka-reassign-partitions; it stays
    afterwards.
    """

    partition: TopicPartition = key(PARTITION)
    replicas: Selector = key(REPLICAS, "to")
    bytes_per_second: int | None = key(BANDWIDTH, "throttle", default=None, word=True)

    def sentence(self) -> str:
        rate = "" if self.bytes_per_second is None else f", throttled to {self.bytes_per_second:,} B/s"
        return f"move {self.partition} to {self.replicas}{rate}"


@verb("cancel_reassign", example="t-0", usage="cancel_reassign orders-0")
class CancelReassign(Verb):
    """Cancel a reassignment, so that the partition keeps the replicas that it had before."""

    partition: TopicPartition = key(PARTITION, bare=True)

    def sentence(self) -> str:
        return f"cancel the reassignment of {self.partition}"


@verb(
    "throttle",
    example="{brokers: b3, rate: 80kB/s, side: follower, topic: t}",
    more={"{brokers: b3, rate: none}": "Remove the throttle of these brokers."},
    usage="throttle b1 1MB/s",
    effect=LASTING,
)
class Throttle(Verb):
    """Set a replication quota (KIP-73) of brokers, for what they send as leaders, fetch as followers, or both. Without
    `topic` it applies to all topics.
    """

    brokers: Selector = key(BROKERS, asked="brokers")
    bytes_per_second: int | None = key(BANDWIDTH_OR_NONE, "rate")
    side: Side = key(choice("both", "leader", "follower"), default="both", word=True)
    topic: str | None = key(TOPIC, default=None, word=True)

    def sentence(self) -> str:
        where = f" of {self.topic}" if self.topic else ""
        side = "" if self.side == "both" else f" as {self.side}"
        if self.bytes_per_second is None:
            return f"remove the replication throttle{where} on {self.brokers}{side}"
        return f"throttle replication{where} on {self.brokers}{side} to {self.bytes_per_second:,} B/s"


def _refuse_nothing(value: Given, example: str) -> None:
    if value.node.is_nothing:
        label = f"for example {example}"
        value.reader.error("E105", f"{value.what} changes nothing", value.node.place, path=value.path, label=label)


def _changes(example: str, read: Callable[[Given], Config]) -> Kind[Config]:
    """Return a kind for values by key, in which `default` resets a key.

    Args:
        example: an example of such values, for messages.
        read: reads and checks the values.
    """

    def checked(value: Given) -> Config:
        changes = read(value)
        _refuse_nothing(value, example)
        return changes

    return Kind(
        read=checked,
        write=lambda changes: {name: DEFAULT if value is None else value for name, value in changes},
        schema={"type": "object", "minProperties": 1, "additionalProperties": ref("scalar")},
        blank=(),
        example=f"{{{example}}}",
    )


def _read_config(value: Given) -> Config:
    """Read changes to the configuration of topics, groups or brokers; the sibling keys decide which."""
    beside = value.beside or ()
    kind: type[AnyConfig] = TopicConfig
    if "group" in beside:
        kind = GroupConfig
    elif "brokers" in beside or "entity_default" in beside:
        kind = AnyDynamicConfig
    return tuple(value.reader.config_changes(value.node, value.path, kind).items())


def _read_quota(value: Given) -> Config:
    return tuple(value.reader.config_changes(value.node, value.path, ClientQuotaConfig).items())


def _read_levels(raw: Given) -> Levels:
    """Read levels of Kafka's features. The controller decides which features and levels the cluster supports."""
    reader = raw.reader
    _refuse_nothing(raw, "transaction.version: 2")
    levels: list[tuple[str, int]] = []
    for name, name_node, value, path in reader.entries(raw.node, raw.path, raw.what):
        if name not in FEATURES:
            near = did_you_mean(name, FEATURES)
            label = "" if near else f"choose one of {', '.join(FEATURES)}"
            title = f"unknown feature `{name[:60]}`"
            reader.error("E131", title, name_node.place, path=path, suggestion=near, label=label)
        levels.append((name, reader.integer(value, path, f"the level of `{name}`", 0, LEVEL_MAX)))
    return tuple(levels)


LEVELS: Kind[Levels] = Kind(
    read=_read_levels,
    write=dict,
    schema={
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": "integer", "minimum": 0, "maximum": LEVEL_MAX},
    },
    blank=(),
    example="{transaction.version: 2}",
)
CONFIG = _changes("min.insync.replicas: 1", _read_config)
QUOTA = _changes("producer_byte_rate: 100000", _read_quota)


@verb("create_topic", example="t", usage="create_topic orders")
class MakeTopic(Verb):
    """Create a topic that `topics` describes (`kafka-topics --create`). It does not exist before this step."""

    topic: str = key(TOPIC, bare=True)

    def sentence(self) -> str:
        return f"create the topic {self.topic}"


@verb("delete_topic", example="t", usage="delete_topic orders")
class RemoveTopic(Verb):
    """Delete a topic (`kafka-topics --delete`). Its records are *deleted*, not lost."""

    topic: str = key(TOPIC, bare=True)

    def sentence(self) -> str:
        return f"delete the topic {self.topic}"


@verb("create_partitions", example="{topic: t, count: 6}", usage="create_partitions orders 6")
class MorePartitions(Verb):
    """Raise a topic's number of partitions to `count` (`kafka-topics --alter --partitions`)."""

    topic: str = key(TOPIC)
    count: int = key(integer(2, PARTITIONS_MAX, example="6", asked="the new number of partitions"))

    def sentence(self) -> str:
        return f"increase {self.topic} to {self.count} partitions"

    def judge(self, scope: Scope, fields: Fields) -> None:
        scope.topics[self.topic] = max(self.count, scope.topics.get(self.topic, 0))


@verb(
    "delete_records",
    example="t-0",
    more={"{partition: t-0, offset: 5}": "Delete only the records before this offset."},
    usage="delete_records orders-0",
)
class RemoveRecords(Verb):
    """Delete all records of a partition below its high watermark (`kafka-delete-records`): *deleted*, not lost."""

    partition: TopicPartition = key(PARTITION, bare=True)
    offset: int | None = key(integer(), default=None)

    @property
    def where(self) -> str:
        return "below its high watermark" if self.offset is None else f"before offset {self.offset}"

    def sentence(self) -> str:
        return f"delete the records of {self.partition} {self.where}"


@verb("delete_group", example="g", usage="delete_group billing")
class RemoveGroup(Verb):
    """Delete a consumer group with its offsets (`kafka-consumer-groups --delete`). Its coordinator refuses while the
    group has members.
    """

    group: str = key(TEXT, bare=True)

    def sentence(self) -> str:
        return f"delete the group {self.group}"


@verb("delete_offsets", example="{group: g, topic: t}", usage="delete_offsets billing orders")
class RemoveOffsets(Verb):
    """Delete a group's offsets of a topic (`kafka-consumer-groups --delete-offsets`). No member of the group may be
    subscribed to the topic.
    """

    group: str = key(TEXT)
    topic: str = key(TOPIC)

    def sentence(self) -> str:
        return f"delete the offsets of {self.group} in {self.topic}"


ResetTarget = int | Literal["earliest", "latest"]


def _read_reset_target(value: Given) -> ResetTarget:
    if value.says("earliest") or value.says("latest"):
        return cast(ResetTarget, value.reader.text(value.node, value.path, value.what))
    return value.reader.integer(value.node, value.path, value.what)


RESET_TARGET: Kind[ResetTarget | None] = Kind(
    read=_read_reset_target,
    write=lambda target: target,
    schema={"oneOf": [integer().schema, {"enum": ["earliest", "latest"]}]},
    blank=0,
    example="earliest",
    asked="an offset, `earliest` or `latest`",
    fits=re.compile(r"earliest|latest|\d+", re.ASCII).fullmatch,
)
SHIFT: Kind[int] = replace(
    integer(-NUMBER_MAX, NUMBER_MAX, example="-5"), blank=0, fits=re.compile(r"[+-]\d+", re.ASCII).fullmatch
)


@verb(
    "reset_offsets",
    example="{group: g, topic: t, to: earliest}",
    more={
        "{group: g, topic: t, partition: 0, to: 5}": "Set one partition to 5; `latest` is its high watermark.",
        "{group: g, topic: t, shift: -10}": "Move the group back by ten records; `shift: 10` skips ten records.",
    },
    usage="reset_offsets billing orders earliest",
    one_of=("to", "shift"),
)
class ResetGroupOffsets(Verb):
    """Set the offsets at which a group continues (`kafka-consumer-groups --reset-offsets`). It is refused while the
    group has members (UNKNOWN_MEMBER_ID).
    """

    group: str = key(TEXT)
    topic: str = key(TOPIC)
    partition: int | None = key(integer(example="0"), default=None)
    to: ResetTarget | None = key(RESET_TARGET, default=None, word=True)
    shift: int | None = key(SHIFT, default=None, word=True)

    @property
    def where(self) -> str:
        if self.shift is not None:
            return f"{'back' if self.shift < 0 else 'ahead'} by {abs(self.shift)}"
        return f"to {self.to}"

    @property
    def what(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    def sentence(self) -> str:
        return f"set the offsets of {self.group} in {self.what} {self.where}"

    def judge(self, scope: Scope, fields: Fields) -> None:
        check_partition(scope, fields, self.topic, self.partition)


@verb(
    "abort_transaction",
    example="t-0",
    more={
        "{partition: t-0, offset: 5}": "Abort the open transaction whose first record in the partition has this offset."
    },
    usage="abort_transaction orders-0",
)
class EndHangingTransaction(Verb):
    """Abort the oldest open transaction of a partition, such as a hanging one (`kafka-transactions abort`): the
    leader writes an ABORT marker.
    """

    partition: TopicPartition = key(PARTITION, bare=True)
    offset: int | None = key(integer(), default=None, word=True)

    @property
    def which(self) -> str:
        return "the oldest open transaction" if self.offset is None else f"the open transaction at offset {self.offset}"

    def sentence(self) -> str:
        return f"abort {self.which} of {self.partition}"


@verb("fence_producer", example="orders", usage="fence_producer orders")
class FenceOff(Verb):
    """Abort the transaction of a producer and fence the producer (`kafka-transactions forceTerminateTransaction`)."""

    transactional_id: str = key(TEXT, bare=True)

    def sentence(self) -> str:
        return f"fence the producer of {self.transactional_id}"


@verb("unregister_broker", example="b3", usage="unregister_broker b3")
class Unregister(Verb):
    """The cluster forgets a broker (`kafka-cluster unregister`), which leaves every ISR. It stays in the assignments,
    and is fenced if it runs, until it starts again.
    """

    broker: Selector = key(BROKERS, bare=True)

    def sentence(self) -> str:
        return f"unregister {self.broker}"


@verb("add_voter", example="c4", usage="add_voter c4")
class MakeVoter(Verb):
    """A controller that runs and has caught up becomes a voter (`kafka-metadata-quorum add-controller`), if the cluster
    has `initial_controllers`.
    """

    controller: Selector = key(CONTROLLERS, bare=True)

    def sentence(self) -> str:
        return f"add {self.controller} to the voters"


@verb("remove_voter", example="c3", usage="remove_voter c3")
class DropVoter(Verb):
    """Make a voter an observer, which still follows the log (`kafka-metadata-quorum remove-controller`). The active
    controller resigns if it is removed.
    """

    controller: Selector = key(CONTROLLERS, bare=True)

    def sentence(self) -> str:
        return f"remove {self.controller} from the voters"


@verb(
    "set_config",
    example="{topic: t, config: {min.insync.replicas: 1}}",
    more={
        "{brokers: b3, config: {leader.replication.throttled.rate: 100000}}": (
            "Set dynamic keys of single brokers (KIP-226): throttles, most `log.*` keys, threads, connection limits."
        ),
        "{entity_default: brokers, config: {log.retention.ms: 60000}}": (
            "Set the same keys for all brokers (`kafka-configs --entity-default`). A value for a single broker "
            "takes precedence."
        ),
        "{group: g, config: {consumer.session.timeout.ms: 10000}}": (
            "Set keys of one KIP-848 group (`kafka-configs --entity-type groups`), within limits of its brokers, "
            "such as `group.consumer.min.session.timeout.ms`."
        ),
    },
    usage="set_config orders min.insync.replicas=1",
    one_of=("topic", "brokers", "entity_default", "group"),
)
class SetConfig(Verb):
    """Change topic keys while the cluster runs; the value `default` resets a key."""

    topic: str | None = key(TOPIC, default=None)
    brokers: Selector | None = key(BROKERS, default=None)
    entity_default: str | None = key(choice("brokers"), default=None)
    config: Config = key(CONFIG, default=(), required=True)
    group: str | None = key(TEXT, default=None)

    @property
    def whose(self) -> str:
        if self.topic is not None:
            return f"topic {self.topic}"
        if self.group is not None:
            return f"group {self.group}"
        return "every broker" if self.brokers is None else str(self.brokers)

    def sentence(self) -> str:
        whose = self.whose
        settings = [f"{name} of {whose} to {'its default' if value is None else value}" for name, value in self.config]
        return f"set {', '.join(settings)}"

    @classmethod
    def of_words(cls, words: ShorthandWords) -> object:
        whose = words.take("a topic or brokers, and settings")
        config = words.take_settings("settings, KEY=VALUE")
        brokers = words.are_nodes(whose)
        return {("brokers" if brokers else "topic"): listed(whose) if brokers else whose, "config": config}


@verb(
    "update_features",
    example="{features: {transaction.version: 2}}",
    more={
        "{features: {eligible.leader.replicas.version: 0}, upgrade_type: safe_downgrade}": (
            "A lower level needs `safe_downgrade` or `unsafe_downgrade`. Level 0 switches a feature off."
        )
    },
    usage="update_features transaction.version=2",
)
class UpdateFeatures(Verb):
    """Change levels of features while the cluster runs (`kafka-features upgrade`, `downgrade`), all or none."""

    features: Levels = key(LEVELS, default=(), required=True)
    upgrade_type: UpgradeType = key(
        choice("upgrade", "safe_downgrade", "unsafe_downgrade"), default="upgrade", word=True
    )

    def sentence(self) -> str:
        how = "" if self.upgrade_type == "upgrade" else f" ({self.upgrade_type.replace('_', ' ')})"
        return f"set {', '.join(f'the level of {name} to {level}' for name, level in self.features)}{how}"

    @classmethod
    def of_words(cls, words: ShorthandWords) -> object:
        how = words.take_if(lambda word: word.endswith("downgrade"))
        levels = words.take_settings("levels, FEATURE=LEVEL")
        return {"features": levels, **({} if how is None else {"upgrade_type": how})}


@verb(
    "set_quota",
    example="{client: p1, quota: {producer_byte_rate: 100000}}",
    more={
        "{user: default, client: default, quota: {request_percentage: 50, consumer_byte_rate: default}}": (
            "The name `default` stands for all without a quota of their own. The value `default` removes a quota."
        )
    },
    usage="set_quota p1 producer_byte_rate=100000",
    any_of=("client", "user"),
)
class SetQuota(Verb):
    """Limit what a client, a user or a client of a user may use of each broker."""

    client: str | None = key(TEXT, default=None)
    user: str | None = key(TEXT, default=None)
    quota: Config = key(QUOTA, default=(), required=True)

    @property
    def as_spec(self) -> ClientQuota:
        return ClientQuota(user=self.user, client=self.client, quota=self.quota)

    def sentence(self) -> str:
        changes = [f"{name} to {'none' if value is None else value}" for name, value in self.quota]
        return f"set {', '.join(changes)} for {self.as_spec.whose}"

    @classmethod
    def of_words(cls, words: ShorthandWords) -> object:
        client = words.take("a client and quotas")
        quota = words.take_settings("quotas, KEY=VALUE")
        return {"client": client, "quota": quota}
