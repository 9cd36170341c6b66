"""Traces of any length from a simple model whose outcome is known by arithmetic: what the report is measured on.

Three brokers, one topic, one producer per partition (half of them acks=1, half acks=all), one consumer. The run is a
row of equal rounds. In each, one broker leads everything: a first batch whose ack is lost and which is sent again
without idempotence (so it is stored twice), NORMAL_TICKS batches that all replicas take, HELD_TICKS batches that only
the leader has because its fetch responses are held. It is then killed, fenced 9 s later, the next broker leads, the old
one comes back, cuts its log and joins the ISR. So every round loses the held records that were acked by the leader
alone, and leaves those that asked for acks=all unanswered.

The facts, their columns and files are those of a real run; columns are computed with numpy, one round at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replica import trace
from replica.trace import CLASS_OF_EVENT, TraceEvent, TraceRow
from scenarios.trace_writer import ROWS_PER_PART, TraceWriter, arrow_schema

BROKERS = ("b1", "b2", "b3")
TOPIC = "t"
PARTITIONS = 12
RECORDS_PER_BATCH = 4
NORMAL_TICKS = 200
HELD_TICKS = 2
BATCH_BYTES = 500
MIN_ISR = 2

TICK_US = 10_000
FIRST_ROUND_US = 1_000_000
FENCED_AFTER_US = 9_000_000
GIVEN_UP_AFTER_US = 8_000_000
RESTARTED_AFTER_US = 12_000_000
JOINED_AFTER_US = RESTARTED_AFTER_US + 30_000
NEXT_ROUND_AFTER_US = 13_000_000

_STORED_TICKS = 2 + NORMAL_TICKS
"""The unanswered batch, its second copy, and the normal ones."""
_TICKS = _STORED_TICKS + HELD_TICKS
_ROUND_US = _TICKS * TICK_US + NEXT_ROUND_AFTER_US
_LINGER_STEPS_US = 1_000

# When a batch meets what, after its linger: microseconds since its records were sent. All of it fits into a tick.
_APPENDED_US, _ACKED_BY_LEADER_US, _FETCHED_US, _REPLICATED_US, _CONFIRMED_US = 1_000, 1_500, 1_600, 2_200, 3_000
_ACKED_BY_ALL_US, _READ_US, _LEARNED_US = 3_500, 3_600, 4_000

Ints = np.ndarray[Any, np.dtype[np.int64]]
Columns = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a report on the trace must find. Times in virtual microseconds, per partition where not said otherwise.

    acked, lost, missing, duplicated: records by acks (1, -1)
    ack_latency: by acks, (median, 99th percentile, largest)
    """

    facts: int
    sent: dict[int, int]
    acked: dict[int, int]
    lost: dict[int, int]
    missing: dict[int, int]
    duplicated: dict[int, int]
    elections: int
    isr_changes: int
    offline_us: int
    under_replicated_us: int
    under_min_isr_us: int
    elect_us: int
    write_stalls: int
    largest_lag_records: int
    largest_lag_us: int
    ack_latency: dict[int, tuple[int, int, int]]
    final_high_watermark: int


class ModelTrace:
    """A trace of `rounds` rounds, and what is true of it."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    @classmethod
    def of_about(cls, facts: int) -> ModelTrace:
        """As many whole rounds as come closest to so many facts, one at least."""
        return cls(max(1, round(facts / facts_per_round())))

    def truth(self) -> Truth:
        """By arithmetic from the constants above; nothing of the trace is read."""
        of_one_acks = self.rounds * (PARTITIONS // 2) * RECORDS_PER_BATCH
        sent, held = of_one_acks * (1 + NORMAL_TICKS + HELD_TICKS), of_one_acks * HELD_TICKS
        first_held_us = _STORED_TICKS * TICK_US + int(_linger_us(np.array([_STORED_TICKS]))[0]) + _APPENDED_US
        return Truth(
            facts=self.rounds * facts_per_round() + _facts_around_the_rounds(),
            sent={1: sent, -1: sent},
            acked={1: sent, -1: sent - held},
            lost={1: held, -1: 0},
            missing={1: 0, -1: held},
            duplicated={1: of_one_acks, -1: of_one_acks},
            elections=self.rounds * PARTITIONS,
            isr_changes=2 * self.rounds * PARTITIONS,
            offline_us=self.rounds * FENCED_AFTER_US,
            under_replicated_us=self.rounds * (JOINED_AFTER_US - FENCED_AFTER_US),
            under_min_isr_us=0,
            elect_us=FENCED_AFTER_US,
            write_stalls=self.rounds * PARTITIONS // 2,
            largest_lag_records=HELD_TICKS * RECORDS_PER_BATCH,
            largest_lag_us=_TICKS * TICK_US - first_held_us,
            ack_latency={acks: _latency(acks, self.rounds) for acks in (1, -1)},
            final_high_watermark=self.rounds * _STORED_TICKS * RECORDS_PER_BATCH,
        )

    def write(self, trace_dir: Path, progress: Callable[[float], None] = lambda share: None) -> None:
        """Write all tables of the trace, in parts of ROWS_PER_PART rows or a few more. raises: OSError"""
        # Rare facts go the way of every run; the other tables' parts follow the empty ones it leaves.
        with TraceWriter(trace_dir) as control:
            self._next_seq = 0
            parts = {table: _Parts(trace_dir / table, table) for table in trace.TABLES if table != "control"}
            self._place(_beginning(), [], control, parts)
            for number in range(self.rounds):
                self._place(_turning_points(number), _batches(number), control, parts)
                progress(0.75 * (number + 1) / self.rounds)
            end_us = FIRST_ROUND_US + self.rounds * _ROUND_US
            for number in range(self.rounds):
                self._place([], [_found_records(number, end_us)], control, parts)
                progress(0.75 + 0.25 * (number + 1) / self.rounds)
            self._place([], [_found_replicas(self.rounds, end_us)], control, parts)
            self._place(_end(end_us), [], control, parts)
        for table in parts.values():
            table.close()

    def _place(
        self,
        rare: Sequence[tuple[int, TraceEvent]],
        kinds: Sequence[_Kind],
        control: TraceWriter,
        parts: dict[str, _Parts],
    ) -> None:
        """Number facts in the order of their times, and of the list within an instant; hand them to their tables."""
        times = [np.array([at_us for at_us, _ in rare], dtype=np.int64), *(kind.at_us for kind in kinds)]
        order = np.argsort(np.concatenate(times), kind="stable")
        seqs = np.empty(len(order), dtype=np.int64)
        seqs[order] = np.arange(self._next_seq, self._next_seq + len(order))
        self._next_seq += len(order)
        for (at_us, event), seq in sorted(zip(rare, seqs[: len(rare)].tolist(), strict=True), key=lambda fact: fact[1]):
            control(TraceRow(seq, at_us, _causes(seq), event))
        begin = len(rare)
        rows: dict[str, list[pa.Table]] = {}
        for kind in kinds:
            seq, begin = seqs[begin : begin + len(kind.at_us)], begin + len(kind.at_us)
            table = CLASS_OF_EVENT[kind.event].TABLE
            rows.setdefault(table, []).append(kind.as_table(seq, parts[table].schema))
        for table, found in rows.items():
            parts[table].append(pa.concat_tables(found).sort_by("seq"))


def facts_per_round() -> int:
    """Those that its records are found by in the final logs included."""
    return len(_turning_points(0)) + sum(len(kind.at_us) for kind in [*_batches(0), _found_records(0, 0)])


def _facts_around_the_rounds() -> int:
    return len(_beginning()) + len(_end(0)) + PARTITIONS * len(BROKERS)


def _causes(seq: int) -> tuple[int, ...]:
    return (seq - 1,) if seq else ()


# ------------------------------------------------------------------------------------------------------------- columns


class _Kind:
    """Facts of one kind: their times, and their columns as numpy integers or Arrow arrays of the same length."""

    def __init__(self, event: str, at_us: Ints, columns: Columns) -> None:
        self.event = event
        self.at_us = np.ascontiguousarray(at_us, dtype=np.int64)
        self.columns = columns

    def as_table(self, seq: Ints, schema: pa.Schema) -> pa.Table:
        rows = len(seq)
        causes = _lists(pa.array(np.maximum(seq - 1, 0)), np.ones(rows, dtype=np.int64), schema.field("causes").type)
        given = {"seq": seq, "at_us": self.at_us, "event": _constant(self.event, rows), "causes": causes}
        given |= self.columns
        columns = [_array(given[field.name], rows, field) for field in schema]
        return pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))

    def __len__(self) -> int:
        return len(self.at_us)


def _array(values: Any, rows: int, field: pa.Field) -> pa.Array:
    if values is None:
        return pa.nulls(rows, field.type)
    if isinstance(values, str | bool | int):
        return _constant(values, rows)
    return pa.array(values) if isinstance(values, np.ndarray) else values


def _constant(value: str | bool | int, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), rows)


def _lists(items: pa.Array, lengths: Ints, kind: pa.DataType) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.Array.from_buffers(kind, len(lengths), [None, pa.py_buffer(ends)], children=[items])


def _chosen(names: Sequence[str], places: Ints) -> pa.Array:
    return pa.array(list(names)).take(pa.array(places))


def _record_names(producer: Ints, number: Ints) -> pa.Array:
    """`p3-r120`, as a run with several producers names them."""
    prefix = _chosen([f"p{partition}-r" for partition in range(PARTITIONS)], producer)
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(number), pa.string()), "")


class _Parts:
    """The parts of one table. The first one, empty, is already there."""

    def __init__(self, folder: Path, table: str) -> None:
        self.schema = arrow_schema(table)
        self._folder = folder
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._written = 1

    def append(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._rows += rows.num_rows
        if self._rows >= ROWS_PER_PART:
            self.close()

    def close(self) -> None:
        """Write what waits."""
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            part = self._folder / f"part-{self._written:05d}.parquet"
            pq.write_table(pa.table(rows.columns, schema=self.schema), part, compression="zstd")
            self._waiting, self._rows, self._written = [], 0, self._written + 1


# ------------------------------------------------------------------------------------------------- what happens a round


def _leader(number: int) -> int:
    return number % len(BROKERS)


def _acks(partition: Ints) -> Ints:
    return np.where(partition % 2 == 0, 1, -1)


def _linger_us(tick: Ints) -> Ints:
    """Spread over 0 to 999 us, the same in every round: ack latencies get a distribution that is known."""
    return tick * 7_919 % _LINGER_STEPS_US


def _begin_us(number: int) -> int:
    return FIRST_ROUND_US + number * _ROUND_US


def _killed_us(number: int) -> int:
    return _begin_us(number) + _TICKS * TICK_US


class _Batches:
    """The batches of some ticks of a round, one per tick and partition: flat arrays, tick by tick."""

    def __init__(self, number: int, ticks: Ints) -> None:
        self.tick = np.repeat(ticks, PARTITIONS)
        self.partition = np.tile(np.arange(PARTITIONS), len(ticks))
        self.number = number
        self.base_offset = (number * _STORED_TICKS + self.tick) * RECORDS_PER_BATCH
        # The second copy is of the same records as the first.
        self.first_record = (number * (_TICKS - 1) + np.maximum(self.tick - 1, 0)) * RECORDS_PER_BATCH
        self.sent_us = _begin_us(number) + self.tick * TICK_US
        self.put_us = self.sent_us + _linger_us(self.tick)

    def where(self, chosen: Any) -> _Batches:
        """Only those."""
        found = object.__new__(_Batches)
        found.number = self.number
        for name in ("tick", "partition", "base_offset", "first_record", "sent_us", "put_us"):
            setattr(found, name, getattr(self, name)[chosen])
        return found

    @property
    def crc(self) -> Ints:
        """One for each batch and partition: an odd factor maps 32 bits onto themselves."""
        batch = self.first_record // RECORDS_PER_BATCH * PARTITIONS + self.partition
        return batch * 2_654_435_761 % (1 << 32)

    @property
    def client(self) -> pa.Array:
        return _chosen([f"p{partition}" for partition in range(PARTITIONS)], self.partition)

    @property
    def of_partition(self) -> Columns:
        return {"topic": TOPIC, "partition": self.partition}

    @property
    def end_offset(self) -> Ints:
        return self.base_offset + RECORDS_PER_BATCH

    def names(self) -> pa.Array:
        """All their records, batch by batch."""
        place = np.tile(np.arange(RECORDS_PER_BATCH), len(self.tick))
        repeated = np.repeat(self.first_record, RECORDS_PER_BATCH) + place
        return _record_names(np.repeat(self.partition, RECORDS_PER_BATCH), repeated)

    def per_record(self, values: Ints) -> Ints:
        return np.repeat(values, RECORDS_PER_BATCH)

    def record_kind(self, event: str, at_us: Ints, columns: Columns) -> _Kind:
        """One fact per record; `columns` are per batch."""
        place = np.tile(np.arange(RECORDS_PER_BATCH), len(self.tick))
        spread: Columns = {name: _repeated(values) for name, values in columns.items()}
        partition = self.per_record(self.partition)
        spread |= {"record": self.names(), "topic": TOPIC, "partition": partition}
        if columns.get("offset") is not None:
            spread["offset"] = spread["offset"] + place
        return _Kind(event, self.per_record(at_us), _filled(event, spread))


def _repeated(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return np.repeat(values, RECORDS_PER_BATCH)
    if isinstance(values, pa.Array):
        return values.take(pa.array(np.repeat(np.arange(len(values)), RECORDS_PER_BATCH)))
    return values


def _filled(event: str, columns: Columns) -> Columns:
    """With null for the columns that only other facts of the table have."""
    table = trace.columns_of_table(CLASS_OF_EVENT[event].TABLE)
    return {column.name: columns.get(column.name) for column in table[len(trace.COMMON_COLUMNS) :]}


def _kind(event: str, batches: _Batches, at_us: Ints, **columns: Any) -> _Kind:
    return _Kind(event, at_us, _filled(event, {**batches.of_partition, **columns}))


def _batches(number: int) -> list[_Kind]:
    """Everything that befalls the batches of a round, but for its turning points."""
    every = _Batches(number, np.arange(_TICKS))
    replicated = every.where(every.tick < _STORED_TICKS)
    return [*_producing(number, every), *_replicating(number, every, replicated), *_reading(number, replicated)]


def _producing(number: int, every: _Batches) -> Iterator[_Kind]:
    leader = BROKERS[_leader(number)]

    def acks(batches: _Batches) -> Ints:
        return _acks(batches.partition)

    new = every.where(every.tick != 1)
    yield new.record_kind("record_sent", new.sent_us, {"client": new.client, "acks": acks(new)})
    records = _lists(
        every.names(), np.full(len(every.tick), RECORDS_PER_BATCH), arrow_schema("produce").field("records").type
    )
    sent = {"client": every.client, "peer": leader, "crc": every.crc, "acks": acks(every), "records": records}
    sent |= {"attempt": np.where(every.tick == 1, 2, 1), "producer_id": -1, "base_sequence": -1}
    yield _kind("batch_sent", every, every.put_us, **sent)
    refused = every.where(every.tick == 0)
    lengths = np.full(PARTITIONS, RECORDS_PER_BATCH)
    yield _kind(
        "batch_refused", refused, refused.sent_us + TICK_US - 1, client=refused.client, peer=leader, crc=refused.crc,
        records=_lists(refused.names(), lengths, records.type), attempt=1, error="NETWORK_EXCEPTION", will_retry=True,
        reason="the connection broke before the answer came",
    )  # fmt: skip
    answered = every.where((every.tick > 0) & ((every.tick < _STORED_TICKS) | (acks(every) == 1)))
    after_us = np.where(acks(answered) == 1, _ACKED_BY_LEADER_US, _ACKED_BY_ALL_US)
    at_us = answered.put_us + after_us
    waited_us = at_us - answered.sent_us + np.where(answered.tick == 1, TICK_US, 0)
    told = {"client": answered.client, "peer": leader, "offset": answered.base_offset, "acks": acks(answered)}
    yield answered.record_kind("record_acked", at_us, {**told, "latency_us": waited_us})
    given_up = every.where((every.tick >= _STORED_TICKS) & (acks(every) == -1))
    at_us = np.full(len(given_up.tick), _killed_us(number) + GIVEN_UP_AFTER_US)
    failed = {"client": given_up.client, "acks": -1, "error": "REQUEST_TIMED_OUT", "definite": False}
    failed |= {"latency_us": at_us - given_up.sent_us, "reason": "no answer came in time"}
    yield given_up.record_kind("record_failed", at_us, failed)


def _replicating(number: int, every: _Batches, replicated: _Batches) -> Iterator[_Kind]:
    leader = BROKERS[_leader(number)]
    followers = [broker for broker in BROKERS if broker != leader]

    def appended(batches: _Batches, node: str, role: str, after_us: int) -> _Kind:
        return _kind(
            "batch_appended", batches, batches.put_us + after_us, node=node, role=role, leader_epoch=number,
            base_offset=batches.base_offset, last_offset=batches.end_offset - 1, log_end_offset=batches.end_offset,
            size_bytes=BATCH_BYTES, crc=batches.crc, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        )  # fmt: skip

    def fetched(follower: str, offset: Ints, after_us: int) -> _Kind:
        return _kind(
            "follower_fetched", replicated, replicated.put_us + after_us, node=leader, peer=follower,
            leader_epoch=number, fetch_offset=offset, log_end_offset=replicated.end_offset,
            high_watermark=replicated.base_offset, in_isr=True,
        )  # fmt: skip

    def moved(event: str, node: str, role: str, after_us: int, reason: str) -> _Kind:
        return _kind(
            event, replicated, replicated.put_us + after_us, node=node, role=role, leader_epoch=number,
            high_watermark=replicated.end_offset, previous_high_watermark=replicated.base_offset,
            log_end_offset=replicated.end_offset, reason=reason,
        )  # fmt: skip

    yield appended(every, leader, "leader", _APPENDED_US)
    for follower in followers:
        yield fetched(follower, replicated.base_offset, _FETCHED_US)
        yield _kind(
            "records_sent", replicated, replicated.put_us + _FETCHED_US, node=leader, peer=follower,
            fetch_offset=replicated.base_offset, size_bytes=BATCH_BYTES,
        )  # fmt: skip
        yield appended(replicated, follower, "follower", _REPLICATED_US)
        yield fetched(follower, replicated.end_offset, _CONFIRMED_US)
    yield moved("high_watermark_advanced", leader, "leader", _CONFIRMED_US, "every member of the ISR has it")
    for follower in followers:
        yield moved("high_watermark_learned", follower, "follower", _LEARNED_US, f"told by {leader}")


def _reading(number: int, replicated: _Batches) -> Iterator[_Kind]:
    read = {"client": "c1r", "peer": BROKERS[_leader(number)], "offset": replicated.base_offset}
    yield replicated.record_kind("record_read", replicated.put_us + _READ_US, {**read, "leader_epoch": number})


def _found_records(number: int, end_us: int) -> _Kind:
    """What a round left in the log of every replica."""
    stored = _Batches(number, np.arange(_STORED_TICKS))
    entries = stored.record_kind(
        "log_entry_found", np.full(len(stored.tick), end_us),
        {"offset": stored.base_offset, "leader_epoch": number, "crc": stored.crc},
    )  # fmt: skip
    rows, copies = len(entries), len(BROKERS)
    everywhere: Columns = {}
    for name, values in entries.columns.items():
        if isinstance(values, np.ndarray):
            everywhere[name] = np.tile(values, copies)
        elif isinstance(values, pa.Array):
            everywhere[name] = pa.concat_arrays([values] * copies)
        else:
            everywhere[name] = values
    everywhere["node"] = _chosen(BROKERS, np.repeat(np.arange(copies), rows))
    return _Kind("log_entry_found", np.full(rows * copies, end_us), everywhere)


def _found_replicas(rounds: int, end_us: int) -> _Kind:
    copies = len(BROKERS)
    node = np.repeat(np.arange(copies), PARTITIONS)
    end = rounds * _STORED_TICKS * RECORDS_PER_BATCH
    columns = {
        "node": _chosen(BROKERS, node), "topic": TOPIC, "partition": np.tile(np.arange(PARTITIONS), copies),
        "log_start_offset": 0, "log_end_offset": end, "high_watermark": end,
        "is_leader": pa.array(node == _leader(rounds)), "in_isr": True, "running": True,
    }  # fmt: skip
    return _Kind("replica_found", np.full(len(node), end_us), _filled("replica_found", columns))


def _latency(acks: int, rounds: int) -> tuple[int, int, int]:
    """Median, 99th percentile (between two acks: in proportion) and largest; every round has the same latencies."""
    after_us = _ACKED_BY_LEADER_US if acks == 1 else _ACKED_BY_ALL_US
    ticks = np.arange(1, _TICKS if acks == 1 else _STORED_TICKS)
    waited_us = np.sort(_linger_us(ticks) + after_us + np.where(ticks == 1, TICK_US, 0))
    copies = rounds * (PARTITIONS // 2) * RECORDS_PER_BATCH

    def at(percent: int) -> int:
        place, rest = divmod((len(waited_us) * copies - 1) * percent, 100)
        below, above = waited_us[place // copies], waited_us[(place + (rest > 0)) // copies]
        return round(float(below + (above - below) * rest / 100))

    return at(50), at(99), int(waited_us[-1])


# ----------------------------------------------------------------------------------------------------------- rare facts

Rare = list[tuple[int, TraceEvent]]


def _beginning() -> Rare:
    facts: list[TraceEvent] = [trace.NodeStarted(node="c1", role="controller", reason="c1 starts")]
    facts += [trace.NodeStarted(node=name, role="broker", reason=f"{name} starts") for name in BROKERS]
    title = "A row of failovers that is known by arithmetic"
    facts += [
        trace.RunStarted(scenario="model-failovers", variant=None, seed=1, profile="kafka-3.9", reason=title),
        *(
            trace.NodeStarted(node=f"p{partition}", role="producer", reason=f"p{partition} starts")
            for partition in range(PARTITIONS)
        ),
        trace.NodeStarted(node="c1r", role="consumer", reason="c1r starts"),
    ]
    for partition in range(PARTITIONS):
        facts.append(
            trace.PartitionCreated(
                node="c1", topic=TOPIC, partition=partition, broker=BROKERS[0], replicas=BROKERS, isr=BROKERS,
                leader_epoch=0, partition_epoch=0, min_isr=MIN_ISR, reason="replicas as assigned; b1 leads",
            )
        )  # fmt: skip
    facts += _roles(0, BROKERS, BROKERS, 0)
    return [(0, fact) for fact in facts]


def _roles(number: int, isr: tuple[str, ...], nodes: Sequence[str], partition_epoch: int) -> list[TraceEvent]:
    """What the brokers learn at the begin of a term."""
    leader = BROKERS[_leader(number)]
    end = number * _STORED_TICKS * RECORDS_PER_BATCH
    facts: list[TraceEvent] = []
    for partition in range(PARTITIONS):
        for node in nodes:
            where: dict[str, Any] = {
                "node": node, "topic": TOPIC, "partition": partition, "leader_epoch": number,
                "partition_epoch": partition_epoch, "log_end_offset": end, "high_watermark": end,
            }  # fmt: skip
            if node == leader:
                facts.append(trace.LeadershipBegan(**where, isr=isr, reason=f"{node} leads in epoch {number}"))
            else:
                why = f"{node} follows {leader} in epoch {number}"
                facts.append(trace.FollowingBegan(**where, broker=leader, reason=why))
    return facts


def _turning_points(number: int) -> Rare:
    """The kill that ends a round, the failover, and the way back."""
    old, new = BROKERS[_leader(number)], BROKERS[_leader(number + 1)]
    other = next(broker for broker in BROKERS if broker not in (old, new))
    held_us, killed_us = _begin_us(number) + _STORED_TICKS * TICK_US, _killed_us(number)
    hold, kill = f"freeze-{number}", f"kill-{number}"
    held: dict[str, Any] = {"fault": hold, "verb": "hold", "targets": (old, new, other)}
    facts: Rare = [
        (held_us, trace.FaultBegan(**held, reason=f"Fetch response from {old} is held back")),
        (killed_us, trace.NodeStopped(node=old, how="kill", reason=f"{old} is killed (kill -9)")),
        (killed_us, trace.FaultBegan(fault=kill, verb="kill", targets=(old,), reason=f"{old} is killed")),
        (killed_us, trace.FaultEnded(**held, reason="released")),
    ]
    fenced_us = killed_us + FENCED_AFTER_US
    fenced = f"{old} was fenced: no heartbeat for 9.0 s"
    facts.append((fenced_us, trace.BrokerFenced(node="c1", broker=old, reason=fenced)))
    facts += [(fenced_us, fact) for fact in _elections(number + 1, old, new, other, fenced)]
    facts += [(fenced_us + 1_000, fact) for fact in _roles(number + 1, (new, other), (new, other), 2 * number + 1)]
    facts += _return(number, old, new, other, killed_us + RESTARTED_AFTER_US)
    return facts


def _elections(epoch: int, old: str, new: str, other: str, why: str) -> list[TraceEvent]:
    facts: list[TraceEvent] = []
    before = _isr_before(epoch)
    for partition in range(PARTITIONS):
        where: dict[str, Any] = {
            "node": "c1", "topic": TOPIC, "partition": partition, "leader_epoch": epoch,
            "partition_epoch": 2 * epoch - 1, "isr": (new, other),
        }  # fmt: skip
        first = f"{new} is the first live member of the ISR after {why}"
        facts += [
            trace.LeaderElected(**where, broker=new, previous_leader=old, clean=True, reason=first),
            trace.IsrCommitted(**where, previous_isr=before, reason=f"{old} left the ISR after {why}"),
        ]
    return facts


def _isr_before(epoch: int) -> tuple[str, ...]:
    """As the round before left it: whoever came back stands last."""
    if epoch == 1:
        return BROKERS
    leader = _leader(epoch - 1)
    return BROKERS[leader], BROKERS[(leader + 1) % len(BROKERS)], BROKERS[(leader + 2) % len(BROKERS)]


def _return(number: int, old: str, new: str, other: str, started_us: int) -> Rare:
    kept = (number + 1) * _STORED_TICKS * RECORDS_PER_BATCH
    had = kept + HELD_TICKS * RECORDS_PER_BATCH
    facts: Rare = [(started_us, trace.NodeStarted(node=old, role="broker", reason=f"{old} starts again"))]
    for partition in range(PARTITIONS):
        where: dict[str, Any] = {"topic": TOPIC, "partition": partition}
        term: dict[str, Any] = {**where, "leader_epoch": number + 1}
        isr: dict[str, Any] = {"isr": (new, other, old), "previous_isr": (new, other)}
        came = f"{old} holds the records below {kept}"
        facts += [
            (started_us, trace.LogRecovered(
                node=old, **where, clean=False, log_start_offset=0, log_end_offset=had, high_watermark=kept,
                size_bytes=0, reason=f"{old} comes back without an orderly shutdown")),
            (started_us + 10_000, trace.FollowingBegan(
                node=old, broker=new, **term, partition_epoch=2 * number + 1, log_end_offset=had, high_watermark=kept,
                reason=f"{old} follows {new}")),
            (started_us + 20_000, trace.LogTruncated(
                node=old, **term, log_end_offset=kept, previous_log_end_offset=had, high_watermark=kept,
                previous_high_watermark=kept, reason=f"{old} cuts its log back to {kept}")),
            (started_us + 25_000, trace.IsrProposed(
                node=new, **term, partition_epoch=2 * number + 1, **isr, reason=came)),
            (started_us + JOINED_AFTER_US - RESTARTED_AFTER_US, trace.IsrCommitted(
                node="c1", **term, partition_epoch=2 * number + 2, **isr, reason=f"{old} joined the ISR")),
        ]  # fmt: skip
    return facts


def _end(end_us: int) -> Rare:
    return [(end_us, trace.RunFinished(reason=f"the run ends at {end_us / 1e6:.3f} s"))]
