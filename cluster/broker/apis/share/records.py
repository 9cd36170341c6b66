"""Delivery and acknowledgement of a share group's records (KIP-932): ShareFetch (78), ShareAcknowledge (79).

Source: KafkaApis.handleShareFetchRequest, handleShareAcknowledgeRequest
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from cluster.broker.apis.api import ApiHandler, BrokerParts, Serve, Values
from cluster.broker.apis.cluster_view import LeaderHints
from cluster.broker.apis.share.groups import by_topic, where_shares_are_on
from cluster.protocol import cold
from cluster.protocol.entities import NO_ID, Entity
from cluster.protocol.versions import SHARE_ACKNOWLEDGE, SHARE_FETCH
from cluster.server.responder import Call
from cluster.share.manager import Delivered, Deliveries, ShareFetch
from cluster.share.partition import RENEW, Acknowledgement, AcquireParams
from cluster.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, SessionPartition
from cluster.share.state import ShareKey
from controller.access import Operation
from replica.errors import ErrorCode, KafkaError
from replica.ids import TopicPartition

FIRST_WITH_RENEWALS = 2
RECORD_LIMIT = 1
"""Value of ShareAcquireMode that makes max_records a strict limit (KIP-1206)."""
Settled = dict[ShareKey, tuple[ErrorCode, str | None]]
"""Results of acknowledgements: (error code, error message) by partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _InHand:
    call: Call
    request: Entity

    @property
    def session(self) -> SessionKey:
        return SessionKey(str(self.request.group_id or ""), str(self.request.member_id or ""))

    @property
    def epoch(self) -> int:
        return int(self.request.share_session_epoch)

    @property
    def partitions(self) -> list[SessionPartition]:
        return [
            SessionPartition(topic.topic_id or NO_ID, int(partition.partition_index))
            for topic in self.request.topics
            for partition in topic.partitions
        ]

    @property
    def acknowledgements(self) -> dict[ShareKey, list[Acknowledgement]]:
        return {
            ShareKey(self.session.group_id, topic.topic_id or NO_ID, int(partition.partition_index)): [
                Acknowledgement(int(batch.first_offset), int(batch.last_offset), tuple(batch.acknowledge_types))
                for batch in partition.acknowledgement_batches
            ]
            for topic in self.request.topics
            for partition in topic.partitions
            if partition.acknowledgement_batches
        }


class _OfShares(ApiHandler):
    """Base class of the handlers of ShareFetch and ShareAcknowledge."""

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._shares = broker.coordinators.shares

    def _check(self, current: _InHand) -> None:
        if not current.session.group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
        if not current.session.member_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")

    def _may_read(self, current: _InHand, topic: str | None) -> bool:
        """Return True if the client may read the topic, or if `topic` is None, because its id is unknown."""
        access = self._broker.access
        return not access.is_on or topic is None or access.allows_topic(current.call.connection, Operation.READ, topic)

    def _refuse(self, current: _InHand, error: KafkaError) -> None:
        self._answer(current.call, error_code=error.code, error_message=error.message or None)

    def _settle(self, current: _InHand, done: Callable[[Settled, int], None], now_us: int) -> None:
        """Apply a request's acknowledgements, then call `done(results of all of them, now_us)`."""
        asked = current.acknowledgements
        settled: Settled = {}
        renews = current.call.header.api_version >= FIRST_WITH_RENEWALS and current.request.is_renew_ack

        def answered(key: ShareKey, error: ErrorCode, message: str | None, at_us: int) -> None:
            settled[key] = error, message
            if len(settled) == len(asked):
                done(settled, at_us)

        if not asked:
            done(settled, now_us)
        for key, batches in asked.items():
            error = _wrong(batches, renews=renews)
            if not self._may_read(current, self._cache.topic_name(key.topic_id)):
                answered(key, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, now_us)
            elif error:
                answered(key, ErrorCode.INVALID_REQUEST, error, now_us)
            else:
                member = current.session.member_id
                self._shares.acknowledge(key, member, batches, partial(answered, key), now_us)

    def _end_if_final(self, current: _InHand, now_us: int) -> None:
        if current.epoch == FINAL_EPOCH:
            self._shares.end_session(self._shares.sessions.end(current.session), now_us)

    def _lock_ms(self, current: _InHand) -> int:
        return self._shares.limits(current.session.group_id).lock_us // 1000

    def _answer_all(self, current: _InHand, topics: Mapping[object, list[Values]], hints: LeaderHints) -> None:
        self._answer(
            current.call,
            acquisition_lock_timeout=self._lock_ms(current),
            responses=by_topic(topics),
            node_endpoints=[endpoint._asdict() for endpoint in hints.endpoints],
        )

    def _leader_values(self, hints: LeaderHints, key: ShareKey, error: ErrorCode) -> Values:
        name = self._cache.topic_name(key.topic_id)
        if error is not ErrorCode.NOT_LEADER_OR_FOLLOWER or name is None:
            return {}
        return {"current_leader": hints.leader_of(TopicPartition(name, key.partition))._asdict()}


class ShareFetchHandler(_OfShares):
    """ShareFetch (78): return records for a member, and apply acknowledgements of earlier records.

    1  the first version that Kafka keeps: version 0 was for early access in 4.0
    2  a strict limit of records (KIP-1206), renewed locks (KIP-1222)
    """

    def __call__(self, call: Call) -> None:
        value = _InHand(call=call, request=call.decoded())
        try:
            self._check(value)
            wanted = self._wanted(value)
        except KafkaError as error:
            self._refuse(value, error)
            return
        found: list[Deliveries] = []
        settled: list[Settled] = []

        def maybe_respond(at_us: int) -> None:
            if found and settled:
                self._respond(value, found[0], settled[0])
                self._end_if_final(value, at_us)

        def fetched(results: Deliveries, at_us: int) -> None:
            found.append(results)
            maybe_respond(at_us)

        def acknowledged(results: Settled, at_us: int) -> None:
            settled.append(results)
            maybe_respond(at_us)

        self._settle(value, acknowledged, call.now_us)
        self._fetch(value, wanted, fetched, call.now_us)

    def _wanted(self, current: _InHand) -> list[SessionPartition]:
        """Begin or continue the member's share session. Return the partitions to fetch, none for the final request.

        Raises:
            KafkaError: if the session or its epoch is invalid, or if a first request has acknowledgements.

        Source: SharePartitionManager.newContext
        """
        sessions, request = self._shares.sessions, current.request
        if current.epoch == INITIAL_EPOCH:
            if current.acknowledgements:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            return list(sessions.begin(current.session, current.call.connection, current.partitions).partitions)
        session = sessions.go_on(current.session, current.epoch)
        if current.epoch == FINAL_EPOCH:
            return []
        session.partitions |= dict.fromkeys(current.partitions)
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                session.partitions.pop(SessionPartition(topic.topic_id or NO_ID, int(number)), None)
        return list(session.partitions)

    def _fetch(
        self,
        current: _InHand,
        wanted: Iterable[SessionPartition],
        respond: Callable[[Deliveries, int], None],
        now_us: int,
    ) -> None:
        request = current.request
        refused: Deliveries = {}
        known: dict[ShareKey, TopicPartition] = {}
        for topic_id, number in wanted:
            key, topic = ShareKey(current.session.group_id, topic_id, number), self._cache.topic_name(topic_id)
            if topic is None:
                refused[key] = Delivered(ErrorCode.UNKNOWN_TOPIC_ID)
            elif not self._may_read(current, topic):
                refused[key] = Delivered(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif self._cache.image.partition(topic, number) is None:
                refused[key] = Delivered(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                known[key] = TopicPartition(topic, number)
        fetch = ShareFetch(
            acquire=AcquireParams(
                member=current.session.member_id,
                max_records=int(request.max_records),
                batch_size=int(request.batch_size),
                is_record_limit=getattr(request, "share_acquire_mode", 0) == RECORD_LIMIT,
            ),
            peer=current.call.peer,
            connection=current.call.connection,
            max_wait_us=cold.milliseconds(request.max_wait) * 1000,
            min_bytes=min(int(request.min_bytes), int(request.max_bytes)),
            max_bytes=int(request.max_bytes),
            wanted=known,
            respond=lambda found, at_us: respond({**refused, **found}, at_us),
        )
        renews = current.call.header.api_version >= FIRST_WITH_RENEWALS and request.is_renew_ack
        if renews:
            respond({}, now_us)  # The renewed locks would expire before the response.
        else:
            self._shares.fetch(fetch, now_us)

    def _respond(self, current: _InHand, found: Deliveries, settled: Settled) -> None:
        is_first = current.epoch == INITIAL_EPOCH
        hints = LeaderHints(self._cache, self._broker.connections.listener(current.call.connection))
        topics: dict[object, list[Values]] = {}
        for key in dict.fromkeys((*found, *settled)):
            delivered = found.get(key, Delivered())
            error, message = settled.get(key, (ErrorCode.NONE, None))
            if not (is_first or delivered.acquired or delivered.error is not ErrorCode.NONE or key in settled):
                continue
            values: Values = {
                "partition_index": key.partition,
                "error_code": delivered.error,
                "error_message": delivered.message,
                "acknowledge_error_code": int(error),
                "acknowledge_error_message": message,
                "records": delivered.records,
                "acquired_records": [
                    {"first_offset": item.first, "last_offset": item.last, "delivery_count": item.delivery_count}
                    for item in delivered.acquired
                ],
            }
            worse = delivered.error if delivered.error is not ErrorCode.NONE else error
            topics.setdefault(key.topic_id, []).append(values | self._leader_values(hints, key, worse))
        self._answer_all(current, topics, hints)


class ShareAcknowledgeHandler(_OfShares):
    """ShareAcknowledge (79): accept, release, reject or renew records that a member acquired.

    1  the first version that Kafka keeps: version 0 was for early access in 4.0
    2  renewed locks (KIP-1222)
    """

    def __call__(self, call: Call) -> None:
        value = _InHand(call=call, request=call.decoded())
        try:
            self._check(value)
            if value.epoch == INITIAL_EPOCH:
                raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            self._shares.sessions.go_on(value.session, value.epoch)
        except KafkaError as error:
            self._refuse(value, error)
            return

        def acknowledged(settled: Settled, at_us: int) -> None:
            self._respond(value, settled)
            self._end_if_final(value, at_us)

        self._settle(value, acknowledged, call.now_us)

    def _respond(self, current: _InHand, settled: Settled) -> None:
        hints = LeaderHints(self._cache, self._broker.connections.listener(current.call.connection))
        topics: dict[object, list[Values]] = {}
        for key, (error, message) in settled.items():
            values: Values = {"partition_index": key.partition, "error_code": error, "error_message": message}
            topics.setdefault(key.topic_id, []).append(values | self._leader_values(hints, key, error))
        self._answer_all(current, topics, hints)


def _wrong(batches: Sequence[Acknowledgement], *, renews: bool) -> str:
    """Return what is wrong with acknowledgements, empty if valid. Source: validateAcknowledgementBatches"""
    previous = -1
    for batch in batches:
        if batch.first > batch.last or batch.first <= previous or not batch.types:
            return "Acknowledgement batches must be in offset order, and each needs an acknowledge type."
        if len(batch.types) not in (1, batch.last - batch.first + 1):
            return "An acknowledgement batch must have one acknowledge type, or one for each offset."
        if RENEW in batch.types and not renews:
            return "Renew acknowledgements require isRenewAck=true in the request."
        previous = batch.last
    return ""


APIS: Final[Mapping[int, Serve]] = where_shares_are_on(
    {SHARE_FETCH: ShareFetchHandler, SHARE_ACKNOWLEDGE: ShareAcknowledgeHandler}
)
