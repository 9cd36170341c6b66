"""DescribeCluster (60): the brokers of the cluster (KIP-700). source: KafkaApis.handleDescribeCluster

0  first version
1  the request says whether it asks a broker or a controller (KIP-919)
2  fenced brokers, on request (KIP-1073)
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.cluster_view import ALL_OF_CLUSTER, NOT_ASKED, DescribedCluster
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode
from replica.ids import CLUSTER_ID

BROKERS, CONTROLLERS = 1, 2
"""EndpointType"""


class DescribeClusterHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._view = DescribedCluster(broker)
        self._cache = broker.cache
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        endpoint = int(getattr(request, "endpoint_type", BROKERS))
        if endpoint != BROKERS:
            known = endpoint == CONTROLLERS
            error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            message = f"this is a broker, and the request is for {'a controller' if known else f'type {endpoint}'}"
            self._answer(connection, header, error_code=error, error_message=message, endpoint_type=BROKERS)
            return
        brokers = self._view.live()
        if getattr(request, "include_fenced_brokers", False):
            brokers = [broker for _, broker in sorted(self._cache.image.brokers.items())]
        of_cluster = request.include_cluster_authorized_operations
        self._answer(
            connection,
            header,
            error_code=ErrorCode.NONE,
            endpoint_type=BROKERS,
            cluster_id=CLUSTER_ID,
            controller_id=self._view.controller_id(),
            brokers=[
                {
                    "broker_id": broker.broker_id,
                    "host": host,
                    "port": port,
                    "rack": broker.rack,
                    "is_fenced": broker.fenced,
                }
                for broker, (host, port) in self._view.reached(connection, brokers)
            ],
            cluster_authorized_operations=ALL_OF_CLUSTER if of_cluster else NOT_ASKED,
        )


API = DescribeClusterHandler
