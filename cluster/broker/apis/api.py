"""The declaration in a file `api_NN_name.py`: one API that brokers answer, by Kafka's key.

    API = Api(key=LIST_GROUPS, highest={"0.10": 0, ..., "4.1": 5}, serve=ListGroups)

`cluster/broker/api_table.py` collects these declarations from the files of this folder and of those in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cluster.authorization.authorizer import Access
from cluster.broker.apis.internal_topics import CoordinatorTopic
from cluster.broker.control_planes.plane import ControlPlane, ZooKeeperParts
from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.broker.replicas.blocking_logs import BlockingLogs
from cluster.broker.replicas.changes import ReplicaChanges
from cluster.broker.replicas.fetch_sessions import FetchSessions
from cluster.broker.replicas.manager import ReplicaManager
from cluster.broker.replicas.record_deletion import RecordDeletion
from cluster.config import BrokerConfig
from cluster.dynamic_settings import RunningConfig
from cluster.groups.service import GroupService
from cluster.messages.admin.broker_description import OwnKey
from cluster.outbox import Outbox
from cluster.protocol.versions import VERSIONS
from cluster.quotas.client_quotas import ClientQuotas
from cluster.server.accepted_connections import AcceptedConnections
from cluster.server.cpu import HandlerTime
from cluster.server.responder import Handler, Responder
from cluster.transactions.service import TransactionService
from cluster.wall_clock import WallClock
from replica.log.broker_logs import BrokerLogs
from replica.rules import Rules
from replica.trace.events import Recorder

Ranges = Mapping[int, tuple[int, int]]
Values = dict[str, object]
"""Fields of a response, or of a structure in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """The parts of a broker that its APIs use; each handler takes those it needs.

    running: `config`, as it is now
    logs: with the work of a request on them apart, where it takes long     directories: the same logs, by directory
    works_apart: see BrokerCore     offered: API key -> (lowest, highest version) of what this broker offers
    """

    identity: BrokerIdentity
    config: BrokerConfig
    running: RunningConfig
    rules: Rules
    own_keys: Sequence[OwnKey]
    outbox: Outbox
    connections: AcceptedConnections
    responder: Responder
    handler_time: HandlerTime
    client_quotas: ClientQuotas
    access: Access
    recorder: Recorder
    clock: WallClock
    works_apart: bool
    plane: ControlPlane
    cache: MetadataCache
    replicas: ReplicaManager
    deletion: RecordDeletion
    changes: ReplicaChanges
    logs: BlockingLogs
    directories: BrokerLogs
    fetch_sessions: FetchSessions
    groups: GroupService
    offsets_topic: CoordinatorTopic
    transactions: TransactionService
    transactions_topic: CoordinatorTopic
    offered: Callable[[], Ranges]


Serve = Callable[[BrokerParts], Handler | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One API. Its versions are in cluster/protocol/versions.py, their changes in the file's docstring.

    highest: release -> highest version that its brokers offer clients; a release that is not named lacks the API.
        Each column of Kafka's history is the last patch of its release; from 3.3 on it is a KRaft broker.
    serve: makes the handler in one broker; None: this broker does not answer it
    offered_from: the lowest version on offer, where that is not the lowest that is answered
    """

    key: int
    highest: Mapping[str, int]
    serve: Serve
    offered_from: int | None = None

    def offered(self, release: str) -> tuple[int, int] | None:
        """(lowest, highest version) that a broker of a release offers clients, None where it lacks the API.

        The lowest versions are those of 4.0 and later (KIP-896) in every era.
        """
        newest = self.highest.get(release)
        if newest is None:
            return None
        low, high = VERSIONS[self.key]
        return low if self.offered_from is None else self.offered_from, min(high, max(newest, low))


def answered_by_controller(key: int, otherwise: Serve = lambda broker: None) -> Serve:
    """`serve` of what the controller answers, by way of this broker. otherwise: where it does not"""
    return lambda broker: broker.plane.for_controller(key) or otherwise(broker)


def in_zookeeper_era(make: Callable[[BrokerParts, ZooKeeperParts], Handler]) -> Serve:
    """`serve` of what only brokers of that era answer."""

    def serve(broker: BrokerParts) -> Handler | None:
        return None if broker.plane.zookeeper is None else make(broker, broker.plane.zookeeper)

    return serve
