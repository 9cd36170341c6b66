"""Clients of other projects in a cluster whose rules say who may do what: admin clients set them, and all obey."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.errors import TopicAuthorizationFailedError
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from serving import Served, serving
from test_kafka_tools import TOOLS, Tools
from test_kafka_tools import pytestmark as needs_tools
from verdicts import expect_nothing_broken

from tests.waiting import wait_for

pytestmark = pytest.mark.live
PASSWORD = "open sesame"
ANY = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def options(folder: Path) -> list[str]:
    file = folder / "password"
    file.touch(mode=0o600)
    file.write_text(f"{PASSWORD}\n")
    users = [part for name in ("alice", "bob") for part in ("--user", f"{name}:{file}")]
    return [*users, "--authorize", "--super-user", "alice"]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, "--topic", "orders:1:1", *options(tmp_path), brokers=1) as cluster:
        yield cluster


def settings(served: Served, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": served.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
        "log_level": 0,
    }


def becomes(expected: str, outcome: Callable[[], str]) -> None:
    """Brokers follow the metadata log, and so learn of a rule after the controller has answered."""
    wait_for(outcome, holds=lambda found: found == expected)


def done(futures: Any) -> list[Any]:
    """What each came to: a result, or the name of the error."""
    found: list[Any] = []
    for future in futures.values():
        try:
            found.append(future.result(20))
        except KafkaException as error:
            found.append(error.args[0].name())
    return found


def rule(
    user: str,
    operation: AclOperation,
    kind: ResourceType = ResourceType.TOPIC,
    name: str = "orders",
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)


def written(served: Served, user: str, **more: Any) -> str:
    """Empty, or the name of the error."""
    told: list[str] = []
    producer = Producer({**settings(served, user), **more})
    producer.produce("orders", b"x", on_delivery=lambda error, message: told.append(error.name() if error else ""))
    producer.flush(20)
    producer.purge()
    return told[0]


def read(served: Served, user: str, group: str) -> str:
    """Of the first record, or the name of the first error."""
    group_settings = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings(served, user), **group_settings})
    consumer.subscribe(["orders"])
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None, "there was no answer"
            error = message.error()
            return error.name() if error else message.value().decode()
    except KafkaException as refused:
        return str(refused.args[0].name())
    finally:
        consumer.close()


def test_librdkafka_sets_rules_and_obeys_them(served: Served) -> None:
    alice, bob = AdminClient(settings(served, "alice")), AdminClient(settings(served, "bob"))
    assert written(served, "alice") == ""
    assert written(served, "bob") == "TOPIC_AUTHORIZATION_FAILED"
    assert written(served, "bob", **{"enable.idempotence": True}) != ""
    assert list(bob.list_topics(timeout=20).topics) == []
    denied = done(bob.create_acls([rule("bob", AclOperation.ALL)]))
    assert denied == ["CLUSTER_AUTHORIZATION_FAILED"]

    made = [
        rule("bob", AclOperation.WRITE),
        rule("bob", AclOperation.CREATE, name="bob-", pattern=ResourcePatternType.PREFIXED),
    ]
    assert done(alice.create_acls(made)) == [None, None]
    becomes("", lambda: written(served, "bob"))
    assert written(served, "bob", **{"enable.idempotence": True}) == ""
    assert list(bob.list_topics(timeout=20).topics) == ["orders"]
    created = done(bob.create_topics([NewTopic("bob-1", 1, 1), NewTopic("other", 1, 1)]))
    assert created == [None, "TOPIC_AUTHORIZATION_FAILED"]
    assert done(bob.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "orders")])) == [
        "TOPIC_AUTHORIZATION_FAILED"
    ]

    assert read(served, "bob", "g") == "GROUP_AUTHORIZATION_FAILED"
    assert done(alice.create_acls([rule("bob", AclOperation.READ, ResourceType.GROUP, "g")])) == [None]
    becomes("TOPIC_AUTHORIZATION_FAILED", lambda: read(served, "bob", "g"))
    assert done(alice.create_acls([rule("bob", AclOperation.READ)])) == [None]
    becomes("x", lambda: read(served, "bob", "g"))

    found: Any = alice.describe_acls(ANY).result(20)
    assert len(found) == 4
    assert done(alice.create_acls([rule("bob", AclOperation.WRITE, permission=AclPermissionType.DENY)])) == [None]
    becomes("TOPIC_AUTHORIZATION_FAILED", lambda: written(served, "bob"))
    (deleted,) = done(alice.delete_acls([ANY]))
    assert len(deleted) == 5
    assert alice.describe_acls(ANY).result(20) == []
    served.stop()
    expect_nothing_broken(served.summary)


@pytest.mark.soak
def test_a_transaction_of_librdkafka_needs_its_id(served: Served) -> None:
    alice = AdminClient(settings(served, "alice"))

    def commit() -> str:
        producer = Producer({**settings(served, "bob"), "transactional.id": "tx"})
        try:
            producer.init_transactions(20)
            producer.begin_transaction()
            producer.produce("orders", b"x")
            producer.commit_transaction(20)
        except KafkaException as error:
            return str(error.args[0].name())
        return ""

    assert commit() == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    ids = ResourceType.TRANSACTIONAL_ID
    done(alice.create_acls([rule("bob", AclOperation.WRITE, ids, "t", ResourcePatternType.PREFIXED)]))
    becomes("_INCONSISTENT", commit)  # librdkafka's word for a transaction of which a record was refused
    done(alice.create_acls([rule("bob", AclOperation.WRITE)]))
    becomes("", commit)


@pytest.mark.soak
def test_clients_in_python_are_told_the_same(served: Served) -> None:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_password": PASSWORD}
    at: dict[str, Any] = {"bootstrap_servers": served.bootstrap, **login}

    async def send(user: str) -> None:
        producer = aiokafka.AIOKafkaProducer(**at, sasl_plain_username=user)
        await producer.start()
        try:
            await producer.send_and_wait("orders", b"x")
        finally:
            await producer.stop()

    asyncio.run(send("alice"))
    with pytest.raises((TopicAuthorizationFailedError, AioKafkaError)):
        asyncio.run(send("bob"))
    admin = kafka.KafkaAdminClient(**at, sasl_plain_username="alice")
    made = kafka.admin.ACL(
        principal="User:bob",
        host="*",
        operation=kafka.admin.ACLOperation.WRITE,
        permission_type=kafka.admin.ACLPermissionType.ALLOW,
        resource_pattern=kafka.admin.ResourcePattern(kafka.admin.ResourceType.TOPIC, "orders"),
    )
    assert len(admin.create_acls([made])["succeeded"]) == 1
    asyncio.run(send("bob"))
    wanted = kafka.admin.ACLFilter(
        principal=None,
        host=None,
        operation=kafka.admin.ACLOperation.ANY,
        permission_type=kafka.admin.ACLPermissionType.ANY,
        resource_pattern=kafka.admin.ResourcePatternFilter(
            kafka.admin.ResourceType.ANY, None, kafka.admin.ACLResourcePatternType.ANY
        ),
    )
    found, _ = admin.describe_acls(wanted)
    assert [(one.principal, one.operation) for one in found] == [("User:bob", kafka.admin.ACLOperation.WRITE)]
    admin.close()


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_says_that_it_is_not_authorized(served: Served) -> None:
    login = [f"-X{key}={value}" for key, value in settings(served, "bob").items() if key.startswith(("sec", "sasl"))]
    kcat = ["kcat", "-b", served.bootstrap, *login]
    listed = subprocess.run([*kcat, "-L"], capture_output=True, text=True, timeout=60, check=True)
    assert "0 topics" in listed.stdout
    asked = [*kcat, "-C", "-t", "orders", "-e"]
    refused = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert "Topic authorization failed" in refused.stderr


@pytest.mark.soak
def test_with_processes_every_node_knows_the_rules(tmp_path: Path) -> None:
    with serving(tmp_path, "--processes", "--topic", "orders:1:2", *options(tmp_path), brokers=2) as cluster:
        assert written(cluster, "alice") == ""
        assert written(cluster, "bob") == "TOPIC_AUTHORIZATION_FAILED"
        alice = AdminClient(settings(cluster, "alice"))
        assert done(alice.create_acls([rule("bob", AclOperation.WRITE)])) == [None]
        becomes("", lambda: written(cluster, "bob", acks="all"))
        cluster.stop()
    expect_nothing_broken(cluster.summary)


# ------------------------------------------------------------------------------------------------------ Kafka's tools


@pytest.fixture
def acls(served: Served, tmp_path: Path) -> Any:
    """Runs kafka-acls as alice."""
    login = settings(served, "alice")
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    client = tmp_path / "alice.properties"
    client.write_text(
        f"security.protocol={login['security.protocol']}\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={jaas} username="alice" password="{PASSWORD}";\n'
    )
    tools = Tools(served, tmp_path)
    return lambda *arguments: tools.run(f"{TOOLS}.AclCommand", "--command-config", str(client), *arguments)


@pytest.mark.soak
@needs_tools[1]
def test_kafka_acls_adds_lists_and_removes_rules(acls: Any, served: Served) -> None:
    added = acls("--add", "--allow-principal", "User:bob", "--producer", "--topic", "orders")
    assert "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`" in added
    becomes("", lambda: written(served, "bob"))
    acls("--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "All", "--group", "*")
    listed = acls("--list")
    for line in (
        "(principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW)",
        "(principal=User:bob, host=*, operation=CREATE, permissionType=ALLOW)",
        "(principal=User:bob, host=10.0.0.1, operation=ALL, permissionType=DENY)",
    ):
        assert line in listed
    assert "GROUP" not in acls("--list", "--topic", "orders")
    matching = acls("--list", "--group", "g", "--resource-pattern-type", "match")
    assert "resourceType=GROUP, name=*, patternType=LITERAL" in matching
    acls("--remove", "--force", "--allow-principal", "User:bob", "--producer", "--topic", "orders")
    becomes("TOPIC_AUTHORIZATION_FAILED", lambda: written(served, "bob"))
