"""The ordered standings of each partition: leader, leader epoch, ISR and ELR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scenarios.agree.difference import RUN_ENDED, TIE, Runs, WorldDifference
from scenarios.agree.facts import PartitionStanding, RunFacts, Stood
from scenarios.agree.ties import Alignment, align
from scenarios.observe.wording import seconds

WHAT = "leader, epoch, ISR, ELR"
NOTHING_MORE = "nothing more"


@dataclass(frozen=True, slots=True)
class TimeGap:
    """A standing that both have. by_us: how much later than ours theirs came"""

    partition: str
    at_us: int
    by_us: int


def standing_differences(runs: Runs) -> Iterator[WorldDifference]:
    for partition in runs.keys(lambda run: run.standings):
        yield from _of(partition, runs)


def time_gaps(runs: Runs) -> Iterator[TimeGap]:
    for one, other in runs:
        for partition in sorted(one.standings.keys() & other.standings.keys()):
            ours, theirs = one.standings[partition], other.standings[partition]
            for left, right in align(ours, theirs).pairs:
                yield TimeGap(partition, ours[left].at_us, theirs[right].at_us - ours[left].at_us)


def _of(partition: str, runs: Runs) -> Iterator[WorldDifference]:
    def agree(one: RunFacts, other: RunFacts) -> bool:
        alignment = _aligned(partition, one, other)
        return alignment.parts_at is None or _ended(partition, one, other, alignment.parts_at, runs.slack_us)

    apart = runs.apart(agree)
    if apart is not None:
        (one, other), noise = apart
        place = _aligned(partition, one, other).parts_at
        assert place is not None
        yield _difference(partition, one, other, place, noise)
        return
    for one, other in runs:
        alignment = _aligned(partition, one, other)
        if alignment.ties or alignment.parts_at is not None:
            place = alignment.ties[0] if alignment.ties else alignment.parts_at
            assert place is not None
            yield _difference(partition, one, other, place, TIE if alignment.ties else RUN_ENDED)
            return


def _aligned(partition: str, one: RunFacts, other: RunFacts) -> Alignment:
    return align(one.standings.get(partition, ()), other.standings.get(partition, ()))


def _ended(partition: str, one: RunFacts, other: RunFacts, parts_at: tuple[int, int], slack_us: int) -> bool:
    """Whether they part only by what one of them has in its last moments."""
    rests = [
        (run.standings.get(partition, [])[place:], run.end_us - slack_us)
        for run, place in zip((one, other), parts_at, strict=True)
    ]
    return not all(rest for rest, _ in rests) and all(
        stood.at_us > late_us for rest, late_us in rests for stood in rest
    )


def _difference(partition: str, one: RunFacts, other: RunFacts, place: tuple[int, int], noise: str) -> WorldDifference:
    ours, theirs = (_stood(run, partition, at) for run, at in zip((one, other), place, strict=True))
    return WorldDifference(
        what=WHAT,
        where=partition,
        at_us=min(stood.at_us for stood in (ours, theirs) if stood is not None),
        ours=_text(ours),
        theirs=_text(theirs),
        noise=noise,
    )


def _stood(run: RunFacts, partition: str, place: int) -> Stood | None:
    stood = run.standings.get(partition, [])
    return stood[place] if place < len(stood) else None


def _text(stood: Stood | None) -> str:
    return NOTHING_MORE if stood is None else f"{seconds(stood.at_us)} {standing_text(stood.standing)}"


def standing_text(standing: PartitionStanding) -> str:
    """`b2 in epoch 1, ISR b2 b3, ELR b1`"""
    elr = f", ELR {' '.join(standing.elr)}" if standing.elr else ""
    isr = " ".join(standing.isr) or "empty"
    return f"{standing.leader or 'no leader'} in epoch {standing.leader_epoch}, ISR {isr}{elr}"
