"""WriteTxnMarkers (27): write a coordinator's markers to the partitions of ended transactions (KIP-98).

     1  flexible: the oldest version that Kafka 4 accepts

Source: KafkaApis.handleWriteTxnMarkersRequest
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from cluster.broker.apis.api import ApiHandler, BrokerParts, Serve, Values
from cluster.broker.replicas.delayed import ProduceParams, ProduceResults
from cluster.protocol.entities import Entity
from cluster.protocol.versions import PRODUCE, VERSIONS, WRITE_TXN_MARKERS
from cluster.server.responder import Call
from cluster.slices import array_type, paced
from replica.errors import ErrorCode
from replica.ids import ACKS_ALL, TopicPartition
from replica.log.batches.control_records import ControlRecordType, end_transaction_marker

TIMEOUT_US = 30_000_000
"""Timeout of appending a marker: a broker's request.timeout.ms, here always the default."""


class Marker(NamedTuple):
    """The commit or abort marker that ends a transaction in a partition.

    Attributes:
        transaction_version: transaction.version of the transaction; 0 if the request has no such field.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int = 0


def append_marker(
    broker: BrokerParts,
    marker: Marker,
    names: Iterable[TopicPartition],
    peer: str,
    written: Callable[[ProduceResults, int | None], None],
    now_us: int,
) -> None:
    """Append a marker to partitions with acks=all, then call `written(results, cause)`.

    Args:
        peer: sender of the request.
    """
    kind = ControlRecordType.COMMIT if marker.committed else ControlRecordType.ABORT
    now_ms = broker.base.clock.at(now_us) // 1000

    def respond(results: ProduceResults, cause: int | None) -> None:
        for name, result in results.items():
            if result.error is ErrorCode.NONE:
                broker.replicas.on_transaction_ended(name, marker.producer_id, marker.committed)
        written(results, cause)

    produce = ProduceParams(
        acks=ACKS_ALL,
        timeout_us=TIMEOUT_US,
        entries=array_type()(
            [
                (
                    name,
                    memoryview(
                        end_transaction_marker(
                            marker.producer_id, marker.producer_epoch, kind, marker.coordinator_epoch, now_ms
                        )
                    ),
                )
                for name in paced(names)
            ]
        ),
        peer=peer,
        api_version=VERSIONS[PRODUCE][1],
        respond=respond,
        from_broker=True,
        transaction_version=marker.transaction_version,
    )
    broker.replicas.append_records(produce, now_us)


class WriteTxnMarkersHandler(ApiHandler):
    """Handler of WriteTxnMarkers. It appends a request's markers, and responds when all in-sync replicas have them.

    Simplified: these appends occupy no request handler while a slow disk writes.
    """

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._broker = broker

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        results: dict[int, ProduceResults] = {}

        def written(index: int, found: ProduceResults, cause: int | None) -> None:
            results[index] = found
            if len(results) == len(request.markers):
                markers = (_answered(marker, results[index]) for index, marker in enumerate(request.markers))
                self._answer(call, markers=markers)

        for index, marker in enumerate(request.markers):
            names = [
                TopicPartition(str(topic.name), int(number))
                for topic in marker.topics
                for number in topic.partition_indexes
            ]
            append_marker(self._broker, _marker(marker), names, call.peer, partial(written, index), call.now_us)
        if not request.markers:
            self._answer(call, markers=[])


def _marker(found: Entity) -> Marker:
    return Marker(
        int(found.producer_id),
        int(found.producer_epoch),
        int(found.coordinator_epoch),
        bool(found.transaction_result),
        int(getattr(found, "transaction_version", 0)),
    )


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


APIS: Final[Mapping[int, Serve]] = {WRITE_TXN_MARKERS: WriteTxnMarkersHandler}
