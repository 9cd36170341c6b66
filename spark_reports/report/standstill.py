"""Clients that waited for seconds, and the reasons in the trace: a run that lost nothing can stand still, too."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replica.trace.alike import Alike, Told, together
from replica.trace.ranges import ranges_of_partitions
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
"""Only acks=all is refused with these."""


class Fact(NamedTuple):
    """`text`: without a full stop. `short`: in a few words, for the table of many runs; empty to leave it out there."""

    at_us: int
    text: str
    short: str


class Standstill(NamedTuple):
    """`what`: one sentence: for how long, who, where. `facts`: sentences about the events of that time, in order:
    faults, leaders, elections, the ISR, the holders of the high watermark. `about`: the row that it describes."""

    what: str
    facts: list[Fact]
    about: Row

    @property
    def steps(self) -> list[words.Step]:
        return [(fact.at_us, words.sentence(fact.text)) for fact in self.facts]

    @property
    def brief(self) -> str:
        """One sentence."""
        short = "; ".join(dict.fromkeys(fact.short for fact in self.facts if fact.short))
        return words.sentence(f"{self.what.removesuffix('.')}: {short}" if short else self.what)


def standstills(tables: Tables) -> list[Standstill]:
    """The longest wait of a producer and the longest of a consumer, if they lasted WORTH_TELLING_US; if no client
    waited so long, the longest time that a partition had no running leader, or else that a high watermark stood still.

    in: one run's rows of write_stalls, read_stalls, unavailability, hw_stalls, elections, isr_changes, fault_intervals,
        partition_states, record_counts
    """
    writes, reads = _longest(tables["write_stalls"]), _longest(tables["read_stalls"])
    told = [_no_write(row, tables) for row in writes] + [_no_read(row, tables) for row in reads]
    if not told:
        offline = (row for row in tables["unavailability"] if row["kind"] in (LEADERLESS, LEADER_DOWN))
        told = [_no_leader(row, tables) for row in _longest(offline)]
    if not told:
        told = [_no_progress(row, tables) for row in _longest(tables["hw_stalls"])]
    return told


def others(told: Sequence[Standstill], tables: Tables) -> str:
    """How many more waits of clients there were, in a sentence; empty if none."""
    left = sum(1 for table in ("write_stalls", "read_stalls") for _ in _long(tables[table])) - len(told)
    least = words.seconds(WORTH_TELLING_US)
    return f"Of clients that waited {least} or longer, {left} more: see Unavailability." if told and left > 0 else ""


def held_back(stalls: Iterable[Row], told: Sequence[Standstill] = (), names: Collection[str] = ()) -> list[str]:
    """The longest stalls of high watermarks with their holders, those that ended together in one sentence; without
    those in the time of one already listed.

    in: rows of hw_stalls       names: as in alike.together
    """
    untold = (row for row in _long(stalls) if not any(_meet(row, one.about) for one in told))
    longest = heapq.nlargest(STALLS_COMPARED, untold, key=_length_us)
    ended = sorted(longest, key=lambda row: row["until_us"])
    all_told = (
        Told(row["until_us"], f"{_stood(row)}: {_why_held(row, 'them')}.", (row["topic"], row["partition"]), number)
        for number, row in enumerate(ended)
    )
    alike = together(all_told, names)
    worst = heapq.nlargest(STALLS_TOLD, alike, key=lambda one: max(_length_us(ended[n]) for n in one.numbers))
    in_order = sorted(worst, key=lambda one: min(ended[n]["from_us"] for n in one.numbers))
    return [_held_together(one, ended[one.first.number]) for one in in_order]


def _held_together(stalls: Alike, first: Row) -> str:
    if len(stalls.places) == 1:
        return f"{_stood(first)}: {why_held(first)}."
    return f"{ranges_of_partitions(stalls.places)}: {stalls.text[0].lower()}{stalls.text[1:]}"


def why_held(stall: Row) -> str:
    """`b3 was in the ISR without them for 9.3 s; the ISR was below min.insync.replicas for 20 s`"""
    return _why_held(stall, "it" if stall["waiting_records"] == 1 else "them")


def _why_held(stall: Row, them: str) -> str:
    """them: the word for the records above the high watermark"""
    said = []
    if stall["pinned_by"]:
        who, were = words.joined(stall["pinned_by"]), words.were(len(stall["pinned_by"]))
        said.append(f"{who} {were} in the ISR without {them} for {words.seconds(stall['pinned_us'])}")
    if stall["under_min_isr_us"]:
        said.append(f"the ISR was below min.insync.replicas for {words.seconds(stall['under_min_isr_us'])}")
    return "; ".join(said) or f"no follower held it ({stall['ended_by']})"


# ------------------------------------------------------------------------------------------------------- what stood


def _no_write(stall: Row, tables: Tables) -> Standstill:
    what = f"{_for(stall)} no write of {stall['client']} to {_place(stall)} succeeded"
    what += "" if stall["recovered"] else ", and none after it"
    if stall["refused"]:
        errors = f" ({words.joined(stall['errors'])})" if stall["errors"] else ""
        what += f"; {words.counted(stall['refused'], 'attempt')} refused or unanswered{errors}"
    # An ack with acks=0 or acks=1 waits for no follower; which of them this producer asked for, its refusals may show.
    levels = {row["acks"] for row in tables["record_counts"] if row["topic"] == stall["topic"]}
    followers: list[Fact] = []
    if -1 in levels:
        of_all = levels == {-1} or not _ISR_TOO_SMALL.isdisjoint(stall["errors"])
        followers = _followers(stall, tables, "" if of_all else "for acks=all: ")
    return _told(what, _leaders(stall, tables) + followers, stall, tables)


def _no_read(stall: Row, tables: Tables) -> Standstill:
    waiting = words.counted(stall["waiting_records"], "committed record")
    what = f"{_for(stall)} {words.reader(stall)} read nothing of {_place(stall)}, where {waiting} waited"
    what += "" if stall["recovered"] else ", nor did it read them later"
    if stall["errors"]:
        what += f"; it was refused with {words.joined(stall['errors'])}"
    return _told(what, _leaders(stall, tables), stall, tables)


def _no_leader(window: Row, tables: Tables) -> Standstill:
    what = f"{_for(window)} {_place(window)} had no running leader"
    return _told(what, _leaders(window, tables), window, tables)


def _no_progress(stall: Row, tables: Tables) -> Standstill:
    return _told(f"{_stood(stall)}: {why_held(stall)}", [], stall, tables)


def _told(what: str, facts: Sequence[Fact], about: Row, tables: Tables) -> Standstill:
    in_time = sorted([*_faults(about, tables), *facts], key=lambda fact: fact.at_us)
    return Standstill(words.sentence(what), in_time, about)


def _stood(stall: Row) -> str:
    return (
        f"At {words.clock(stall['from_us'])} s the high watermark of {_place(stall)} stood still at "
        f"{stall['high_watermark']} for {words.seconds(_length_us(stall))} with "
        f"{words.counted(stall['waiting_records'], 'record')} above it"
    )


# --------------------------------------------------------------------------------------------------------- and why


def _leaders(wait: Row, tables: Tables) -> list[Fact]:
    facts = []
    for row in _met(wait, tables["unavailability"]):
        if row["kind"] == LEADERLESS:
            facts.append(Fact(row["from_us"], f"leaderless {_until(row)} ({row['reason']})", "no leader"))
        elif row["kind"] == LEADER_DOWN:
            facts.append(Fact(row["from_us"], f"the leader was down {_until(row)}: {row['reason']}", "the leader down"))
    chosen = (row for row in _there(wait, tables["elections"]) if wait["from_us"] <= row["at_us"] <= wait["until_us"])
    for row in heapq.nsmallest(ELECTIONS_TOLD, chosen, key=lambda row: row["seq"]):
        became = words.became_leader(row["leader"], row["clean"], row["reason"])
        facts.append(Fact(row["at_us"], became, f"{row['leader']} elected at {words.clock(row['at_us'])} s"))
    return facts


def _followers(wait: Row, tables: Tables, to_whom: str) -> list[Fact]:
    """The conditions of an ack with acks=all: enough replicas in sync, and all of them beyond the record."""
    facts = []
    small = [row for row in _met(wait, tables["unavailability"]) if row["kind"] == UNDER_MIN_ISR]
    if small:
        again = f" and {len(small) - 1} more times until {words.clock(small[-1]['until_us'])} s" if small[1:] else ""
        began = _state(small[0], tables)
        isr = f"{{{', '.join(began['isr'])}}} was below min.insync.replicas ({began['min_isr']})"
        fell = f"{to_whom}the ISR {isr} {_until(small[0])}{again}: {small[0]['reason']}"
        facts.append(Fact(small[0]["from_us"], fell, "the ISR below min.insync.replicas"))
    if pinned := [row for row in _met(wait, tables["hw_stalls"]) if row["pinned_by"]]:
        worst = max(pinned, key=lambda row: row["pinned_us"])
        who = words.joined(worst["pinned_by"])
        behind = f"in the ISR and did not fetch beyond it for {words.seconds(worst['pinned_us'])}"
        held = f"{who} {words.were(len(worst['pinned_by']))} {behind}"
        stood = f"{to_whom}the high watermark stood still at {worst['high_watermark']}: {held}"
        facts.append(Fact(worst["from_us"], stood, f"{who} held the high watermark"))
        facts += [
            Fact(row["at_us"], _left(row), "")
            for row in _there(wait, tables["isr_changes"])
            if worst["from_us"] < row["at_us"] <= worst["until_us"]
            # They may have made the ISR too small: listed above.
            if not set(row["left"]).isdisjoint(worst["pinned_by"]) and row["at_us"] not in [at for at, _, _ in facts]
        ]
    return facts


def _left(change: Row) -> str:
    """A reason may begin with what happened."""
    left = f"{words.joined(change['left'])} left the ISR"
    return change["reason"] if change["reason"].startswith(left) else f"{left}: {change['reason']}"


def _state(window: Row, tables: Tables) -> Row:
    """The controller's decision with which a window under min ISR began."""
    states = _there(window, tables["partition_states"]).where(from_us=window["from_us"])
    return next(row for row in states if len(row["isr"]) < row["min_isr"])


def _faults(wait: Row, tables: Tables) -> list[Fact]:
    """Those in force in that time, the ones that share most of it if they are many."""
    met = (row for row in tables["fault_intervals"] if _shared_us(row, wait) > 0)
    worst = heapq.nsmallest(FAULTS_TOLD, met, key=lambda row: (-_shared_us(row, wait), row["from_us"], row["fault"]))
    return [Fact(row["from_us"], f"{row['reason']} ({_until(row)})", row["reason"]) for row in worst]


# ---------------------------------------------------------------------------------------------------- rows and times


def _long(rows: Iterable[Row]) -> Iterator[Row]:
    return (row for row in rows if _length_us(row) >= WORTH_TELLING_US)


def _longest(rows: Iterable[Row]) -> list[Row]:
    """The longest, if it is worth telling: one row or none."""
    return heapq.nsmallest(1, _long(rows), key=lambda row: (-_length_us(row), row["from_us"], _place(row)))


def _there(wait: Row, rows: Rows) -> Rows:
    return rows.where(topic=wait["topic"], partition=wait["partition"])


def _met(wait: Row, rows: Rows) -> list[Row]:
    return sorted((row for row in _there(wait, rows) if _meet(row, wait)), key=lambda row: row["from_us"])


def _meet(one: Row, other: Row) -> bool:
    return _place(one) == _place(other) and _shared_us(one, other) > 0


def _shared_us(one: Row, other: Row) -> int:
    return int(min(one["until_us"], other["until_us"]) - max(one["from_us"], other["from_us"]))


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
