"""Reports of each replica's log directory, by which the controller knows the replicas in a failed directory.

A broker with a single log directory sends reports only if that is new, and only of replicas that it had before.
source: AssignmentsManager.java (KIP-858)
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from cluster.broker.metadata.controller_channel import ControllerChannel
from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.manager import ReplicaManager
from cluster.protocol import cold
from cluster.protocol.versions import ASSIGN_REPLICAS_TO_DIRS
from replica.ids import BrokerEpoch, TopicPartition
from replica.log.broker_logs import BrokerLogs

VERSION = 0
TIMEOUT_US = 30_000_000
RETRY_US = 500_000


class DirectoryAssignments:
    """Reports the replicas whose directory the metadata does not have yet, with one request in flight.

    The controller considers a replica online until its directory is reported.
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
        self.had_before: frozenset[TopicPartition] | None = None
        """The replicas to report if the only directory is new, those assigned before the start; None to report all."""

    def bring_up_to_date(self, now_us: int) -> None:
        """Report each replica whose directory differs from that in the metadata, unless a report is in flight."""
        if self._channel.busy:
            return
        known = self._cache.image.directories
        directories: dict[UUID, dict[UUID, list[int]]] = {}
        for name, partition in self._replicas.partitions.items():
            if self.had_before is not None and name not in self.had_before:
                continue
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
            lambda _, now_us: self._answered(now_us),
            TIMEOUT_US,
            now_us,
        )

    def _answered(self, now_us: int) -> None:
        """Compare again after a pause, and report again what the metadata still lacks."""
        self._outbox.timers.at(now_us + RETRY_US, self.bring_up_to_date)
