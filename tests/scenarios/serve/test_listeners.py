"""`highwater serve --listener`, `--advertise`: listeners of brokers and where they send clients, or one clear error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cluster.security import OPEN, ListenerSecurity, ServerListener, TlsFiles
from controller.metadata import Endpoint
from scenarios.serve.access import AccessRefused, advertising, hosts_of, listeners_of

ALL = ListenerSecurity({"alice": "secret"}, (), tls=TlsFiles(Path("server.pem"), Path("server.key")))


def parsed(*wishes: str, first: ListenerSecurity = ALL, in_zookeeper_era: bool = False) -> tuple[ServerListener, ...]:
    return listeners_of(wishes, brokers=["b1", "b2"], first_port=19092, first=first, in_zookeeper_era=in_zookeeper_era)


def test_a_listener_has_a_name_a_protocol_and_a_port_of_each_broker() -> None:
    assert parsed("PLAINTEXT:29092", "inside=ssl:39092") == (
        ServerListener("PLAINTEXT", "PLAINTEXT", {"b1": 29092, "b2": 29093}),
        ServerListener("INSIDE", "SSL", {"b1": 39092, "b2": 39093}),
    )


@pytest.mark.parametrize(
    "wishes, told",
    [
        (["PLAINTEXT"], r"must be \[NAME=\]PROTOCOL:PORT, for example"),
        (["PLAINTEXT:0"], r"must be \[NAME=\]PROTOCOL:PORT, for example"),
        (["A B=PLAINTEXT:29092"], r"must be \[NAME=\]PROTOCOL:PORT, for example"),
        (["GSSAPI:29092"], "GSSAPI is not a protocol; choose one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (["SASL_SSL:29092"], "the name SASL_SSL is used or reserved; choose another: NAME=SASL_SSL:29092"),
        (["SSL:29092", "SSL:39092"], "the name SSL is used or reserved"),
        (["CONTROLLER=SSL:29092"], "the name CONTROLLER is used or reserved"),
        (["internal=SSL:29092"], "the name INTERNAL is used or reserved"),
        (["SSL:19093"], "2 brokers need ports 19093 to 19094, but SASL_SSL has 19092 to 19093; choose another port"),
        (["SSL:29092", "PLAINTEXT:29091"], "but SSL has 29092 to 29093"),
        (["SSL:65535"], "2 brokers need ports 65535 to 65536, but the highest port is 65535; choose a lower one"),
    ],
)
def test_odd_input_is_refused_with_its_reason(wishes: list[str], told: str) -> None:
    with pytest.raises(AccessRefused, match=told):
        parsed(*wishes)


def test_a_listener_has_nothing_that_the_first_lacks() -> None:
    with pytest.raises(AccessRefused, match="needs a certificate; add --tls"):
        parsed("SSL:29092", first=OPEN)
    with pytest.raises(AccessRefused, match="needs a user who can log in; add --user"):
        parsed("SASL_PLAINTEXT:29092", first=OPEN)


def test_brokers_of_the_zookeeper_era_have_one_listener() -> None:
    with pytest.raises(AccessRefused, match="choose a later --profile"):
        parsed("PLAINTEXT:29092", in_zookeeper_era=True)


def sent_to(*wishes: str, host: str = "127.0.0.1", in_zookeeper_era: bool = False) -> ListenerSecurity:
    """--advertise beside a listener INSIDE."""
    return advertising(
        wishes,
        brokers=["b1", "b2"],
        host=host,
        first_port=19092,
        security=replace(ALL, listeners=parsed("inside=PLAINTEXT:29092")),
        in_zookeeper_era=in_zookeeper_era,
    )


def test_clients_of_a_listener_are_sent_to_the_address_that_is_advertised_for_it() -> None:
    security = sent_to("kafka.example.com:9092", "INSIDE=10.0.0.7")
    assert security.endpoints("b2", "127.0.0.1", 19093) == (
        Endpoint("SASL_SSL", "kafka.example.com", 9093, "SASL_SSL"),
        Endpoint("INSIDE", "10.0.0.7", 29093, "PLAINTEXT"),
    )
    assert security.bound("b2", "127.0.0.1", 19093) == (
        Endpoint("SASL_SSL", "127.0.0.1", 19093, "SASL_SSL"),
        Endpoint("INSIDE", "127.0.0.1", 29093, "PLAINTEXT"),
    )


def test_where_nothing_is_advertised_the_first_listener_is_that_of_brokers_and_clients() -> None:
    security = sent_to("inside=[::1]:39092")
    assert security.clients_first == ""
    assert security.endpoints("b1", "127.0.0.1", 19092) == (Endpoint("INSIDE", "::1", 39092, "PLAINTEXT"),)


def test_brokers_may_listen_everywhere_where_each_listener_has_an_address_for_clients() -> None:
    security = sent_to("SASL_SSL=kafka.example.com", "INSIDE=kafka.inside", host="0.0.0.0")
    assert security.advertised == {"b1": ("kafka.example.com", 19092), "b2": ("kafka.example.com", 19093)}
    with pytest.raises(AccessRefused, match=r"add --advertise INSIDE=HOST"):
        sent_to("kafka.example.com", host="0.0.0.0")


@pytest.mark.parametrize(
    "wishes, told",
    [
        (["kafka.example.com:0"], r"must be \[NAME=\]HOST\[:PORT\], for example"),
        (["http://kafka.example.com"], r"must be \[NAME=\]HOST\[:PORT\], for example"),
        (["::1"], r"must be \[NAME=\]HOST\[:PORT\], for example"),
        (["[::1:9092"], r"must be \[NAME=\]HOST\[:PORT\], for example"),
        (["[::::]"], ":::: is not an IP address"),
        (["10.0.0"], "10.0.0 is not an IP address"),
        (["0.0.0.0:9092"], "no client can connect to 0.0.0.0"),
        (["[::]:9092"], "no client can connect to ::"),
        (["OUTSIDE=kafka"], "there is no listener OUTSIDE; choose one of SASL_SSL, INSIDE"),
        (["kafka", "sasl_ssl=other"], "SASL_SSL has two --advertise options"),
        (["kafka:65535"], "2 brokers need ports 65535 to 65536, but the highest port is 65535; choose a lower one"),
    ],
)
def test_an_odd_address_is_refused_with_its_reason(wishes: list[str], told: str) -> None:
    with pytest.raises(AccessRefused, match=told):
        sent_to(*wishes)


def test_brokers_of_the_zookeeper_era_have_one_address() -> None:
    assert sent_to(in_zookeeper_era=True).advertised is None
    with pytest.raises(AccessRefused, match="choose a later --profile"):
        sent_to("kafka", in_zookeeper_era=True)


def test_a_certificate_is_for_all_names_by_which_clients_know_the_brokers() -> None:
    assert hosts_of("0.0.0.0", ["kafka:9092", "INSIDE=10.0.0.7"]) == ("127.0.0.1", "localhost", "kafka", "10.0.0.7")
    assert hosts_of("192.168.7.9", []) == ("192.168.7.9", "localhost")
