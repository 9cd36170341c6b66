"""Find the settings that would have saved a lost record, as far as the trace of the run proves it."""

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
    "sendOffsetsToTransaction (`offsets: in-transaction`): commits the offset of an input together with its output"
)
"""Advice for an output that was lost although its input was committed as processed."""


class LostRecord(Protocol):
    """The known facts about a lost record.

    Attributes:
        isr_at_ack: ISR when the producer got the acknowledgement.
        min_isr_at_ack: min.insync.replicas at that time.
        lacking_at_ack: running members of that ISR without the record.
        lost_on_disk: time at which each broker's disk lost the record.
        never_flushed: brokers in `lost_on_disk` that lost the record because power failed before a flush.
        passed_over: brokers with the record for which a clean election would have waited, each with "ran on", "came
            back", or "" if it did neither.
        elected_uncleanly: True if an unclean election made a broker without the record the leader.
        elected_uncleanly_later: True if there was an unclean election after the last copy was gone.
    """

    acks: int | None
    isr_at_ack: tuple[str, ...]
    lacking_at_ack: tuple[str, ...]
    min_isr_at_ack: int
    lost_on_disk: dict[str, int]
    never_flushed: dict[str, int]
    passed_over: dict[str, str]
    elected_uncleanly: bool
    elected_uncleanly_later: bool


def remedies_for(lost: LostRecord) -> Remedies:
    """Return the settings that would have saved the record and those that would not, each with a proof."""
    return Remedies(tuple(_would(lost)), tuple(_would_not(lost)))


def _would(lost: LostRecord) -> Iterator[str]:
    alone = len(lost.isr_at_ack) == 1
    if lost.acks == 1 and lost.lacking_at_ack:
        other = lost.lacking_at_ack[0]
        yield f"acks=all with min.insync.replicas=2: {other} was running and in sync, but did not have the record"
    elif lost.acks == 1 and alone:
        yield "acks=all with min.insync.replicas=2: one replica was in sync, so the record would have been refused"
    elif lost.acks == ACKS_ALL and alone and lost.min_isr_at_ack == 1:
        yield "min.insync.replicas=2: one replica was in sync, so the record would have been refused, not acked"
    for node in [node for node, how in lost.passed_over.items() if how and not lost.lost_on_disk][:1]:
        yield f"unclean.leader.election.enable=false: {node} {lost.passed_over[node]} with the record"
    if lost.never_flushed and list(lost.never_flushed) == list(lost.lost_on_disk):
        nodes = " and ".join(lost.never_flushed)
        yield f"log.flush.interval.messages=1: {nodes} lost the record before it was flushed"


def _would_not(lost: LostRecord) -> Iterator[str]:
    yield "retries: the producer got its ack and had no reason to retry"
    if lost.acks == ACKS_ALL and len(lost.isr_at_ack) == 1:
        yield "acks=all: only one replica was in sync, so its ack was enough"
    if lost.elected_uncleanly_later and not lost.elected_uncleanly:
        yield "unclean.leader.election.enable=false: the record was gone before the unclean election"
    elif not lost.elected_uncleanly:
        yield "unclean.leader.election.enable=false: there was no unclean election"
    elif lost.passed_over and not any(lost.passed_over.values()):
        nodes = " or ".join(lost.passed_over)
        yield f"unclean.leader.election.enable=false: {nodes} did not come back with the record"
    if [node for node in lost.lost_on_disk if node not in lost.never_flushed]:
        yield "log.flush.interval.messages=1: flushed records were lost with the disk"
    if len(lost.never_flushed) > 1 and len(lost.never_flushed) == len(lost.isr_at_ack):
        yield "more replicas in the same power failure: every copy was only in a page cache"
