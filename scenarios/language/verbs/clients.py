"""Clients: what the application does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from replica.ids import TopicPartition
from scenarios.language.selectors import RECORDS_MAX
from scenarios.language.spec import BATCH_MAX, RECORD_BYTES_MAX
from scenarios.language.values.reading import Fields
from scenarios.language.values.scope import Scope
from scenarios.language.verbs.declaration import Given, Kind, Verb, key, verb
from scenarios.language.verbs.kinds import BOOLEAN, CONSUMER, PARTITION, PRODUCER, TEXT, integer, size

Target = int | Literal["beginning", "end"]


def _batch_of(scope: Scope, before: Mapping[str, Any]) -> int:
    workload = scope.workloads.get(before["producer"])
    return 1 if workload is None else workload.batch


def _size_of(scope: Scope, before: Mapping[str, Any]) -> int:
    workload = scope.workloads.get(before["producer"])
    return 1 if workload is None else workload.size_bytes


@verb(
    "produce",
    example="{from: p1, count: 10, batch: 5, size: 1kB, key: k, partition: 0, tombstone: false}",
    usage="produce p1 10",
    disturbs=False,
)
class Produce(Verb):
    """The application sends `count` records at once, `batch` records to a request; `size` is that of each value.
    Without `batch` or `size`, the workload's; without `partition`, the partitioner's choice. A `tombstone` has a key
    and no value: in a compacted topic it deletes what has that key.
    """

    producer: str = key(PRODUCER, "from")
    count: int = key(integer(1, RECORDS_MAX))
    batch: int = key(integer(1, BATCH_MAX), default=1, default_of=_batch_of)
    size_bytes: int = key(size(1, RECORD_BYTES_MAX), "size", default=100, default_of=_size_of)
    record_key: str | None = key(TEXT, "key", default=None)
    partition: int | None = key(integer(example="0"), default=None)
    tombstone: bool = key(BOOLEAN, default=False)

    def sentence(self) -> str:
        what = "tombstone" if self.tombstone else "record"
        count = f"1 {what}" if self.count == 1 else f"{self.count} {what}s"
        batches = f" in batches of {self.batch}" if self.batch > 1 and self.count > 1 else ""
        return f"{self.producer} sends {count}{batches}"

    def judge(self, scope: Scope, given: Fields) -> None:
        topic = scope.producers.get(self.producer, "")
        count = scope.topics.get(topic)
        if self.partition is not None and count is not None and self.partition >= count:
            title = f"`{topic}` has no partition {self.partition}"
            place, path = given.key_place("partition"), f"{given.path}.partition"
            scope.reader.error("E132", title, place, path=path, label=f"it has {count}")


def _read_target(given: Given) -> Target:
    if given.says("beginning") or given.says("end"):
        return cast(Target, given.reader.text(given.node, given.path, given.what))
    return given.reader.integer(given.node, given.path, given.what)


TARGET: Kind[Target] = Kind(
    read=_read_target,
    write=lambda target: target,
    schema={"oneOf": [integer().schema, {"enum": ["beginning", "end"]}]},
    blank=0,
    example="beginning",
    asked="an offset, beginning or end",
)


@verb(
    "seek",
    example="{consumer: c1r, partition: t-0, to: 5}",
    usage="seek c1r orders-0 beginning",
    disturbs=False,
)
class Seek(Verb):
    """The consumer goes on from this offset, or from `to: beginning`, `to: end`."""

    consumer: str = key(CONSUMER)
    partition: TopicPartition = key(PARTITION)
    to: Target = key(TARGET)

    def sentence(self) -> str:
        return f"{self.consumer} seeks {self.partition} to {self.to}"

    def judge(self, scope: Scope, given: Fields) -> None:
        topic = self.partition.topic
        reads = scope.consumers.get(self.consumer)
        if reads is not None and topic in scope.topics and topic not in reads:
            place, path = given.key_place("partition"), f"{given.path}.partition"
            title = f"`{self.consumer}` reads `{', '.join(reads)}`, not `{topic}`"
            scope.reader.error("E131", title, place, path=path)
