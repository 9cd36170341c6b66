"""The ordered standings of each partition: leader, leader epoch, ISR and ELR. Where they part, and what is only a tie.

A tie is a stretch in which the same members left the ISR, or came into it, or first left and then came, in another
order or in other steps, under the same leader: no rule decides which of two followers fetched first, nor which of two
brokers that are stopped at once is heard of first. The one that left last may be in the ELR meanwhile; the tie ends
where both are equal again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scenarios.agree.difference import RUN_ENDED, TIE, Runs, WorldDifference
from scenarios.agree.facts import PartitionStanding, RunFacts, Stood
from scenarios.observe.differences import Alignment, align
from scenarios.observe.wording import seconds

WHAT = "leader, epoch, ISR, ELR"
NOTHING_MORE = "nothing more"
TIE_LENGTH_MAX = 12
"""Standings of one tie: of a partition with so many followers."""


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
            for left, right in aligned(ours, theirs).pairs:
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
    return aligned(one.standings.get(partition, ()), other.standings.get(partition, ()))


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


# ------------------------------------------------------------------------------------------------------------ ties


def aligned(one: Sequence[Stood], other: Sequence[Stood]) -> Alignment:
    """Side by side, with ties."""
    left, right = ([stood.standing for stood in side] for side in (one, other))
    return align(left, right, lambda mine, theirs: _end_of_tie(left, mine, right, theirs))


def _end_of_tie(
    one: Sequence[PartitionStanding], left: int, other: Sequence[PartitionStanding], right: int
) -> tuple[int, int] | None:
    """The places of the first standing that both have again, and up to which all is one tie."""
    if not left or not right:
        return None
    for steps in range(2 * TIE_LENGTH_MAX):
        for first in range(steps + 1):
            mine, theirs = left + first, right + steps - first
            if mine >= len(one) or theirs >= len(other) or one[mine] != other[theirs]:
                continue
            lowest = [_lowest_isr(path) for path in (one[left - 1 : mine + 1], other[right - 1 : theirs + 1])]
            if lowest[0] == lowest[1] is not None:
                return mine, theirs
    return None


def _lowest_isr(path: Sequence[PartitionStanding]) -> tuple[str, ...] | None:
    """Under one leader in one epoch, first every step removes members of the ISR, or only changes the ELR, and then
    every step adds some: the ISR between the two. None if the path is another one.
    """
    lowest, grows = path[0].isr, False
    for before, after in pairwise(path):
        if (before.leader, before.leader_epoch) != (after.leader, after.leader_epoch):
            return None
        fewer, more = set(before.isr), set(after.isr)
        grows = grows or fewer < more
        if not (fewer < more if grows else more <= fewer):
            return None
        if not grows:
            lowest = after.isr
    return lowest
