"""The log against a list of batches: any order of appends, reads, truncations, stops, kills and power losses."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from replica_logs import ORDERS, LogHome, content_of, stamped

from replica.log.batches.records import build_batch
from tests.soak import examples


@dataclass
class Batch:
    base: int
    last: int
    epoch: int
    producer_id: int
    base_sequence: int
    timestamps: list[int]
    content: bytes

    def fits(self, offset: int, upper: int) -> bool:
        """Holds offsets from `offset` on, and none at or above `upper`."""
        return self.last >= offset and self.last < upper


counts = st.integers(1, 4)
value_sizes = st.integers(0, 300)
producer_ids = st.sampled_from([-1, 1, 2])
epoch_steps = st.sampled_from([0, 0, 0, 1, 2])
times = st.lists(st.integers(0, 50), min_size=4, max_size=4)
where = st.integers(0, 1000)


class LogMachine(RuleBasedStateMachine):
    """`self.batches` is what the log must hold; `self.flushed` the offset up to which a power loss leaves it."""

    @initialize(segment_bytes=st.sampled_from([1024, 2000, 1 << 20]), interval=st.sampled_from([0, 150, 4096]))
    def begin(self, segment_bytes, interval):
        self.root = Path(tempfile.mkdtemp())
        self.home = LogHome(self.root, segment_bytes=segment_bytes, index_interval_bytes=interval)
        self.log, _ = self.home.open()
        self.batches: list[Batch] = []
        self.start = self.end = self.flushed = self.checkpoint = 0
        self.epoch = 0

    def teardown(self):
        if hasattr(self, "root"):
            self.log.abandon()
            shutil.rmtree(self.root)

    # ----------------------------------------------------------------------------------------------------- appends

    def make(self, count, size, producer_id, timestamps):
        timestamps = timestamps[:count]
        sequence = -1
        if producer_id >= 0:
            sequence = sum(b.last - b.base + 1 for b in self.batches if b.producer_id == producer_id)
        content = build_batch(
            [(None, b"x" * size)] * count,
            timestamp_ms=timestamps,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
        )
        made = Batch(self.end, self.end + count - 1, self.epoch, producer_id, sequence, timestamps, b"")
        return made, content

    def appended(self, made, info):
        self.batches.append(made)
        self.end = made.last + 1
        if info.roll_reason is not None:
            self.flushed = max(self.flushed, info.first_offset)

    @rule(count=counts, size=value_sizes, producer_id=producer_ids, step=epoch_steps, timestamps=times)
    def append_as_leader(self, count, size, producer_id, step, timestamps):
        assume(61 + count * (size + 20) <= self.home.config.segment_bytes)
        # A producer whose earlier batches went away (truncated, below the log start) is not modelled.
        known = self.log.producers.producers.get(producer_id)
        self.epoch += step
        made, content = self.make(count, size, producer_id, timestamps)
        if known is not None and known.last_sequence + 1 != made.base_sequence:
            return
        info = self.log.append_as_leader(content, self.epoch, 0)
        assert (info.first_offset, info.last_offset, info.duplicate) == (made.base, made.last, False)
        assert info.log_end_offset == made.last + 1
        self.appended(replace(made, content=bytes(content)), info)

    @rule(count=counts, size=value_sizes, step=epoch_steps, tail=st.integers(0, 40), newer=st.booleans())
    def append_as_follower(self, count, size, step, tail, newer):
        self.epoch += step
        made = []
        for i in range(count):
            base = self.end + i
            content = stamped(base, self.epoch, b"y" * size, timestamp_ms=i)
            made.append(Batch(base, base, self.epoch, -1, -1, [i], content))
        data = b"".join(batch.content for batch in made)
        if newer:
            # A batch of a newer epoch slipped in after the leader answered: it and all after it are dropped.
            data += stamped(self.end + count, self.epoch + 1, b"z")
        data += stamped(self.end + count + 1, self.epoch, b"partial tail", b"of 61+ bytes")[:tail]
        info = self.log.append_as_follower(data, 0, self.epoch)
        assert info is not None
        assert [header.base_offset for header in info.batches] == [batch.base for batch in made]
        for batch in made:
            self.appended(batch, info)

    # -------------------------------------------------------------------------------------------- truncate and flush

    @rule(at=where)
    def truncate(self, at):
        kept = [batch for batch in self.batches if batch.base >= self.start]
        boundaries = [batch.base for batch in kept] + [self.end, self.end + 3]
        offset = boundaries[at % len(boundaries)]
        assert self.log.truncate_to(offset) == min(offset, self.end)
        self.batches = [batch for batch in self.batches if batch.last < offset]
        self.end = min(self.end, offset)
        self.flushed = min(self.flushed, self.end)
        self.checkpoint = self.log.recovery_point  # LogManager.truncate_to writes it at once
        assert self.checkpoint <= self.end

    @rule(ahead=st.integers(0, 5))
    def truncate_fully(self, ahead):
        self.start = self.end = self.flushed = self.checkpoint = self.end + ahead
        self.batches = []
        self.log.truncate_fully_and_start_at(self.start)

    @precondition(lambda self: self.end > self.start)
    @rule(at=where)
    def raise_log_start(self, at):
        self.start += at % (self.end - self.start + 1)
        self.log.set_log_start_offset(self.start)
        self.batches = [batch for batch in self.batches if batch.last >= self.start]

    @rule(checkpoint=st.booleans())
    def flush(self, checkpoint):
        self.log.flush()
        assert self.log.recovery_point == self.end
        assert self.home.disk.unflushed_bytes(ORDERS) == 0
        self.flushed = self.end
        if checkpoint:
            self.checkpoint = self.end

    # ----------------------------------------------------------------------------------------------------- restarts

    def reopen(self, clean):
        self.log, recovery = self.home.open(
            clean=clean, recovery_point=self.checkpoint, log_start_offset=self.start, now_us=0
        )
        return recovery

    @rule()
    def stop(self):
        self.log.flush()
        self.log.close()
        self.flushed = self.checkpoint = self.end
        recovery = self.reopen(clean=True)
        assert recovery.segments_scanned == 0
        assert self.log.recovery_point == self.end

    @rule()
    def kill(self):
        """The process dies, the page cache does not."""
        self.log.abandon()
        recovery = self.reopen(clean=False)
        assert recovery.truncated_bytes == 0
        assert recovery.first_bad_offset is None

    @rule()
    def lose_power(self):
        self.log.abandon()
        unflushed = self.home.disk.unflushed_bytes()
        lost = self.home.disk.lose_unflushed()
        assert sum(loss.bytes for loss in lost) == unflushed
        self.lose_from(self.flushed)
        self.reopen_what_is_left()

    @precondition(lambda self: self.batches)
    @rule(size=st.integers(1, 500))
    def tear(self, size):
        """Cut anywhere: the log ends with the last batch that is still whole."""
        self.log.abandon()
        cut = self.home.disk.tear(ORDERS, size).bytes
        whole = sum(len(batch.content) for batch in self.batches)
        position, offset = 0, self.batches[0].base
        for batch in self.batches:
            position += len(batch.content)
            if position > whole - cut:
                break
            offset = batch.last + 1
        self.lose_from(offset)
        self.reopen_what_is_left()
        self.checkpoint = self.log.recovery_point  # LogManager.open writes it when something was cut
        if not self.batches:
            # Which of the empty segments is the first one left decides where an emptied log goes on.
            self.end = self.log.log_end_offset
            self.start = self.log.log_start_offset
            self.flushed = min(self.flushed, self.end)

    def reopen_what_is_left(self):
        """The disk knows beforehand where the recovery will find the end."""
        left = self.home.disk.log_end_offset(ORDERS)
        self.reopen(clean=False)
        assert not self.batches or self.log.log_end_offset == left

    def lose_from(self, offset):
        self.batches = [batch for batch in self.batches if batch.last < offset]
        self.end = min(self.end, offset)
        if self.end < self.start:
            self.batches, self.end = [], self.start  # all that is left lies below the log start
        self.flushed = min(self.flushed, self.end)

    # ------------------------------------------------------------------------------------------------------- reads

    @rule(at=where, above=where, max_bytes=st.integers(0, 3000), min_one=st.booleans())
    def read(self, at, above, max_bytes, min_one):
        offset = self.start + at % (self.end - self.start + 1)
        upper = offset + above % (self.end - offset + 2)
        found = content_of(self.log.read(offset, max_bytes, upper, min_one))
        candidates = [batch for batch in self.batches if batch.fits(offset, upper)] if offset < upper else []
        segment = candidates and self.log.segment_base_of(candidates[0].base)
        contents = [batch.content for batch in candidates if self.log.segment_base_of(batch.base) == segment]
        if contents and len(contents[0]) > max_bytes:
            expected = contents[0] if min_one else b""
        else:
            expected = b"".join(contents)[:max_bytes]
        assert found == expected
        available = sum(len(batch.content) for batch in candidates)
        assert self.log.bytes_available(offset, upper) == available

    @rule(timestamp=st.integers(0, 51))
    def look_up_time(self, timestamp):
        expected = [
            (batch.base + i, at)
            for batch in self.batches
            for i, at in enumerate(batch.timestamps)
            if at >= timestamp and batch.base + i >= self.start
        ]
        assert self.log.offset_for_timestamp(timestamp) == (expected[0] if expected else None)

    # -------------------------------------------------------------------------------------------------- invariants

    @invariant()
    def holds_what_the_model_holds(self):
        if not hasattr(self, "log"):
            return
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        kept = [batch for batch in self.batches if batch.last >= self.start]
        assert [content for _, content in self.log.raw_batches()] == [batch.content for batch in kept]
        assert self.log.recovery_point <= self.flushed

    @invariant()
    def epochs_are_those_of_the_batches(self):
        """S15: the epochs in the batch headers, plus at most one entry that has no record yet."""
        if not hasattr(self, "log"):
            return
        derived: list[tuple[int, int]] = []
        for batch in self.batches:
            if not derived or derived[-1][0] != batch.epoch:
                derived.append((batch.epoch, max(batch.base, self.start)))
        found = list(self.log.leader_epochs.entries)
        if found and found[-1][1] == self.end:
            found.pop()
        assert found == derived

    @invariant()
    def every_index_entry_names_a_batch(self):
        if not hasattr(self, "log"):
            return
        for segment in self.log._segments:
            ends = {position: header.last_offset for position, header in segment.scan()}
            assert all(
                ends[position] == offset
                for offset, position in zip(segment.index.offsets, segment.index.positions, strict=True)
            )


LogMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=20, deadline=None)
TestLogModel = LogMachine.TestCase
