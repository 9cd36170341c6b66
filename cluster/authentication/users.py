"""The SASL mechanisms that a broker offers, and where each finds its users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cluster.authentication.mechanisms import SaslServer
from cluster.authentication.plain import PLAIN, PlainServer
from cluster.authentication.scram import ScramServer
from cluster.security import ListenerSecurity
from controller.metadata import UserScramCredentialRecord
from controller.scram import MECHANISMS, ScramMechanism

Credential = Callable[[str, int], UserScramCredentialRecord | None]
"""Of a user, with a mechanism by its type."""


def mechanisms(security: ListenerSecurity, credential: Credential) -> Mapping[str, Callable[[], SaslServer]]:
    """By name, as sasl.enabled.mechanisms would list them: what makes the broker's side of one exchange.

    Users of PLAIN are those that the broker was started with; SCRAM credentials can be changed while it runs.
    """

    def plain() -> SaslServer:
        return PlainServer(security.passwords)

    def scram(mechanism: ScramMechanism) -> SaslServer:
        return ScramServer(mechanism, lambda user: credential(user, mechanism.type), security.new_nonce())

    return {PLAIN: plain, **{one.name: partial(scram, one) for one in MECHANISMS.values()}}
