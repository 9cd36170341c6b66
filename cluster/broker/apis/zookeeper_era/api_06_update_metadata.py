"""UpdateMetadata (6): the controller sends brokers what they answer clients about brokers and partitions.

     7  topic ids (KIP-516): the one version that is spoken here

source: KafkaApis.handleUpdateMetadataRequest
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts, in_zookeeper_era
from cluster.broker.control_planes.plane import ZooKeeperParts
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.control_messages import live_brokers, topic_states
from cluster.protocol.versions import RequestHeader
from controller.image import BrokerRegistration
from replica.errors import ErrorCode
from replica.ids import NO_BROKER_EPOCH


class UpdateMetadataHandler:
    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        self._cache = broker.cache
        self._answer = broker.responder.answer
        self._epochs = zookeeper.epochs
        self._configs = zookeeper.configs

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        """The brokers that live, all of them; and of the partitions those that have changed."""
        request = cold.decode_request(header, frame)
        if self._epochs.refuses(connection, peer, header, request):
            return
        image = self._cache.image
        image.brokers = {
            broker.broker_id: BrokerRegistration(
                broker_id=broker.broker_id,
                incarnation_id="",
                broker_epoch=NO_BROKER_EPOCH,
                registration_offset=-1,
                rack=broker.rack,
                host=broker.host,
                port=broker.port,
                fenced=False,
                in_controlled_shutdown=False,
            )
            for broker in live_brokers(request)
        }
        for topic in topic_states(request):
            image.set_partitions(self._configs.image_of(topic.topic, topic.topic_id), topic.partitions)
        self._answer(connection, header, error_code=ErrorCode.NONE)


API = in_zookeeper_era(UpdateMetadataHandler)
