"""The output of `highwater watch` in 80 columns: a table that fits the terminal, lines of changes, and a summary."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.wording import duration, listed, shown
from scenarios.observe.wording import count_of
from scenarios.terminal.style import Style
from scenarios.watch.cluster_watch import ClusterWatch
from scenarios.watch.holds import HELD_FROM_US, HeldWatermark
from scenarios.watch.watched import WatchedPartition, broker_name, names_of

WIDTH = 80
NAME_WIDTH, ISR_WIDTH = 22, 16
SILENT_SHOWN = NOTES_SHOWN = 3
HOLDS_TOLD = HOLDERS_TOLD = 5
LINES_LEAST = 12


def screen_lines(watch: ClusterWatch, now_us: int, style: Style, notes: Iterable[str], lines_max: int) -> list[str]:
    """Return the table of partitions, worst first, cut to `lines_max` lines, or to LINES_LEAST if that is more."""
    room = max(lines_max, LINES_LEAST)
    worst, counts = standings(watch, now_us, room)
    head = [_cut(line) for line in _head(watch, now_us, style, counts, notes)]
    head.append(style.bold(_row("partition", "leader", "ISR", "HW", "LEO")))
    lines = list(head)
    shown_partitions = 0
    for standing in worst:
        block = _block(standing, now_us, style)
        if len(lines) + len(block) > room - 1:
            break
        lines += block
        shown_partitions += 1
    left = len(watch.partitions) - shown_partitions
    if left:
        lines.append(f"  and {count_of(left, 'more partition')}")
    return lines


def _head(
    watch: ClusterWatch, now_us: int, style: Style, counts: Mapping[Trouble, int], notes: Iterable[str]
) -> Iterator[str]:
    yield f"  {time.strftime('%H:%M:%S')}  {watch.title}"
    yield "  " + ", ".join(f"{title} {counts[kind]:,}" for kind, title in TITLES.items())
    silent = [known for known in watch.brokers.values() if known.silent_since_us is not None]
    for known in silent[:SILENT_SHOWN]:
        since = duration(now_us - (known.silent_since_us or 0))
        yield f"  {style.sign('bad')} {broker_name(known.broker_id)} has not answered for {since}: {known.silence}"
    if len(silent) > SILENT_SHOWN:
        yield f"  {style.sign('bad')} other brokers that do not answer: {len(silent) - SILENT_SHOWN:,}"
    for note in all_notes(watch, notes)[:NOTES_SHOWN]:
        yield f"  {style.sign('note')} {note}"


def all_notes(watch: ClusterWatch, notes: Iterable[str]) -> list[str]:
    """Return `notes`, followed by notes on partitions that are left out and on LEOs and HWs that brokers refused."""
    found = list(notes)
    if watch.left_out:
        found.append(f"{count_of(watch.left_out, 'partition')} not watched; choose others with --topics REGEX")
    refused: dict[ErrorCode, int] = {}
    for known in watch.partitions.values():
        for replica in known.replicas.values():
            if replica.error is not ErrorCode.NONE:
                refused[replica.error] = refused.get(replica.error, 0) + 1
    for error, count in sorted(refused.items()):
        found.append(f"LEO or HW of {count_of(count, 'replica')} is unknown: {error.name}")
    return found


def _block(standing: TroubleOf, now_us: int, style: Style) -> list[str]:
    known = standing.known
    leading = known.leading
    leader = f"{broker_name(known.answer.leader)} e{known.leader_epoch}" if known.answer.leader >= 0 else "none"
    high_watermark = None if leading is None else leading.high_watermark
    end = None if leading is None else leading.log_end_offset
    row = _row(
        str(known.name),
        leader,
        ",".join(names_of(known.answer.isr)) or "empty",
        _number(high_watermark),
        _number(end),
    )
    colour = {Trouble.OFFLINE: "red", Trouble.UNDER_MIN_ISR: "red", Trouble.HELD: "yellow"}.get(standing.trouble)
    lines = [row if colour is None else style.paint(row, colour)]
    if standing.trouble is not Trouble.NONE:
        words = [] if standing.trouble is Trouble.LAGGING else [standing.words]
        lines.append(_cut("    " + "; ".join([*words, *_replicas(known, now_us)])))
    return lines


def _replicas(known: WatchedPartition, now_us: int) -> Iterator[str]:
    """Yield a text for each follower (LEO, lag and HW), and then one for the ELR if it is not empty."""
    for broker_id in known.answer.replicas:
        if broker_id == known.answer.leader:
            continue
        replica, name = known.replicas.get(broker_id), broker_name(broker_id)
        if replica is None or replica.log_end_offset is None:
            yield f"{name} LEO unknown"
            continue
        lag = known.lag_records(broker_id)
        behind = f" ({lag:,} behind, {duration(known.lag_us(broker_id, now_us))})" if lag else ""
        yield f"{name} LEO {replica.log_end_offset:,}{behind} HW {_number(replica.high_watermark)}"
    if known.answer.elr:
        yield f"ELR {','.join(names_of(known.answer.elr))}"


def _row(name: str, leader: str, isr: str, high_watermark: str, end: str) -> str:
    name = name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 8] + ".." + name[-6:]
    isr = isr if len(isr) <= ISR_WIDTH else isr[: ISR_WIDTH - 2] + ".."
    return _cut(f"  {name:<{NAME_WIDTH}} {leader[:10]:<10} {isr:<{ISR_WIDTH}} {high_watermark:>12} {end:>12}")


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 2] + ".."


def _number(value: int | None) -> str:
    if value is None or value < 0:
        return "?"
    return f"{value:,}" if value < 10_000_000 else str(value)


# -------------------------------------------------------------------------------------------------------- last words


def summary_lines(watch: ClusterWatch, now_us: int, style: Style, notes: Iterable[str]) -> list[str]:
    """Return the lines of the final summary: final state, and the brokers that held back high watermarks."""
    _, counts = standings(watch, now_us, 0)
    at_the_end = ", ".join(f"{title} {counts[kind]:,}" for kind, title in TITLES.items())
    lines = ["", f"  {watch.title}", f"  Watched for {duration(now_us)}; at the end:", f"    {at_the_end}"]
    holders = sorted(watch.holds.by_broker.items(), key=lambda item: (-item[1].us, item[0]))
    if not watch.holds.longest():
        lines.append(f"  {style.sign('good')} No high watermark was held back.")
    for broker_id, holder in holders[:HOLDERS_TOLD]:
        of = count_of(len(holder.partitions), "partition")
        held = f"{broker_name(broker_id)} held back the high watermark of {of} for at least {duration(holder.us)}"
        lines.append(f"  {style.sign('fault')} {style.bold(held)}")
    lines += (f"    {line}" for hold in watch.holds.longest()[:HOLDS_TOLD] for line in hold_lines(hold))
    lines += (f"  {style.sign('note')} {shown(note)}" for note in all_notes(watch, notes))
    return [*lines, ""]


def hold_lines(hold: HeldWatermark) -> list[str]:
    """Return lines about a held-back high watermark: partition, offset, duration, and the brokers that held it back."""
    who, them = listed(names_of(hold.holders)), "it" if hold.waiting == 1 else "them"
    said = []
    if who:
        were = "was" if len(hold.holders) == 1 else "were"
        said.append(f"{who} {were} in the ISR but lacked {them} for {duration(max(hold.held_us.values()))}")
    if hold.under_min_isr_us:
        said.append(f"the ISR was below min.insync.replicas for {duration(hold.under_min_isr_us)}")
    stood = f"HW stayed at {hold.high_watermark:,} for at least {duration(hold.length_us)}"
    waiting = count_of(hold.waiting, "record")
    return [
        f"{hold.name}",
        f"  {stood} (from {duration(hold.from_us)} on), with {waiting} above it",
        f"  {'; '.join(said) or 'no follower was seen to hold it back'}",
    ]


# ------------------------------------------------------------------------------------------------------------- troubles
#
# The problem of each watched partition, by which partitions are sorted.


class Trouble(IntEnum):
    """Kinds of problems, worst first. A partition has the first kind that applies."""

    OFFLINE = 0
    UNDER_MIN_ISR = 1
    HELD = 2
    UNDER_REPLICATED = 3
    LAGGING = 4
    NONE = 5


TITLES = {
    Trouble.OFFLINE: "without leader",
    Trouble.UNDER_MIN_ISR: "under min ISR",
    Trouble.HELD: "HW held back",
    Trouble.UNDER_REPLICATED: "under-replicated",
}


class TroubleOf(NamedTuple):
    """The problem of one partition.

    Attributes:
        weight: severity among problems of the same kind; larger is worse.
        words: short description of the problem.
        known: the partition.
    """

    trouble: Trouble
    weight: int
    words: str
    known: WatchedPartition


def standing_of(watch: ClusterWatch, known: WatchedPartition, now_us: int) -> TroubleOf:
    answer = known.answer
    hold = watch.holds.now.get(known.name)
    held_us = 0 if hold is None else hold.length_us
    if answer.leader < 0:
        return TroubleOf(Trouble.OFFLINE, 0, "no leader", known)
    if known.under_min_isr:
        return TroubleOf(Trouble.UNDER_MIN_ISR, held_us, f"ISR below min {known.min_isr}", known)
    if hold is not None and held_us >= HELD_FROM_US:
        who = listed(names_of(hold.holders)) or "an unknown broker"
        verb = "have" if len(hold.holders) > 1 else "has"
        return TroubleOf(Trouble.HELD, held_us, f"{who} {verb} held back HW for {duration(held_us)}", known)
    missing = [broker_id for broker_id in answer.replicas if broker_id not in answer.isr]
    if missing:
        words = f"{listed(names_of(missing))} not in ISR"
        return TroubleOf(Trouble.UNDER_REPLICATED, len(missing), words, known)
    lag = max((known.lag_records(broker_id) or 0 for broker_id in answer.replicas), default=0)
    return TroubleOf(Trouble.LAGGING if lag else Trouble.NONE, lag, f"{lag:,} behind" if lag else "", known)


def standings(watch: ClusterWatch, now_us: int, most: int) -> tuple[list[TroubleOf], dict[Trouble, int]]:
    """Return the `most` partitions with the worst problems, and the number of all partitions by kind of problem."""
    counts = dict.fromkeys(Trouble, 0)

    def counted() -> list[TroubleOf]:
        found = [standing_of(watch, known, now_us) for known in watch.partitions.values()]
        for item in found:
            counts[item.trouble] += 1
        return found

    worst = heapq.nsmallest(most, counted(), key=lambda item: (item.trouble, -item.weight, item.known.name))
    return worst, counts


# --------------------------------------------------------------------------------------------------------- line by line
#
# Output that is not redrawn, for files and pipes: a line of text or JSON for each partition whose state has changed.

LINES_AT_ONCE = 20
HEARTBEAT_US = 60_000_000
"""Longest time without a line of output, in microseconds. A line shows that the watch has not ended."""


class StateChange(NamedTuple):
    """A change of a partition or a broker, as text and as a JSON document."""

    text: str
    document: Mapping[str, Any]


class StateChanges:
    """A detector of changes, which compares the cluster with the state that was reported last."""

    def __init__(self) -> None:
        self._said: dict[TopicPartition, str] = {}
        self._silent: dict[int, None] = {}
        self._spoke_us = 0

    def news(self, watch: ClusterWatch, now_us: int) -> list[StateChange]:
        """Return all changes since the last call. After HEARTBEAT_US without changes, return the counts by problem."""
        found = self._brokers(watch)
        worst, counts = standings(watch, now_us, len(watch.partitions))
        first_look = not self._said
        for standing in worst:
            said = _state(standing)
            name = standing.known.name
            if self._said.get(name) != said and not (first_look and standing.trouble is Trouble.NONE):
                text = f"{name}: {said}" + (f" ({standing.words})" if standing.words else "")
                found.append(StateChange(text, _document(standing)))
            self._said[name] = said
        self._said = {name: said for name, said in self._said.items() if name in watch.partitions}
        if not found and now_us - self._spoke_us >= HEARTBEAT_US:
            text = ", ".join(f"{title} {counts[kind]:,}" for kind, title in TITLES.items())
            found = [StateChange(f"no change; {text}", {"heartbeat": counts_of(counts)})]
        if found:
            self._spoke_us = now_us
        return found

    def _brokers(self, watch: ClusterWatch) -> list[StateChange]:
        silent = {known.broker_id: None for known in watch.brokers.values() if known.silent_since_us is not None}
        found = [
            StateChange(
                f"{broker_name(item)} does not answer ({watch.brokers[item].silence})",
                {"broker": broker_name(item), "answers": False, "why": watch.brokers[item].silence},
            )
            for item in silent
            if item not in self._silent
        ]
        back = [broker_name(item) for item in self._silent if item not in silent]
        found += [StateChange(f"{name} answers again", {"broker": name, "answers": True}) for name in back]
        self._silent = silent
        return found


def text_lines(changes: Sequence[StateChange]) -> list[str]:
    """Return a line for each change, at most LINES_AT_ONCE, and a line that counts the rest."""
    at = time.strftime("%H:%M:%S")
    lines = [f"{at}  {change.text}" for change in changes[:LINES_AT_ONCE]]
    left = len(changes) - len(lines)
    return lines if not left else [*lines, f"{at}  and {count_of(left, 'more change')}"]


def json_lines(changes: Sequence[StateChange], now_us: int) -> list[str]:
    return [json.dumps({"at_us": now_us, **change.document}) for change in changes]


def counts_of(counts: Mapping[Trouble, int]) -> dict[str, int]:
    """Return the number of partitions by kind of problem, with the kind's name in JSON as key."""
    return {kind.name.lower(): count for kind, count in counts.items()}


def _document(standing: TroubleOf) -> dict[str, Any]:
    known = standing.known
    return {
        "partition": str(known.name),
        "leader": broker_name(known.answer.leader) if known.answer.leader >= 0 else None,
        "leader_epoch": known.leader_epoch,
        "isr": list(names_of(known.answer.isr)),
        "trouble": None if standing.trouble is Trouble.NONE else standing.trouble.name.lower(),
        "words": standing.words,
    }


def _state(standing: TroubleOf) -> str:
    """Return the state of a partition as text, without offsets, which change all the time."""
    answer = standing.known.answer
    leader = f"leader {broker_name(answer.leader)}" if answer.leader >= 0 else "no leader"
    isr = ",".join(names_of(answer.isr)) or "empty"
    held = ", HW held back" if standing.trouble is Trouble.HELD else ""
    return f"{leader}, epoch {standing.known.leader_epoch}, ISR {isr}{held}"
