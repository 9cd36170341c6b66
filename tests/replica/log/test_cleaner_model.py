"""Compaction against a plain model: a list of what was appended. After any rounds of cleaning, crashes and restarts a
log may lack what a later record, an abort or the age of a tombstone explains; after a round it lacks all of that.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from cleaner_home import home, put, reopened, run
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from replica_logs import content_of

from cluster.client.consumer.fetcher import AbortedFilter
from replica.log.batches.control_records import ControlRecordType, end_transaction_marker
from replica.log.batches.records import batches, read_records
from replica.log.log import Log
from tests.soak import examples

RETENTION_MS = 1000
KEYS = ("a", "b", "c", "d")
PRODUCERS = (1, 2)
BUFFERS = (2 * 24, 1 << 20)


@dataclass
class Entry:
    """A record. producer_id: of the transaction that it is in     fate: open, committed, aborted"""

    offset: int
    key: str
    value: str | None
    producer_id: int | None
    fate: str


class Crash(BaseException):
    """The process dies here."""


class CleanerMachine(RuleBasedStateMachine):
    @initialize(segment_bytes=st.sampled_from([1024, 2048]))
    def begin(self, segment_bytes: int) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="highwater-test-"))
        self.where = home(self.root, segment_bytes=segment_bytes, delete_retention_ms=RETENTION_MS)
        self.log, _ = self.where.open()
        self.entries: list[Entry] = []
        self.now_ms = 1000
        self.cleaned_to: int | None = None
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.open: set[int] = set()
        self.tombstones_since: dict[int, int] = {}
        """offset -> the first time that a round has gone over it"""

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
            shutil.rmtree(self.root)

    def _put(self, pairs: list[tuple[str, bool]], producer_id: int | None, *, transactional: bool) -> None:
        header: dict[str, object] = {}
        if producer_id is not None:
            header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": self.sequences[producer_id]}
            self.sequences[producer_id] += len(pairs)
        end = self.log.log_end_offset
        records = [(key, f"{end + place}" if has_value else None) for place, (key, has_value) in enumerate(pairs)]
        first = put(self.log, *records, at_ms=self.now_ms, size=300, transactional=transactional, **header)
        fate = "open" if transactional else "committed"
        for place, (key, value) in enumerate(records):
            self.entries.append(Entry(first + place, key, value, producer_id if transactional else None, fate))

    @rule(pairs=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=3))
    def append(self, pairs: list[tuple[str, bool]]) -> None:
        self._put(pairs, None, transactional=False)

    @rule(
        pairs=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=2),
        producer_id=st.sampled_from(PRODUCERS),
    )
    def append_in_transaction(self, pairs: list[tuple[str, bool]], producer_id: int) -> None:
        self._put(pairs, producer_id, transactional=True)
        self.open.add(producer_id)

    @precondition(lambda self: self.open)
    @rule(aborts=st.booleans(), place=st.integers(0, 1))
    def end_transaction(self, aborts: bool, place: int) -> None:
        producer_id = sorted(self.open)[place % len(self.open)]
        how = ControlRecordType.ABORT if aborts else ControlRecordType.COMMIT
        marker = end_transaction_marker(producer_id, 0, how, 0, timestamp_ms=self.now_ms)
        self.log.append_as_leader(marker, 0, self.now_ms * 1000, from_client=False)
        self.open.remove(producer_id)
        for entry in self.entries:
            if entry.producer_id == producer_id and entry.fate == "open":
                entry.fate = "aborted" if aborts else "committed"

    @rule(ms=st.sampled_from([1, 400, RETENTION_MS]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(buffer_bytes=st.sampled_from(BUFFERS))
    def clean(self, buffer_bytes: int) -> None:
        cleaned = run(self.log, self.cleaned_to, at_ms=self.now_ms, buffer_bytes=buffer_bytes)
        if cleaned is not None:
            self.cleaned_to = cleaned.end_offset
            # As in Kafka a round writes whole segments, also where its map was full in the middle of one.
            bases = [segment.base_offset for segment in self.log.segments if segment.base_offset >= cleaned.end_offset]
            written_to = min(bases, default=self.log.log_end_offset)
            for entry in self.entries:
                if entry.value is None and entry.offset < written_to:
                    self.tombstones_since.setdefault(entry.offset, self.now_ms)
            self._check_complete(cleaned.end_offset)
            for segment in cleaned.retired:
                segment.remove()

    @rule(renames=st.integers(0, 12))
    def crash_in_a_cleaning(self, renames: int) -> None:
        left, rename = renames, Path.rename

        def dying(path: Path, target: Path) -> Path:
            nonlocal left
            if left == 0:
                raise Crash
            left -= 1
            return rename(path, target)

        with mock.patch.object(Path, "rename", dying), contextlib.suppress(Crash):
            run(self.log, self.cleaned_to, at_ms=self.now_ms)
        for entry in self.entries:
            if entry.value is None:
                self.tombstones_since.setdefault(entry.offset, self.now_ms)
        self.log = reopened(self.log, self.where)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.log.flush()
            self.log.close()
            self.log, _ = self.where.open(clean=True)
        else:
            self.log = reopened(self.log, self.where)

    # ------------------------------------------------------------------------------------------------------ the model

    def _decided(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.fate == "committed"]

    def _last(self) -> dict[str, Entry]:
        return {entry.key: entry for entry in self._decided()}

    @invariant()
    def what_is_there_was_appended_there(self) -> None:
        if not hasattr(self, "log"):
            return
        known = {entry.offset: (entry.key, entry.value) for entry in self.entries}
        for header, record in self.log.records():
            if not header.is_control:
                assert record.key is not None
                value = None if record.value is None else record.value.decode().rstrip(".")
                assert known[record.offset] == (record.key.decode(), value)

    @invariant()
    def what_is_missing_had_to_go(self) -> None:
        if not hasattr(self, "log"):
            return
        there = {record.offset for header, record in self.log.records() if not header.is_control}
        last = self._last()
        for entry in self.entries:
            if entry.offset in there or entry.fate == "aborted":
                continue
            is_old = entry.fate == "committed" and last[entry.key].offset > entry.offset
            since_ms = self.tombstones_since.get(entry.offset)
            is_over = entry.value is None and since_ms is not None and self.now_ms >= since_ms + RETENTION_MS
            assert is_old or is_over, f"{entry} is gone"

    @invariant()
    def readers_of_committed_records_see_the_same_state(self) -> None:
        if not hasattr(self, "log"):
            return
        stable = self.log.last_stable_offset(self.log.log_end_offset)
        state: dict[str, str] = {}
        for entry in self._decided():
            if entry.offset < stable:
                state.pop(entry.key, None)
                if entry.value is not None:
                    state[entry.key] = entry.value
        assert _read_committed(self.log, stable) == state

    def _check_complete(self, end_offset: int) -> None:
        """Below where the round got to, nothing is left that need not be."""
        last: dict[str, int] = {}
        for entry in self._decided():
            if entry.offset < end_offset:
                last[entry.key] = entry.offset
        aborted = {entry.offset for entry in self.entries if entry.fate == "aborted"}
        for header, record in self.log.records(0, end_offset):
            if not header.is_control:
                assert record.key is not None
                assert record.offset not in aborted
                assert record.offset == last[record.key.decode()]


def _read_committed(log: Log, stable: int) -> dict[str, str]:
    """As a consumer with read_committed does it: fetch by fetch, from the start."""
    state: dict[str, str] = {}
    position = log.log_start_offset
    while position < stable:
        found = log.read(position, 1, stable)
        aborted = [(one.producer_id, one.first_offset) for one in log.aborted_transactions(position, found)]
        if not found.length:
            return state
        data, filters = content_of(found), AbortedFilter(aborted)
        for place, header in batches(data):
            batch = data[place : place + header.size_bytes]
            if not filters.drops(header, batch) and not header.is_control:
                for record in read_records(batch):
                    assert record.key is not None
                    state.pop(record.key.decode(), None)
                    if record.value is not None and record.offset >= position:
                        state[record.key.decode()] = record.value.decode().rstrip(".")
            position = header.last_offset + 1
    return state


TestCleaner = CleanerMachine.TestCase
TestCleaner.settings = settings(deadline=None, max_examples=examples(100), stateful_step_count=40)
