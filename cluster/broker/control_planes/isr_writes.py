"""ISR changes before KIP-497: a leader writes its partition's state to the registry, if its version is current.

Otherwise the write is skipped ("Cached zkVersion not equal to that in zookeeper"). Later it is repeated with the same
version, since the leader learns a newer version only from a LeaderAndIsr request.

Source: Partition.scala (2.6) updateIsr, ReplicationUtils, ReplicaManager.maybePropagateIsrChanges
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster.broker.control_planes.registry_client import RegistryClient
from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.partition import Partition
from controller.image import PartitionRegistration
from controller.zookeeper import znodes
from controller.zookeeper.registry import Create, GetData, RegistryError, Result, SetData
from replica.causes import IsrCommitCause
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.inputs import IsrAccepted, IsrRefused, ProposeIsr
from replica.trace.events import IsrRejected

CHECK_US = 2_500_000
QUIET_US = 5_000_000
AT_LAST_US = 60_000_000
"""New ISRs are reported to the controller 5 s after the last ISR write, or 60 s after the last report.

This is checked every 2.5 s.
"""


class IsrWrites:
    """Writes the ISR changes of one broker to the registry.

    Simplified: Kafka's thread waits for the registry with the partition locked. Here the leader continues, meanwhile
    with the larger of the old and the proposed ISR.
    """

    def __init__(
        self,
        base: BrokerBase,
        *,
        client: RegistryClient,
        controller_epoch: Callable[[TopicPartition], int],
    ) -> None:
        self._identity = base.identity
        self._names = base.names
        self._outbox = base.outbox
        self._client = client
        self._recorder = base.recorder
        self._controller_epoch = controller_epoch
        self._changed: dict[TopicPartition, None] = {}
        self._last_change_us = 0
        self._last_reported_us = 0
        self._skipped: dict[TopicPartition, ProposeIsr] = {}

    def propose(self, partition: Partition, proposal: ProposeIsr, now_us: int) -> None:
        name = partition.topic_partition
        registration = PartitionRegistration(
            replicas=(),
            in_sync_replicas=proposal.in_sync_replicas,
            leader=self._identity.broker_id,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
        )
        data = znodes.state_data(registration, self._controller_epoch(name))
        path = znodes.state_path(name)

        def written(results: Sequence[Result], now_us: int) -> None:
            (result,) = results
            if result.error is None:
                self._accepted(partition, proposal, result.version, now_us)
            elif result.error is RegistryError.SESSION_EXPIRED:
                self._client.execute(write, written)
            else:
                # After a broken connection, this write may have succeeded (ReplicationUtils.checkLeaderAndIsrZkData).
                self._client.execute(GetData(path=path), compared)

        def compared(results: Sequence[Result], now_us: int) -> None:
            (result,) = results
            if result.error is None and result.data == data:
                self._accepted(partition, proposal, result.version, now_us)
            else:
                self._skip(partition, proposal, result.version, now_us)

        leader = self._identity.name
        note = {"cause": IsrCommitCause.WRITTEN, "proposed_by": leader}
        write = SetData(path=path, data=data, version=proposal.partition_epoch, note=note)
        self._client.execute(write, written)

    def _accepted(self, partition: Partition, proposal: ProposeIsr, version: int, now_us: int) -> None:
        self._skipped.pop(partition.topic_partition, None)
        if not self._changed:
            self._outbox.timers.at((now_us // CHECK_US + 1) * CHECK_US, self._check)
        self._changed[partition.topic_partition] = None
        self._last_change_us = now_us
        accepted = IsrAccepted(
            now_us=now_us,
            leader_epoch=proposal.leader_epoch,
            in_sync_replicas=proposal.in_sync_replicas,
            partition_epoch=version,
            recovering=False,
            proposal=proposal,
        )
        partition.isr_answered(accepted, now_us)

    def _skip(self, partition: Partition, proposal: ProposeIsr, version: int, now_us: int) -> None:
        """Handle a skipped write. Record it in the trace once per proposed ISR, since the leader often repeats it."""
        name = partition.topic_partition
        known = self._skipped.get(name)
        self._skipped[name] = proposal
        if known is None or known.in_sync_replicas != proposal.in_sync_replicas:
            self._recorder.emit(
                IsrRejected(
                    self._identity.name,
                    *name,
                    broker=self._identity.name,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=version,
                    isr=tuple(map(self._names, proposal.in_sync_replicas)),
                    error=ErrorCode.INVALID_UPDATE_VERSION.name,
                    proposed_leader_epoch=proposal.leader_epoch,
                    proposed_partition_epoch=proposal.partition_epoch,
                )
            )
        refused = IsrRefused(now_us=now_us, error=ErrorCode.OPERATION_NOT_ATTEMPTED, proposal=proposal)
        partition.isr_answered(refused, now_us)

    def _check(self, now_us: int) -> None:
        if now_us <= self._last_change_us + QUIET_US and now_us <= self._last_reported_us + AT_LAST_US:
            self._outbox.timers.at(now_us + CHECK_US, self._check)
            return
        data = znodes.isr_change_data(list(self._changed))
        self._client.execute(Create(path=znodes.ISR_CHANGE, data=data, sequential=True), _made)
        self._changed.clear()
        self._last_reported_us = now_us


def _made(results: Sequence[Result], now_us: int) -> None:
    """Ignore the result of a notification. The controller watches and deletes notifications."""
