"""The consumer's requests for offsets: to reset a position, to validate it, or to find a partition's end.

Source: OffsetFetcher.java, OffsetsForLeaderEpochClient.java, ListOffsets (KIP-79, KIP-207), KIP-320
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cluster.client.api_versions import SPOKEN, Allowed
from cluster.client.connections import ClientConnections
from cluster.client.consumer.positions import PartitionPosition, PositionMove, PositionState
from cluster.client.events import ClientEvents
from cluster.client.metadata_cache import LeaderAndEpoch
from cluster.client.node import ExponentialBackoff
from cluster.protocol.api_01_fetch import READ_COMMITTED, READ_UNCOMMITTED
from cluster.protocol.versions import LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from replica.causes import ResetCause
from replica.config import NEVER
from replica.errors import LOG_TRUNCATION, ErrorCode, PeerViolation
from replica.ids import NO_BROKER, UNDEFINED_EPOCH, UNKNOWN_OFFSET, Offset, TopicPartition
from replica.trace.events import EndOffsetSeen, FetchFailed, PositionReset

READS_COMMITTED = Allowed(2, SPOKEN[LIST_OFFSETS].latest)
"""Versions of ListOffsets with an isolation level. Source: ListOffsetsRequest.Builder.forConsumer"""
EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}

_ASKING = (PositionState.AWAIT_RESET, PositionState.AWAIT_VALIDATION)
"""States in which a position waits for a request to its leader."""


class OffsetLookups:
    """Requests of one consumer to reset positions, to validate them, and for end offsets."""

    def __init__(
        self,
        positions: dict[TopicPartition, PartitionPosition],
        connections: ClientConnections,
        events: ClientEvents,
        backoff: ExponentialBackoff,
        reset_policy: str,
        isolation_level: str,
    ) -> None:
        self._isolation = READ_COMMITTED if isolation_level == "read_committed" else READ_UNCOMMITTED
        self._positions = positions
        self._connections = connections
        self._metadata = connections.metadata
        self._events = events
        self._backoff = backoff
        self._reset_policy = reset_policy
        self._end_offsets_wanted: list[TopicPartition] = []
        self.next_deadline_us = NEVER
        """The time at which to call `run_once` if no other event comes first."""

    def ask_end_offset(self, tp: TopicPartition) -> None:
        """Request the end offset of a partition.

        Differs from Kafka: `endOffsets` retries until its timeout; here the first error is reported.
        """
        self._end_offsets_wanted.append(tp)

    def run_once(self, now_us: int) -> bool:
        """Send due requests, and return True if any was sent."""
        self.next_deadline_us = NEVER
        unsettled = [position for position in self._positions.values() if position.state in _ASKING]
        asked_any = bool(unsettled) and self._ask_leaders(unsettled, now_us)
        return (bool(self._end_offsets_wanted) and self._ask_end_offsets(now_us)) or asked_any

    def _ask_leaders(self, unsettled: Sequence[PartitionPosition], now_us: int) -> bool:
        sent = False
        for state, ask in (
            (PositionState.AWAIT_RESET, self._ask_reset),
            (PositionState.AWAIT_VALIDATION, self._ask_epochs),
        ):
            due = []
            for position in unsettled:
                if position.may_ask(state, now_us):
                    due.append(position)
                elif position.state is state and not position.awaits_answer:
                    self._wake_at(position.retry_at_us)
            for node_id, positions in self._by_ready_leader(due, now_us).items():
                ask(node_id, positions, now_us)
                sent = True
        return sent

    def _by_ready_leader(
        self, positions: Sequence[PartitionPosition], now_us: int
    ) -> dict[int, list[PartitionPosition]]:
        ready: dict[int, list[PartitionPosition]] = {}
        for position in positions:
            node_id = self._leader_if_ready(position.topic_partition, now_us)
            if node_id is not None:
                ready.setdefault(node_id, []).append(position)
        return ready

    def _leader_if_ready(self, tp: TopicPartition, now_us: int) -> int | None:
        node_id = self._metadata.leader(tp).leader
        if node_id == NO_BROKER:
            self._metadata.request_update()
            return None
        if self._connections.ready(node_id, now_us):
            return node_id
        self._wake_at(self._connections.retry_at_us(node_id, now_us))
        return None

    def _wake_at(self, at_us: int | None) -> None:
        if at_us is not None and at_us < self.next_deadline_us:
            self.next_deadline_us = at_us

    # ------------------------------------------------------------------------------------------------------- resets

    def _ask_reset(self, node_id: int, positions: Sequence[PartitionPosition], now_us: int) -> None:
        asked = []
        for position in positions:
            position.awaits_answer = True
            asked.append((position.topic_partition, _TIMESTAMPS[position.reset_to]))
        waiting = [(position, position.reset_to) for position in positions]
        self._list_offsets(
            node_id, asked, lambda results, _, at_us: self._resets_answered(node_id, waiting, results, at_us), now_us
        )

    def _resets_answered(
        self,
        node_id: int,
        waiting: Sequence[tuple[PartitionPosition, str]],
        results: Mapping[TopicPartition, Any],
        now_us: int,
    ) -> None:
        for position, reset_to in waiting:
            if position.state is not PositionState.AWAIT_RESET or position.reset_to != reset_to:
                continue  # The application has moved the position in the meantime.
            result = results.get(position.topic_partition)
            if result is None or result.error_code is not ErrorCode.NONE:
                self._try_again(position, now_us)
            else:
                self._reset(
                    position, node_id, int(result.offset), int(getattr(result, "leader_epoch", UNDEFINED_EPOCH))
                )

    def _reset(self, position: PartitionPosition, node_id: int, offset: int, epoch: int) -> None:
        tp = position.topic_partition
        previous = position.offset
        # No epoch: the offset came from this leader and needs no validation (resetPositionIfNeeded).
        position.move_to(offset, UNDEFINED_EPOCH, self._metadata.leader(tp))
        if epoch != UNDEFINED_EPOCH:
            self._metadata.epoch_seen(tp, epoch)
        peer = self._connections.name(node_id)
        self.tell_reset(position, peer, previous, position.reset_error, position.reset, position.cause)

    def tell_reset(
        self,
        position: PartitionPosition,
        peer: str,
        previous: Offset,
        error: str | None,
        reset: PositionMove,
        cause: int | None = None,
    ) -> None:
        moved = PositionReset(
            self._events.client,
            *position.topic_partition,
            peer=peer,
            offset=position.offset,
            previous_offset=previous,
            error=error,
            **reset._asdict(),
        )
        self._events.emit(moved, cause)

    def _try_again(self, position: PartitionPosition, now_us: int) -> None:
        position.awaits_answer = False
        position.retry_at_us = now_us + self._backoff.after_us(position.failures)
        position.failures += 1
        self._metadata.request_update()

    # -------------------------------------------------------------------------------------------------- validation

    def _ask_epochs(self, node_id: int, positions: Sequence[PartitionPosition], now_us: int) -> None:
        """Ask a leader for the end offset, in its log, of the epoch of the last record before each position.

        A broker before 2.3 does not support this version of OffsetsForLeaderEpoch; the positions then count as valid.
        Source: OffsetFetcher.validateOffsetsAsync
        """
        if self._connections.versions.of(node_id).usable(OFFSET_FOR_LEADER_EPOCH) is None:
            for position in positions:
                position.move_to(position.offset, position.offset_epoch, position.leader)
            return
        topics: dict[str, list[dict[str, int]]] = {}
        for position in positions:
            position.awaits_answer = True
            topics.setdefault(position.topic_partition.topic, []).append(
                {
                    "partition": position.topic_partition.partition,
                    "current_leader_epoch": position.leader.epoch,
                    "leader_epoch": position.offset_epoch,
                }
            )
        values = {
            "replica_id": NO_BROKER,
            "topics": [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()],
        }
        asked = [(position, position.offset, position.leader) for position in positions]
        self._connections.ask(
            node_id,
            OFFSET_FOR_LEADER_EPOCH,
            values,
            lambda response, _, at_us: self._epochs_answered(node_id, asked, response, at_us),
            now_us,
        )

    def _epochs_answered(
        self,
        node_id: int,
        asked: Sequence[tuple[PartitionPosition, Offset, LeaderAndEpoch]],
        response: Any,
        now_us: int,
    ) -> None:
        results: dict[TopicPartition, Any] = {}
        if response is not None:
            for topic in response.topics:
                results.update(
                    {TopicPartition(str(topic.topic), int(part.partition)): part for part in topic.partitions}
                )
        for position, offset, leader in asked:
            if position.state is not PositionState.AWAIT_VALIDATION or position.offset != offset:
                continue  # The application has moved the position in the meantime.
            if position.leader != leader:
                continue  # A newer leader is asked too.
            result = results.get(position.topic_partition)
            if result is None or result.error_code is not ErrorCode.NONE:
                self._try_again(position, now_us)
            else:
                self._validated(position, node_id, int(result.leader_epoch), int(result.end_offset))

    def _validated(self, position: PartitionPosition, node_id: int, epoch: int, end_offset: int) -> None:
        """Keep, truncate or reset a position by the leader's end offset of its epoch.

        Source: SubscriptionState.maybeCompleteValidation
        """
        tp = position.topic_partition
        peer = self._connections.name(node_id)
        undefined = epoch == UNDEFINED_EPOCH or end_offset == UNKNOWN_OFFSET
        if not undefined and end_offset >= position.offset:
            position.move_to(position.offset, position.offset_epoch, position.leader)
            return
        if self._reset_policy == "none":
            failed = FetchFailed(self._events.client, *tp, peer=peer, offset=position.offset, error=LOG_TRUNCATION)
            self._events.emit(failed)
            position.stop()
        elif undefined:
            policy = self._reset_policy
            reset = PositionMove(ResetCause.UNKNOWN_EPOCH, policy, peer, position.offset_epoch)
            position.await_reset(policy, LOG_TRUNCATION, reset)
        else:
            previous = position.offset
            position.move_to(end_offset, epoch, position.leader)
            reset = PositionMove(ResetCause.TRUNCATED, leader_epoch=epoch)
            self.tell_reset(position, peer, previous, LOG_TRUNCATION, reset)

    # -------------------------------------------------------------------------------------------------- end offsets

    def _ask_end_offsets(self, now_us: int) -> bool:
        still_wanted: list[TopicPartition] = []
        for tp in self._end_offsets_wanted:
            node_id = self._leader_if_ready(tp, now_us)
            if node_id is None:
                still_wanted.append(tp)
            else:
                self._ask_end_offset(node_id, tp, now_us)
        asked_any = len(still_wanted) < len(self._end_offsets_wanted)
        self._end_offsets_wanted = still_wanted
        return asked_any

    def _ask_end_offset(self, node_id: int, tp: TopicPartition, now_us: int) -> None:
        peer = self._connections.name(node_id)
        asked = [(tp, LATEST_TIMESTAMP)]
        self._list_offsets(
            node_id,
            asked,
            lambda results, error, _: self._end_offset_answered(tp, peer, results.get(tp), error),
            now_us,
        )

    def _end_offset_answered(self, tp: TopicPartition, peer: str, result: Any, error: ErrorCode) -> None:
        if result is not None:
            error = result.error_code
        has_failed = error is not ErrorCode.NONE
        seen = EndOffsetSeen(
            self._events.client,
            *tp,
            peer=peer,
            offset=UNKNOWN_OFFSET if has_failed else int(result.offset),
            error=error.name if has_failed else None,
        )
        self._events.emit(seen)
        if has_failed:
            self._metadata.request_update()

    # ------------------------------------------------------------------------------------------------------ requests

    def _list_offsets(
        self,
        node_id: int,
        asked: Sequence[tuple[TopicPartition, int]],
        answered: Callable[[dict[TopicPartition, Any], ErrorCode, int], None],
        now_us: int,
    ) -> None:
        """Send a ListOffsets request for (partition, timestamp) pairs.

        Args:
            answered: called with (result by partition, error, now_us); there are no results if the request failed.
        """
        topics: dict[str, list[dict[str, int]]] = {}
        for tp, timestamp in asked:
            epoch = self._metadata.leader(tp).epoch
            topics.setdefault(tp.topic, []).append(
                {"partition_index": tp.partition, "current_leader_epoch": epoch, "timestamp": timestamp}
            )
        values = {
            "replica_id": NO_BROKER,
            "isolation_level": self._isolation,
            "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
        }

        def on_answer(response: Any, error: ErrorCode, answered_us: int) -> None:
            results: dict[TopicPartition, Any] = {}
            if response is not None:
                results = {
                    TopicPartition(str(topic.name), int(part.partition_index)): part
                    for topic in response.topics
                    for part in topic.partitions
                }
                if any(tp not in results for tp, _ in asked):
                    raise PeerViolation("a ListOffsets response lacks a partition of its request")
            answered(results, error, answered_us)

        allowed = READS_COMMITTED if self._isolation == READ_COMMITTED else None
        self._connections.ask(node_id, LIST_OFFSETS, values, on_answer, now_us, allowed=allowed)
