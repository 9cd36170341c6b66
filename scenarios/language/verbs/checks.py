"""The verb `check`, which tests conditions while the run continues."""

from __future__ import annotations

from typing import Any

from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.trace.ranges import format_record_names
from scenarios.language.expect import EndOffsetTest, LogTest, NumberTest, RecordsTest, StateTest, TimeTest
from scenarios.language.values.condition_reading import read_logs, read_records, read_state
from scenarios.language.values.links import ref
from scenarios.language.values.scope import NO_PARTITION
from scenarios.language.values.trees import given as without_none
from scenarios.language.values.trees import (
    logs_tree,
    number_tree,
    records_text,
    records_tree,
    state_sentence,
    state_tree,
    window_text,
    window_tree,
)
from scenarios.language.verbs.command_words import ShorthandError, ShorthandWords
from scenarios.language.verbs.declaration import QUIET, Given, Kind, Verb, key, verb
from scenarios.language.verbs.kinds import CONSUMER

STATE: Kind[StateTest] = Kind(
    read=lambda value: read_state(value.scope, value.node, value.path, value.what),
    write=state_tree,
    schema=ref("state"),
    blank=StateTest(),
    example="{t-0: {leader: b2}}",
)
LOGS: Kind[tuple[LogTest, ...]] = Kind(
    read=lambda value: read_logs(value.scope, value.node, value.path),
    write=logs_tree,
    schema=ref("logs"),
    blank=(),
    example="{t-0: r0..r9}",
)
RECORDS: Kind[tuple[RecordsTest, ...]] = Kind(
    read=lambda value: read_records(value.scope, value.node, value.path),
    write=records_tree,
    schema=ref("records"),
    blank=(),
    example="{acked: r0..r9}",
)


def _read_clock(value: Given) -> TimeTest | None:
    fields = value.reader.fields(value.node, value.path, value.what, ("between", "after", "before"))
    return value.reader.bounds_of(fields)


CLOCK: Kind[TimeTest | None] = Kind(
    read=_read_clock, write=window_tree, schema=ref("timeBounds"), blank=None, example="{after: 5s}"
)


def _read_end_offset(value: Given) -> EndOffsetTest:
    known, required = ("consumer", "partition", "is", "error"), ("consumer", "partition")
    fields = value.reader.fields(value.node, value.path, value.what, known, required)
    if "is" in fields and "error" in fields:
        place, path = fields.key_place("error"), f"{fields.path}.error"
        value.reader.error("E111", "`is` and `error` cannot be used together", place, path=path)
    scope = value.scope
    partition: TopicPartition = fields.read(
        "partition", lambda n, p: scope.partition(n, p, "`partition`"), NO_PARTITION
    )
    client = fields.read("consumer", lambda n, p: CONSUMER.read(Given(scope, n, p, "`consumer`", fields)), "")
    offset: NumberTest | None = fields.number_test("is")
    return EndOffsetTest(client, partition, offset, fields.choice("error", None, tuple(ErrorCode.__members__)))


def _end_offset_tree(test: EndOffsetTest) -> Any:
    answer = {"is": number_tree(test.offset), "error": test.error}
    return without_none({"consumer": test.client, "partition": str(test.partition), **answer})


END_OFFSET: Kind[EndOffsetTest] = Kind(
    read=_read_end_offset,
    write=_end_offset_tree,
    schema=ref("endOffset"),
    blank=EndOffsetTest("", NO_PARTITION),
    example="{consumer: c1r, partition: t-0, is: 10}",
)


@verb(
    "check",
    example="{state: {t-0: {leader: b2, epoch: 1}}, records: {acked: r0..r9}}",
    usage="--yaml '{check: {clock: {before: 60s}}}'",
    effect=QUIET,
    any_of=("state", "logs", "records", "clock", "end_offset"),
)
class Check(Verb):
    """Check conditions at the moment the step fires. If one does not hold, the run continues and counts as failed."""

    state: StateTest | None = key(STATE, default=None)
    logs: tuple[LogTest, ...] = key(LOGS, default=())
    records: tuple[RecordsTest, ...] = key(RECORDS, default=())
    clock: TimeTest | None = key(CLOCK, default=None)
    end_offset: EndOffsetTest | None = key(END_OFFSET, default=None)

    @classmethod
    def of_words(cls, words: ShorthandWords) -> object:
        fix = "write its fields as FIELD=VALUE, or the whole step as --yaml '{check: ...}'"
        raise ShorthandError("`check` has no short form", fix)

    def sentence(self) -> str:
        parts = [] if self.state is None else [state_sentence(self.state)]
        parts += [f"the log of {test.partition} is {format_record_names(test.records)}" for test in self.logs]
        parts += [
            f"the {test.kind} records are {records_text(test.at_least, test.at_most, test.count)}"
            for test in self.records
        ]
        if self.clock is not None:
            parts.append(f"the time is {window_text(self.clock)}")
        if self.end_offset is not None:
            end = self.end_offset
            answer = end.error or (str(end.offset) if end.offset else "any answer")
            parts.append(f"{end.client} gets {answer} if it asks for the end offset of {end.partition}")
        return f"check that {', and '.join(parts)}"
