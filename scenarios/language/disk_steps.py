"""The steps of a timeline that damage disks and set clocks. Data only; disk_faults.py performs them."""

from __future__ import annotations

from dataclasses import dataclass

from replica.ids import TopicPartition
from replica.log.disk_speed import ServiceTime
from scenarios.language.selectors import Selector


@dataclass(frozen=True, slots=True)
class Bitflip:
    """One bit of the records in the batch that holds `offset` changes on the disk, unnoticed."""

    broker: Selector
    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class SlowDisk:
    """Each append, each read takes so long, and the disk moves so many bytes a second; one after the other."""

    brokers: Selector
    time: ServiceTime
    log_dir: str | None = None


@dataclass(frozen=True, slots=True)
class FillDisk:
    """The disk takes no more bytes (ENOSPC). log_dir None: every disk of the brokers"""

    brokers: Selector
    log_dir: str | None = None


@dataclass(frozen=True, slots=True)
class FailDisk:
    """The disk answers everything with an error (EIO), for good. log_dir None: every disk of the brokers"""

    brokers: Selector
    log_dir: str | None = None


@dataclass(frozen=True, slots=True)
class BumpClock:
    """The wall clock of brokers jumps, ahead or (by_us < 0) back; monotonic clocks do not."""

    brokers: Selector
    by_us: int


@dataclass(frozen=True, slots=True)
class StrobeClock:
    """The wall clock jumps by `by_us` and back again, at every `period_us`."""

    brokers: Selector
    by_us: int
    period_us: int
