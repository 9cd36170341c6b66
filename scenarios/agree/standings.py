"""Compare the sequence of states (leader, leader epoch, ISR, ELR) of each partition in two runs.

A tie is a difference that no rule decides: under the same leader, both runs remove the same members from the ISR, or
add the same members, but in another order or in other steps. For example, either of two followers may fetch first, and
either of two brokers that stop together may be noticed first. During a tie, the last broker to leave may be in the ELR.
The tie ends when both runs are in the same state again.
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
NOTHING_MORE = "no further change"
TIE_LENGTH_MAX = 12
"""Largest number of states in a tie, which is enough for all followers of a partition."""


@dataclass(frozen=True, slots=True)
class TimeGap:
    """A difference in time between equal states of both sides.

    Attributes:
        at_us: time of the state in our run.
        by_us: how much later the state came in the other run; negative if earlier.
    """

    partition: str
    at_us: int
    by_us: int


def standing_differences(runs: Runs) -> Iterator[WorldDifference]:
    for partition in runs.keys(lambda run: run.standings):
        yield from _partition_differences(partition, runs)


def time_gaps(runs: Runs) -> Iterator[TimeGap]:
    for item, other in runs:
        for partition in sorted(item.standings.keys() & other.standings.keys()):
            ours, theirs = item.standings[partition], other.standings[partition]
            for left, right in aligned(ours, theirs).pairs:
                yield TimeGap(partition, ours[left].at_us, theirs[right].at_us - ours[left].at_us)


def _partition_differences(partition: str, runs: Runs) -> Iterator[WorldDifference]:
    def agree(run_facts: RunFacts, other: RunFacts) -> bool:
        alignment = _aligned(partition, run_facts, other)
        return alignment.parts_at is None or _ended(partition, run_facts, other, alignment.parts_at, runs.slack_us)

    apart = runs.apart(agree)
    if apart is not None:
        (item, other), noise = apart
        position = _aligned(partition, item, other).parts_at
        assert position is not None
        yield _difference(partition, item, other, position, noise)
        return
    for item, other in runs:
        alignment = _aligned(partition, item, other)
        if alignment.ties or alignment.parts_at is not None:
            position = alignment.ties[0] if alignment.ties else alignment.parts_at
            assert position is not None
            yield _difference(partition, item, other, position, TIE if alignment.ties else RUN_ENDED)
            return


def _aligned(partition: str, run_facts: RunFacts, other: RunFacts) -> Alignment:
    return aligned(run_facts.standings.get(partition, ()), other.standings.get(partition, ()))


def _ended(partition: str, run_facts: RunFacts, other: RunFacts, parts_at: tuple[int, int], slack_us: int) -> bool:
    """Return True if one run only lacks states that the other reached at most `slack_us` before its end.

    Args:
        parts_at: index in each run of the first state that differs.
    """
    rests = [
        (run.standings.get(partition, [])[position:], run.end_us - slack_us)
        for run, position in zip((run_facts, other), parts_at, strict=True)
    ]
    return not all(rest for rest, _ in rests) and all(
        stood.at_us > late_us for rest, late_us in rests for stood in rest
    )


def _difference(
    partition: str, run_facts: RunFacts, other: RunFacts, position: tuple[int, int], noise: str
) -> WorldDifference:
    ours, theirs = (_stood(run, partition, at) for run, at in zip((run_facts, other), position, strict=True))
    return WorldDifference(
        what=WHAT,
        where=partition,
        at_us=min(stood.at_us for stood in (ours, theirs) if stood is not None),
        ours=_text(ours),
        theirs=_text(theirs),
        noise=noise,
    )


def _stood(run: RunFacts, partition: str, position: int) -> Stood | None:
    stood = run.standings.get(partition, [])
    return stood[position] if position < len(stood) else None


def _text(stood: Stood | None) -> str:
    return NOTHING_MORE if stood is None else f"{seconds(stood.at_us)} {standing_text(stood.standing)}"


def standing_text(standing: PartitionStanding) -> str:
    """Return a state as text: `b2 in epoch 1, ISR b2 b3, ELR b1`."""
    elr = f", ELR {' '.join(standing.elr)}" if standing.elr else ""
    isr = " ".join(standing.isr) or "empty"
    return f"{standing.leader or 'no leader'} in epoch {standing.leader_epoch}, ISR {isr}{elr}"


# ------------------------------------------------------------------------------------------------------------ ties


def aligned(item: Sequence[Stood], other: Sequence[Stood]) -> Alignment:
    """Return the pairs of equal states of two sequences, the ties, and the place from which they differ."""
    left, right = ([stood.standing for stood in side] for side in (item, other))
    return align(left, right, lambda mine, theirs: _end_of_tie(left, mine, right, theirs))


def _end_of_tie(
    item: Sequence[PartitionStanding], left: int, other: Sequence[PartitionStanding], right: int
) -> tuple[int, int] | None:
    """Return the indexes of the equal states that end the tie from `left` and `right` on; None if it is no tie."""
    if not left or not right:
        return None
    for steps in range(2 * TIE_LENGTH_MAX):
        for first in range(steps + 1):
            mine, theirs = left + first, right + steps - first
            if mine >= len(item) or theirs >= len(other) or item[mine] != other[theirs]:
                continue
            lowest = [_lowest_isr(path) for path in (item[left - 1 : mine + 1], other[right - 1 : theirs + 1])]
            if lowest[0] == lowest[1] is not None:
                return mine, theirs
    return None


def _lowest_isr(path: Sequence[PartitionStanding]) -> tuple[str, ...] | None:
    """Return the smallest ISR in a sequence of states; None if the sequence cannot be part of a tie.

    The leader and its epoch must stay the same. The ISR must first shrink, or stay the same while the ELR changes, and
    from then on grow with every state.
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
