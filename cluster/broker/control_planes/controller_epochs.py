"""Fencing in a ZooKeeper-era broker: it remembers controller epochs, and refuses requests from former controllers.

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
    """The controller epochs in the requests to one broker, of which only the latest are accepted.

    Args:
        broker_epoch: returns the epoch of this incarnation of the broker.

    Attributes:
        highest: highest controller epoch in a request so far.
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
        """Return the epoch of the controller that last set a partition's leader, to be written with its ISR."""
        return self._by_partition.get(name, self.highest)

    def note(self, name: TopicPartition, controller_epoch: int) -> None:
        self._by_partition[name] = controller_epoch

    def refuses(self, call: Call, request: Entity) -> bool:
        """Refuse a request from a former controller, or one for an earlier incarnation of this broker.

        Return True after answering with an error, False to accept the request. The rule `control-fencing` decides which
        epochs are checked.
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
