"""Describe waits of clients for seconds, and their reasons in the trace. Even a run without losses can have them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from replica.trace.alike import TOGETHER_US
from replica.trace.ranges import counted, ranges_of_partitions
from spark_reports.report import words
from spark_reports.report.rows import Row, Rows
from spark_reports.transforms.availability import LEADER_DOWN, LEADERLESS, UNDER_MIN_ISR

Tables = Mapping[str, Rows]

WORTH_TELLING_US = 2_000_000
STALLS_TOLD = 3
STALLS_COMPARED = 1_000
FAULTS_TOLD = 3
ELECTIONS_TOLD = 2
_ISR_TOO_SMALL = {"NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
"""Errors that only producers with acks=all get."""

_TOLD_BY_TABLES = {"no_leader", "leader_down", "leader_starting", "min_isr", "follower_behind", "unknown"}
"""Causes of waits in summary.json that `_leaders` and `_followers` describe in more detail from the tables."""


class Fact(NamedTuple):
    """A fact that explains a wait.

    `text` is a clause without a full stop. `short` is its short form for the table of many runs, "" to omit it there.
    """

    at_us: int
    text: str
    short: str


class Standstill(NamedTuple):
    """A wait and its reasons.

    Attributes:
        stood: clause that names the time, the duration and the partition, without a full stop.
        facts: facts about that time in order: faults, leaders, elections, the ISR, followers that held back the high
            watermark.
        about: the row of a result table that describes the wait.
    """

    stood: str
    facts: list[Fact]
    about: Row

    @property
    def what(self) -> str:
        return words.sentence(self.stood)

    @property
    def steps(self) -> list[words.Step]:
        return [(fact.at_us, words.sentence(fact.text)) for fact in self.facts]

    @property
    def brief(self) -> str:
        """The wait and its reasons as one sentence."""
        short = "; ".join(dict.fromkeys(fact.short for fact in self.facts if fact.short))
        return words.sentence(f"{self.stood}: {short}" if short else self.stood)


def standstills(tables: Tables) -> list[Standstill]:
    """Return the longest wait of a producer and the longest of a consumer, if they lasted WORTH_TELLING_US.

    If no client waited so long, return the longest time without a running leader, or else the longest stall of a high
    watermark.

    Args:
        tables: one run's rows of write_stalls, read_stalls, unavailability, hw_stalls, elections, isr_changes,
            fault_intervals, partition_states and record_counts.
    """
    writes, reads = _longest(tables["write_stalls"]), _longest(tables["read_stalls"])
    known = [_no_write(row, tables) for row in writes] + [_no_read(row, tables) for row in reads]
    if not known:
        offline = (row for row in tables["unavailability"] if row["kind"] in (LEADERLESS, LEADER_DOWN))
        known = [_no_leader(row, tables) for row in _longest(offline)]
    if not known:
        known = [_no_progress(row, tables) for row in _longest(tables["hw_stalls"])]
    return known


def with_causes(known: Sequence[Standstill], waits: Iterable[Mapping[str, Any]]) -> list[Standstill]:
    """Add facts from summary.json to the waits: the causes that clients report, and advice on how to shorten a wait.

    `waits` is the list of waits in summary.json.
    """
    found = []
    for item in known:
        about, facts = item.about, list(item.facts)
        for wait in waits:
            is_its = about.get("client") == wait["client"] or about.get("group_id") == wait["client"]
            if wait["partition"] != _place(about) or not is_its:
                continue
            facts += [
                Fact(part["from_us"], "; ".join(filter(None, (part["sentence"], part["advice"]))), "")
                for part in wait["stretches"]
                if part["cause"] not in _TOLD_BY_TABLES and _shared_us(_as_row(part), about) > 0
            ]
        found.append(item._replace(facts=sorted(facts, key=lambda fact: fact.at_us)))
    return found


def _as_row(part: Mapping[str, Any]) -> Row:
    return {"from_us": part["from_us"], "until_us": part["to_us"]}


def others(known: Sequence[Standstill], tables: Tables) -> str:
    """Return a sentence with the number of clients' long waits that are not in `known`, empty if there are none."""
    left = sum(1 for table in ("write_stalls", "read_stalls") for _ in _long(tables[table])) - len(known)
    least = words.seconds(WORTH_TELLING_US)
    are = "is" if left == 1 else "are"
    waits = f"{counted(left, 'more wait')} of {least} or longer {are} listed under Unavailability."
    return waits if known and left > 0 else ""


def held_back(stalls: Iterable[Row], described: Sequence[Standstill] = ()) -> list[str]:
    """Return sentences about the longest stalls of high watermarks and the followers that caused them.

    Stalls that ended together share a sentence. Stalls during a wait in `described` are left out.

    Args:
        stalls: rows of hw_stalls.
        described: waits that the page describes elsewhere.
    """
    others = (row for row in _long(stalls) if not any(_meet(row, item.about) for item in described))
    longest = heapq.nlargest(STALLS_COMPARED, others, key=_length_us)
    together: list[list[Row]] = []
    latest: dict[tuple[tuple[str, ...], bool, str], list[Row]] = {}
    for row in sorted(longest, key=lambda row: row["until_us"]):
        kind = (tuple(row["pinned_by"] or ()), row["under_min_isr_us"] > 0, row["ended_by"])
        known = latest.get(kind)
        is_soon = known is not None and row["until_us"] - known[0]["until_us"] <= TOGETHER_US
        if known is not None and is_soon and _place(row) not in map(_place, known):
            known.append(row)
        else:
            latest[kind] = [row]
            together.append(latest[kind])
    worst = heapq.nlargest(STALLS_TOLD, together, key=lambda rows: max(map(_length_us, rows)))
    return [_held_together(rows) for rows in sorted(worst, key=lambda rows: min(row["from_us"] for row in rows))]


def _held_together(stalls: Sequence[Row]) -> str:
    """Return a sentence about the longest of several stalls that ended together, and the partitions of the others."""
    longest, *others = sorted(stalls, key=lambda row: (-_length_us(row), _place(row)))
    also = ranges_of_partitions([(row["topic"], row["partition"]) for row in others])
    return words.sentence(f"{_stood(longest)}: {why_held(longest)}{f'; the same happened in {also}' if others else ''}")


def why_held(stall: Row) -> str:
    """Return the reasons of a stall as text.

    An example is `b3 was in the ISR but lacked them for 9.3 s; the ISR was below min.insync.replicas for 20 s`.
    """
    them = "it" if stall["waiting_records"] == 1 else "them"
    said = []
    if stall["pinned_by"]:
        who, were = words.joined(stall["pinned_by"]), words.were(len(stall["pinned_by"]))
        said.append(f"{who} {were} in the ISR but lacked {them} for {words.seconds(stall['pinned_us'])}")
    if stall["under_min_isr_us"]:
        said.append(f"the ISR was below min.insync.replicas for {words.seconds(stall['under_min_isr_us'])}")
    return "; ".join(said) or f"no follower held it back; the stall ended when {stall['ended_by']}"


# ------------------------------------------------------------------------------------------------------- what stood


def _no_write(stall: Row, tables: Tables) -> Standstill:
    what = f"{_for(stall)} no write of {stall['client']} to {_place(stall)} succeeded"
    what += "" if stall["recovered"] else ", nor did any later write"
    if stall["refused"]:
        errors = f" ({words.joined(stall['errors'])})" if stall["errors"] else ""
        what += f"; {counted(stall['refused'], 'attempt')} {words.were(stall['refused'])} refused or unanswered{errors}"
    # With acks=0 or acks=1 an acknowledgement waits for no follower. Refusals can reveal which acks a producer has.
    levels = {row["acks"] for row in tables["record_counts"] if row["topic"] == stall["topic"]}
    followers: list[Fact] = []
    if -1 in levels:
        of_all = levels == {-1} or not _ISR_TOO_SMALL.isdisjoint(stall["errors"])
        followers = _followers(stall, tables, "" if of_all else "for acks=all: ")
    return _standstill(what, _leaders(stall, tables) + followers, stall, tables)


def _no_read(stall: Row, tables: Tables) -> Standstill:
    waiting = counted(stall["waiting_records"], "committed record")
    what = f"{_for(stall)} {words.reader(stall)} read nothing from {_place(stall)}, where {waiting} waited"
    what += "" if stall["recovered"] else ", and did not read later either"
    if stall["errors"]:
        what += f"; its requests were refused with {words.joined(stall['errors'])}"
    return _standstill(what, _leaders(stall, tables), stall, tables)


def _no_leader(window: Row, tables: Tables) -> Standstill:
    what = f"{_for(window)} {_place(window)} had no running leader"
    return _standstill(what, _leaders(window, tables), window, tables)


def _no_progress(stall: Row, tables: Tables) -> Standstill:
    return _standstill(f"{_stood(stall)}: {why_held(stall)}", [], stall, tables)


def _standstill(what: str, facts: Sequence[Fact], about: Row, tables: Tables) -> Standstill:
    in_time = sorted([*_faults(about, tables), *facts], key=lambda fact: fact.at_us)
    return Standstill(what, in_time, about)


def _stood(stall: Row) -> str:
    return (
        f"From {words.clock(stall['from_us'])} s the high watermark of {_place(stall)} stood still at "
        f"{stall['high_watermark']} for {words.seconds(_length_us(stall))} with "
        f"{counted(stall['waiting_records'], 'record')} above it"
    )


# --------------------------------------------------------------------------------------------------------- and why


def _leaders(wait: Row, tables: Tables) -> list[Fact]:
    facts = []
    for row in _met(wait, tables["unavailability"]):
        if row["kind"] == LEADERLESS:
            facts.append(Fact(row["from_us"], f"{row['reason']}; it had no leader {_until(row)}", "no leader"))
        elif row["kind"] == LEADER_DOWN:
            facts.append(
                Fact(row["from_us"], f"the leader was down {_until(row)}: {row['reason']}", "the leader was down")
            )
    chosen = (
        row
        for row in _rows_of_partition(wait, tables["elections"])
        if wait["from_us"] <= row["at_us"] <= wait["until_us"]
    )
    for row in heapq.nsmallest(ELECTIONS_TOLD, chosen, key=lambda row: row["seq"]):
        facts.append(Fact(row["at_us"], row["reason"], f"{row['leader']} was elected at {words.clock(row['at_us'])} s"))
    return facts


def _followers(wait: Row, tables: Tables, to_whom: str) -> list[Fact]:
    """Return facts about followers that delayed acks=all: an ISR below min ISR, and followers that did not fetch.

    `to_whom` is a prefix of each fact's text.
    """
    facts = []
    small = [row for row in _met(wait, tables["unavailability"]) if row["kind"] == UNDER_MIN_ISR]
    if small:
        last = words.clock(small[-1]["until_us"])
        again = f" and {counted(len(small) - 1, 'more time')} until {last} s" if small[1:] else ""
        began = _state(small[0], tables)
        isr = f"{{{', '.join(began['isr'])}}} was below min.insync.replicas ({began['min_isr']})"
        fell = f"{to_whom}the ISR {isr} {_until(small[0])}{again}: {small[0]['reason']}"
        facts.append(Fact(small[0]["from_us"], fell, "the ISR was below min.insync.replicas"))
    if pinned := [row for row in _met(wait, tables["hw_stalls"]) if row["pinned_by"]]:
        worst = max(pinned, key=lambda row: row["pinned_us"])
        who = words.joined(worst["pinned_by"])
        behind = f"in the ISR and did not fetch past it for {words.seconds(worst['pinned_us'])}"
        held = f"{who} {words.were(len(worst['pinned_by']))} {behind}"
        stood = f"{to_whom}the high watermark stood still at {worst['high_watermark']}: {held}"
        facts.append(Fact(worst["from_us"], stood, f"{who} held back the high watermark"))
        facts += [
            Fact(row["at_us"], row["reason"], "")
            for row in _rows_of_partition(wait, tables["isr_changes"])
            if worst["from_us"] < row["at_us"] <= worst["until_us"]
            # Omit changes that made the ISR too small, which are listed above.
            if not set(row["left"]).isdisjoint(worst["pinned_by"]) and row["at_us"] not in [at for at, _, _ in facts]
        ]
    return facts


def _state(window: Row, tables: Tables) -> Row:
    """Return the row of partition_states that began an interval under min ISR."""
    states = _rows_of_partition(window, tables["partition_states"]).where(from_us=window["from_us"])
    return next(row for row in states if len(row["isr"]) < row["min_isr"])


def _faults(wait: Row, tables: Tables) -> list[Fact]:
    """Return facts about at most FAULTS_TOLD faults in force during a wait, those with the longest overlap."""
    met = (row for row in tables["fault_intervals"] if _shared_us(row, wait) > 0)
    worst = heapq.nsmallest(FAULTS_TOLD, met, key=lambda row: (-_shared_us(row, wait), row["from_us"], row["fault"]))
    return [Fact(row["from_us"], f"{row['reason']} ({_until(row)})", row["reason"]) for row in worst]


# ---------------------------------------------------------------------------------------------------- rows and times


def _long(rows: Iterable[Row]) -> Iterator[Row]:
    return (row for row in rows if _length_us(row) >= WORTH_TELLING_US)


def _longest(rows: Iterable[Row]) -> list[Row]:
    """Return a list with the longest interval, empty if none lasted WORTH_TELLING_US."""
    return heapq.nsmallest(1, _long(rows), key=lambda row: (-_length_us(row), row["from_us"], _place(row)))


def _rows_of_partition(wait: Row, rows: Rows) -> Rows:
    return rows.where(topic=wait["topic"], partition=wait["partition"])


def _met(wait: Row, rows: Rows) -> list[Row]:
    return sorted((row for row in _rows_of_partition(wait, rows) if _meet(row, wait)), key=lambda row: row["from_us"])


def _meet(row: Row, other: Row) -> bool:
    return _place(row) == _place(other) and _shared_us(row, other) > 0


def _shared_us(row: Row, other: Row) -> int:
    return int(min(row["until_us"], other["until_us"]) - max(row["from_us"], other["from_us"]))


def _length_us(row: Row) -> int:
    return int(row["until_us"] - row["from_us"])


def _place(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _until(row: Row) -> str:
    return f"until {words.clock(row['until_us'])} s"


def _for(row: Row) -> str:
    return (
        f"For {words.short_time(_length_us(row))} ({words.clock(row['from_us'])} to {words.clock(row['until_us'])} s)"
    )
