"""An operator's requests to one broker: delete records and groups, reset offsets, abort hanging transactions.

Kafka's tools send such requests over a connection. Here, steps of a scenario pass them to the leader or coordinator.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.transaction_markers import Marker, append_marker
from cluster.groups import inputs as groups
from cluster.groups.state.offsets import NO_EXPIRY, OffsetAndMetadata
from cluster.node import NO_CONNECTION
from cluster.operated import AbortTransaction, BrokerInput, DeleteGroup, DeleteRecords, FenceProducer, ResetOffsets
from cluster.transactions.inputs import InitProducerId, InitResult, TransactionResult
from controller.inputs import ElectLeader, OnReply, PlainReply
from replica.errors import ErrorCode, KafkaError
from replica.ids import UNDEFINED_EPOCH, Offset, TopicPartition

OPERATOR, OPERATOR_TIMEOUT_US = "an operator", 30_000_000
"""Name of the peer that sends an operator's requests, and the default timeout of Kafka's tools."""
RETRY_BACKOFF_US = 100_000
"""retry.backoff.ms of an admin client."""
REQUEST_TIMEOUT_MS = 30_000
"""request.timeout.ms of an admin client, which FenceProducers sends as the transaction timeout."""
FENCE_RETRY = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class OperatorRequests:
    """Handles an operator's requests to one broker.

    A reply with a message and ErrorCode.NONE is an error that Kafka's tool would find before it sends a request.
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._broker = broker

    def ask(self, asked: BrokerInput, answer: OnReply, now_us: int) -> None:
        match asked:
            case DeleteRecords():
                self._broker.deletion().delete(
                    {asked.partition: asked.offset},
                    OPERATOR,
                    OPERATOR_TIMEOUT_US,
                    lambda results: answer(PlainReply(error=results[asked.partition].error)),
                    now_us,
                )
            case DeleteGroup():
                self._delete_group(asked, answer, now_us)
            case ResetOffsets():
                self._reset_offsets(asked, answer, now_us)
            case AbortTransaction():
                self._abort_transaction(asked, answer, now_us)
            case FenceProducer():
                self._fence_producer(asked.transactional_id, answer, now_us)
            case ElectLeader():
                self._broker.plane.elect_leader(asked, answer, now_us)

    # ------------------------------------------------------------------------------------------------------- groups

    def _delete_group(self, asked: DeleteGroup, answer: OnReply, now_us: int) -> None:
        group_id, partitions = asked.group_id, asked.partitions

        def make_input(number: int) -> groups.CoordinatorInput:
            if partitions:
                return groups.DeleteOffsets(now_us=now_us, request=number, group_id=group_id, partitions=partitions)
            return groups.DeleteGroups(now_us=now_us, request=number, group_ids=(group_id,))

        self._ask_coordinator(make_input, answer, now_us)

    def _reset_offsets(self, asked: ResetOffsets, answer: OnReply, now_us: int) -> None:
        """Commit the new offsets without a member id, which the coordinator refuses while the group has members.

        Source: ConsumerGroupCommand.prepareOffsetsToReset, .checkOffsetsRange; AlterConsumerGroupOffsetsHandler
        """
        try:
            wanted = self._wanted_offsets(asked)
        except KafkaError as error:
            answer(PlainReply(error=error.code, message=error.message))
            return
        committed_ms = self._broker.base.clock.at(now_us) // 1000
        offsets = {
            name: OffsetAndMetadata(
                offset=offset,
                leader_epoch=UNDEFINED_EPOCH,
                metadata="",
                committed_ms=committed_ms,
                expires_ms=NO_EXPIRY,
            )
            for name, offset in wanted.items()
        }

        def make_input(number: int) -> groups.CoordinatorInput:
            return groups.CommitOffsets(
                now_us=now_us,
                request=number,
                group_id=asked.group_id,
                generation=groups.NO_GENERATION,
                member_id=groups.NO_MEMBER_ID,
                instance_id=None,
                offsets=offsets,
            )

        self._ask_coordinator(make_input, answer, now_us)

    def _wanted_offsets(self, asked: ResetOffsets) -> dict[TopicPartition, Offset]:
        """Return the new offset of each partition, limited to the bounds of its log.

        Raises:
            KafkaError: code NONE and a message if the group has no offset to shift; or the coordinator's error.
        """
        committed = self._broker.groups.coordinator.offsets(asked.group_id, asked.bounds, stable=False)
        wanted: dict[TopicPartition, Offset] = {}
        for name, (first, end) in asked.bounds.items():
            match asked.to:
                case "earliest":
                    offset = first
                case "latest":
                    offset = end
                case int():
                    offset = asked.to
                case None:
                    known = committed[name]
                    if not isinstance(known, OffsetAndMetadata):
                        raise KafkaError(
                            ErrorCode.NONE, f"the group has no committed offset for {name}, so it cannot be shifted"
                        )
                    offset = known.offset + asked.shift
            wanted[name] = max(first, min(offset, end))
        return wanted

    def _ask_coordinator(
        self, make_input: Callable[[int], groups.CoordinatorInput], answer: OnReply, now_us: int
    ) -> None:
        def finish(result: groups.Result) -> None:
            assert isinstance(result, groups.DeleteGroupsResult | groups.DeleteOffsetsResult | groups.CommitResult)
            errors = [*result.errors.values()]
            if isinstance(result, groups.DeleteOffsetsResult):
                errors.insert(0, result.error)
            answer(PlainReply(error=next((error for error in errors if error is not ErrorCode.NONE), ErrorCode.NONE)))

        self._broker.groups.submit(NO_CONNECTION, make_input, finish, now_us)

    # ------------------------------------------------------------------------------------------------- transactions

    def _abort_transaction(self, asked: AbortTransaction, answer: OnReply, now_us: int) -> None:
        """Abort the open transaction at `asked.start_offset`, or the oldest one, by a marker in one partition.

        The transaction coordinator is not asked.

        Source: TransactionsCommand.AbortTransactionCommand, AbortTransactionHandler
        """
        name = asked.partition
        partition = self._broker.replicas.partitions.get(name)
        if partition is None or partition.leader is None:
            answer(PlainReply(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        open_at = {
            entry.transaction_offset: (producer_id, entry)
            for producer_id, entry in partition.log.producers.producers.items()
            if entry.transaction_offset is not None
        }
        start = min(open_at, default=None) if asked.start_offset is None else asked.start_offset
        if start is None or start not in open_at:
            where = "" if asked.start_offset is None else f" that starts at offset {start}"
            answer(PlainReply(error=ErrorCode.NONE, message=f"{name} has no open transaction{where}"))
            return
        producer_id, entry = open_at[start]
        marker = Marker(producer_id, entry.epoch, max(entry.coordinator_epoch, 0), committed=False)
        append_marker(
            self._broker,
            marker,
            [name],
            OPERATOR,
            lambda results, cause: answer(PlainReply(error=results[name].error)),
            now_us,
        )

    def _fence_producer(self, transactional_id: str, answer: OnReply, now_us: int) -> None:
        """Request a new producer epoch, which aborts the producer's open transaction. Retry until the abort is done.

        Source: FenceProducersHandler
        """

        def make_input(number: int) -> InitProducerId:
            return InitProducerId(
                now_us=now_us,
                request=number,
                transactional_id=transactional_id,
                timeout_ms=REQUEST_TIMEOUT_MS,
                expected=None,
            )

        def finish(result: TransactionResult) -> None:
            assert isinstance(result, InitResult)
            if result.error in FENCE_RETRY:
                self._broker.base.outbox.timers.at(now_us + RETRY_BACKOFF_US, again)
            else:
                answer(PlainReply(error=result.error))

        def again(at_us: int) -> None:
            self._fence_producer(transactional_id, answer, at_us)

        self._broker.transactions.submit(NO_CONNECTION, make_input, finish, now_us)
