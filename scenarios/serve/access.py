"""Parses the access options of `highwater serve`: users, super users, listeners, advertised addresses, certificates."""

from __future__ import annotations

import ipaddress
import re
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cluster.broker.metadata.lifecycle import BETWEEN_BROKERS
from cluster.live.sockets import EVERYWHERE, LOOPBACK
from cluster.live.tls import TlsFilesInvalid, server_context
from cluster.security import PROTOCOLS, Addresses, ListenerSecurity, ServerListener, TlsFiles

PASSWORD_BYTES_MAX = 1024
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class AccessRefused(Exception):
    """Raised if an option of `serve` cannot be applied. The message has the option, the reason and a remedy."""


def passwords_of(wishes: Sequence[str]) -> dict[str, str]:
    """Return the password of each user, by name.

    Args:
        wishes: values of `--user`, each NAME:PASSWORD-FILE.

    Raises:
        AccessRefused: a value is malformed, a name occurs twice, or a file cannot be used.
    """
    passwords: dict[str, str] = {}
    for wish in wishes:
        name, colon, file = wish.partition(":")
        if not (colon and name and file):
            raise AccessRefused(f"--user must be NAME:PASSWORD-FILE, for example alice:alice.password, not `{wish}`")
        if not name.isprintable():
            raise AccessRefused("--user: a name must have only printable characters")
        if name in passwords:
            raise AccessRefused(f"--user names `{name}` twice")
        passwords[name] = _password(name, Path(file))
    return passwords


def super_users_of(
    names: Sequence[str], *, authorizes: bool, in_zookeeper_era: bool, allows_unruled: bool
) -> tuple[str, ...] | None:
    """Return the super users as `User:name`, or None if brokers check no ACLs and all users may do everything.

    Args:
        names: values of `--super-user`.
        authorizes: True if brokers check ACLs (`--authorize`).
        allows_unruled: value of allow.everyone.if.no.acl.found. If it is True, any user can add the first ACL.

    Raises:
        AccessRefused: the options contradict each other, or no user could add the first ACL.
    """
    if not authorizes:
        if names:
            raise AccessRefused("--super-user needs --authorize: without it all users may do everything")
        return None
    if in_zookeeper_era:
        raise AccessRefused(
            "--authorize stores ACLs in the metadata log, which brokers of releases before 3.3 do not have; "
            "choose a later --profile"
        )
    if not names and not allows_unruled:
        raise AccessRefused(
            "--authorize: no user may add the first ACL; name a super user with --super-user NAME "
            "(ANONYMOUS for clients without a login), or allow access to resources without ACLs with "
            "--set cluster.config.allow.everyone.if.no.acl.found=true"
        )
    for name in names:
        if not name.removeprefix("User:") or not name.isprintable():
            raise AccessRefused(f"--super-user must be the name of a user, for example alice, not `{name}`")
    return tuple(dict.fromkeys(f"User:{name.removeprefix('User:')}" for name in names))


def _password(name: str, file: Path) -> str:
    """Return the content of a password file, one line. Raises AccessRefused if the file is not private or not valid."""
    try:
        mode = file.stat().st_mode
        if stat.S_ISREG(mode) and mode & OTHERS:
            raise AccessRefused(
                f"--user {name}: other users may open {file}, which has a password; run chmod 600 {file}"
            )
        with file.open("rb") as opened:
            data = opened.read(PASSWORD_BYTES_MAX + 1)
        password, *rest = data.decode("utf-8").splitlines() or [""]
    except OSError as error:
        raise AccessRefused(f"--user {name}: {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AccessRefused(f"--user {name}: {file} is not UTF-8 text") from None
    if len(data) > PASSWORD_BYTES_MAX or rest:
        most = f"one line of at most {PASSWORD_BYTES_MAX} bytes"
        raise AccessRefused(f"--user {name}: {file} must contain only the password, {most}")
    if not password or "\0" in password:
        raise AccessRefused(f"--user {name}: there is no password in {file}; write the password into its first line")
    return password


# ------------------------------------------------------------------------------------------------------------ listeners
#
# Parses `--listener` (additional listeners) and `--advertise` (the addresses that brokers send to clients).
#
# source: listeners, advertised.listeners, listener.security.protocol.map (SocketServerConfigs,
# KafkaConfig.validateValues)

RESERVED = ("CONTROLLER", BETWEEN_BROKERS)
"""Names of Highwater's own listeners, which listeners for clients cannot have."""
PORT_MAX = 65_535


def listeners_of(
    wishes: Sequence[str],
    *,
    brokers: Sequence[str],
    first_port: int,
    first: ListenerSecurity,
    in_zookeeper_era: bool,
) -> tuple[ServerListener, ...]:
    """Return the listeners that brokers open in addition to their first listener.

    Args:
        wishes: values of `--listener`, each [NAME=]PROTOCOL:PORT. The name defaults to the protocol. PORT is the port
            of the first broker; the ports of later brokers count up from it.
        first_port: port of the first broker on the first listener.
        first: security of the first listener, which is named after its protocol.

    Raises:
        AccessRefused: a value is malformed, or a name or port is taken.
    """
    if wishes and in_zookeeper_era:
        raise AccessRefused(
            "--listener adds a second listener, but brokers before 3.3 have only one here; choose a later --profile"
        )
    taken = {first.protocol: range(first_port, first_port + len(brokers))}
    listeners = []
    for wish in wishes:
        name, protocol, port = _parsed(wish)
        _check_protocol(wish, protocol, first)
        if name in taken or name in RESERVED:
            raise AccessRefused(
                f"--listener {wish}: the name {name} is used or reserved; choose another: NAME={protocol}:{port}"
            )
        ports = range(port, port + len(brokers))
        if ports[-1] > PORT_MAX:
            raise AccessRefused(f"--listener {wish}: {_too_high(ports)}")
        for other, others in taken.items():
            if ports[0] in others or others[0] in ports:
                raise AccessRefused(
                    f"--listener {wish}: {_needed(ports)}, but {other} has {others[0]} to {others[-1]};"
                    " choose another port"
                )
        taken[name] = ports
        listeners.append(ServerListener(name, protocol, dict(zip(brokers, ports, strict=True))))
    return tuple(listeners)


def advertising(
    wishes: Sequence[str],
    *,
    brokers: Sequence[str],
    host: str,
    first_port: int,
    security: ListenerSecurity,
    in_zookeeper_era: bool,
) -> ListenerSecurity:
    """Return `security` with advertised addresses, which brokers send to clients in place of their own addresses.

    Args:
        wishes: values of `--advertise`, each [NAME=]HOST[:PORT]. The name defaults to the first listener. PORT is the
            port of the first broker and defaults to the port on which it listens; later brokers count up.
        host: host on which brokers listen.
        first_port: port of the first broker on the first listener.
        security: security of the first listener, with all other listeners.

    Raises:
        AccessRefused: a value is malformed, refers to no listener, or advertises a listener twice.
    """
    if wishes and in_zookeeper_era:
        raise AccessRefused("--advertise: Highwater supports it from release 3.3 on; choose a later --profile")
    ports = {
        security.protocol: first_port,
        **{listener.name: listener.ports[brokers[0]] for listener in security.listeners},
    }
    addresses: dict[str, Addresses] = {}
    for wish in wishes:
        name, to, port = _advertised(wish)
        name = name or security.protocol
        if name not in ports:
            raise AccessRefused(f"--advertise {wish}: there is no listener {name}; choose one of {', '.join(ports)}")
        if name in addresses:
            raise AccessRefused(f"--advertise {wish}: the listener {name} has two --advertise options; use only one")
        first = port or ports[name]
        if first + len(brokers) - 1 > PORT_MAX:
            raise AccessRefused(f"--advertise {wish}: {_too_high(range(first, first + len(brokers)))}")
        addresses[name] = {broker: (to, first + index) for index, broker in enumerate(brokers)}
    silent = [name for name in ports if name not in addresses]
    if host == EVERYWHERE and silent:
        wanted = " and ".join(f"--advertise {name}=HOST" for name in silent)
        raise AccessRefused(f"--host {EVERYWHERE} is not an address that clients can connect to; add {wanted}")
    listeners = tuple(listener._replace(advertised=addresses.get(listener.name)) for listener in security.listeners)
    return replace(security, listeners=listeners, advertised=addresses.get(security.protocol))


def hosts_of(host: str, wishes: Sequence[str]) -> tuple[str, ...]:
    """Return all hosts under which clients connect to the brokers, for which a certificate must be valid.

    Args:
        host: host on which brokers listen.
        wishes: values of `--advertise` (see `advertising`).

    Raises:
        AccessRefused: a value of `--advertise` is malformed.
    """
    own = LOOPBACK if host == EVERYWHERE else host
    return tuple(dict.fromkeys((own, "localhost", *(_advertised(wish)[1] for wish in wishes))))


def _advertised(wish: str) -> tuple[str, str, int | None]:
    """Parse a value of `--advertise` into (listener, host, port), "" for the first listener, None for no port."""
    parts = re.fullmatch(
        r"(?:([A-Za-z0-9_]{1,100})=)?([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::([1-9][0-9]{0,4}))?", wish
    )
    if parts is None:
        raise AccessRefused(
            f"--advertise must be [NAME=]HOST[:PORT], for example kafka.example.com:19092, not `{wish}`"
        )
    host = parts[2].strip("[]")
    if ":" in host or re.fullmatch(r"[0-9.]+", host):
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise AccessRefused(f"--advertise {wish}: {host} is not an IP address") from None
        if address.is_unspecified:
            raise AccessRefused(f"--advertise {wish}: no client can connect to {host}")
    return (parts[1] or "").upper(), host, None if parts[3] is None else int(parts[3])


def _too_high(ports: range) -> str:
    return f"{_needed(ports)}, but the highest port is {PORT_MAX}; choose a lower one"


def _needed(ports: range) -> str:
    return (
        f"{len(ports)} brokers need ports {ports[0]} to {ports[-1]}" if len(ports) > 1 else f"it needs port {ports[0]}"
    )


def _parsed(wish: str) -> tuple[str, str, int]:
    """Parse a value of `--listener` into (name, protocol, port). Names become upper case (ListenerName.normalised)."""
    parts = re.fullmatch(r"(?:([A-Za-z0-9_]{1,100})=)?([A-Za-z_]{1,100}):([1-9][0-9]{0,4})", wish)
    if parts is None:
        raise AccessRefused(f"--listener must be [NAME=]PROTOCOL:PORT, for example PLAINTEXT:29092, not `{wish}`")
    protocol = parts[2].upper()
    return (parts[1] or protocol).upper(), protocol, int(parts[3])


def _check_protocol(wish: str, protocol: str, first: ListenerSecurity) -> None:
    if protocol not in PROTOCOLS:
        raise AccessRefused(f"--listener {wish}: {protocol} is not a protocol; choose one of {', '.join(PROTOCOLS)}")
    if protocol.endswith("SSL") and first.tls is None:
        raise AccessRefused(f"--listener {wish} needs a certificate; add --tls, or --tls-cert and --tls-key")
    if protocol.startswith("SASL_") and not first.is_on:
        raise AccessRefused(f"--listener {wish} needs a user who can log in; add --user NAME:PASSWORD-FILE")


# --------------------------------------------------------------------------------------------------------- certificates
#
# The certificate of a TLS listener: the user's own (`--tls-cert`), or one from a temporary authority (`--tls`).

AUTHORITY = "ca.pem"


def own_files(certificate: Path, key: Path) -> TlsFiles:
    """Return the files of the user's own certificate and key. Raises AccessRefused if a server cannot use them."""
    files = TlsFiles(certificate.resolve(), key.resolve())
    try:
        server_context(files)
    except TlsFilesInvalid as invalid:
        raise AccessRefused(f"--tls-cert, --tls-key: {invalid}") from None
    return files


def throw_away_files(folder: Path, hosts: Sequence[str]) -> TlsFiles:
    """Create a temporary certificate authority and a server certificate. Return the files of the server certificate.

    The authority's certificate is written to the file AUTHORITY in `folder`. Its key is not written, so it cannot sign
    anything later. Raises OSError.

    Args:
        hosts: names and addresses for which the server certificate is valid.
    """
    import trustme

    authority = trustme.CA(organization_name="highwater serve")
    issued = authority.issue_cert(*hosts)
    folder.mkdir(parents=True, exist_ok=True)
    files = TlsFiles((folder / "server.pem").resolve(), (folder / "server.key").resolve())
    authority.cert_pem.write_to_path(str(folder / AUTHORITY))
    files.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    files.key.unlink(missing_ok=True)
    files.key.touch(mode=0o600)
    issued.private_key_pem.write_to_path(str(files.key), append=True)
    return files
