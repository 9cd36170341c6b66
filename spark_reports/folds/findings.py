"""What follows from the fate of each record by itself, by columns: counts and anomalies."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.folds.codes import is_one_of
from spark_reports.folds.fates import TOLD_ACKED, TOLD_FAILED, TOLD_NOTHING

_TOLD = {"acked": TOLD_ACKED, "failed": TOLD_FAILED, "unknown": TOLD_NOTHING}
_FLAGS = ("handed_over", "lost", "unseen", "missing", "duplicated", "dirty", "reordered")
COUNTED_COLUMNS = ("run", "topic", "acks", "sent_seq", "told", *_FLAGS)
_GROUP = ("run", "topic", "acks")
_COUNTS = ("sent", *_TOLD, *_FLAGS)


def counts(fates: pa.Table) -> pa.Table:
    """How many of the records that were sent met each fate, by run, topic and acks."""
    sent = fates.filter(fates["sent_seq"].is_valid())
    found = {name: sent[name] for name in _GROUP} | {"sent": pa.repeat(pa.scalar(1, pa.int64()), len(sent))}
    found |= {name: pa.array(is_one_of(sent["told"], [word])).cast(pa.int64()) for name, word in _TOLD.items()}
    return summed(pa.table(found | {name: sent[name].cast(pa.int64()) for name in _FLAGS}))


def summed(found: pa.Table) -> pa.Table:
    """counts() of some records -> of all"""
    words = pa.table({name: found[name].cast(pa.string()) if name != "acks" else found[name] for name in _GROUP})
    for name in _COUNTS:
        words = words.append_column(name, found[name])
    sums = words.group_by(list(_GROUP), use_threads=False).aggregate([(name, "sum") for name in _COUNTS])
    return sums.rename_columns([*_GROUP, *_COUNTS])


ANOMALY_COLUMNS = (
    "run", "topic", "partition", "record", "acked_by", "ack_offset", "offset", "settled_copies", "readable", "promised",
    "copies", "deleted", "expired", "compacted", "lost", "unseen", "dirty", "duplicated", "reordered",
)  # fmt: skip


def anomalies(undone: str, unmarked: str, fates: pa.Table) -> pa.Table:
    """A row for each anomaly of a record.

    undone, unmarked: what is said of a lost record that nobody writes any more, and of an unseen one without its marker
    """
    found = [
        _called("lost", "ack_offset", fates, "lost", lambda rows: pc.if_else(is_undone(rows), undone, _lost(rows))),
        _called("unseen", "offset", fates, "unseen", lambda rows: pc.if_else(rows["readable"], unmarked, _UNREAD)),
        _called("dirty-read", "ack_offset", fates, "dirty", lambda rows: _DIRTY),
        _called("duplicated", "offset", fates, "duplicated", _duplicated),
        _called("reordered", "offset", fates, "reordered", lambda rows: _REORDERED),
    ]
    return pa.concat_tables(found)


_UNREAD = "acked and in the final log, but no consumer can read it"
_DIRTY = "a consumer read it, but it is not in the final log"
_REORDERED = "stands after a record that its producer sent later"


def _called(anomaly: str, offset: str, fates: pa.Table, flag: str, detail: Any) -> pa.Table:
    """detail: of some rows -> one word, or one for each"""
    rows = fates.filter(fates[flag])
    said = detail(rows)
    return pa.table(
        {
            "run": rows["run"], "anomaly": _each(rows, anomaly), "topic": rows["topic"], "partition": rows["partition"],
            "witness": rows["record"], "offset": rows[offset],
            "detail": _each(rows, said) if isinstance(said, str) else said,
        }
    )  # fmt: skip


def _each(rows: pa.Table, word: str) -> Any:
    return pa.repeat(pa.scalar(word), len(rows))


def is_undone(fates: pa.Table) -> Any:
    """Nobody writes this output any more."""
    is_taken = pc.or_(pc.or_(fates["deleted"], fates["expired"]), fates["compacted"])
    return pc.and_(pc.and_(fates["promised"], pc.equal(fates["copies"], 0)), pc.invert(is_taken))


def _lost(rows: pa.Table) -> Any:
    return _joined("acked by ", rows["acked_by"], " at offset ", rows["ack_offset"], ", not in the final log")


def _duplicated(rows: pa.Table) -> Any:
    return _joined("in the final log ", rows["settled_copies"], " times")


def _joined(*parts: Any) -> Any:
    words = [part if isinstance(part, str) else part.cast(pa.string()) for part in parts]
    return pc.binary_join_element_wise(*words, "", null_handling="replace", null_replacement="null")
