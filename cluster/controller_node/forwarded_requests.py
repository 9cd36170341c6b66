"""Handles admin clients' requests that brokers forward in envelopes: authorization, quota and response.

Source: ControllerApis.handleEnvelopeRequest, EnvelopeUtils.handleEnvelopeRequest
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cluster.authorization.authorizer import Authorizer, Client
from cluster.authorization.guard import Passed, Verdict
from cluster.authorization.guards import verdict_of
from cluster.config import BrokerConfig
from cluster.messages.admin.cluster_requests import unregister_broker, update_features
from cluster.messages.admin.config_requests import alter_configs, incremental_alter_configs
from cluster.messages.admin.partition_requests import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from cluster.messages.admin.quota_requests import alter_client_quotas
from cluster.messages.admin.requests import AdminRequest, RequestEntries
from cluster.messages.admin.security_requests import alter_user_scram_credentials, create_acls, delete_acls
from cluster.messages.admin.topic_requests import create_partitions, create_topics, delete_topics
from cluster.messages.controller_requests import encoded
from cluster.messages.envelopes import NODE, enclosed_answer, opened
from cluster.messages.quorum import VOTER_CHANGES
from cluster.node import ConnectionId, Outbox
from cluster.protocol import versions
from cluster.protocol.cold import decode_request
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
from cluster.quotas.mutation_quotas import MUTATIONS, MutationQuota, MutationQuotas
from cluster.slices import Slices, undivided
from controller.features import FEATURES_SINCE, is_elr_enabled
from controller.image import MetadataImage
from controller.inputs import ControllerInput, OnReply, Reply, SeveralReply
from controller.state import ControllerState
from replica.errors import ErrorCode, PeerViolation
from replica.rules import Rules

QUORUM_REQUESTS = (versions.DESCRIBE_QUORUM, *VOTER_CHANGES)


class ForwardedRequests:
    """Handles forwarded requests at one controller.

    Args:
        slices: scheduler of the slices in which long requests are decoded and answered.
        super_users: None if all users may do everything.
        active: returns the controller's state, None if this controller is not active.
        decide: decides an input, and answers once the decision is committed.
        ask_quorum: answers a request of QUORUM_REQUESTS with the fields of its response.
    """

    def __init__(
        self,
        *,
        slices: Slices,
        config: BrokerConfig,
        rules: Rules,
        super_users: tuple[str, ...] | None,
        outbox: Outbox,
        active: Callable[[], ControllerState | None],
        decide: Callable[[ControllerInput, OnReply, int], None],
        ask_quorum: Callable[[RequestHeader, Entity, Callable[[dict[str, object]], None], int], None],
    ) -> None:
        self._slices = slices
        self._config = config
        self._rules = rules
        self._super_users = super_users
        self._outbox = outbox
        self._active = active
        self._decide = decide
        self._ask_quorum = ask_quorum
        self._quotas = MutationQuotas(config.controller_quota_window_num, config.controller_quota_window_size_seconds)

    def received(self, connection: ConnectionId, envelope: RequestHeader, frame: bytearray, now_us: int) -> None:
        self._slices.begin(partial(self._received, connection, envelope, frame, now_us))

    def _received(self, connection: ConnectionId, envelope: RequestHeader, frame: bytearray, now_us: int) -> None:
        """Handle a request. Errors in a client's request do not close the broker's connection."""

        def respond(response: bytes | ErrorCode) -> None:
            self._outbox.respond(connection, (enclosed_answer(envelope, response),), versions.ENVELOPE)

        try:
            header, inner, principal, host = opened(envelope, frame)
            request = decode_request(header, inner)
        except PeerViolation:
            respond(ErrorCode.INVALID_REQUEST)
            return
        state = self._active()
        passed = self._passed(header, request, Client(principal, host), state)
        if passed is None:
            respond(ErrorCode.NOT_CONTROLLER)
            return
        if not isinstance(passed, Passed):
            respond(encoded(header, passed))
            return
        request, amend = passed
        if header.api_key in QUORUM_REQUESTS:
            self._ask_quorum(header, request, lambda fields: respond(encoded(header, fields)), now_us)
        elif state is None:
            respond(ErrorCode.NOT_CONTROLLER)
        else:
            quota = self._quota(header, principal, state.image, now_us)
            asked = READERS[header.api_key](
                AdminRequest(
                    header,
                    request,
                    state.image,
                    self._config,
                    now_us,
                    elr=is_elr_enabled(self._rules, state.image.feature_levels),
                    all_features_or_none=self._rules.release >= FEATURES_SINCE,
                    quota=quota,
                )
            )

            def answer(reply: Reply | None) -> None:
                self._slices.begin(partial(answer_with, reply))

            def answer_with(reply: Reply | None) -> None:
                try:
                    respond(answer_of(reply))
                except Exception as bug:  # The broker must not wait for a response that never comes.
                    respond(ErrorCode.UNKNOWN_SERVER_ERROR)
                    self._outbox.raise_soon(bug)

            def answer_of(reply: Reply | None) -> bytes | ErrorCode:
                if not isinstance(reply, SeveralReply):
                    return ErrorCode.NOT_CONTROLLER
                throttled = {"throttle_time": quota.throttle_ms} if quota is not None and quota.throttle_ms else {}
                values = asked.answer(reply.replies)
                return encoded(header, {**(values if amend is None else amend(values)), **throttled})

            decided = asked.as_input(now_us)
            if self._active() is not state:  # Deposed while the request was read.
                respond(ErrorCode.NOT_CONTROLLER)
                return
            undivided(lambda: self._decide(decided, answer, now_us))

    def _passed(
        self, header: RequestHeader, request: Entity, client: Client, state: ControllerState | None
    ) -> Verdict | None:
        """Authorize a request. Return None if this controller is not active, because it then knows no ACLs."""
        if self._super_users is None or client.principal.startswith(NODE):
            return Passed(request)
        if state is None:
            return None
        otherwise = self._config.allow_everyone_if_no_acl_found
        authorizer = Authorizer(self._super_users, lambda: state.image, otherwise=otherwise)
        return verdict_of(header, request, client, authorizer, self._config)

    def _quota(self, header: RequestHeader, principal: str, image: MetadataImage, now_us: int) -> MutationQuota | None:
        strict_since = MUTATIONS.get(header.api_key)
        if strict_since is None:
            return None
        self._quotas.follow(image.client_quotas)
        user, client_id = principal.partition(":")[2], header.client_id or ""
        return self._quotas.of(user, client_id, now_us, is_strict=header.api_version >= strict_since)


# -------------------------------------------------------------------------------------------------------------- readers
#
# The APIs of admin clients: each request is read, decided as one input, and answered once the decision is committed.
#
# source: ControllerApis.scala


READERS: Mapping[int, Callable[[AdminRequest], RequestEntries]] = {
    versions.CREATE_TOPICS: create_topics,
    versions.DELETE_TOPICS: delete_topics,
    versions.CREATE_PARTITIONS: create_partitions,
    versions.ALTER_CONFIGS: alter_configs,
    versions.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    versions.ELECT_LEADERS: elect_leaders,
    versions.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    versions.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
    versions.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials,
    versions.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    versions.CREATE_ACLS: create_acls,
    versions.DELETE_ACLS: delete_acls,
    versions.UNREGISTER_BROKER: unregister_broker,
    versions.UPDATE_FEATURES: update_features,
}
