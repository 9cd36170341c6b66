"""The report's definitions a second time: one run's rows in plain Python, slow and obvious.

Each function goes through the rows of a trace in their order and keeps what is true now. They are for comparison with
Spark's results, on runs small enough for them.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow.parquet as pq

from replica.rules import KafkaRelease

Row = dict[str, Any]
Place = tuple[str, int]
Found = set[tuple[Any, ...]]
HALF_A_SECOND_US = 500_000


def rows_of(run_dir: Path) -> list[Row]:
    """Every row of the trace with its table's name, in the order of the run."""
    rows: list[Row] = []
    for table in sorted((run_dir / "trace").iterdir()):
        for part in sorted(table.glob("part-*.parquet")):
            rows += [{**row, "table": table.name} for row in pq.read_table(part, partitioning=None).to_pylist()]
    return sorted(rows, key=lambda row: row["seq"])


# -------------------------------------------------------------------------------------------- what the controller says


class State(NamedTuple):
    leader: str | None
    isr: frozenset[str]
    replicas: frozenset[str]
    factor: int
    configured_min_isr: int
    is_bounded: bool

    @property
    def min_isr(self) -> int:
        return min(self.configured_min_isr, len(self.replicas)) if self.is_bounded else self.configured_min_isr


def decided(rows: list[Row]) -> dict[Place, list[tuple[int, State | None]]]:
    """Per partition: from when (microseconds) which state was in force; None after its topic was deleted."""
    history: dict[Place, list[tuple[int, State | None]]] = defaultdict(list)
    eras = [KafkaRelease.parsed(row["profile"]) for row in rows if row["event"] == "run_started"]
    is_bounded = all(release >= KafkaRelease(3, 7) for release in eras)
    for row in rows:
        event = row["event"]
        if event in ("topic_deleted", "config_altered"):
            for (topic, number), states in list(history.items()):
                now = states[-1][1]
                if topic == row["topic"] and now is not None:
                    if event == "topic_deleted":
                        states.append((row["at_us"], None))
                    elif row["min_isr"] is not None:
                        history[topic, number].append((row["at_us"], now._replace(configured_min_isr=row["min_isr"])))
            continue
        place = (row.get("topic"), row.get("partition"))
        now = history[place][-1][1] if place in history else None
        if event == "partition_created":
            replicas = frozenset(row["replicas"])
            now = State(row["broker"], frozenset(row["isr"]), replicas, len(replicas), row["min_isr"], is_bounded)
        elif now is None:
            continue
        elif event == "leader_elected":
            now = now._replace(leader=row["broker"], isr=frozenset(row["isr"]))
        elif event == "partition_went_offline":
            now = now._replace(leader=None, isr=frozenset(row["isr"]))
        elif event == "isr_committed":
            now = now._replace(isr=frozenset(row["isr"]))
        elif event == "reassignment_began":
            replicas = frozenset(row["replicas"])
            now = now._replace(replicas=replicas, factor=len(replicas - set(row["adding"])))
        elif event in ("reassignment_completed", "reassignment_cancelled"):
            now = now._replace(replicas=frozenset(row["replicas"]), factor=len(row["replicas"]))
        else:
            continue
        history[place].append((row["at_us"], now))
    return history


def stretches(values: list[tuple[int, Any]], end_us: int) -> list[tuple[int, int, Any]]:
    """(from, until, value) of a value that changes at times; equal neighbours are one, and none has length 0."""
    found: list[tuple[int, int, Any]] = []
    for (from_us, value), (until_us, _) in zip(values, [*values[1:], (end_us, None)], strict=True):
        if until_us == from_us:
            continue
        if found and found[-1][2] == value and found[-1][1] == from_us:
            found[-1] = (found[-1][0], until_us, value)
        else:
            found.append((from_us, until_us, value))
    return found


def isr_intervals(rows: list[Row]) -> Found:
    """(topic, partition, node, from_us, until_us, standing)"""
    found: Found = set()
    for place, states in decided(rows).items():
        for node in {node for _, state in states if state for node in state.replicas | state.isr}:
            values = [(at_us, _standing(state, node)) for at_us, state in states]
            for from_us, until_us, standing in stretches(values, rows[-1]["at_us"]):
                if standing is not None:
                    found.add((*place, node, from_us, until_us, standing))
    return found


def _standing(state: State | None, node: str) -> str | None:
    if state is None or node not in state.replicas | state.isr:
        return None
    return "leader" if state.leader == node else "in sync" if node in state.isr else "out of sync"


def unavailability(rows: list[Row]) -> Found:
    """(topic, partition, kind, from_us, until_us)"""
    found: Found = set()
    for place, states in decided(rows).items():
        judged: dict[str, list[tuple[int, bool]]] = {
            "no leader": [(at_us, s is not None and s.leader is None) for at_us, s in states],
            "under-replicated": [(at_us, s is not None and len(s.isr) < s.factor) for at_us, s in states],
            "under min ISR": [(at_us, s is not None and len(s.isr) < s.min_isr) for at_us, s in states],
            "leader down": _leader_down(states, rows),
        }
        for kind, values in judged.items():
            for from_us, until_us, holds in stretches(values, rows[-1]["at_us"]):
                if holds:
                    found.add((*place, kind, from_us, until_us))
    return found


def _leader_down(states: list[tuple[int, State | None]], rows: list[Row]) -> list[tuple[int, bool]]:
    """At every time at which anything changed: does the controller name a leader whose process is gone?"""
    turns = [
        (row["at_us"], row["node"], row["event"]) for row in rows if row["event"] in ("node_started", "node_stopped")
    ]
    judged = []
    for now_us in sorted({at_us for at_us, _ in states} | {turn[0] for turn in turns if turn[0] >= states[0][0]}):
        state = [state for at_us, state in states if at_us <= now_us][-1]
        leader = state.leader if state else None
        last = [event for at_us, node, event in turns if at_us <= now_us and node == leader]
        judged.append((now_us, last[-1:] == ["node_stopped"]))
    return judged


# ------------------------------------------------------------------------------------------------ what a leader knows


class Term:
    """One leader's term: its state so far."""

    def __init__(self, row: Row) -> None:
        self.leader, self.epoch = row["node"], row["leader_epoch"]
        self.began_us, self.began_offset = row["at_us"], row["log_end_offset"]
        self.end, self.high_watermark = row["log_end_offset"], row["high_watermark"]
        self.had: list[tuple[int, int]] = []  # (last offset of an append, when)
        self.fetches: list[tuple[int, str, int]] = []  # (when, follower, fetch offset)
        self.followers: dict[str, tuple[int, int | None, int, int]] = {}
        """fetch offset, when it was last caught up, the leader's end and the time at its last fetch"""
        self.waiting_since: int | None = self.began_us if self.end > self.high_watermark else None
        self.at_risk: list[tuple[int, int]] = []  # (offset, acks) of acked records above the high watermark


class Stall(NamedTuple):
    """Records waited above a high watermark that stood still."""

    place: Place
    term: Term
    from_us: int
    until_us: int
    high_watermark: int
    waiting: int
    ended_by: str


class Leaders:
    """Replays a trace and notes lag, stalls of high watermarks and data at risk on the way."""

    def __init__(self, rows: list[Row]) -> None:
        self.terms: dict[Place, Term] = {}
        self.deposed: dict[tuple[Any, ...], Term] = {}
        """Until it hears of it, a deposed leader goes on to see its followers; none of its other events count."""
        self.lag: Found = set()
        """(topic, partition, leader, follower, at_us, seq, lag_records, lag_us, peak_lag_us, behind_us)"""
        self.stalls: list[Stall] = []
        self.risk: dict[tuple[Any, ...], int] = {}
        """(topic, partition, leader, leader_epoch, acks, at_us) -> records at risk then"""
        for row in rows:
            self._take(row)
        for place in list(self.terms):
            self._end(place, rows[-1])
        self.risk = _changes_only(self.risk)

    def _take(self, row: Row) -> None:
        event, place = row["event"], (row.get("topic"), row.get("partition"))
        term = self.terms.get(place)  # type: ignore[arg-type]
        is_its = term is not None and row.get("node") == term.leader and row.get("leader_epoch") == term.epoch
        if event == "node_stopped":
            for other in [key for key, one in self.terms.items() if one.leader == row["node"]]:
                self._end(other, row)
        elif event in ("leader_elected", "partition_went_offline") and term and row["leader_epoch"] > term.epoch:
            self._end(place, row)  # type: ignore[arg-type]
        elif event == "topic_deleted":
            for other in [key for key in self.terms if key[0] == row["topic"]]:
                self._end(other, row)
        elif event == "replica_deleted":
            if term is not None and row["node"] == term.leader:
                self._end(place, row)  # type: ignore[arg-type]
        elif event == "leadership_began" and not is_its:
            if term is not None:
                self._end(place, row)  # type: ignore[arg-type]
            self.terms[place] = Term(row)  # type: ignore[index]
            self.deposed.pop((*place, row["node"], row["leader_epoch"]), None)
        elif (late := self.deposed.get((*place, row.get("node"), row.get("leader_epoch")))) is not None:
            self._seen_late(place, late, row)
        elif term is None:
            return
        elif event == "batch_appended" and row["role"] == "leader" and is_its:
            ages = self._ages(term, row["at_us"])
            term.end = row["log_end_offset"]
            term.had.append((row["last_offset"], row["at_us"]))
            if term.waiting_since is None and term.end > term.high_watermark:
                term.waiting_since = row["at_us"]
            for follower in term.followers:
                self._note_lag(place, term, follower, row, ages[follower])
        elif event == "follower_fetched" and is_its:
            age = self._age(term, row["peer"], row["at_us"])
            self._fetched(term, row)
            self._note_lag(place, term, row["peer"], row, age)
        elif event == "high_watermark_advanced" and is_its:
            self._note_stall(place, term, row["at_us"], "the high watermark moved")
            term.high_watermark = row["high_watermark"]
            term.waiting_since = row["at_us"] if term.end > term.high_watermark else None
            self._note_risk(place, term, row, [one for one in term.at_risk if one[0] >= term.high_watermark])
        elif event == "record_acked" and row["peer"] == term.leader and row["offset"] >= term.high_watermark:
            self._note_risk(place, term, row, [*term.at_risk, (row["offset"], row["acks"])])

    def _seen_late(self, place: Any, term: Term, row: Row) -> None:
        if row["event"] == "follower_fetched":
            age = self._age(term, row["peer"], row["at_us"])
            self._fetched(term, row)
            self._note_lag(place, term, row["peer"], row, age)
        elif row["event"] == "batch_appended" and row["role"] == "leader":
            ages = self._ages(term, row["at_us"])
            term.end = row["log_end_offset"]
            term.had.append((row["last_offset"], row["at_us"]))
            for follower in term.followers:
                self._note_lag(place, term, follower, row, ages[follower])

    def _fetched(self, term: Term, row: Row) -> None:
        offset, end, now_us = row["fetch_offset"], row["log_end_offset"], row["at_us"]
        before = term.followers.get(row["peer"])
        caught_up_us = before[1] if before else None
        if offset >= end:
            caught_up_us = now_us
        elif before and offset >= before[2]:
            caught_up_us = max(caught_up_us or 0, before[3])
        term.end = end
        term.followers[row["peer"]] = (offset, caught_up_us, end, now_us)
        term.fetches.append((now_us, row["peer"], offset))

    def _note_lag(self, place: Any, term: Term, follower: str, row: Row, peak: int) -> None:
        offset, caught_up_us, _, _ = term.followers[follower]
        lacks = max(0, term.end - offset)
        behind = row["at_us"] - (term.began_us if caught_up_us is None else caught_up_us) if lacks else 0
        age = self._age(term, follower, row["at_us"])
        self.lag.add((*place, term.leader, follower, row["at_us"], row["seq"], lacks, age, peak, behind))

    def _age(self, term: Term, follower: str, now_us: int) -> int:
        """Of the oldest record that it lacks now."""
        if follower not in term.followers or term.end <= (offset := term.followers[follower][0]):
            return 0
        had_us = next((at_us for last_offset, at_us in term.had if last_offset >= offset), 0)
        return now_us - (term.began_us if offset < term.began_offset else had_us)

    def _ages(self, term: Term, now_us: int) -> dict[str, int]:
        return {follower: self._age(term, follower, now_us) for follower in term.followers}

    def _note_stall(self, place: Any, term: Term, now_us: int, ended_by: str) -> None:
        if term.waiting_since is not None and now_us - term.waiting_since >= HALF_A_SECOND_US:
            waiting = term.end - term.high_watermark
            self.stalls.append(Stall(place, term, term.waiting_since, now_us, term.high_watermark, waiting, ended_by))

    def _note_risk(self, place: Any, term: Term, row: Row, now: list[tuple[int, int]]) -> None:
        for acks in {one[1] for one in (*term.at_risk, *now)}:
            key = (*place, term.leader, term.epoch, acks, row["at_us"])
            self.risk[key] = sum(one[1] == acks for one in now)
        term.at_risk = now

    def _end(self, place: Place, row: Row) -> None:
        term = self.terms.pop(place)
        if row["event"] != "node_stopped":
            self.deposed[*place, term.leader, term.epoch] = term
        for follower, age in self._ages(term, row["at_us"]).items():
            self._note_lag(place, term, follower, row, age)
        ends = {
            "node_stopped": "the leader stopped", "run_finished": "the run ended",
            "topic_deleted": "the topic was deleted", "replica_deleted": "the leader removed its replica",
        }  # fmt: skip
        self._note_stall(place, term, row["at_us"], ends.get(row["event"], "the next term began"))
        self._note_risk(place, term, row, [])


def _changes_only(risk: dict[tuple[Any, ...], int]) -> dict[tuple[Any, ...], int]:
    """Without moments that left a number as it was."""
    before: dict[tuple[Any, ...], int] = defaultdict(int)
    kept = {}
    for key, number in sorted(risk.items(), key=lambda item: item[0][-1]):
        if number != before[key[:-1]]:
            kept[key] = number
        before[key[:-1]] = number
    return kept


# ------------------------------------------------------------------------------------------------- what clients see


def write_stalls(rows: list[Row]) -> Found:
    """(topic, partition, client, from_us, until_us, recovered)"""
    partition_of = {
        (row["topic"], row["client"], row["record"]): row["partition"]
        for row in rows
        if row["table"] == "produce" and row["record"] is not None and row["partition"] >= 0
    }
    waiting: dict[tuple[Any, ...], int] = defaultdict(int)
    since: dict[tuple[Any, ...], int] = {}
    found: Found = set()

    def ended(key: tuple[Any, ...], now_us: int, recovered: bool) -> None:
        from_us = since.pop(key, now_us)
        if now_us - from_us >= HALF_A_SECOND_US:
            found.add((*key, from_us, now_us, recovered))

    for row in rows:
        if row["event"] == "node_stopped":
            for key in [one for one in waiting if one[2] == row["node"]]:
                ended(key, row["at_us"], False)
                del waiting[key]
        if row["table"] != "produce" or row["record"] is None:
            continue
        key = (row["topic"], partition_of.get((row["topic"], row["client"], row["record"]), -1), row["client"])
        if row["event"] == "record_sent":
            waiting[key] += 1
        elif row["event"] in ("record_acked", "record_handed_over"):
            ended(key, row["at_us"], True)
            waiting[key] -= 1
        else:
            waiting[key] -= 1
            if waiting[key] == 0:
                ended(key, row["at_us"], False)
        if waiting[key] and key not in since:
            since[key] = row["at_us"]
    for key in list(since):
        ended(key, rows[-1]["at_us"], False)
    return found


def client_name(client_id: str) -> str:
    return f"client/{quote(client_id, safe=': ')[:60]}"


def read_stalls(rows: list[Row]) -> Found:
    """(topic, partition, client, group, from_us, until_us, recovered); a group counts as one consumer"""
    groups_of: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["event"] == "group_member_joined":
            groups_of[client_name(row["client_id"])].add(row["group"])
    living: set[str] = set()

    def reader_of(row: Row) -> tuple[str | None, str | None]:
        """(client, group); (None, None) if it is unknown where it belongs"""
        client = row.get("client") or ""
        if not client.startswith("client/"):
            return client, None
        groups = groups_of[client]
        return (None, min(groups)) if len(groups) == 1 else (None, None)

    def reader(row: Row) -> tuple[str | None, str | None]:
        """The same while its group has members."""
        client, group = reader_of(row)
        return (client, group) if client is not None or group in living else (None, None)

    markers, aborted = set(), set()
    for row in rows:
        if row["event"] == "transaction_marker_written":
            markers.add((row["topic"], row["partition"], row["offset"]))
        elif row["event"] == "aborted_batch_found":
            for offset in range(row["base_offset"], row["last_offset"] + 1):
                aborted.add((row["topic"], row["partition"], offset))
    read_aborted = {
        (row["topic"], row["partition"], *reader_of(row))
        for row in rows
        if row["event"] == "record_read" and (row["topic"], row["partition"], row["offset"]) in aborted
    }

    def behind(key: tuple[Any, ...], offset: int) -> int:
        left_out = markers if key in read_aborted else markers | aborted
        while (*key[:2], offset) in left_out:
            offset += 1
        return offset

    position: dict[tuple[Any, ...], int] = {}
    since: dict[tuple[Any, ...], int] = {}
    mark: dict[Place, int] = {}
    found: Found = set()

    def ended(key: tuple[Any, ...], now_us: int, recovered: bool) -> None:
        from_us = since.pop(key, now_us)
        if now_us - from_us >= HALF_A_SECOND_US:
            found.add((*key, from_us, now_us, recovered))

    own = {(row["topic"], row["partition"], row["client"]) for row in rows if row["event"] == "position_reset"}

    def gone(keys: list[tuple[Any, ...]], now_us: int) -> None:
        for key in keys:
            ended(key, now_us, False)
            del position[key]

    for row in rows:
        event = row["event"]
        key = (row.get("topic"), row.get("partition"), *reader(row))
        if event in ("record_read", "position_reset") and (key[:3] in own or key[3] is not None):
            ended(key, row["at_us"], event == "record_read")
            position[key] = behind(key, row["offset"] + (event == "record_read"))
        elif event == "node_stopped":
            gone([one for one in position if one[2] == row["node"]], row["at_us"])
        elif event == "group_assigned":
            living.add(row["group"])
        elif event == "group_removed" or (event == "group_rebalanced" and not row["members"]):
            living.discard(row["group"])
            gone([one for one in position if one[3] == row["group"]], row["at_us"])
        elif event in ("leadership_began", "high_watermark_advanced"):
            mark[row["topic"], row["partition"]] = row["high_watermark"]
        for one, offset in position.items():
            if one not in since and mark.get((one[0], one[1]), -1) > offset:
                since[one] = row["at_us"]
    for key in list(since):
        ended(key, rows[-1]["at_us"], False)
    return found
