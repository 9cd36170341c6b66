"""StopReplica (5): the controller takes replicas away from a broker, with or without their logs.

     3  leader epochs (KIP-570): the one version that is spoken here

source: KafkaApis.handleStopReplicaRequest
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts, in_zookeeper_era
from cluster.broker.control_planes.plane import ZooKeeperParts
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.control_messages import stopped_partitions
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode


class StopReplicaHandler:
    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        self._changes = broker.changes
        self._answer = broker.responder.answer
        self._epochs = zookeeper.epochs

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        if self._epochs.refuses(connection, peer, header, request):
            return
        self._changes.stop(stopped_partitions(request), now_us)
        self._answer(connection, header, error_code=ErrorCode.NONE, partition_errors=[])


API = in_zookeeper_era(StopReplicaHandler)
