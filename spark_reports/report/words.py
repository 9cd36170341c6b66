"""Make the report's sentences, and format its times and sizes. Sentences of events are quoted without changes."""

from __future__ import annotations

import heapq
import itertools
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from replica.trace.alike import TOGETHER_US
from replica.trace.ranges import counted, counted_up, range_text, ranges_of_partitions, split_record_name
from spark_reports.report.rows import Row, Rows
from spark_reports.transforms.records import UNDONE

NAMES_SHOWN = 12


def seconds(us: int | None) -> str:
    """Return a duration as text: 8500000 -> `8.5 s`, 1400 -> `1.4 ms`, None -> a dash."""
    if us is None:
        return "–"
    if us == 0:
        return "0"
    if abs(us) < 1_000_000:
        return f"{us / 1000:.3f}".rstrip("0").rstrip(".") + " ms"
    return f"{us / 1_000_000:.3f}".rstrip("0").rstrip(".") + " s"


def short_time(us: int | None) -> str:
    """Return a duration as text with three significant digits, for table cells."""
    return seconds(None if us is None else round(us, min(0, 3 - len(str(us)))))


def clock(us: int) -> str:
    """Return a time of the run as text in seconds, such as `14.200`."""
    return f"{us / 1_000_000:,.3f}"


_PIECE = re.compile(r"(?<![\w.-])((?=[\w.-]{1,24}(?![\w-]))[\w.]+(?:-\w+)+|\d[\d,.]* (?:m?s|%)(?!\w))")


def in_pieces(text: str) -> list[str]:
    """Split a text into pieces, every second of which must not be broken at a line end.

    Such a piece is a short name with hyphens, or a number and its unit.
    """
    return _PIECE.split(text)


def acks_name(acks: int | None) -> str:
    return "acks=all" if acks == -1 else f"acks={acks}"


def joined(words: Sequence[str]) -> str:
    """Join words as in `b1`, `b1 and b2`, or `b1, b2 and b3`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _in_order(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each distinct record name as (prefix, number), sorted: r2 before r10.

    There may be a million names, so only their numbers are stored.
    """
    numbers: dict[str, array[int]] = {}
    large: set[tuple[str, int]] = set()
    for name in names:
        prefix, number = split_record_name(name)
        if number < 1 << 63:
            numbers.setdefault(prefix, array("q")).append(number)
        else:
            large.add((prefix, number))
    small = ((prefix, number) for prefix in sorted(numbers) for number, _ in itertools.groupby(sorted(numbers[prefix])))
    return heapq.merge(small, sorted(large))


def name_ranges(names: Iterable[str], shown_most: int = NAMES_SHOWN) -> str:
    """Return record names as text with ranges: {r10, r11, r12, r20} -> `r10..r12, r20`.

    After `shown_most` ranges the remaining names are only counted: `and 5 more`.
    """
    shown: list[str] = []
    left_out, last_left_out = 0, ""
    for prefix, first, last in counted_up(_in_order(names)):
        if len(shown) < shown_most:
            shown.append(range_text(prefix, first, last, of_two=", "))
        else:
            left_out += last - first + 1
            last_left_out = range_text(prefix, first, last)
    if left_out == 1:
        shown.append(last_left_out)
    return ", ".join(shown) + (f" and {left_out} more" if left_out > 1 else "")


def were(number: int) -> str:
    return "was" if number == 1 else "were"


def _is_or_are(number: int) -> str:
    return "is" if number == 1 else "are"


def headline(anomalies: Rows, counts: Sequence[Row], silent: Rows) -> list[str]:
    """Return the verdict as sentences: one for each kind of anomaly, the most serious first, or one if all is well.

    Args:
        anomalies, counts: rows of the tables anomalies and record_counts.
        silent: rows of missing records that were sent with acks=0.
    """
    kinds = set(anomalies.values("anomaly"))
    said = [say(anomalies.where(anomaly=kind)) for kind, say in _SENTENCES.items() if kind in kinds]
    if said:
        return said
    if gone := len(silent):
        return [
            f"No promise was broken, but {counted(gone, 'record')} {_is_or_are(gone)} missing: "
            f"{name_ranges(silent.values('record'))}."
        ]
    acked = sum(row["acked"] for row in counts)
    if acked:
        return [f"Nothing was lost: {_all(acked)} in the log exactly once, and readable."]
    return ["No anomaly was found. No record was acknowledged, so none could be lost."]


def _all(acked: int) -> str:
    return "the one acknowledged record is" if acked == 1 else f"all {acked:,} acknowledged records are"


def _names(rows: Rows) -> str:
    return name_ranges(rows.values("witness"))


def _lost(rows: Rows) -> str:
    undone = rows.where(detail=UNDONE)
    acked = [name for name, why in zip(rows.values("witness"), rows.values("detail"), strict=True) if why != UNDONE]
    said = []
    if acked:
        said.append(f"{counted(len(acked), 'acknowledged record')} {were(len(acked))} lost: {name_ranges(acked)}.")
    if len(undone):
        said.append(
            f"{counted(len(undone), 'output')} {were(len(undone))} lost: {_names(undone)}. "
            "Their inputs were processed, and no client writes the outputs again."
        )
    return " ".join(said)


def _unseen(rows: Rows) -> str:
    return f"{counted(len(rows), 'acknowledged record')} cannot be read at the end: {_names(rows)}."


def _dirty(rows: Rows) -> str:
    return f"Consumers read {counted(len(rows), 'record')} that the log no longer has: {_names(rows)}."


def _diverged(rows: Rows) -> str:
    found = set(zip(rows.values("topic"), rows.values("partition"), strict=True))
    labels = sorted(f"{topic}-{partition}" for topic, partition in found)
    return (
        f"Replicas of {joined(labels)} disagree below their high watermarks, at {counted(len(rows), 'offset')}: "
        f"{name_ranges(map(str, rows.values('offset')))}."
    )


def _duplicated(rows: Rows) -> str:
    return f"{counted(len(rows), 'record')} {_is_or_are(len(rows))} in the log more than once: {_names(rows)}."


def _reordered(rows: Rows) -> str:
    many = f"{counted(len(rows), 'record')} {_is_or_are(len(rows))}"
    return f"{many} in the log after a record that was sent later: {_names(rows)}."


def _regressed(rows: Rows) -> str:
    first = rows[0]
    return f"{first['witness']} saw the end of {first['topic']}-{first['partition']} move back: {first['detail']}."


def _skipped(rows: Rows) -> str:
    clients = joined(sorted(set(rows.values("witness"))))
    return f"{clients} skipped {counted(len(rows), 'record')} of the log without a seek: offsets " + (
        f"{name_ranges(map(str, rows.values('offset')))}."
    )


def _broken(rows: Rows) -> str:
    return f"Invariant {rows[0]['witness']} was broken: {rows[0]['detail']}."


_SENTENCES = {
    "lost": _lost,
    "unseen": _unseen,
    "dirty-read": _dirty,
    "diverged": _diverged,
    "duplicated": _duplicated,
    "reordered": _reordered,
    "offset-regression": _regressed,
    "poll-skip": _skipped,
    "invariant": _broken,
}


def notes(counts: Sequence[Row], silent: Rows, unanswered: Rows) -> list[str]:
    """Return remarks that matter even if no promise was broken.

    Args:
        counts: rows of record_counts.
        silent: rows of missing records that were sent with acks=0.
        unanswered: rows of the other missing records, which got no answer.
    """
    said: list[str] = []
    if gone := len(silent):
        said.append(
            f"{counted(gone, 'record')} sent with acks=0 {_is_or_are(gone)} missing: "
            f"{name_ranges(silent.values('record'))}. The producer got no error, since acks=0 promises nothing."
        )
    if gone := len(unanswered):
        said.append(
            f"{counted(gone, 'record')} without an answer {_is_or_are(gone)} missing: "
            f"{name_ranges(unanswered.values('record'))}. The producer got no ack, so nothing was promised."
        )
    failed = sum(row["failed"] for row in counts)
    if failed:
        said.append(f"{counted(failed, 'record')} {were(failed)} refused, and the producer got an error.")
    return said


def reader(stall: Row) -> str:
    """Return the name of the reader in a row of read_stalls: `c1`, or `group g1`."""
    return stall["client"] if stall["group"] is None else f"group {stall['group']}"


def rate(per_s: float | None, unit: str) -> str:
    """Return a rate as text: 2500.0 -> `2,500 records/s`, 4.25e8 -> `425 MB/s`, None -> a dash."""
    if per_s is None:
        return "–"
    if unit != "B" or per_s < 1000:
        return f"{per_s:,.0f} {unit}/s"
    return f"{size(per_s)}/s"


def size(count: float | None) -> str:
    """Return a number of bytes as text, in powers of a thousand: `170 B`, `1.5 kB`, `12 MB`."""
    if count is None:
        return "–"
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def blame(lost: Rows, elections: Rows) -> str:
    """Return one or two sentences about the causes of losses, for the table of many runs; empty if nothing was lost."""
    said = []
    who = zip(lost.values("acked_by"), lost.values("acks"), lost.values("elected"), strict=True)
    last = {item: index for index, item in enumerate(who)}
    for row in [lost[index] for index in list(last.values())[:2]]:
        after = ""
        if (chosen := _another_was_chosen(row, elections)) is not None:
            after = f"; {chosen['leader']} had already been elected at {clock(chosen['at_us'])} s"
        elif row["elected"] is not None:
            clean = "" if row["elected_clean"] else " in an unclean election"
            after = f"; then {row['elected']} became leader without them{clean}"
        elif row["disk_lost_on"]:
            after = f"; the disk of {joined(row['disk_lost_on'])} lost bytes"
        held = row["held_by"] or []
        alone = (
            " and no copy elsewhere" if held == [row["acked_by"]] else f" ({joined(held)} had copies)" if held else ""
        )
        said.append(f"{row['acked_by']} acknowledged writes with {acks_name(row['acks'])}{alone}{after}.")
    return " ".join(said)


Step = tuple[int, str]


CAUSES_COMPARED = 100
CAUSES_SHOWN = 8
"""Largest number of causes on the page; a long run may have one for each of many failovers."""


def why_lost(
    lost: Rows, faults: Sequence[Row], stopped: Sequence[Row], elections: Rows
) -> tuple[list[tuple[str, list[Step]]], str]:
    """Group lost records by cause.

    If records of several partitions were lost in the same way within a second, they have one cause, with the first
    partition's times.

    Args:
        lost, faults, stopped, elections: rows of lost_records, fault_intervals, stopped_intervals and elections.

    Returns:
        The first CAUSES_SHOWN causes as (names of records, steps in order), where a step is (time in microseconds,
        sentence); and a sentence about the causes left out, empty if there are none.
    """
    groups, causes = lost.groups(_CAUSE, "acked_us", CAUSES_COMPARED)
    steps = [_steps(rows, "them", faults, stopped, elections) for rows in groups]
    alike: list[list[int]] = []
    latest: dict[tuple[Any, ...], list[int]] = {}
    for number in sorted(range(len(groups)), key=lambda number: steps[number][-1][0]):
        kind = _kind_of(groups[number][0], len(steps[number]))
        known = latest.get(kind)
        if known is not None and _is_same(number, known, groups, steps):
            known.append(number)
        else:
            latest[kind] = [number]
            alike.append(latest[kind])
    alike.sort(key=min)
    parts = []
    for numbers in alike[:CAUSES_SHOWN]:
        records = name_ranges(name for number in numbers for name in groups[number].values("record"))
        said = steps[numbers[0]]
        if sum(len(groups[number]) for number in numbers) == 1:
            said = _steps(groups[numbers[0]], "it", faults, stopped, elections)
        if others := {_place(groups[number][0]) for number in numbers} - {_place(groups[numbers[0]][0])}:
            said = [*said, (said[-1][0], sentence(f"the same happened in {ranges_of_partitions(others)}"))]
        parts.append((records, said))
    shown = [number for numbers in alike[:CAUSES_SHOWN] for number in numbers]
    left_out = causes - len(shown)
    more = counted(len(lost) - sum(len(groups[number]) for number in shown), "more record")
    return parts, f"and {more} with {counted(left_out, 'other cause')}: see" if left_out else ""


def _kind_of(first: Row, steps: int) -> tuple[Any, ...]:
    """Return a key that is equal for records of several partitions that were lost in the same way."""
    brokers = (tuple(first[column] or ()) for column in ("held_by", "erased_on", "disk_lost_on"))
    return steps, first["acks"], first["acked_by"], first["elected"], first["elected_clean"], *brokers


def _is_same(number: int, known: Sequence[int], groups: Sequence[Rows], steps: Sequence[Sequence[Step]]) -> bool:
    """Return True if a group has the same cause as the groups `known`.

    Its steps are the same, or the same happened within TOGETHER_US to a partition that is not yet in `known`.
    """
    if steps[number] == steps[known[0]]:
        return True
    is_soon = steps[number][-1][0] - steps[known[0]][-1][0] <= TOGETHER_US
    return is_soon and _place(groups[number][0]) not in [_place(groups[item][0]) for item in known]


def _place(row: Row) -> tuple[str, int]:
    return (row["topic"], row["partition"])


_CAUSE = (
    "topic", "partition", "acks", "acked_by", "held_by", "elected_us", "erased_reason", "disk_lost_reason"
)  # fmt: skip


def _steps(rows: Rows, them: str, faults: Sequence[Row], stopped: Sequence[Row], elections: Rows) -> list[Step]:
    """Return the steps that led to a loss, in order; `them` is the pronoun for the records, `it` or `them`.

    The faults are those in force between the send and the acknowledgement.
    """
    first = min(rows, key=lambda row: row["acked_us"])
    steps = [_ack_step(first, them)]
    if (chosen := _another_was_chosen(first, elections)) is not None:
        steps.append((chosen["at_us"], sentence(chosen["reason"])))
    steps += [
        (fault["from_us"], sentence(fault["reason"]))
        for fault in faults
        if fault["from_us"] <= first["acked_us"] and first["sent_us"] < fault["until_us"] > fault["from_us"]
    ]
    steps += [
        (stop["from_us"], sentence(stop["reason"]))
        for stop in stopped
        if stop["node"] in (first["held_by"] or [first["acked_by"]])
        and first["acked_us"] <= stop["from_us"] <= (first["elected_us"] or stop["from_us"])
    ]
    for at, why, nodes in (
        ("disk_lost_us", "disk_lost_reason", "disk_lost_on"),
        ("elected_us", "elected_reason", None),
        ("erased_us", "erased_reason", "erased_on"),
    ):
        if first[at] is not None:
            of_all = f" (on {joined(first[nodes])})" if nodes and len(first[nodes]) > 1 else ""
            steps.append((first[at], sentence(first[why] + of_all)))
    return sorted(steps, key=lambda step: step[0])


def _another_was_chosen(lost: Row, elections: Rows) -> Row | None:
    """Return the last election before a lost record's acknowledgement if it chose another broker, otherwise None."""
    there = elections.where(topic=lost["topic"], partition=lost["partition"])
    before = (election for election in there if election["at_us"] <= lost["acked_us"])
    last = max(before, key=lambda election: election["seq"], default=None)
    return None if last is None or last["leader"] == lost["acked_by"] else last


def _ack_step(first: Row, them: str) -> Step:
    held = first["held_by"] or []
    if held == [first["acked_by"]]:
        had = f"no other replica had {them} yet"
    elif held:
        had = f"{joined(held)} had {them} in {'its log' if len(held) == 1 else 'their logs'}"
    else:
        had = f"no replica's log shows {them}"
    said = f"{first['acked_by']} acknowledged {them} with {acks_name(first['acks'])}; {had}"
    return (first["acked_us"], sentence(said))


def sentence(text: str) -> str:
    """Return the text on one line, with exactly one full stop at its end."""
    return " ".join(text.split()).rstrip(".") + "."
