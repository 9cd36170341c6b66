"""Clients of other projects log in to a live cluster; who does not know the password is told so, and gets nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kafka.errors import KafkaError as KafkaPythonError
from serving import Served, serving
from verdicts import expect_nothing_broken
from waiting import wait_for

pytestmark = pytest.mark.live

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
ALICE, WONDERLAND = "alice", "wonderland, of course=5"


def password_file(folder: Path, password: str = WONDERLAND) -> Path:
    file = folder / "alice.password"
    file.touch(mode=0o600)
    file.write_text(f"{password}\n")
    return file


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("users")
    with serving(folder, "--topic", "t:1:1", "--user", f"{ALICE}:{password_file(folder)}", brokers=1) as cluster:
        yield cluster


def librdkafka(served: Served, mechanism: str, user: str, password: str) -> bytes:
    """Empty: a record is written; else the error that the client tells."""
    told: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": served.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "error_cb": lambda error: told.append(str(error)),
            "log_level": 0,
        }
    )
    producer.produce(
        "t", b"from librdkafka", on_delivery=lambda error, message: told.append("" if not error else str(error))
    )
    while not told:
        producer.poll(0.1)
    producer.purge()
    return told[0].encode()


def kafka_python(served: Served, mechanism: str, user: str, password: str) -> bytes:
    try:
        producer = kafka.KafkaProducer(
            bootstrap_servers=served.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
            bootstrap_timeout_ms=1000,
        )
    except KafkaPythonError as error:
        return str(error).encode() or b"refused"
    producer.send("t", value=b"from kafka-python").get(20)
    producer.close()
    return b""


def aio(served: Served, mechanism: str, user: str, password: str) -> bytes:
    async def send() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=served.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
        )
        try:
            await producer.start()
            await producer.send_and_wait("t", b"from aiokafka")
        finally:
            await producer.stop()

    try:
        asyncio.run(send())
    except AioKafkaError as error:
        return str(error).encode() or b"refused"
    return b""


CLIENTS = pytest.mark.parametrize("client", [librdkafka, kafka_python, aio])


@pytest.mark.soak
@CLIENTS
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_that_knows_the_password_writes(served: Served, client: Any, mechanism: str) -> None:
    assert client(served, mechanism, ALICE, WONDERLAND) == b""


@pytest.mark.soak
@CLIENTS
@pytest.mark.parametrize("mechanism, user, password", [("PLAIN", ALICE, "wrong"), ("SCRAM-SHA-256", "bob", WONDERLAND)])
def test_a_client_that_does_not_is_refused(
    served: Served, client: Any, mechanism: str, user: str, password: str
) -> None:
    assert client(served, mechanism, user, password) != b""


def test_a_user_that_an_admin_client_adds_can_log_in(served: Served) -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": ALICE}
    admin = AdminClient({"bootstrap.servers": served.bootstrap, **login, "sasl.password": WONDERLAND})
    sha_512 = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    added: Any = admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("carol", sha_512, b"rabbit", b"a salt")]
    )
    assert added["carol"].result(20) is None
    # The controller's answer may come before the broker has applied the record, as in Kafka.
    assert wait_for(lambda: _mechanisms(admin, "carol")) == [str(sha_512.mechanism)]
    assert librdkafka(served, "SCRAM-SHA-512", "carol", "rabbit") == b""
    assert _mechanisms(admin, "nobody") is None


def _mechanisms(admin: AdminClient, user: str) -> list[str] | None:
    """None: the broker knows no such user."""
    described: Any = admin.describe_user_scram_credentials([user])
    try:
        return [str(one.mechanism) for one in described[user].result(20).scram_credential_infos]
    except KafkaException as error:
        assert "does not exist" in str(error)
        return None


@pytest.mark.soak
def test_with_processes_the_nodes_know_each_other_and_clients_log_in(tmp_path: Path) -> None:
    user = f"{ALICE}:{password_file(tmp_path)}"
    with serving(tmp_path, "--processes", "--topic", "t:1:2", "--user", user, brokers=2) as cluster:
        assert librdkafka(cluster, "SCRAM-SHA-256", ALICE, WONDERLAND) == b""
        assert librdkafka(cluster, "SCRAM-SHA-256", ALICE, "wrong") != b""
        cluster.stop()
    expect_nothing_broken(cluster.summary)
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "alice.password":
            assert WONDERLAND.encode() not in file.read_bytes(), file
