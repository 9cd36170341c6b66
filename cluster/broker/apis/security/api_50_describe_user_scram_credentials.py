"""DescribeUserScramCredentials (50): which users have passwords for SCRAM (KIP-554).

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.messages.admin.user_requests import describe_user_scram_credentials
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader


class DescribeUserScramCredentials:
    """Of the metadata that this broker has; in the ZooKeeper era that has none."""

    def __init__(self, broker: BrokerParts) -> None:
        self._responder = broker.responder
        self._cache = broker.cache

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        values = describe_user_scram_credentials(cold.decode_request(header, frame), self._cache.image)
        self._responder.answer(connection, header, **values)


API = DescribeUserScramCredentials
