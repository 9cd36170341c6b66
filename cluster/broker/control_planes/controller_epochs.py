"""The epochs of controllers that a ZooKeeper-era broker has heard from: requests of outdated controllers are refused.

source: KafkaApis.isBrokerEpochStale, ReplicaManager.becomeLeaderOrFollower
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.node import ConnectionId
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader, api_name
from cluster.server.responder import Responder
from replica.errors import ErrorCode
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, TopicPartition
from replica.trace.events import ControlRequestRefused


class ControllerEpochs:
    """highest: that any request has carried     broker_epoch: of this life of the broker"""

    def __init__(self, base: BrokerBase, *, responder: Responder, broker_epoch: Callable[[], BrokerEpoch]) -> None:
        self.highest = 0
        self._identity = base.identity
        self._rules = base.rules
        self._answer = responder.answer
        self._recorder = base.recorder
        self._broker_epoch = broker_epoch
        self._by_partition: dict[TopicPartition, int] = {}

    def of(self, name: TopicPartition) -> int:
        """Of the controller that last told us of the partition: a leader writes it beside its ISR."""
        return self._by_partition.get(name, self.highest)

    def note(self, name: TopicPartition, controller_epoch: int) -> None:
        self._by_partition[name] = controller_epoch

    def refuses(self, connection: ConnectionId, peer: str, header: RequestHeader, request: Entity) -> bool:
        """By `control-fencing`: a controller that is not the latest, and requests to an earlier life of this broker."""
        epoch, meant_for, now = int(request.controller_epoch), int(request.broker_epoch), self._broker_epoch()
        fencing = self._rules.control_fencing
        if fencing == "broker-epoch" and NO_BROKER_EPOCH != meant_for < now:
            error, stated, known = ErrorCode.STALE_BROKER_EPOCH, meant_for, now
        elif fencing != "none" and epoch < self.highest:
            error, stated, known = ErrorCode.STALE_CONTROLLER_EPOCH, epoch, self.highest
        else:
            self.highest = epoch
            return False
        refused = ControlRequestRefused(
            node=self._identity.name,
            peer=peer,
            api=api_name(header.api_key),
            error=error.name,
            request_epoch=stated,
            known_epoch=known,
        )
        self._recorder.emit(refused)
        self._answer(connection, header, error_code=error)
        return True
