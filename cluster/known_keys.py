"""The keys of Kafka's brokers, topics and clients that have no effect here: neutral, or not yet supported.

A key has one of three standings, in scenario files and in live clusters alike:

1. It acts, as in Kafka: the keys of BrokerConfig, TopicConfig, ProducerConfig and ConsumerConfig, except those below.
2. It is neutral: no record, replica or client of a cluster here could tell its value (sockets, paths, security, ...).
3. It is not yet supported. With a value that changes nothing, such as Kafka's default, it counts as neutral; with any
   other value, a real cluster would act differently.

Source: the ConfigDefs of AbstractKafkaConfig (4.0.0 to 4.4.0), KafkaConfig (2.8.2, 3.9.0), LogConfig,
ProducerConfig and ConsumerConfig
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from replica.frozen import dataclass

BROKER_RACK: Final = "broker.rack"
"""A key that acts. A scenario sets it by the broker's `rack`."""
Standing = Literal["acts", "neutral", "not yet"]

_NETWORK_THREADS_PATHS_IDS: Final = """
advertised.host.name advertised.listeners advertised.port alter.log.dirs.replication.quota.window.num
alter.log.dirs.replication.quota.window.size.seconds auto.include.jmx.reporter background.threads broker.id
broker.id.generation.enable control.plane.listener.name controller.listener.names controller.message.queue.size
controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
controller.quorum.bootstrap.servers controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
controller.quorum.voters delete.records.purgatory.purge.interval.requests early.start.listeners
fetch.purgatory.purge.interval.requests group.consumer.assignor.offload.enable group.coordinator.background.threads
group.coordinator.cached.buffer.max.bytes group.coordinator.threads host.name inter.broker.listener.name
internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
internal.metadata.max.fetch.size.in.bytes kafka.metrics.polling.interval.secs kafka.metrics.reporters
listener.security.protocol.map listeners log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
log.cleaner.io.max.bytes.per.second log.cleaner.threads log.dir metadata.log.dir metadata.log.segment.bytes
metadata.log.segment.min.bytes metadata.log.segment.ms metadata.max.retention.bytes metadata.max.retention.ms
metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms node.id
num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads offsets.load.buffer.size
offsets.topic.compression.codec port producer.purgatory.purge.interval.requests replica.socket.receive.buffer.bytes
reserved.broker.max.id server.max.startup.time.ms socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes
telemetry.max.bytes transaction.state.log.load.buffer.size unstable.metadata.versions.enable
"""
_SECURITY: Final = """
delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms delegation.token.master.key
delegation.token.max.lifetime.ms delegation.token.secret.key password.encoder.cipher.algorithm
password.encoder.iterations password.encoder.key.length password.encoder.keyfactory.algorithm
password.encoder.old.secret password.encoder.secret principal.builder.class sasl.client.callback.handler.class
sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
sasl.mechanism.inter.broker.protocol sasl.oauthbearer.allow.unverified.audience
sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
sasl.server.callback.handler.class security.inter.broker.protocol security.providers ssl.allow.dn.changes
ssl.allow.san.changes ssl.cipher.suites ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm
ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.principal.mapping.rules ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
ssl.truststore.password ssl.truststore.type super.users
"""
"""Keys of security, which scenarios do not have. For live clusters, `highwater serve` has options instead."""
_ZOOKEEPER: Final = """
zookeeper.clientCnxnSocket zookeeper.connect zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests
zookeeper.metadata.migration.min.batch.size zookeeper.set.acl zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable
zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols zookeeper.ssl.endpoint.identification.algorithm
zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable
zookeeper.ssl.protocol zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password
zookeeper.ssl.truststore.type zookeeper.sync.time.ms
"""
_SHARE_COORDINATOR: Final = """
share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
share.coordinator.state.topic.compression.codec share.coordinator.state.topic.prune.interval.ms
share.coordinator.threads share.fetch.max.fetch.records share.fetch.purgatory.purge.interval.requests
"""
_TIERED_STORAGE: Final = """
follower.fetch.last.tiered.offset.enable log.remote.copy.lag.bytes log.remote.copy.lag.ms remote.fetch.max.wait.ms
remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads
remote.log.storage.manager.class.name remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
"""
"""Keys that have an effect in Kafka only if remote.log.storage.system.enable is true."""
_LOGS: Final = """
compression.gzip.level compression.lz4.level compression.zstd.level log.local.retention.bytes log.local.retention.ms
log.preallocate
"""
_NEUTRAL_FAMILIES: Final = (
    "client.quota.callback.",
    "config.providers.",
    "confluent.",
    "cruise.control.",
    "listener.name.",
    "principal.builder.",
    "rlmm.config.",
    "rsm.config.",
    "strimzi.",
)
"""Prefixes of keys that belong to listeners, plugins and distributions of Kafka."""

_NOT_YET: Final = """
alter.config.policy.class.name
authorizer.class.name
client.quota.callback.class
compression.type producer
config.providers
controller.quorum.append.linger.ms 25
controller.quorum.retry.backoff.ms 20
controller.socket.timeout.ms 30000
cordoned.log.dirs
create.topic.policy.class.name
eligible.leader.replicas.enable false
group.consumer.assignors uniform,range
group.consumer.max.assignment.interval.ms 15000
group.consumer.min.assignment.interval.ms 0
group.coordinator.new.enable true false
group.coordinator.rebalance.protocols classic,consumer,streams classic,consumer classic,consumer,share
inter.broker.protocol.version
leader.imbalance.per.broker.percentage 10
log.flush.start.offset.checkpoint.interval.ms 60000
log.initial.task.delay.ms 30000
log.message.downconversion.enable true
log.message.format.version
log.roll.jitter.hours 0
log.roll.jitter.ms 0
max.decompressed.message.bytes 2147483639
metadata.log.max.snapshot.interval.ms 3600000
metadata.max.idle.interval.ms 500
offsets.commit.required.acks -1
process.roles broker controller
queued.max.request.bytes -1
quota.consumer.default 9223372036854775807
quota.producer.default 9223372036854775807
remote.log.storage.system.enable false
replication.quota.window.num 11
replication.quota.window.size.seconds 1
transaction.two.phase.commit.enable false
unclean.leader.election.interval.ms 300000
unstable.api.versions.enable false
unstable.feature.versions.enable false
zookeeper.metadata.migration.enable false
"""
"""Keys that are not yet supported, each with the values that change nothing; Kafka's default comes first."""
_SHARE_AND_STREAMS_GROUPS: Final = """
group.share.assignor.offload.enable group.share.assignors
group.share.dlq.manager.class.name group.share.enable group.share.max.assignment.interval.ms group.share.max.groups
group.share.min.assignment.interval.ms group.share.persister.class.name group.streams.acceptable.recovery.lag
group.streams.assignor.offload.enable group.streams.assignors group.streams.max.assignment.interval.ms
group.streams.max.warmup.replicas group.streams.min.assignment.interval.ms group.streams.min.task.offset.interval.ms
group.streams.num.warmup.replicas group.streams.rack.aware.assignment.tags group.streams.task.offset.interval.ms
group.streams.topology.description.plugin.class
"""
"""Keys that are not yet supported with any value (KIP-932, KIP-1071)."""

_NEUTRAL_OF_TOPICS: Final = """
compression.gzip.level compression.lz4.level compression.zstd.level local.retention.bytes
local.retention.ms preallocate remote.copy.lag.bytes remote.copy.lag.ms remote.log.copy.disable
remote.log.delete.on.disable remote.storage.enable
"""
_NOT_YET_OF_TOPICS: Final = """
compression.type producer
internal.segment.bytes
max.decompressed.message.bytes 2147483639
message.downconversion.enable true
message.format.version
segment.jitter.ms 0
"""
_NEUTRAL_OF_CLIENTS: Final = """
auto.include.jmx.reporter bootstrap.resolve.timeout.ms bootstrap.servers buffer.memory.allocation.strategy
client.dns.lookup client.id compression.gzip.level compression.lz4.level compression.zstd.level enable.metrics.push
internal.auto.downgrade.txn.commit internal.leave.group.on.close internal.throw.on.fetch.stable.offset.unsupported
metadata.cluster.check.enable metadata.max.idle.ms metric.reporters metrics.num.samples metrics.recording.level
metrics.sample.window.ms receive.buffer.bytes send.buffer.bytes socket.connection.setup.timeout.max.ms
"""
_NOT_YET_OF_CLIENTS: Final = """
allow.auto.create.topics true
check.crcs true
config.providers
default.api.timeout.ms 60000
metadata.recovery.rebootstrap.trigger.ms 300000
metadata.recovery.strategy rebootstrap none
partitioner.adaptive.partitioning.enable true
partitioner.availability.timeout.ms 0
partitioner.class
partitioner.ignore.keys false
partitioner.rack.aware false
share.acknowledgement.mode implicit
share.acquire.mode batch_optimized
transaction.two.phase.commit.enable false
"""
INSTEAD: Final = {
    "inter.broker.protocol.version": "set `profile`, which selects the rules of a release",
    "log.message.format.version": "set `profile`, which selects the rules of a release",
    "message.format.version": "set `profile`, which selects the rules of a release",
    "process.roles": "set `cluster.controllers`; each controller is a separate node",
    "quota.consumer.default": "set `cluster.quotas`",
    "quota.producer.default": "set `cluster.quotas`",
}
"""For some keys: the feature of a scenario that replaces them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKeys:
    """The keys of Kafka's brokers, topics or clients that have no effect here."""

    neutral: frozenset[str]
    neutral_families: tuple[str, ...] = ()
    not_yet: Mapping[str, frozenset[str]]
    """Each key that is not yet supported, with the values that change nothing."""

    @property
    def names(self) -> frozenset[str]:
        return self.neutral | self.not_yet.keys()

    def standing_of(self, name: str, value: str) -> Standing:
        """Return the standing of a key with this value. A key that Kafka does not have counts as one that acts."""
        if name in self.not_yet:
            harmless = value.replace(" ", "").lower() in {"", *self.not_yet[name]}
            return "neutral" if harmless else "not yet"
        return "neutral" if name in self.neutral or name.startswith(self.neutral_families) else "acts"

    def pattern(self) -> str:
        """Return a regular expression that matches the names of these keys."""
        names = [*self.neutral_families, *(f"{name}$" for name in sorted(self.names))]
        return "^(" + "|".join(names).replace(".", r"\.") + ")"


def _with_values(table: str) -> dict[str, frozenset[str]]:
    return {name: frozenset(values) for name, *values in map(str.split, table.strip().splitlines())}


BROKER_KEYS: Final = KnownKeys(
    neutral=frozenset(
        " ".join(
            (_NETWORK_THREADS_PATHS_IDS, _SECURITY, _ZOOKEEPER, _SHARE_COORDINATOR, _TIERED_STORAGE, _LOGS)
        ).split()
    ),
    neutral_families=_NEUTRAL_FAMILIES,
    not_yet=_with_values(_NOT_YET) | dict.fromkeys(_SHARE_AND_STREAMS_GROUPS.split(), frozenset()),
)
TOPIC_KEYS: Final = KnownKeys(
    neutral=frozenset(_NEUTRAL_OF_TOPICS.split()),
    not_yet=_with_values(_NOT_YET_OF_TOPICS),
)
CLIENT_KEYS: Final = KnownKeys(
    neutral=frozenset(_NEUTRAL_OF_CLIENTS.split()),
    neutral_families=("config.providers.", "sasl.", "security.", "ssl."),
    not_yet=_with_values(_NOT_YET_OF_CLIENTS),
)
SHARE_CONSUMER_KEYS: Final = replace(
    CLIENT_KEYS, not_yet={name: item for name, item in CLIENT_KEYS.not_yet.items() if not name.startswith("share.")}
)
PRODUCER_KEYS: Final = replace(CLIENT_KEYS, not_yet={**CLIENT_KEYS.not_yet, "client.rack": frozenset()})
