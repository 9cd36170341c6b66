"""The batches of a round, as columns: produced, replicated, read, and found in the logs at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scenarios.observe.trace_writer import arrow_schema
from tests.bench.model.columns import Columns, EventColumns, Ints, filled, lists, picked
from tests.bench.model.rounds import (
    ACKED_BY_ALL_US,
    ACKED_BY_LEADER_US,
    APPENDED_US,
    BATCH_BYTES,
    BROKERS,
    CONFIRMED_US,
    FETCHED_US,
    GIVEN_UP_AFTER_US,
    LEARNED_US,
    PARTITIONS,
    READ_US,
    RECORDS_PER_BATCH,
    REPLICATED_US,
    STORED_TICKS,
    TICK_US,
    TICKS,
    TOPIC,
    acks_of,
    begin_us,
    kill_us,
    leader_of,
    linger_us,
)


class Batches:
    """The batches of some ticks of a round, one per tick and partition: flat arrays, tick by tick."""

    def __init__(self, number: int, ticks: Ints) -> None:
        self.tick = np.repeat(ticks, PARTITIONS)
        self.partition = np.tile(np.arange(PARTITIONS), len(ticks))
        self.number = number
        self.base_offset = (number * STORED_TICKS + self.tick) * RECORDS_PER_BATCH
        # The second copy is of the same records as the first.
        self.first_record = (number * (TICKS - 1) + np.maximum(self.tick - 1, 0)) * RECORDS_PER_BATCH
        self.sent_us = begin_us(number) + self.tick * TICK_US
        self.put_us = self.sent_us + linger_us(self.tick)

    def where(self, chosen: Any) -> Batches:
        """Only those."""
        found = object.__new__(Batches)
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
        return picked([f"p{partition}" for partition in range(PARTITIONS)], self.partition)

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

    def record_kind(self, event: str, at_us: Ints, columns: Columns) -> EventColumns:
        """One event per record; `columns` are per batch."""
        place = np.tile(np.arange(RECORDS_PER_BATCH), len(self.tick))
        spread: Columns = {name: _repeated(values) for name, values in columns.items()}
        partition = self.per_record(self.partition)
        spread |= {"record": self.names(), "topic": TOPIC, "partition": partition}
        if columns.get("offset") is not None:
            spread["offset"] = spread["offset"] + place
        return EventColumns(event, self.per_record(at_us), filled(event, spread))


def _record_names(producer: Ints, number: Ints) -> pa.Array:
    """`p3-r120`, as a run with several producers names them."""
    prefix = picked([f"p{partition}-r" for partition in range(PARTITIONS)], producer)
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(number), pa.string()), "")


def _repeated(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return np.repeat(values, RECORDS_PER_BATCH)
    if isinstance(values, pa.Array):
        return values.take(pa.array(np.repeat(np.arange(len(values)), RECORDS_PER_BATCH)))
    return values


def _kind(event: str, batches: Batches, at_us: Ints, **columns: Any) -> EventColumns:
    return EventColumns(event, at_us, filled(event, {**batches.of_partition, **columns}))


def batches_of(number: int) -> list[EventColumns]:
    """All events of the batches of a round, without its turning points."""
    every = Batches(number, np.arange(TICKS))
    replicated = every.where(every.tick < STORED_TICKS)
    return [*_producing(number, every), *_replicating(number, every, replicated), *_reading(number, replicated)]


def _producing(number: int, every: Batches) -> Iterator[EventColumns]:
    leader = BROKERS[leader_of(number)]

    def acks(batches: Batches) -> Ints:
        return acks_of(batches.partition)

    new = every.where(every.tick != 1)
    yield new.record_kind("record_sent", new.sent_us, {"client": new.client, "acks": acks(new)})
    records = lists(
        every.names(), np.full(len(every.tick), RECORDS_PER_BATCH), arrow_schema("produce").field("records").type
    )
    sent = {"client": every.client, "peer": leader, "crc": every.crc, "acks": acks(every), "records": records}
    sent |= {"attempt": np.where(every.tick == 1, 2, 1), "producer_id": -1, "base_sequence": -1}
    yield _kind("batch_sent", every, every.put_us, **sent)
    refused = every.where(every.tick == 0)
    lengths = np.full(PARTITIONS, RECORDS_PER_BATCH)
    yield _kind(
        "batch_refused", refused, refused.sent_us + TICK_US - 1, client=refused.client, peer=leader, crc=refused.crc,
        records=lists(refused.names(), lengths, records.type), attempt=1, error="NETWORK_EXCEPTION", will_retry=True,
        reason="the connection broke before the answer came",
    )  # fmt: skip
    answered = every.where((every.tick > 0) & ((every.tick < STORED_TICKS) | (acks(every) == 1)))
    after_us = np.where(acks(answered) == 1, ACKED_BY_LEADER_US, ACKED_BY_ALL_US)
    at_us = answered.put_us + after_us
    waited_us = at_us - answered.sent_us + np.where(answered.tick == 1, TICK_US, 0)
    told = {"client": answered.client, "peer": leader, "offset": answered.base_offset, "acks": acks(answered)}
    yield answered.record_kind("record_acked", at_us, {**told, "latency_us": waited_us})
    given_up = every.where((every.tick >= STORED_TICKS) & (acks(every) == -1))
    at_us = np.full(len(given_up.tick), kill_us(number) + GIVEN_UP_AFTER_US)
    failed = {"client": given_up.client, "acks": -1, "error": "REQUEST_TIMED_OUT", "definite": False}
    failed |= {"latency_us": at_us - given_up.sent_us, "reason": "no answer came in time"}
    yield given_up.record_kind("record_failed", at_us, failed)


def _replicating(number: int, every: Batches, replicated: Batches) -> Iterator[EventColumns]:
    leader = BROKERS[leader_of(number)]
    followers = [broker for broker in BROKERS if broker != leader]

    def appended(batches: Batches, node: str, role: str, after_us: int) -> EventColumns:
        return _kind(
            "batch_appended", batches, batches.put_us + after_us, node=node, role=role, leader_epoch=number,
            base_offset=batches.base_offset, last_offset=batches.end_offset - 1, log_end_offset=batches.end_offset,
            size_bytes=BATCH_BYTES, crc=batches.crc, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        )  # fmt: skip

    def fetched(follower: str, offset: Ints, after_us: int) -> EventColumns:
        return _kind(
            "follower_fetched", replicated, replicated.put_us + after_us, node=leader, peer=follower,
            leader_epoch=number, fetch_offset=offset, log_end_offset=replicated.end_offset,
            high_watermark=replicated.base_offset, in_isr=True,
        )  # fmt: skip

    def moved(event: str, node: str, role: str, after_us: int, reason: str) -> EventColumns:
        return _kind(
            event, replicated, replicated.put_us + after_us, node=node, role=role, leader_epoch=number,
            high_watermark=replicated.end_offset, previous_high_watermark=replicated.base_offset,
            log_end_offset=replicated.end_offset, reason=reason,
        )  # fmt: skip

    yield appended(every, leader, "leader", APPENDED_US)
    for follower in followers:
        yield fetched(follower, replicated.base_offset, FETCHED_US)
        yield _kind(
            "records_sent", replicated, replicated.put_us + FETCHED_US, node=leader, peer=follower,
            fetch_offset=replicated.base_offset, size_bytes=BATCH_BYTES,
        )  # fmt: skip
        yield appended(replicated, follower, "follower", REPLICATED_US)
        yield fetched(follower, replicated.end_offset, CONFIRMED_US)
    yield moved("high_watermark_advanced", leader, "leader", CONFIRMED_US, "every member of the ISR has it")
    for follower in followers:
        yield moved("high_watermark_learned", follower, "follower", LEARNED_US, f"told by {leader}")


def _reading(number: int, replicated: Batches) -> Iterator[EventColumns]:
    read = {"client": "c1r", "peer": BROKERS[leader_of(number)], "offset": replicated.base_offset}
    yield replicated.record_kind("record_read", replicated.put_us + READ_US, {**read, "leader_epoch": number})


def found_records(number: int, end_us: int) -> EventColumns:
    """The records of a round that remain in the log of every replica."""
    stored = Batches(number, np.arange(STORED_TICKS))
    records = lists(
        stored.names(), np.full(len(stored.tick), RECORDS_PER_BATCH), arrow_schema("final_log").field("records").type
    )
    columns = {"offset": stored.base_offset, "leader_epoch": number, "crc": stored.crc, "records": records}
    entries = _kind("log_entries_found", stored, np.full(len(stored.tick), end_us), **columns)
    rows, copies = len(entries), len(BROKERS)
    everywhere: Columns = {}
    for name, values in entries.columns.items():
        if isinstance(values, np.ndarray):
            everywhere[name] = np.tile(values, copies)
        elif isinstance(values, pa.Array):
            everywhere[name] = pa.concat_arrays([values] * copies)
        else:
            everywhere[name] = values
    everywhere["node"] = picked(BROKERS, np.repeat(np.arange(copies), rows))
    return EventColumns("log_entries_found", np.full(rows * copies, end_us), everywhere)


def found_replicas(rounds: int, end_us: int) -> EventColumns:
    copies = len(BROKERS)
    node = np.repeat(np.arange(copies), PARTITIONS)
    end = rounds * STORED_TICKS * RECORDS_PER_BATCH
    columns = {
        "node": picked(BROKERS, node), "topic": TOPIC, "partition": np.tile(np.arange(PARTITIONS), copies),
        "log_start_offset": 0, "log_end_offset": end, "high_watermark": end,
        "is_leader": pa.array(node == leader_of(rounds)), "in_isr": True, "running": True, "leader_epoch": rounds,
    }  # fmt: skip
    return EventColumns("replica_found", np.full(len(node), end_us), filled("replica_found", columns))
