"""Keys that can be set while brokers run (KIP-226), and those that cannot.

Source: DynamicBrokerConfig.AllDynamicConfigs, .PerBrokerConfigs, DynamicConfig.Broker (4.1, as their constants are)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from functools import cache
from typing import Any, ClassVar, Final

from cluster.config import BrokerConfig
from replica.config import INT32_MAX, NEVER, Config, DynamicBrokerConfig, key
from replica.frozen import dataclass

WITH_EFFECT: Final = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "min.insync.replicas",
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "producer.id.expiration.ms",
        "transaction.partition.verification.enable",
        "unclean.leader.election.enable",
    }
)
"""Of BrokerConfig."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassiveDynamicConfig(Config):
    """Keys that nothing here acts upon: checked, kept and described."""

    WHAT: ClassVar[str] = "dynamic broker"

    background_threads: int = key("background.threads", 10, low=1, high=INT32_MAX, doc="Threads for other tasks.")
    log_cleaner_io_buffer_load_factor: float = key("log.cleaner.io.buffer.load.factor", 0.9)
    log_cleaner_io_buffer_size: int = key("log.cleaner.io.buffer.size", 524_288, low=0, high=INT32_MAX)
    log_cleaner_io_max_bytes_per_second: float = key(
        "log.cleaner.io.max.bytes.per.second", 1.7976931348623157e308, high=1.7976931348623157e308
    )
    log_cleaner_threads: int = key("log.cleaner.threads", 1, low=0, high=INT32_MAX, doc="Threads that compact logs.")
    metric_reporters: str = key(
        "metric.reporters", "org.apache.kafka.common.metrics.JmxReporter", doc="Classes that report metrics."
    )
    num_recovery_threads_per_data_dir: int = key(
        "num.recovery.threads.per.data.dir", 2, low=1, high=INT32_MAX, doc="Threads that recover logs at the start."
    )
    remote_fetch_max_wait_ms: int = key("remote.fetch.max.wait.ms", 500, low=1, high=INT32_MAX)
    remote_list_offsets_request_timeout_ms: int = key("remote.list.offsets.request.timeout.ms", 30_000, low=1)
    remote_log_index_file_cache_total_size_bytes: int = key(
        "remote.log.index.file.cache.total.size.bytes", 1 << 30, low=1
    )
    remote_log_manager_copier_thread_pool_size: int = key(
        "remote.log.manager.copier.thread.pool.size", 10, low=1, high=INT32_MAX
    )
    remote_log_manager_copy_max_bytes_per_second: int = key(
        "remote.log.manager.copy.max.bytes.per.second", NEVER, low=1
    )
    remote_log_manager_expiration_thread_pool_size: int = key(
        "remote.log.manager.expiration.thread.pool.size", 10, low=1, high=INT32_MAX
    )
    remote_log_manager_fetch_max_bytes_per_second: int = key(
        "remote.log.manager.fetch.max.bytes.per.second", NEVER, low=1
    )
    remote_log_reader_threads: int = key("remote.log.reader.threads", 10, low=1, high=INT32_MAX)


class AnyDynamicConfig(Config):
    """Every key that this project knows of those that a running broker takes."""

    WHAT: ClassVar[str] = "dynamic broker"

    @classmethod
    @cache
    def keys(cls) -> Mapping[str, Field[Any]]:
        known = {name: item for name, item in BrokerConfig.keys().items() if name in WITH_EFFECT}
        return {**DynamicBrokerConfig.keys(), **known, **PassiveDynamicConfig.keys()}


THREADS: Final = frozenset(
    {
        "background.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    }
)
"""Sizes of pools of threads, which change by no more than a factor of two at once."""

OF_LISTENERS_ONLY: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Set under `listener.name.<listener>.` only (SslConfigs.RECONFIGURABLE_CONFIGS)."""
OF_ONE_BROKER: Final = OF_LISTENERS_ONLY | {
    "listener.security.protocol.map",
    "listeners",
    "principal.builder.class",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.mechanism.inter.broker.protocol",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
}
"""Not for all brokers at once."""

PASSIVE: Final = PassiveDynamicConfig.keys()
RATES: Final = DynamicBrokerConfig.keys()
DYNAMIC: Final = WITH_EFFECT | frozenset(PASSIVE) | OF_ONE_BROKER
"""DynamicBrokerConfig.AllDynamicConfigs"""
_NOT_DYNAMIC: Final = """
add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms advertised.listeners
alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
alter.log.dirs.replication.quota.window.size.seconds authorizer.class.name auto.create.topics.enable
auto.leader.rebalance.enable broker.heartbeat.interval.ms broker.id broker.rack broker.session.timeout.ms
client.quota.callback.class connection.failed.authentication.delay.ms connections.max.idle.ms
connections.max.reauth.ms controlled.shutdown.enable controller.listener.names
controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
controller.quorum.append.linger.ms controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
controller.quorum.retry.backoff.ms controller.quorum.voters controller.quota.window.num
controller.quota.window.size.seconds controller.socket.timeout.ms create.topic.policy.class.name
default.replication.factor delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
delegation.token.max.lifetime.ms delegation.token.secret.key delete.records.purgatory.purge.interval.requests
delete.topic.enable early.start.listeners fetch.max.bytes fetch.purgatory.purge.interval.requests
group.consumer.assignors group.consumer.heartbeat.interval.ms group.consumer.max.heartbeat.interval.ms
group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.migration.policy
group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
group.consumer.regex.refresh.interval.ms group.consumer.session.timeout.ms group.coordinator.append.linger.ms
group.coordinator.rebalance.protocols group.coordinator.threads group.initial.rebalance.delay.ms
group.max.session.timeout.ms group.max.size group.min.session.timeout.ms group.share.assignors
group.share.delivery.count.limit group.share.enable group.share.heartbeat.interval.ms
group.share.max.heartbeat.interval.ms group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
group.share.max.share.sessions group.share.max.size group.share.min.heartbeat.interval.ms
group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms group.share.partition.max.record.locks
group.share.persister.class.name group.share.record.lock.duration.ms group.share.session.timeout.ms
group.streams.heartbeat.interval.ms group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms
group.streams.max.size group.streams.max.standby.replicas group.streams.min.heartbeat.interval.ms
group.streams.min.session.timeout.ms group.streams.num.standby.replicas group.streams.session.timeout.ms
initial.broker.registration.timeout.ms inter.broker.listener.name internal.metadata.delete.delay.millis
internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
internal.metadata.max.fetch.size.in.bytes kafka.metrics.polling.interval.secs kafka.metrics.reporters
leader.imbalance.check.interval.seconds log.cleaner.enable log.dir log.dir.failure.timeout.ms log.dirs
log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms
log.initial.task.delay.ms log.retention.check.interval.ms log.retention.hours log.retention.minutes log.roll.hours
log.roll.jitter.hours max.incremental.fetch.session.cache.slots max.request.partition.size.limit metadata.log.dir
metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes
metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
metrics.num.samples metrics.recording.level metrics.sample.window.ms node.id num.partitions
num.replica.alter.log.dirs.threads offset.metadata.max.bytes offsets.commit.timeout.ms offsets.load.buffer.size
offsets.retention.check.interval.ms offsets.retention.minutes offsets.topic.compression.codec
offsets.topic.num.partitions offsets.topic.replication.factor offsets.topic.segment.bytes process.roles
producer.id.expiration.check.interval.ms producer.purgatory.purge.interval.requests queued.max.request.bytes
queued.max.requests quota.window.num quota.window.size.seconds remote.log.manager.copy.quota.window.num
remote.log.manager.copy.quota.window.size.seconds remote.log.manager.fetch.quota.window.num
remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.task.interval.ms
remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.storage.manager.class.name
remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix remote.log.storage.system.enable
replica.fetch.backoff.ms replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes
replica.fetch.wait.max.ms replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.selector.class
replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
replication.quota.window.size.seconds request.timeout.ms sasl.client.callback.handler.class
sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class sasl.server.max.receive.size
security.inter.broker.protocol security.providers server.max.startup.time.ms share.coordinator.append.linger.ms
share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions
share.coordinator.state.topic.prune.interval.ms share.coordinator.state.topic.replication.factor
share.coordinator.state.topic.segment.bytes share.coordinator.threads share.coordinator.write.timeout.ms
share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms socket.listen.backlog.size socket.receive.buffer.bytes socket.request.max.bytes
socket.send.buffer.bytes ssl.allow.dn.changes ssl.allow.san.changes ssl.principal.mapping.rules telemetry.max.bytes
transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
transaction.state.log.min.isr transaction.state.log.num.partitions transaction.state.log.replication.factor
transaction.state.log.segment.bytes transaction.two.phase.commit.enable transactional.id.expiration.ms
unclean.leader.election.interval.ms unstable.api.versions.enable unstable.feature.versions.enable
"""
"""DynamicConfig.Broker.nonDynamicProps"""
READ_ONLY: Final = frozenset(_NOT_DYNAMIC.split()) | (frozenset(BrokerConfig.keys()) - DYNAMIC)
"""With those that only Highwater or earlier releases have."""

_OF_EARLIER_RELEASES: Final = """
advertised.host.name advertised.port auto.include.jmx.reporter broker.id.generation.enable control.plane.listener.name
controller.message.queue.size delegation.token.master.key eligible.leader.replicas.enable group.coordinator.new.enable
group.share.enable host.name inter.broker.protocol.version kafka.metrics.polling.interval.secs kafka.metrics.reporters
leader.imbalance.per.broker.percentage log.message.downconversion.enable log.message.format.version
offsets.commit.required.acks password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length
password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret port quota.consumer.default
quota.producer.default reserved.broker.max.id unstable.metadata.versions.enable zookeeper.clientCnxnSocket
zookeeper.connect zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable
zookeeper.metadata.migration.min.batch.size zookeeper.set.acl zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable
zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols zookeeper.ssl.endpoint.identification.algorithm
zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable
zookeeper.ssl.protocol zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password
zookeeper.ssl.truststore.type zookeeper.sync.time.ms
"""
"""Of a broker's file, from 0.8.2 to 3.9. source: KafkaConfig, ZkConfigs"""
_OF_PLUGINS: Final = frozenset({"super.users"})
WITHOUT_EFFECT: Final = (
    DYNAMIC | frozenset(_NOT_DYNAMIC.split()) | frozenset(_OF_EARLIER_RELEASES.split()) | _OF_PLUGINS
) - frozenset(BrokerConfig.keys())
"""Keys that Kafka's brokers have and that change nothing here: sockets, threads, listeners, paths, ids, security."""
PREFIXES_WITHOUT_EFFECT: Final = ("listener.name.", "confluent.")
