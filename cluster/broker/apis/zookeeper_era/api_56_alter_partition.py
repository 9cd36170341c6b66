"""AlterPartition (56): a leader proposes an ISR to the controller (KIP-497).

     3  the epochs of the brokers in the ISR (KIP-903): the one version that is spoken here

With KRaft it is asked of the controllers, not of brokers. source: KafkaApis.handleAlterPartitionRequest
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts, in_zookeeper_era
from cluster.broker.control_planes.plane import ZooKeeperParts
from cluster.messages.controller_requests import alter_partition_input, alter_partition_results, topics_asked_for
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from controller.inputs import AlterPartitionReply
from controller.zookeeper.controller_context import Process


class AlterPartitionHandler:
    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        self._runner = zookeeper.runner
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        controller = self._runner.controller
        request = cold.decode_request(header, frame)

        def process() -> Process:
            # Names by id as they are at its turn: a controller that takes over reads its topics before.
            names = {topic_id: topic for topic, topic_id in controller.topic_ids.items()}
            asked = topics_asked_for(request, names)

            def answer(reply: object) -> None:
                assert isinstance(reply, AlterPartitionReply)
                results = alter_partition_results(reply, asked)
                self._answer(connection, header, error_code=reply.error, topics=results)

            yield from controller.alter_partition(alter_partition_input(request, names, now_us), answer)

        self._runner.post(process(), now_us)


API = in_zookeeper_era(AlterPartitionHandler)
