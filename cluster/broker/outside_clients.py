"""Authentication of clients outside the cluster, at a broker."""

from __future__ import annotations

from cluster.authentication.gate import SaslGate
from cluster.authentication.mechanisms import mechanisms
from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.api_versions import ApiVersionsHandler
from cluster.security import ListenerSecurity
from controller.metadata import UserScramCredentialRecord


def gate_before(broker: BrokerParts, security: ListenerSecurity) -> SaslGate:
    """Return the gate that authenticates clients outside the cluster before the broker handles their requests."""
    # Simplified: in the ZooKeeper era credentials are fixed at the start.
    fixed = {(item.name, item.mechanism): item for item in security.scram}
    is_fixed = broker.base.rules.membership == "zk-session"
    versions = ApiVersionsHandler(broker)

    def credential(user: str, mechanism: int) -> UserScramCredentialRecord | None:
        return (fixed if is_fixed else broker.base.cache.image.scram).get((user, mechanism))

    return SaslGate(
        config=broker.base.config,
        outbox=broker.base.outbox,
        connections=broker.connections,
        mechanisms=mechanisms(security, credential),
        api_versions=lambda header: (versions.answer(header), versions.knows(header.api_version)),
        lets_in=security.lets_in,
        refusals=broker.responder.refusals,
    )
