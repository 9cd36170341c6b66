"""The configuration of brokers, controllers, producers and consumers, with Kafka's keys and defaults.

It needs only the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, replace
from functools import cache
from typing import Any, ClassVar, Final, Literal

from cluster.defaults import HOUR_MS, defaults_of
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
    key_of,
)
from replica.frozen import dataclass
from replica.ids import ACKS_ALL
from replica.rules import KafkaRelease

BASE_RELEASE: Final = KafkaRelease(3, 9)
DEAD_LETTERS_SINCE: Final = KafkaRelease(4, 4)
_NEW_GROUP_KEYS_SINCE: Final = KafkaRelease(4, 3)
_NEW_GROUP_KEYS: Final = (
    "share.delivery.count.limit", "share.partition.max.record.locks", "share.renew.acknowledge.enable",
)  # fmt: skip
"""The release whose defaults are in this file. Those that changed in other releases are in defaults.py."""
CommitOrder = Literal["in-transaction", "after", "before", "auto"]
"""When a consume-transform-produce client commits the offsets of its input records."""
NO_LIMIT = INT32_MAX
"""Integer.MAX_VALUE, Kafka's "no limit" for connections."""
INT16_MAX = 2**15 - 1
"""The largest value of Kafka's type SHORT."""
# Differs from Kafka: it allows 2**31 - 1. Here every thread is created, perhaps on a laptop.
THREADS_MAX = 1000
MAX_ASSIGNMENT_INTERVAL_MS = 15_000
GROUP_LIMITS = (
    "group.consumer.{}heartbeat.interval.ms",
    "group.consumer.{}session.timeout.ms",
    "group.share.{}heartbeat.interval.ms",
    "group.share.{}session.timeout.ms",
    "group.share.{}record.lock.duration.ms",
    "group.share.{}delivery.count.limit",
    "group.share.{}partition.max.record.locks",
    "group.streams.{}heartbeat.interval.ms",
    "group.streams.{}session.timeout.ms",
)
"""Keys of brokers that have limits in the keys with `min.` and `max.`."""
"""Simplified: the limits of these intervals, such as group.consumer.max.assignment.interval.ms, cannot be changed."""
PARTITIONS_OF_TOPIC_MAX = 1000
_IP_OVERRIDE = r"[^,\s]*[^,\s:]:[0-9]{1,9}"
IP_OVERRIDES = rf"({_IP_OVERRIDE}(\s*,\s*{_IP_OVERRIDE})*)?"

KRAFT_SESSION: Final = "broker.session.timeout.ms"
REGISTRY_SESSION: Final = "zookeeper.session.timeout.ms"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only replica selector that Kafka ships."""
SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
STREAMS_SESSION_TIMEOUT: Final = "streams.session.timeout.ms"
STREAMS_HEARTBEAT_INTERVAL: Final = "streams.heartbeat.interval.ms"
NUM_STANDBY_REPLICAS: Final = "streams.num.standby.replicas"
SHARE_SESSION_TIMEOUT: Final = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
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
"""Keys whose values are Highwater's own classes. A JVM does not have these classes."""
FAILING_RECORDS = r"([a-z]+[0-9]+(\s*,\s*[a-z]+[0-9]+)*)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(Config):
    """The keys of brokers and controllers, which share a file in Kafka, too.

    Source: KafkaConfig, ReplicationConfigs, LogConfig
    """

    WHAT: ClassVar[str] = "broker"

    release: KafkaRelease = BASE_RELEASE
    """The release of Kafka whose defaults apply."""

    # replication
    replica_lag_time_max_ms: int = key(30_000, low=1)
    # Kafka 0.8 only, for `isr-lag: messages`; without effect in the other eras.
    replica_lag_max_messages: int = key(4000, low=1)
    replica_fetch_wait_max_ms: int = key(500, low=0, high=INT32_MAX)
    replica_fetch_min_bytes: int = key(1, low=0, high=INT32_MAX)
    replica_fetch_max_bytes: int = key(1 << 20, low=0, high=INT32_MAX)
    replica_fetch_response_max_bytes: int = key(10 << 20, low=0, high=INT32_MAX)
    replica_fetch_backoff_ms: int = key(1000, low=0, high=INT32_MAX)
    replica_socket_timeout_ms: int = key(30_000, low=1, high=INT32_MAX)
    replica_high_watermark_checkpoint_interval_ms: int = key(5000, low=1)
    num_replica_fetchers: int = key(1, low=1, high=THREADS_MAX, is_dynamic=True)
    fetch_max_bytes: int = key(57_671_680, low=1024, high=INT32_MAX)
    replica_selector_class: str = key("", choices=(RACK_AWARE,))

    max_incremental_fetch_session_cache_slots: int = key(1000, low=0, high=INT32_MAX)

    # membership
    broker_heartbeat_interval_ms: int = key(2000, low=1, high=INT32_MAX)
    broker_session_timeout_ms: int = key(9000, low=1, high=INT32_MAX)
    zookeeper_session_timeout_ms: int = key(18_000, low=1, high=INT32_MAX)
    initial_broker_registration_timeout_ms: int = key(60_000, low=1, high=INT32_MAX)
    controlled_shutdown_enable: bool = key(True)
    controlled_shutdown_max_retries: int = key(3, low=1, high=INT32_MAX)
    controlled_shutdown_retry_backoff_ms: int = key(5000, low=0)

    # controller
    controller_quorum_election_timeout_ms: int = key(1000, low=1, high=INT32_MAX)
    controller_quorum_fetch_timeout_ms: int = key(2000, low=1, high=INT32_MAX)
    controller_quorum_election_backoff_max_ms: int = key(1000, low=0, high=INT32_MAX)
    controller_quorum_request_timeout_ms: int = key(2000, low=1, high=INT32_MAX)
    controller_quorum_auto_join_enable: bool = key(False)
    metadata_log_max_record_bytes_between_snapshots: int = key(20 << 20, low=1)
    auto_leader_rebalance_enable: bool = key(True)
    leader_imbalance_check_interval_seconds: int = key(300, low=1)
    allow_everyone_if_no_acl_found: bool = key(False)
    auto_create_topics_enable: bool = key(True)
    delete_topic_enable: bool = key(True)
    default_replication_factor: int = key(1, low=1, high=INT16_MAX)
    num_partitions: int = key(1, low=1, high=PARTITIONS_OF_TOPIC_MAX)
    # Not a key of Kafka, where create.topic.policy.class.name sets such limits.
    max_partitions: int = key(20_000, low=1, high=1_000_000)

    # log: defaults of the topic keys
    min_insync_replicas: int = key(1, low=1, high=INT32_MAX, is_dynamic=True)
    unclean_leader_election_enable: bool = key(False, is_dynamic=True)
    log_segment_bytes: int = key(1 << 30, low=1024, high=INT32_MAX, is_dynamic=True)
    # A default below `low`, or 0 in log.retention.ms and .minutes, is Kafka's null: the next key applies.
    log_roll_ms: int = key(0, low=1, doc="Maximum time in ms before a new segment is rolled.", is_dynamic=True)
    log_roll_hours: int = key(
        168,
        low=1,
        high=INT32_MAX,
        doc="Maximum time in hours before a new segment is rolled; log.roll.ms has priority.",
    )
    log_roll_jitter_ms: int = key(
        -1, low=0, doc="Maximum random delay in ms that is subtracted from log.roll.ms.", is_dynamic=True
    )
    log_roll_jitter_hours: int = key(0, low=0, high=INT32_MAX)
    log_index_size_max_bytes: int = key(10 << 20, low=12, high=INT32_MAX, is_dynamic=True)
    log_index_interval_bytes: int = key(4096, low=0, high=INT32_MAX, is_dynamic=True)
    message_max_bytes: int = key(1_048_588, low=0, high=INT32_MAX, is_dynamic=True)
    log_flush_interval_messages: int = key(NEVER, low=1, is_dynamic=True)
    log_flush_interval_ms: int = key(
        -1, low=0, doc="Maximum time in ms before a log is flushed to disk.", is_dynamic=True
    )
    log_flush_scheduler_interval_ms: int = key(
        NEVER, low=0, doc="How often, in ms, logs are checked for a flush that is due."
    )
    log_message_timestamp_type: str = key(
        CREATE_TIME,
        choices=TIMESTAMP_TYPES,
        doc="Timestamp of records: set by the producer (CreateTime) or the broker (LogAppendTime).",
        is_dynamic=True,
    )
    log_message_timestamp_before_max_ms: int = key(NEVER, low=0, is_dynamic=True)
    log_message_timestamp_after_max_ms: int = key(NEVER, low=0, is_dynamic=True)
    log_flush_offset_checkpoint_interval_ms: int = key(60_000, low=1, high=INT32_MAX)
    log_segment_delete_delay_ms: int = key(60_000, low=0, is_dynamic=True)
    log_cleanup_policy: str = key(
        "delete", pattern=CLEANUP_POLICIES, doc="delete, compact, both or empty", is_dynamic=True
    )
    log_retention_ms: int = key(0, low=-1, doc="Retention time of a segment in ms; -1: no limit.", is_dynamic=True)
    log_retention_minutes: int = key(
        0, low=-1, high=INT32_MAX, doc="Retention time of a segment in minutes; log.retention.ms has priority."
    )
    log_retention_hours: int = key(168, low=-1, high=INT32_MAX)
    log_retention_bytes: int = key(-1, low=-1, is_dynamic=True)
    log_local_retention_ms: int = key(-2, low=-2, is_dynamic=True)
    log_local_retention_bytes: int = key(-2, low=-2, is_dynamic=True)
    log_preallocate: bool = key(
        False, doc="Whether a new segment's file is preallocated at its full size.", is_dynamic=True
    )
    compression_type: str = key(
        "producer",
        choices=CODECS,
        doc="Compression codec of batches in the log; producer: keep the producer's codec.",
        is_dynamic=True,
    )
    compression_gzip_level: int = key(-1, low=-1, high=9, is_dynamic=True)
    compression_lz4_level: int = key(9, low=1, high=17, is_dynamic=True)
    compression_zstd_level: int = key(3, low=-131_072, high=22, is_dynamic=True)
    log_retention_check_interval_ms: int = key(300_000, low=1)
    log_cleaner_enable: bool = key(True)
    log_cleaner_backoff_ms: int = key(15_000, low=1, is_dynamic=True)
    log_cleaner_dedupe_buffer_size: int = key(134_217_728, low=1, is_dynamic=True)
    log_cleaner_min_cleanable_ratio: float = key(0.5, low=0, high=1, is_dynamic=True)
    log_cleaner_min_compaction_lag_ms: int = key(0, low=0, is_dynamic=True)
    log_cleaner_max_compaction_lag_ms: int = key(NEVER, low=1, is_dynamic=True)
    log_cleaner_delete_retention_ms: int = key(86_400_000, low=0, is_dynamic=True)
    producer_id_expiration_ms: int = key(86_400_000, low=1, high=INT32_MAX, is_dynamic=True)
    producer_id_expiration_check_interval_ms: int = key(600_000, low=1, high=INT32_MAX)

    log_dirs: str = key("")
    log_dir_failure_timeout_ms: int = key(30_000, low=1)

    # groups
    group_min_session_timeout_ms: int = key(6000, low=1, high=INT32_MAX)
    group_max_session_timeout_ms: int = key(1_800_000, low=1, high=INT32_MAX)
    group_initial_rebalance_delay_ms: int = key(3000, low=0, high=INT32_MAX)
    group_max_size: int = key(2_147_483_647, low=1, high=INT32_MAX)
    group_coordinator_append_linger_ms: int = key(-1, low=-1, high=INT32_MAX)
    group_consumer_session_timeout_ms: int = key(45_000, low=1, high=INT32_MAX)
    group_consumer_min_session_timeout_ms: int = key(45_000, low=1, high=INT32_MAX)
    group_consumer_max_session_timeout_ms: int = key(60_000, low=1, high=INT32_MAX)
    group_consumer_heartbeat_interval_ms: int = key(5000, low=1, high=INT32_MAX)
    group_consumer_min_heartbeat_interval_ms: int = key(5000, low=1, high=INT32_MAX)
    group_consumer_max_heartbeat_interval_ms: int = key(15_000, low=1, high=INT32_MAX)
    group_consumer_assignment_interval_ms: int = key(0, low=0, high=MAX_ASSIGNMENT_INTERVAL_MS)
    group_consumer_max_size: int = key(2_147_483_647, low=1, high=INT32_MAX)
    group_consumer_regex_refresh_interval_ms: int = key(600_000, low=10_000, high=INT32_MAX)
    # Differs from Kafka: only lower case is accepted.
    group_consumer_migration_policy: str = key(
        "bidirectional", choices=("bidirectional", "upgrade", "downgrade", "disabled")
    )
    group_streams_session_timeout_ms: int = key(45_000, low=1, high=INT32_MAX)
    group_streams_min_session_timeout_ms: int = key(45_000, low=1, high=INT32_MAX)
    group_streams_max_session_timeout_ms: int = key(60_000, low=1, high=INT32_MAX)
    group_streams_heartbeat_interval_ms: int = key(5000, low=1, high=INT32_MAX)
    group_streams_min_heartbeat_interval_ms: int = key(5000, low=1, high=INT32_MAX)
    group_streams_max_heartbeat_interval_ms: int = key(15_000, low=1, high=INT32_MAX)
    group_streams_max_size: int = key(INT32_MAX, low=1, high=INT32_MAX)
    group_streams_initial_rebalance_delay_ms: int = key(3000, low=0, high=INT32_MAX)
    group_streams_assignment_interval_ms: int = key(0, low=0, high=MAX_ASSIGNMENT_INTERVAL_MS)
    group_streams_num_standby_replicas: int = key(0, low=0, high=INT32_MAX)
    group_streams_max_standby_replicas: int = key(2, low=0, high=INT32_MAX)
    group_share_session_timeout_ms: int = key(45_000, low=1, high=INT32_MAX)
    group_share_min_session_timeout_ms: int = key(45_000, low=1, high=INT32_MAX)
    group_share_max_session_timeout_ms: int = key(60_000, low=1, high=INT32_MAX)
    group_share_heartbeat_interval_ms: int = key(5000, low=1, high=INT32_MAX)
    group_share_min_heartbeat_interval_ms: int = key(5000, low=1, high=INT32_MAX)
    group_share_max_heartbeat_interval_ms: int = key(15_000, low=1, high=INT32_MAX)
    group_share_assignment_interval_ms: int = key(0, low=0, high=MAX_ASSIGNMENT_INTERVAL_MS)
    group_share_max_size: int = key(200, low=1, high=1000)
    group_share_max_share_sessions: int = key(2000, low=1, high=INT32_MAX)
    group_share_initialize_retry_interval_ms: int = key(30_000, low=1, high=INT32_MAX)
    group_share_delivery_count_limit: int = key(5, low=2, high=10)
    group_share_min_delivery_count_limit: int = key(2, low=2, high=5)
    group_share_max_delivery_count_limit: int = key(10, low=5, high=25)
    group_share_partition_max_record_locks: int = key(2000, low=100, high=10_000)
    group_share_min_partition_max_record_locks: int = key(100, low=100, high=2000)
    group_share_max_partition_max_record_locks: int = key(4000, low=2000, high=10_000)
    group_share_record_lock_duration_ms: int = key(30_000, low=1000, high=HOUR_MS)
    group_share_min_record_lock_duration_ms: int = key(15_000, low=1000, high=30_000)
    group_share_max_record_lock_duration_ms: int = key(60_000, low=30_000, high=HOUR_MS)
    errors_deadletterqueue_auto_create_topics_enable: bool = key(False, is_dynamic=True)
    errors_deadletterqueue_topic_name_prefix: str = key("dlq.", is_dynamic=True)
    offset_metadata_max_bytes: int = key(4096, low=0, high=INT32_MAX)
    offsets_topic_num_partitions: int = key(50, low=1, high=PARTITIONS_OF_TOPIC_MAX)
    offsets_topic_replication_factor: int = key(3, low=1, high=INT16_MAX)
    offsets_topic_segment_bytes: int = key(100 << 20, low=1024, high=INT32_MAX)
    offsets_commit_timeout_ms: int = key(5000, low=1, high=INT32_MAX)
    offsets_retention_minutes: int = key(10_080, low=1, high=INT32_MAX)
    offsets_retention_check_interval_ms: int = key(600_000, low=1)

    # the state of share groups
    share_coordinator_state_topic_num_partitions: int = key(50, low=1, high=PARTITIONS_OF_TOPIC_MAX)
    share_coordinator_state_topic_replication_factor: int = key(3, low=1, high=INT16_MAX)
    share_coordinator_state_topic_min_isr: int = key(2, low=1, high=INT16_MAX)
    share_coordinator_state_topic_segment_bytes: int = key(100 << 20, low=1024, high=INT32_MAX)
    share_coordinator_snapshot_update_records_per_snapshot: int = key(500, low=0, high=500)
    share_coordinator_write_timeout_ms: int = key(5000, low=1, high=INT32_MAX)

    # transactions
    transaction_state_log_num_partitions: int = key(50, low=1, high=PARTITIONS_OF_TOPIC_MAX)
    transaction_state_log_replication_factor: int = key(3, low=1, high=INT16_MAX)
    transaction_state_log_min_isr: int = key(2, low=1, high=INT32_MAX)
    transaction_state_log_segment_bytes: int = key(100 << 20, low=1024, high=INT32_MAX)
    transaction_max_timeout_ms: int = key(900_000, low=1, high=INT32_MAX)
    transactional_id_expiration_ms: int = key(604_800_000, low=1, high=INT32_MAX)
    transaction_partition_verification_enable: bool = key(True, is_dynamic=True)
    add_partitions_to_txn_retry_backoff_ms: int = key(20, low=1, high=INT32_MAX)
    add_partitions_to_txn_retry_backoff_max_ms: int = key(100, low=0, high=INT32_MAX)
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = key(10_000, low=1, high=INT32_MAX)
    transaction_remove_expired_transaction_cleanup_interval_ms: int = key(3_600_000, low=1, high=INT32_MAX)

    # network
    num_network_threads: int = key(3, low=1, high=THREADS_MAX, is_dynamic=True)
    num_io_threads: int = key(8, low=1, high=THREADS_MAX, is_dynamic=True)
    queued_max_requests: int = key(500, low=1, high=INT32_MAX)
    request_timeout_ms: int = key(30_000, low=1, high=INT32_MAX)
    socket_request_max_bytes: int = key(104_857_600, low=1024, high=INT32_MAX)
    connections_max_idle_ms: int = key(600_000, low=1)
    max_request_partition_size_limit: int = key(2000, low=1, high=INT32_MAX)
    max_connections: int = key(NO_LIMIT, low=0, high=INT32_MAX, is_dynamic=True)
    max_connections_per_ip: int = key(NO_LIMIT, low=0, high=INT32_MAX, is_dynamic=True)
    max_connections_per_ip_overrides: str = key(
        "", pattern=IP_OVERRIDES, doc="address:number,address:number,...", is_dynamic=True
    )
    connections_max_reauth_ms: int = key(0, low=0)
    connection_failed_authentication_delay_ms: int = key(100, low=0, high=INT32_MAX)
    sasl_server_max_receive_size: int = key(524_288, low=1, high=INT32_MAX)
    max_connection_creation_rate: int = key(NO_LIMIT, low=1, high=INT32_MAX, is_dynamic=True)

    # quotas
    quota_window_num: int = key(11, low=1, high=INT32_MAX)
    quota_window_size_seconds: int = key(1, low=1, high=INT32_MAX)
    controller_quota_window_num: int = key(11, low=1, high=INT32_MAX)
    controller_quota_window_size_seconds: int = key(1, low=1, high=INT32_MAX)

    @property
    def connections_per_ip_overrides(self) -> dict[str, int]:
        """Connection limits by address, which override max.connections.per.ip."""
        entries = [entry.rpartition(":") for entry in self.max_connections_per_ip_overrides.split(",") if entry]
        return {address.strip(): int(count) for address, _, count in entries}

    @property
    def retention_ms(self) -> int:
        """The retention in milliseconds, -1 if unlimited. Source: KafkaConfig.getLogRetentionTimeMillis"""
        if self.log_retention_ms:
            return self.log_retention_ms
        minutes = self.log_retention_minutes or self.log_retention_hours * 60
        return minutes * 60_000 if minutes > 0 else -1

    @property
    def derived_topic_defaults(self) -> dict[str, int]:
        """Defaults for topics that each depend on several broker keys.

        Source: KafkaConfig.logRollTimeMillis and similar methods
        """
        return {
            "retention_ms": self.retention_ms,
            "segment_ms": self.log_roll_ms or self.log_roll_hours * HOUR_MS,
            "segment_jitter_ms": _or_else(self.log_roll_jitter_ms, self.log_roll_jitter_hours * HOUR_MS),
            "flush_ms": _or_else(self.log_flush_interval_ms, self.log_flush_scheduler_interval_ms),
        }

    def __post_init__(self) -> None:
        self._check_groups()
        # KafkaConfig.validateValues: an idle follower must be able to fetch within the lag time.
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise ConfigError(
                "replica.fetch.wait.max.ms",
                "must not exceed replica.lag.time.max.ms, else idle followers keep dropping out of the ISR",
            )

    def limits(self, kind: str) -> tuple[int, int]:
        """Return the smallest and the largest value of a key in GROUP_LIMITS."""
        low, high = (getattr(self, kind.format(which).replace(".", "_")) for which in ("min.", "max."))
        return low, high

    def _check_groups(self) -> None:
        """Check that the keys of groups are within their limits.

        Source: the constructors of GroupCoordinatorConfig and ShareGroupConfig
        """
        for kind in GROUP_LIMITS:
            low, high = self.limits(kind)
            value = getattr(self, kind.format("").replace(".", "_"))
            if high < low:
                raise ConfigError(kind.format("max."), f"must be greater than or equal to {kind.format('min.')}")
            if value < low:
                title = f"must be greater than or equal to {kind.format('min.')}, which is {low}"
                raise ConfigError(kind.format(""), title)
            if value > high:
                raise ConfigError(
                    kind.format(""), f"must be less than or equal to {kind.format('max.')}, which is {high}"
                )
        for name, interval_ms, timeout_ms in (
            ("consumer", self.group_consumer_heartbeat_interval_ms, self.group_consumer_session_timeout_ms),
            ("share", self.group_share_heartbeat_interval_ms, self.group_share_session_timeout_ms),
            ("streams", self.group_streams_heartbeat_interval_ms, self.group_streams_session_timeout_ms),
        ):
            if interval_ms >= timeout_ms:
                title = f"must be less than group.{name}.session.timeout.ms"
                raise ConfigError(f"group.{name}.heartbeat.interval.ms", title)
        if self.group_streams_num_standby_replicas > self.group_streams_max_standby_replicas:
            title = "must be less than or equal to group.streams.max.standby.replicas"
            raise ConfigError("group.streams.num.standby.replicas", title)
        if self.group_share_max_share_sessions < self.group_share_max_size:
            title = "must be greater than or equal to group.share.max.size"
            raise ConfigError("group.share.max.share.sessions", title)


def broker_config(values: Mapping[str, object], release: KafkaRelease) -> BrokerConfig:
    """Return a broker's configuration, with Kafka's defaults for the keys missing in `values`.

    Differs from Kafka: broker.session.timeout.ms is also the default of zookeeper.session.timeout.ms, so that one file
    works in both eras.

    Raises:
        ConfigError: if a value is invalid.
    """
    defaults = defaults_of(BrokerConfig, release)
    if KRAFT_SESSION in values:
        defaults[REGISTRY_SESSION] = values[KRAFT_SESSION]
    return replace(BrokerConfig.from_mapping({**defaults, **values}), release=release)


def is_of_release(name: str, release: KafkaRelease) -> bool:
    """Return False for settings of groups and dead letter queues that a release does not have yet."""
    if name.startswith("errors.deadletterqueue."):
        return release >= DEAD_LETTERS_SINCE
    return release >= _NEW_GROUP_KEYS_SINCE or name not in _NEW_GROUP_KEYS


@cache
def kafkas_own(release: KafkaRelease) -> BrokerConfig:
    """Return a broker's configuration with all of Kafka's defaults in a release."""
    return broker_config({}, release)


def _or_else(value: int, other: int) -> int:
    return other if value < 0 else value


def topic_defaults(config: BrokerConfig) -> TopicConfig:
    """Return the cluster's defaults of topic keys, which are the values of corresponding broker keys."""
    broker_fields = {key: field.name for key, field in BrokerConfig.keys().items()}
    topic_fields = {key: field.name for key, field in TopicConfig.keys().items()}
    values = {
        topic_fields[topic_key]: getattr(config, broker_fields[broker_key])
        for topic_key, broker_key in BROKER_KEY_OF_TOPIC_KEY.items()
    }
    return TopicConfig(**{**values, **config.derived_topic_defaults})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig(Config):
    """Settings of one group (ConfigResource.Type.GROUP).

    Simplified: intervals between assignments and streams.initial.rebalance.delay.ms are keys of brokers only.

    Source: GroupConfig.java (4.4)
    """

    WHAT: ClassVar[str] = "group"

    consumer_session_timeout_ms: int = key(45_000, low=1, high=INT32_MAX)
    consumer_heartbeat_interval_ms: int = key(5000, low=1, high=INT32_MAX)
    share_session_timeout_ms: int = key(45_000, low=1, high=INT32_MAX)
    share_heartbeat_interval_ms: int = key(5000, low=1, high=INT32_MAX)
    share_record_lock_duration_ms: int = key(30_000, low=1, high=INT32_MAX)
    share_delivery_count_limit: int = key(5, low=2, high=INT32_MAX)
    share_partition_max_record_locks: int = key(2000, low=100, high=INT32_MAX)
    share_renew_acknowledge_enable: bool = key(True)
    share_auto_offset_reset: str = key(
        "latest",
        pattern=r"(?i)earliest|latest|by_duration:P[0-9DTHMS.]{2,40}",
        doc="earliest, latest or by_duration:<ISO 8601 duration>, such as by_duration:PT1H",
    )
    share_isolation_level: str = key("read_uncommitted", choices=("read_committed", "read_uncommitted"))
    streams_session_timeout_ms: int = key(45_000, low=1, high=INT32_MAX)
    streams_heartbeat_interval_ms: int = key(5000, low=1, high=INT32_MAX)
    streams_num_standby_replicas: int = key(0, low=0, high=INT32_MAX)
    errors_deadletterqueue_topic_name: str = key("", pattern=r"(?!__).*", doc="a name that does not begin with __")
    errors_deadletterqueue_copy_record_enable: bool = key(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(Config):
    """The configuration of a Java producer 3.9. `acks` "-1" means "all". Source: ProducerConfig.java"""

    WHAT: ClassVar[str] = "producer"

    acks: str = key("all", choices=("0", "1", "all", "-1"))
    enable_idempotence: bool = key(True)
    retries: int = key(2_147_483_647, low=0, high=INT32_MAX)
    delivery_timeout_ms: int = key(120_000, low=0, high=INT32_MAX)
    request_timeout_ms: int = key(30_000, low=1, high=INT32_MAX)
    retry_backoff_ms: int = key(100, low=0)
    retry_backoff_max_ms: int = key(1000, low=0)
    max_in_flight_requests_per_connection: int = key(5, low=1, high=INT32_MAX)
    linger_ms: int = key(0, low=0)
    batch_size: int = key(16_384, low=0, high=INT32_MAX)
    buffer_memory: int = key(33_554_432, low=0)
    max_block_ms: int = key(60_000, low=0)
    max_request_size: int = key(1_048_576, low=0, high=INT32_MAX)
    metadata_max_age_ms: int = key(300_000, low=0)
    reconnect_backoff_ms: int = key(50, low=0)
    reconnect_backoff_max_ms: int = key(1000, low=0)
    socket_connection_setup_timeout_ms: int = key(10_000, low=1)
    connections_max_idle_ms: int = key(540_000, low=1)
    compression_type: str = key("none", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    transactional_id: str = key("")
    transaction_timeout_ms: int = key(60_000, low=1, high=INT32_MAX)
    # Differs from Kafka: no class is loaded. The names select the client's serializers; a record's name is its text.
    key_serializer: str = key(SERIALIZERS[0], choices=SERIALIZERS)
    value_serializer: str = key(SERIALIZERS[0], choices=SERIALIZERS)
    interceptor_classes: str = key("", choices=(AUDIT, STAMP, THROWING), is_list=True)
    failing_records: str = key(
        "", pattern=FAILING_RECORDS, doc="record names for FailingSerializer, separated by commas, such as r3, r7"
    )

    @property
    def takes_records_as_they_are(self) -> bool:
        """True if records are sent unchanged: there are no interceptors, and the serializers are StringSerializer."""
        return not self.interceptor_classes and self.key_serializer == self.value_serializer == SERIALIZERS[0]

    @property
    def required_acks(self) -> int:
        """The value of acks in Produce requests: 0, 1 or -1."""
        return ACKS_ALL if self.acks in ("all", "-1") else int(self.acks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(Config):
    """The configuration of a Java consumer 3.9 without a group (assign and seek). Source: ConsumerConfig.java"""

    WHAT: ClassVar[str] = "consumer"

    auto_offset_reset: str = key("latest", choices=("earliest", "latest", "none"))
    fetch_min_bytes: int = key(1, low=0, high=INT32_MAX)
    fetch_max_wait_ms: int = key(500, low=0, high=INT32_MAX)
    fetch_max_bytes: int = key(52_428_800, low=0, high=INT32_MAX)
    max_partition_fetch_bytes: int = key(1 << 20, low=0, high=INT32_MAX)
    max_poll_records: int = key(500, low=1, high=INT32_MAX)
    isolation_level: str = key("read_uncommitted", choices=("read_uncommitted", "read_committed"))
    client_rack: str = key("")
    request_timeout_ms: int = key(30_000, low=1, high=INT32_MAX)
    retry_backoff_ms: int = key(100, low=0)
    retry_backoff_max_ms: int = key(1000, low=0)
    metadata_max_age_ms: int = key(300_000, low=0)
    reconnect_backoff_ms: int = key(50, low=0)
    reconnect_backoff_max_ms: int = key(1000, low=0)
    socket_connection_setup_timeout_ms: int = key(10_000, low=1)
    connections_max_idle_ms: int = key(540_000, low=1)
    exclude_internal_topics: bool = key(True)
    key_deserializer: str = key(DESERIALIZERS[0], choices=DESERIALIZERS)
    value_deserializer: str = key(DESERIALIZERS[0], choices=DESERIALIZERS)
    interceptor_classes: str = key("", choices=(AUDIT, THROWING), is_list=True)
    failing_records: str = key(
        "", pattern=FAILING_RECORDS, doc="record names for FailingDeserializer, separated by commas, such as r3, r7"
    )

    @property
    def hands_records_as_they_are(self) -> bool:
        """True if there are no interceptors, and no deserializers other than StringDeserializer."""
        return not self.interceptor_classes and self.key_deserializer == self.value_deserializer == DESERIALIZERS[0]


CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The value of group.protocol for the protocol of KIP-848."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConsumerConfig(ConsumerConfig):
    """The configuration of a consumer that is a member of a group.

    partition.assignment.strategy, session.timeout.ms and heartbeat.interval.ms belong to the classic protocol,
    group.remote.assignor to the consumer protocol.
    """

    group_id: str = key("")
    group_protocol: str = key(CLASSIC, choices=(CLASSIC, CONSUMER))
    group_remote_assignor: str = key("")
    partition_assignment_strategy: str = key("range", choices=("range", "cooperative-sticky"), is_list=True)
    group_instance_id: str = key("")
    session_timeout_ms: int = key(45_000, low=1, high=INT32_MAX)
    heartbeat_interval_ms: int = key(3000, low=1, high=INT32_MAX)
    max_poll_interval_ms: int = key(300_000, low=1, high=INT32_MAX)
    # Differs from Kafka: there the default is true. Here the application commits unless the scenario says otherwise.
    enable_auto_commit: bool = key(False)
    auto_commit_interval_ms: int = key(5000, low=0, high=INT32_MAX)

    def __post_init__(self) -> None:
        """Check that, in the classic protocol, the heartbeat interval is below the session timeout.

        Source: Heartbeat.java; in the consumer protocol (KIP-848) both are broker keys (GroupCoordinatorConfig)
        """
        interval_ms, timeout_ms = self.heartbeat_interval_ms, self.session_timeout_ms
        if self.group_protocol == CLASSIC and interval_ms >= timeout_ms:
            raise ConfigError(
                "heartbeat.interval.ms",
                f"must be lower than session.timeout.ms ({timeout_ms} ms), but is {interval_ms} ms",
            )

    @property
    def assignors(self) -> tuple[str, ...]:
        """The strategies that a member of a classic group supports, preferred first."""
        return items_of(self.partition_assignment_strategy)


IMPLICIT: Final = "implicit"
EXPLICIT: Final = "explicit"
RECORD_LIMIT: Final = "record_limit"
NOT_OF_SHARE_GROUPS: Final = (
    "auto.offset.reset",
    "enable.auto.commit",
    "auto.commit.interval.ms",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "isolation.level",
    "max.partition.fetch.bytes",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "key.deserializer",
    "value.deserializer",
    "failing.records",
)
"""The keys of consumers that a share consumer lacks: those that Kafka refuses, and those of deserializers.

Source: ShareConsumerConfig.SHARE_GROUP_UNSUPPORTED_CONFIGS
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerConfig(GroupConsumerConfig):
    """The configuration of a member of a share group (KafkaShareConsumer)."""

    WHAT: ClassVar[str] = "share consumer"

    share_acknowledgement_mode: str = key(IMPLICIT, choices=(IMPLICIT, EXPLICIT))
    share_acquire_mode: str = key("batch_optimized", choices=("batch_optimized", RECORD_LIMIT))

    @classmethod
    @cache
    def keys(cls) -> Mapping[str, Field[Any]]:
        found = {key_of(field): field for field in fields(cls)}
        return {name: item for name, item in found.items() if name not in NOT_OF_SHARE_GROUPS}


class TransformConfig(Config):
    """The configuration of an application with a group consumer and a producer. Each of them uses its own keys."""

    WHAT: ClassVar[str] = "transform"

    @classmethod
    @cache
    def keys(cls) -> Mapping[str, Field[Any]]:
        return {**ProducerConfig.keys(), **GroupConsumerConfig.keys()}
