"""Holders of a high watermark, the slow way: members of the ISR not yet beyond it, at every moment of a stall."""

from __future__ import annotations

from collections import defaultdict

from tests.spark.slow.truth import Found, Leaders, Row, Stall, decided


def hw_stalls(rows: list[Row], leaders: Leaders) -> Found:
    """(topic, partition, leader, from_us, until_us, high_watermark, waiting_records, ended_by, pinned_by, pinned_us,
    under_min_isr_us)"""
    states = decided(rows)
    found: Found = set()
    for stall in leaders.stalls:
        held: dict[str, int] = defaultdict(int)
        under_us = 0
        ruled = states[stall.place]
        moments = {stall.from_us, *(at_us for at_us, _ in ruled), *(at_us for at_us, _, _ in stall.term.fetches)}
        inside = sorted(at_us for at_us in moments if stall.from_us <= at_us < stall.until_us)
        for now_us, next_us in zip(inside, [*inside[1:], stall.until_us], strict=True):
            state = [state for at_us, state in ruled if at_us <= now_us][-1]
            if state is None:
                continue
            for follower in state.isr - {stall.term.leader}:
                if _stands_at(stall, follower, now_us) <= stall.high_watermark:
                    held[follower] += next_us - now_us
            under_us += (next_us - now_us) * (len(state.isr) < state.min_isr)
        longest = max(held.values(), default=0)
        found.add(
            (*stall.place, stall.term.leader, stall.from_us, stall.until_us, stall.high_watermark, stall.waiting,
             stall.ended_by, tuple(sorted(one for one in held if held[one] == longest)), longest, under_us)
        )  # fmt: skip
    return found


def _stands_at(stall: Stall, follower: str, now_us: int) -> int:
    """Where the leader, in this term, has last seen the follower; nowhere if it has not."""
    return [-1, *(offset for at_us, who, offset in stall.term.fetches if who == follower and at_us <= now_us)][-1]
