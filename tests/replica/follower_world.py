"""The verbs of tests/golden/follower_*.txt: a few brokers with one log each, one of them leading.

A log is shown as one epoch per record, `0 0 1`. Epoch entries come from the real cache, which knows empty epochs too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cluster.broker.replicas.followed_partition import log_truncated
from replica.errors import ErrorCode, KafkaError
from replica.fetch_fencing import check_leader_epoch, current_leader_epoch
from replica.follower import FollowerState
from replica.ids import Names, TopicPartition
from replica.inputs import (
    AppendFailed,
    AppendRecords,
    AskLeaderOffsets,
    DelayFetch,
    EpochEndAnswered,
    FetchAnswered,
    FetchBroke,
    FollowerAction,
    FollowerAssigned,
    Halt,
    LeaderOffsetsKnown,
    MarkFailed,
    RecordsAppended,
    SetHighWatermark,
    SetLogStartOffset,
    Truncated,
    TruncateFullyAndStartAt,
    TruncateTo,
    Which,
)
from replica.log.leader_epochs import LeaderEpochCache
from replica.rules import PROFILES, Rules
from replica.truncation import find_divergence, truncation_of
from replica.wording import duration

NAMES = Names({number: f"b{number}" for number in range(1, 10)})
TOPIC = TopicPartition("orders", 0)
BACKOFF_US = 1_000_000


@dataclass
class Replica:
    """epochs[i] is the leader epoch of the record at offset start + i."""

    broker_id: int
    start: int = 0
    epochs: list[int] = field(default_factory=list)
    cache: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    high_watermark: int = 0
    leader_epoch: int = -1
    follower: FollowerState | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.epochs)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        return self.cache.end_offset_for(epoch, self.end)

    def append(self, epochs: list[int]) -> None:
        for epoch in epochs:
            self.cache.assign(epoch, self.end)
            self.epochs.append(epoch)

    def truncate(self, offset: int) -> None:
        """As Log.truncate_to: past the end only the epoch cache is cut."""
        del self.epochs[max(0, offset - self.start) :]
        self.cache.truncate_from_end(min(offset, self.end))


@dataclass(frozen=True)
class Fetch:
    leader: str
    offset: int
    leader_epoch: int
    last_epoch: int


@dataclass(frozen=True)
class Question:
    """OffsetForLeaderEpoch."""

    leader: str
    leader_epoch: int
    epoch: int


def learned(action: SetHighWatermark) -> str:
    """HW 5 -> 3, cut; the leader's is 8"""
    moved = f"HW {action.previous} -> {action.high_watermark}"
    return f"{moved}, {action.cause}; the leader's is {action.leader_high_watermark}"


class FollowerWorld:
    def __init__(self) -> None:
        self.now_us = 0
        self.rules: Rules = PROFILES["kafka-3.9"]
        self.unclean_elections = False
        self.replicas: dict[str, Replica] = {}
        self.sent: dict[str, Fetch] = {}
        self.asked: dict[str, Question] = {}

    def _replica(self, name: str) -> Replica:
        return self.replicas.setdefault(name, Replica(int(name.removeprefix("b"))))

    def _follower(self, name: str) -> FollowerState:
        follower = self._replica(name).follower
        assert follower is not None, f"{name} follows nobody"
        return follower

    # setting up

    def era(self, profile: str, unclean_elections: int = 0, **switches: str) -> None:
        """`era kafka-0.10`, or with single rules of another one: `era kafka-3.9 truncation=high-watermark`."""
        flipped = {name.replace("_", "-"): value for name, value in switches.items()}
        self.rules = PROFILES[profile].changed(flipped)
        self.unclean_elections = bool(unclean_elections)
        self.replicas.clear()

    def log(self, name: str, *epochs: int, hw: int = 0, start: int = 0) -> None:
        """`log b1 0 0 1 hw=2`: three records; hw: the broker's own high watermark."""
        replica = self.replicas[name] = Replica(int(name.removeprefix("b")), start=start, high_watermark=hw)
        replica.append(list(epochs))

    def forget_epochs(self, name: str) -> None:
        """As if the leader-epoch-checkpoint were lost."""
        self._replica(name).cache.clear()

    def lead(self, name: str, epoch: int) -> None:
        """The controller makes `name` the leader; its epoch begins at its log end, before any record of it exists."""
        replica = self._replica(name)
        replica.follower, replica.leader_epoch = None, epoch
        if truncation_of(self.rules).begins_epoch_at_once:
            replica.cache.assign(epoch, replica.end)

    def append(self, name: str, n: int) -> None:
        replica = self._replica(name)
        replica.append([replica.leader_epoch] * n)

    def commit(self, name: str, hw: int) -> None:
        """The leader's high watermark is `hw` now."""
        self._replica(name).high_watermark = hw

    def delete_below(self, name: str, offset: int) -> None:
        """Retention on the leader."""
        replica = self._replica(name)
        del replica.epochs[: offset - replica.start]
        replica.start = offset
        replica.cache.truncate_from_start(offset)

    def follow(self, name: str, leader: str, epoch: int, at: int | None = None) -> list[str]:
        """The controller makes `name` a follower."""
        replica = self._replica(name)
        replica.leader_epoch = epoch
        if replica.follower is None:
            replica.follower = FollowerState(
                fetch_backoff_us=BACKOFF_US,
                rules=self.rules,
                end_offset_for=replica.end_offset_for,
                unclean_elections_allowed=lambda: self.unclean_elections,
            )
        assigned = FollowerAssigned(
            now_us=self._at(at),
            leader_id=int(leader.removeprefix("b")),
            leader_epoch=epoch,
            log_end_offset=replica.end,
            latest_epoch=replica.cache.latest_epoch,
            high_watermark=replica.high_watermark,
            log_start_offset=replica.start,
        )
        return self._perform(replica, replica.follower.step(assigned), [])

    def _at(self, at: int | None) -> int:
        self.now_us = self.now_us if at is None else at
        return self.now_us

    # fetching

    def fetch(self, name: str, *, max_records: int = 1000, at: int | None = None) -> list[str]:
        """One request and its answer, there and back."""
        return self.send(name, at=at) + (self.answer(name, max_records=max_records) if name in self.sent else [])

    def send(self, name: str, at: int | None = None) -> list[str]:
        """The request goes out; `answer` brings the answer, perhaps after the follower has moved on."""
        follower = self._follower(name)
        self.sent.pop(name, None)
        if not follower.may_fetch(self._at(at)):
            return [f"{name} does not fetch: {self._why_not(follower)}"]
        last_epoch = follower.epoch_in_fetch
        self.sent[name] = Fetch(NAMES(follower.leader_id), follower.fetch_offset, follower.leader_epoch, last_epoch)
        after = f"after a record of epoch {last_epoch}" if last_epoch >= 0 else "and names no epoch"
        return [f"{name} asks {NAMES(follower.leader_id)} for offset {follower.fetch_offset}, {after}"]

    def _why_not(self, follower: FollowerState) -> str:
        if follower.delayed_until_us is not None and self.now_us < follower.delayed_until_us:
            return f"it waits for {duration(follower.delayed_until_us - self.now_us)} more"
        return follower.state.value

    def answer(
        self,
        name: str,
        error: str | None = None,
        append_error: str | None = None,
        max_records: int = 1000,
        file: tuple[int, ...] | None = None,
    ) -> list[str]:
        """The answer to the last request sent, any number of times.

        error: the leader's answer instead     append-error: the failure of the append at the follower
        file: epochs of the records that are there by the time sendfile reads them
        """
        replica, asked = self._replica(name), self.sent[name]
        follower = self._follower(name)
        leader = self._replica(asked.leader)
        lines: list[str] = []
        diverging: tuple[int, int] | None = None
        code, records = ErrorCode.NONE if error is None else ErrorCode[error], []
        try:
            if error is None:
                request_epoch = current_leader_epoch(self.rules, asked.leader_epoch)
                check_leader_epoch(self.rules, request_epoch, leader.leader_epoch)
                diverging = find_divergence(asked.last_epoch, asked.offset, leader.end_offset_for, leader.start)
                if diverging is None and not leader.start <= asked.offset <= leader.end:
                    raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{NAMES(leader.broker_id)} ends at {leader.end}")
                if diverging is None:
                    records = leader.epochs[asked.offset - leader.start :][:max_records] if file is None else list(file)
        except KafkaError as refusal:
            code = refusal.code
            lines.append(f"{NAMES(leader.broker_id)} answers {code.name}: {refusal.message}")
        if diverging is not None:
            lines.append(f"{NAMES(leader.broker_id)} answers: epoch {diverging[0]} ends at {diverging[1]} in my log")
        answered = FetchAnswered(
            now_us=self.now_us,
            requested_offset=asked.offset,
            requested_leader_epoch=asked.leader_epoch,
            error=code,
            leader_high_watermark=leader.high_watermark,
            leader_log_start_offset=leader.start,
            diverging=diverging,
            has_records=bool(records),
        )
        if code is ErrorCode.NONE and diverging is None:
            lines += self._acknowledged(leader, name, asked.offset)
        actions = follower.step(answered)
        if not actions and (records or code is not ErrorCode.NONE):
            lines.append(f"{name} ignores it")
        return lines + self._perform(replica, actions, records, append_error)

    def _acknowledged(self, leader: Replica, name: str, offset: int) -> list[str]:
        """The leader's conclusion from the fetch: `name` holds all below `offset`. Here a leader is only a log."""
        return []

    # comparing epochs before the first fetch

    def compare(self, name: str, at: int | None = None) -> list[str]:
        """One OffsetForLeaderEpoch and its answer, there and back."""
        return self.ask(name, at=at) + (self.tell(name) if name in self.asked else [])

    def ask(self, name: str, at: int | None = None) -> list[str]:
        follower = self._follower(name)
        self.asked.pop(name, None)
        if not follower.may_compare(self._at(at)):
            return [f"{name} asks nothing: {self._why_not(follower)}"]
        epoch = follower.last_fetched_epoch
        assert epoch is not None
        self.asked[name] = Question(NAMES(follower.leader_id), follower.leader_epoch, epoch)
        return [f"{name} asks {NAMES(follower.leader_id)} where epoch {epoch} ends"]

    def tell(self, name: str, error: str | None = None) -> list[str]:
        """The answer to the last question, any number of times. error: the leader's answer instead"""
        replica, asked = self._replica(name), self.asked[name]
        follower, leader = self._follower(name), self._replica(asked.leader)
        lines: list[str] = []
        code, told = ErrorCode.NONE if error is None else ErrorCode[error], (-1, -1)
        try:
            if error is None:
                request_epoch = current_leader_epoch(self.rules, asked.leader_epoch)
                check_leader_epoch(self.rules, request_epoch, leader.leader_epoch)
                told = leader.end_offset_for(asked.epoch)
                lines.append(
                    f"{asked.leader} answers: epoch {told[0]} ends at {told[1]} in my log"
                    if told[1] >= 0
                    else f"{asked.leader} cannot say"
                )
        except KafkaError as refusal:
            code = refusal.code
            lines.append(f"{asked.leader} answers {code.name}: {refusal.message}")
        answered = EpochEndAnswered(
            now_us=self.now_us,
            requested_epoch=asked.epoch,
            requested_leader_epoch=asked.leader_epoch,
            error=code,
            epoch=told[0],
            end_offset=told[1],
        )
        actions = follower.step(answered)
        return lines + (self._perform(replica, actions, []) if actions else [f"{name} ignores it"])

    def breaks(self, name: str) -> list[str]:
        """No answer comes."""
        follower = self._follower(name)
        return self._perform(self._replica(name), follower.step(FetchBroke(now_us=self.now_us)), [])

    def offsets(self, name: str, which: str, error: str = "NONE", epoch: int | None = None) -> list[str]:
        """The leader's answer to the question where its log ends (latest) or starts (earliest)."""
        follower = self._follower(name)
        leader = self._replica(NAMES(follower.leader_id))
        known = LeaderOffsetsKnown(
            now_us=self.now_us,
            which=Which[which.upper()],
            requested_leader_epoch=follower.leader_epoch if epoch is None else epoch,
            error=ErrorCode[error],
            offset=leader.end if which == "latest" else leader.start,
        )
        actions = follower.step(known)
        return self._perform(self._replica(name), actions, []) or [f"{name} {follower.state.value}"]

    def _perform(
        self, replica: Replica, actions: list[FollowerAction], records: list[int], append_error: str | None = None
    ) -> list[str]:
        """Carry out the follower's actions on the log, and report them to it."""
        follower, lines = replica.follower, []
        assert follower is not None
        for action in actions:
            follow_up: list[FollowerAction] = []
            match action:
                case AppendRecords() if append_error is not None:
                    failed = AppendFailed(now_us=self.now_us, error=ErrorCode[append_error])
                    follow_up = follower.step(failed)
                case AppendRecords():
                    kept = self._up_to_epoch(records, action.max_leader_epoch)
                    replica.append(kept)
                    lines.append(f"{NAMES(replica.broker_id)} appends {len(kept)} of {len(records)}, to {replica.end}")
                    follow_up = follower.step(
                        RecordsAppended(
                            now_us=self.now_us, log_end_offset=replica.end, latest_epoch=replica.cache.latest_epoch
                        )
                    )
                case TruncateTo() | TruncateFullyAndStartAt():
                    before = replica.end
                    self._truncate(replica, action)
                    place = (NAMES(replica.broker_id), *TOPIC)
                    cut = log_truncated(place, NAMES(follower.leader_id), follower, action, replica.end)
                    keeps = f"{NAMES(replica.broker_id)} keeps its log up to {replica.end}: {cut.cause}"
                    lines.append(keeps if replica.end == before else cut.sentence())
                    follow_up = follower.step(
                        Truncated(
                            now_us=self.now_us, log_end_offset=replica.end, latest_epoch=replica.cache.latest_epoch
                        )
                    )
                case SetHighWatermark():
                    assert action.previous == replica.high_watermark
                    replica.high_watermark = action.high_watermark
                    lines.append(self._high_watermark_line(replica, learned(action)))
                case SetLogStartOffset():
                    lines.append(f"{NAMES(replica.broker_id)} drops records below {action.offset}")
                    self.delete_below(NAMES(replica.broker_id), action.offset)
                case AskLeaderOffsets():
                    end = "ends" if action.which is Which.LATEST else "starts"
                    lines.append(f"{NAMES(replica.broker_id)} asks {NAMES(follower.leader_id)} where its log {end}")
                case DelayFetch():
                    lines.append(f"{NAMES(replica.broker_id)} waits until {action.until_us / 1_000_000:g} s")
                case MarkFailed():
                    lines.append(f"{NAMES(replica.broker_id)} stops fetching: {action.error.name}, {action.cause}")
                case Halt():
                    lines.append(f"{NAMES(replica.broker_id)} halts, its leader ends at {action.leader_end_offset}")
            lines += self._perform(replica, follow_up, [])
        return lines

    def _high_watermark_line(self, replica: Replica, said: str) -> str:
        return said

    @staticmethod
    def _up_to_epoch(records: list[int], max_leader_epoch: int | None) -> list[int]:
        for index, epoch in enumerate(records):
            if max_leader_epoch is not None and epoch > max_leader_epoch:
                return records[:index]
        return records

    @staticmethod
    def _truncate(replica: Replica, action: TruncateTo | TruncateFullyAndStartAt) -> None:
        if isinstance(action, TruncateTo):
            replica.truncate(action.offset)
        else:
            replica.start, replica.epochs = action.offset, []
            replica.cache.clear()

    # what one can see

    def logs(self) -> list[str]:
        widest = max(len(replica.epochs) + replica.start for replica in self.replicas.values())
        lines = []
        for name, replica in sorted(self.replicas.items()):
            cells = ["." for _ in range(replica.start)] + [str(epoch) for epoch in replica.epochs]
            entries = ", ".join(f"{epoch} from {start}" for epoch, start in replica.cache.entries)
            lines.append(
                f"{name}  {' '.join(cells):<{2 * widest}} LEO {replica.end}  HW {replica.high_watermark}"
                f"  epochs: {entries or 'none known'}"
            )
        return lines
