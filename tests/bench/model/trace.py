"""Traces of any length from a simple model whose outcome is known by arithmetic. The report is measured on them.

Three brokers, one topic, one producer per partition (half of them acks=1, half acks=all), one consumer. The run is a
row of equal rounds. In each, one broker leads everything: a first batch whose ack is lost and which is sent again
without idempotence (so it is stored twice), NORMAL_TICKS batches that all replicas take, HELD_TICKS batches that only
the leader has because its fetch responses are held. It is then killed, fenced 9 s later, the next broker leads, the old
one comes back, cuts its log and joins the ISR. So every round loses the held records that were acked by the leader
alone, and leaves those that asked for acks=all unanswered.

The events, their columns and files are those of a real run; columns are computed with numpy, one round at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from replica.trace import events as trace
from replica.trace.events import CLASS_OF_EVENT, TraceEvent, TraceRow
from scenarios.observe.trace_writer import TraceWriter
from tests.bench.model.batches import batches_of, found_records, found_replicas
from tests.bench.model.columns import EventColumns, Parts
from tests.bench.model.rounds import (
    ACKED_BY_ALL_US,
    ACKED_BY_LEADER_US,
    APPENDED_US,
    BROKERS,
    FENCED_AFTER_US,
    FIRST_ROUND_US,
    HELD_TICKS,
    JOINED_AFTER_US,
    NORMAL_TICKS,
    PARTITIONS,
    RECORDS_PER_BATCH,
    ROUND_US,
    STORED_TICKS,
    TICK_US,
    TICKS,
    linger_us,
)
from tests.bench.model.turning_points import beginning, ending, turning_points


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFigures:
    """The results that a report on the trace must have. Times in virtual microseconds; values per partition by default.

    acked, lost, missing, duplicated: records by acks (1, -1)
    ack_latency: by acks, (median, 99th percentile, largest)
    """

    events: int
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
    def of_about(cls, events: int) -> ModelTrace:
        """As many whole rounds as come closest to so many events, one at least."""
        return cls(max(1, round(events / events_per_round())))

    def truth(self) -> ExpectedFigures:
        """By arithmetic from the constants of the rounds, without reading the trace."""
        of_one_acks = self.rounds * (PARTITIONS // 2) * RECORDS_PER_BATCH
        sent, held = of_one_acks * (1 + NORMAL_TICKS + HELD_TICKS), of_one_acks * HELD_TICKS
        first_held_us = STORED_TICKS * TICK_US + int(linger_us(np.array([STORED_TICKS]))[0]) + APPENDED_US
        return ExpectedFigures(
            events=self.rounds * events_per_round() + _events_around_the_rounds(),
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
            largest_lag_us=TICKS * TICK_US - first_held_us,
            ack_latency={acks: _latency(acks, self.rounds) for acks in (1, -1)},
            final_high_watermark=self.rounds * STORED_TICKS * RECORDS_PER_BATCH,
        )

    def write(self, trace_dir: Path, progress: Callable[[float], None] = lambda share: None) -> None:
        """Write all tables of the trace, in parts of ROWS_PER_PART rows or a few more. raises: OSError"""
        # Rare events go the way of every run; the other tables' parts follow the empty ones it leaves.
        with TraceWriter(trace_dir) as control:
            self._next_seq = 0
            parts = {table: Parts(trace_dir / table, table) for table in trace.TABLES if table != "control"}
            self._place(beginning(), [], control, parts)
            for number in range(self.rounds):
                self._place(turning_points(number), batches_of(number), control, parts)
                progress(0.75 * (number + 1) / self.rounds)
            end_us = FIRST_ROUND_US + self.rounds * ROUND_US
            for number in range(self.rounds):
                self._place([], [found_records(number, end_us)], control, parts)
                progress(0.75 + 0.25 * (number + 1) / self.rounds)
            self._place([], [found_replicas(self.rounds, end_us)], control, parts)
            self._place(ending(end_us), [], control, parts)
        for table in parts.values():
            table.close()

    def _place(
        self,
        rare: Sequence[tuple[int, TraceEvent]],
        kinds: Sequence[EventColumns],
        control: TraceWriter,
        parts: dict[str, Parts],
    ) -> None:
        """Number events in the order of their times, and of the list within an instant; hand them to their tables."""
        times = [np.array([at_us for at_us, _ in rare], dtype=np.int64), *(kind.at_us for kind in kinds)]
        order = np.argsort(np.concatenate(times), kind="stable")
        seqs = np.empty(len(order), dtype=np.int64)
        seqs[order] = np.arange(self._next_seq, self._next_seq + len(order))
        self._next_seq += len(order)
        for (at_us, event), seq in sorted(zip(rare, seqs[: len(rare)].tolist(), strict=True), key=lambda one: one[1]):
            control(TraceRow(seq, at_us, _causes(seq), event))
        begin = len(rare)
        rows: dict[str, list[pa.Table]] = {}
        for kind in kinds:
            seq, begin = seqs[begin : begin + len(kind.at_us)], begin + len(kind.at_us)
            table = CLASS_OF_EVENT[kind.event].TABLE
            rows.setdefault(table, []).append(kind.as_table(seq, parts[table].schema))
        for table, found in rows.items():
            parts[table].append(pa.concat_tables(found).sort_by("seq"))


def events_per_round() -> int:
    """Those that its records are found by in the final logs included."""
    return len(turning_points(0)) + sum(len(kind.at_us) for kind in [*batches_of(0), found_records(0, 0)])


def _events_around_the_rounds() -> int:
    return len(beginning()) + len(ending(0)) + PARTITIONS * len(BROKERS)


def _causes(seq: int) -> tuple[int, ...]:
    return (seq - 1,) if seq else ()


def _latency(acks: int, rounds: int) -> tuple[int, int, int]:
    """Median, 99th percentile (nearest rank) and largest; every round has the same latencies."""
    after_us = ACKED_BY_LEADER_US if acks == 1 else ACKED_BY_ALL_US
    ticks = np.arange(1, TICKS if acks == 1 else STORED_TICKS)
    waited_us = np.sort(linger_us(ticks) + after_us + np.where(ticks == 1, TICK_US, 0))
    copies = rounds * (PARTITIONS // 2) * RECORDS_PER_BATCH

    def at(percent: int) -> int:
        rank = -(-len(waited_us) * copies * percent // 100)
        return int(waited_us[(rank - 1) // copies])

    return at(50), at(99), int(waited_us[-1])
