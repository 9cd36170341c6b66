"""Listeners of a live cluster beside the first: `highwater serve --listener`.

source: listeners, listener.security.protocol.map (SocketServerConfigs, KafkaConfig.validateValues)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cluster.security import PROTOCOLS, ListenerSecurity, ServerListener
from scenarios.serve.access import AccessRefused

OF_CONTROLLERS = "CONTROLLER"
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
        if name in taken or name == OF_CONTROLLERS:
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
