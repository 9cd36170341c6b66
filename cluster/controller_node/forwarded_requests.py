"""Requests of admin clients that brokers forward to the controller, each in an envelope: whether the client may do
that, whether its quota lets it, and what it is answered.

source: ControllerApis.handleEnvelopeRequest, EnvelopeUtils.handleEnvelopeRequest
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cluster.authorization.authorizer import Authorizer, Client
from cluster.authorization.guard import Passed, Verdict
from cluster.authorization.guards import verdict_of
from cluster.config import BrokerConfig
from cluster.controller_node.admin import READERS
from cluster.messages.admin.requests import AdminRequest
from cluster.messages.controller_requests import encoded
from cluster.messages.envelopes import NODE, enclosed_answer, opened
from cluster.node import ConnectionId, Outbox
from cluster.protocol.cold import decode_request
from cluster.protocol.entities import Entity
from cluster.protocol.versions import DESCRIBE_QUORUM, ENVELOPE, RequestHeader
from cluster.quotas.mutation_quotas import MUTATIONS, MutationQuota, MutationQuotas
from cluster.slices import Slices, undivided
from controller.features import ALL_FEATURES_OR_NONE, is_elr_enabled
from controller.image import MetadataImage
from controller.inputs import ControllerInput, OnReply, Reply, SeveralReply
from controller.state import ControllerState
from replica.errors import ErrorCode, PeerViolation
from replica.rules import Rules


class ForwardedRequests:
    """To one controller.     super_users: None: all may do everything

    active: the state of the active controller, None while this one is not
    decide: the answer comes once what it decides is committed
    describe: the values of an answer to DescribeQuorum
    slices: in which long ones are read and answered
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
        describe: Callable[[Entity, int], dict[str, object]],
    ) -> None:
        self._slices = slices
        self._config = config
        self._rules = rules
        self._super_users = super_users
        self._outbox = outbox
        self._active = active
        self._decide = decide
        self._describe = describe
        self._quotas = MutationQuotas(config.controller_quota_window_num, config.controller_quota_window_size_seconds)

    def received(self, connection: ConnectionId, envelope: RequestHeader, frame: bytearray, now_us: int) -> None:
        self._slices.begin(partial(self._received, connection, envelope, frame, now_us))

    def _received(self, connection: ConnectionId, envelope: RequestHeader, frame: bytearray, now_us: int) -> None:
        """Errors in what a client sent do not close the broker's connection."""

        def respond(response: bytes | ErrorCode) -> None:
            self._outbox.respond(connection, (enclosed_answer(envelope, response),), ENVELOPE)

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
        if header.api_key == DESCRIBE_QUORUM:
            respond(encoded(header, self._describe(request, now_us)))
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
                    all_features_or_none=self._rules.release in ALL_FEATURES_OR_NONE,
                    quota=quota,
                )
            )

            def answer(reply: Reply | None) -> None:
                self._slices.begin(partial(answer_with, reply))

            def answer_with(reply: Reply | None) -> None:
                try:
                    respond(answer_of(reply))
                except Exception as bug:  # The broker does not wait for an answer that does not come.
                    respond(ErrorCode.UNKNOWN_SERVER_ERROR)
                    self._outbox.raise_soon(bug)

            def answer_of(reply: Reply | None) -> bytes | ErrorCode:
                if not isinstance(reply, SeveralReply):
                    return ErrorCode.NOT_CONTROLLER
                throttled = {"throttle_time": quota.throttle_ms} if quota is not None and quota.throttle_ms else {}
                values = asked.answer(reply.replies)
                return encoded(header, {**(values if amend is None else amend(values)), **throttled})

            decided = asked.as_input(now_us)
            if self._active() is not state:  # It was deposed while the request was read.
                respond(ErrorCode.NOT_CONTROLLER)
                return
            undivided(lambda: self._decide(decided, answer, now_us))

    def _passed(
        self, header: RequestHeader, request: Entity, client: Client, state: ControllerState | None
    ) -> Verdict | None:
        """None: this is not the active controller, and does not know the rules."""
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
