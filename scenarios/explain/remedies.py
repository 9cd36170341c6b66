"""Settings that would have saved a lost record, as far as its own trace proves it; nothing here is a rule of thumb."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from replica.ids import ACKS_ALL


@dataclass(frozen=True, slots=True)
class Remedies:
    would: tuple[str, ...] = ()
    would_not: tuple[str, ...] = ()


IN_THE_TRANSACTION = (
    "sendOffsetsToTransaction (`offsets: in-transaction`): the group goes past an input together with its output"
)
"""Of an output whose input was committed as done without it."""


class LostRecord(Protocol):
    """What is known about a lost record.

    isr_at_ack: in-sync replicas when the producer got its ack; lacking_at_ack: those that ran without the record
    lost_on_disk: brokers whose disk lost it; never_flushed: those of them that lost it because power failed before a
    flush came_back: brokers that stopped holding it and started again
    elected_uncleanly: a leader without the record, while a broker held it; elected_uncleanly_later: when none did
    """

    acks: int
    isr_at_ack: tuple[str, ...]
    lacking_at_ack: tuple[str, ...]
    min_isr_at_ack: int
    lost_on_disk: dict[str, int]
    never_flushed: dict[str, int]
    came_back: dict[str, int]
    elected_uncleanly: bool
    elected_uncleanly_later: bool


def remedies_for(lost: LostRecord) -> Remedies:
    """Every entry says in a few words why the trace proves it."""
    return Remedies(tuple(_would(lost)), tuple(_would_not(lost)))


def _would(lost: LostRecord) -> Iterator[str]:
    alone = len(lost.isr_at_ack) == 1
    if lost.acks == 1 and lost.lacking_at_ack:
        other = lost.lacking_at_ack[0]
        yield f"acks=all with min.insync.replicas=2: {other} was in sync and running, and did not have the record"
    elif lost.acks == 1 and alone:
        yield "acks=all with min.insync.replicas=2: one replica was in sync, so the record would have been refused"
    elif lost.acks == ACKS_ALL and alone and lost.min_isr_at_ack == 1:
        yield "min.insync.replicas=2: one replica was in sync, so the record would have been refused, not acked"
    if lost.elected_uncleanly and lost.came_back and not lost.lost_on_disk:
        node = next(iter(lost.came_back))
        yield f"unclean.leader.election.enable=false: {node} came back with the record"
    if lost.never_flushed and list(lost.never_flushed) == list(lost.lost_on_disk):
        nodes = " and ".join(lost.never_flushed)
        yield f"log.flush.interval.messages=1: {nodes} lost the record before it was flushed"


def _would_not(lost: LostRecord) -> Iterator[str]:
    yield "retries: the producer got its ack and had no reason to retry"
    if lost.acks == ACKS_ALL and len(lost.isr_at_ack) == 1:
        yield "acks=all: with one replica in sync, all means one"
    if lost.elected_uncleanly_later and not lost.elected_uncleanly:
        yield "unclean.leader.election.enable=false: the record was gone before the unclean election"
    elif not lost.elected_uncleanly:
        yield "unclean.leader.election.enable=false: every election was clean"
    if [node for node in lost.lost_on_disk if node not in lost.never_flushed]:
        yield "log.flush.interval.messages=1: what was on the disk went with the disk"
    if len(lost.never_flushed) > 1 and len(lost.never_flushed) == len(lost.isr_at_ack):
        yield "more replicas in the same power failure: every copy lay in a page cache"
