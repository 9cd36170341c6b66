"""`highwater serve --listener`: more listeners of each broker, or one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.security import OPEN, ListenerSecurity, ServerListener, TlsFiles
from scenarios.serve.access import AccessRefused
from scenarios.serve.listeners import listeners_of

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
        (["PLAINTEXT"], r"wants \[NAME=\]PROTOCOL:PORT, for example"),
        (["PLAINTEXT:0"], r"wants \[NAME=\]PROTOCOL:PORT, for example"),
        (["A B=PLAINTEXT:29092"], r"wants \[NAME=\]PROTOCOL:PORT, for example"),
        (["GSSAPI:29092"], "GSSAPI is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (["SASL_SSL:29092"], "there is a SASL_SSL already; name it: NAME=SASL_SSL:29092"),
        (["SSL:29092", "SSL:39092"], "there is a SSL already"),
        (["CONTROLLER=SSL:29092"], "there is a CONTROLLER already"),
        (["SSL:19093"], "ports 19093 to 19094, one of each broker, meet those of SASL_SSL, 19092 to 19093"),
        (["SSL:29092", "PLAINTEXT:29091"], "meet those of SSL"),
        (["SSL:65535"], "2 brokers need as many ports, up to 65535"),
    ],
)
def test_odd_input_is_refused_with_its_reason(wishes: list[str], told: str) -> None:
    with pytest.raises(AccessRefused, match=told):
        parsed(*wishes)


def test_a_listener_has_nothing_that_the_first_lacks() -> None:
    with pytest.raises(AccessRefused, match="there is no certificate; add --tls"):
        parsed("SSL:29092", first=OPEN)
    with pytest.raises(AccessRefused, match="there is no user who could log in; add --user"):
        parsed("SASL_PLAINTEXT:29092", first=OPEN)


def test_brokers_of_the_zookeeper_era_have_one_listener() -> None:
    with pytest.raises(AccessRefused, match="choose another --profile"):
        parsed("PLAINTEXT:29092", in_zookeeper_era=True)
