"""The ShareFetch and ShareAcknowledge requests of a share group's member (KIP-932).

1. The member has a session at each broker: the partitions to read, and an epoch that grows with each request. At most
   one request is in flight to each broker.
2. Acknowledgements are sent to the broker that delivered the records: with the next ShareFetch, or without a fetch
   (ShareAcknowledge) while fetched records still wait for a poll.
3. A new session cannot acknowledge records of the old one: after a lost connection or a change of leader, all waiting
   acknowledgements fail, and brokers deliver those records again.
4. ShareAcknowledge is repeated after retriable errors; acknowledgements in a fetch are not repeated.

Simplified: acknowledgements are repeated without a deadline (default.api.timeout.ms), locks are not renewed (KIP-1222),
and the member waits for retry.backoff.ms after a partition's error.

Source: ShareConsumeRequestManager.java, ShareSessionHandler.java, ShareCompletedFetch.java (4.3)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from cluster.client.connections import Answered, ClientConnections
from cluster.client.events import ClientEvents, record_name
from cluster.client.metadata_cache import ClientMetadata
from cluster.client.node import ExponentialBackoff
from cluster.config import RECORD_LIMIT, ShareConsumerConfig
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint
from cluster.protocol.versions import SHARE_ACKNOWLEDGE, SHARE_FETCH
from replica.config import NEVER
from replica.errors import RETRIABLE, ErrorCode
from replica.ids import NO_BROKER, Offset, TopicPartition
from replica.log.batches.records import batches, read_records
from replica.trace.events import ShareAcknowledgementFailed

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
GAP = 0
"""The type of acknowledgement for an acquired offset that has no record."""
LEADER_CHANGED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""Errors after which an acknowledgement is not repeated. Source: handlePartitionError"""

Types = dict[Offset, int]
"""The type of acknowledgement of each record, by offset."""
Acknowledged = dict[TopicPartition, Types]


class ShareRecord(NamedTuple):
    """A record that the member has acquired. `record` is its name; `ends_batch` marks the last one of a batch."""

    node_id: int
    name: TopicPartition
    offset: Offset
    record: str
    delivery_count: int
    ends_batch: bool


@dataclass(slots=True, eq=False)
class _Session:
    """The session at one broker. Acknowledgements wait for the next ShareFetch (`with_fetch`) or ShareAcknowledge."""

    epoch: int = INITIAL_EPOCH
    partitions: dict[TopicPartition, UUID] = field(default_factory=dict)
    with_fetch: Acknowledged = field(default_factory=dict)
    alone: Acknowledged = field(default_factory=dict)
    in_flight: bool = False
    failures: int = 0
    retry_at_us: int = 0


class MemberSessions:
    """The share sessions of one member.

    Attributes:
        assigned: partitions to read.
        wants_more: True while the application waits for records.
        fetched: records that no poll has returned yet.
    """

    def __init__(
        self,
        config: ShareConsumerConfig,
        connections: ClientConnections,
        events: ClientEvents,
        backoff: ExponentialBackoff,
    ) -> None:
        self.assigned: Sequence[TopicPartition] = ()
        self.wants_more = False
        self.fetched: deque[ShareRecord] = deque()
        self.member_id = ""
        self.next_deadline_us = NEVER
        self._config = config
        self._connections = connections
        self._metadata: ClientMetadata = connections.metadata
        self._events = events
        self._backoff = backoff
        self._sessions: dict[int, _Session] = {}

    # ------------------------------------------------------------------------------------------------ the application

    def acknowledge(self, records: Iterable[tuple[ShareRecord, int]], *, alone: bool) -> None:
        """Store the application's acknowledgements for the next request.

        Args:
            records: each record with its type of acknowledgement.
            alone: True to send them by ShareAcknowledge, False with the next ShareFetch.
        """
        for record, kind in records:
            session = self._sessions.setdefault(record.node_id, _Session())
            waiting = session.alone if alone else session.with_fetch
            waiting.setdefault(record.name, {})[record.offset] = kind

    def take(self, limit: int) -> list[ShareRecord]:
        """Return whole batches for a poll, until they have at least `limit` records. Source: fetchRecords"""
        found: list[ShareRecord] = []
        while self.fetched and (len(found) < limit or not found[-1].ends_batch):
            found.append(self.fetched.popleft())
        return found

    # ------------------------------------------------------------------------------------------------------- requests

    def run_once(self, now_us: int) -> bool:
        """Send the requests that can be sent now, and return True if any was sent."""
        self.next_deadline_us = NEVER
        sent = False
        led = self._led() if self.wants_more else {}
        for node_id in dict.fromkeys((*led, *self._sessions)):
            session = self._sessions.setdefault(node_id, _Session())
            self._drop_stale(node_id, session)
            if session.in_flight or not (node_id in led or session.with_fetch or session.alone):
                continue
            if node_id not in self._metadata.nodes:
                self._metadata.request_update()
            elif now_us < session.retry_at_us:
                self.next_deadline_us = min(self.next_deadline_us, session.retry_at_us)
            elif self._is_ready(node_id, now_us):
                if session.alone:
                    self._acknowledge(node_id, session, session.epoch, now_us)
                else:
                    self._fetch(node_id, session, led.get(node_id, {}), now_us)
                sent = True
        return sent

    def close_once(self, now_us: int) -> bool:
        """End the sessions and send all acknowledgements; return True if a request was sent.

        Sessions at unreachable brokers are dropped, and their acknowledgements fail.

        Source: acknowledgeOnClose
        """
        self.next_deadline_us = NEVER
        sent = False
        for node_id, session in list(self._sessions.items()):
            for name, types in session.with_fetch.items():
                session.alone.setdefault(name, {}).update(types)
            session.with_fetch = {}
            self._drop_stale(node_id, session)
            if session.in_flight:
                continue
            is_gone = node_id not in self._metadata.nodes or self._connections.is_unavailable(node_id, now_us)
            if session.epoch == INITIAL_EPOCH or is_gone:
                self._fail(node_id, session.alone, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                del self._sessions[node_id]
            elif self._is_ready(node_id, now_us):
                self._acknowledge(node_id, session, FINAL_EPOCH, now_us)
                sent = True
        return sent

    @property
    def has_closed(self) -> bool:
        return not self._sessions

    def _is_ready(self, node_id: int, now_us: int) -> bool:
        if self._connections.ready(node_id, now_us):
            return True
        retry_at_us = self._connections.retry_at_us(node_id, now_us)
        self.next_deadline_us = min(self.next_deadline_us, NEVER if retry_at_us is None else retry_at_us)
        return False

    def _led(self) -> dict[int, dict[TopicPartition, UUID]]:
        """Return the assigned partitions and their topic ids by leader."""
        found: dict[int, dict[TopicPartition, UUID]] = {}
        for name in self.assigned:
            leader, topic_id = self._metadata.leader(name).leader, self._metadata.topic_id(name.topic)
            if leader == NO_BROKER or topic_id is None:
                self._metadata.request_update()
            else:
                found.setdefault(leader, {})[name] = topic_id
        return found

    def _drop_stale(self, node_id: int, session: _Session) -> None:
        """Fail acknowledgements that the broker cannot accept. Source: isLeaderKnownToHaveChanged, isNewSession"""
        for waiting in (session.with_fetch, session.alone):
            for name in list(waiting):
                leader = self._metadata.leader(name).leader
                is_new = session.epoch == INITIAL_EPOCH and not session.in_flight
                if is_new or leader not in (node_id, NO_BROKER):
                    self._fail(node_id, {name: waiting.pop(name)}, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _fetch(self, node_id: int, session: _Session, wanted: dict[TopicPartition, UUID], now_us: int) -> None:
        """Send a ShareFetch. Source: ShareSessionHandler.newShareFetchBuilder"""
        is_new = session.epoch == INITIAL_EPOCH
        added = {name: item for name, item in wanted.items() if is_new or session.partitions.get(name) != item}
        forgotten = {name: item for name, item in session.partitions.items() if wanted.get(name) != item and not is_new}
        session.partitions = wanted
        sent, session.with_fetch = session.with_fetch, {}
        ids = {**forgotten, **wanted}
        config, limit = self._config, self._config.max_poll_records
        values = {
            "max_wait": config.fetch_max_wait_ms,
            "min_bytes": config.fetch_min_bytes,
            "max_bytes": config.fetch_max_bytes,
            "max_records": limit,
            "batch_size": limit,
            "share_acquire_mode": int(config.share_acquire_mode == RECORD_LIMIT),
            "topics": _by_topic(
                ((name, ids[name]) for name in dict.fromkeys((*added, *sent)) if name in ids),
                lambda name: _partition(name, sent.get(name, {})),
            ),
            "forgotten_topics_data": _by_topic(forgotten.items(), lambda name: name.partition),
        }

        def answered(answer: Any, error: ErrorCode, answered_us: int) -> None:
            if self._went_on(session, node_id, sent, error, answered_us):
                self._fetched(node_id, session, answer, sent, answered_us)

        self._ask(node_id, session, SHARE_FETCH, session.epoch, values, answered, now_us)

    def _acknowledge(self, node_id: int, session: _Session, epoch: int, now_us: int) -> None:
        sent, session.alone = session.alone, {}
        ids = {name: topic_id for name in sent if (topic_id := self._metadata.topic_id(name.topic)) is not None}
        values = {"topics": _by_topic(ids.items(), lambda name: _partition(name, sent[name]))}

        def answered(answer: Any, error: ErrorCode, answered_us: int) -> None:
            if epoch == FINAL_EPOCH:
                self._sessions.pop(node_id, None)
            if self._went_on(session, node_id, sent, error, answered_us):
                self._acknowledged(node_id, session, answer, sent, answered_us)

        self._ask(node_id, session, SHARE_ACKNOWLEDGE, epoch, values, answered, now_us)

    def _ask(
        self,
        node_id: int,
        session: _Session,
        api_key: int,
        epoch: int,
        values: Mapping[str, object],
        answered: Answered,
        now_us: int,
    ) -> None:
        session.in_flight = True
        of_all = {"group_id": self._config.group_id, "member_id": self.member_id, "share_session_epoch": epoch}
        self._connections.ask(node_id, api_key, {**of_all, **values}, answered, now_us)

    # -------------------------------------------------------------------------------------------------------- answers

    def _went_on(self, session: _Session, node_id: int, sent: Acknowledged, error: ErrorCode, now_us: int) -> bool:
        """Apply the request's own error: advance the session's epoch, or reset the session and return False.

        Source: handleResponse, handleError
        """
        session.in_flight = False
        if error is ErrorCode.NONE:
            session.epoch += 1
            return True
        session.epoch = INITIAL_EPOCH
        self._fail(node_id, sent, error)
        self._retry_later(session, now_us)
        return False

    def _retry_later(self, session: _Session, now_us: int) -> None:
        session.retry_at_us = now_us + self._backoff.after_us(session.failures)
        session.failures += 1

    def _fetched(self, node_id: int, session: _Session, answer: Any, sent: Acknowledged, now_us: int) -> None:
        """Handle a ShareFetch response. Source: handleShareFetchSuccess"""
        has_failed = False
        for name, part in self._parts(answer):
            acknowledge_error = ErrorCode(int(part.acknowledge_error_code))
            if name in sent:
                types = sent.pop(name)
                if acknowledge_error is not ErrorCode.NONE:
                    self._fail(node_id, {name: types}, acknowledge_error)
            if part.error_code is not ErrorCode.NONE:
                has_failed = True
                self._partition_failed(name, part, answer)
            elif part.acquired_records:
                self.wants_more = False
                self._take_records(node_id, name, part)
        self._end(node_id, session, sent, has_failed, now_us)

    def _end(self, node_id: int, session: _Session, left: Acknowledged, has_failed: bool, now_us: int) -> None:
        """Fail the acknowledgements that the response lacks (`left`); delay the next request if `has_failed`."""
        self._fail(node_id, left, ErrorCode.INVALID_RECORD_STATE)
        if has_failed:
            self._retry_later(session, now_us)
        else:
            session.failures = 0

    def _take_records(self, node_id: int, name: TopicPartition, part: Any) -> None:
        """Store the acquired records for the next poll, and acknowledge acquired offsets without a record as gaps."""
        counts = {
            offset: int(acquired_record.delivery_count)
            for acquired_record in part.acquired_records
            for offset in range(acquired_record.first_offset, acquired_record.last_offset + 1)
        }
        data = memoryview(part.records or b"")
        for start, header in batches(data):
            if header.is_control:
                continue
            found = [
                ShareRecord(node_id, name, record.offset, record_name(record), counts.pop(record.offset), False)
                for record in read_records(data[start : start + header.size_bytes], header=header)
                if record.offset in counts
            ]
            if found:
                self.fetched += (*found[:-1], found[-1]._replace(ends_batch=True))
        if counts:
            session = self._sessions.setdefault(node_id, _Session())
            session.alone.setdefault(name, {}).update(dict.fromkeys(counts, GAP))

    def _acknowledged(self, node_id: int, session: _Session, answer: Any, sent: Acknowledged, now_us: int) -> None:
        """Handle a ShareAcknowledge response; after a retriable error acknowledgements are sent again.

        Source: handlePartitionError
        """
        has_failed = False
        for name, part in self._parts(answer):
            types = sent.pop(name, None)
            error = part.error_code
            if types is None or error is ErrorCode.NONE:
                continue
            if error in LEADER_CHANGED or error not in RETRIABLE or node_id not in self._sessions:
                self._partition_failed(name, part, answer)
                self._fail(node_id, {name: types}, error)
            else:
                has_failed = True
                session.alone[name] = types | session.alone.get(name, {})
        self._end(node_id, session, sent, has_failed, now_us)

    def _parts(self, answer: Any) -> Iterator[tuple[TopicPartition, Any]]:
        for topic in answer.responses:
            name = self._metadata.topic_name(topic.topic_id)
            for part in topic.partitions if name is not None else ():
                yield TopicPartition(str(name), int(part.partition_index)), part

    def _partition_failed(self, name: TopicPartition, part: Any, answer: Any) -> None:
        endpoints = [
            NodeEndpoint(int(node_endpoint.node_id), node_endpoint.host, int(node_endpoint.port))
            for node_endpoint in answer.node_endpoints
        ]
        hint = LeaderIdAndEpoch(int(part.current_leader.leader_id), int(part.current_leader.leader_epoch))
        if not self._metadata.update_leader(name, hint, endpoints):
            self._metadata.request_update()

    def _fail(self, node_id: int, acknowledged: Acknowledged, error: ErrorCode) -> None:
        for name, types in acknowledged.items():
            for first, last, _ in _ranges(dict.fromkeys(types, GAP)):
                self._events.emit(
                    ShareAcknowledgementFailed(
                        self._events.client,
                        *name,
                        peer=self._connections.name(node_id),
                        group=self._config.group_id,
                        first=first,
                        last=last,
                        error=error.name,
                    )
                )


def _ranges(types: Types) -> list[tuple[Offset, Offset, int]]:
    """Return ranges of adjacent offsets with the same type, each as (first, last, type)."""
    found: list[tuple[Offset, Offset, int]] = []
    for offset, kind in sorted(types.items()):
        if found and found[-1][1:] == (offset - 1, kind):
            found[-1] = found[-1][0], offset, kind
        else:
            found.append((offset, offset, kind))
    return found


def _partition(name: TopicPartition, types: Types) -> dict[str, object]:
    """Return a partition's fields for ShareFetch or ShareAcknowledge, with its acknowledgements."""
    found = [
        {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]}
        for first, last, kind in _ranges(types)
    ]
    return {"partition_index": name.partition, "acknowledgement_batches": found}


def _by_topic(
    partitions: Iterable[tuple[TopicPartition, UUID]], write: Callable[[TopicPartition], object]
) -> list[dict[str, object]]:
    topics: dict[UUID, list[object]] = {}
    for name, topic_id in partitions:
        topics.setdefault(topic_id, []).append(write(name))
    return [{"topic_id": topic_id, "partitions": parts} for topic_id, parts in topics.items()]
