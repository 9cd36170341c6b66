"""Show the journey of a Produce or Fetch request through a broker, stage by stage, as Kafka's request metrics do.

Only the trace is read. A live run has an event for each request. A simulated run is repeated to get these events
(worlds.measured).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from replica.errors import RECORD_DESERIALIZATION
from replica.trace import events as trace
from replica.trace.events import RequestCompleted, TraceRow
from replica.trace.ranges import span_of_offsets
from replica.wording import listed
from scenarios.explain.pipeline_stages import PipelineStages
from scenarios.observe.wording import count_of
from scenarios.terminal.style import Style, folded, table_lines

JOURNEYS = ("Produce", "Fetch")
TOLD_MAX = 6
"""Largest number of records that are shown by name; of more, only the number is shown."""


class RequestUnknown(ValueError):
    """No request or record has that name. The text says which requests there are."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a journey.

    Attributes:
        at_us: start of the stage.
        took_us: duration of the stage, None if it is not measured.
        happened: (time, sentence) of each event during the stage, in order.
    """

    at_us: int
    name: str
    took_us: int | None
    text: str
    happened: tuple[tuple[int, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "at_us": self.at_us,
            "stage": self.name,
            "took_us": self.took_us,
            "text": self.text,
            "happened": [{"at_us": at_us, "text": text} for at_us, text in self.happened],
        }


@dataclass(frozen=True, slots=True)
class Journey:
    """The journey of one request through its broker: its stages in order.

    Attributes:
        row: trace row of its RequestCompleted.
        name: name of the request, as `RequestJourneys.name_of` returns it.
        records: names of the records of a Produce request, as far as they are known.
    """

    row: TraceRow
    name: str
    records: tuple[str, ...]
    stages: tuple[Stage, ...]

    @property
    def request(self) -> RequestCompleted:
        return request_of(self.row)

    def summary(self) -> dict[str, Any]:
        """Return the request's data without its stages, as JSON values."""
        records = list(self.records)
        return {"request": self.name, "completed_us": self.row.at_us, **asdict(self.request), "records": records}

    def as_json(self) -> dict[str, Any]:
        return {**self.summary(), "stages": [stage.as_json() for stage in self.stages]}


def request_of(row: TraceRow) -> RequestCompleted:
    """Return the event of a trace row, which must be a RequestCompleted."""
    assert isinstance(row.event, RequestCompleted)
    return row.event


def _short_name(request: RequestCompleted) -> str:
    """Return `client:correlation id@broker`, a name that is unique unless clients share a client.id."""
    return f"{request.peer}:{request.correlation_id}@{request.node}"


class RequestJourneys:
    """All completed Produce and Fetch requests of a run, in order of completion."""

    def __init__(self, rows: Iterable[TraceRow]) -> None:
        self._rows = list(rows)
        self._by_seq = {row.seq: row for row in self._rows}
        self.completed = [
            row for row in self._rows if isinstance(row.event, RequestCompleted) and row.event.api in JOURNEYS
        ]
        self._pipeline = PipelineStages(self._rows)
        self._called = Counter(_short_name(request_of(row)) for row in self.completed)
        self._sent: dict[tuple[str, str, int, int], list[TraceRow]] = {}
        for row in self._rows:
            if isinstance(sent := row.event, trace.BatchSent):
                self._sent.setdefault((sent.client, sent.topic, sent.partition, sent.crc), []).append(row)

    def name_of(self, row: TraceRow) -> str:
        """Return the request's name for the command line: `p1:7@b2`.

        If several requests have that name, add the number of the connection: `client/rdkafka:7@b2/31`.
        """
        request = request_of(row)
        name = _short_name(request)
        return name if self._called[name] < 2 else f"{name}/{request.connection}"

    def summary(self, row: TraceRow) -> dict[str, Any]:
        return Journey(row, self.name_of(row), self.records_of(row), ()).summary()

    def records_of(self, row: TraceRow) -> tuple[str, ...]:
        """Return the record names of a Produce request: appended ones or, if there are none, those that it sent."""
        request = request_of(row)
        if request.api != "Produce":
            return ()
        batches: list[TraceRow] = []
        for appended in self._appended(row):
            key = (request.peer, appended.topic, appended.partition, appended.crc)
            sent = [item for item in self._sent.get(key, ()) if item.seq < row.seq]
            batches += sent[-1:]
        batches = batches or [self._by_seq[seq] for seq in row.causes]
        return tuple(
            name for batch in batches if isinstance(batch.event, trace.BatchSent) for name in batch.event.records
        )

    def find(self, wanted: str) -> list[TraceRow]:
        """Return the trace rows of the requests that a name refers to.

        Args:
            wanted: `client:correlation id`, which may be followed by `@broker` and `/connection`, as in `name_of`; or
                the name of a record, for every Produce request with this record.

        Raises:
            RequestUnknown: there is no such request.
        """
        by_name = re.fullmatch(r"(.+):(\d+)(?:@([^\s/]+)(?:/(\d+))?)?", wanted)
        if by_name is None:
            found = [row for row in self.completed if wanted in self.records_of(row)]
            if not found:
                what = f"no completed Produce request has a record `{wanted}`"
                raise RequestUnknown(f"{what}: name another record, or a request as CLIENT:NUMBER")
            return found
        peer, number, node = by_name[1], int(by_name[2]), by_name[3]
        connection = None if by_name[4] is None else int(by_name[4])
        found = [
            row
            for row in self.completed
            if (request_of(row).peer, request_of(row).correlation_id) == (peer, number)
            and node in (None, request_of(row).node)
            and connection in (None, request_of(row).connection)
        ]
        if not found:
            peers = sorted({request_of(row).peer for row in self.completed})
            whose = f"requests came from {listed(peers)}" if peers else "this run has no requests"
            raise RequestUnknown(
                f"there is no Produce or Fetch request `{wanted}`: {whose}; omit REQUEST to list all requests"
            )
        return found

    # ---------------------------------------------------------------------------------------------------- the journey

    def journey(self, row: TraceRow) -> Journey:
        request, records = request_of(row), self.records_of(row)
        appended = self._appended(row)
        handled_us = request.received_us + request.request_queue_time_us
        local_end_us = handled_us + request.local_time_us
        answered_us = local_end_us + request.remote_time_us
        sent_us = answered_us + request.response_queue_time_us
        arrival = f"{request.request_bytes:,} bytes of {request.api} v{request.api_version} arrived; the connection is"
        stages = [
            *self._in_the_producer(row, records),
            Stage(
                request.connected_us,
                "acceptor",
                None,
                f"{request.node} accepts {request.peer}: its connection {request.connection}, for network thread "
                f"{request.processor}",
            ),
            Stage(request.received_us, "network thread", None, f"{arrival} muted until the response"),
            Stage(request.received_us, "request queue", request.request_queue_time_us, "waits for a request handler"),
            Stage(handled_us, "handler", request.local_time_us, _local_text(request, records, appended)),
            self._purgatory(row, appended, local_end_us),
        ]
        if request.response_bytes:
            stages += [
                Stage(answered_us, "response queue", request.response_queue_time_us, "waits for the network thread"),
                Stage(sent_us, "send", request.response_send_time_us, _send_text(request)),
            ]
        total = "from the last byte received to the last byte sent" if request.response_bytes else "acks=0: no response"
        since_us = request.received_us + request.total_time_us
        stages.append(Stage(since_us, "total", request.total_time_us, total))
        return Journey(row, self.name_of(row), records, (*stages, *self._at_the_client(row, records, since_us)))

    def _in_the_producer(self, row: TraceRow, records: tuple[str, ...]) -> Iterator[Stage]:
        """Yield the stages inside the producer before a Produce request; nothing if the batch was sent before."""
        client, wanted = request_of(row).peer, set(records)
        last: tuple[int, int, int] | None = None
        for (sender, *_), rows in self._sent.items():
            for item in rows if sender == client else ():
                sent = item.event
                if isinstance(sent, trace.BatchSent) and item.seq < row.seq and wanted.issuperset(sent.records):
                    last = max(last or (-1, 0, 0), (item.seq, item.at_us, sent.attempt))
        if last is not None and last[2] == 1:
            for stop in self._pipeline.before(client, records, last[1]):
                yield Stage(*stop)

    def _appended(self, row: TraceRow) -> list[trace.BatchAppended]:
        """Return the leader's appends for a Produce request. They are among the causes of its RequestCompleted."""
        request = request_of(row)
        found: dict[int, trace.BatchAppended] = {}
        for cause in row.causes if request.api == "Produce" else ():
            seq: int | None = cause
            while seq is not None:
                item = self._by_seq[seq]
                is_own = getattr(item.event, "node", None) == request.node
                if not is_own or item.at_us < request.received_us:
                    break
                if isinstance(item.event, trace.BatchAppended) and item.event.role == "leader":
                    found[seq] = item.event
                elif found:
                    break
                seq = item.causes[0] if item.causes else None
        return [found[seq] for seq in sorted(found)]

    def _purgatory(self, row: TraceRow, appended: Sequence[trace.BatchAppended], since_us: int) -> Stage:
        request = request_of(row)
        waited_us = request.remote_time_us
        if not waited_us:
            return Stage(since_us, "purgatory", 0, "does not wait")
        if request.api == "Fetch":
            happened = tuple(self._woken(row, since_us + waited_us))
            return Stage(since_us, "purgatory", waited_us, "waits for fetch.min.bytes", happened)
        wanted = listed([f"{item.topic}-{item.partition} has passed {item.last_offset}" for item in appended])
        events = sorted({event for item in appended for event in self._replicated(row, item)})
        happened = tuple((at_us, text) for _, at_us, text in events)
        return Stage(since_us, "purgatory", waited_us, f"waits until the high watermark of {wanted}", happened)

    def _woken(self, row: TraceRow, at_us: int) -> Iterator[tuple[int, str]]:
        """Yield (time, sentence) of the events that completed a waiting Fetch request at `at_us`."""
        node = request_of(row).node
        for item in self._rows:
            event = item.event
            if item.at_us != at_us or item.seq >= row.seq or getattr(event, "node", None) != node:
                continue
            if isinstance(event, trace.BatchAppended | trace.HighWatermarkAdvanced):
                yield item.at_us, event.sentence()

    def _replicated(self, row: TraceRow, batch: trace.BatchAppended) -> Iterator[tuple[int, int, str]]:
        """Yield (seq, time, sentence) of the events in which a batch is replicated and the high watermark passes it."""
        begun = False
        level: dict[str, None] = {}
        for item in self._rows:
            event = item.event
            begun = begun or event is batch
            if item.seq >= row.seq:
                return
            if not begun or (getattr(event, "topic", ""), getattr(event, "partition", 0)) != (
                batch.topic,
                batch.partition,
            ):
                continue
            match event:
                case trace.RecordsSent() if event.node == batch.node and event.fetch_offset <= batch.last_offset:
                    yield item.seq, item.at_us, f"{event.sentence()}{self._calls(item, event)}"
                case trace.BatchAppended() if event.crc == batch.crc and event.node != batch.node:
                    yield item.seq, item.at_us, event.sentence()
                case trace.FollowerFetched() if (
                    event.node == batch.node and event.fetch_offset > batch.last_offset and event.peer not in level
                ):
                    level[event.peer] = None
                    yield item.seq, item.at_us, event.sentence()
                case trace.HighWatermarkAdvanced() if (
                    event.node == batch.node and event.previous_high_watermark <= batch.last_offset
                ):
                    yield item.seq, item.at_us, event.sentence()
                    if event.high_watermark > batch.last_offset:
                        return

    def _calls(self, row: TraceRow, sent: trace.RecordsSent) -> str:
        """Return a text with the number of sendfile calls for the response that sent these records."""
        for later in self.completed:
            request = request_of(later)
            if later.seq > row.seq and (request.node, request.peer, request.api) == (sent.node, sent.peer, "Fetch"):
                return f", by {count_of(request.sendfile_calls, 'sendfile call')}"
        return ""

    def _at_the_client(self, row: TraceRow, records: tuple[str, ...], since_us: int) -> Iterator[Stage]:
        """Yield the client's stages after the response. A client reports all events of one step with the same time."""
        request = request_of(row)
        sentences: list[str] = []
        at_us: int | None = None
        for item in self._rows:
            event = item.event
            if item.seq <= row.seq or (at_us is not None and item.at_us != at_us):
                continue
            if (getattr(event, "client", None), getattr(event, "peer", None)) != (request.peer, request.node):
                continue
            match event:
                case trace.RecordAcked() if event.record in records:
                    sentences.append(f"{event.record} is at {event.offset}")
                case trace.BatchRefused() if set(event.records) & set(records):
                    sentences.append(f"{event.error} for {listed(event.records)}")
                case trace.RecordRead() if request.api == "Fetch":
                    sentences.append(f"{event.record} at {event.offset}")
                case trace.FetchFailed() if request.api == "Fetch" and event.error == RECORD_DESERIALIZATION:
                    sentences.append(f"{event.error} at {event.offset}")
                case _:
                    continue
            at_us = item.at_us
        if at_us is not None:
            more = f" and {len(sentences) - TOLD_MAX} more" if len(sentences) > TOLD_MAX else ""
            is_produce = request.api == "Produce"
            stops = () if is_produce else self._pipeline.read(request.peer, at_us)
            yield from (Stage(*stop) for stop in stops)
            verb = "gets the response" if is_produce else "reads"
            yield Stage(
                max(at_us, since_us), "client", None, f"{request.peer} {verb}: {', '.join(sentences[:TOLD_MAX])}{more}"
            )
            heard = self._pipeline.acknowledged(request.peer, records, at_us) if is_produce else ()
            yield from (Stage(*stop) for stop in heard)


def _local_text(request: RequestCompleted, records: Sequence[str], appended: Sequence[trace.BatchAppended]) -> str:
    if request.api == "Fetch":
        return "finds the position of the records in a segment; does not read them"
    if not appended:
        return "appends nothing: the batch is refused or a duplicate"
    texts = [
        f"appends to {event.topic}-{event.partition} {span_of_offsets(event.base_offset, event.last_offset)} in epoch "
        f"{event.leader_epoch}, {event.size_bytes:,} bytes"
        for event in appended
    ]
    names = f": {listed(records)}" if 0 < len(records) <= TOLD_MAX else ""
    return f"{listed(texts)}{names}"


def _send_text(request: RequestCompleted) -> str:
    text = f"{request.response_bytes:,} bytes are sent"
    if not request.sendfile_calls:
        return text
    calls = count_of(request.sendfile_calls, "sendfile call")
    return f"{text}, {request.sendfile_bytes:,} of them by {calls} directly from the segment file"


# ------------------------------------------------------------------------------------------------------------- in words
#
# Requests and their journeys as text of 80 to 100 columns.

_NAME_WIDTH = 15
_TEXT_WIDTH = 56
LISTED_MAX = 40


def journey_text(journey: Journey, style: Style, run: str) -> str:
    """Return a journey as text: a headline, and for each stage a line with its time and duration, and its events."""
    records = f"  {_names(journey.records)}" if journey.records else ""
    head = style.bold(f"  {journey.request.api} {journey.name}{records}")
    lines = ["", f"{head}    {run}", ""]
    for stage in journey.stages:
        lines += _stage(stage, style)
    return "\n".join([*lines, ""])


def _stage(stage: Stage, style: Style) -> list[str]:
    took = "" if stage.took_us is None else f"{stage.took_us:,} us"
    first, *rest = folded(stage.text, _TEXT_WIDTH)
    name = f"{stage.name:<{_NAME_WIDTH}}"
    lines = [f"  {_clock(stage.at_us)}  {style.bold(name)} {took:>13}  {first}"]
    indent = " " * (2 + 12 + 2 + _NAME_WIDTH + 1 + 13 + 2)
    lines += [f"{indent}{line}" for line in rest]
    for at_us, text in stage.happened:
        first, *rest = folded(text, _TEXT_WIDTH + 13)
        lines.append(f"  {_clock(at_us)}    {style.sign('step')} {first}")
        lines += [f"{' ' * 20}{line}" for line in rest]
    return lines


def _clock(at_us: int) -> str:
    return f"{at_us / 1_000_000:>12.6f}"


def _names(records: Sequence[str], most: int = 4) -> str:
    more = f" and {len(records) - most} more" if len(records) > most else ""
    return f"{', '.join(records[:most])}{more}"


def requests_text(requests: RequestJourneys, style: Style, run: str) -> str:
    """Return a table of the latest requests as text."""
    rows = requests.completed[-LISTED_MAX:]
    head = style.bold(f"  {len(requests.completed):,} Produce requests, and Fetch requests that found records")
    lines = ["", f"{head}    {run}"]
    if len(rows) < len(requests.completed):
        lines.append(f"  the last {len(rows)} of them; --format json lists all")
    table = [("done at", "request", "total", "queue", "local", "remote", "records")]
    for row in rows:
        request = request_of(row)
        total, queue, local, remote = (
            f"{took_us:,} us"
            for took_us in (
                request.total_time_us, request.request_queue_time_us, request.local_time_us, request.remote_time_us
            )
        )  # fmt: skip
        sent = request.sendfile_bytes
        what = f"{sent:,} bytes by sendfile" if sent else _names(requests.records_of(row), 3)
        table.append((_clock(row.at_us), f"{request.api} {requests.name_of(row)}", total, queue, local, remote, what))
    lines += ["", *table_lines(table, right=(0, 2, 3, 4, 5))]
    return "\n".join([*lines, "", "  highwater path RUN REQUEST shows the stages of one request, for example the last:",
                      f"    highwater path {run.split()[0]} {_last(requests)}", ""])  # fmt: skip


def _last(requests: RequestJourneys) -> str:
    return requests.name_of(requests.completed[-1]) if requests.completed else "REQUEST"
