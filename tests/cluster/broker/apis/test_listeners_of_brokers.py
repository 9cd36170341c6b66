"""Several listeners of one broker: a client is sent on by the one that it came by, and is who it is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from acl_world import BOB, AclWorld, rule
from broker_world import B1, B2, batch
from sasl_world import ALICE, Client

from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.messages.admin.broker_description import own_keys
from cluster.protocol.api_00_produce import decode_produce_response
from cluster.protocol.api_01_fetch import FetchResponse
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.versions import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA
from cluster.security import ListenerSecurity, ServerListener
from controller.access import CLUSTER_NAME, Operation, ResourceType
from controller.metadata import Endpoint
from replica.errors import ErrorCode
from replica.ids import OFFSETS_TOPIC
from replica.rules import PROFILES

INSIDE, OUTSIDE = "INSIDE", "OUTSIDE"
"""Names of listeners beside the first, which has SASL."""
PLAINTEXT, SASL = "PLAINTEXT", "SASL_PLAINTEXT"
PORTS = {INSIDE: 29_092, OUTSIDE: 39_092}
NONE, NO_TOPIC = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED


class ListenersWorld(AclWorld):
    """b1 and b2 have all three listeners, b3 has not got INSIDE."""

    endpoints = (
        Endpoint(INSIDE, "b1", PORTS[INSIDE], PLAINTEXT),
        Endpoint(OUTSIDE, "b1.example", PORTS[OUTSIDE], SASL),
    )

    def __init__(self, root: Path, **config: str) -> None:
        super().__init__(root, **config)
        outside = Endpoint(OUTSIDE, "b2.example", PORTS[OUTSIDE] + 1, SASL)
        self.join(B2, endpoints=(Endpoint(INSIDE, "b2", PORTS[INSIDE] + 1, PLAINTEXT), outside))
        self.join(3, endpoints=(Endpoint(OUTSIDE, "b3.example", PORTS[OUTSIDE] + 2, SASL),))
        self.run(50)

    def make_security(self) -> ListenerSecurity:
        listeners = (ServerListener(INSIDE, PLAINTEXT, {}), ServerListener(OUTSIDE, SASL, {}))
        return replace(super().make_security(), listeners=listeners)

    def admin(self, listener: str) -> Client:
        """A client that may do everything."""
        client = self.client(listener)
        if listener != INSIDE:
            client.plain(ALICE)
        else:
            all_of = [(ResourceType.CLUSTER, CLUSTER_NAME), (ResourceType.TOPIC, "*"), (ResourceType.GROUP, "*")]
            self.allow(*(rule("ANONYMOUS", Operation.ALL, kind, name) for kind, name in all_of))
        return client


@pytest.fixture
def world(tmp_path: Path) -> ListenersWorld:
    world = ListenersWorld(tmp_path, **{"offsets.topic.replication.factor": "1"})
    world.create(B2)
    return world


ADDRESSES = {
    "": [(B1, "b1", 9092), (B2, "b2", 9092), (3, "b3", 9092)],
    INSIDE: [(B1, "b1", 29_092), (B2, "b2", 29_093)],
    OUTSIDE: [(B1, "b1.example", 39_092), (B2, "b2.example", 39_093), (3, "b3.example", 39_094)],
}
"""What clients are told, by the listener that they came by."""


@pytest.mark.parametrize("listener", ADDRESSES)
def test_metadata_names_brokers_by_the_listener_that_the_client_came_by(world: ListenersWorld, listener: str) -> None:
    answer = world.admin(listener).ask(METADATA, 12, topics=None)
    assert [(one.node_id, one.host, one.port) for one in answer.brokers] == ADDRESSES[listener]
    (topic,) = answer.topics
    assert [one.leader_id for one in topic.partitions] == [B2]


@pytest.mark.parametrize("listener", ADDRESSES)
def test_describe_cluster_does_so_too(world: ListenersWorld, listener: str) -> None:
    answer = world.admin(listener).ask(DESCRIBE_CLUSTER, 2, include_fenced_brokers=True)
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == ADDRESSES[listener]


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("listener", ADDRESSES)
def test_a_coordinator_is_named_by_it_too(world: ListenersWorld, listener: str, version: int) -> None:
    world.create(B2, topic=OFFSETS_TOPIC)
    assert coordinator(world.admin(listener), version) == (NONE, *ADDRESSES[listener][1])


@pytest.mark.parametrize("listener", ADDRESSES)
def test_a_coordinator_without_the_listener_is_not_available(world: ListenersWorld, listener: str) -> None:
    """source: KafkaApis.getCoordinator: the alive nodes of the listener are looked through"""
    world.create(3, topic=OFFSETS_TOPIC)
    nowhere = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
    found = coordinator(world.admin(listener), 4)
    assert found == (nowhere if listener == INSIDE else (NONE, *ADDRESSES[listener][2]))


def coordinator(client: Client, version: int) -> tuple[Any, ...]:
    """Error, id, host and port."""
    if version < 4:
        answer = client.ask(FIND_COORDINATOR, version, key="g", key_type=0)
    else:
        (answer,) = client.ask(FIND_COORDINATOR, version, key_type=0, coordinator_keys=["g"]).coordinators
    return answer.error_code, answer.node_id, answer.host, answer.port


@pytest.mark.parametrize("listener", ADDRESSES)
def test_a_leader_that_is_named_with_an_error_is_too(world: ListenersWorld, listener: str) -> None:
    """KIP-951"""
    caller = world.admin(listener).caller
    caller.produce(batch("a"), version=10)
    world.run(50)
    hints = [decode_produce_response(10, caller.answers[-1]).node_endpoints]
    caller.fetch(0, version=16)
    world.run(50)
    answer: FetchResponse = decode_fetch_response(16, caller.answers[-1])
    hints.append(answer.node_endpoints)
    for nodes in hints:
        assert [(one.node_id, one.host, one.port) for one in nodes] == ADDRESSES[listener][1:2]


def test_a_broker_describes_where_it_listens_and_where_clients_are_sent() -> None:
    """The first listener is that of brokers alone where clients find it at another address."""
    security = ListenerSecurity({}, (), advertised={"b1": ("kafka.example", 9092)})
    identity = BrokerIdentity(
        1, "b1", UUID(int=1), "10.0.0.1", 19_092, None,
        endpoints=security.endpoints("b1", "10.0.0.1", 19_092), bound=security.bound("b1", "10.0.0.1", 19_092),
    )  # fmt: skip
    told = {key.name: key.value for key in own_keys(identity, PROFILES["kafka-4.1"], [], {})}
    assert told["listeners"] == "INTERNAL://10.0.0.1:19092,PLAINTEXT://10.0.0.1:19092"
    assert told["advertised.listeners"] == "INTERNAL://10.0.0.1:19092,PLAINTEXT://kafka.example:9092"
    assert told["inter.broker.listener.name"] == "INTERNAL"
    assert told["listener.security.protocol.map"] == "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"


def test_each_listener_has_its_own_principal(world: ListenersWorld) -> None:
    """With rules: the same client may write by one listener and not by the other."""
    world.create(B1, topic="u")
    world.allow(rule(BOB, Operation.WRITE, name="u"))
    clients = {listener: world.client(listener) for listener in ADDRESSES}
    for listener, client in clients.items():
        if listener != INSIDE:
            client.plain(BOB)
    assert {listener: client.principal for listener, client in clients.items()} == {
        "": "User:bob",
        INSIDE: "User:ANONYMOUS",
        OUTSIDE: "User:bob",
    }
    assert {listener: produced(client) for listener, client in clients.items()} == {
        "": NONE,
        INSIDE: NO_TOPIC,
        OUTSIDE: NONE,
    }
    world.allow(rule("ANONYMOUS", Operation.WRITE, name="u"))
    assert produced(clients[INSIDE]) is NONE


def produced(client: Client) -> ErrorCode:
    client.caller.produce(batch("a"), topic="u")
    client.world.run(50)
    error: ErrorCode = client.caller.produced().error
    return error


def test_who_has_not_logged_in_where_it_has_to_is_not_served(world: ListenersWorld) -> None:
    assert {listener: world.client(listener).is_served for listener in ADDRESSES} == {
        "": False,
        INSIDE: True,
        OUTSIDE: False,
    }
