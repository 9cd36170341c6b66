"""Compare the replicas of two sides at the end of a run: log, leader epochs, LEO, HW, and earlier truncations.

If the logs of a partition differ by noise, such as the records sent just before a kill, offsets cannot be compared. In
this case only the existence of truncations and the sequence of leader epochs are compared.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from replica.trace.ranges import format_record_names, split_record_name
from replica.wording import listed
from scenarios.agree.difference import DRAWN, TIE, Runs, WorldDifference, elements_apart
from scenarios.agree.facts import FinalRecord, RunFacts
from scenarios.observe.wording import count_of

Replica = tuple[str, str]
"""A replica as (partition, node)."""


def replica_differences(runs: Runs) -> Iterator[WorldDifference]:
    drawn = runs.sent_apart()
    vague = {partition for partitions in drawn.values() for partition in partitions}
    """Partitions whose logs differ by noise."""
    if drawn:
        item, other = next(iter(runs))
        names = sorted(drawn, key=split_record_name)
        ours, theirs = (f"{names[0]} to {run.partitions.get(names[0], 'none')}" for run in (item, other))
        where = count_of(len(names), "record")
        yield WorldDifference(what="partition of records", where=where, ours=ours, theirs=theirs, noise=DRAWN)
    for replica in runs.keys(lambda run: run.logs):
        for content in _contents(replica, runs, drawn):
            if content.noise:
                vague.add(replica[0])
            yield content
        yield from _order(replica, runs)
    for replica in runs.keys(lambda run: run.ends):
        yield from _ends(replica, runs)
    for replica in runs.keys(lambda run: run.cuts):
        yield from _cuts(replica, runs, is_vague=replica[0] in vague)
    for replica in runs.keys(lambda run: run.epochs or ()):
        yield from _epochs(replica, runs, is_vague=replica[0] in vague)


def _contents(replica: Replica, runs: Runs, left_out: Container[str]) -> Iterator[WorldDifference]:
    ours_and_theirs = (
        [frozenset(entry for entry in run.logs.get(replica, ()) if entry.record not in left_out) for run in side]
        for side in (runs.ours, runs.theirs)
    )
    found = elements_apart(*ours_and_theirs)
    if found is not None:
        ours, theirs, noise = found
        where, mine, its = _text(replica), _entries_text(ours), _entries_text(theirs)
        yield WorldDifference(what="final log", where=where, ours=mine, theirs=its, noise=noise)


def _order(replica: Replica, runs: Runs) -> Iterator[WorldDifference]:
    def agree(run_facts: RunFacts, other: RunFacts) -> bool:
        return all(
            mine == its for mine, its in _in_common(run_facts.logs.get(replica, ()), other.logs.get(replica, ()))
        )

    apart = runs.apart(agree)
    if apart is None:
        return
    (item, other), noise = apart
    common = _in_common(item.logs[replica], other.logs[replica])
    mine, its = next(pair for pair in common if pair[0] != pair[1])
    sources = {**item.sources, **other.sources}
    if not noise and _order_of_each_source_agrees(common, sources):
        noise = TIE
    where = _text(replica)
    yield WorldDifference(
        what="order in the log", where=where, ours=f"{mine} first", theirs=f"{its} first", noise=noise
    )


def _in_common(item: Sequence[FinalRecord], other: Sequence[FinalRecord]) -> list[tuple[str, str]]:
    """Return (n-th record of the first log, n-th record of the second log), counting only records that both have."""
    left, right = (dict.fromkeys(entry.record for entry in log) for log in (item, other))
    return list(zip((name for name in left if name in right), (name for name in right if name in left), strict=True))


def _order_of_each_source_agrees(common: list[tuple[str, str]], sources: dict[str, str]) -> bool:
    """Return True if the records of each source have the same order in both logs.

    No rule decides the order of records from different clients, or from different partitions that a transform reads.

    Args:
        common: the records that both logs have, as returned by `_in_common`.
        sources: the source of each record (see RunFacts).
    """
    by_source: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for pair in common:
        for side, name in zip(by_source, pair, strict=True):
            side.setdefault(sources.get(name, ""), []).append(name)
    return by_source[0] == by_source[1]


def _ends(replica: Replica, runs: Runs) -> Iterator[WorldDifference]:
    def agree(run_facts: RunFacts, other: RunFacts) -> bool:
        mine, its = run_facts.ends.get(replica), other.ends.get(replica)
        if mine is None or its is None or run_facts.logs.get(replica) != other.logs.get(replica):
            return (mine is None) == (its is None)  # Different logs are reported by another function.
        known = None not in (mine.high_watermark, its.high_watermark)
        return mine.log_end_offset == its.log_end_offset and (not known or mine.high_watermark == its.high_watermark)

    def text(run: RunFacts) -> str:
        end = run.ends.get(replica)
        if end is None:
            return "no replica"
        return f"LEO {end.log_end_offset}" + ("" if end.high_watermark is None else f", HW {end.high_watermark}")

    apart = runs.apart(agree)
    if apart is not None:
        (item, other), noise = apart
        yield WorldDifference(
            what="LEO and HW at the end", where=_text(replica), ours=text(item), theirs=text(other), noise=noise
        )


def _cuts(replica: Replica, runs: Runs, *, is_vague: bool) -> Iterator[WorldDifference]:
    def agree(run_facts: RunFacts, other: RunFacts) -> bool:
        mine, its = ([(cut.before, cut.after) for cut in run.cuts.get(replica, ())] for run in (run_facts, other))
        return bool(mine) == bool(its) if is_vague else mine == its

    apart = runs.apart(agree)
    if apart is not None:
        pair, noise = apart
        cuts = [run.cuts.get(replica, []) for run in pair]
        ours, theirs = (listed([f"{cut.before} to {cut.after}" for cut in side]) or "none" for side in cuts)
        at_us = min(cut.at_us for side in cuts for cut in side)
        yield WorldDifference(
            what="truncations", where=_text(replica), at_us=at_us, ours=ours, theirs=theirs, noise=noise
        )


def _epochs(replica: Replica, runs: Runs, *, is_vague: bool) -> Iterator[WorldDifference]:
    def entries(run: RunFacts) -> tuple[tuple[int, int], ...] | None:
        return None if run.epochs is None else run.epochs.get(replica)

    def agree(run_facts: RunFacts, other: RunFacts) -> bool:
        mine, its = entries(run_facts), entries(other)
        if mine is None or its is None:
            return True
        return [epoch for epoch, _ in mine] == [epoch for epoch, _ in its] if is_vague else mine == its

    def text(run: RunFacts) -> str:
        return listed([f"{epoch} from offset {start}" for epoch, start in entries(run) or ()]) or "none"

    apart = runs.apart(agree)
    if apart is not None:
        (item, other), noise = apart
        what = "leader epochs on disk"
        yield WorldDifference(what=what, where=_text(replica), ours=text(item), theirs=text(other), noise=noise)


def _text(replica: Replica) -> str:
    return f"{replica[1]} {replica[0]}"


def _entries_text(entries: frozenset[FinalRecord]) -> str:
    by_epoch: dict[int, list[str]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.leader_epoch, split_record_name(entry.record))):
        by_epoch.setdefault(entry.leader_epoch, []).append(entry.record)
    return listed([f"{format_record_names(names)} of epoch {epoch}" for epoch, names in by_epoch.items()]) or "none"
