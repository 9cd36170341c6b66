"""Authentication and authorization APIs: SaslHandshake (17), SaslAuthenticate (36), ACLs (29 to 31), SCRAM credentials
(50, 51).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.broker.apis.api import ApiHandler, BrokerParts, Serve, Values, answered_by_controller
from cluster.broker.apis.refusals import NO_AUTHORIZER, NOT_HERE, Refusal, Refused, always, each
from cluster.messages.admin.security_requests import describe_user_scram_credentials, described, filter_of
from cluster.protocol import versions
from cluster.protocol.entities import Entity
from cluster.server.responder import Call, Handler
from controller.acl_control import unknown_part
from replica.errors import ErrorCode, PeerViolation

OUT_OF_PLACE = "SaslAuthenticate request received after successful authentication"


class DescribeAclsHandler(ApiHandler):
    """DescribeAcls (29): return the ACLs in this broker's metadata that match the request's filter."""

    def __call__(self, call: Call) -> None:
        wanted = filter_of(call.decoded())
        if unknown := unknown_part(wanted):
            # As in Kafka, which fails to parse such a request (DescribeAclsRequest.normalizeAndValidate).
            raise PeerViolation(f"DescribeAcls: {unknown}")
        self._answer(call, **described(acl for acl in self._cache.image.acls if wanted.matches(acl)))


def _where_it_is_on(handler: Serve, off: Refusal) -> Serve:
    """Return a function that creates an ACL API's handler, which answers `off` if there is no authorizer."""
    return lambda broker: (handler if broker.access.is_on else Refused(off))(broker)


class DescribeUserScramCredentials(ApiHandler):
    """DescribeUserScramCredentials (50): return the users with SCRAM credentials (KIP-554).

    0  the only version

    They are those in this broker's metadata, which has no credentials in the ZooKeeper era.
    """

    def __call__(self, call: Call) -> None:
        values = describe_user_scram_credentials(call.decoded(), self._cache.image)
        self._answer(call, **values)


def _not_here(request: Entity) -> Values:
    names = dict.fromkeys(str(deletion.name) for deletion in (*request.deletions, *request.upsertions))
    return {"results": [{"user": name, **NOT_HERE} for name in names]}


def _alter_credentials(broker: BrokerParts) -> Handler | None:
    """Return the handler of AlterUserScramCredentials.

    It refuses in the ZooKeeper era, where credentials cannot change (BrokerCore._gate).
    """
    if broker.plane.zookeeper is not None:
        return Refused(_not_here)(broker)
    return broker.plane.for_controller(versions.ALTER_USER_SCRAM_CREDENTIALS)


APIS: Final[Mapping[int, Serve]] = {
    # SaslHandshake (17): a client names its SASL mechanism. Before a client is authenticated, cluster/authentication
    # handles this request; here it comes too late.
    #   0  first version
    #   1  the SASL messages are sent in SaslAuthenticate requests (KIP-152)
    versions.SASL_HANDSHAKE: Refused(always({"error_code": ErrorCode.ILLEGAL_SASL_STATE})),
    # SaslAuthenticate (36): a step of SASL (KIP-152); handled by cluster/authentication, as SaslHandshake is.
    #   0  first version
    #   1  the response says how long the session lives (KIP-368)
    #   2  flexible
    versions.SASL_AUTHENTICATE: Refused(
        always({"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": OUT_OF_PLACE})
    ),
    # DescribeAcls (29), CreateAcls (30), DeleteAcls (31): show and change access control lists (KIP-140).
    #   1  patterns of resource names (KIP-290): the oldest version that Kafka 4 accepts
    #   2  flexible
    #   3  users as resources (KIP-373)
    versions.DESCRIBE_ACLS: _where_it_is_on(
        DescribeAclsHandler,
        always({**NO_AUTHORIZER, "error_message": "No Authorizer is configured on the broker"}),
    ),
    versions.CREATE_ACLS: _where_it_is_on(
        answered_by_controller(versions.CREATE_ACLS), each("results", "creations", NO_AUTHORIZER)
    ),
    versions.DELETE_ACLS: _where_it_is_on(
        answered_by_controller(versions.DELETE_ACLS), each("filter_results", "filters", NO_AUTHORIZER)
    ),
    versions.DESCRIBE_USER_SCRAM_CREDENTIALS: DescribeUserScramCredentials,
    # AlterUserScramCredentials (51): set and remove passwords of users for SCRAM (KIP-554, KIP-900).
    # The client sends the salted password; the metadata log stores the keys derived from it.
    #   0  the only version
    versions.ALTER_USER_SCRAM_CREDENTIALS: _alter_credentials,
}
