"""A broker's ISR proposals to the controller (AlterPartition), with one request in flight.

Proposals made meanwhile are sent in the next request. If a whole request is refused, it is repeated after 50 ms.
Source: DefaultAlterPartitionManager (KIP-497)
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.partition import Partition
from cluster.channel import ControllerRequests
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import ALTER_PARTITION
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, TopicPartition
from replica.inputs import IsrAccepted, IsrRefused, ProposeIsr

VERSION = 3
RETRY_US = 50_000
FOR_EVER_US = 2**62
"""Time for which the channel retries a request: without end."""


class IsrUpdates:
    """Sends the ISR proposals of one broker. A partition's leader state makes at most one proposal at a time.

    Differs from Kafka: while an outdated proposal of a partition is in flight, a new one waits and is sent afterwards.
    Kafka drops the new one (OPERATION_NOT_ATTEMPTED), and makes it again on the follower's next fetch.
    """

    def __init__(
        self,
        base: BrokerBase,
        *,
        channel: ControllerRequests,
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self._identity = base.identity
        self._timeout_us = base.config.request_timeout_ms * 1000
        self._outbox = base.outbox
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._waiting: dict[TopicPartition, tuple[Partition, ProposeIsr]] = {}
        self._sent: dict[TopicPartition, tuple[Partition, ProposeIsr]] = {}
        self._retry_pending = False

    def propose(self, partition: Partition, proposal: ProposeIsr, now_us: int) -> None:
        self._waiting[partition.topic_partition] = (partition, proposal)
        self._send(now_us)

    def _send(self, now_us: int) -> None:
        if self._channel.busy or self._retry_pending or not self._waiting:
            return
        self._sent, self._waiting = self._waiting, {}
        topics: dict[str, dict[str, object]] = {}
        for topic_partition, (partition, proposal) in self._sent.items():
            topic = topics.setdefault(topic_partition.topic, {"topic_id": partition.topic_id, "partitions": []})
            own = {self._identity.broker_id: self._broker_epoch()}
            members = [
                {"broker_id": member, "broker_epoch": own.get(member, epoch)}
                for member, epoch in zip(proposal.in_sync_replicas, proposal.broker_epochs, strict=True)
            ]
            entries = topic["partitions"]
            assert isinstance(entries, list)
            entries.append(
                {
                    "partition_index": topic_partition.partition,
                    "leader_epoch": proposal.leader_epoch,
                    "new_isr_with_epochs": members,
                    "leader_recovery_state": 0,
                    "partition_epoch": proposal.partition_epoch,
                }
            )
        entity = cold.request(
            ALTER_PARTITION,
            VERSION,
            broker_id=self._identity.broker_id,
            broker_epoch=self._broker_epoch(),
            topics=list(topics.values()),
        )
        self._channel.request(
            ALTER_PARTITION,
            lambda correlation_id: cold.encode_request(
                ALTER_PARTITION, VERSION, correlation_id, self._identity.name, entity
            ),
            self._answered,
            self._timeout_us,
            now_us,
        )

    def _answered(self, frame: bytearray | None, now_us: int) -> None:
        assert frame is not None, "the channel gave up an AlterPartition request"
        answer = cold.decode_response(ALTER_PARTITION, VERSION, frame)
        if answer.error_code != ErrorCode.NONE:
            self._waiting = {**self._sent, **self._waiting}
            self._sent = {}
            self._retry_pending = True
            self._outbox.timers.at(now_us + RETRY_US, self._retry)
            return
        sent, self._sent = self._sent, {}
        topic_ids = {partition.topic_id: name.topic for name, (partition, _) in sent.items()}
        for topic in answer.topics:
            for entry in topic.partitions:
                name = TopicPartition(topic_ids.get(topic.topic_id, ""), int(entry.partition_index))
                if name in sent:
                    partition, proposal = sent.pop(name)
                    partition.isr_answered(_event(entry, proposal, now_us), now_us)
        self._send(now_us)

    def _retry(self, now_us: int) -> None:
        self._retry_pending = False
        # Proposals of partitions that this broker no longer leads are dropped.
        self._waiting = {name: pair for name, pair in self._waiting.items() if pair[0].leader is not None}
        self._send(now_us)


def _event(entry: Entity, proposal: ProposeIsr, now_us: int) -> IsrAccepted | IsrRefused:
    error = ErrorCode(int(entry.error_code))
    if error is not ErrorCode.NONE:
        return IsrRefused(now_us=now_us, error=error, proposal=proposal)
    return IsrAccepted(
        now_us=now_us,
        leader_epoch=int(entry.leader_epoch),
        in_sync_replicas=tuple(int(broker_id) for broker_id in entry.isr),
        partition_epoch=int(entry.partition_epoch),
        recovering=bool(entry.leader_recovery_state),
        proposal=proposal,
    )
