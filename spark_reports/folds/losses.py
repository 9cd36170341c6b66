"""Find the causes of lost records: replicas that had them, leaders elected without them, truncations, lost disks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

COLUMNS = (
    "what", "seq", "at_us", "node", "reason", "record", "acks", "sent_us", "acked_us", "acked_by", "offset",
    "last_seq", "clean", "log_end_offset", "previous_log_end_offset", "size_bytes",
)  # fmt: skip
LOST, KEPT, ELECTED, TRUNCATED, DISK_LOST, OPENED = "lost", "kept", "elected", "truncated", "disk lost", "opened"


class _Fact(NamedTuple):
    seq: int
    at_us: int
    node: str
    reason: str | None
    clean: bool | None = None


class _Kept(NamedTuple):
    """A replica that once had a lost record, with the first and last `seq` at which it appended the record."""

    record: str
    had_seq: int
    last_had_seq: int


class _Lost:
    """A lost record.

    Attributes:
        said: the first columns of its row: record, acks, sent_us, acked_us, acked_by, offset.
        had_seq: `seq` at which each node first appended it.
        gone_seq: `seq` of the first removal from each node after the node's last append of it.
        cuts: truncations after the acknowledgement that removed it from a replica.
    """

    __slots__ = ("acked_seq", "cuts", "gone_seq", "had_seq", "said")

    def __init__(self, acked_seq: int, said: tuple[Any, ...]) -> None:
        self.acked_seq, self.said = acked_seq, said
        self.had_seq: dict[str, int] = {}
        self.gone_seq: dict[str, int] = {}
        self.cuts: list[_Fact] = []

    def cut(self, kept: _Kept, cut: _Fact, *, truncated: bool) -> None:
        if cut.seq <= kept.had_seq:
            return
        if cut.seq > kept.last_had_seq:
            self.gone_seq[cut.node] = min(cut.seq, self.gone_seq.get(cut.node, cut.seq))
        if truncated and cut.seq > self.acked_seq:
            self.cuts.append(cut)

    def elected_without(self, elections: dict[str, list[_Fact]]) -> _Fact | None:
        """Return the first election after the acknowledgement of a leader without the record, None if there is none.

        For each broker, two elections are considered: its first after the acknowledgement, and its first after it had
        lost the record.
        """
        found = []
        for node, of_node in elections.items():
            first = _after(of_node, self.acked_seq)
            had_seq = self.had_seq.get(node)
            if first and (had_seq is None or first.seq < had_seq):
                found.append(first)
            if node in self.gone_seq:
                again = _after(of_node, max(self.acked_seq, self.gone_seq[node]))
                found += [again] if again else []
        return min(found, default=None)

    def row(self, elections: dict[str, list[_Fact]], disk_losses: Sequence[_Fact]) -> tuple[Any, ...]:
        elected = self.elected_without(elections)
        held_by = sorted(node for node, seq in self.had_seq.items() if seq < self.acked_seq)
        return (
            *self.said, held_by if self.had_seq else None,
            *((elected.at_us, elected.node, elected.clean, elected.reason) if elected else (None,) * 4),
            *_described(self.cuts), *_described([loss for loss in disk_losses if loss.seq > self.acked_seq]),
        )  # fmt: skip


def _after(facts: list[_Fact], seq: int) -> _Fact | None:
    next_index = bisect_right(facts, seq, key=lambda fact: fact.seq)
    return facts[next_index] if next_index < len(facts) else None


def _described(facts: Sequence[_Fact]) -> tuple[int | None, list[str] | None, str | None]:
    """Return the time of the earliest fact, the nodes of all facts, and the earliest fact's reason."""
    if not facts:
        return None, None, None
    return min(fact.at_us for fact in facts), sorted({fact.node for fact in facts}), min(facts).reason


class _Replica:
    """The lost records that a replica has had, by offset. `disk_lost`: its disk lost bytes since the log was opened."""

    def __init__(self) -> None:
        self.kept: dict[int, list[_Kept]] = {}
        self.disk_lost = False

    def within(self, begin: int, end: int) -> Iterator[_Kept]:
        if end - begin < len(self.kept):
            offsets: Iterator[int] = (offset for offset in range(begin, end) if offset in self.kept)
        else:
            offsets = (offset for offset in self.kept if begin <= offset < end)
        for offset in offsets:
            yield from self.kept[offset]


def lost_records(facts: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each lost record with its causes. Memory use grows with lost records and elections."""
    lost: dict[str, _Lost] = {}
    replicas: dict[str, _Replica] = {}
    elections: dict[str, list[_Fact]] = {}
    disk_losses: list[_Fact] = []
    held: list[tuple[str, int | None, _Kept]] = []
    later = []
    for fact in facts:
        what, seq, at_us, node, reason, record, acks, sent_us, acked_us, acked_by, offset, last_seq, clean, *_ = fact
        if what == LOST:
            lost[record] = _Lost(seq, (record, acks, sent_us, acked_us, acked_by, offset))
        elif what == ELECTED:
            elections.setdefault(node, []).append(_Fact(seq, at_us, node, reason, clean))
        elif what == KEPT:
            held.append((node, offset, _Kept(record, seq, last_seq)))
        else:
            later.append(fact)
    for node, offset, kept in held:
        lost[kept.record].had_seq[node] = kept.had_seq
        if offset is not None:
            replicas.setdefault(node, _Replica()).kept.setdefault(offset, []).append(kept)
    for what, seq, at_us, node, reason, *_, end, previous_end, size_bytes in later:
        cut = _Fact(seq, at_us, node, reason)
        replica = replicas.setdefault(node, _Replica())
        if what == TRUNCATED:
            if end is None or previous_end is None:
                continue
            for kept in replica.within(end, previous_end):
                lost[kept.record].cut(kept, cut, truncated=True)
        elif what == DISK_LOST:
            disk_losses.append(cut)
            replica.disk_lost = True
        else:  # The log was opened, perhaps without the record because its disk had lost bytes.
            if end is not None and (replica.disk_lost or (size_bytes or 0) > 0):
                for kept in replica.within(end, 1 << 63):
                    lost[kept.record].cut(kept, cut, truncated=False)
            replica.disk_lost = False
    for item in lost.values():
        yield item.row(elections, disk_losses)
