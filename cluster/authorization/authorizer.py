"""Applies the ACLs in the metadata (controller/access.py) to clients. Source: StandardAuthorizer, AuthHelper

Nodes of the cluster, and a scenario's own clients, are allowed everything.

Differs from Kafka: there a broker is a principal like any other, usually one of the super users.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from cluster.config import BrokerConfig
from cluster.node import ConnectionId
from cluster.security import ListenerSecurity
from cluster.server.accepted_connections import AcceptedConnections
from controller.access import CLUSTER_NAME, SUPPORTED, Operation, ResourceType
from controller.image import MetadataImage

HARDCODED: Final = "hardcode"
"""A resource name for a check on any resource: a client that is allowed the operation on this name passes.

Source: Authorizer.authorizeByResourceType
"""


class Client(NamedTuple):
    """An outside client: its principal as `User:name`, and its address without the port."""

    principal: str
    host: str


class Authorizer:
    """The authorizer of one node.

    Args:
        super_users: principals that may do everything, as `User:name`.
        otherwise: True if everything is allowed on a resource without ACLs.
    """

    __slots__ = ("_image", "_otherwise", "_super_users")

    def __init__(self, super_users: tuple[str, ...], image: Callable[[], MetadataImage], *, otherwise: bool) -> None:
        self._super_users = super_users
        self._image = image
        self._otherwise = otherwise

    @property
    def image(self) -> MetadataImage:
        return self._image()

    def allows(self, client: Client, operation: Operation, kind: ResourceType, name: str) -> bool:
        if client.principal in self._super_users:
            return True
        acls = self._image().acls
        return acls.allow(client.principal, client.host, operation, kind, name, otherwise=self._otherwise)

    def allows_some(self, client: Client, operation: Operation, kind: ResourceType) -> bool:
        """Return True if the client is allowed the operation on at least one resource of this type."""
        if self.allows(client, operation, kind, HARDCODED):
            return True
        return self._image().acls.allow_some(client.principal, client.host, operation, kind)

    def operations(self, client: Client, kind: ResourceType, name: str) -> int:
        """Return the allowed operations as a bit field. Source: AuthHelper.authorizedOperations"""
        return sum(1 << item for item in SUPPORTED[kind] if self.allows(client, item, kind, name))


class Access:
    """The permissions of the connections to one broker.

    Differs from Kafka: without an authorizer, Kafka trusts any client that claims to be a broker. Here the trace would
    attribute the client's actions to that broker.

    Attributes:
        authorizer: None if clients may do everything except what only nodes do (CLUSTER_ACTION).
        client: returns the outside client of a connection, None for a node.
    """

    __slots__ = ("_client", "authorizer", "is_on")

    def __init__(self, authorizer: Authorizer | None, client: Callable[[ConnectionId], Client | None]) -> None:
        self.authorizer = authorizer
        self.is_on = authorizer is not None
        self._client = client

    def client(self, connection: ConnectionId) -> Client | None:
        return self._client(connection)

    def allows(self, connection: ConnectionId, operation: Operation, kind: ResourceType, name: str) -> bool:
        client = self._client(connection)
        if client is None:
            return True
        if self.authorizer is None:
            return operation is not Operation.CLUSTER_ACTION
        return self.authorizer.allows(client, operation, kind, name)

    def allows_topic(self, connection: ConnectionId, operation: Operation, name: str) -> bool:
        return self.allows(connection, operation, ResourceType.TOPIC, name)

    def allows_on_cluster(self, connection: ConnectionId, operation: Operation) -> bool:
        return self.allows(connection, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def access_to(
    security: ListenerSecurity,
    config: BrokerConfig,
    image: Callable[[], MetadataImage],
    connections: AcceptedConnections,
) -> Access:
    """Return the permissions of a broker's connections. If `security.super_users` is None, there is no authorizer."""

    def client(connection: ConnectionId) -> Client | None:
        if connections.is_of_node(connection) or connection not in connections:
            return None
        return Client(connections.principal(connection), connections.address(connection))

    if security.super_users is None:
        return Access(None, client)
    otherwise = config.allow_everyone_if_no_acl_found
    return Access(Authorizer(security.super_users, image, otherwise=otherwise), client)
