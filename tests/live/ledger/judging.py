"""Where an outside ledger and Highwater's verdict disagree, record by record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CONCLUDES = "liai-"
"""The records of librdkafka's idempotent producer."""


@dataclass(frozen=True)
class Sent:
    """One record of the ledger. fate: acked, handed-over, failed, unknown"""

    value: str
    partition: int
    offset: int
    acks: str
    fate: str


@dataclass(frozen=True)
class Found:
    """One record that the reader found."""

    value: str
    partition: int
    offset: int


def value_of(name: str) -> str:
    """A record that its producer sent again as a new one is called `v~2` by the observer: its value is `v`."""
    return name.partition("~")[0]


def concluded(ledger: Sequence[Sent], read: Sequence[Found]) -> set[str]:
    """Records that librdkafka calls delivered without an answer, because a later batch of the same idempotent producer
    was acked (rd_kafka_dr_implicit_ack). It knows no offset of them, and says 0; they must be in the log.
    """
    first = {record.value for record in read if record.offset == 0}
    there = {record.value for record in read}
    return {
        record.value
        for record in ledger
        if record.fate == "acked" and record.offset == 0 and record.value not in first and record.value in there
        and record.value.startswith(CONCLUDES)
    }  # fmt: skip


def _names(summary: Mapping[str, Any]) -> Iterable[str]:
    for names in summary["records"].values():
        if isinstance(names, list):
            yield from names


def disagreements(
    topic: str, ledger: Sequence[Sent], read: Sequence[Found], summary: Mapping[str, Any]
) -> Iterable[str]:
    """summary: of the run. Its lists name records of all topics; the values show which are this ledger's."""
    ours = {record.value for record in ledger}
    said = {
        kind: {value_of(name) for name in names if value_of(name) in ours}
        for kind, names in summary["records"].items()
        if isinstance(names, list)
    }
    present = Counter(record.value for record in read)
    acked = {record.value for record in ledger if record.fate == "acked"} - concluded(ledger, read)
    yield from _named("acked, and Highwater does not say so", acked - said["acked"])
    yield from _named("acked and gone, and Highwater does not call it lost", acked - set(present) - said["lost"])
    yield from _named("called lost, and there", said["lost"] & set(present))
    elsewhere = {value_of(name) for name in _names(summary) if name not in set(summary["records"]["missing"])}
    yield from _named("there, and called missing", (said["missing"] - elsewhere) & set(present))
    yield from _named("never sent, and there", set(present) - ours)
    yield from _logs(topic, read, summary["logs"])
    at = {(record.partition, record.offset): record.value for record in read}
    for record in ledger:
        if record.value in acked and record.value in present and record.offset >= 0:
            there = at.get((record.partition, record.offset))
            if there != record.value and present[record.value] == 1 and record.value not in said["lost"]:
                yield f"{record.value} was acked at {record.partition}:{record.offset}, where {there} is"


def _logs(topic: str, read: Sequence[Found], logs: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """The reader's records, in their order, agree with the logs in the summary."""
    found: dict[str, list[str]] = {}
    for record in sorted(read, key=lambda one: (one.partition, one.offset)):
        found.setdefault(f"{topic}-{record.partition}", []).append(record.value)
    told = {name: [value_of(one) for one in names] for name, names in logs.items() if name.rpartition("-")[0] == topic}
    for partition in sorted(found.keys() | {name for name, names in told.items() if names}):
        ours, theirs = found.get(partition, []), told.get(partition, [])
        if ours != theirs:
            place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
            what = f"{len(ours)} read, {len(theirs)} in the summary"
            yield f"the log of {partition} is told otherwise: {what}, first difference at place {place}"


def _named(what: str, values: Iterable[str]) -> Iterable[str]:
    for value in sorted(values):
        yield f"{value}: {what}"
