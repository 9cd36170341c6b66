"""Cluster: what an operator asks of the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

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
from scenarios.language.values.reading import Fields
from scenarios.language.values.scope import Scope
from scenarios.language.verbs.command_words import PARTITION_WORD, SETTING_WORD, ShorthandWords, listed
from scenarios.language.verbs.declaration import Given, Kind, Lasts, Verb, key, verb
from scenarios.language.verbs.kinds import (
    BANDWIDTH,
    BANDWIDTH_OR_NONE,
    BOOLEAN,
    BROKERS,
    PARTITION,
    REPLICAS,
    TEXT,
    TOPIC,
    choice,
    integer,
)

Side = Literal["both", "leader", "follower"]
Config = tuple[tuple[str, str | None], ...]
"""A value of None takes a key back to its default, a quota away."""
Levels = tuple[tuple[str, int], ...]
LEVEL_MAX = 32_767
UpgradeType = Literal["upgrade", "safe_downgrade", "unsafe_downgrade"]
"""FeatureUpdate.UpgradeType"""


@verb(
    "elect",
    example="b2",
    more={
        "preferred": "Preferred leader election, everywhere.",
        "{partition: t-0, broker: b2, unclean: true}": (
            "As it says; without `broker`, the preferred one, or with `unclean` any live replica."
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
        return f"elect {who}{where}{', uncleanly if need be' if self.unclean else ''}"

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


@verb(
    "reassign",
    example="{partition: t-0, to: [b1, b2, b4], throttle: 100kB/s}",
    usage="reassign orders-0 b1,b2,b3",
)
class Reassign(Verb):
    """Move its replicas (KIP-455). `throttle` is that of kafka-reassign-partitions: leader and follower rate of all
    brokers involved, for the replicas there are and those that are added. It stays afterwards.
    """

    partition: TopicPartition = key(PARTITION)
    replicas: Selector = key(REPLICAS, "to")
    bytes_per_second: int | None = key(BANDWIDTH, "throttle", default=None, word=True)

    def sentence(self) -> str:
        rate = "" if self.bytes_per_second is None else f", throttled to {self.bytes_per_second:,} B/s"
        return f"move {self.partition} to {self.replicas}{rate}"


@verb("cancel_reassign", example="t-0", usage="cancel_reassign orders-0")
class CancelReassign(Verb):
    """Back to the replicas it had."""

    partition: TopicPartition = key(PARTITION, bare=True)

    def sentence(self) -> str:
        return f"cancel the reassignment of {self.partition}"


@verb(
    "throttle",
    example="{brokers: b3, rate: 80kB/s, side: follower, topic: t}",
    more={"{brokers: b3, rate: none}": "Take away what throttled them before."},
    usage="throttle b1 1MB/s",
    undoable=True,
    lasts=Lasts.UNTIL_ENDED,
)
class Throttle(Verb):
    """Replication quota (KIP-73) of all replicas on those brokers: of what they send as leaders, fetch as followers, or
    both; without `topic`, of all topics.
    """

    brokers: Selector = key(BROKERS, asked="brokers")
    bytes_per_second: int | None = key(BANDWIDTH_OR_NONE, "rate")
    side: Side = key(choice("both", "leader", "follower"), default="both", word=True)
    topic: str | None = key(TOPIC, default=None, word=True)

    def sentence(self) -> str:
        where = f" of {self.topic}" if self.topic else ""
        side = "" if self.side == "both" else f" as {self.side}"
        if self.bytes_per_second is None:
            return f"end the throttle of replication{where} on {self.brokers}{side}"
        return f"throttle the replication{where} on {self.brokers}{side} to {self.bytes_per_second:,} B/s"


def _refuse_nothing(given: Given, example: str) -> None:
    if given.node.is_nothing:
        label = f"such as {example}"
        given.reader.error("E105", f"{given.what} changes nothing", given.node.place, path=given.path, label=label)


def _changes(example: str, read: Callable[[Given], Config]) -> Kind[Config]:
    """Values by key; `default` takes one back. example: what there could be     read: as the keys there are demand"""

    def checked(given: Given) -> Config:
        changes = read(given)
        _refuse_nothing(given, example)
        return changes

    return Kind(
        read=checked,
        write=lambda changes: {name: DEFAULT if value is None else value for name, value in changes},
        schema={"type": "object", "minProperties": 1, "additionalProperties": ref("scalar")},
        blank=(),
        example=f"{{{example}}}",
    )


def _read_config(given: Given) -> Config:
    """Which keys there are depends on whose they are."""
    beside = given.beside or ()
    kind: type[AnyConfig] = TopicConfig
    if "group" in beside:
        kind = GroupConfig
    elif "brokers" in beside or "entity_default" in beside:
        kind = AnyDynamicConfig
    return tuple(given.reader.config_changes(given.node, given.path, kind).items())


def _read_quota(given: Given) -> Config:
    return tuple(given.reader.config_changes(given.node, given.path, ClientQuotaConfig).items())


def _read_levels(given: Given) -> Levels:
    """Which of Kafka's features the cluster knows, and to what level, is the controller's to say."""
    reader = given.reader
    _refuse_nothing(given, "transaction.version: 2")
    levels: list[tuple[str, int]] = []
    for name, name_node, value, path in reader.entries(given.node, given.path, given.what):
        if name not in FEATURES:
            near = did_you_mean(name, FEATURES)
            label = "" if near else f"Kafka has {', '.join(FEATURES)}"
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
    """Make a topic of `topics` (`kafka-topics --create`), with the partitions, replicas and settings that stand there;
    it is not there before. A producer waits for it for `max.block.ms` at most.
    """

    topic: str = key(TOPIC, bare=True)

    def sentence(self) -> str:
        return f"create the topic {self.topic}"


@verb("delete_topic", example="t", usage="delete_topic orders")
class RemoveTopic(Verb):
    """Delete a topic (`kafka-topics --delete`), with all of its records: these are *deleted*, and not lost. A later
    `create_topic` makes another one of the same name, with nothing in it. Clients that still use the topic get
    UNKNOWN_TOPIC_OR_PARTITION and look for it until `delivery.timeout.ms` (a producer), or for ever (a consumer).
    """

    topic: str = key(TOPIC, bare=True)

    def sentence(self) -> str:
        return f"delete the topic {self.topic}"


@verb("create_partitions", example="{topic: t, count: 6}", usage="create_partitions orders 6")
class MorePartitions(Verb):
    """A topic gets more partitions, up to `count` in all (`kafka-topics --alter --partitions`). Steps behind it in the
    file, and what the file expects, can name them. Clients learn of them with their metadata; a key may go to another
    partition from then on.
    """

    topic: str = key(TOPIC)
    count: int = key(integer(2, PARTITIONS_MAX, example="6", asked="how many in all"))

    def sentence(self) -> str:
        return f"let {self.topic} have {self.count} partitions"

    def judge(self, scope: Scope, given: Fields) -> None:
        scope.topics[self.topic] = max(self.count, scope.topics.get(self.topic, 0))


@verb(
    "delete_records",
    example="t-0",
    more={"{partition: t-0, offset: 5}": "Those before this offset."},
    usage="delete_records orders-0",
)
class RemoveRecords(Verb):
    """Delete all records of a partition below its high watermark (`kafka-delete-records`): they are *deleted*, and not
    lost. The leader decides; a partition without one, or with `cleanup.policy: compact`, refuses.
    """

    partition: TopicPartition = key(PARTITION, bare=True)
    offset: int | None = key(integer(), default=None)

    @property
    def where(self) -> str:
        return "below its high watermark" if self.offset is None else f"before offset {self.offset}"

    def sentence(self) -> str:
        return f"delete records of {self.partition} {self.where}"


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
    """A group forgets its offsets of a topic (`kafka-consumer-groups --delete-offsets`), which none of its members may
    read.
    """

    group: str = key(TEXT)
    topic: str = key(TOPIC)

    def sentence(self) -> str:
        return f"delete the offsets of {self.group} in {self.topic}"


@verb("unregister_broker", example="b3", usage="unregister_broker b3")
class Unregister(Verb):
    """The cluster forgets a broker (`kafka-cluster unregister`), which leaves every ISR. It stays in the assignments,
    and is fenced if it runs, until it starts again.
    """

    broker: Selector = key(BROKERS, bare=True)

    def sentence(self) -> str:
        return f"unregister {self.broker}"


@verb(
    "set_config",
    example="{topic: t, config: {min.insync.replicas: 1}}",
    more={
        "{brokers: b3, config: {leader.replication.throttled.rate: 100000}}": (
            "Dynamic keys of single brokers (KIP-226): throttles, most of `log.*`, threads, limits of connections."
        ),
        "{entity_default: brokers, config: {log.retention.ms: 60000}}": (
            "The same of all brokers at once (`kafka-configs --entity-default`); what one broker has for itself counts "
            "before it."
        ),
        "{group: g, config: {consumer.session.timeout.ms: 10000}}": (
            "Of one group of KIP-848's members (`kafka-configs --entity-type groups`), within the limits that its "
            "brokers set: `group.consumer.min.session.timeout.ms` and the like."
        ),
    },
    usage="set_config orders min.insync.replicas=1",
    one_of=("topic", "brokers", "entity_default", "group"),
)
class SetConfig(Verb):
    """Change topic keys while the cluster runs; the value `default` takes one back."""

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
        config = words.settings()
        words.left = [word for word in words.left if not SETTING_WORD.fullmatch(word)]
        if not config:
            raise words.wrong("`set_config` needs settings, KEY=VALUE")
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
    """Change levels of features while the cluster runs (`kafka-features upgrade`, `downgrade`), all or none:
    `transaction.version`, `group.version`, `eligible.leader.replicas.version`, `metadata.version`. A level that the
    controller refuses, as Kafka does, fails the step.
    """

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
        levels = words.settings()
        words.left = [word for word in words.left if not SETTING_WORD.fullmatch(word)]
        if not levels:
            raise words.wrong("`update_features` needs levels, FEATURE=LEVEL")
        return {"features": levels, **({} if how is None else {"upgrade_type": how})}


@verb(
    "set_quota",
    example="{client: p1, quota: {producer_byte_rate: 100000}}",
    more={
        "{user: default, client: default, quota: {request_percentage: 50, consumer_byte_rate: default}}": (
            "`default` as a name stands for all that have no quota of their own; as a value it takes the quota away."
        )
    },
    usage="set_quota p1 producer_byte_rate=100000",
    any_of=("client", "user"),
)
class SetQuota(Verb):
    """What a client, a user or a client of a user may use of each broker: `producer_byte_rate` and `consumer_byte_rate`
    (bytes a second), `request_percentage` (of one handler thread), `controller_mutation_rate` (partitions created and
    deleted a second).
    """

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
        quota = words.settings()
        words.left = [word for word in words.left if not SETTING_WORD.fullmatch(word)]
        if not quota:
            raise words.wrong("`set_quota` needs quotas, KEY=VALUE")
        return {"client": client, "quota": quota}
