"""Readers of the `expect` block."""

from __future__ import annotations

from collections.abc import Iterable

from replica.errors import ERRORS_WITHOUT_A_NUMBER, ErrorCode
from replica.trace.events import CLASS_OF_EVENT
from scenarios.language.diagnostics import did_you_mean
from scenarios.language.expect import (
    ALIASES_OF_EVENT,
    ANOMALIES,
    LATENCY_STATISTICS,
    DivergedTest,
    ErrorTest,
    EventTest,
    EventValue,
    Expect,
    LatencyTest,
    NumberTest,
    TimeTest,
    UnavailableTest,
    UnavailableWindow,
    columns_of,
    value_kind,
)
from scenarios.language.values.condition_reading import (
    one_level_up,
    read_logs,
    read_records,
    read_state,
)
from scenarios.language.values.reading import Fields, parse_time
from scenarios.language.values.scope import Scope
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, Sequence

A_DIVERGENCE = "for example {t-0: {offsets: [10], replicas: [b1, b2]}}"
_FIELDS = ("verdict", "records", "logs", "diverged", "state", "events", "errors", "latency", "unavailable")
_ERROR_FIELDS = ("count", "first_after", "first_before", "last_after", "last_before")


def read_expect(scope: Scope, node: Node, path: str) -> Expect:
    reader = scope.reader
    example = "for example {verdict: ok, records: {lost: none}}"
    fields = reader.fields(node, path, "`expect`", _FIELDS, example=example, elsewhere=one_level_up(scope, node))
    return Expect(
        verdict=fields.read("verdict", lambda n, p: _verdict(scope, n, p), ()),
        verdict_is_written="verdict" in fields,
        records=fields.read("records", lambda n, p: read_records(scope, n, p), ()),
        logs=fields.read("logs", lambda n, p: read_logs(scope, n, p), ()),
        diverged=fields.read("diverged", lambda n, p: _diverged(scope, n, p), None),
        state=fields.read("state", lambda n, p: read_state(scope, n, p, "`state`"), None),
        events=fields.read("events", lambda n, p: _events(scope, n, p), ()),
        errors=fields.read("errors", lambda n, p: _errors(scope, n, p), ()),
        latency=fields.read("latency", lambda n, p: _latencies(scope, n, p), ()),
        unavailable=fields.read("unavailable", lambda n, p: _unavailable(scope, n, p), ()),
    )


def _verdict(scope: Scope, node: Node, path: str) -> tuple[str, ...]:
    """Read a verdict: `ok`, one kind of anomaly, or a list of kinds."""
    if isinstance(node, Scalar):
        kind = scope.reader.choice(node, path, "`verdict`", ("ok", *ANOMALIES))
        return () if kind == "ok" else (kind,)
    kinds = [
        scope.reader.choice(item, item_path, "a kind of anomaly", ANOMALIES)
        for item, item_path in scope.reader.items(node, path, "`verdict`")
    ]
    if isinstance(node, Sequence) and not kinds:
        scope.reader.error("E111", "`verdict` is empty", node.place, path=path, suggestion="ok")
    return tuple(kind for kind in ANOMALIES if kind in kinds)


def _diverged(scope: Scope, node: Node, path: str) -> tuple[DivergedTest, ...]:
    """Read expected divergence: `none`, or `{t-0: {offsets: [1], replicas: [b1, b2]}}`."""
    reader = scope.reader
    if isinstance(node, Scalar) and node.text == "none":
        return ()
    tests = []
    for key, key_node, value, value_path in reader.entries(node, path, "`diverged`", A_DIVERGENCE):
        partition = scope.partition_of(key, key_node.place, value_path)
        known, example = ("offsets", "replicas"), "for example {offsets: [10], replicas: [b1, b2]}"
        fields = reader.fields(value, value_path, f"`{key}`", known, known, example=example)
        offsets, replicas = fields.get("offsets"), fields.get("replicas")
        tests.append(
            DivergedTest(
                partition=partition,
                offsets=tuple(reader.integer(*item, "an offset") for item in _listed(scope, offsets)),
                replicas=tuple(scope.broker(*item, "a replica") for item in _listed(scope, replicas)),
            )
        )
    return tuple(tests)


def _listed(scope: Scope, found: tuple[Node, str] | None) -> list[tuple[Node, str]]:
    return [] if found is None else scope.reader.items(*found, "the value")


# ------------------------------------------------------------------------------------------------------------ events


def _events(scope: Scope, node: Node, path: str) -> tuple[EventTest, ...]:
    items = scope.reader.items(node, path, "`events`", "for example [{event: leader_elected, broker: b2}]")
    tests = (_event(scope, item, item_path) for item, item_path in items)
    return tuple(test for test in tests if test is not None)


def _event(scope: Scope, node: Node, path: str) -> EventTest | None:
    """Read an expected event, such as `{event: leader_elected, partition: t-0, broker: b2, between: [17s, 20s]}`."""
    reader = scope.reader
    if not isinstance(node, Mapping) or ("event" in node.entries) == ("never" in node.entries):
        reader.error(
            "E105",
            "an expected event needs exactly one of `event` and `never`",
            node.place,
            path=path,
            label=f"write {{event: {node.text}}}"
            if isinstance(node, Scalar) and node.text in CLASS_OF_EVENT
            else "for example {event: leader_elected, broker: b2}",
        )
        return None
    never = "never" in node.entries
    head = node.entries["never" if never else "event"][1]
    event = event_name(scope, head, f"{path}.{'never' if never else 'event'}")
    if event is None:
        return None
    columns = columns_of(event)
    fields = reader.fields(
        node, path, f"`{event}`", ("event", "never", "between", "after", "before", "count", *columns)
    )
    if never and "count" in fields:
        reader.error("E111", "`count` cannot be used with `never`", fields.key_place("count"), path=f"{path}.count")
    where: dict[str, EventValue] = {}
    for key in columns:
        found = fields.get(key)
        if found is not None:
            _column(scope, event, key, found[0], found[1], where)
    return EventTest(
        event=event,
        never=never,
        where=dict(sorted(where.items())),
        between=reader.bounds_of(fields),
        count=fields.number_test("count"),
        line=node.place.line + 1,
    )


def event_name(scope: Scope, node: Node, path: str) -> str | None:
    text = scope.reader.text(node, path, "an event")
    event = ALIASES_OF_EVENT.get(text, text)
    if event in CLASS_OF_EVENT:
        return event
    suggestion = did_you_mean(text, [*CLASS_OF_EVENT, *ALIASES_OF_EVENT])
    scope.reader.error(
        "E131",
        f"no event is called `{text[:60]}`",
        node.place,
        path=path,
        suggestion=suggestion,
        label="" if suggestion else "use a name such as leader_elected, isr_committed or log_truncated",
    )
    return None


def _column(scope: Scope, event: str, key: str, node: Node, path: str, where: dict[str, EventValue]) -> None:
    """Read the value of one column and put it into `where`, under the canonical name of the column."""
    column = columns_of(event)[key]
    if key == "partition":
        partition = scope.partition(node, path, "`partition`")
        where.update({"topic": partition.topic, "partition": NumberTest(partition.partition, partition.partition)})
        return
    what = f"`{key}`"
    kind = value_kind(event, column)
    if (isinstance(node, Scalar) and node.is_null) or (
        isinstance(node, Scalar) and node.text == "none" and kind == "string"
    ):
        where[column] = None
    elif kind == "int64":
        where[column] = scope.reader.number_test(node, path, what, low=-1)
    elif kind == "bool":
        where[column] = scope.reader.boolean(node, path, what)
    elif kind == "string":
        where[column] = _text_value(scope, column, node, path, what)
    else:
        where[column] = _names_value(scope, column, node, path, what)


_ERRORS = (*ErrorCode.__members__, *ERRORS_WITHOUT_A_NUMBER)
_NODE_COLUMNS = ("node", "peer", "broker", "previous_leader", "client")


def _text_value(scope: Scope, column: str, node: Node, path: str, what: str) -> str:
    text = scope.reader.text(node, path, what)
    if column in _NODE_COLUMNS and isinstance(node, Scalar):
        return str(scope.selector(node, path, what)) if text.startswith("@") else _known_node(scope, node, path)
    if column == "error" and isinstance(node, Scalar):
        return scope.reader.choice(node, path, what, _ERRORS)
    if column == "record" and isinstance(node, Scalar):
        scope.records(node, path, what)
    return text


def _known_node(scope: Scope, node: Scalar, path: str) -> str:
    scope.check_node(node.text, node.place, path)
    return node.text


def _names_value(scope: Scope, column: str, node: Node, path: str, what: str) -> tuple[str, ...]:
    if column == "records":
        return scope.records(node, path, what)
    items = scope.reader.items(node, path, what)
    if column in ("isr", "previous_isr", "elr", "previous_elr", "replicas"):
        return tuple(scope.broker(item, item_path, "a broker") for item, item_path in items)
    return tuple(scope.reader.text(item, item_path, "a name") for item, item_path in items)


# ------------------------------------------------------------------------------------------ errors, latency, windows


def _errors(scope: Scope, node: Node, path: str) -> tuple[ErrorTest, ...]:
    """Read expected errors, such as `{p1: {NOT_ENOUGH_REPLICAS: {first_after: 45s}}, p2: none}`."""
    reader = scope.reader
    tests: list[ErrorTest] = []
    for client, client_node, value, value_path in reader.entries(
        node, path, "`errors`", _such_as(scope.clients, "none")
    ):
        scope.client(client_node, value_path, "a client", scope.clients, "client")
        if isinstance(value, Scalar) and value.text == "none":
            tests.append(ErrorTest(client=client, error=None, count=NumberTest(0, 0)))
            continue
        name = value.text if isinstance(value, Scalar) and value.text in _ERRORS else "NOT_ENOUGH_REPLICAS"
        example = f"for example none or {{{name}: {{count: 3}}}}"
        for _, error_node, test, test_path in reader.entries(value, value_path, f"`{client}`", example):
            error = reader.choice(error_node, test_path, "an error", _ERRORS)
            tests.append(_error_test(scope, client, error, test, test_path))
    return tuple(tests)


def _such_as(names: Iterable[str], value: str) -> str:
    return f"for example {{{next(iter(names), 'p1')}: {value}}}"


def _error_test(scope: Scope, client: str, error: str, node: Node, path: str) -> ErrorTest:
    if isinstance(node, Scalar) and node.text == "none":
        return ErrorTest(client=client, error=error, count=NumberTest(0, 0))
    if isinstance(node, Scalar) and not (node.is_empty or node.is_null):
        return ErrorTest(client=client, error=error, count=scope.reader.number_test(node, path, "`count`"))
    fields = scope.reader.fields(node, path, f"`{error}`", _ERROR_FIELDS)
    return ErrorTest(
        client=client,
        error=error,
        count=fields.number_test("count"),
        first=_time_pair(scope, fields, "first_after", "first_before"),
        last=_time_pair(scope, fields, "last_after", "last_before"),
    )


def _time_pair(scope: Scope, fields: Fields, low: str, high: str) -> TimeTest | None:
    low_us, high_us = fields.time(low, None), fields.time(high, None)
    if low_us is not None and high_us is not None and low_us > high_us:
        scope.reader.error(
            "E112", f"`{low}` is later than `{high}`", fields.key_place(low), path=f"{fields.path}.{low}"
        )
    return None if low_us is None and high_us is None else TimeTest(low_us, high_us)


def _latencies(scope: Scope, node: Node, path: str) -> tuple[LatencyTest, ...]:
    """Read bounds of latency, such as `{p1: {max: {between: [8s, 9s]}, r10: {at_least: 32s}}}`."""
    reader = scope.reader
    tests: list[LatencyTest] = []
    for client, client_node, value, value_path in reader.entries(
        node, path, "`latency`", _such_as(scope.producers, "{max: ...}")
    ):
        if client in LATENCY_STATISTICS and client not in scope.producers:
            title, label = f"`{client}` names no producer", _such_as(scope.producers, f"{{{client}: ...}}")
            reader.error("E104", title, client_node.place, path=value_path, label=label)
            continue
        scope.client(client_node, value_path, "a producer", list(scope.producers), "producer")
        example = "for example {max: {at_most: 5s}}"
        for what, what_node, bounds, bounds_path in reader.entries(value, value_path, f"`{client}`", example):
            if what not in LATENCY_STATISTICS and not _one_record(scope, what, client):
                reader.error(
                    "E110",
                    f"`{what}` is neither a statistic nor a record of `{client}`",
                    what_node.place,
                    path=bounds_path,
                    label=f"choose one of {', '.join(LATENCY_STATISTICS)}, or a record such as r10",
                )
                continue
            known = ("between", "at_least", "at_most")
            limit = bounds.text.lstrip("<= ") if isinstance(bounds, Scalar) else ""
            example = f"write {{at_most: {limit}}}" if parse_time(limit) else "for example {at_most: 5s}"
            fields = reader.fields(bounds, bounds_path, f"`{what}`", known, example=example)
            test = _duration_bounds(scope, fields) if fields.node is not None or bounds.is_nothing else None
            if test is not None:
                tests.append(LatencyTest(client=client, what=what, bounds=test))
    return tuple(tests)


def _one_record(scope: Scope, name: str, client: str) -> bool:
    prefix = name.rstrip("0123456789")
    return name != prefix and scope.prefixes.get(prefix) == client


def _duration_bounds(scope: Scope, fields: Fields) -> TimeTest | None:
    test = scope.reader.bounds_of(fields, ("between", "at_least", "at_most"))
    if test is None:
        scope.reader.error(
            "E105",
            f"{fields.what} has no bound",
            fields.place,
            path=fields.path,
            label="add `between`, `at_least` or `at_most`",
        )
    return test


def _unavailable(scope: Scope, node: Node, path: str) -> tuple[UnavailableTest, ...]:
    """Read expected outages, such as `{t-0: {writes: [{from: 10.5s, to: 110s, slack: 2s}], reads: none}}`."""
    reader = scope.reader
    tests: list[UnavailableTest] = []
    example = _such_as([f"{topic}-0" for topic in scope.topics], "{writes: none}")
    for key, key_node, value, value_path in reader.entries(node, path, "`unavailable`", example):
        partition = scope.partition_of(key, key_node.place, value_path)
        fields = reader.fields(value, value_path, f"`{key}`", ("writes", "reads"), example="for example {writes: none}")
        for what in ("writes", "reads"):
            found = fields.get(what)
            if found is not None:
                tests.append(
                    UnavailableTest(partition=partition, what=what, windows=_windows(scope, *found, f"`{what}`"))
                )
    return tuple(tests)


def _windows(scope: Scope, node: Node, path: str, what: str) -> tuple[UnavailableWindow, ...]:
    reader = scope.reader
    if isinstance(node, Scalar) and node.text == "none":
        return ()
    windows: list[UnavailableWindow] = []
    example = "for example {from: 10.5s, to: 19.5s}"
    for item, item_path in reader.items(node, path, what, "for example [{from: 10.5s, to: 19.5s}]"):
        fields = reader.fields(item, item_path, "a window", ("from", "to", "slack"), ("from", "to"), example=example)
        from_us, to_us, slack_us = (fields.time(key, 0) for key in ("from", "to", "slack"))
        if to_us < from_us and "to" in fields:
            reader.error("E112", "the window ends before it begins", fields.key_place("to"), path=f"{item_path}.to")
        windows.append(UnavailableWindow(from_us, to_us, slack_us))
    return tuple(windows)
