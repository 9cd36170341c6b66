"""ControlledShutdown (7): a broker that wants to stop asks the controller to move its leaderships away.

     3  flexible, with the broker's epoch (KIP-380): the one version that is spoken here

source: KafkaApis.handleControlledShutdownRequest
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts, in_zookeeper_era
from cluster.broker.control_planes.plane import ZooKeeperParts
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from controller.zookeeper.kafka_controller import ControlledShutdownReply


class ControlledShutdownHandler:
    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        self._runner = zookeeper.runner
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)

        def answer(reply: object) -> None:
            assert isinstance(reply, ControlledShutdownReply)
            remaining = [{"topic_name": name.topic, "partition_index": name.partition} for name in reply.remaining]
            self._answer(connection, header, error_code=reply.error, remaining_partitions=remaining)

        process = self._runner.controller.controlled_shutdown(int(request.broker_id), int(request.broker_epoch), answer)
        self._runner.post(process, now_us)


API = in_zookeeper_era(ControlledShutdownHandler)
