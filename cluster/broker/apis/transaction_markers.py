"""WriteTxnMarkers (27): a coordinator has markers written into the partitions of ended transactions (KIP-98).

     1  flexible: the oldest version that Kafka 4 takes

source: KafkaApis.handleWriteTxnMarkersRequest
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve, Values
from cluster.broker.replicas.delayed import ProduceParams, ProduceResults
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import PRODUCE, VERSIONS, WRITE_TXN_MARKERS, RequestHeader
from cluster.slices import array_type, paced
from replica.errors import ErrorCode
from replica.ids import ACKS_ALL, TopicPartition
from replica.log.batches.control_records import ControlRecordType, end_transaction_marker

TIMEOUT_US = 30_000_000
"""request.timeout.ms of a broker, which has no other value for this"""


class WriteTxnMarkersHandler:
    """The markers of a request are appended one transaction after the other; the answer waits for all of them.

    Simplified: these appends keep no handler waiting for a slow disk.
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._replicas = broker.replicas
        self._clock = broker.base.clock
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        results: dict[int, ProduceResults] = {}

        def written(place: int, found: ProduceResults, cause: int | None) -> None:
            results[place] = found
            if len(results) == len(request.markers):
                markers = (_answered(marker, results[place]) for place, marker in enumerate(request.markers))
                self._answer(connection, header, markers=markers)

        for place, marker in enumerate(request.markers):
            self._write(marker, peer, partial(written, place), now_us)
        if not request.markers:
            self._answer(connection, header, markers=[])

    def _write(self, marker: Entity, peer: str, written: partial[None], now_us: int) -> None:
        committed = bool(marker.transaction_result)
        names = [
            TopicPartition(str(topic.name), int(number))
            for topic in marker.topics
            for number in topic.partition_indexes
        ]
        entries = [
            (
                name,
                memoryview(
                    end_transaction_marker(
                        int(marker.producer_id),
                        int(marker.producer_epoch),
                        ControlRecordType.COMMIT if committed else ControlRecordType.ABORT,
                        int(marker.coordinator_epoch),
                        self._clock.at(now_us) // 1000,
                    )
                ),
            )
            for name in paced(names)
        ]

        def respond(results: ProduceResults, cause: int | None) -> None:
            for name, result in results.items():
                if result.error is ErrorCode.NONE:
                    self._replicas.on_transaction_ended(name, int(marker.producer_id), committed)
            written(results, cause)

        produce = ProduceParams(
            acks=ACKS_ALL,
            timeout_us=TIMEOUT_US,
            entries=array_type()(entries),
            peer=peer,
            api_version=VERSIONS[PRODUCE][1],
            respond=respond,
            from_broker=True,
        )
        self._replicas.append_records(produce, now_us)


def _answered(marker: Entity, results: ProduceResults) -> Values:
    return {
        "producer_id": marker.producer_id,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": number,
                        "error_code": results[TopicPartition(str(topic.name), int(number))].error,
                    }
                    for number in topic.partition_indexes
                ],
            }
            for topic in marker.topics
        ],
    }


APIS: Final[Mapping[int, Serve]] = {
    WRITE_TXN_MARKERS: WriteTxnMarkersHandler,
}
