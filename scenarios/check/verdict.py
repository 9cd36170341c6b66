"""The verdict on a run: the promises that it broke, each with the records, offsets and events that prove it.

`judge` evaluates a finished `RecordLedger`. The package spark_reports has the same definitions, computed from the
files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby

from replica.ids import TopicPartition
from replica.trace.events import InvariantBroken
from replica.trace.ranges import format_record_names
from replica.wording import listed
from scenarios.language.expect import JEPSEN_CLASS
from scenarios.observe.columns.names import LazyNames
from scenarios.observe.columns.record_table import RecordEntry
from scenarios.observe.final_logs import FinalReplica, LogEntry, Presence
from scenarios.observe.ledger import ReadJump, RecordLedger
from scenarios.observe.taken_records import COMPACTED, DELETED, EXPIRED
from scenarios.observe.wording import count_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One broken promise in one partition, with its evidence.

    Attributes:
        kind: Highwater's name of the anomaly; `jepsen` is Jepsen's name.
        sentence: description of the anomaly.
        records, offsets, replicas: those concerned, empty if there are none.
        client: client concerned, None if there is none.
        seqs: sequence numbers of the trace events that prove the anomaly.
        our_bug: True if no era and no setting explains the anomaly, so that it is a bug in Highwater.
    """

    kind: str
    partition: TopicPartition | None
    sentence: str
    records: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()
    replicas: tuple[str, ...] = ()
    client: str | None = None
    seqs: tuple[int, ...] = ()
    our_bug: bool = False

    @property
    def jepsen(self) -> str | None:
        return JEPSEN_CLASS[self.kind]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a run.

    Attributes:
        kinds: kinds of the anomalies found, in the order of ANOMALIES; () for ok.
        records: names of records by class, in sending order.
    """

    kinds: tuple[str, ...]
    anomalies: tuple[Anomaly, ...]
    records: dict[str, Sequence[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.kinds

    @property
    def our_bug(self) -> bool:
        return any(anomaly.our_bug for anomaly in self.anomalies)

    def of(self, kind: str) -> tuple[Anomaly, ...]:
        return tuple(anomaly for anomaly in self.anomalies if anomaly.kind == kind)


RECORD_CLASSES = ("acked", "failed", "unknown", "lost", "unseen", "missing", "duplicated", "reordered", "dirty")
"""Keys of `Verdict.records`: three by the answer to the producer, then those found by comparison with the logs."""
ABORTED = "aborted"
HARMLESS_CLASSES = (DELETED, EXPIRED, COMPACTED, ABORTED)
"""Classes of acked records that are missing for a good reason.

The reasons are an operator's request, retention, compaction, and an aborted transaction.
"""


def judge(ledger: RecordLedger, broken: Sequence[InvariantBroken] = ()) -> Verdict:
    """Return the verdict on a finished run. `ledger.close()` must have been called.

    A broken invariant that the rules of the run do not promise becomes an anomaly only if there is no other anomaly,
    because lost or duplicated records are more instructive. The trace and `explain` show it in any case.

    Args:
        broken: events of broken invariants.
    """
    records = {kind: classify(ledger, kind) for kind in (*RECORD_CLASSES, *HARMLESS_CLASSES)}
    found: list[Anomaly] = []
    for finder in _FINDERS:
        found.extend(finder(ledger, records))
    shown = bool(found)
    found.extend(
        Anomaly(
            kind="invariant", partition=None, sentence=f"{event.invariant}: {event.sentence()}", our_bug=event.promised
        )
        for event in broken
        if event.promised or not shown
    )
    order = list(JEPSEN_CLASS)
    found.sort(key=lambda anomaly: order.index(anomaly.kind))
    return Verdict(tuple(dict.fromkeys(anomaly.kind for anomaly in found)), tuple(found), records)


def classify(ledger: RecordLedger, kind: str) -> Sequence[str]:
    """Return the names of the records of one class, in sending order. Most classes need the final logs."""
    names = _CLASSES[kind](ledger)
    return names if isinstance(names, LazyNames) else tuple(names)


# -------------------------------------------------------------------------------------------- classes of records


def _lost(ledger: RecordLedger) -> list[str]:
    """Return the lost records in sending order; outputs that were never sent come last.

    A record is lost if it was acked, was not aborted, and is not in the final log. An output is lost if its input was
    processed and no final log has it.
    """
    acked = [
        entry.name
        for entry in (ledger if ledger.promised else ledger.gone)
        if (entry.acked and not entry.aborted and ledger.is_gone(entry.name))
        or (ledger.promised and ledger.is_undone(entry.name))
    ]
    return acked + [name for name in ledger.promised if ledger.records.get(name) is None and ledger.is_undone(name)]


def _missing(ledger: RecordLedger) -> list[str]:
    return [entry.name for entry in ledger.gone if entry.unknown]


def _unseen(ledger: RecordLedger) -> list[str]:
    """Return acked records that are in the final log but cannot be read.

    A record cannot be read if it is at or above the high watermark, if no running broker leads its partition, or if its
    transaction will never get its commit marker.
    """
    names: list[str] = []
    if ledger.is_readable:
        return names
    for entry in ledger:
        where = ledger.where(entry.name) if entry.acked else None
        if where is None:
            continue
        partition, offset = where
        replica = ledger.final_replica(partition)
        assert replica is not None, "what is present is in some replica's log"
        is_readable = replica.is_leader and replica.running and offset < replica.high_watermark
        if not is_readable or ledger.is_stranded(entry):
            names.append(entry.name)
    return names


def _dirty(ledger: RecordLedger) -> list[str]:
    return [entry.name for entry in ledger.gone if entry.first_read_us is not None]


def _duplicated(ledger: RecordLedger) -> list[str]:
    repeated = [entry for entry in map(ledger.records.get, ledger.present.repeated()) if entry is not None]
    repeated.sort(key=lambda entry: entry.place)
    return [entry.name for entry in repeated if len(ledger.settled_copies(entry.name)) > 1]


def _reordered(ledger: RecordLedger) -> list[str]:
    """Return records whose first copy comes after a record that the same producer sent later.

    For a record that was sent again, only records sent after its last send count.
    """
    overtaken: dict[int, None] = {}
    records = ledger.records
    for partition in ledger.final:
        latest: dict[str, int] = {}
        seen = bytearray(len(records.index))
        for _, first, count in ledger.final_log(partition).stretches():
            start, end = first, first + count
            if seen.find(1, start, end) < 0 and records.are_sent_in_order(start, count):
                client = records.origin(start)[0]
                if records.sent_seq[start] > latest.get(client, -1):
                    start = end - 1  # None of these records was overtaken.
            for index in range(start, end):
                if seen[index] or not records.is_record(index):
                    continue
                entry = RecordEntry(records, index)
                client, sent_seq = entry.client, entry.sent_seq
                if entry.last_sent_seq < latest.get(client, -1):
                    overtaken[index] = None
                latest[client] = max(sent_seq, latest.get(client, -1))
                seen[index] = True
            seen[first:end] = b"\1" * count
    return [records.index.name(index) for index in sorted(overtaken)]


_CLASSES: dict[str, Callable[[RecordLedger], Sequence[str]]] = {
    "acked": lambda ledger: ledger.named("acked"),
    "failed": lambda ledger: ledger.named("failed"),
    "unknown": lambda ledger: ledger.named("unknown"),
    "lost": _lost,
    "unseen": _unseen,
    "missing": _missing,
    "duplicated": _duplicated,
    "reordered": _reordered,
    "dirty": _dirty,
    DELETED: lambda ledger: ledger.taken(DELETED),
    EXPIRED: lambda ledger: ledger.taken(EXPIRED),
    COMPACTED: lambda ledger: ledger.taken(COMPACTED),
    ABORTED: RecordLedger.aborted_records,
}


# ------------------------------------------------------------------------------------------------------ anomalies

Records = dict[str, Sequence[str]]


def _by_partition(ledger: RecordLedger, names: Iterable[str]) -> list[tuple[TopicPartition, tuple[str, ...]]]:
    """Group records by the partition that has a copy, or else by the partition to which they were sent.

    A record without a key may get its partition only after it was sent.
    """

    def partition_of(name: str) -> TopicPartition:
        sent = ledger.records.get(name)
        origin = ledger.promised[name] if sent is None else sent
        where = ledger.where(name)
        return origin.topic_partition if where is None else where[0]

    groups = groupby(sorted(names, key=partition_of), key=partition_of)
    return [(partition, tuple(group)) for partition, group in groups]


def _records_are(count: int) -> str:
    return "record was" if count == 1 else "records were"


def _others_with(ledger: RecordLedger, partition: TopicPartition, records: Iterable[str]) -> list[str]:
    """Return the brokers whose final logs have any of these records."""
    found = []
    for node, replica in sorted(ledger.final[partition].items()):
        present = Presence(ledger.records.index)
        present.add_log(partition, replica.entries)
        if any(record in present for record in records):
            found.append(node)
    return found


def _find_lost(ledger: RecordLedger, records: Records) -> list[Anomaly]:
    found = []
    for partition, names in _by_partition(ledger, records["lost"]):
        undone = tuple(name for name in names if ledger.is_undone(name))
        acked = tuple(name for name in names if name not in undone)
        holder = ledger.final_replica(partition)
        log = f"the log of {holder.node}" if holder else "any log, as no replica is left"
        if acked:
            many, are = f"{len(acked)} {_records_are(len(acked))}", "is" if len(acked) == 1 else "are"
            sentence = f"{many} acked, but {are} not in {log}: {format_record_names(acked)}"
            if holder is not None and not holder.is_leader and (others := _others_with(ledger, partition, acked)):
                have = "has" if len(others) == 1 else "have"
                sentence += f"; the partition has no leader, but {listed(others)} still {have} some"
            seqs = tuple(ledger.records[name].acked_seq for name in acked)
            found.append(Anomaly(kind="lost", partition=partition, sentence=sentence, records=acked, seqs=seqs))
        if undone:
            clients = ", ".join(dict.fromkeys(ledger.promised[name].client for name in undone))
            outputs = f"{count_of(len(undone), 'output')} to {partition.topic}"
            sentence = (
                f"{clients} processed the inputs of {outputs} that read_committed consumers cannot find: "
                f"{format_record_names(undone)}"
            )
            seqs = tuple(ledger.promised[name].seq for name in undone)
            where = partition if partition.partition >= 0 else None  # An output that was not sent has no partition.
            found.append(Anomaly(kind="lost", partition=where, sentence=sentence, records=undone, seqs=seqs))
    return found


def _find_unseen(ledger: RecordLedger, records: Records) -> list[Anomaly]:
    found = []
    for partition, names in _by_partition(ledger, records["unseen"]):
        holder = ledger.final_replica(partition)
        assert holder is not None
        stranded = tuple(name for name in names if ledger.is_stranded(ledger.records[name]))
        for those, why in (
            (tuple(name for name in names if name not in stranded), _why_unseen(holder)),
            (stranded, f"the commit marker is not in the log of {holder.node}"),
        ):
            if those:
                count = len(those)
                what = f"{count} {_records_are(count)} acked, but cannot be read"
                sentence = f"{what}: {format_record_names(those)} ({why})"
                seqs = (*(ledger.records[name].acked_seq for name in those), holder.seq)
                found.append(Anomaly(kind="unseen", partition=partition, sentence=sentence, records=those, seqs=seqs))
    return found


def _why_unseen(holder: FinalReplica) -> str:
    if holder.is_leader and holder.running:
        return f"the high watermark of {holder.node} is {holder.high_watermark}"
    return "the partition has no running leader"


def _find_dirty(ledger: RecordLedger, records: Records) -> list[Anomaly]:
    found = []
    for partition, names in _by_partition(ledger, records["dirty"]):
        readers = ", ".join(dict.fromkeys(ledger.records[name].first_reader or "" for name in names))
        sentence = f"{readers} read records that are no longer in the log: {format_record_names(names)}"
        seqs = tuple(ledger.records[name].first_read_seq for name in names)
        found.append(Anomaly(kind="dirty-read", partition=partition, sentence=sentence, records=names, seqs=seqs))
    return found


def _find_duplicated(ledger: RecordLedger, records: Records) -> list[Anomaly]:
    found = []
    for partition, names in _by_partition(ledger, records["duplicated"]):
        copies = [copy for name in names for copy in ledger.settled_copies(name)]
        offsets = tuple(offset for _, offset in copies)
        sentence = f"{len(names)} {_records_are(len(names))} stored more than once: {format_record_names(names)}"
        sentence += _injected_by(ledger, names)
        seqs = _seqs_of(ledger, copies)
        found.append(
            Anomaly(
                kind="duplicated", partition=partition, sentence=sentence, records=names, offsets=offsets, seqs=seqs
            )
        )
    return found


def _injected_by(ledger: RecordLedger, names: Sequence[str]) -> str:
    """Return a note about the injected faults that made the producer send records again, "" if there are none."""
    faults = dict.fromkeys(ledger.injected[name] for name in names if name in ledger.injected)
    return f" (sent again because of {listed(list(faults))})" if faults else ""


def _seqs_of(ledger: RecordLedger, copies: Sequence[tuple[TopicPartition, int]]) -> tuple[int, ...]:
    """Return the sequence numbers of the events that report these copies in the final logs, in ascending order."""
    found = (ledger.final_log(partition).entries_in(offset, offset) for partition, offset in copies)
    return tuple(sorted({entry.seq for entry in chain.from_iterable(found)}))


def _find_reordered(ledger: RecordLedger, records: Records) -> list[Anomaly]:
    found = []
    for partition, names in _by_partition(ledger, records["reordered"]):
        stored = f"{len(names)} {_records_are(len(names))} stored after records that their producer sent later"
        sentence = f"{stored}: {format_record_names(names)}"
        sentence += _injected_by(ledger, names)
        seqs = tuple(ledger.records[name].sent_seq for name in names)
        found.append(Anomaly(kind="reordered", partition=partition, sentence=sentence, records=names, seqs=seqs))
    return found


def _find_diverged(ledger: RecordLedger, records: Records) -> list[Anomaly]:
    found = []
    for partition in sorted(ledger.final):
        running = [replica for replica in ledger.final[partition].values() if replica.found and replica.running]
        running.sort(key=lambda replica: replica.node)
        for index, item in enumerate(running):
            for other in running[index + 1 :]:
                pairs = differences(item, other)
                if not pairs:
                    continue
                offsets = tuple(mine.offset for mine, _ in pairs)
                mine, theirs = pairs[0]
                sentence = (
                    f"{item.node} and {other.node} hold different records below both high watermarks: "
                    f"at offset {mine.offset} {item.node} has {mine.record}, {other.node} has {theirs.record}"
                )
                found.append(
                    Anomaly(
                        kind="diverged",
                        partition=partition,
                        sentence=sentence,
                        records=tuple(dict.fromkeys(entry.record for pair in pairs for entry in pair)),
                        offsets=offsets,
                        replicas=(item.node, other.node),
                        seqs=tuple(dict.fromkeys(entry.seq for pair in pairs for entry in pair)),
                    )
                )
    return found


def differences(final_replica: FinalReplica, other: FinalReplica) -> list[tuple[LogEntry, LogEntry]]:
    """Return pairs of entries that differ in record or batch at the same offset, below both high watermarks."""
    return final_replica.entries.differences(other.entries, min(final_replica.high_watermark, other.high_watermark))


def _find_offset_regressions(ledger: RecordLedger, records: Records) -> list[Anomaly]:
    return [
        Anomaly(
            kind="offset-regression",
            partition=fall.topic_partition,
            sentence=f"{fall.client} got end offset {fall.offset} of {fall.topic_partition} "
            f"after end offset {fall.highest}",
            offsets=(fall.highest, fall.offset),
            client=fall.client,
            seqs=(fall.highest_seq, fall.seq),
        )
        for fall in ledger.end_offset_falls
    ]


def _find_poll_skips(ledger: RecordLedger, records: Records) -> list[Anomaly]:
    found = []
    for jump in ledger.jumps:
        skipped = _skipped_by(ledger, jump)
        if skipped:
            names = tuple(entry.record for entry in skipped)
            named = format_record_names(names)
            sentence = f"{jump.client} read offset {jump.after}, then {jump.offset}, and never {named} in between"
            if jump.after < 0:
                sentence = (
                    f"{jump.client} continued at offset {jump.offset} of a recreated topic, and never read {named}"
                )
            found.append(
                Anomaly(
                    kind="poll-skip",
                    partition=jump.topic_partition,
                    sentence=sentence,
                    records=names,
                    offsets=tuple(entry.offset for entry in skipped),
                    client=jump.client,
                    seqs=(jump.after_seq, jump.seq),
                )
            )
    return found


def _skipped_by(ledger: RecordLedger, jump: ReadJump) -> list[LogEntry]:
    """Return the entries of the final log that a reader has skipped in a jump.

    Records that were removed for a good reason do not count: the replica that was read may already have removed them,
    while the last leader may still have them.
    """
    reads = ledger.reads[jump.client, jump.topic_partition]
    apart = reads.apart or ()
    return [
        entry
        for entry in ledger.final_log(jump.topic_partition).entries_in(jump.after + 1, jump.offset - 1)
        if not reads.ranges.covers(entry.offset)
        and entry.record not in apart
        and not ledger.is_aborted(jump.topic_partition, entry.offset)
        and entry.record not in ledger.taken_by
    ]


_FINDERS: tuple[Callable[[RecordLedger, Records], list[Anomaly]], ...] = (
    _find_lost,
    _find_unseen,
    _find_dirty,
    _find_diverged,
    _find_duplicated,
    _find_reordered,
    _find_offset_regressions,
    _find_poll_skips,
)
