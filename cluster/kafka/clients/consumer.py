"""Controls one Java consumer, and writes its actions into the trace.

The JVM reports each record that the consumer reads and each change of its position. The frames on its connections show
which broker responded, and with which error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from cluster.config import ConsumerConfig
from cluster.kafka.clients.orders import Order, consumer_settings
from cluster.kafka.clients.sight import AnswerSeen, ObservedClient
from cluster.node import Action
from cluster.operated import ClientOrder
from replica.causes import ResetCause
from replica.errors import ErrorCode
from replica.ids import UNKNOWN_OFFSET, Offset, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceEvent, TraceLog

NOBODY_YET = "-"
END_OFFSET_WITHIN_MS = 30_000
LOG_TRUNCATION = "LOG_TRUNCATION"
"""The error name in the trace for Java's LogTruncationException, which has no error code."""


class JavaConsumer(ObservedClient):
    """A Java consumer that a scenario controls (an OperatedConsumer).

    Args:
        tell: sends a command to the clients' JVM.
        begin: starts the client's host and returns the brokers' addresses.
    """

    def __init__(
        self,
        name: str,
        order: ClientOrder,
        recorder: TraceLog,
        tell: Callable[[Order], None],
        begin: Callable[[], str],
    ) -> None:
        assert isinstance(order.config, ConsumerConfig)
        super().__init__(order.topics)
        self._name = name
        self._config = order.config
        self._recorder = recorder
        self._tell = tell
        self._begin = begin
        self._peers: dict[TopicPartition, str] = {}
        self._next: dict[TopicPartition, Offset] = {}
        self._errors: dict[TopicPartition, str] = {}
        """The latest error of each partition since the last record read from it."""
        self._asked_by_application: dict[TopicPartition, str | None] = {}
        self._asked_ends: dict[TopicPartition, None] = {}

    def launch(self) -> None:
        config = consumer_settings(self._name, self._begin(), self._config)
        self._tell({"do": "consumer", "client": self._name, "topics": list(self.topics), "config": config})

    # ----------------------------------------------------------------------------------------------- the application

    def seek(self, tp: TopicPartition, target: int | Literal["beginning", "end"], now_us: int) -> list[Action]:
        self._asked_by_application[tp] = None if isinstance(target, int) else target
        self._tell({**self._order("seek", tp), "to": str(target)})
        return []

    def ask_end_offset(self, tp: TopicPartition, now_us: int) -> list[Action]:
        """Request a partition's end offset.

        Java retries after an error, but the trace has the first error as the result, as for simulated consumers.
        """
        self._asked_ends[tp] = None
        self._tell({**self._order("end_offset", tp), "within_ms": END_OFFSET_WITHIN_MS})
        return []

    def _order(self, what: str, tp: TopicPartition) -> Order:
        return {"do": what, "client": self._name, "topic": tp.topic, "partition": tp.partition}

    # --------------------------------------------------------------------------------------------- what the JVM says

    def heard(self, event: Mapping[str, Any]) -> None:
        if "partition" not in event:
            return
        tp = TopicPartition(event["topic"], event["partition"])
        match event["event"]:
            case "read":
                self._read(tp, event)
            case "reset":
                self._reset(tp, event)
            case "end_offset":
                self._end_offset(tp, event["offset"], event["error"])
            case "fetch_failed":
                self._fetch_failed(tp, event["error"])

    def _read(self, tp: TopicPartition, event: Mapping[str, Any]) -> None:
        self._next[tp] = event["offset"] + 1
        self._errors.pop(tp, None)
        self._emit(
            trace.RecordRead(
                self._name,
                *tp,
                peer=self._peer(tp),
                offset=event["offset"],
                record=event["record"],
                leader_epoch=event["leader_epoch"],
            )
        )

    def _reset(self, tp: TopicPartition, event: Mapping[str, Any]) -> None:
        before = event["previous_offset"]
        error = self._errors.pop(tp, None)
        policy: str | None = self._config.auto_offset_reset
        if tp in self._asked_by_application:
            error, cause, policy = None, ResetCause.SEEK, self._asked_by_application.pop(tp)
        elif before == UNKNOWN_OFFSET:
            error, cause = None, ResetCause.NO_POSITION
        elif error == ErrorCode.OFFSET_OUT_OF_RANGE.name:
            cause = ResetCause.OUT_OF_RANGE
        else:
            # KIP-320: the consumer asks a new leader where the old epoch ends, and moves back to that offset.
            error, cause, policy = LOG_TRUNCATION, ResetCause.TRUNCATED, None
        self._next[tp] = event["offset"]
        self._emit(
            trace.PositionReset(
                self._name,
                *tp,
                peer=self._peer(tp),
                offset=event["offset"],
                previous_offset=before,
                error=error,
                cause=cause,
                policy=policy,
            )
        )

    def _end_offset(self, tp: TopicPartition, offset: Offset, error: str | None) -> None:
        if tp not in self._asked_ends:
            return  # Already answered with an error.
        del self._asked_ends[tp]
        self._emit(trace.EndOffsetSeen(self._name, *tp, peer=self._peer(tp), offset=offset, error=error))

    def _fetch_failed(self, tp: TopicPartition, error: str) -> None:
        self._errors[tp] = error
        self._emit(
            trace.FetchFailed(
                self._name,
                *tp,
                peer=self._peer(tp),
                offset=self._next.get(tp, UNKNOWN_OFFSET),
                error=error,
            )
        )

    def _peer(self, tp: TopicPartition) -> str:
        return self._peers.get(tp, NOBODY_YET)

    def _emit(self, event: TraceEvent) -> None:
        # Events that the JVM reports in one step do not cause each other.
        self._recorder.cause = None
        self._recorder.emit(event)

    # -------------------------------------------------------------------------------------- what its connections show

    def fetch_answered(self, peer: str, answer: AnswerSeen) -> None:
        self._peers[answer.topic_partition] = peer
        if answer.error is not ErrorCode.NONE:
            self._fetch_failed(answer.topic_partition, answer.error.name)

    def offset_answered(self, peer: str, answer: AnswerSeen) -> None:
        self._peers[answer.topic_partition] = peer
        if answer.error is not ErrorCode.NONE:
            self._end_offset(answer.topic_partition, UNKNOWN_OFFSET, answer.error.name)
