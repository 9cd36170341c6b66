"""ListConfigResources (74): what has settings.

     0  client metrics alone, which there are none of (KIP-714)
     1  by type: topics, brokers, and groups that have settings of their own, too (KIP-1142)

source: KafkaApis.handleListConfigResources
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.config_resources import BROKER, BROKER_LOGGER, GROUP, TOPIC
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode

CLIENT_METRICS = 16
SUPPORTED = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)
"""ListConfigResourcesRequest.supportedResourceTypes; of client metrics there are none here."""


class ListConfigResourcesHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._cache = broker.cache
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        wanted = getattr(request, "resource_types", None)
        if any(kind not in SUPPORTED for kind in wanted or ()):
            self._answer(connection, header, error_code=ErrorCode.UNSUPPORTED_VERSION)
            return
        image = self._cache.image
        brokers = [str(broker) for broker in sorted(image.brokers)]
        # Differs from Kafka: there GroupConfigManager keeps the name of a group whose settings are all taken back,
        # until the broker restarts.
        there = {
            TOPIC: sorted(image.topics),
            BROKER: brokers,
            BROKER_LOGGER: brokers,
            GROUP: sorted(image.group_config),
        }
        types = () if wanted is None else wanted or tuple(there)
        found = [
            {"resource_type": kind, "resource_name": name}
            for kind in sorted(set(types))
            for name in there.get(kind, ())
        ]
        self._answer(connection, header, error_code=ErrorCode.NONE, config_resources=found)


API = ListConfigResourcesHandler
