"""Broker keys of Kafka that nothing here acts upon: described with Kafka's defaults, for tools that read them.

Differs from Kafka: their features do not exist here (TLS and SASL),
or is fixed. source: KafkaConfig.configDef (4.1)
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNKNOWN, BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(10)
"""DescribeConfigsResponse.ConfigType"""


class PassiveKey(NamedTuple):
    """default: as Kafka prints it, None for null"""

    name: str
    type: int
    default: str | None
    documentation: str


_TABLE: Final = (
    (CLASS, "alter.config.policy.class.name", None, "Class that may refuse changes of settings."),
    (CLASS, "create.topic.policy.class.name", None, "Class that may refuse new topics."),
    (INT, "group.coordinator.threads", "4", "Threads of the group coordinator."),
    (INT, "socket.listen.backlog.size", "50", "Connections that may wait to be accepted."),
    (INT, "socket.receive.buffer.bytes", "102400", "Receive buffer of the server's sockets."),
    (INT, "socket.send.buffer.bytes", "102400", "Send buffer of the server's sockets."),
    (LIST, "sasl.enabled.mechanisms", "GSSAPI", "SASL mechanisms of listeners that use SASL."),
    (LONG, "queued.max.request.bytes", "-1", "Bytes of requests that may wait for a handler, -1 for any number."),
    (PASSWORD, "sasl.jaas.config", None, "Login of SASL listeners."),
    (PASSWORD, "ssl.key.password", None, "Password of the private key."),
    (PASSWORD, "ssl.keystore.password", None, "Password of the key store."),
    (PASSWORD, "ssl.truststore.password", None, "Password of the trust store."),
    (STRING, "authorizer.class.name", "", "Class that authorizes; none: all users may do everything."),
    (STRING, "replica.selector.class", None, "Class that says which replica a consumer reads; none: the leader."),
    (STRING, "security.inter.broker.protocol", "PLAINTEXT", "How brokers talk to each other."),
    (STRING, "ssl.client.auth", "none", "Whether clients must have certificates."),
)

PASSIVE_BROKER_KEYS: Final = tuple(PassiveKey(name, kind, default, text) for kind, name, default, text in _TABLE)
