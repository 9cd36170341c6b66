"""The verbs of tests/golden/leader_*.txt: one partition's leader, told what its followers and the controller do."""

from __future__ import annotations

from collections.abc import Iterable

from replica.errors import ErrorCode, KafkaError
from replica.fetch_fencing import check_leader_epoch
from replica.ids import Names, TopicPartition
from replica.inputs import (
    AdvanceHighWatermark,
    Appended,
    CaughtUp,
    FetchReceived,
    IsrAccepted,
    IsrRefused,
    LagCheckDue,
    LagLimits,
    LeaderAssigned,
    LeaderInput,
    MinIsrChanged,
    OutOfSync,
    PartitionUpdated,
    ProposalRefused,
    ProposeIsr,
)
from replica.isr import LONG_AGO_US
from replica.leader import LeaderState
from replica.rules import PROFILES
from replica.wording import duration

NAMES = Names({number: f"b{number}" for number in range(1, 10)})
LAG_MAX_US = 30_000_000
LAG_MAX_MESSAGES = 4000
TOPIC = TopicPartition("orders", 0)


def ids(names: Iterable[str]) -> tuple[int, ...]:
    return tuple(int(name.removeprefix("b")) for name in names)


def advanced(action: AdvanceHighWatermark, names: Names) -> str:
    """HW 3 -> 5, held by {b1, b2}"""
    joining = "" if action.joining is None else f"; waits for {names(action.joining)}"
    return f"HW {action.previous} -> {action.high_watermark}, held by {names.set_of(action.holders)}{joining}"


def because(action: ProposeIsr, names: Names) -> str:
    match action.why:
        case CaughtUp(end, high_watermark, start):
            return f"caught_up: to {end}, HW {high_watermark}" + ("" if start is None else f", epoch start {start}")
        case OutOfSync(lags, limits):
            told = [f"{names(who)} {lag.cause}" + ("" if lag.amount is None else f" {lag.amount}") for who, lag in lags]
            return f"lag: {', '.join(told)}; limits {limits.time_max_us} us, {limits.max_messages} records"
        case ProposalRefused(error):
            return f"retry: {error.name}"


class LeaderWorld:
    """Brokers are b1, b2, ...; broker epochs are 10 times the number until `restart` gives a new one."""

    def __init__(self) -> None:
        self.now_us = 0
        self.alive: dict[int, int] = {}
        self.fenced: list[int] = []
        self.proposals: list[ProposeIsr] = []
        self.rules = PROFILES["kafka-3.9"]
        self.state = self._new_state()

    def _new_state(self) -> LeaderState:
        return LeaderState(
            topic_partition=TOPIC,
            broker_id=1,
            lag_limits=LagLimits(time_max_us=LAG_MAX_US, max_messages=LAG_MAX_MESSAGES),
            min_insync_replicas=1,
            names=NAMES,
            rules=self.rules,
            is_eligible=self._is_eligible,
        )

    def _is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        assert broker_epoch is not None, "a replica that never fetched is not eligible, whatever the metadata says"
        return broker_id not in self.fenced and broker_epoch in (-1, self.alive.get(broker_id, broker_id * 10))

    def _step(self, given: LeaderInput) -> list[str]:
        lines = []
        for action in self.state.step(given):
            match action:
                case AdvanceHighWatermark():
                    lines.append(advanced(action, NAMES))
                case ProposeIsr():
                    self.proposals.append(action)
                    epochs = ", ".join(map(str, action.broker_epochs))
                    lines += [
                        f"AlterPartition {NAMES.set_of(action.in_sync_replicas)} broker epochs ({epochs}) "
                        f"at partition epoch {action.partition_epoch}",
                        f"  because {because(action, NAMES)}",
                    ]
        return lines

    def _at(self, at: int | None) -> int:
        self.now_us = self.now_us if at is None else at
        return self.now_us

    def rule(self, switch: str, value: str) -> list[str]:
        """A new leader by an older rule, and brokers that are all well."""
        self.rules = self.rules.changed({switch: value})
        self.state = self._new_state()
        self.alive, self.fenced = {}, []
        return []

    # what the controller does

    def leader(
        self,
        replicas: tuple[str, ...],
        isr: tuple[str, ...],
        epoch: int = 0,
        partition_epoch: int = 0,
        leo: int | None = None,
        hw: int | None = None,
        was: str = "follower",
        at: int | None = None,
    ) -> list[str]:
        """b1 becomes the leader."""
        return self._step(
            LeaderAssigned(
                now_us=self._at(at),
                leader_epoch=epoch,
                partition_epoch=partition_epoch,
                in_sync_replicas=ids(isr),
                assigned_replicas=ids(replicas),
                log_end_offset=self.state.log_end_offset if leo is None else leo,
                high_watermark=self.state.high_watermark if hw is None else hw,
                was_leader=was == "leader",
                recovering=False,
            )
        )

    def metadata(
        self, isr: tuple[str, ...], partition_epoch: int, replicas: tuple[str, ...] | None = None, at: int | None = None
    ) -> list[str]:
        """A partition record arrives that does not change the leader epoch."""
        return self._step(
            PartitionUpdated(
                now_us=self._at(at),
                partition_epoch=partition_epoch,
                in_sync_replicas=ids(isr),
                assigned_replicas=ids(replicas) if replicas else self.state.assigned_replicas,
            )
        )

    def isr_accepted(
        self,
        isr: tuple[str, ...] | None = None,
        partition_epoch: int | None = None,
        epoch: int | None = None,
        proposal: int = -1,
        at: int | None = None,
    ) -> list[str]:
        """AlterPartition succeeds; proposal=0 answers the first one of this transcript, else it is the latest."""
        answered = self.proposals[proposal]
        return self._step(
            IsrAccepted(
                now_us=self._at(at),
                leader_epoch=answered.leader_epoch if epoch is None else epoch,
                in_sync_replicas=ids(isr) if isr else answered.in_sync_replicas,
                partition_epoch=answered.partition_epoch + 1 if partition_epoch is None else partition_epoch,
                recovering=False,
                proposal=answered,
            )
        )

    def isr_refused(self, error: str, proposal: int = -1, at: int | None = None) -> list[str]:
        answered = self.proposals[proposal]
        return self._step(IsrRefused(now_us=self._at(at), error=ErrorCode[error], proposal=answered))

    def config(self, min_isr: int) -> list[str]:
        return self._step(MinIsrChanged(now_us=self.now_us, min_insync_replicas=min_isr))

    def fence(self, name: str) -> None:
        self.fenced += ids([name])

    def unfence(self, name: str) -> None:
        self.fenced.remove(*ids([name]))

    def registered(self, name: str, broker_epoch: int) -> None:
        """The metadata says that the broker lives in a new broker epoch."""
        self.alive[ids([name])[0]] = broker_epoch

    # what clients and followers do

    def append(self, n: int, at: int | None = None) -> list[str]:
        return self._step(Appended(now_us=self._at(at), log_end_offset=self.state.log_end_offset + n))

    def fetch(
        self, name: str, offset: int, at: int | None = None, broker_epoch: int | None = None, read_at: int | None = None
    ) -> list[str]:
        """read-at: the leader's log end when the fetch was read, if that was before the latest append."""
        (broker_id,) = ids([name])
        epoch = self.alive.get(broker_id, broker_id * 10) if broker_epoch is None else broker_epoch
        try:
            self.state.check_follower(broker_id, epoch, has_epoch=True)
        except KafkaError as error:
            return [f"{error.code.name}: {error.message}"]
        return self._step(
            FetchReceived(
                now_us=self._at(at),
                broker_id=broker_id,
                broker_epoch=epoch,
                fetch_offset=offset,
                leader_end_offset=self.state.log_end_offset if read_at is None else read_at,
                log_start_offset=0,
            )
        )

    def check_lag(self, at: int) -> list[str]:
        return self._step(LagCheckDue(now_us=self._at(at)))

    def produce(self, acks: str) -> list[str]:
        """May a batch be appended?"""
        try:
            self.state.may_produce(-1 if acks == "all" else int(acks))
        except KafkaError as error:
            return [f"{error.code.name}, nothing appended: {error.message}"]
        return [f"acks={acks} may append"]

    def waiting(self, required: int) -> list[str]:
        """A produce with acks=all that waits until all below `required` is committed."""
        status = self.state.produce_status(required)
        return [f"the produce that ends at {required} " + ("still waits" if status is None else f"gets {status.name}")]

    def request(self, leader_epoch: int) -> list[str]:
        try:
            check_leader_epoch(PROFILES["kafka-3.9"], leader_epoch, self.state.leader_epoch)
        except KafkaError as error:
            return [f"{error.code.name}: {error.message}"]
        return [f"leader epoch {leader_epoch} is accepted"]

    # what one can see

    def show(self) -> list[str]:
        state = self.state
        lines = [
            f"leader epoch {state.leader_epoch} began at {state.leader_epoch_start_offset}, "
            f"partition epoch {state.partition_epoch}",
            f"ISR {NAMES.set_of(state.in_sync_replicas)}, min {state.effective_min_isr}"
            + (f", proposed {NAMES.set_of(state.pending_isr)}" if state.pending_isr is not None else ""),
            f"HW {state.high_watermark}: {self._why()}",
            f"  b1 LEO {state.log_end_offset}",
        ]
        for broker_id, replica in state.replicas.items():
            if replica.log_end_offset < 0:
                notes = ["has not fetched yet"]
            else:
                behind = state.log_end_offset - replica.log_end_offset
                notes = [f"LEO {replica.log_end_offset}", f"{behind} behind" if behind else "level"]
            if replica.last_caught_up_us != LONG_AGO_US:
                notes.append(f"caught up {duration(self.now_us - replica.last_caught_up_us)} ago")
            else:
                notes.append("never caught up")
            holds_back = replica.log_end_offset <= state.high_watermark < state.log_end_offset
            arrow = ""
            if holds_back and broker_id in state.maximal_isr:
                arrow = "   <- HW waits for it"
            elif holds_back and replica.is_caught_up(state.log_end_offset, self.now_us, LAG_MAX_US):
                arrow = "   <- HW waits for it, as it may join the ISR, if it is eligible"
            lines.append(f"  {NAMES(broker_id)} {', '.join(notes)}{arrow}")
        return lines

    def _why(self) -> str:
        state = self.state
        if len(state.in_sync_replicas) < state.effective_min_isr:
            return f"frozen, the ISR has {len(state.in_sync_replicas)} of {state.effective_min_isr} members"
        if len(state.maximal_isr) == 1:
            return "b1 alone must hold a record"
        return f"all of {NAMES.set_of(state.maximal_isr)} must hold a record"
