"""A transaction coordinator with a log of its own and leaders that answer as they are told, for transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.clocks import WallClock
from cluster.coordinators.core import (
    AnswerRequest,
    Append,
    CommonAction,
    CommonInput,
    Elected,
    LeadershipResigned,
    Load,
    Written,
)
from cluster.transactions.coordinator import TransactionCoordinator
from cluster.transactions.desk import TransactionSettings
from cluster.transactions.inputs import (
    AddPartitions,
    AddResult,
    AskProducerId,
    EndTxn,
    InitProducerId,
    MarkersAnswered,
    PartitionLoaded,
    ProducerIdAndEpoch,
    ProducerIdGiven,
    SendMarkers,
    TransactionAction,
    TransactionInput,
    TransactionResult,
)
from cluster.transactions.records import TransactionReplay
from cluster.transactions.transaction import MAX_EPOCH, TransactionMetadata
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.trace.events import EVENT_NAMES, Emit

SECOND = 1_000_000
ID = "orders"


def partitions_of(names: tuple[str, ...]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(*_split(name)) for name in names)


def _split(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


class TransactionWorld:
    """version: transaction.version of the cluster, and by default that of each request. Its verbs are those of the
    transcripts."""

    def __init__(self, **settings: int) -> None:
        self.now_us = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.answers: list[TransactionResult] = []
        self.markers: list[SendMarkers] = []
        self.settings: dict[str, Any] = {"knows_v2": settings.get("version", 0) == 2, **settings}
        self.coordinator: TransactionCoordinator
        self._next_producer_id = 1000
        self._epoch = 0
        self._refuses: ErrorCode = ErrorCode.NONE
        self._holds_markers = False
        self._gives_ids = True
        self._holds_log = False
        self._writes: list[tuple[int, ErrorCode]] = []
        self._lines: list[str] = []
        self._new()

    def _new(self) -> None:
        self.coordinator = TransactionCoordinator(
            node="b1",
            settings=TransactionSettings(**self.settings),
            clock=WallClock(),
            partition_of=lambda transactional_id: 0,
        )
        self.elect()
        self._lines.clear()

    def step(self, given: CommonInput | TransactionInput) -> list[str]:
        self._perform(self.coordinator.step(given))
        return self._taken()

    def _taken(self) -> list[str]:
        lines, self._lines = self._lines, []
        return lines

    def _perform(self, actions: list[CommonAction[TransactionResult] | TransactionAction]) -> None:
        for action in actions:
            match action:
                case AnswerRequest():
                    self.answers.append(action.result)
                    self._lines.append(f"-> {_printed(action.result)}")
                case Append():
                    error, self._refuses = self._refuses, ErrorCode.NONE
                    if error is ErrorCode.NONE:
                        self.log += action.records
                    assert action.write is not None, "each write is waited for"
                    self._writes.append((action.write, error))
                    if not self._holds_log:
                        self._log_answers()
                case Load():
                    loaded = PartitionLoaded(
                        now_us=self.now_us,
                        partition=0,
                        leader_epoch=action.leader_epoch,
                        transactions=tuple(self.replay().transactions.values()),
                    )
                    self._perform(self.coordinator.step(loaded))
                case AskProducerId():
                    producer_id = self._next_producer_id if self._gives_ids else None
                    given = ProducerIdGiven(now_us=self.now_us, ticket=action.ticket, producer_id=producer_id)
                    self._next_producer_id += 1
                    self._perform(self.coordinator.step(given))
                case SendMarkers():
                    self._markers_wanted(action)
                case Emit():
                    name = EVENT_NAMES[type(action.event)]
                    self._lines.append(f"  {name}: {action.event.sentence()}")

    def _log_answers(self) -> None:
        writes, self._writes = self._writes, []
        for write, error in writes:
            self._perform(self.coordinator.step(Written(now_us=self.now_us, write=write, error=error, offset=0)))

    def _markers_wanted(self, markers: SendMarkers) -> None:
        names = ", ".join(str(name) for name in markers.partitions)
        what = "COMMIT" if markers.commit else "ABORT"
        by = f"epoch {markers.producer_epoch}, coordinator epoch {markers.coordinator_epoch}"
        self._lines.append(f"{what} markers for {names} ({by})")
        self.markers.append(markers)
        if not self._holds_markers:
            self._answer(markers, dict.fromkeys(markers.partitions, ErrorCode.NONE))

    def _answer(self, markers: SendMarkers, errors: Mapping[TopicPartition, ErrorCode | None]) -> None:
        answered = MarkersAnswered(
            now_us=self.now_us,
            transactional_id=markers.transactional_id,
            coordinator_epoch=markers.coordinator_epoch,
            errors=errors,
        )
        self._perform(self.coordinator.step(answered))

    def replay(self) -> TransactionReplay:
        replay = TransactionReplay()
        for key, value in self.log:
            replay.record(key, value)
        return replay

    @property
    def transaction(self) -> TransactionMetadata:
        return self.coordinator.describe(ID)

    # ---------------------------------------------------------------------------------------------------------- verbs

    def init(self, timeout: int = 60 * SECOND, id: int = -1, epoch: int = -1, name: str = ID) -> list[str]:
        given = InitProducerId(
            now_us=self.now_us,
            request=0,
            transactional_id=name,
            timeout_ms=timeout // 1000,
            expected=None if id == -1 else ProducerIdAndEpoch(id, epoch),
        )
        return self.step(given)

    def add(
        self,
        *names: str,
        id: int = 1000,
        epoch: int = 0,
        verify: bool = False,
        version: int | None = None,
        name: str = ID,
    ) -> list[str]:
        given = AddPartitions(
            now_us=self.now_us,
            request=0,
            transactional_id=name,
            producer_id=id,
            producer_epoch=epoch,
            partitions=partitions_of(names),
            verify_only=bool(verify),
            version=self._version_of(version),
        )
        return self.step(given)

    def _version_of(self, version: int | None) -> int:
        return self.settings.get("version", 0) if version is None else version

    def _end(self, commit: bool, id: int, epoch: int, version: int | None, name: str) -> list[str]:
        given = EndTxn(
            now_us=self.now_us,
            request=0,
            transactional_id=name,
            producer_id=id,
            producer_epoch=epoch,
            commit=commit,
            version=self._version_of(version),
        )
        return self.step(given)

    def commit(self, id: int = 1000, epoch: int = 0, version: int | None = None, name: str = ID) -> list[str]:
        return self._end(True, id, epoch, version, name)

    def abort(self, id: int = 1000, epoch: int = 0, version: int | None = None, name: str = ID) -> list[str]:
        return self._end(False, id, epoch, version, name)

    def hold_markers(self) -> list[str]:
        """The leaders do not answer."""
        self._holds_markers = True
        return []

    def answer(self, *names: str, error: str = "NONE", request: int = -1) -> list[str]:
        """The leaders of these partitions answer a request for markers, the last one or that of this place. error:
        DELETED where the partition is gone"""
        found = None if error == "DELETED" else ErrorCode[error]
        self._answer(self.markers[request], dict.fromkeys(partitions_of(names), found))
        return self._taken()

    def use_up(self) -> list[str]:
        """The producer has the last epoch that it may have, and the coordinator has always been the same."""
        self.transaction.producer_epoch = MAX_EPOCH - 1
        return []

    def give_no_ids(self) -> list[str]:
        """From now on the controller has no new producer id."""
        self._gives_ids = False
        return []

    def hold_log(self) -> list[str]:
        """The replicas of the log do not answer."""
        self._holds_log = True
        return []

    def release_log(self) -> list[str]:
        self._holds_log = False
        self._log_answers()
        return self._taken()

    def refuse(self, error: str) -> list[str]:
        """The next record cannot be written."""
        self._refuses = ErrorCode[error]
        return []

    def at(self, at: int) -> list[str]:
        while (due_us := self.coordinator.next_deadline_us) is not None and due_us <= at:
            self.now_us = max(self.now_us, due_us)
            self._perform(self.coordinator.tick(self.now_us))
        self.now_us = at
        return self._taken()

    def elect(self) -> list[str]:
        self._epoch += 1
        return self.step(Elected(now_us=self.now_us, partition=0, leader_epoch=self._epoch))

    def resign(self) -> list[str]:
        self._epoch += 1
        return self.step(LeadershipResigned(now_us=self.now_us, partition=0, leader_epoch=self._epoch))

    def restart(self) -> list[str]:
        """The broker dies and another one leads: what it knows is in the log."""
        self._epoch += 1
        self.coordinator = TransactionCoordinator(
            node="b2",
            settings=TransactionSettings(**self.settings),
            clock=WallClock(),
            partition_of=lambda transactional_id: 0,
        )
        return self.elect()

    def show(self) -> list[str]:
        found = self.transaction
        names = ", ".join(str(name) for name in found.partitions) or "no partitions"
        last = f" after {found.last_producer_epoch}" if found.last_producer_epoch >= 0 else ""
        to_come = f" -> {found.pending.value}" if found.pending is not None else ""
        epoch = f"epoch {found.producer_epoch}{last}"
        return [f"{found.state.value}{to_come}, producer id {found.producer_id}, {epoch}: {names}"]


def _printed(result: TransactionResult) -> str:
    if isinstance(result, AddResult):
        return ", ".join(f"{name} {error.name}" for name, error in result.errors.items())
    return f"{result.error.name}, producer id {result.producer_id}, epoch {result.producer_epoch}"
