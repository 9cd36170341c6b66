"""Listeners of a live cluster beside the first, and where clients of each are sent: `--listener` and `--advertise`.

source: listeners, advertised.listeners, listener.security.protocol.map (SocketServerConfigs,
KafkaConfig.validateValues)
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cluster.broker.metadata.lifecycle import BETWEEN_BROKERS
from cluster.live.sockets import EVERYWHERE, LOOPBACK
from cluster.live.tls import TlsFilesInvalid, server_context
from cluster.security import PROTOCOLS, Addresses, ListenerSecurity, ServerListener, TlsFiles
from scenarios.serve.access import AccessRefused

RESERVED = ("CONTROLLER", BETWEEN_BROKERS)
"""Names of listeners that are not for clients."""
PORT_MAX = 65_535


def listeners_of(
    wishes: Sequence[str],
    *,
    brokers: Sequence[str],
    first_port: int,
    first: ListenerSecurity,
    in_zookeeper_era: bool,
) -> tuple[ServerListener, ...]:
    """raises: AccessRefused

    wishes: [NAME=]PROTOCOL:PORT, the port of the first broker, the others follow; without a name it is the protocol's
    first_port, first: of the first listener, which bears the name of its protocol
    """
    if wishes and in_zookeeper_era:
        raise AccessRefused("--listener: brokers of releases before 3.3 have one here; choose another --profile")
    taken = {first.protocol: range(first_port, first_port + len(brokers))}
    listeners = []
    for wish in wishes:
        name, protocol, port = _parsed(wish)
        _check_protocol(wish, protocol, first)
        if name in taken or name in RESERVED:
            raise AccessRefused(f"--listener {wish}: there is a {name} already; name it: NAME={protocol}:{port}")
        ports = range(port, port + len(brokers))
        if ports[-1] > PORT_MAX:
            raise AccessRefused(f"--listener {wish}: {len(brokers)} brokers need as many ports, up to {PORT_MAX}")
        for other, others in taken.items():
            if ports[0] in others or others[0] in ports:
                raise AccessRefused(
                    f"--listener {wish}: ports {ports[0]} to {ports[-1]}, one of each broker, meet those of {other}, "
                    f"{others[0]} to {others[-1]}"
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
    """Sends clients to other addresses than those on which brokers listen.     raises: AccessRefused

    wishes: [NAME=]HOST[:PORT], the port of the first broker, the others follow; without a name of the first listener,
    without a port that on which it listens     host: to listen on     security: with all listeners
    """
    if wishes and in_zookeeper_era:
        raise AccessRefused(
            "--advertise: brokers of releases before 3.3 have one address here; choose another --profile"
        )
    ports = {security.protocol: first_port, **{one.name: one.ports[brokers[0]] for one in security.listeners}}
    told: dict[str, Addresses] = {}
    for wish in wishes:
        name, to, port = _advertised(wish)
        name = name or security.protocol
        if name not in ports:
            raise AccessRefused(f"--advertise {wish}: there is no listener {name}, only {', '.join(ports)}")
        if name in told:
            raise AccessRefused(f"--advertise {wish}: {name} is advertised already; one address for each listener")
        first = port or ports[name]
        if first + len(brokers) - 1 > PORT_MAX:
            raise AccessRefused(f"--advertise {wish}: {len(brokers)} brokers need as many ports, up to {PORT_MAX}")
        told[name] = {broker: (to, first + place) for place, broker in enumerate(brokers)}
    silent = [name for name in ports if name not in told]
    if host == EVERYWHERE and silent:
        wanted = " and ".join(f"--advertise {name}=HOST" for name in silent)
        raise AccessRefused(
            f"--host {EVERYWHERE} is no address that clients could connect to; say which one is: {wanted}"
        )
    listeners = tuple(one._replace(advertised=told.get(one.name)) for one in security.listeners)
    return replace(security, listeners=listeners, advertised=told.get(security.protocol))


def hosts_of(host: str, wishes: Sequence[str]) -> tuple[str, ...]:
    """By which clients know the brokers: what a certificate is for.     raises: AccessRefused

    host: to listen on     wishes: as of `advertising`
    """
    own = LOOPBACK if host == EVERYWHERE else host
    return tuple(dict.fromkeys((own, "localhost", *(_advertised(wish)[1] for wish in wishes))))


def _advertised(wish: str) -> tuple[str, str, int | None]:
    """Name of the listener, "" for the first; host and port, as they are sent to clients."""
    parts = re.fullmatch(
        r"(?:([A-Za-z0-9_]{1,100})=)?([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::([1-9][0-9]{0,4}))?", wish
    )
    if parts is None:
        raise AccessRefused(f"--advertise wants [NAME=]HOST[:PORT], for example kafka.example.com:19092, not `{wish}`")
    host = parts[2].strip("[]")
    if ":" in host or re.fullmatch(r"[0-9.]+", host):
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise AccessRefused(f"--advertise {wish}: {host} is no IP address") from None
        if address.is_unspecified:
            raise AccessRefused(f"--advertise {wish}: no client can connect to {host}")
    return (parts[1] or "").upper(), host, None if parts[3] is None else int(parts[3])


def _parsed(wish: str) -> tuple[str, str, int]:
    """Name, protocol and port. Names are in capitals, as in Kafka (ListenerName.normalised)."""
    parts = re.fullmatch(r"(?:([A-Za-z0-9_]{1,100})=)?([A-Za-z_]{1,100}):([1-9][0-9]{0,4})", wish)
    if parts is None:
        raise AccessRefused(f"--listener wants [NAME=]PROTOCOL:PORT, for example PLAINTEXT:29092, not `{wish}`")
    protocol = parts[2].upper()
    return (parts[1] or protocol).upper(), protocol, int(parts[3])


def _check_protocol(wish: str, protocol: str, first: ListenerSecurity) -> None:
    if protocol not in PROTOCOLS:
        raise AccessRefused(f"--listener {wish}: {protocol} is none of {', '.join(PROTOCOLS)}")
    if protocol.endswith("SSL") and first.tls is None:
        raise AccessRefused(f"--listener {wish}: there is no certificate; add --tls, or --tls-cert and --tls-key")
    if protocol.startswith("SASL_") and not first.is_on:
        raise AccessRefused(f"--listener {wish}: there is no user who could log in; add --user NAME:PASSWORD-FILE")


# --------------------------------------------------------------------------------------------------------- certificates
#
# Certificates of `highwater serve --tls`: the user's own, or one that a throw-away authority has just signed.

AUTHORITY = "ca.pem"


def own_files(certificate: Path, key: Path) -> TlsFiles:
    """raises: AccessRefused where no server can use them"""
    files = TlsFiles(certificate.resolve(), key.resolve())
    try:
        server_context(files)
    except TlsFilesInvalid as invalid:
        raise AccessRefused(f"--tls-cert, --tls-key: {invalid}") from None
    return files


def throw_away_files(folder: Path, hosts: Sequence[str]) -> TlsFiles:
    """Makes an authority, and a certificate of it for names and addresses; the authority's own is `ca.pem` there.

    The authority's key is never written, so it signs nothing else. raises: OSError
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
