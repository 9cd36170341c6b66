"""The report's sentences and short forms. What the trace states as a reason is quoted, not rewritten."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

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


def acks_name(acks: int | None) -> str:
    return "acks=all" if acks == -1 else f"acks={acks}"


def joined(words: Sequence[str]) -> str:
    """`b1`, `b1 and b2`, `b1, b2 and b3`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _parts(name: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.*?)(\d+)", name)
    return (found.group(1), int(found.group(2))) if found else (name, -1)


def sorted_names(names: Iterable[str]) -> list[str]:
    """r2 before r10."""
    return sorted(set(names), key=_parts)


def name_ranges(names: Iterable[str]) -> str:
    """{r10, r11, r12, r20} -> `r10..r12, r20`; of many stretches the first are named and the rest counted."""
    stretches: list[list[str]] = []
    for name in sorted_names(names):
        prefix, number = _parts(name)
        if stretches and number >= 0 and _parts(stretches[-1][-1]) == (prefix, number - 1):
            stretches[-1].append(name)
        else:
            stretches.append([name])
    shown = [
        ", ".join(stretch) if len(stretch) < 3 else f"{stretch[0]}..{stretch[-1]}"
        for stretch in stretches[:NAMES_SHOWN]
    ]
    left_out = sum(map(len, stretches[NAMES_SHOWN:]))
    return ", ".join(shown) + (f" and {left_out} more" if left_out else "")


def counted(number: int, thing: str) -> str:
    """`1 record`, `5 records`."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def were(number: int) -> str:
    return "was" if number == 1 else "were"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def headline(anomalies: Sequence[Row], counts: Sequence[Row], missing: Sequence[Row] = ()) -> list[str]:
    """The verdict in words, most serious first; one sentence per kind of anomaly. Never empty.

    in: rows of anomalies and record_counts, and the records that are missing
    """
    by_kind: dict[str, list[Row]] = {}
    for row in anomalies:
        by_kind.setdefault(row["anomaly"], []).append(row)
    said = [say(by_kind[kind]) for kind, say in _SENTENCES.items() if kind in by_kind]
    if said:
        return said
    silent = [row["record"] for row in missing if row["handed_over"]]
    if silent:
        return [
            f"No promise was broken, but {counted(len(silent), 'record')} vanished in silence: {name_ranges(silent)}."
        ]
    acked = sum(row["acked"] for row in counts)
    if acked:
        return [f"Nothing was lost: {_all(acked)} in the log, readable, exactly once."]
    return ["No anomaly was found. No record was acknowledged, so none could be lost."]


def _all(acked: int) -> str:
    return "the one acknowledged record is" if acked == 1 else f"all {acked:,} acknowledged records are"


def _names(rows: Sequence[Row]) -> str:
    return name_ranges(row["witness"] for row in rows)


def _lost(rows: Sequence[Row]) -> str:
    return f"{counted(len(rows), 'acknowledged record')} {were(len(rows))} lost: {_names(rows)}."


def _unseen(rows: Sequence[Row]) -> str:
    return f"{counted(len(rows), 'acknowledged record')} cannot be read by any consumer at the end: {_names(rows)}."


def _dirty(rows: Sequence[Row]) -> str:
    return f"{counted(len(rows), 'record')} {were(len(rows))} read by a consumer and then vanished: {_names(rows)}."


def _diverged(rows: Sequence[Row]) -> str:
    places = sorted({f"{row['topic']}-{row['partition']}" for row in rows})
    return (
        f"Replicas of {joined(places)} disagree below their high watermarks, at {counted(len(rows), 'offset')}: "
        f"{name_ranges(str(row['offset']) for row in rows)}."
    )


def _duplicated(rows: Sequence[Row]) -> str:
    return f"{counted(len(rows), 'record')} {_are(len(rows))} in the log more than once: {_names(rows)}."


def _reordered(rows: Sequence[Row]) -> str:
    stands = "stands" if len(rows) == 1 else "stand"
    return f"{counted(len(rows), 'record')} {stands} in the log after one that was sent later: {_names(rows)}."


def _regressed(rows: Sequence[Row]) -> str:
    first = rows[0]
    return f"{first['witness']} saw the end of {first['topic']}-{first['partition']} go backwards: {first['detail']}."


def _skipped(rows: Sequence[Row]) -> str:
    clients = joined(sorted({row["witness"] for row in rows}))
    return f"{clients} passed over {counted(len(rows), 'record')} of the log without reading: offsets " + (
        f"{name_ranges(str(row['offset']) for row in rows)}."
    )


def _broken(rows: Sequence[Row]) -> str:
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


def notes(counts: Sequence[Row], missing: Sequence[Row]) -> list[str]:
    """What is worth saying although no promise was broken."""
    silent = [row["record"] for row in missing if row["handed_over"]]
    open_ended = [row["record"] for row in missing if not row["handed_over"]]
    said: list[str] = []
    if silent:
        said.append(
            f"{counted(len(silent), 'record')} handed over with acks=0 {_are(len(silent))} not in the log: "
            f"{name_ranges(silent)}. Nobody was told: with acks=0 nothing is promised."
        )
    if open_ended:
        said.append(
            f"{counted(len(open_ended), 'record')} without an answer {_are(len(open_ended))} not in the log: "
            f"{name_ranges(open_ended)}. The producer was never told that they were written."
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


def blame(lost: Sequence[Row], elections: Sequence[Row]) -> str:
    """One sentence or two on who brought losses about, for the table of many runs; empty when nothing was lost."""
    said = []
    for row in {(one["acked_by"], one["acks"], one["elected"]): one for one in lost}.values():
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
    return " ".join(said[:2])


Step = tuple[int, str]


CAUSES_SHOWN = 8
"""A reader tells no more of them apart, and there may be one for every failover of an hour."""


def why_lost(
    lost: Sequence[Row], faults: Sequence[Row], stopped: Sequence[Row], elections: Sequence[Row]
) -> tuple[list[tuple[str, list[Step]]], str]:
    """Lost records grouped by shared cause: (names, steps in order of time, each a moment in us and a sentence) of the
    first CAUSES_SHOWN, and a sentence on those left out, empty if there are none.

    in: rows of lost_records, fault_intervals, stopped_intervals, elections
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in lost:
        cause = (row["topic"], row["partition"], row["acks"], row["acked_by"], tuple(row["held_by"] or ()),
                 row["elected_us"], row["erased_reason"], row["disk_lost_reason"])  # fmt: skip
        groups.setdefault(cause, []).append(row)
    in_time = sorted(groups.values(), key=lambda rows: min(row["acked_us"] for row in rows))
    told = [
        (
            name_ranges(row["record"] for row in rows),
            sorted(_steps(rows, faults, stopped, elections), key=lambda step: step[0]),
        )
        for rows in in_time[:CAUSES_SHOWN]
    ]
    others = in_time[CAUSES_SHOWN:]
    records = counted(sum(map(len, others)), "record")
    return told, f"and {records} more, of {counted(len(others), 'other cause')}: they are in" if others else ""


def _steps(rows: Sequence[Row], faults: Sequence[Row], stopped: Sequence[Row], elections: Sequence[Row]) -> list[Step]:
    """Faults count if they were in force between the sending and the ack: a leader that was frozen acks afterwards."""
    first = min(rows, key=lambda row: row["acked_us"])
    steps = [_ack_step(first, len(rows))]
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
    return steps


def _another_was_chosen(lost: Row, elections: Sequence[Row]) -> Row | None:
    """The election in force at the ack of a lost record, if it was not of the broker that gave the ack."""
    before = [
        election
        for election in elections
        if (election["topic"], election["partition"]) == (lost["topic"], lost["partition"])
        and election["at_us"] <= lost["acked_us"]
    ]
    last = max(before, key=lambda election: election["seq"], default=None)
    return None if last is None or last["leader"] == lost["acked_by"] else last


def became_leader(leader: str, clean: bool, reason: str) -> str:
    kind = "" if clean or reason.startswith("unclean election") else " in an unclean election"
    return sentence(f"{leader} became leader{kind}: {reason}")


def _ack_step(first: Row, how_many: int) -> Step:
    held, them = first["held_by"] or [], "it" if how_many == 1 else "them"
    if held == [first["acked_by"]]:
        had = f"no other replica had {them}"
    elif held:
        had = f"{joined(held)} had {them} in their logs"
    else:
        had = f"no log shows {them}"
    return (first["acked_us"], f"{first['acked_by']} acknowledged {them} with {acks_name(first['acks'])}; {had}.")


def sentence(text: str) -> str:
    """With a full stop, if it has none."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else text + "."
