"""The consumer, without I/O; it behaves like the Java client 3.9.

Without a group it reads every partition of its topics (assign + seek) and starts as auto.offset.reset says. With a
group it reads its assigned partitions from the committed offsets (membership.py). It polls all the time.

Source: KafkaConsumer.java, SubscriptionState.java, OffsetFetcher.java, FetchCollector.java; KIP-320 for truncation
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from cluster.client.connections import ClientConnections
from cluster.client.consumer.fetcher import ConsumerFetcher, TakeRecord
from cluster.client.consumer.offsets import OffsetLookups
from cluster.client.consumer.positions import PartitionPosition, PositionMove, PositionState
from cluster.client.events import ClientEvents
from cluster.client.interceptors import NO_TIME
from cluster.client.metadata_cache import ClientMetadata
from cluster.client.node import ClientBase, ClientNode, ExponentialBackoff
from cluster.clocks import Timer
from cluster.config import CONSUMER, ConsumerConfig, GroupConsumerConfig
from cluster.node import Action
from cluster.protocol.versions import OFFSET_COMMIT, api_name
from cluster.topic_pattern import TopicPattern
from replica.causes import ReadReplicaCause, ResetCause
from replica.config import NEVER
from replica.errors import NO_OFFSET_FOR_PARTITION, ErrorCode
from replica.ids import NO_BROKER, UNDEFINED_EPOCH, UNKNOWN_OFFSET, TopicPartition
from replica.log.files.checkpoints import as_kafka_spells
from replica.rules import KafkaRelease, Rules
from replica.trace.events import FetchFailed, OffsetCommitRefused
from replica.wording import shown

if TYPE_CHECKING:
    from cluster.client.consumer.membership import GroupMembership
    from cluster.client.consumer.pipeline import ConsumerPipeline

MAX_IN_FLIGHT = 100
"""CONSUMER_MAX_INFLIGHT_REQUESTS_PER_CONNECTION; a consumer has at most one fetch in flight at each node."""
CLOSE_TIMEOUT_US = 30_000_000
"""How long the closing of a consumer may take (ConsumerUtils.DEFAULT_CLOSE_TIMEOUT_MS)."""
CLOSES_SESSIONS_SINCE = KafkaRelease(3, 5)
"""The first release whose consumers close their fetch sessions at the leaders when they exit (KAFKA-7109)."""


class ConsumerCore(ClientNode):
    """One consumer.

    It implements cluster.node.NodeCore. The application calls `seek`, `ask_end_offset`, `commit`, `rewind`, `poll` and
    `close`.
    """

    def __init__(
        self,
        base: ClientBase,
        config: ConsumerConfig,
        topics: Sequence[str] | TopicPattern,
        rules: Rules,
        *,
        take: TakeRecord | None = None,
        process_us: int = 0,
    ) -> None:
        """Create a consumer.

        Args:
            config: a GroupConsumerConfig makes the consumer a member of a group.
            rules: rules of the client's Kafka release.
            take: called with each record; None if the application ignores records.
            process_us: time that the application takes for each record, see ConsumerFetcher.
        """
        rng, cpu = base.rng, base.cpu
        self._config = config
        self._rules = rules
        self._topics: Sequence[str] | TopicPattern = topics
        self._outbox = base.outbox
        self._wake: Timer | None = None
        self._metadata = ClientMetadata(
            base.bootstrap,
            max_age_ms=config.metadata_max_age_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            rng=rng,
        )
        for topic in () if isinstance(topics, TopicPattern) else topics:
            self._metadata.add_topic(topic)
        self._metadata_version_used = -1
        self._connections = ClientConnections(base, config, self._metadata, max_in_flight=MAX_IN_FLIGHT)
        self._events = ClientEvents(base.name, base.recorder)
        self._positions: dict[TopicPartition, PartitionPosition] = {}
        backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self._lookups = OffsetLookups(
            self._positions,
            self._connections,
            self._events,
            backoff,
            config.auto_offset_reset,
            config.isolation_level,
        )
        self._pipeline: ConsumerPipeline | None = None
        if cpu != NO_TIME or not config.hands_records_as_they_are:
            from cluster.client.consumer.pipeline import pipeline_of

            self._pipeline = pipeline_of(config, cpu, self._events)
        self._fetcher = ConsumerFetcher(
            config, self._positions, self._connections, self._events, backoff, take, self._pipeline, process_us
        )
        self.is_polled = True
        """False while the application works between polls; deserializing and `process_us` are counted separately."""
        self.group: GroupMembership | None = None
        self.on_revoked: Callable[[Sequence[TopicPartition]], None] = _ignore
        """Called with the partitions that this member has lost; the application then drops their records."""
        if isinstance(config, GroupConsumerConfig):
            self.group = self._membership(config, rng)
            if config.enable_auto_commit:
                from cluster.client.consumer.membership import AutoCommit

                self.group.auto_commit = AutoCommit(config.auto_commit_interval_ms, self._consumed)
            self.group.on_commit_failed = partial(self._commit_failed, config.group_id)
            if self._pipeline is not None:
                self.group.on_committed = self._pipeline.on_commit
        self.first_unread: Callable[[TopicPartition], int | None] = _nothing_unread
        """Returns the offset of the first fetched record that no poll has returned yet, or None."""
        self._closes_by_us: int | None = None
        """The time by which the consumer has to exit, None while it is not being closed."""
        self._running = False

    def _membership(self, config: GroupConsumerConfig, rng: random.Random) -> GroupMembership:
        parts = self._connections, self._go_on_from, self._give_up, self._rules
        if config.group_protocol == CONSUMER:
            from cluster.client.consumer.consumer_membership import HeartbeatMembership

            member_id = as_kafka_spells(UUID(int=rng.getrandbits(128), version=4))
            return HeartbeatMembership(config, self._topics, *parts, member_id)
        from cluster.client.consumer.classic_membership import ClassicMembership

        return ClassicMembership(config, self._topics, *parts)

    # ------------------------------------------------------------------------------------------------- application

    def seek(self, tp: TopicPartition, target: int | Literal["beginning", "end"], now_us: int) -> list[Action]:
        """Continue reading at an offset, or at the beginning or end of the log as the leader reports it."""
        self._events.begin_step(from_outside=False)
        position = self._positions.setdefault(tp, PartitionPosition(tp))
        if isinstance(target, int):
            previous = position.offset
            leader = self._metadata.leader(tp)
            position.move_to(target, UNDEFINED_EPOCH, leader)
            peer = self._connections.name(leader.leader)
            self._lookups.tell_reset(position, peer, previous, None, PositionMove(ResetCause.SEEK))
        else:
            to = "earliest" if target == "beginning" else "latest"
            position.await_reset(to, None, PositionMove(ResetCause.SEEK, target))
        return self._run(now_us)

    def ask_end_offset(self, tp: TopicPartition, now_us: int) -> list[Action]:
        """Ask the leader for the partition's end offset; the result is emitted as an event (EndOffsetSeen)."""
        self._events.begin_step(from_outside=False)
        self._lookups.ask_end_offset(tp)
        return self._run(now_us)

    def commit(
        self, offsets: Mapping[TopicPartition, int], committed: Callable[[ErrorCode], None], now_us: int
    ) -> list[Action]:
        """Commit the group's offsets (commitSync), and call `committed` once with the outcome."""
        assert self.group is not None, "group.id is not set"
        self._events.begin_step(from_outside=False)
        self.group.commit(offsets, committed)
        return self._run(now_us)

    def rewind(self, now_us: int) -> list[Action]:
        """Continue from the committed offsets; records after them are read again."""
        assert self.group is not None, "group.id is not set"
        self._events.begin_step(from_outside=False)
        for position in self._positions.values():
            position.stop()
        self._fetcher.unreadable = None
        self.group.fetch_committed()
        return self._run(now_us)

    def poll(self, now_us: int) -> list[Action]:
        """Note that the application polls again; the member may now join a rebalance."""
        self.is_polled = True
        self._fetcher.polled(now_us)
        return self._run(now_us)

    def close(self, now_us: int) -> list[Action]:
        """Stop reading and exit within CLOSE_TIMEOUT_US. Source: ClassicKafkaConsumer.close

        With enable.auto.commit the consumer commits first. Then a member leaves its group, and from 3.5 on the fetch
        sessions are closed (KAFKA-7109).
        """
        if not self._running:
            return self._exit()
        self._events.begin_step(from_outside=False)
        self._close_by(now_us + CLOSE_TIMEOUT_US)
        if self.group is not None:
            self.group.leave()
        return self._run(now_us)

    def _close_by(self, at_us: int) -> None:
        self._closes_by_us = at_us
        self._outbox.timers.at(at_us, lambda _: None)

    def _exit(self) -> list[Action]:
        self._running = False
        self._connections.close()
        self._outbox.exit()
        return self._outbox.take()

    def position(self, tp: TopicPartition) -> int | None:
        """Return the next offset to read; None if the partition has no valid position yet."""
        known = self._positions.get(tp)
        return None if known is None or known.offset < 0 else known.offset

    def _consumed(self) -> dict[TopicPartition, int]:
        """Return the offset of the next record that a poll returns, for each partition with a valid position.

        Source: SubscriptionState.allConsumed
        """
        found: dict[TopicPartition, int] = {}
        for tp, position in self._positions.items():
            if position.state is PositionState.FETCHING or position is self._fetcher.unreadable:
                unread = self.first_unread(tp)
                found[tp] = position.offset if unread is None else unread
        return found

    # --------------------------------------------------------------------------------------------------- the loop

    def _run(self, now_us: int) -> list[Action]:
        if not self._running:
            return self._outbox.take()
        if self._closes_by_us is not None:
            return self._shut_down(self._closes_by_us, now_us)
        busy = True
        while busy:
            self._learn_leaders()
            busy = self._lookups.run_once(now_us)
            if self.group is not None:
                self.group.may_join = self.is_polled and not self._fetcher.is_busy(now_us)
                busy |= self.group.run_once(now_us)
            busy |= self._fetcher.run_once(now_us)
            busy |= self._connections.poll(now_us)  # Last, because earlier calls may have requested new metadata.
        deadlines = [self._lookups.next_deadline_us, self._fetcher.next_deadline_us]
        if self.group is not None:
            deadlines.append(self.group.next_deadline_us)
        self._arm(deadlines, now_us)
        return self._outbox.take()

    def _shut_down(self, by_us: int, now_us: int) -> list[Action]:
        if self._fetcher.is_closing:
            return self._close_sessions(by_us, now_us)
        group = self.group
        while group is not None and (group.run_once(now_us) or self._connections.poll(now_us)):
            pass
        if group is not None and not group.has_left and now_us < by_us:
            self._arm([group.next_deadline_us], now_us)
            return self._outbox.take()
        if now_us >= by_us or self._rules.release < CLOSES_SESSIONS_SINCE:
            return self._exit()
        self._fetcher.begin_closing(now_us)
        by_us = min(by_us, now_us + self._config.request_timeout_ms * 1000)
        self._close_by(by_us)
        return self._close_sessions(by_us, now_us)

    def _close_sessions(self, by_us: int, now_us: int) -> list[Action]:
        while self._fetcher.close_once(now_us) or self._connections.poll(now_us):
            pass
        if self._fetcher.has_closed or now_us >= by_us:
            return self._exit()
        self._arm([self._fetcher.next_deadline_us], now_us)
        return self._outbox.take()

    def _learn_leaders(self) -> None:
        """Apply new metadata: without a group, add new partitions; set the leader of each position.

        Source: validatePositionsOnMetadataChange
        """
        if self._metadata_version_used == self._metadata.version:
            return
        self._metadata_version_used = self._metadata.version
        for topic in () if self.group is not None or isinstance(self._topics, TopicPattern) else self._topics:
            for tp in self._metadata.partitions(topic):
                if tp not in self._positions:
                    self._assign(tp)
        for tp, position in self._positions.items():
            if position.leader_is(self._metadata.leader(tp), self._rules):
                self._fetcher.read_replicas.leave(position, ReadReplicaCause.NEW_LEADER)

    def _assign(self, tp: TopicPartition, error: str | None = None) -> None:
        """Start reading a partition as auto.offset.reset says; `error` is set if the group has no committed offset."""
        position = self._positions[tp] = PartitionPosition(tp)
        policy = self._config.auto_offset_reset
        if policy == "none":
            peer, offset = self._connections.name(NO_BROKER), position.offset
            failed = FetchFailed(self._events.client, *tp, peer=peer, offset=offset, error=NO_OFFSET_FOR_PARTITION)
            self._events.emit(failed)
            position.stop()
        else:
            cause = ResetCause.NO_POSITION if error is None else ResetCause.NO_COMMITTED_OFFSET
            position.await_reset(policy, error, PositionMove(cause, policy))

    def _go_on_from(self, committed: Mapping[TopicPartition, int]) -> None:
        """Start reading partitions at the group's committed offsets, -1 for none.

        Source: ConsumerCoordinator.initWithCommittedOffsetsIfNeeded
        """
        for tp, offset in committed.items():
            if offset == UNKNOWN_OFFSET:
                self._assign(tp, NO_OFFSET_FOR_PARTITION)
                continue
            position = self._positions.setdefault(tp, PartitionPosition(tp))
            previous, leader = position.offset, self._metadata.leader(tp)
            position.move_to(offset, UNDEFINED_EPOCH, leader)
            peer = self._connections.name(leader.leader)
            self._lookups.tell_reset(position, peer, previous, None, PositionMove(ResetCause.COMMITTED_OFFSET))

    def _commit_failed(self, group_id: str) -> None:
        """Emit the event of a commit that fails without a request, because the group has removed the member."""
        name = self._events.client
        self._events.emit(
            OffsetCommitRefused(
                node=name,
                client=name,
                api=api_name(OFFSET_COMMIT),
                error=ErrorCode.UNKNOWN_MEMBER_ID.name,
                group=shown(group_id),
                member=None,
            )
        )

    def _give_up(self, revoked: Sequence[TopicPartition]) -> None:
        for tp in revoked:
            self._positions.pop(tp, None)
        self.on_revoked(revoked)

    def _arm(self, deadlines: Sequence[int], now_us: int) -> None:
        metadata_us = self._connections.next_poll_us(now_us)
        if self._wake is not None:
            self._wake.cancel()
        at_us = min(*deadlines, NEVER if metadata_us is None else metadata_us)
        self._wake = None if at_us >= NEVER else self._outbox.timers.at(at_us, lambda _: None)


def _nothing_unread(tp: TopicPartition) -> int | None:
    """Return None: by default the application takes each record as soon as it is fetched."""
    return None


def _ignore(revoked: Sequence[TopicPartition]) -> None:
    """Do nothing: by default the application keeps no records."""
