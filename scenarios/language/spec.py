"""The specification of a scenario for the runner and the checker: immutable and typed, with all defaults filled in.

Times are in microseconds. `parse.loading.load_file` reads a scenario from YAML. `write.lock.dump` writes it as YAML
that `load_file` reads as an equal scenario.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from cluster.client.interceptors import NO_TIME, ClientCpuTimes
from cluster.client.producer.config import producer_config_from
from cluster.config import (
    BASE_RELEASE,
    BrokerConfig,
    CommitOrder,
    ConsumerConfig,
    GroupConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
    broker_config,
    topic_defaults,
)
from cluster.defaults import defaults_of
from cluster.server.request_handlers import CpuTimes
from replica.config import Config, TopicConfig
from replica.frozen import dataclass
from replica.ids import Names, TopicPartition
from replica.log.files.disk import ServiceTime
from replica.rules import DEFAULT_PROFILE, PROFILES, KafkaRelease, Rules
from scenarios.language.diagnostics import Diagnostic
from scenarios.language.expect import Expect
from scenarios.language.selectors import Selector
from scenarios.language.steps import DEFAULT, Delay, ScenarioQuestion, Step

SCHEMA = 1
FIRST_CONTROLLER_ID = 1001

DEFAULT_RECORD_BYTES = 100
RECORD_BYTES_MAX = 1 << 20
PARTITIONS_MAX = 1000
BATCH_MAX = 100_000
TRANSACTION_RECORDS_MAX = 10_000
RUN_RECORDS_MAX = 10_000_000
RUN_BYTES_MAX = 2 << 30
"""Limit for the total size of a run's records. Each replica keeps a copy on disk."""
ABORT_EVERY_MAX = 1_000_000
PHASES_END_US = 600_000_000
"""Upper bound of phases: the period of PeriodicProducerExpirationCheck, a broker's check with the longest period.

This period is a multiple of the periods of Kafka's other checks.
"""
DEFAULT_LATENCY = Delay("constant", 1000)

Phases = Mapping[str, int] | Literal["random"]
"""Offset of each node's periodic checks from time 0, in microseconds below PHASES_END_US, by the node's name.

"random" draws the offsets from the seed.
"""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a scenario's story, such as an issue or an article.

    Attributes:
        recalled: whether it is quoted from memory and was not looked up.
    """

    ref: str
    url: str | None = None
    recalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """A broker of the cluster.

    Attributes:
        disk: how long appends and reads take; None for no time at all.
        cpu: how long the handling of requests takes; None for no time at all.
    """

    name: str
    rack: str | None = None
    disk: ServiceTime | None = None
    cpu: CpuTimes | None = None
    config: Mapping[str, str] = field(default_factory=dict)


def log_dirs_of(text: str) -> tuple[str, ...]:
    """Split the value of `log.dirs`, such as `d1,d2`, into the names of the directories."""
    return tuple(part.strip() for part in text.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuota:
    """The quotas of a user, of a client, or of a user's client.

    The name `default` stands for all users or clients that have no quota of their own.

    Attributes:
        quota: values by Kafka's keys; None removes a quota.
    """

    user: str | None
    client: str | None
    quota: tuple[tuple[str, str | None], ...]

    @property
    def whose(self) -> str:
        parts = (("user", self.user), ("client", self.client))
        named = [f"any {kind}" if name == DEFAULT else f"{kind} {name}" for kind, name in parts if name is not None]
        return " of ".join(reversed(named))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """The brokers, in the order of the file, and the controllers.

    Attributes:
        config: broker settings for all brokers and for the controller.
        phases: when the periodic checks of each node begin, for the nodes that the file names.
        heartbeats: when the heartbeats of each broker begin, for the brokers that the file names.
        quotas: quotas of clients from the start of the run.
        initial_controllers: the first voters, if steps may change the voters (kraft.version 1).
    """

    controllers: tuple[str, ...]
    brokers: Mapping[str, BrokerSpec]
    config: Mapping[str, str] = field(default_factory=dict)
    phases: Phases = field(default_factory=dict)
    heartbeats: Phases = field(default_factory=dict)
    quotas: tuple[ClientQuota, ...] = ()
    initial_controllers: tuple[str, ...] = ()

    def broker_config(self, name: str, release: KafkaRelease = BASE_RELEASE) -> BrokerConfig:
        """Return the complete configuration of a broker.

        Args:
            release: the release whose defaults apply to keys that the file does not set.
        """
        return broker_config({**self.config, **self.brokers[name].config}, release)

    def log_dirs(self, name: str) -> tuple[str, ...]:
        """Return the names of a broker's log directories; a single empty name if `log.dirs` is not set."""
        return log_dirs_of(self.broker_config(name).log_dirs)

    @property
    def fetch_wait_us(self) -> int:
        """Return the longest replica.fetch.wait.max.ms of all brokers, in microseconds."""
        return max((self.broker_config(name).replica_fetch_wait_max_ms for name in self.brokers), default=0) * 1000

    @property
    def producer_expiration_us(self) -> int:
        """Return the shortest producer.id.expiration.ms of all brokers, in microseconds."""
        return min(self.broker_config(name).producer_id_expiration_ms for name in self.brokers) * 1000

    def controller_config(self, release: KafkaRelease = BASE_RELEASE) -> BrokerConfig:
        return broker_config(self.config, release)

    @property
    def ids(self) -> Mapping[str, int]:
        """Return the numeric id of every broker and controller.

        A broker's id is the number in a name such as `b3`. If not all brokers have distinct names of that form, each id
        is the broker's position in the file.
        """
        numbers = [int(match[1]) if (match := re.fullmatch(r"b(\d{1,3})", name)) else 0 for name in self.brokers]
        if 0 in numbers or len(set(numbers)) < len(numbers):
            numbers = list(range(1, len(self.brokers) + 1))
        ids = dict(zip(self.brokers, numbers, strict=True))
        ids.update({name: FIRST_CONTROLLER_ID + place for place, name in enumerate(self.controllers)})
        return ids

    @property
    def names(self) -> Names:
        return Names({number: name for name, number in self.ids.items()})

    @property
    def racks(self) -> Mapping[str, str]:
        return {broker.name: broker.rack for broker in self.brokers.values() if broker.rack is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic of the scenario.

    Attributes:
        assignment: replicas of each partition in preference order; None if the controller places them.
        is_made_by_step: whether a `create_topic` step creates the topic, so that it is absent when the run begins.
    """

    name: str
    partitions: int
    assignment: tuple[tuple[str, ...], ...] | None
    replication_factor: int
    config: Mapping[str, str] = field(default_factory=dict)
    is_made_by_step: bool = False

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(self.name, number) for number in range(self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """Settings of the links between the nodes of two sides. A setting that is None keeps the network's default."""

    side_a: Selector
    side_b: Selector
    latency: Delay | None = None
    bytes_per_second: int | None = None
    loss_ppm: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """The settings of the network. Later entries of `links` override earlier entries.

    Attributes:
        bytes_per_second: bandwidth of each link; None for unlimited.
        card_bytes_per_second: bandwidth of each machine's network card; None for unlimited.
        cards: bandwidth of single network cards, by name of the node.
    """

    latency: Delay = DEFAULT_LATENCY
    bytes_per_second: int | None = None
    card_bytes_per_second: int | None = None
    cards: Mapping[str, int] = field(default_factory=dict)
    links: tuple[LinkSpec, ...] = ()

    @property
    def has_cards(self) -> bool:
        """Return True if the bandwidth of any network card is limited, which only simulated runs can do."""
        return self.card_bytes_per_second is not None or bool(self.cards)


@dataclass(frozen=True, slots=True)
class Arrival:
    """The rate of a producer: `count` records per `period_us`, evenly spaced or as a Poisson process with that mean."""

    count: int
    period_us: int
    poisson: bool = False


@dataclass(frozen=True, slots=True)
class RecordTime:
    """The timestamp that a producer gives its records (CreateTime).

    Attributes:
        ahead_us: how far the timestamp is ahead of the producer's clock; negative if behind.
        at_ms: a fixed timestamp in milliseconds since 1970; None to use the producer's clock.
    """

    ahead_us: int = 0
    at_ms: int | None = None

    def ms(self, clock_us: int) -> int:
        """Return the timestamp in milliseconds of a record sent when the producer's clock shows `clock_us`."""
        return self.at_ms if self.at_ms is not None else (clock_us + self.ahead_us) // 1000


OwnHeaders = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The fields of a producer's records besides their values.

    Attributes:
        keys: keys that the records get in turn; empty if no record has a key.
        partition: the partition; None leaves the choice to the partitioner.
        time: the timestamp; None for the producer's clock.
    """

    keys: tuple[str, ...] = ()
    partition: int | None = None
    time: RecordTime | None = None
    headers: OwnHeaders = ()

    def key_of(self, number: int) -> str | None:
        return self.keys[number % len(self.keys)] if self.keys else None


PLAIN_RECORDS = RecordFields()


@dataclass(frozen=True, slots=True)
class TransactionPattern:
    """The size of a producer's transactions, and which of them it aborts.

    Attributes:
        records: number of records in each transaction.
        abort_every: the producer aborts every transaction whose number is a multiple of this; 0 for none.
    """

    records: int
    abort_every: int = 0


@dataclass(frozen=True, slots=True)
class ChosenRecords:
    """The records that a share consumer releases or rejects: those in `names`, or a share of all deliveries.

    Attributes:
        ppm: the share in parts per million.
    """

    names: tuple[str, ...] = ()
    ppm: int = 0


NO_RECORDS = ChosenRecords()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A producer, a consumer, a transform (a consumer with a producer), or a member of a share group.

    A producer without `arrival` sends only in `produce` steps.

    Attributes:
        topics: the topic of a producer; a consumer or a transform may read several.
        pattern: the regular expression of a transform that subscribes with one. `topics` are then the matching topics
            of the file.
        prefix: prefix of the record names (r0, r1, ...). By default the producers get r, s, u, v, w, x, y and z in
            turn. A transform puts its prefix before the name of the input record.
        start_us: time at which the process starts.
        stop_us: time at which arrivals end, and at which a consumer's process ends; None for never.
        records: the fields of a producer's records besides their values.
        to: topic of a transform's outputs.
        offsets: way in which a transform commits the offsets of its inputs.
        names_member: whether a transform sends its member id and generation when a transaction commits offsets.
        flushes: whether a transform waits for the acks of its outputs before it polls again.
        cpu: time that interceptors, serializers and deserializers take.
        process_us: time that a consumer or a transform spends on each record before it polls again.
        releases: records that a member of a share group returns for another delivery.
        rejects: records that a member of a share group refuses for good.
    """

    name: str
    kind: Literal["producer", "consumer", "transform", "share_consumer"]
    topics: tuple[str, ...]
    pattern: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    arrival: Arrival | None = None
    size_bytes: int = DEFAULT_RECORD_BYTES
    batch: int = 1
    start_us: int = 0
    stop_us: int | None = None
    records: RecordFields = PLAIN_RECORDS
    transaction: TransactionPattern | None = None
    to: str = ""
    offsets: CommitOrder = "in-transaction"
    names_member: bool = True
    flushes: bool = True
    cpu: ClientCpuTimes = NO_TIME
    process_us: int = 0
    releases: ChosenRecords = NO_RECORDS
    rejects: ChosenRecords = NO_RECORDS

    @property
    def topic(self) -> str:
        """Return the topic of a client with exactly one topic."""
        (topic,) = self.topics
        return topic

    def producer_config(self, release: KafkaRelease = BASE_RELEASE) -> ProducerConfig:
        """Return the typed configuration, with the values that KafkaProducer derives itself."""
        return producer_config_from(self._settings_of(ProducerConfig), release)

    def consumer_config(self, release: KafkaRelease = BASE_RELEASE) -> ConsumerConfig:
        of_members = {"transform": GroupConsumerConfig, "share_consumer": ShareConsumerConfig}
        schema = of_members.get(self.kind, ConsumerConfig)
        return schema.from_mapping({**defaults_of(schema, release), **self._settings_of(schema)})

    def _settings_of(self, schema: type[Config]) -> Mapping[str, str]:
        """Return the settings that belong to `schema`, because a transform mixes those of a producer and a consumer."""
        if self.kind != "transform":
            return self.config
        known = schema.keys()
        return {key: value for key, value in self.config.items() if key in known}


LAST_ACK_ROOM_US = 1_000_000
"""Time between the last arrival of a producer without `stop` and the end of the run, to leave time for acks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario that can be run: a file, or one of its variants with the patch applied.

    Attributes:
        variant: id of the variant; None for the file itself.
    """

    id: str
    title: str
    variant: str | None = None
    question: str | None = None
    questions: tuple[ScenarioQuestion, ...] = ()
    sources: tuple[Source, ...] = ()
    lesson: int | None = None
    tags: tuple[str, ...] = ()
    seed: int
    duration_us: int
    profile: str = DEFAULT_PROFILE
    rules: Rules = PROFILES[DEFAULT_PROFILE]
    cluster: ClusterSpec
    topics: Mapping[str, TopicSpec]
    network: NetworkSpec = field(default_factory=NetworkSpec)
    workloads: Mapping[str, Workload]
    timeline: tuple[Step, ...]
    expect: Expect

    @property
    def topics_at_the_start(self) -> tuple[TopicSpec, ...]:
        return tuple(topic for topic in self.topics.values() if not topic.is_made_by_step)

    def topic_config(self, topic: str) -> TopicConfig:
        """Return the configuration of a topic: its own keys over the defaults of the brokers."""
        defaults = topic_defaults(self.cluster.controller_config(self.rules.release))
        return defaults.with_own(self.topics[topic].config)

    def sends_until_us(self, producer: Workload) -> int:
        """Return the time at which the `rate` or `poisson` arrivals of a producer end.

        Without `stop`, that is early enough for the last acks to arrive within the run.
        """
        if producer.stop_us is not None:
            return min(producer.stop_us, self.duration_us)
        return self.duration_us - min(LAST_ACK_ROOM_US, self.duration_us // 10)

    @property
    def producers(self) -> tuple[Workload, ...]:
        return tuple(workload for workload in self.workloads.values() if workload.kind == "producer")

    @property
    def consumers(self) -> tuple[Workload, ...]:
        return tuple(workload for workload in self.workloads.values() if workload.kind == "consumer")

    @property
    def transforms(self) -> tuple[Workload, ...]:
        return tuple(workload for workload in self.workloads.values() if workload.kind == "transform")

    @property
    def run_name(self) -> str:
        """Return the end of the run folder's name, such as `acks1-leader-kill` or `acks1-leader-kill-acks-all`."""
        return self.id if self.variant is None else f"{self.id}-{self.variant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFile:
    """The contents of one file: the scenario, its variants and the linter's warnings, all defaults filled in."""

    path: str
    text: str
    scenario: Scenario
    variants: Mapping[str, Scenario] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    config_files: Mapping[str, str] = field(default_factory=dict)
    """The text of each file that a `config_file` names, by file name."""

    @property
    def all(self) -> tuple[Scenario, ...]:
        return (self.scenario, *self.variants.values())
