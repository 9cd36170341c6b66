"""A broker's interface to its control plane: KRaft controllers, or the ZooKeeper era's registry and controller."""

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
    """The parts of a ZooKeeper-era broker that handle its controller's requests.

    `runner` runs the broker's own controller, which may be or become the active one.
    """

    epochs: ControllerEpochs
    configs: TopicConfigs
    runner: ControllerRunner


class Lifecycle(Protocol):
    """A broker's membership in its cluster. `stopped` ends it; `serving` is True while requests are processed."""

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
        """Request the creation of topics. Clients' requests repeat this call until the topics exist."""

    def elect_leader(self, wanted: ElectLeader, answer: OnReply, now_us: int) -> None:
        """Elect a leader for an operator. Answer NOT_CONTROLLER if this broker is not the active controller."""

    def for_controller(self, key: int) -> Handler | None:
        """Return the handler of an API that the controller answers, None if it does not answer that API."""

    def controller_id(self) -> BrokerId | None:
        """Return the id of the active controller, if known; None in KRaft, where clients cannot reach controllers."""

    def fetch_epoch(self) -> BrokerEpoch:
        """Return the broker epoch that this broker sends in its fetches as a follower (KIP-903), -1 in earlier eras."""
