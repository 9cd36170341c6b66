"""The interface between a broker and the modules of this package, which define the handlers of its APIs.

A module maps Kafka's API keys to its handlers:

    APIS: Final[Mapping[int, Serve]] = {versions.LIST_GROUPS: ListGroupsHandler}

`cluster/broker/api_table.py` maps API keys to modules; `offered.py` has the version range of each API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.broker.metadata.lifecycle import BrokerBase

if TYPE_CHECKING:
    from cluster.authorization.authorizer import Access
    from cluster.broker.apis.coordinators import Coordinators
    from cluster.broker.apis.injections import Injections
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
"""Values by field name, of a response or of a structure inside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """The parts of a broker that the handlers of its APIs use.

    Attributes:
        deletion: returns the handler of DeleteRecords.
        logs: runs log operations for requests without blocking the broker.
        directories: the broker's logs, by log directory.
        works_apart: see BrokerTimes.
        offered: returns (lowest, highest version) by API key.
    """

    base: BrokerBase
    own_keys: Callable[[], Sequence[OwnKey]]
    connections: AcceptedConnections
    responder: Responder
    handler_time: HandlerTime
    client_quotas: ClientQuotas
    access: Access
    injections: Injections
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


class ApiHandler:
    """Base class of API handlers. `_answer` encodes and sends the response to a request."""

    def __init__(self, broker: BrokerParts) -> None:
        self._broker = broker
        self._cache = broker.base.cache
        self._answer = broker.responder.answer


Serve = Callable[[BrokerParts], "Handler | None"]
"""Returns a broker's handler of an API, or None if that broker does not answer it."""


def answered_by_controller(key: int, otherwise: Serve = lambda broker: None) -> Serve:
    """Return a function that creates an API's handler: one that asks the controller, else that of `otherwise`."""
    return lambda broker: broker.plane.for_controller(key) or otherwise(broker)


def in_zookeeper_era(make: Callable[[BrokerParts, ZooKeeperParts], Handler]) -> Serve:
    """Return a function that creates the handler of an API that only brokers of the ZooKeeper era answer."""

    def serve(broker: BrokerParts) -> Handler | None:
        return None if broker.plane.zookeeper is None else make(broker, broker.plane.zookeeper)

    return serve
