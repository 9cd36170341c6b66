"""Settings of a `client.properties` file: Kafka's keys, and errors that show no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.watch.client_properties import SettingsInvalid, read_security

SECRET = "hunter2"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'sasl.jaas.config={MODULE} required \\\n  username="alice" password="{SECRET}";\n'


def test_a_file_as_kafkas_tools_read_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"# ours\nsecurity.protocol : SASL_SSL\nsasl.mechanism=PLAIN\nclient.dns.lookup=x\n{JAAS}")
    found = read_security(file)
    assert found.protocol == "SASL_SSL" and found.tls is not None and found.tls.check_hostname
    assert found.sasl is not None and (found.sasl.username, found.sasl.password) == ("alice", SECRET)
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"security.protocol={SECRET}", "security.protocol"),
        (f"security.protocol=SASL_SSL\n{JAAS}", "GSSAPI"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN", "no username and password"),
        (
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=x password={SECRET};",
            "no username",
        ),
        (f"security.protocol=SSL\nssl.truststore.location=/x\nssl.truststore.password={SECRET}", "JKS"),
        ("security.protocol=SSL\nssl.truststore.location=/none\nssl.truststore.type=PEM", "trust store"),
        (
            f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=/none\nssl.key.password={SECRET}",
            "key",
        ),
        (f"password=\\u12{SECRET}", "invalid \\u escape"),
    ],
)
def test_settings_that_cannot_be_used(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    with pytest.raises(SettingsInvalid) as invalid:
        read_security(file)
    assert said in str(invalid.value)
    assert SECRET not in f"{invalid.value} {invalid.value.fix}"
