"""The configuration keys that can be set while brokers run (KIP-226), and those that cannot.

Source: DynamicBrokerConfig.AllDynamicConfigs, .PerBrokerConfigs, DynamicConfig.Broker (4.1, as their constants are)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from functools import cache
from typing import Any, ClassVar, Final

from cluster.config import BrokerConfig
from cluster.known_keys import BROKER_KEYS, BROKER_RACK
from replica.config import INT32_MAX, NEVER, Config, DynamicBrokerConfig, key
from replica.frozen import dataclass

WITH_EFFECT: Final = frozenset(name for name, item in BrokerConfig.keys().items() if item.metadata["is_dynamic"])
"""Names of BrokerConfig's dynamic keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassiveDynamicConfig(Config):
    """Dynamic keys that are checked, stored and described, but have no effect here."""

    WHAT: ClassVar[str] = "dynamic broker"

    background_threads: int = key(10, low=1, high=INT32_MAX, doc="Number of threads for background tasks.")
    log_cleaner_io_buffer_load_factor: float = key(0.9)
    log_cleaner_io_buffer_size: int = key(524_288, low=0, high=INT32_MAX)
    log_cleaner_io_max_bytes_per_second: float = key(1.7976931348623157e308, high=1.7976931348623157e308)
    log_cleaner_threads: int = key(1, low=0, high=INT32_MAX, doc="Number of threads that compact logs.")
    metric_reporters: str = key("org.apache.kafka.common.metrics.JmxReporter", doc="Classes that report metrics.")
    num_recovery_threads_per_data_dir: int = key(
        2, low=1, high=INT32_MAX, doc="Number of threads per log directory that recover logs at startup."
    )
    remote_fetch_max_wait_ms: int = key(500, low=1, high=INT32_MAX)
    remote_list_offsets_request_timeout_ms: int = key(30_000, low=1)
    remote_log_index_file_cache_total_size_bytes: int = key(1 << 30, low=1)
    remote_log_manager_copier_thread_pool_size: int = key(10, low=1, high=INT32_MAX)
    remote_log_manager_copy_max_bytes_per_second: int = key(NEVER, low=1)
    remote_log_manager_expiration_thread_pool_size: int = key(10, low=1, high=INT32_MAX)
    remote_log_manager_fetch_max_bytes_per_second: int = key(NEVER, low=1)
    remote_log_reader_threads: int = key(10, low=1, high=INT32_MAX)


class AnyDynamicConfig(Config):
    """All keys that a running broker accepts and that are known here."""

    WHAT: ClassVar[str] = "dynamic broker"

    @classmethod
    @cache
    def keys(cls) -> Mapping[str, Field[Any]]:
        known = {name: item for name, item in BrokerConfig.keys().items() if name in WITH_EFFECT}
        return {**DynamicBrokerConfig.keys(), **known, **PassiveDynamicConfig.keys()}


THREADS: Final = frozenset(
    {
        "background.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    }
)  # fmt: skip
"""Keys for the sizes of thread pools. One request may change them by at most a factor of two."""

OF_LISTENERS_ONLY: Final = frozenset(
    {
        "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
        "ssl.keystore.password", "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location",
        "ssl.truststore.password", "ssl.truststore.type",
    }
)  # fmt: skip
"""Keys that are set only under `listener.name.<listener>.` (SslConfigs.RECONFIGURABLE_CONFIGS)."""
OF_ONE_BROKER: Final = OF_LISTENERS_ONLY.union(
    {
        "listener.security.protocol.map", "listeners", "principal.builder.class", "sasl.enabled.mechanisms",
        "sasl.jaas.config", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules", "sasl.kerberos.service.name", "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor", "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter", "sasl.mechanism.inter.broker.protocol", "ssl.cipher.suites",
        "ssl.client.auth", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider",
        "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
    }
)  # fmt: skip
"""Keys that cannot be set as a default of all brokers."""

PASSIVE: Final = PassiveDynamicConfig.keys()
RATES: Final = DynamicBrokerConfig.keys()
DYNAMIC: Final = WITH_EFFECT | frozenset(PASSIVE) | OF_ONE_BROKER
"""All dynamic keys (DynamicBrokerConfig.AllDynamicConfigs)."""
READ_ONLY: Final = (BROKER_KEYS.names | BrokerConfig.keys().keys() | {BROKER_RACK}) - DYNAMIC
"""Keys that cannot be set while brokers run: DynamicConfig.Broker.nonDynamicProps, and others that Kafka 4.1 lacks."""
