"""A scenario as the runner and the checker see it: frozen, typed, all defaults filled in, times in microseconds.

`parse.loading.load_file` makes it from YAML; `lock.dump` writes it back so that it reads the same.
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
    broker_config,
    defaults_of,
    topic_defaults,
)
from cluster.server.request_handlers import CpuTimes
from replica.config import Config, TopicConfig
from replica.frozen import dataclass
from replica.ids import Names, TopicPartition
from replica.log.files.disk import ServiceTime
from replica.rules import PROFILES, Rules
from scenarios.language.diagnostics import Diagnostic
from scenarios.language.expect import Expect
from scenarios.language.selectors import Selector
from scenarios.language.steps import DEFAULT, Delay, ScenarioQuestion, Step

SCHEMA = 1
PROFILE = tuple(PROFILES)[-1]
"""The era of a file without `profile`: the newest one."""
FIRST_CONTROLLER_ID = 1001

DEFAULT_RECORD_BYTES = 100
RECORD_BYTES_MAX = 1 << 20
PARTITIONS_MAX = 1000
BATCH_MAX = 100_000
TRANSACTION_RECORDS_MAX = 10_000
RUN_RECORDS_MAX = 10_000_000
RUN_BYTES_MAX = 2 << 30
"""Of all records; each replica keeps a copy on disk."""
ABORT_EVERY_MAX = 1_000_000
PHASES_END_US = 600_000_000
"""The longest period of a broker's checks (PeriodicProducerExpirationCheck), a multiple of Kafka's other ones."""
DEFAULT_LATENCY = Delay("constant", 1000)

Phases = Mapping[str, int] | Literal["random"]
"""Microseconds by node name, below PHASES_END_US."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the story comes from; recalled: from memory, not read."""

    ref: str
    url: str | None = None
    recalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """disk, cpu: how long they take, None for no time at all"""

    name: str
    rack: str | None = None
    disk: ServiceTime | None = None
    cpu: CpuTimes | None = None
    config: Mapping[str, str] = field(default_factory=dict)


def log_dirs_of(text: str) -> tuple[str, ...]:
    """`d1,d2` -> (d1, d2)"""
    return tuple(part.strip() for part in text.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuota:
    """What a user, a client or both may use; the name `default` stands for all without a quota of their own.

    quota: by Kafka's keys; None takes it away
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
    """Brokers in file order; `config` holds broker keys for all of them and for the controller.

    phases: of the periodic checks of nodes that were given one; "random": drawn for each node from the seed
    heartbeats: phases of the heartbeats of brokers, likewise
    quotas: of clients, from the start on
    """

    controllers: tuple[str, ...]
    brokers: Mapping[str, BrokerSpec]
    config: Mapping[str, str] = field(default_factory=dict)
    phases: Phases = field(default_factory=dict)
    heartbeats: Phases = field(default_factory=dict)
    quotas: tuple[ClientQuota, ...] = ()

    def broker_config(self, name: str, release: str = BASE_RELEASE) -> BrokerConfig:
        """release: whose defaults count where the file says nothing"""
        return broker_config({**self.config, **self.brokers[name].config}, release)

    def log_dirs(self, name: str) -> tuple[str, ...]:
        """Names of a broker's log directories; one without a name where `log.dirs` says nothing."""
        return log_dirs_of(self.broker_config(name).log_dirs)

    @property
    def fetch_wait_us(self) -> int:
        """The longest replica.fetch.wait.max.ms of all brokers."""
        return max((self.broker_config(name).replica_fetch_wait_max_ms for name in self.brokers), default=0) * 1000

    @property
    def producer_expiration_us(self) -> int:
        """After which silence the first broker forgets a producer."""
        return min(self.broker_config(name).producer_id_expiration_ms for name in self.brokers) * 1000

    def controller_config(self, release: str = BASE_RELEASE) -> BrokerConfig:
        return broker_config(self.config, release)

    @property
    def ids(self) -> Mapping[str, int]:
        """Numeric id of every broker and controller: the number in a name like `b3`, else the place in the file."""
        numbers = [int(found[1]) if (found := re.fullmatch(r"b(\d{1,3})", name)) else 0 for name in self.brokers]
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
    """assignment: replicas of each partition in preference order, or None when the controller places them.

    is_made_by_step: `create_topic` makes it, so that it is not there when the run begins
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
    """Settings between two sides that differ from the network's default; None keeps the default."""

    side_a: Selector
    side_b: Selector
    latency: Delay | None = None
    bytes_per_second: int | None = None
    loss_ppm: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """bytes_per_second None: unlimited. Later links win over earlier ones.

    card_bytes_per_second: of every machine's network card; `cards` has those that differ, by name
    """

    latency: Delay = DEFAULT_LATENCY
    bytes_per_second: int | None = None
    card_bytes_per_second: int | None = None
    cards: Mapping[str, int] = field(default_factory=dict)
    links: tuple[LinkSpec, ...] = ()

    @property
    def has_cards(self) -> bool:
        """Only virtual time has them."""
        return self.card_bytes_per_second is not None or bool(self.cards)


@dataclass(frozen=True, slots=True)
class Arrival:
    """`count` records per `period_us`, evenly spaced or as a Poisson process of that mean."""

    count: int
    period_us: int
    poisson: bool = False


@dataclass(frozen=True, slots=True)
class TransactionPattern:
    """records: of each transaction     abort_every: of so many transactions the last one is aborted; 0: none"""

    records: int
    abort_every: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A producer, a consumer, or both: a transform. A producer without `arrival` sends only on `produce` steps.

    prefix: of its record names (r0, r1, ...); the first producer has r, then s, u, v, w, x, y, z. A transform puts it
        before the name of the input
    topics: one; a consumer and a transform may read several
    pattern: of a transform that subscribes by it; `topics` are those of the file that it describes
    to, offsets, names_member: of a transform: the topic of its outputs, when the offsets of its inputs are committed,
        and whether its transactions name the member of the group
    flushes: it waits for the acks of its outputs before it polls again
    start_us: when its process starts     stop_us: when its arrivals end (a consumer's process too); None: never
    cpu: what its interceptors, serializers and deserializers take
    process_us: of a consumer and a transform: how long the application works on each record before it polls again
    """

    name: str
    kind: Literal["producer", "consumer", "transform"]
    topics: tuple[str, ...]
    pattern: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    arrival: Arrival | None = None
    size_bytes: int = DEFAULT_RECORD_BYTES
    batch: int = 1
    start_us: int = 0
    stop_us: int | None = None
    transaction: TransactionPattern | None = None
    to: str = ""
    offsets: CommitOrder = "in-transaction"
    names_member: bool = True
    flushes: bool = True
    cpu: ClientCpuTimes = NO_TIME
    process_us: int = 0

    @property
    def topic(self) -> str:
        """Of a client that has one."""
        (topic,) = self.topics
        return topic

    def producer_config(self, release: str = BASE_RELEASE) -> ProducerConfig:
        """Typed, after what KafkaProducer derives itself."""
        return producer_config_from({**defaults_of(ProducerConfig, release), **self._of(ProducerConfig)})

    def consumer_config(self) -> ConsumerConfig:
        schema = GroupConsumerConfig if self.kind == "transform" else ConsumerConfig
        return schema.from_mapping(self._of(schema))

    def _of(self, schema: type[Config]) -> Mapping[str, str]:
        """The keys that a client knows: those of a transform are of two."""
        if self.kind != "transform":
            return self.config
        known = schema.keys()
        return {key: value for key, value in self.config.items() if key in known}


LAST_ACK_ROOM_US = 1_000_000
"""Room between the last arrival of a producer without `stop` and the end of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One runnable scenario: a file, or one of its variants with the patch already applied (`variant` says which)."""

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
    profile: str = PROFILE
    rules: Rules = PROFILES[PROFILE]
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
        """The topic's keys over the cluster-wide defaults of the brokers."""
        defaults = topic_defaults(self.cluster.controller_config(self.rules.release))
        return defaults.with_own(self.topics[topic].config)

    def sends_until_us(self, producer: Workload) -> int:
        """Arrivals of `rate` and `poisson` end before this moment: by default in time for acks within the run."""
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
        """`acks1-leader-kill` or `acks1-leader-kill-acks-all`: the run folder's last part."""
        return self.id if self.variant is None else f"{self.id}-{self.variant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFile:
    """Everything one file holds: the scenario itself and its variants, all resolved; `warnings` of the linter."""

    path: str
    text: str
    scenario: Scenario
    variants: Mapping[str, Scenario] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)

    @property
    def all(self) -> tuple[Scenario, ...]:
        return (self.scenario, *self.variants.values())
