"""Verbs for actions of an application's clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from cluster.client.events import NAME_HEADER, NAMED_APART_HEADER
from replica.ids import TopicPartition
from replica.wording import listed
from scenarios.language.selectors import RECORDS_MAX
from scenarios.language.spec import BATCH_MAX, RECORD_BYTES_MAX, OwnHeaders, RecordFields, RecordTime, Workload
from scenarios.language.values.links import ref
from scenarios.language.values.reading import Fields, plain_text
from scenarios.language.values.scope import Scope
from scenarios.language.values.trees import time_text
from scenarios.language.values.yaml_source import Node, Scalar
from scenarios.language.verbs.clock import JUMP
from scenarios.language.verbs.declaration import QUIET, Given, Kind, Verb, key, verb
from scenarios.language.verbs.kinds import BOOLEAN, CONSUMER, PARTITION, PRODUCER, TEXT, check_partition, integer, size

Target = int | Literal["beginning", "end"]


def _batch_of(scope: Scope, before: Mapping[str, Any]) -> int:
    workload = scope.workloads.get(before["producer"])
    return 1 if workload is None else workload.batch


def _size_of(scope: Scope, before: Mapping[str, Any]) -> int:
    workload = scope.workloads.get(before["producer"])
    return 1 if workload is None else workload.size_bytes


def _read_record_time(value: Given) -> RecordTime:
    """Read a timestamp: `-2m` and `60s` are relative to the producer's clock, a number is milliseconds since 1970."""
    node = value.node
    if isinstance(node, Scalar) and node.text.removeprefix("-").isdigit():
        return RecordTime(at_ms=value.reader.integer(node, value.path, value.what))
    return RecordTime(ahead_us=JUMP.read(value))


def _record_time_tree(time: RecordTime | None) -> object:
    return None if time is None else JUMP.write(time.ahead_us) if time.at_ms is None else time.at_ms


def _read_headers(raw: Given) -> OwnHeaders:
    entries = list(raw.reader.entries(raw.node, raw.path, raw.what))
    if raw.node.is_nothing:
        label = "for example {trace-id: t7}"
        raw.reader.error("E105", f"{raw.what} names no header", raw.node.place, path=raw.path, label=label)
    for name, name_node, _, path in entries:
        if name in NAME_HEADERS:
            label = "choose another name: Highwater stores the names of some records in it"
            raw.reader.error("E134", f"the header `{name}` is reserved", name_node.place, path=path, label=label)
    return tuple((name, _header_value(raw, value, path)) for name, _, value, path in entries)


def _header_value(value: Given, node: Node, path: str) -> str | None:
    nothing = isinstance(node, Scalar) and node.is_nothing
    return None if nothing else value.reader.text(node, path, "the value of a header")


NAME_HEADERS = (NAME_HEADER, NAMED_APART_HEADER)
RECORD_TIME: Kind[RecordTime | None] = Kind(
    read=_read_record_time,
    write=_record_time_tree,
    schema={"oneOf": [integer().schema, ref("jump")]},
    blank=None,
    example="-2m",
)
HEADERS: Kind[OwnHeaders] = Kind(
    read=_read_headers,
    write=dict,
    schema={
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"not": {"enum": list(NAME_HEADERS)}},
        "additionalProperties": {"anyOf": [ref("scalar"), {"type": "null"}]},
    },
    blank=(),
    example="{trace-id: t7}",
)


@verb(
    "produce",
    example="{from: p1, count: 10, batch: 5, size: 1kB, key: k, partition: 0, tombstone: false}",
    more={
        "{from: p1, count: 1, timestamp: -2s, headers: {trace-id: t7}}": (
            "Set headers, and a timestamp (CreateTime) two seconds behind the producer's clock. `60s` is ahead of it;"
            " a number is milliseconds since 1970."
        )
    },
    usage="produce p1 10",
    effect=QUIET,
)
class Produce(Verb):
    """Send `count` records at once, `batch` of them in a request, with values of `size`. A `tombstone` has a key and no
    value.
    """

    producer: str = key(PRODUCER, "from")
    count: int = key(integer(1, RECORDS_MAX))
    batch: int = key(integer(1, BATCH_MAX), default=1, default_of=_batch_of)
    size_bytes: int = key(size(1, RECORD_BYTES_MAX), "size", default=100, default_of=_size_of)
    record_key: str | None = key(TEXT, "key", default=None)
    partition: int | None = key(integer(example="0"), default=None)
    tombstone: bool = key(BOOLEAN, default=False)
    time: RecordTime | None = key(RECORD_TIME, "timestamp", default=None)
    headers: OwnHeaders = key(HEADERS, default=())

    @classmethod
    def misplaced(cls, scope: Scope, written: Mapping[str, Node]) -> Mapping[str, str]:
        topic = written.get("topic")
        sender = next((item for item, its in scope.producers.items() if topic and its == plain_text(topic)), "p1")
        add = "leave it out" if "from" in written else f"write `from: {sender}`"
        return {"topic": f"the topic of a producer is in `workloads`: {add}"}

    def fields_for(self, workload: Workload) -> RecordFields:
        """Return the fields of the records besides their values: those of the step, or else those of the producer."""
        others = workload.records
        return RecordFields(
            keys=others.keys if self.record_key is None else (self.record_key,),
            partition=others.partition if self.partition is None else self.partition,
            time=self.time or others.time,
            headers=self.headers or others.headers,
        )

    def sentence(self) -> str:
        what = "tombstone" if self.tombstone else "record"
        count = f"1 {what}" if self.count == 1 else f"{self.count} {what}s"
        batches = f" in batches of {self.batch}" if self.batch > 1 and self.count > 1 else ""
        return f"{self.producer} sends {count}{batches}{_time_text(self.time)}{_headers_text(self.headers)}"

    def judge(self, scope: Scope, fields: Fields) -> None:
        check_partition(scope, fields, scope.producers.get(self.producer, ""), self.partition)


def _time_text(time: RecordTime | None) -> str:
    if time is None:
        return ""
    if time.at_ms is not None:
        return f" stamped {time.at_ms} ms"
    return f" stamped {time_text(abs(time.ahead_us))} {'ahead' if time.ahead_us > 0 else 'in the past'}"


def _headers_text(headers: OwnHeaders) -> str:
    if not headers:
        return ""
    names = listed([name for name, _ in headers])
    return f" with the header{'s' if len(headers) > 1 else ''} {names}"


def _read_target(value: Given) -> Target:
    if value.says("beginning") or value.says("end"):
        return cast(Target, value.reader.text(value.node, value.path, value.what))
    return value.reader.integer(value.node, value.path, value.what)


TARGET: Kind[Target] = Kind(
    read=_read_target,
    write=lambda target: target,
    schema={"oneOf": [integer().schema, {"enum": ["beginning", "end"]}]},
    blank=0,
    example="beginning",
    asked="an offset, `beginning` or `end`",
)


@verb("seek", example="{consumer: c1r, partition: t-0, to: 5}", usage="seek c1r orders-0 beginning", effect=QUIET)
class Seek(Verb):
    """Let a consumer continue at this offset, or at the `beginning` or `end` of the partition."""

    consumer: str = key(CONSUMER)
    partition: TopicPartition = key(PARTITION)
    to: Target = key(TARGET)

    def sentence(self) -> str:
        return f"{self.consumer} seeks {self.partition} to {self.to}"

    def judge(self, scope: Scope, fields: Fields) -> None:
        topic = self.partition.topic
        reads = scope.consumers.get(self.consumer)
        if reads is not None and topic in scope.topics and topic not in reads:
            place, path = fields.key_place("partition"), f"{fields.path}.partition"
            title = f"`{self.consumer}` reads `{', '.join(reads)}`, not `{topic}`"
            scope.reader.error("E131", title, place, path=path)
