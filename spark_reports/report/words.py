"""The report's sentences and short forms. Reasons in the trace are quoted, not rewritten."""

from __future__ import annotations

import heapq
import itertools
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence

from replica.trace.alike import Told, together
from replica.trace.ranges import counted_up, range_text, split_record_name
from spark_reports.report.rows import Row, Rows
from spark_reports.transforms.records import UNDONE

NAMES_SHOWN = 12


def seconds(us: int | None) -> str:
    """8500000 -> `8.5 s`, 1400 -> `1.4 ms`, None -> a dash."""
    if us is None:
        return "–"
    if us == 0:
        return "0"
    if abs(us) < 1_000_000:
        return f"{us / 1000:.3f}".rstrip("0").rstrip(".") + " ms"
    return f"{us / 1_000_000:.3f}".rstrip("0").rstrip(".") + " s"


def short_time(us: int | None) -> str:
    """To three digits, which are enough for a cell."""
    return seconds(None if us is None else round(us, min(0, 3 - len(str(us)))))


def clock(us: int) -> str:
    """A moment of the run: `14.200`, in seconds."""
    return f"{us / 1_000_000:,.3f}"


_PIECE = re.compile(r"(?<![\w.-])((?=[\w.-]{1,24}(?![\w-]))[\w.]+(?:-\w+)+|\d[\d,.]* (?:m?s|%)(?!\w))")


def in_pieces(text: str) -> list[str]:
    """For lines in large type. Every second piece should not be broken: a name at its hyphens, unless it is long, or a
    number and its unit."""
    return _PIECE.split(text)


def acks_name(acks: int | None) -> str:
    return "acks=all" if acks == -1 else f"acks={acks}"


def joined(words: Sequence[str]) -> str:
    """`b1`, `b1 and b2`, `b1, b2 and b3`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _in_order(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Each once: r2 before r10. As there may be a million, their numbers are kept and not they."""
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
    """{r10, r11, r12, r20} -> `r10..r12, r20`; of many stretches the first are named and the rest counted, if it is
    more than one name."""
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


def counted(number: int, thing: str) -> str:
    """`1 record`, `5 records`."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def were(number: int) -> str:
    return "was" if number == 1 else "were"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def headline(anomalies: Rows, counts: Sequence[Row], silent: Rows) -> list[str]:
    """The verdict in words, most serious first; one sentence per kind of anomaly. Never empty.

    in: rows of anomalies and record_counts, and the records that are missing of those that were handed over
    """
    kinds = set(anomalies.values("anomaly"))
    said = [say(anomalies.where(anomaly=kind)) for kind, say in _SENTENCES.items() if kind in kinds]
    if said:
        return said
    if gone := len(silent):
        return [
            f"No promise was broken, but {counted(gone, 'record')} never arrived: "
            f"{name_ranges(silent.values('record'))}."
        ]
    acked = sum(row["acked"] for row in counts)
    if acked:
        return [f"Nothing was lost: {_all(acked)} in the log, readable, exactly once."]
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
            "Their inputs are done, and nobody writes them any more."
        )
    return " ".join(said)


def _unseen(rows: Rows) -> str:
    return f"{counted(len(rows), 'acknowledged record')} cannot be read at the end: {_names(rows)}."


def _dirty(rows: Rows) -> str:
    return f"{counted(len(rows), 'record')} {were(len(rows))} read that the log no longer has: {_names(rows)}."


def _diverged(rows: Rows) -> str:
    found = set(zip(rows.values("topic"), rows.values("partition"), strict=True))
    places = sorted(f"{topic}-{partition}" for topic, partition in found)
    return (
        f"Replicas of {joined(places)} disagree below their high watermarks, at {counted(len(rows), 'offset')}: "
        f"{name_ranges(map(str, rows.values('offset')))}."
    )


def _duplicated(rows: Rows) -> str:
    return f"{counted(len(rows), 'record')} {_are(len(rows))} in the log more than once: {_names(rows)}."


def _reordered(rows: Rows) -> str:
    stands = "stands" if len(rows) == 1 else "stand"
    return f"{counted(len(rows), 'record')} {stands} in the log after one that was sent later: {_names(rows)}."


def _regressed(rows: Rows) -> str:
    first = rows[0]
    return f"{first['witness']} saw the end of {first['topic']}-{first['partition']} go backwards: {first['detail']}."


def _skipped(rows: Rows) -> str:
    clients = joined(sorted(set(rows.values("witness"))))
    return f"{clients} passed over {counted(len(rows), 'record')} of the log without reading: offsets " + (
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
    """Remarks that matter although no promise was broken.

    in: rows of record_counts, and the records that are missing: those that were handed over, and the others
    """
    said: list[str] = []
    if gone := len(silent):
        said.append(
            f"{counted(gone, 'record')} handed over with acks=0 never arrived: "
            f"{name_ranges(silent.values('record'))}. The producer got no error: with acks=0 nothing is promised."
        )
    if gone := len(unanswered):
        said.append(
            f"{counted(gone, 'record')} without an answer never arrived: "
            f"{name_ranges(unanswered.values('record'))}. The producer got no ack: nothing was promised."
        )
    failed = sum(row["failed"] for row in counts)
    if failed:
        said.append(f"{counted(failed, 'record')} {were(failed)} refused for certain: the producer knows.")
    return said


def reader(stall: Row) -> str:
    """`c1`, or `group g1`. in: a row of read_stalls"""
    return stall["client"] if stall["group"] is None else f"group {stall['group']}"


def rate(per_s: float | None, unit: str) -> str:
    """2500.0 -> `2,500 records/s`, 4.25e8 -> `425 MB/s`; None -> a dash."""
    if per_s is None:
        return "–"
    if unit != "B" or per_s < 1000:
        return f"{per_s:,.0f} {unit}/s"
    return f"{size(per_s)}/s"


def size(count: float | None) -> str:
    """Bytes in powers of a thousand: `170 B`, `1.5 kB`, `12 MB`."""
    if count is None:
        return "–"
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def blame(lost: Rows, elections: Rows) -> str:
    """One sentence or two on the causes of losses, for the table of many runs; empty when nothing was lost."""
    said = []
    who = zip(lost.values("acked_by"), lost.values("acks"), lost.values("elected"), strict=True)
    last = {one: place for place, one in enumerate(who)}
    for row in [lost[place] for place in list(last.values())[:2]]:
        after = ""
        if (chosen := _another_was_chosen(row, elections)) is not None:
            after = f"; {chosen['leader']} had been elected at {clock(chosen['at_us'])} s"
        elif row["elected"] is not None:
            clean = "" if row["elected_clean"] else " in an unclean election"
            after = f"; then {row['elected']} led without it{clean}"
        elif row["disk_lost_on"]:
            after = f"; the disk of {joined(row['disk_lost_on'])} lost bytes"
        held = row["held_by"] or []
        alone = (
            " with no copy elsewhere" if held == [row["acked_by"]] else f" ({joined(held)} had a copy)" if held else ""
        )
        said.append(f"{row['acked_by']} acknowledged with {acks_name(row['acks'])}{alone}{after}.")
    return " ".join(said)


Step = tuple[int, str]


CAUSES_COMPARED = 100
CAUSES_SHOWN = 8
"""A reader cannot distinguish more of them, and there may be one for every failover of an hour."""


def why_lost(
    lost: Rows, faults: Sequence[Row], stopped: Sequence[Row], elections: Rows, names: Collection[str] = ()
) -> tuple[list[tuple[str, list[Step]]], str]:
    """Lost records grouped by shared cause: (names, steps in order of time, each a moment in us and a sentence) of the
    first CAUSES_SHOWN, and a sentence on those left out, empty if there are none. What several partitions have lost in
    the same way is one cause, with the moments of the first.

    in: rows of lost_records, fault_intervals, stopped_intervals, elections     names: as in alike.together
    """
    groups, causes = lost.groups(_CAUSE, "acked_us", CAUSES_COMPARED)
    steps = [_steps(rows, "them", faults, stopped, elections) for rows in groups]
    all_told = [
        Told(steps[number][-1][0], "\n".join(text for _, text in steps[number]), _place(rows[0]), number)
        for number, rows in enumerate(groups)
    ]
    in_time = sorted(all_told, key=lambda told: told.at_us)
    alike = sorted(together(in_time, names), key=lambda one: min(one.numbers))
    told = []
    for one in alike[:CAUSES_SHOWN]:
        records = name_ranges(name for number in one.numbers for name in groups[number].values("record"))
        if sum(len(groups[number]) for number in one.numbers) == 1:
            said = _steps(groups[one.first.number], "it", faults, stopped, elections)
        else:
            moments = (at_us for at_us, _ in steps[one.first.number])
            said = list(zip(moments, one.text.split("\n"), strict=True))
        told.append((records, said))
    shown = [number for one in alike[:CAUSES_SHOWN] for number in one.numbers]
    others = causes - len(shown)
    more = counted(len(lost) - sum(len(groups[number]) for number in shown), "record")
    return told, f"and {more} more, of {counted(others, 'other cause')}: they are in" if others else ""


def _place(row: Row) -> tuple[str, int]:
    return (row["topic"], row["partition"])


_CAUSE = (
    "topic", "partition", "acks", "acked_by", "held_by", "elected_us", "erased_reason", "disk_lost_reason"
)  # fmt: skip


def _steps(rows: Rows, them: str, faults: Sequence[Row], stopped: Sequence[Row], elections: Rows) -> list[Step]:
    """Faults count if they were in force between the sending and the ack: a leader that was frozen acks afterwards.

    them: the word for the records
    """
    first = min(rows, key=lambda row: row["acked_us"])
    steps = [_ack_step(first, them)]
    if (chosen := _another_was_chosen(first, elections)) is not None:
        steps.append((chosen["at_us"], became_leader(chosen["leader"], chosen["clean"], chosen["reason"])))
    steps += [
        (fault["from_us"], sentence(f"{fault['verb']} {joined(fault['targets'])}: {fault['reason']}"))
        for fault in faults
        if fault["from_us"] <= first["acked_us"] and first["sent_us"] < fault["until_us"] > fault["from_us"]
    ]
    steps += [
        (stop["from_us"], sentence(f"{stop['node']} went down: {stop['reason']}"))
        for stop in stopped
        if stop["node"] in (first["held_by"] or [first["acked_by"]])
        and first["acked_us"] <= stop["from_us"] <= (first["elected_us"] or stop["from_us"])
    ]
    if first["disk_lost_us"] is not None:
        nodes = joined(first["disk_lost_on"])
        steps.append((first["disk_lost_us"], sentence(f"the disk of {nodes} lost bytes: {first['disk_lost_reason']}")))
    if first["elected_us"] is not None:
        said = became_leader(first["elected"], first["elected_clean"], first["elected_reason"])
        steps.append((first["elected_us"], said))
    if first["erased_us"] is not None:
        said = f"{joined(first['erased_on'])} truncated: {first['erased_reason']}"
        steps.append((first["erased_us"], sentence(said)))
    return sorted(steps, key=lambda step: step[0])


def _another_was_chosen(lost: Row, elections: Rows) -> Row | None:
    """The election in force at the ack of a lost record, if it was not of the broker that gave the ack."""
    there = elections.where(topic=lost["topic"], partition=lost["partition"])
    before = (election for election in there if election["at_us"] <= lost["acked_us"])
    last = max(before, key=lambda election: election["seq"], default=None)
    return None if last is None or last["leader"] == lost["acked_by"] else last


def became_leader(leader: str, clean: bool, reason: str) -> str:
    return sentence(f"{leader} became leader{'' if clean else ' (unclean)'}: {reason}")


def _ack_step(first: Row, them: str) -> Step:
    held = first["held_by"] or []
    if held == [first["acked_by"]]:
        had = f"no other replica had {them}"
    elif held:
        had = f"{joined(held)} had {them} in their logs"
    else:
        had = f"no log shows {them}"
    said = f"{first['acked_by']} acknowledged {them} with {acks_name(first['acks'])}; {had}"
    return (first["acked_us"], sentence(said))


def sentence(text: str) -> str:
    """On one line, and with a full stop, if it has none."""
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) else text + "."
