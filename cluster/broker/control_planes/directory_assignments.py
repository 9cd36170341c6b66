"""Telling the controller which log directory each replica lies in, so that it knows what is gone when one fails.

source: AssignmentsManager.java (KIP-858). A broker with one directory need not: its replicas can lie nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from cluster.broker.metadata.controller_channel import ControllerChannel
from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.manager import ReplicaManager
from cluster.protocol import cold
from cluster.protocol.versions import ASSIGN_REPLICAS_TO_DIRS
from replica.ids import BrokerEpoch
from replica.log.broker_logs import BrokerLogs

VERSION = 0
TIMEOUT_US = 30_000_000
RETRY_US = 500_000


class DirectoryAssignments:
    """Compares what the metadata says with where the logs are; one request in flight.

    Until the controller has heard of a replica's place, it counts as online there.
    """

    def __init__(
        self,
        base: BrokerBase,
        *,
        channel: ControllerChannel,
        replicas: ReplicaManager,
        logs: BrokerLogs,
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self._identity = base.identity
        self._outbox = base.outbox
        self._channel = channel
        self._cache = base.cache
        self._replicas = replicas
        self._logs = logs
        self._broker_epoch = broker_epoch

    def bring_up_to_date(self, now_us: int) -> None:
        """To be called when the metadata, or a replica's place, may have changed."""
        if self._channel.busy:
            return
        known = self._cache.image.directories
        directories: dict[UUID, dict[UUID, list[int]]] = {}
        for name, partition in self._replicas.partitions.items():
            directory = self._logs.directory_id_of(name)
            if known.get((self._identity.broker_id, name)) != str(directory):
                topics = directories.setdefault(directory, {})
                topics.setdefault(partition.topic_id, []).append(name.partition)
        if directories:
            self._send(directories, now_us)

    def _send(self, directories: dict[UUID, dict[UUID, list[int]]], now_us: int) -> None:
        entity = cold.request(
            ASSIGN_REPLICAS_TO_DIRS,
            VERSION,
            broker_id=self._identity.broker_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                {
                    "id_": directory,
                    "topics": [
                        {"topic_id": topic, "partitions": [{"partition_index": number} for number in numbers]}
                        for topic, numbers in topics.items()
                    ],
                }
                for directory, topics in directories.items()
            ],
        )
        self._channel.request(
            ASSIGN_REPLICAS_TO_DIRS,
            lambda correlation_id: cold.encode_request(
                ASSIGN_REPLICAS_TO_DIRS, VERSION, correlation_id, self._identity.name, entity
            ),
            lambda frame, reason, now_us: self._answered(now_us),
            TIMEOUT_US,
            now_us,
        )

    def _answered(self, now_us: int) -> None:
        """The metadata shows whether it worked; assignments not in it by then are sent again."""
        self._outbox.timers.at(now_us + RETRY_US, self.bring_up_to_date)
