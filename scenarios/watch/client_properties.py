"""Reads the security settings of a `client.properties` file, as Kafka's own tools use it.

Supported keys are security.protocol, sasl.mechanism (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), sasl.jaas.config, and for
TLS a trust store and a key store in PEM. Other keys are ignored.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_JAAS = re.compile(r"(\w+)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s;\"']+)")
_TO_PEM = "keytool -importkeystore -srckeystore STORE -destkeystore s.p12; openssl pkcs12 -in s.p12"


class SettingsInvalid(ValueError):
    """Raised if the settings cannot be used. `fix` is a remedy. Neither text contains a password."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class SaslSettings:
    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Security:
    """The security settings of a client. `tls` and `sasl` are None if security.protocol does not use them."""

    protocol: str = "PLAINTEXT"
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    sasl: SaslSettings | None = None


def read_security(file: Path) -> Security:
    """Read the security settings in a properties file. Raises SettingsInvalid."""
    try:
        found = javaproperties.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsInvalid(f"{file} cannot be read: {error.strerror}", "name a client properties file") from error
    except ValueError as error:
        raise SettingsInvalid(  # without the error's text, which may have a password
            f"{file} is not UTF-8 or has an invalid \\u escape",
            "write each backslash twice, and save the file as UTF-8",
        ) from error
    return security_of(found)


def security_of(found: Mapping[str, str]) -> Security:
    """Return the security settings in a client's properties. Raises SettingsInvalid."""
    protocol = found.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise SettingsInvalid("security.protocol has an unknown value", f"choose one of {', '.join(PROTOCOLS)}")
    tls = _tls(found) if protocol.endswith("SSL") else None
    return Security(protocol, tls, _sasl(found) if protocol.startswith("SASL") else None)


# --------------------------------------------------------------------------------------------------------------- SASL


def _sasl(found: Mapping[str, str]) -> SaslSettings:
    mechanism = found.get("sasl.mechanism", "GSSAPI").strip().upper()
    if mechanism not in MECHANISMS:
        raise SettingsInvalid(
            f"sasl.mechanism={mechanism if mechanism.isascii() and mechanism.isprintable() else '?'} is not supported",
            f"choose one of {', '.join(MECHANISMS)} (Kafka's default is GSSAPI)",
        )
    options = {key: _unquoted(value) for key, value in _JAAS.findall(found.get("sasl.jaas.config", ""))}
    if not options.get("username") or "password" not in options:
        raise SettingsInvalid(
            "sasl.jaas.config has no username and password",
            'write sasl.jaas.config=...LoginModule required username="NAME" password="PASSWORD";',
        )
    return SaslSettings(mechanism, options["username"], options["password"])


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value[:1] in ('"', "'") else value


# ---------------------------------------------------------------------------------------------------------------- TLS


def _tls(found: Mapping[str, str]) -> ssl.SSLContext:
    _must_be_pem(found, "truststore")
    _must_be_pem(found, "keystore")
    trusted, inline = found.get("ssl.truststore.location"), found.get("ssl.truststore.certificates")
    try:
        context = ssl.create_default_context(cafile=trusted, cadata=inline)
    except (ssl.SSLError, OSError, ValueError) as error:
        why = f"the trust store cannot be read ({_why(error)})"
        raise SettingsInvalid(why, "set ssl.truststore.location to a PEM file of certificates") from error
    if found.get("ssl.endpoint.identification.algorithm", "https").strip() == "":
        context.check_hostname = False
    own = found.get("ssl.keystore.location")
    if own is not None:
        password = found.get("ssl.key.password") or found.get("ssl.keystore.password") or ""
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(own, password=lambda: password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise SettingsInvalid(
                f"the key store cannot be read ({_why(error)})",
                "use a PEM file with the key and its certificates, and set ssl.key.password if the key has a password",
            ) from error
    return context


def _must_be_pem(found: Mapping[str, str], store: str) -> None:
    kind = found.get(f"ssl.{store}.type", "JKS").strip().upper()
    location = found.get(f"ssl.{store}.location")
    if location is not None and kind != "PEM":
        raise SettingsInvalid(
            f"the {store} is {kind if kind.isalnum() else 'of another type'}, but only PEM can be read",
            f"run {_TO_PEM} > s.pem, then set ssl.{store}.type=PEM",
        )


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "not PEM"
    return error.strerror or "no file" if isinstance(error, OSError) else "not PEM"
