"""A broker's interface to its control plane: KRaft controllers, or the registry and controller of the ZooKeeper era."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from replica.ids import BrokerEpoch, BrokerId

if TYPE_CHECKING:
    from cluster.broker.control_planes.controller_epochs import ControllerEpochs
    from cluster.broker.control_planes.controller_runner import ControllerRunner
    from cluster.broker.control_planes.forwarding import WantedTopic
    from cluster.broker.control_planes.producer_ids import ProducerIds
    from cluster.broker.control_planes.topic_configs import TopicConfigs
    from cluster.broker.replicas.manager import ProposeIsrTo
    from cluster.server.responder import Handler
    from controller.inputs import ElectLeader, OnReply


class ZooKeeperParts(NamedTuple):
    """The state that requests of a ZooKeeper-era controller change.

    `runner` runs the controller that this broker is or may become.
    """

    epochs: ControllerEpochs
    configs: TopicConfigs
    runner: ControllerRunner


class Lifecycle(Protocol):
    """A broker's membership in its cluster."""

    @property
    def broker_epoch(self) -> BrokerEpoch: ...

    @property
    def serving(self) -> bool: ...

    def stopped(self) -> None: ...

    def propagate_directory_failure(self, directory_id: UUID, now_us: int) -> None: ...


class ControlPlane(Protocol):
    """The control plane of a broker.

    Attributes:
        metadata_log_dir: log directory of the metadata log, None if there is none.
        zookeeper: None with KRaft.
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
        """Request the creation of topics; called again as long as they are missing."""

    def elect_leader(self, wanted: ElectLeader, answer: OnReply, now_us: int) -> None:
        """Run an operator's election; a broker that is not the controller answers NOT_CONTROLLER."""

    def for_controller(self, key: int) -> Handler | None:
        """Return the handler of an API that the controller answers, None if brokers answer that API in this era."""

    def controller_id(self) -> BrokerId | None:
        """Return the known controller, None if clients cannot reach controllers (KRaft)."""

    def fetch_epoch(self) -> BrokerEpoch:
        """Return the broker epoch that this broker sends in its fetches as a follower (KIP-903), -1 in earlier eras."""
