"""A broker's interface to the control plane it takes part in: a quorum of controllers (KRaft), or the registry of the
ZooKeeper era and the one broker that is the controller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from replica.ids import BrokerEpoch, BrokerId, TopicPartition

if TYPE_CHECKING:
    from cluster.broker.control_planes.controller_epochs import ControllerEpochs
    from cluster.broker.control_planes.controller_runner import ControllerRunner
    from cluster.broker.control_planes.forwarding import WantedTopic
    from cluster.broker.control_planes.producer_ids import ProducerIds
    from cluster.broker.control_planes.topic_configs import TopicConfigs
    from cluster.broker.replicas.manager import ProposeIsrTo
    from cluster.server.responder import Handler
    from controller.inputs import OnReply


class ZooKeeperParts(NamedTuple):
    """The state that requests of that era's controllers change. runner: of the controller that this broker may be"""

    epochs: ControllerEpochs
    configs: TopicConfigs
    runner: ControllerRunner


class Lifecycle(Protocol):
    """A broker's standing in its cluster."""

    @property
    def broker_epoch(self) -> BrokerEpoch: ...

    @property
    def serving(self) -> bool: ...

    def stopped(self) -> None: ...

    def propagate_directory_failure(self, directory_id: UUID, now_us: int) -> None: ...


class ControlPlane(Protocol):
    """metadata_log_dir: the log directory with the metadata log, if there is one
    zookeeper: None where a quorum decides
    """

    @property
    def lifecycle(self) -> Lifecycle: ...

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def metadata_log_dir(self) -> str | None: ...

    @property
    def zookeeper(self) -> ZooKeeperParts | None: ...

    @property
    def propose_isr(self) -> ProposeIsrTo: ...

    def start(self, now_us: int) -> None: ...

    def begin_controlled_shutdown(self, now_us: int) -> None: ...

    def create_topics(self, wanted: Sequence[WantedTopic], now_us: int) -> None:
        """Ask for topics that are not there; to be called again while they are not."""

    def elect_leader(
        self, name: TopicPartition, desired: BrokerId | None, unclean: bool, answer: OnReply, now_us: int
    ) -> None:
        """An operator's request to the controller; a broker that is not the controller answers NOT_CONTROLLER."""

    def for_controller(self, key: int) -> Handler | None:
        """Handler of an API that the controller answers; None: not in this era."""

    def controller_id(self) -> BrokerId | None:
        """The controller, as far as this broker knows; None where clients may not talk to it (KRaft)."""

    def fetch_epoch(self) -> BrokerEpoch:
        """In which life this broker fetches as a follower (KIP-903), if its era says so."""
