"""Readers of the conditions of `when`, `check` and `expect`: state, records and logs."""

from __future__ import annotations

from scenarios.language.diagnostics import other_spelling
from scenarios.language.expect import (
    RECORD_KINDS,
    LogTest,
    NodeTest,
    PartitionTest,
    RecordsTest,
    ReplicaTest,
    StateTest,
)
from scenarios.language.selectors import NO_NODES, Selector, SelectorError, parse_partition
from scenarios.language.values.reading import bounds_meant, shortened
from scenarios.language.values.scope import BROKER, Scope
from scenarios.language.values.synonyms import FIELD_SYNONYMS
from scenarios.language.values.yaml_source import Mapping, Node, Scalar

PARTITION_FIELDS = ("leader", "epoch", "isr", "elr", "hw", "leo", "offline")
_REPLICA_FIELDS = ("hw", "leo", "epoch", "leading")
_NODE_FIELDS = ("running", "fenced")
_NODE_STATES = {
    **dict.fromkeys(("down", "stopped", "dead", "killed", "off", "offline"), "running: false"),
    **dict.fromkeys(("up", "running", "alive", "on", "online", "started"), "running: true"),
    "fenced": "fenced: true",
    "unfenced": "fenced: false",
}
"""Common words for the state of a node, each with the correct key and value."""
A_STATE = "for example {t-0: {leader: b2}} or {b1: {running: false}}"


def one_level_up(scope: Scope, node: Node) -> dict[str, str]:
    """Return hints, by key, for expectations that belong one level down, inside `records` or `state`."""
    values = {key: value for key, (_, value) in node.entries.items()} if isinstance(node, Mapping) else {}
    blocks = {other_spelling(key, RECORD_KINDS, FIELD_SYNONYMS): records_meant(value) for key, value in values.items()}
    records = {kind: f"write `records: {{{kind}: {blocks.get(kind, 'none')}}}`" for kind in RECORD_KINDS}
    partitions = {key: f"write `state: {{{_a_partition(scope)}: {{{key}: ...}}}}`" for key in PARTITION_FIELDS}
    named = {key: f"write `state: {{{key}: ...}}`" for key in values if key in scope.nodes or _is_partition(scope, key)}
    return records | partitions | named


def _a_partition(scope: Scope) -> str:
    return f"{next(iter(scope.topics), 't')}-0"


def _text(node: Node) -> str:
    return shortened(node.text) if isinstance(node, Scalar) else "..."


def read_state(scope: Scope, node: Node, path: str, what: str) -> StateTest:
    """Read a state such as `{t-0: {leader: b2}, b2: {t-0: {leo: 11}}, b3: {fenced: false}}`."""
    partitions: list[PartitionTest] = []
    nodes: list[NodeTest] = []
    for key, key_node, value, value_path in scope.reader.entries(node, path, what, A_STATE):
        if key in PARTITION_FIELDS and key not in scope.nodes:
            inner = next(iter(value.entries.items())) if isinstance(value, Mapping) and value.entries else None
            partition, (_, leaf) = inner or (_a_partition(scope), (key_node, value))
            label = f"write {{{partition}: {{{key}: {_text(leaf)}}}}}"
            label = label if inner else f"name the partition: {label}"
            scope.reader.error("E104", f"`{key}` in {what} needs a partition", key_node.place, path=path, label=label)
        elif _is_partition(scope, key):
            partitions.append(_read_partition_test(scope, key, key_node, value, value_path))
        else:
            nodes.append(_read_node_test(scope, key_node, value, value_path))
    if node.is_nothing:
        scope.reader.error("E105", f"{what} is empty", node.place, path=path, label="for example {t-0: {leader: b2}}")
    return StateTest(partitions=tuple(partitions), nodes=tuple(nodes))


def _is_partition(scope: Scope, key: str) -> bool:
    """Return True if the key names a partition and not a node. A broker may be called `rack-1`, so nodes come first."""
    if key in scope.nodes:
        return False
    try:
        parse_partition(key)
    except SelectorError:
        return key in scope.topics
    return True


def _read_partition_test(scope: Scope, key: str, key_node: Scalar, node: Node, path: str) -> PartitionTest:
    reader = scope.reader
    partition = scope.partition_of(key, key_node.place, path)
    value = node.entries if isinstance(node, Mapping) else {}
    continued = {name for name in value if name in scope.brokers and value[name][1].is_nothing}
    hints = {name: f"write `{name}: {{{key}: {{leo: ...}}}}`, beside `{key}`" for name in scope.brokers}
    hints |= dict.fromkeys(continued, "put a list in brackets: `isr: [b1, b2]`")
    is_broker = _text(node) in (*scope.brokers, "none")
    example = f"write {{leader: {_text(node)}}}" if is_broker else "for example {leader: b2, hw: 10}"
    fields = reader.fields(node, path, f"the state of `{key}`", PARTITION_FIELDS, elsewhere=hints, example=example)

    return PartitionTest(
        partition=partition,
        leader=fields.read("leader", lambda n, p: scope.selector(n, p, "`leader`", BROKER), None),
        epoch=fields.number_test("epoch"),
        isr=fields.read("isr", lambda n, p: _read_members(scope, n, p, "`isr`"), None),
        elr=fields.read("elr", lambda n, p: _read_members(scope, n, p, "`elr`"), None),
        hw=fields.number_test("hw"),
        leo=fields.number_test("leo"),
        offline=fields.boolean("offline", None),
    )


def _read_members(scope: Scope, node: Node, path: str, what: str) -> Selector:
    is_number = isinstance(node, Scalar) and (node.text.isdigit() or bounds_meant(node.text) is not None)
    if not is_number and not isinstance(node, Mapping):
        return scope.selector(node, path, what, BROKER)
    title = f"{what} must be a set of brokers, not a number"
    label = f"write its members, such as [{', '.join(scope.brokers[:2])}]"
    scope.reader.error("E125", title, node.place, path=path, label=label)
    return NO_NODES


def _read_node_test(scope: Scope, key_node: Scalar, node: Node, path: str) -> NodeTest:
    reader = scope.reader
    selector = scope.selector(key_node, path, "a node")
    what = f"the state of `{key_node.text}`"
    running = fenced = None
    replicas: list[ReplicaTest] = []
    spoken = _NODE_STATES.get(node.text.lower(), "") if isinstance(node, Scalar) else ""
    example = f"write {{{spoken}}}" if spoken else "for example {running: false} or {t-0: {leo: 10}}"
    for key, inner_key, value, value_path in reader.entries(node, path, what, example):
        if key == "running":
            running = reader.boolean(value, value_path, "`running`")
        elif key == "fenced":
            fenced = reader.boolean(value, value_path, "`fenced`")
        elif _is_partition(scope, key):
            replicas.append(_read_replica_test(scope, key, inner_key, value, value_path))
        else:
            known = (*_NODE_FIELDS, *(f"{topic}-0" for topic in scope.topics))
            hints = {name: f"write {{{_a_partition(scope)}: {{{name}: {_text(value)}}}}}" for name in _REPLICA_FIELDS}
            spoken = _NODE_STATES.get(_text(value).lower(), "")
            hints |= {"state": f"write {{{spoken}}}"} if spoken else {}
            reader.unknown_key(key, inner_key.place, path, what, known, elsewhere=hints)
    return NodeTest(node=selector, running=running, fenced=fenced, replicas=tuple(replicas))


def _read_replica_test(scope: Scope, key: str, key_node: Scalar, node: Node, path: str) -> ReplicaTest:
    reader = scope.reader
    partition = scope.partition_of(key, key_node.place, path)
    example = f"write {{leo: {_text(node)}}}" if _text(node).isdigit() else "for example {leo: 10}"
    fields = reader.fields(node, path, f"the replica of `{key}`", _REPLICA_FIELDS, example=example)

    return ReplicaTest(
        partition=partition,
        hw=fields.number_test("hw"),
        leo=fields.number_test("leo"),
        epoch=fields.number_test("epoch"),
        leading=fields.boolean("leading", None),
    )


def read_records(scope: Scope, node: Node, path: str) -> tuple[RecordsTest, ...]:
    """Read sets of records, such as `{acked: r0..r19, lost: none, missing: {at_least: r10..r14}}`."""
    fields = scope.reader.fields(node, path, "`records`", RECORD_KINDS, example="for example {lost: none}")
    found = ((kind, fields.get(kind)) for kind in RECORD_KINDS)
    return tuple(_read_records_test(scope, kind, *value) for kind, value in found if value is not None)


def records_meant(node: Node) -> str:
    """Return the condition that a number such as `5` or `>0` means for a set of records; `none` for other values."""
    return (_count_meant(node.text) if isinstance(node, Scalar) else None) or "none"


def _count_meant(text: str) -> str | None:
    """Return a condition such as `{count: 5}` for `5`, `5 records`, `>0` or `some`; None for another text."""
    if text.lower() in ("some", "any", "yes", "true"):
        return "{count: {at_least: 1}}"
    number = text.removesuffix("s").removesuffix("record").rstrip()
    if number.isascii() and number.isdigit():
        return f"{{count: {int(number[:9])}}}" if int(number[:9]) else "none"
    bounds = bounds_meant(text)
    return f"{{count: {bounds}}}" if bounds else None


_NO_SHARE = "write r0..r19 or {count: {at_least: 18}}; if all are acked, write `failed: none, unknown: none`"


def _read_records_test(scope: Scope, kind: str, node: Node, path: str) -> RecordsTest:
    what = f"`{kind}`"
    meant = _count_meant(node.text) if isinstance(node, Scalar) else None
    if meant is not None:
        title = f"{what} must be a set of records, not a number"
        scope.reader.error("E124", title, node.place, path=path, suggestion=meant)
        return RecordsTest(kind=kind)
    if isinstance(node, Scalar) and (node.text.lower() in ("all", "every") or node.text.endswith("%")):
        scope.reader.error(
            "E124", f"{what} must be a set of records, not a share", node.place, path=path, label=_NO_SHARE
        )
        return RecordsTest(kind=kind)
    if not isinstance(node, Mapping):
        names = scope.records(node, path, what)
        return RecordsTest(kind=kind, at_least=names, at_most=names)
    fields = scope.reader.fields(node, path, what, ("at_least", "at_most", "count"))
    return RecordsTest(
        kind=kind,
        at_least=fields.read("at_least", lambda n, p: scope.records(n, p, what), None),
        at_most=fields.read("at_most", lambda n, p: scope.records(n, p, what), None),
        count=fields.number_test("count"),
    )


def read_logs(scope: Scope, node: Node, path: str) -> tuple[LogTest, ...]:
    """Read logs: `{t-0: "r0..r9"}` for the leader's, `{t-0: {b1: "r0", b2: "r0, r2"}}` for those of single brokers."""
    tests: list[LogTest] = []
    example = f"for example {{{_a_partition(scope)}: r0..r9}}"
    for key, key_node, value, value_path in scope.reader.entries(node, path, "`logs`", example):
        parts = value.entries.items() if isinstance(value, Mapping) else [(key, (key_node, value))]
        wrong = [(at.place, line) for name, (at, inner) in parts if (line := _log_meant(scope, key, name, inner))]
        for place, line in wrong:
            title = "`logs` must have sets of records by partition, or by partition and broker"
            scope.reader.error("E124", title, place, path=value_path, label=f"write `{line}`")
        if wrong:
            continue
        partition = scope.partition_of(key, key_node.place, value_path)
        if not isinstance(value, Mapping):
            tests.append(LogTest(partition=partition, node=None, records=scope.records(value, value_path, f"`{key}`")))
            continue
        for broker, broker_node, names, names_path in scope.reader.entries(value, value_path, f"`{key}`"):
            scope.check_node(broker, broker_node.place, names_path, BROKER)
            records = scope.records(names, names_path, f"`{broker}`")
            tests.append(LogTest(partition=partition, node=broker, records=records))
    return tuple(tests)


def _log_meant(scope: Scope, key: str, name: str, node: Node) -> str | None:
    """Return the correct form of a wrong entry of `logs`.

    The entry has an offset instead of records, which belongs under `state`, or has its partition and broker swapped.

    Args:
        key: the key in `logs`.
        name: the key one level below; equal to `key` if there is none.
        node: the value of `name`.

    Returns:
        A line such as `t-0: {b1: r0..r9}`; None if the entry is right or its meaning is unclear.
    """
    keys = [key, name]
    while isinstance(node, Mapping) and len(node.entries) == 1:
        ((inner, (_, node)),) = node.entries.items()
        keys.append(inner)
    if not isinstance(node, Scalar):
        return None
    partitions = [item for item in keys if _is_partition(scope, item) and item not in scope.topics]
    partition = partitions[0] if partitions else _a_partition(scope)
    broker = next((item for item in keys if item in scope.brokers), None)
    offset = next((item for item in keys if item in ("hw", "leo")), "leo" if node.text.isdigit() else None)
    inner = f"{partition}: {{{offset}: {_text(node)}}}"
    if offset is not None:
        return f"state: {{{broker}: {{{inner}}}}}" if broker else f"state: {{{inner}}}"
    is_right = keys in ([partition, partition], [partition, broker])
    if is_right or not set(keys) <= {partition, broker, "leader", "records", "log", *scope.topics}:
        return None
    return f"{partition}: {{{broker}: {_text(node)}}}" if broker else f"{partition}: {_text(node)}"
