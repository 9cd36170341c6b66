"""A replica fetcher: it fetches partitions from one leader over one connection, with one request in flight.

The state of each partition decides what is requested and how a response is handled (followed_partition.py). In a fetch
session, requests and responses have only changes (cluster/protocol/fetch_session_handler.py).

Source: AbstractFetcherThread.scala, ReplicaFetcherThread.scala
"""

from __future__ import annotations

from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

from cluster.broker.replicas.followed_partition import FollowedPartition
from cluster.broker.replicas.partition import Partition
from cluster.channel import Channel
from cluster.clocks import Timer
from cluster.config import BrokerConfig
from cluster.protocol import cold
from cluster.protocol.api_01_fetch import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    NO_SESSION,
    FetchPartition,
    FetchRequest,
)
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.fetch_session_handler import Entries, FetchSessionHandler, SessionFetch, Wanted
from cluster.protocol.versions import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from controller.image import BrokerRegistration, PartitionRegistration
from replica.errors import ErrorCode, PeerViolation
from replica.fetch_fencing import current_leader_epoch
from replica.ids import UNKNOWN_OFFSET, LeaderEpoch, Offset, TopicPartition
from replica.inputs import AskLeaderOffsets, LeaderOffsetsKnown

if TYPE_CHECKING:
    from cluster.broker.replicas.fetchers import FetcherContext
    from cluster.messages.epoch_questions import Asked

LIST_OFFSETS_VERSION = 7
_TURN = attrgetter("turn")


class ReplicaFetcher:
    """Fetches partitions from one source broker.

    `partitions` has them in the order of the next request. A partition that got records moves to the end; so all get
    their share of full responses.
    """

    def __init__(self, context: FetcherContext, source: BrokerRegistration) -> None:
        self.partitions: dict[TopicPartition, FollowedPartition] = {}
        self._all = context
        self._source = source.broker_id
        self._channel = Channel(context.base.outbox, source.host, source.port)
        self._session = FetchSessionHandler()
        self._fetch_version = context.fetch_version
        self._timer: Timer | None = None
        self._writing = False
        self._questions: list[tuple[FollowedPartition, AskLeaderOffsets]] = []
        self._high_watermarks_moved: dict[TopicPartition, Partition] = {}
        self._turns = count()
        self._stirred: dict[TopicPartition, None] = {}
        """Partitions whose entry must be built again for the next request; the other entries are unchanged."""
        self._asked: dict[TopicPartition, tuple[Offset, LeaderEpoch]] = {}
        """Fetch offset and leader epoch of each partition in the last fetch."""

    @property
    def is_idle(self) -> bool:
        return not self.partitions

    def add(self, partition: Partition, registration: PartitionRegistration, now_us: int) -> None:
        followed = FollowedPartition(partition, self._source, self._all, self)
        self.partitions[followed.name] = followed
        followed.turn = next(self._turns)
        followed.follow(registration, now_us)
        self._go_on(now_us)

    def follow_on(self, name: TopicPartition, registration: PartitionRegistration, now_us: int) -> None:
        followed = self.partitions.get(name)
        if followed is not None:
            followed.follow(registration, now_us)

    def remove(self, name: TopicPartition) -> None:
        if self.partitions.pop(name, None) is not None:
            self.stirred(name)
            self._questions = [question for question in self._questions if question[0].name != name]

    def close(self) -> None:
        self._channel.close()
        if self._timer is not None:
            self._timer.cancel()

    # ----------------------------------------------------------------------------------------------------- requests

    def _go_on(self, now_us: int) -> None:
        """Send the next request if none is in flight: ListOffsets or OffsetForLeaderEpoch first, if any, else Fetch.

        Source: AbstractFetcherThread.doWork
        """
        if self._channel.busy or self._writing or not self.partitions:
            return
        if self._questions:
            self._ask(*self._questions.pop(0), now_us)
            return
        quota = self._all.quotas.follower
        if quota.throttled or self._session.is_full:
            self._stirred.update(dict.fromkeys(self.partitions))
        due = [self.partitions[name] for name in self._stirred if name in self.partitions]
        due.sort(key=_TURN)
        comparing = [followed for followed in due if followed.state.may_compare(now_us)]
        if comparing:
            self._ask_epoch_ends(comparing, now_us)
            return
        may_fetch = ready = [followed for followed in due if followed.state.may_fetch(now_us)]
        if quota.throttled:
            is_exceeded = quota.is_exceeded(now_us)
            ready = [followed for followed in may_fetch if not followed.throttle(quota, is_exceeded, now_us)]
        if not self._fetch(ready, now_us):
            self._wait(now_us, is_throttled=bool(may_fetch))

    def _wait(self, now_us: int, *, is_throttled: bool) -> None:
        """Wait for the end of the first delay of a partition, at most for replica.fetch.backoff.ms if throttled."""
        waiting = [self.partitions[name].state for name in self._stirred if name in self.partitions]
        ends = [state.delayed_until_us for state in waiting if state.delayed_until_us is not None]
        delays = [until_us for until_us in ends if until_us > now_us]
        if is_throttled:
            delays.append(now_us + self._all.config.replica_fetch_backoff_ms * 1000)
        if self._timer is not None:
            self._timer.cancel()
        if delays:
            self._timer = self._all.base.outbox.timers.at(min(delays), self._go_on)

    def _fetch(self, ready: list[FollowedPartition], now_us: int) -> bool:
        """Send a Fetch request with the changes of the session. Return False if there is nothing to fetch."""
        config = self._all.config
        wanted = {followed.name: self._wanted(followed, config.replica_fetch_max_bytes) for followed in ready}
        fetch = self._session.build(wanted, self._stirred)
        if fetch is None:
            return False
        request = self._request(fetch, config)
        for name in self._stirred:
            self._asked.pop(name, None)
        for followed in ready:
            self._asked[followed.name] = (followed.state.fetch_offset, followed.state.leader_epoch)
        # Partitions that are not ready are checked again each time, since a delay ends without an event.
        self._stirred = {name: None for name in self._stirred if name in self.partitions and name not in wanted}
        self._channel.request(
            FETCH,
            lambda correlation_id: encode_fetch_request(
                self._fetch_version, correlation_id, self._all.base.node, request
            ),
            self._answered,
            config.replica_socket_timeout_ms * 1000,
            now_us,
        )
        return True

    def _wanted(self, followed: FollowedPartition, max_bytes: int) -> Wanted:
        state, partition = followed.state, followed.partition
        entry = FetchPartition(
            followed.name.partition,
            current_leader_epoch(self._all.base.rules, state.leader_epoch),
            state.fetch_offset,
            state.epoch_in_fetch,
            partition.log.log_start_offset,
            max_bytes,
        )
        by_id = self._fetch_version >= FIRST_VERSION_WITH_TOPIC_IDS
        return Wanted(partition.topic_id if by_id else followed.name.topic, entry)

    def _request(self, fetch: SessionFetch, config: BrokerConfig) -> FetchRequest:
        uses_sessions = self._all.uses_fetch_sessions
        return FetchRequest(
            replica_id=self._all.base.broker_id,
            replica_epoch=self._all.stated_broker_epoch,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=fetch.session_id if uses_sessions else NO_SESSION,
            session_epoch=fetch.session_epoch if uses_sessions else FINAL_EPOCH,
            topics=fetch.topics,
            forgotten=fetch.forgotten,
        )

    # ----------------------------------------------------------------------------------------------- Fetch responses

    def _answered(self, frame: bytearray | None, now_us: int) -> None:
        entries = None
        if frame is None:
            self._session.failed()
        else:
            try:
                response = decode_fetch_response(self._fetch_version, frame)
            except PeerViolation:
                self._session.failed()
            else:
                entries = self._session.answered(response)
                if entries is None and response.error is not ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
                    entries = {}  # The next fetch, a full one, follows immediately.
        if entries is None:  # As in Kafka, all current partitions are delayed, not only the requested ones.
            for followed in self.partitions.values():
                followed.broke(now_us)
            self._go_on(now_us)
            return
        written_us = self._written_us(entries, now_us)
        if written_us == now_us:
            self._take(entries, now_us)
            return
        names = list(entries)
        self._writing = True
        self._all.locks.begin_append(names)

        def write(now_us: int) -> None:
            self._writing = False
            self._take(entries, now_us)
            self._all.locks.end_append(names, now_us)

        self._all.base.outbox.timers.at(written_us, write)

    def _written_us(self, entries: Entries, now_us: int) -> int:
        """Return the time when a response will have been processed and its records written to disk.

        The fetcher does nothing else until then. Simplified: all records become visible at that time.
        """
        written_us = now_us
        for name, entry in entries.items():
            followed = self.partitions.get(name)
            if followed is not None and entry.records:
                taken_us = now_us + self._all.replicated_us
                speed = followed.partition.log.disk.speed
                written_us = max(written_us, speed.append_ends_us(len(entry.records), taken_us))
        return written_us

    def _take(self, entries: Entries, now_us: int) -> None:
        for name, entry in entries.items():
            answered = self.partitions.get(name)
            if answered is not None and name in self._asked:
                answered.answered(self._asked[name], entry, now_us)
        moved, self._high_watermarks_moved = self._high_watermarks_moved, {}
        for partition in moved.values():
            self._all.replicas.high_watermark_moved(partition, now_us)
        self._go_on(now_us)

    # --------------------------------------------------------------------------------- reports of followed partitions

    def wants_offset(self, followed: FollowedPartition, question: AskLeaderOffsets) -> None:
        self._questions.append((followed, question))

    def stirred(self, name: TopicPartition) -> None:
        """Note that the partition's entry must be built again for the next request."""
        self._stirred[name] = None

    def appended(self, followed: FollowedPartition) -> None:
        self.partitions[followed.name] = self.partitions.pop(followed.name)
        followed.turn = next(self._turns)

    def high_watermark_moved(self, followed: FollowedPartition) -> None:
        """Note that a high watermark moved; waiting requests are checked after the whole response is processed."""
        self._high_watermarks_moved[followed.name] = followed.partition

    # ------------------------------------------------------------------------------------------ OffsetForLeaderEpoch

    def _ask_epoch_ends(self, comparing: list[FollowedPartition], now_us: int) -> None:
        from cluster.messages.epoch_questions import OFFSET_FOR_LEADER_EPOCH_VERSION, epoch_ends_request

        identity = self._all.base.identity
        named = [(followed.name, followed.state) for followed in comparing]
        entity, asked = epoch_ends_request(self._all.base.rules, identity.broker_id, named)
        self._channel.request(
            OFFSET_FOR_LEADER_EPOCH,
            lambda correlation_id: cold.encode_request(
                OFFSET_FOR_LEADER_EPOCH, OFFSET_FOR_LEADER_EPOCH_VERSION, correlation_id, identity.name, entity
            ),
            lambda frame, now_us: self._handle_epoch_ends(asked, frame, now_us),
            self._all.config.replica_socket_timeout_ms * 1000,
            now_us,
        )

    def _handle_epoch_ends(self, asked: Asked, frame: bytearray | None, now_us: int) -> None:
        if frame is None:
            for name in asked:
                if name in self.partitions:
                    self.partitions[name].broke(now_us)
        else:
            from cluster.messages.epoch_questions import epoch_ends_answers

            for name, epoch_end in epoch_ends_answers(asked, frame, now_us):
                followed = self.partitions.get(name)
                if followed is not None:
                    followed.step(epoch_end, now_us)
        self._go_on(now_us)

    # ---------------------------------------------------------------------------------------------------- ListOffsets

    def _ask(self, followed: FollowedPartition, question: AskLeaderOffsets, now_us: int) -> None:
        entity = cold.request(
            LIST_OFFSETS,
            LIST_OFFSETS_VERSION,
            replica_id=self._all.base.broker_id,
            isolation_level=0,
            topics=[
                {
                    "name": followed.name.topic,
                    "partitions": [
                        {
                            "partition_index": followed.name.partition,
                            "current_leader_epoch": current_leader_epoch(self._all.base.rules, question.leader_epoch),
                            "timestamp": question.which.value,
                        }
                    ],
                }
            ],
        )
        name = self._all.base.node
        self._channel.request(
            LIST_OFFSETS,
            lambda correlation_id: cold.encode_request(
                LIST_OFFSETS, LIST_OFFSETS_VERSION, correlation_id, name, entity
            ),
            lambda frame, now_us: self._handle_leader_offsets(followed, question, frame, now_us),
            self._all.config.replica_socket_timeout_ms * 1000,
            now_us,
        )

    def _handle_leader_offsets(
        self, followed: FollowedPartition, question: AskLeaderOffsets, frame: bytearray | None, now_us: int
    ) -> None:
        if self.partitions.get(followed.name) is not followed:
            pass  # The partition was removed before the response, and perhaps added again with a new leader epoch.
        elif frame is None:
            followed.broke(now_us)
        else:
            answer = cold.decode_response(LIST_OFFSETS, LIST_OFFSETS_VERSION, frame)
            entry = answer.topics[0].partitions[0]
            error = ErrorCode(int(entry.error_code))
            known = LeaderOffsetsKnown(
                now_us=now_us,
                which=question.which,
                requested_leader_epoch=question.leader_epoch,
                error=error,
                offset=int(entry.offset) if error is ErrorCode.NONE else UNKNOWN_OFFSET,
            )
            followed.step(known, now_us)
        self._go_on(now_us)
