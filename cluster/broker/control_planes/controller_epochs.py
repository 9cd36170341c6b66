"""The controller epochs that a ZooKeeper-era broker has seen, by which it refuses requests of former controllers.

Source: KafkaApis.isBrokerEpochStale, ReplicaManager.becomeLeaderOrFollower
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.protocol.entities import Entity
from cluster.protocol.versions import api_name
from cluster.server.responder import Call, Responder
from replica.errors import ErrorCode
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, TopicPartition
from replica.trace.events import ControlRequestRefused


class ControllerEpochs:
    """The fencing of requests from former controllers.

    Args:
        broker_epoch: returns the epoch of this incarnation of the broker.

    Attributes:
        highest: highest controller epoch in any request so far.
    """

    def __init__(self, base: BrokerBase, *, responder: Responder, broker_epoch: Callable[[], BrokerEpoch]) -> None:
        self.highest = 0
        self._identity = base.identity
        self._rules = base.rules
        self._answer = responder.answer
        self._recorder = base.recorder
        self._broker_epoch = broker_epoch
        self._by_partition: dict[TopicPartition, int] = {}

    def of(self, name: TopicPartition) -> int:
        """Return the controller epoch of a partition's last LeaderAndIsr request; its leader writes it with the ISR."""
        return self._by_partition.get(name, self.highest)

    def note(self, name: TopicPartition, controller_epoch: int) -> None:
        self._by_partition[name] = controller_epoch

    def refuses(self, call: Call, request: Entity) -> bool:
        """Return True and answer with an error if a request is from a former controller or for an earlier incarnation.

        The rule `control-fencing` decides which of the two epochs are checked.
        """
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
            peer=call.peer,
            api=api_name(call.header.api_key),
            error=error.name,
            request_epoch=stated,
            known_epoch=known,
        )
        self._recorder.emit(refused)
        self._answer(call, error_code=error)
        return True
