"""The states and branches that a run reached, as short names: a pure function of its trace, for a search to compare.

A branch of a rule is known by the sentence that it gives as its reason, without the names and numbers in it. Each
branch is paired with the role of the replica that took it, and with each fault that was in force. Besides these: which
of the states of replica/fetch_states.py and isr_states.py follow each other, sizes of ISR and ELR, error codes, leader
epochs that one step crosses, and how far a new leader or a cut log is behind what the partition has committed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from replica.fetch_states import APPENDING, FAILED, FETCHING, TRUNCATING
from replica.isr_states import COMMITTED, EXPANDING, SHRINKING
from replica.trace import events as t

Partition = tuple[str, int]
_LEADER, _FOLLOWER, _NO_REPLICA = "leader", "follower", "-"
_UNTOLD = (t.RunStarted, t.RunFinished, t.CheckMade, t.InvariantBroken, t.FaultBegan, t.FaultEnded)
"""Control events that state no rule's branch."""
_NO_BRANCH = (*_UNTOLD, t.BatchAppended, t.FollowerFetched, t.HighWatermarkAdvanced, t.HighWatermarkLearned)
_NAMES = re.compile(r"\b([bcprt])-?\d+\b")
_LISTS = re.compile(r"\b([bcpr])#(?:(?:, | and )[bcpr]#)+")
_SIZES = (1, 2, 3, 4, 8, 16, 64)
_TURNS = (t.LeaderElected, t.IsrCommitted, t.IsrProposed, t.LogTruncated, t.PartitionWentOffline)
_TURNS_MAX = 64
_NEAR_TURNS_MAX = 32
_NEAR_A_LOSS = (
    "leads without committed records", "leads with a high watermark below", "another epoch at the same offset",
    "high watermark falls", "cut, ", "append", "fetch counts", "returns while",
)  # fmt: skip
_ONE_STEP_FROM_A_LOSS = (
    "leads and knows of as little",
    "fetch counts that a log was cut for",
    "returns while its leader knows of as",
    "proposed though",
    "joins though",
)
FAULT_MARK = " | "
"""Between a branch, the role of the replica that took it, and a fault that was in force."""


class Turn(NamedTuple):
    """When the leader, the ISR or a log of a partition took a turn, and the brokers it was about: there a fault makes a
    difference. worth: the most of what the run reached by it"""

    at_ms: int
    partition: str
    nodes: tuple[str, ...]
    worth: float


def coverage_of(rows: Iterable[t.TraceRow]) -> tuple[str, ...]:
    """The names of everything that the events reached, sorted."""
    coverage = Coverage()
    for row in rows:
        if coverage.wants(type(row.event)):
            coverage(row)
    return coverage.reached


class Coverage:
    """A listener of the trace that collects the names."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._nearest = 0.0
        self._found: dict[str, None] = {}
        self._in_force: dict[str, str] = {}
        self._role: dict[tuple[str, Partition], str] = {}
        self._state: dict[tuple[str, Partition], str] = {}
        self._steps: dict[Partition, tuple[str, ...]] = {}
        self._committed: dict[Partition, int] = {}
        self._last_epoch: dict[tuple[str, Partition], int] = {}
        self._followed_epoch: dict[tuple[str, Partition], int] = {}
        self._log_end: dict[tuple[str, Partition], int] = {}
        self._epoch_at: dict[Partition, dict[int, int]] = {}
        self._handlers: dict[type[t.TraceEvent], Callable[[Any], None]] = {
            t.FaultBegan: self._fault_began,
            t.FaultEnded: self._fault_ended,
            t.LeadershipBegan: self._leads,
            t.FollowingBegan: self._follows,
            t.LogTruncated: self._truncated,
            t.BatchAppended: self._appended,
            t.FetchRefused: self._refused,
            t.FollowerFetched: self._fetched,
            t.HighWatermarkAdvanced: self._high_watermark,
            t.HighWatermarkLearned: self._high_watermark,
            t.IsrProposed: self._proposed,
            t.IsrCommitted: self._isr,
            t.IsrRejected: self._rejected,
            t.ElrCommitted: self._elr,
            t.LeaderElected: self._elected,
            t.PartitionWentOffline: lambda event: self._step(_of(event), "offline"),
        }

    def wants(self, kind: type[t.TraceEvent]) -> bool:
        return kind in self._handlers or kind.TABLE == "control" or "error" in kind.__dataclass_fields__

    def __call__(self, row: t.TraceRow) -> None:
        event = row.event
        if not isinstance(event, _NO_BRANCH):
            self._branch(event)
        handler = self._handlers.get(type(event))
        if handler is not None:
            self._nearest = 0.0
            handler(event)
            if self._nearest > 1 or isinstance(event, _TURNS):
                self._take_turn(row.at_us // 1000, event)

    def _take_turn(self, at_ms: int, event: Any) -> None:
        near = self._nearest > 1
        if sum((turn.worth > 1) == near for turn in self.turns) < (_NEAR_TURNS_MAX if near else _TURNS_MAX):
            self.turns.append(
                Turn(at_ms, f"{event.topic}-{event.partition}", _nodes_of(event), max(1.0, self._nearest))
            )

    @property
    def reached(self) -> tuple[str, ...]:
        return tuple(sorted(self._found))

    def _add(self, *words: object) -> None:
        name = " ".join(map(str, words))
        if name not in self._found:
            self._found[name] = None
            self._nearest = max(self._nearest, worth(name))

    # ------------------------------------------------------------------------------------------------------- branches

    def _branch(self, event: Any) -> None:
        name = t.EVENT_NAMES[type(event)]
        error = getattr(event, "error", None)
        if error is not None:
            self._add("error", name, error)
        reason = getattr(event, "reason", None)
        if reason is None:
            return
        node, topic = getattr(event, "node", None), getattr(event, "topic", None)
        role = _NO_REPLICA
        if node is not None and topic is not None and hasattr(event, "partition"):
            role = self._role.get((node, _of(event)), _NO_REPLICA)
        branch = f"{name}: {sentence_without_names(reason)}"
        self._add("branch", branch)
        for verb in dict.fromkeys(self._in_force.values()):
            self._add("branch", FAULT_MARK.join((branch, role, verb)))

    def _fault_began(self, event: t.FaultBegan) -> None:
        if event.fault is not None:
            self._in_force[event.fault] = event.verb

    def _fault_ended(self, event: t.FaultEnded) -> None:
        if event.fault is not None:
            self._in_force.pop(event.fault, None)

    # --------------------------------------------------------------------------------------------------------- states

    def _enter(self, node: str, partition: Partition, state: str) -> None:
        before = self._state.get((node, partition), "new")
        self._state[node, partition] = state
        self._add("state", before, "->", state)

    def _step(self, partition: Partition, step: str) -> None:
        """Up to three decisive steps of one partition, in their order."""
        steps = (*self._steps.get(partition, ()), step)[-3:]
        self._steps[partition] = steps
        self._add("steps", *steps)

    def _leads(self, event: t.LeadershipBegan) -> None:
        partition = _of(event)
        self._role[event.node, partition] = _LEADER
        self._enter(event.node, partition, COMMITTED.name)
        missing = self._committed.get(partition, 0) - event.log_end_offset
        behind = event.log_end_offset - event.high_watermark
        self._add("leads, ISR of", len(event.isr), "high watermark behind the log by", _size(behind))
        if missing > 0:
            self._add("leads without committed records,", _size(missing))
        stale = self._committed.get(partition, 0) - event.high_watermark
        if stale > 0:
            self._add("leads with a high watermark below the committed end by", _size(stale))
            self._leads_beside_late_ones(event)
        if missing > 0:  # They are gone, and no other replica loses them once more.
            self._committed[partition] = event.log_end_offset
        last = self._last_epoch.get((event.node, partition))
        if last is not None:
            self._add("leads, epochs since the end of its log:", _size(event.leader_epoch - last))
        self._step(partition, "leads")

    def _leads_beside_late_ones(self, event: t.LeadershipBegan) -> None:
        """How far those outside the ISR are from what a leader knows of that knows of less than is committed."""
        partition = _of(event)
        for node in [node for node, of in self._log_end if of == partition and node not in event.isr]:
            end = self._log_end[node, partition]
            if end < event.high_watermark:
                behind = _size(event.high_watermark - end)
                self._add("leads with a high watermark below the committed end, a late one is behind that by", behind)
            elif end < self._committed[partition]:
                lacks = _size(self._committed[partition] - end)
                self._add("leads and knows of as little as one outside the ISR has, which lacks", lacks)

    def _follows(self, event: t.FollowingBegan) -> None:
        partition = _of(event)
        before = self._role.get((event.node, partition), _NO_REPLICA)
        self._role[event.node, partition] = _FOLLOWER
        self._followed_epoch[event.node, partition] = event.leader_epoch
        self._log_end[event.node, partition] = event.log_end_offset
        self._enter(event.node, partition, FETCHING.name)
        self._add("follows, was", before, "log beyond its high watermark by", _size(
            event.log_end_offset - event.high_watermark))  # fmt: skip
        last = self._last_epoch.get((event.node, partition))
        if last is not None:
            self._add("follows, epochs since the end of its log:", _size(event.leader_epoch - last))
        self._step(partition, "follows")

    def _truncated(self, event: t.LogTruncated) -> None:
        partition = _of(event)
        self._enter(event.node, partition, TRUNCATING.name)
        self._log_end[event.node, partition] = event.log_end_offset
        below = self._committed.get(partition, 0) - event.log_end_offset
        self._add("cut, committed records gone:", _size(below))
        self._add("cut, below its own high watermark by", _size(event.previous_high_watermark - event.log_end_offset))
        self._step(partition, "cut" if below <= 0 else "cut committed")

    def _appended(self, event: t.BatchAppended) -> None:
        partition = _of(event)
        key = event.node, partition
        if event.role != _LEADER and self._state.get(key) != APPENDING.name:
            self._enter(event.node, partition, APPENDING.name)
        last = self._last_epoch.get(key, event.leader_epoch)
        if event.leader_epoch != last:
            self._add("append", event.role, "crosses epochs:", event.leader_epoch - last)
        self._last_epoch[key] = event.leader_epoch
        self._log_end[key] = event.log_end_offset
        known = self._epoch_at.setdefault(partition, {})
        other = known.setdefault(event.base_offset, event.leader_epoch)
        if other != event.leader_epoch:
            known[event.base_offset] = event.leader_epoch
            at = "below" if event.base_offset < self._committed.get(partition, 0) else "above"
            self._add(
                "another epoch at the same offset,", event.role, at, "the committed end", event.leader_epoch - other
            )

    def _refused(self, event: t.FetchRefused) -> None:
        """A follower whose epoch is over fetches no more until it learns of another."""
        if event.error == "FENCED_LEADER_EPOCH" and self._role.get((event.node, _of(event))) == _FOLLOWER:
            self._enter(event.node, _of(event), FAILED.name)

    def _fetched(self, event: t.FollowerFetched) -> None:
        """What an old rule counts though it should not (KIP-320), or is not far from letting into the ISR (KAFKA-7128):
        a replica that comes back to a leader which knows of less than is committed."""
        partition = _of(event)
        followed = self._followed_epoch.get((event.peer, partition), event.leader_epoch)
        if followed != event.leader_epoch:
            member = "of a member of the ISR" if event.in_isr else "from outside the ISR"
            self._add("fetch counts in another epoch,", member, "by", followed - event.leader_epoch)
        beyond = event.fetch_offset - self._log_end.get((event.peer, partition), event.fetch_offset)
        if beyond > 0:
            self._add("fetch counts that a log was cut for since, beyond its end by", _size(beyond))
        committed = self._committed.get(partition, 0)
        if not event.in_isr and event.high_watermark < committed:
            behind = event.high_watermark - event.fetch_offset
            self._add("returns while its leader knows of less than is committed, behind that by", _size(behind))
            if behind <= 0 < committed - event.fetch_offset:
                self._add(
                    "returns while its leader knows of as little as it has,", _size(committed - event.fetch_offset)
                )

    def _high_watermark(self, event: t.HighWatermarkAdvanced | t.HighWatermarkLearned) -> None:
        partition = _of(event)
        if event.high_watermark < event.previous_high_watermark:
            self._add("high watermark falls", event.role, _size(event.previous_high_watermark - event.high_watermark))
        if isinstance(event, t.HighWatermarkAdvanced):
            self._committed[partition] = max(self._committed.get(partition, 0), event.high_watermark)

    # ------------------------------------------------------------------------------------------- ISR, ELR and leaders

    def _proposed(self, event: t.IsrProposed) -> None:
        larger = len(event.isr) > len(event.previous_isr)
        partition = _of(event)
        self._enter(event.node, partition, (EXPANDING if larger else SHRINKING).name)
        self._lacking("proposed", event)

    def _lacking(self, what: str, event: t.IsrProposed | t.IsrCommitted) -> None:
        partition = _of(event)
        for node in event.isr:
            end = self._log_end.get((node, partition))
            missing = 0 if end is None else self._committed.get(partition, 0) - end
            if missing > 0 and node not in event.previous_isr:
                self._add(what, "though it lacks what is committed,", _size(missing))

    def _isr(self, event: t.IsrCommitted) -> None:
        self._add("ISR", len(event.previous_isr), "->", len(event.isr))
        self._lacking("joins", event)
        if event.proposed_by is not None:
            self._enter(event.proposed_by, _of(event), COMMITTED.name)
        self._step(_of(event), "ISR grows" if len(event.isr) > len(event.previous_isr) else "ISR shrinks")

    def _rejected(self, event: t.IsrRejected) -> None:
        self._step(_of(event), "ISR refused")

    def _elr(self, event: t.ElrCommitted) -> None:
        self._add(
            "ELR", len(event.previous_elr), "->", len(event.elr), "last leader", event.last_known_leader is not None
        )

    def _elected(self, event: t.LeaderElected) -> None:
        self._add("elected, ISR of", len(event.isr), "clean" if event.clean else "unclean")
        if not event.clean:  # From now on what this leader has is committed, and no other loses more.
            self._committed.pop(_of(event), None)
        self._step(_of(event), "elected" if event.clean else "elected unclean")


def worth(name: str) -> float:
    """How much it counts to reach it: what is near a loss most; not at all the many pairs of branch and fault, of which
    nearly every run has a new one."""
    if name.startswith(_ONE_STEP_FROM_A_LOSS):
        return 64.0
    if name.startswith(_NEAR_A_LOSS):
        return 1.0 if name.endswith((" 0", "less than 0")) else 16.0
    return 0.0 if name.startswith("branch") and FAULT_MARK in name else 1.0


def _of(event: Any) -> Partition:
    return event.topic, event.partition


def _nodes_of(event: Any) -> tuple[str, ...]:
    """Those who did it and those it was done to; of an ISR, the members that join or leave it."""
    named = [getattr(event, key, None) for key in ("node", "peer", "broker", "previous_leader", "proposed_by")]
    isr, before = getattr(event, "isr", ()), getattr(event, "previous_isr", ())
    named += [node for node in (*isr, *before) if (node in isr) != (node in before)]
    return tuple(dict.fromkeys(node for node in named if node is not None))


def _size(number: int) -> str:
    """Sizes that differ much have different names."""
    if number <= 0:
        return "0" if number == 0 else "less than 0"
    return str(max(size for size in _SIZES if size <= number))


def sentence_without_names(reason: str) -> str:
    """`b2 follows b1 in epoch 7 of t-0` -> `b# follows b# in epoch # of t#`; lists of nodes have one length."""
    named = _LISTS.sub(r"\1#", _NAMES.sub(r"\1#", reason))
    return re.sub(r"-?\d+(\.\d+)?", "#", named)
