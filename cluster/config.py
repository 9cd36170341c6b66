"""Configuration of brokers, controllers, producers and consumers, with Kafka's keys and defaults. Stdlib only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, replace
from functools import cache
from typing import Any, ClassVar, Final, Literal

from replica.config import (
    BROKER_KEY_OF_TOPIC_KEY,
    CLEANUP_POLICIES,
    CODECS,
    CREATE_TIME,
    INT32_MAX,
    NEVER,
    TIMESTAMP_TYPES,
    Config,
    ConfigError,
    TopicConfig,
    items_of,
    key,
)
from replica.frozen import dataclass
from replica.ids import ACKS_ALL

BASE_RELEASE: Final = "3.9"
"""The release whose defaults this file has."""
HOUR_MS = 3_600_000
CommitOrder = Literal["in-transaction", "after", "before", "auto"]
"""When a client that transforms commits the offsets of its inputs, before or after its outputs."""
NO_LIMIT = INT32_MAX
"""Integer.MAX_VALUE: Kafka's own "no limit" for connections."""
INT16_MAX = 2**15 - 1
"""The most that keys of Kafka's type SHORT hold."""
# Differs from Kafka: it takes as many as an INT holds. Here each of them is made, perhaps on a laptop.
THREADS_MAX = 1000
PARTITIONS_OF_TOPIC_MAX = 1000
_IP_OVERRIDE = r"[^,\s]*[^,\s:]:[0-9]{1,9}"
IP_OVERRIDES = rf"({_IP_OVERRIDE}(\s*,\s*{_IP_OVERRIDE})*)?"

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
STRING, BYTE_ARRAY, INTEGER, FAILING = "String", "ByteArray", "Integer", "Failing"
SERIALIZERS = tuple(f"{kind}Serializer" for kind in (STRING, BYTE_ARRAY, INTEGER, FAILING))
DESERIALIZERS = tuple(f"{kind}Deserializer" for kind in (STRING, BYTE_ARRAY, INTEGER, FAILING))
AUDIT, STAMP, THROWING = "AuditInterceptor", "StampInterceptor", "ThrowingInterceptor"
PIPELINE_KEYS = (
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
    "interceptor.classes",
    "failing.records",
)
"""What they name is not Kafka's own: a JVM has none of it."""
FAILING_RECORDS = r"([a-z]+[0-9]+(\s*,\s*[a-z]+[0-9]+)*)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(Config):
    """Keys of brokers and controllers (one file in Kafka too). Sources: KafkaConfig, ReplicationConfigs, LogConfig."""

    WHAT: ClassVar[str] = "broker"

    release: str = BASE_RELEASE
    """The release of Kafka whose defaults count where nothing is set."""

    # replication
    replica_lag_time_max_ms: int = key("replica.lag.time.max.ms", 30_000, low=1)
    # Kafka 0.8 only, for `isr-lag: messages`; without effect in the other eras.
    replica_lag_max_messages: int = key("replica.lag.max.messages", 4000, low=1)
    replica_fetch_wait_max_ms: int = key("replica.fetch.wait.max.ms", 500, low=0, high=INT32_MAX)
    replica_fetch_min_bytes: int = key("replica.fetch.min.bytes", 1, low=0, high=INT32_MAX)
    replica_fetch_max_bytes: int = key("replica.fetch.max.bytes", 1 << 20, low=0, high=INT32_MAX)
    replica_fetch_response_max_bytes: int = key("replica.fetch.response.max.bytes", 10 << 20, low=0, high=INT32_MAX)
    replica_fetch_backoff_ms: int = key("replica.fetch.backoff.ms", 1000, low=0, high=INT32_MAX)
    replica_socket_timeout_ms: int = key("replica.socket.timeout.ms", 30_000, low=1, high=INT32_MAX)
    replica_high_watermark_checkpoint_interval_ms: int = key(
        "replica.high.watermark.checkpoint.interval.ms", 5000, low=1
    )
    num_replica_fetchers: int = key("num.replica.fetchers", 1, low=1, high=THREADS_MAX)
    fetch_max_bytes: int = key("fetch.max.bytes", 57_671_680, low=1024, high=INT32_MAX)

    max_incremental_fetch_session_cache_slots: int = key(
        "max.incremental.fetch.session.cache.slots", 1000, low=0, high=INT32_MAX
    )

    # membership
    broker_heartbeat_interval_ms: int = key("broker.heartbeat.interval.ms", 2000, low=1, high=INT32_MAX)
    broker_session_timeout_ms: int = key("broker.session.timeout.ms", 9000, low=1, high=INT32_MAX)
    zookeeper_session_timeout_ms: int = key("zookeeper.session.timeout.ms", 0, low=0, high=INT32_MAX)
    """0: as long as broker.session.timeout.ms says, so that one file can be played in both eras."""
    initial_broker_registration_timeout_ms: int = key(
        "initial.broker.registration.timeout.ms", 60_000, low=1, high=INT32_MAX
    )
    controlled_shutdown_enable: bool = key("controlled.shutdown.enable", True)
    controlled_shutdown_max_retries: int = key("controlled.shutdown.max.retries", 3, low=1, high=INT32_MAX)
    controlled_shutdown_retry_backoff_ms: int = key("controlled.shutdown.retry.backoff.ms", 5000, low=0)

    # controller
    controller_quorum_election_timeout_ms: int = key(
        "controller.quorum.election.timeout.ms", 1000, low=1, high=INT32_MAX
    )
    controller_quorum_fetch_timeout_ms: int = key("controller.quorum.fetch.timeout.ms", 2000, low=1, high=INT32_MAX)
    controller_quorum_election_backoff_max_ms: int = key(
        "controller.quorum.election.backoff.max.ms", 1000, low=0, high=INT32_MAX
    )
    controller_quorum_request_timeout_ms: int = key("controller.quorum.request.timeout.ms", 2000, low=1, high=INT32_MAX)
    metadata_log_max_record_bytes_between_snapshots: int = key(
        "metadata.log.max.record.bytes.between.snapshots", 20 << 20, low=1
    )
    auto_leader_rebalance_enable: bool = key("auto.leader.rebalance.enable", True)
    leader_imbalance_check_interval_seconds: int = key("leader.imbalance.check.interval.seconds", 300, low=1)
    allow_everyone_if_no_acl_found: bool = key("allow.everyone.if.no.acl.found", False)
    auto_create_topics_enable: bool = key("auto.create.topics.enable", True)
    delete_topic_enable: bool = key("delete.topic.enable", True)
    default_replication_factor: int = key("default.replication.factor", 1, low=1, high=INT16_MAX)
    num_partitions: int = key("num.partitions", 1, low=1, high=PARTITIONS_OF_TOPIC_MAX)
    # Not Kafka's: there a create.topic.policy.class.name decides such things.
    max_partitions: int = key("max.partitions", 20_000, low=1, high=1_000_000)

    # log: defaults of the topic keys
    min_insync_replicas: int = key("min.insync.replicas", 1, low=1, high=INT32_MAX)
    unclean_leader_election_enable: bool = key("unclean.leader.election.enable", False)
    log_segment_bytes: int = key("log.segment.bytes", 1 << 30, low=1024, high=INT32_MAX)
    # Defaults below `low`, and 0 in the first two of retention, stand for Kafka's null: the next key counts.
    log_roll_ms: int = key("log.roll.ms", 0, low=1, doc="Milliseconds after which a new segment is begun.")
    log_roll_hours: int = key(
        "log.roll.hours", 168, low=1, high=INT32_MAX, doc="Hours after which a new segment is begun; ms count before."
    )
    log_roll_jitter_ms: int = key("log.roll.jitter.ms", -1, low=0, doc="Spread of the times at which segments roll.")
    log_roll_jitter_hours: int = key("log.roll.jitter.hours", 0, low=0, high=INT32_MAX)
    log_index_size_max_bytes: int = key("log.index.size.max.bytes", 10 << 20, low=12, high=INT32_MAX)
    log_index_interval_bytes: int = key("log.index.interval.bytes", 4096, low=0, high=INT32_MAX)
    message_max_bytes: int = key("message.max.bytes", 1_048_588, low=0, high=INT32_MAX)
    log_flush_interval_messages: int = key("log.flush.interval.messages", NEVER, low=1)
    log_flush_interval_ms: int = key("log.flush.interval.ms", -1, low=0, doc="Longest time without a flush.")
    log_flush_scheduler_interval_ms: int = key(
        "log.flush.scheduler.interval.ms", NEVER, low=0, doc="How often logs are looked at for a flush."
    )
    log_message_timestamp_type: str = key(
        "log.message.timestamp.type", CREATE_TIME, choices=TIMESTAMP_TYPES, doc="Whose time records carry."
    )
    log_message_timestamp_before_max_ms: int = key("log.message.timestamp.before.max.ms", NEVER, low=0)
    log_message_timestamp_after_max_ms: int = key("log.message.timestamp.after.max.ms", NEVER, low=0)
    log_flush_offset_checkpoint_interval_ms: int = key(
        "log.flush.offset.checkpoint.interval.ms", 60_000, low=1, high=INT32_MAX
    )
    log_segment_delete_delay_ms: int = key("log.segment.delete.delay.ms", 60_000, low=0)
    log_cleanup_policy: str = key(
        "log.cleanup.policy", "delete", pattern=CLEANUP_POLICIES, doc="delete, compact, both or empty"
    )
    log_retention_ms: int = key("log.retention.ms", 0, low=-1, doc="Milliseconds a segment is kept, -1 for ever.")
    log_retention_minutes: int = key(
        "log.retention.minutes", 0, low=-1, high=INT32_MAX, doc="Minutes a segment is kept; ms count before them."
    )
    log_retention_hours: int = key("log.retention.hours", 168, low=-1, high=INT32_MAX)
    log_retention_bytes: int = key("log.retention.bytes", -1, low=-1)
    log_local_retention_ms: int = key("log.local.retention.ms", -2, low=-2)
    log_local_retention_bytes: int = key("log.local.retention.bytes", -2, low=-2)
    log_preallocate: bool = key(
        "log.preallocate", False, doc="Whether a segment's file has its full size from the start."
    )
    compression_type: str = key(
        "compression.type", "producer", choices=CODECS, doc="Codec of batches in the log; producer: as they came."
    )
    compression_gzip_level: int = key("compression.gzip.level", -1, low=-1, high=9)
    compression_lz4_level: int = key("compression.lz4.level", 9, low=1, high=17)
    compression_zstd_level: int = key("compression.zstd.level", 3, low=-131_072, high=22)
    log_retention_check_interval_ms: int = key("log.retention.check.interval.ms", 300_000, low=1)
    log_cleaner_enable: bool = key("log.cleaner.enable", True)
    log_cleaner_backoff_ms: int = key("log.cleaner.backoff.ms", 15_000, low=1)
    log_cleaner_dedupe_buffer_size: int = key("log.cleaner.dedupe.buffer.size", 134_217_728, low=1)
    log_cleaner_min_cleanable_ratio: float = key("log.cleaner.min.cleanable.ratio", 0.5, low=0, high=1)
    log_cleaner_min_compaction_lag_ms: int = key("log.cleaner.min.compaction.lag.ms", 0, low=0)
    log_cleaner_max_compaction_lag_ms: int = key("log.cleaner.max.compaction.lag.ms", NEVER, low=1)
    log_cleaner_delete_retention_ms: int = key("log.cleaner.delete.retention.ms", 86_400_000, low=0)
    producer_id_expiration_ms: int = key("producer.id.expiration.ms", 86_400_000, low=1, high=INT32_MAX)
    producer_id_expiration_check_interval_ms: int = key(
        "producer.id.expiration.check.interval.ms", 600_000, low=1, high=INT32_MAX
    )

    log_dirs: str = key("log.dirs", "")
    log_dir_failure_timeout_ms: int = key("log.dir.failure.timeout.ms", 30_000, low=1)

    # groups
    group_min_session_timeout_ms: int = key("group.min.session.timeout.ms", 6000, low=1, high=INT32_MAX)
    group_max_session_timeout_ms: int = key("group.max.session.timeout.ms", 1_800_000, low=1, high=INT32_MAX)
    group_initial_rebalance_delay_ms: int = key("group.initial.rebalance.delay.ms", 3000, low=0, high=INT32_MAX)
    group_max_size: int = key("group.max.size", 2_147_483_647, low=1, high=INT32_MAX)
    group_consumer_session_timeout_ms: int = key("group.consumer.session.timeout.ms", 45_000, low=1, high=INT32_MAX)
    group_consumer_min_session_timeout_ms: int = key(
        "group.consumer.min.session.timeout.ms", 45_000, low=1, high=INT32_MAX
    )
    group_consumer_max_session_timeout_ms: int = key(
        "group.consumer.max.session.timeout.ms", 60_000, low=1, high=INT32_MAX
    )
    group_consumer_heartbeat_interval_ms: int = key("group.consumer.heartbeat.interval.ms", 5000, low=1, high=INT32_MAX)
    group_consumer_min_heartbeat_interval_ms: int = key(
        "group.consumer.min.heartbeat.interval.ms", 5000, low=1, high=INT32_MAX
    )
    group_consumer_max_heartbeat_interval_ms: int = key(
        "group.consumer.max.heartbeat.interval.ms", 15_000, low=1, high=INT32_MAX
    )
    group_consumer_max_size: int = key("group.consumer.max.size", 2_147_483_647, low=1, high=INT32_MAX)
    group_consumer_regex_refresh_interval_ms: int = key(
        "group.consumer.regex.refresh.interval.ms", 600_000, low=10_000, high=INT32_MAX
    )
    # Differs from Kafka: in lower case alone.
    group_consumer_migration_policy: str = key(
        "group.consumer.migration.policy",
        "bidirectional",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    offset_metadata_max_bytes: int = key("offset.metadata.max.bytes", 4096, low=0, high=INT32_MAX)
    offsets_topic_num_partitions: int = key("offsets.topic.num.partitions", 50, low=1, high=PARTITIONS_OF_TOPIC_MAX)
    offsets_topic_replication_factor: int = key("offsets.topic.replication.factor", 3, low=1, high=INT16_MAX)
    offsets_topic_segment_bytes: int = key("offsets.topic.segment.bytes", 100 << 20, low=1024, high=INT32_MAX)
    offsets_commit_timeout_ms: int = key("offsets.commit.timeout.ms", 5000, low=1, high=INT32_MAX)
    offsets_retention_minutes: int = key("offsets.retention.minutes", 10_080, low=1, high=INT32_MAX)
    offsets_retention_check_interval_ms: int = key("offsets.retention.check.interval.ms", 600_000, low=1)

    # transactions
    transaction_state_log_num_partitions: int = key(
        "transaction.state.log.num.partitions", 50, low=1, high=PARTITIONS_OF_TOPIC_MAX
    )
    transaction_state_log_replication_factor: int = key(
        "transaction.state.log.replication.factor", 3, low=1, high=INT16_MAX
    )
    transaction_state_log_min_isr: int = key("transaction.state.log.min.isr", 2, low=1, high=INT32_MAX)
    transaction_state_log_segment_bytes: int = key(
        "transaction.state.log.segment.bytes", 100 << 20, low=1024, high=INT32_MAX
    )
    transaction_max_timeout_ms: int = key("transaction.max.timeout.ms", 900_000, low=1, high=INT32_MAX)
    transactional_id_expiration_ms: int = key("transactional.id.expiration.ms", 604_800_000, low=1, high=INT32_MAX)
    transaction_partition_verification_enable: bool = key("transaction.partition.verification.enable", True)
    add_partitions_to_txn_retry_backoff_ms: int = key(
        "add.partitions.to.txn.retry.backoff.ms", 20, low=1, high=INT32_MAX
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = key(
        "add.partitions.to.txn.retry.backoff.max.ms", 100, low=0, high=INT32_MAX
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, low=1, high=INT32_MAX
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = key(
        "transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, low=1, high=INT32_MAX
    )

    # network
    num_network_threads: int = key("num.network.threads", 3, low=1, high=THREADS_MAX)
    num_io_threads: int = key("num.io.threads", 8, low=1, high=THREADS_MAX)
    queued_max_requests: int = key("queued.max.requests", 500, low=1, high=INT32_MAX)
    request_timeout_ms: int = key("request.timeout.ms", 30_000, low=1, high=INT32_MAX)
    socket_request_max_bytes: int = key("socket.request.max.bytes", 104_857_600, low=1024, high=INT32_MAX)
    connections_max_idle_ms: int = key("connections.max.idle.ms", 600_000, low=1)
    max_request_partition_size_limit: int = key("max.request.partition.size.limit", 2000, low=1, high=INT32_MAX)
    max_connections: int = key("max.connections", NO_LIMIT, low=0, high=INT32_MAX)
    max_connections_per_ip: int = key("max.connections.per.ip", NO_LIMIT, low=0, high=INT32_MAX)
    max_connections_per_ip_overrides: str = key(
        "max.connections.per.ip.overrides", "", pattern=IP_OVERRIDES, doc="address:number,address:number,..."
    )
    connections_max_reauth_ms: int = key("connections.max.reauth.ms", 0, low=0)
    connection_failed_authentication_delay_ms: int = key(
        "connection.failed.authentication.delay.ms", 100, low=0, high=INT32_MAX
    )
    sasl_server_max_receive_size: int = key("sasl.server.max.receive.size", 524_288, low=1, high=INT32_MAX)
    max_connection_creation_rate: int = key("max.connection.creation.rate", NO_LIMIT, low=1, high=INT32_MAX)

    # quotas
    quota_window_num: int = key("quota.window.num", 11, low=1, high=INT32_MAX)
    quota_window_size_seconds: int = key("quota.window.size.seconds", 1, low=1, high=INT32_MAX)
    controller_quota_window_num: int = key("controller.quota.window.num", 11, low=1, high=INT32_MAX)
    controller_quota_window_size_seconds: int = key("controller.quota.window.size.seconds", 1, low=1, high=INT32_MAX)

    @property
    def connections_per_ip_overrides(self) -> dict[str, int]:
        """Limits of single addresses, instead of max.connections.per.ip."""
        entries = [entry.rpartition(":") for entry in self.max_connections_per_ip_overrides.split(",") if entry]
        return {address.strip(): int(count) for address, _, count in entries}

    @property
    def retention_ms(self) -> int:
        """source: KafkaConfig.getLogRetentionTimeMillis"""
        if self.log_retention_ms:
            return self.log_retention_ms
        minutes = self.log_retention_minutes or self.log_retention_hours * 60
        return minutes * 60_000 if minutes > 0 else -1

    @property
    def derived_topic_defaults(self) -> dict[str, int]:
        """Those for which a broker has several keys.     source: KafkaConfig.logRollTimeMillis and its neighbours"""
        return {
            "retention_ms": self.retention_ms,
            "segment_ms": self.log_roll_ms or self.log_roll_hours * HOUR_MS,
            "segment_jitter_ms": _or_else(self.log_roll_jitter_ms, self.log_roll_jitter_hours * HOUR_MS),
            "flush_ms": _or_else(self.log_flush_interval_ms, self.log_flush_scheduler_interval_ms),
        }

    @property
    def registry_session_timeout_us(self) -> int:
        return (self.zookeeper_session_timeout_ms or self.broker_session_timeout_ms) * 1000

    def __post_init__(self) -> None:
        self._check_consumer_groups()
        # KafkaConfig.validateValues: an idle follower must be able to fetch within the lag time.
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise ConfigError(
                "replica.fetch.wait.max.ms",
                "must not exceed replica.lag.time.max.ms, else idle followers keep dropping out of the ISR",
            )

    def _check_consumer_groups(self) -> None:
        """source: the constructor of GroupCoordinatorConfig"""
        for name, low, value, high in (
            (
                "heartbeat.interval.ms",
                self.group_consumer_min_heartbeat_interval_ms,
                self.group_consumer_heartbeat_interval_ms,
                self.group_consumer_max_heartbeat_interval_ms,
            ),
            (
                "session.timeout.ms",
                self.group_consumer_min_session_timeout_ms,
                self.group_consumer_session_timeout_ms,
                self.group_consumer_max_session_timeout_ms,
            ),
        ):
            if high < low:
                raise ConfigError(
                    f"group.consumer.max.{name}", f"must be greater than or equal to group.consumer.min.{name}"
                )
            if value < low:
                raise ConfigError(
                    f"group.consumer.{name}",
                    f"must be greater than or equal to group.consumer.min.{name}, which is {low}",
                )
            if value > high:
                raise ConfigError(
                    f"group.consumer.{name}",
                    f"must be less than or equal to group.consumer.max.{name}, which is {high}",
                )
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ConfigError(
                "group.consumer.heartbeat.interval.ms", "must be less than group.consumer.session.timeout.ms"
            )


_DEFAULTS_SINCE: Final = (("4.0", {"log.message.timestamp.after.max.ms": HOUR_MS, "linger.ms": 5}),)
"""The first release, and what it changed: KIP-1030.

Simplified: the other defaults are those of 3.9 in every era.
"""


def defaults_of(schema: type[Config], release: str) -> dict[str, object]:
    """The keys that have another default in that release than in this file."""
    known = schema.keys()
    return {
        name: value
        for first, defaults in _DEFAULTS_SINCE
        if _in_order(release) >= _in_order(first)
        for name, value in defaults.items()
        if name in known
    }


def broker_config(values: Mapping[str, object], release: str) -> BrokerConfig:
    """A broker's configuration, from the keys that are set.     raises: ConfigError"""
    config = BrokerConfig.from_mapping({**defaults_of(BrokerConfig, release), **values})
    return replace(config, release=release)


@cache
def kafkas_own(release: str) -> BrokerConfig:
    """What a broker of that release has where nothing is set."""
    return broker_config({}, release)


def _in_order(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _or_else(value: int, other: int) -> int:
    return other if value < 0 else value


def topic_defaults(config: BrokerConfig) -> TopicConfig:
    """The cluster-wide defaults of topic keys, from the broker keys that hold them."""
    broker_fields = {key: field.name for key, field in BrokerConfig.keys().items()}
    topic_fields = {key: field.name for key, field in TopicConfig.keys().items()}
    values = {
        topic_fields[topic_key]: getattr(config, broker_fields[broker_key])
        for topic_key, broker_key in BROKER_KEY_OF_TOPIC_KEY.items()
    }
    return TopicConfig(**{**values, **config.derived_topic_defaults})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig(Config):
    """Settings of groups. Those of consumer groups have an effect; those of share groups and of Kafka Streams are kept
    as words.

    Simplified: their limits are keys of brokers in Kafka (`group.share.*`, `group.streams.*`); here they are fixed, at
    Kafka's defaults.     source: GroupConfig.java (4.1)
    """

    WHAT: ClassVar[str] = "group"

    consumer_session_timeout_ms: int = key(SESSION_TIMEOUT, 45_000, low=1, high=INT32_MAX)
    consumer_heartbeat_interval_ms: int = key(HEARTBEAT_INTERVAL, 5000, low=1, high=INT32_MAX)
    share_session_timeout_ms: int = key("share.session.timeout.ms", 45_000, low=1, high=INT32_MAX)
    share_heartbeat_interval_ms: int = key("share.heartbeat.interval.ms", 5000, low=1, high=INT32_MAX)
    share_record_lock_duration_ms: int = key("share.record.lock.duration.ms", 30_000, low=1, high=INT32_MAX)
    share_auto_offset_reset: str = key(
        "share.auto.offset.reset",
        "latest",
        pattern=r"(?i)earliest|latest|by_duration:P[0-9DTHMS.]{2,40}",
        doc="earliest, latest, or by_duration: and a duration of ISO 8601",
    )
    share_isolation_level: str = key(
        "share.isolation.level", "read_uncommitted", choices=("read_committed", "read_uncommitted")
    )
    streams_session_timeout_ms: int = key("streams.session.timeout.ms", 45_000, low=1, high=INT32_MAX)
    streams_heartbeat_interval_ms: int = key("streams.heartbeat.interval.ms", 5000, low=1, high=INT32_MAX)
    streams_num_standby_replicas: int = key("streams.num.standby.replicas", 0, low=0, high=INT32_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(Config):
    """Java producer 3.9. acks is '0', '1' or 'all' ('-1' means all). Source: ProducerConfig.java."""

    WHAT: ClassVar[str] = "producer"

    acks: str = key("acks", "all", choices=("0", "1", "all", "-1"))
    enable_idempotence: bool = key("enable.idempotence", True)
    retries: int = key("retries", 2_147_483_647, low=0, high=INT32_MAX)
    delivery_timeout_ms: int = key("delivery.timeout.ms", 120_000, low=0, high=INT32_MAX)
    request_timeout_ms: int = key("request.timeout.ms", 30_000, low=1, high=INT32_MAX)
    retry_backoff_ms: int = key("retry.backoff.ms", 100, low=0)
    retry_backoff_max_ms: int = key("retry.backoff.max.ms", 1000, low=0)
    max_in_flight_requests_per_connection: int = key("max.in.flight.requests.per.connection", 5, low=1, high=INT32_MAX)
    linger_ms: int = key("linger.ms", 0, low=0)
    batch_size: int = key("batch.size", 16_384, low=0, high=INT32_MAX)
    buffer_memory: int = key("buffer.memory", 33_554_432, low=0)
    max_block_ms: int = key("max.block.ms", 60_000, low=0)
    max_request_size: int = key("max.request.size", 1_048_576, low=0, high=INT32_MAX)
    metadata_max_age_ms: int = key("metadata.max.age.ms", 300_000, low=0)
    reconnect_backoff_ms: int = key("reconnect.backoff.ms", 50, low=0)
    reconnect_backoff_max_ms: int = key("reconnect.backoff.max.ms", 1000, low=0)
    socket_connection_setup_timeout_ms: int = key("socket.connection.setup.timeout.ms", 10_000, low=1)
    connections_max_idle_ms: int = key("connections.max.idle.ms", 540_000, low=1)
    compression_type: str = key("compression.type", "none", choices=("none", "gzip"))
    transactional_id: str = key("transactional.id", "")
    transaction_timeout_ms: int = key("transaction.timeout.ms", 60_000, low=1, high=INT32_MAX)
    # Differs from Kafka: no class is loaded. These names stand for what the client has, and a record's name for text.
    key_serializer: str = key("key.serializer", SERIALIZERS[0], choices=SERIALIZERS)
    value_serializer: str = key("value.serializer", SERIALIZERS[0], choices=SERIALIZERS)
    interceptor_classes: str = key("interceptor.classes", "", choices=(AUDIT, STAMP, THROWING), is_list=True)
    failing_records: str = key(
        "failing.records", "", pattern=FAILING_RECORDS, doc="names of records, as in r3, r7; FailingSerializer reads it"
    )

    @property
    def takes_records_as_they_are(self) -> bool:
        """No interceptor and no serializer does anything to them."""
        return not self.interceptor_classes and self.key_serializer == self.value_serializer == SERIALIZERS[0]

    @property
    def required_acks(self) -> int:
        """acks as on the wire: 0, 1 or -1."""
        return ACKS_ALL if self.acks in ("all", "-1") else int(self.acks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(Config):
    """Java consumer 3.9, assign + seek (no groups yet). Source: ConsumerConfig.java."""

    WHAT: ClassVar[str] = "consumer"

    auto_offset_reset: str = key("auto.offset.reset", "latest", choices=("earliest", "latest", "none"))
    fetch_min_bytes: int = key("fetch.min.bytes", 1, low=0, high=INT32_MAX)
    fetch_max_wait_ms: int = key("fetch.max.wait.ms", 500, low=0, high=INT32_MAX)
    fetch_max_bytes: int = key("fetch.max.bytes", 52_428_800, low=0, high=INT32_MAX)
    max_partition_fetch_bytes: int = key("max.partition.fetch.bytes", 1 << 20, low=0, high=INT32_MAX)
    max_poll_records: int = key("max.poll.records", 500, low=1, high=INT32_MAX)
    isolation_level: str = key("isolation.level", "read_uncommitted", choices=("read_uncommitted", "read_committed"))
    request_timeout_ms: int = key("request.timeout.ms", 30_000, low=1, high=INT32_MAX)
    retry_backoff_ms: int = key("retry.backoff.ms", 100, low=0)
    retry_backoff_max_ms: int = key("retry.backoff.max.ms", 1000, low=0)
    metadata_max_age_ms: int = key("metadata.max.age.ms", 300_000, low=0)
    reconnect_backoff_ms: int = key("reconnect.backoff.ms", 50, low=0)
    reconnect_backoff_max_ms: int = key("reconnect.backoff.max.ms", 1000, low=0)
    socket_connection_setup_timeout_ms: int = key("socket.connection.setup.timeout.ms", 10_000, low=1)
    connections_max_idle_ms: int = key("connections.max.idle.ms", 540_000, low=1)
    exclude_internal_topics: bool = key("exclude.internal.topics", True)
    key_deserializer: str = key("key.deserializer", DESERIALIZERS[0], choices=DESERIALIZERS)
    value_deserializer: str = key("value.deserializer", DESERIALIZERS[0], choices=DESERIALIZERS)
    interceptor_classes: str = key("interceptor.classes", "", choices=(AUDIT, THROWING), is_list=True)
    failing_records: str = key(
        "failing.records",
        "",
        pattern=FAILING_RECORDS,
        doc="names of records, as in r3, r7; FailingDeserializer reads it",
    )

    @property
    def hands_records_as_they_are(self) -> bool:
        """No deserializer and no interceptor does anything to them."""
        return not self.interceptor_classes and self.key_deserializer == self.value_deserializer == DESERIALIZERS[0]


CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""KIP-848's protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConsumerConfig(ConsumerConfig):
    """Of a consumer that is a member of a group. partition.assignment.strategy, session.timeout.ms and
    heartbeat.interval.ms are of the classic protocol, group.remote.assignor is of the consumer protocol."""

    group_id: str = key("group.id", "")
    group_protocol: str = key("group.protocol", CLASSIC, choices=(CLASSIC, CONSUMER))
    group_remote_assignor: str = key("group.remote.assignor", "")
    partition_assignment_strategy: str = key(
        "partition.assignment.strategy", "range", choices=("range", "cooperative-sticky"), is_list=True
    )
    group_instance_id: str = key("group.instance.id", "")
    session_timeout_ms: int = key("session.timeout.ms", 45_000, low=1, high=INT32_MAX)
    heartbeat_interval_ms: int = key("heartbeat.interval.ms", 3000, low=1, high=INT32_MAX)
    max_poll_interval_ms: int = key("max.poll.interval.ms", 300_000, low=1, high=INT32_MAX)
    # Differs from Kafka: there it is on. Here the application commits unless the file says that it does not.
    enable_auto_commit: bool = key("enable.auto.commit", False)
    auto_commit_interval_ms: int = key("auto.commit.interval.ms", 5000, low=0, high=INT32_MAX)

    def __post_init__(self) -> None:
        """source: Heartbeat.java; of KIP-848's members the brokers have both keys (GroupCoordinatorConfig)"""
        interval_ms, timeout_ms = self.heartbeat_interval_ms, self.session_timeout_ms
        if self.group_protocol == CLASSIC and interval_ms >= timeout_ms:
            raise ConfigError(
                "heartbeat.interval.ms",
                f"must be lower than session.timeout.ms ({timeout_ms}) and is {interval_ms} "
                "(Heartbeat must be set lower than the session timeout)",
            )

    @property
    def assignors(self) -> tuple[str, ...]:
        """The strategies that a member of a classic group supports, the one that it likes best first."""
        return items_of(self.partition_assignment_strategy)


class TransformConfig(Config):
    """Of an application with a consumer in a group and a producer: each client takes the keys that it knows."""

    WHAT: ClassVar[str] = "transform"

    @classmethod
    @cache
    def keys(cls) -> Mapping[str, Field[Any]]:
        return {**ProducerConfig.keys(), **GroupConsumerConfig.keys()}
