"""Logins and rights: SaslHandshake (17), SaslAuthenticate (36), ACLs (29 to 31), SCRAM credentials (50, 51)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve, Values, answered_by_controller
from cluster.broker.apis.refusals import NO_AUTHORIZER, NOT_HERE, Refusal, Refused, always, each
from cluster.messages.admin.security_requests import describe_user_scram_credentials, described, filter_of
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import (
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    RequestHeader,
)
from cluster.server.responder import Handler
from controller.acl_control import unknown_part
from replica.errors import ErrorCode, PeerViolation

OUT_OF_PLACE = "SaslAuthenticate request received after successful authentication"


class DescribeAclsHandler:
    """Of the metadata that this broker has."""

    def __init__(self, broker: BrokerParts) -> None:
        self._responder = broker.responder
        self._cache = broker.base.cache

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        wanted = filter_of(cold.decode_request(header, frame))
        if unknown := unknown_part(wanted):
            # As in Kafka, which cannot even read such a request (DescribeAclsRequest.normalizeAndValidate).
            raise PeerViolation(f"DescribeAcls: {unknown}")
        self._responder.answer(
            connection, header, **described(acl for acl in self._cache.image.acls if wanted.matches(acl))
        )


def _where_it_is_on(handler: Serve, off: Refusal) -> Serve:
    """`serve` of an API of the authorizer. off: the answer without one"""
    return lambda broker: (handler if broker.access.is_on else Refused(off))(broker)


class DescribeUserScramCredentials:
    """DescribeUserScramCredentials (50): which users have passwords for SCRAM (KIP-554).

    0  the only version

    Of the metadata that this broker has; in the ZooKeeper era that has none.
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._responder = broker.responder
        self._cache = broker.base.cache

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        values = describe_user_scram_credentials(cold.decode_request(header, frame), self._cache.image)
        self._responder.answer(connection, header, **values)


def _not_here(request: Entity) -> Values:
    names = dict.fromkeys(str(one.name) for one in (*request.deletions, *request.upsertions))
    return {"results": [{"user": name, **NOT_HERE} for name in names]}


def _alter_credentials(broker: BrokerParts) -> Handler | None:
    """Refused in the ZooKeeper era, whose credentials are those of the start (BrokerCore._gate)."""
    if broker.plane.zookeeper is not None:
        return Refused(_not_here)(broker)
    return broker.plane.for_controller(ALTER_USER_SCRAM_CREDENTIALS)


APIS: Final[Mapping[int, Serve]] = {
    # SaslHandshake (17): a client names its SASL mechanism. Where that is in place, cluster/authentication takes it.
    #   0  first version
    #   1  what follows travels in SaslAuthenticate requests (KIP-152)
    SASL_HANDSHAKE: Refused(always({"error_code": ErrorCode.ILLEGAL_SASL_STATE})),
    # SaslAuthenticate (36): a step of SASL (KIP-152), as SaslHandshake.
    #   0  first version
    #   1  the answer says how long the session lives (KIP-368)
    #   2  flexible
    SASL_AUTHENTICATE: Refused(always({"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": OUT_OF_PLACE})),
    # DescribeAcls (29): who may do what (KIP-140). CreateAcls (30) and DeleteAcls (31) change it. Of all three:
    #   1  patterns of resource names (KIP-290): the oldest version that Kafka 4 takes
    #   2  flexible
    #   3  users as resources (KIP-373)
    DESCRIBE_ACLS: _where_it_is_on(
        DescribeAclsHandler,
        always({**NO_AUTHORIZER, "error_message": "No Authorizer is configured on the broker"}),
    ),
    CREATE_ACLS: _where_it_is_on(answered_by_controller(CREATE_ACLS), each("results", "creations", NO_AUTHORIZER)),
    DELETE_ACLS: _where_it_is_on(answered_by_controller(DELETE_ACLS), each("filter_results", "filters", NO_AUTHORIZER)),
    DESCRIBE_USER_SCRAM_CREDENTIALS: DescribeUserScramCredentials,
    # AlterUserScramCredentials (51): set and remove passwords of users for SCRAM (KIP-554, KIP-900).
    # The client sends the salted password; the metadata log gets what follows from it.
    #   0  the only version
    ALTER_USER_SCRAM_CREDENTIALS: _alter_credentials,
}
