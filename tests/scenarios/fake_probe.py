"""The state that brokers and controllers would show, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replica.ids import TopicPartition
from scenarios.check.invariants.checker import (
    EpochCacheSnapshot,
    FetcherSnapshot,
    LeaderSnapshot,
    MetadataLogSnapshot,
    StableOffsetSnapshot,
)


@dataclass
class FakeProbe:
    leaders: Sequence[LeaderSnapshot] = ()
    fetching: Sequence[FetcherSnapshot] = ()
    caches: Sequence[EpochCacheSnapshot] = ()
    metadata: tuple[int, Mapping[str, int]] = field(default=(0, {}))
    metadata_of_controllers: Sequence[MetadataLogSnapshot] = ()
    stable: Sequence[StableOffsetSnapshot] = ()
    readers: Sequence[str] = ()
    min_isrs: Mapping[str, int] = field(default_factory=dict)
    partition_epochs: Mapping[str, int] = field(default_factory=dict)
    clocks_apart: int = 0

    def leader_states(self) -> Sequence[LeaderSnapshot]:
        return self.leaders

    def min_isr(self, node: str, topic_partition: TopicPartition) -> int | None:
        return self.min_isrs.get(node)

    def partition_epoch(self, node: str, topic_partition: TopicPartition) -> int | None:
        return self.partition_epochs.get(node)

    def clocks_apart_us(self) -> int:
        return self.clocks_apart

    def fetchers(self) -> Sequence[FetcherSnapshot]:
        return self.fetching

    def epoch_caches(self) -> Sequence[EpochCacheSnapshot]:
        return self.caches

    def stable_offsets(self) -> Sequence[StableOffsetSnapshot]:
        return self.stable

    def committed_readers(self) -> Sequence[str]:
        return self.readers

    def metadata_offsets(self) -> tuple[int, Mapping[str, int]]:
        return self.metadata

    def metadata_logs(self) -> Sequence[MetadataLogSnapshot]:
        return self.metadata_of_controllers
