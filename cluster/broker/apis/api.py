"""How a module here declares the APIs that brokers answer, by Kafka's key.

    APIS: Final[Mapping[int, Serve]] = {LIST_GROUPS: ListGroupsHandler}

`cluster/broker/api_table.py` says which module has which key; `offered.py` has the versions on offer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.broker.metadata.lifecycle import BrokerBase

if TYPE_CHECKING:
    from cluster.authorization.authorizer import Access
    from cluster.broker.apis.coordinators import Coordinators
    from cluster.broker.apis.offered import Ranges
    from cluster.broker.control_planes.plane import ControlPlane, ZooKeeperParts
    from cluster.broker.replicas.blocking_logs import BlockingLogs
    from cluster.broker.replicas.changes import ReplicaChanges
    from cluster.broker.replicas.fetch_sessions import FetchSessions
    from cluster.broker.replicas.manager import ReplicaManager
    from cluster.broker.replicas.record_deletion import RecordDeletion
    from cluster.groups.service import GroupService
    from cluster.messages.admin.broker_description import OwnKey
    from cluster.quotas.client_quotas import ClientQuotas
    from cluster.server.accepted_connections import AcceptedConnections
    from cluster.server.request_handlers import HandlerTime
    from cluster.server.responder import Handler, Responder
    from cluster.transactions.service import TransactionService
    from replica.log.broker_logs import BrokerLogs

Values = dict[str, object]
"""Fields of a response, or of a structure in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """The parts of a broker that its APIs use; each handler takes those it needs.

    logs: with the work of a request on them apart, where it takes long     directories: the same logs, by directory
    works_apart: see BrokerTimes     offered: API key -> (lowest, highest version) of what this broker offers
    """

    base: BrokerBase
    own_keys: Callable[[], Sequence[OwnKey]]
    connections: AcceptedConnections
    responder: Responder
    handler_time: HandlerTime
    client_quotas: ClientQuotas
    access: Access
    works_apart: bool
    plane: ControlPlane
    replicas: ReplicaManager
    deletion: Callable[[], RecordDeletion]
    changes: ReplicaChanges
    logs: BlockingLogs
    directories: BrokerLogs
    fetch_sessions: FetchSessions
    coordinators: Coordinators
    offered: Callable[[], Ranges]

    @property
    def groups(self) -> GroupService:
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionService:
        return self.coordinators.transactions


Serve = Callable[[BrokerParts], "Handler | None"]
"""Makes the handler of one API in one broker; None: this broker does not answer it."""


def answered_by_controller(key: int, otherwise: Serve = lambda broker: None) -> Serve:
    """`serve` of what the controller answers, by way of this broker. otherwise: where it does not"""
    return lambda broker: broker.plane.for_controller(key) or otherwise(broker)


def in_zookeeper_era(make: Callable[[BrokerParts, ZooKeeperParts], Handler]) -> Serve:
    """`serve` of what only brokers of that era answer."""

    def serve(broker: BrokerParts) -> Handler | None:
        return None if broker.plane.zookeeper is None else make(broker, broker.plane.zookeeper)

    return serve
