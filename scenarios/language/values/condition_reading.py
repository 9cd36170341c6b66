"""Conditions of `when`, `check` and `expect`: state, records, logs."""

from __future__ import annotations

from scenarios.language.expect import (
    RECORD_KINDS,
    LogTest,
    NodeTest,
    PartitionTest,
    RecordsTest,
    ReplicaTest,
    StateTest,
)
from scenarios.language.selectors import SelectorError, parse_partition
from scenarios.language.values.scope import BROKER, Scope
from scenarios.language.values.yaml_source import Mapping, Node, Scalar

_PARTITION_FIELDS = ("leader", "epoch", "isr", "elr", "hw", "leo", "offline")
_REPLICA_FIELDS = ("hw", "leo", "epoch", "leading")
_NODE_FIELDS = ("running", "fenced")


def read_state(scope: Scope, node: Node, path: str, what: str) -> StateTest:
    """`{t-0: {leader: b2}, b2: {t-0: {leo: 11}}, b3: {fenced: false}}`"""
    partitions: list[PartitionTest] = []
    nodes: list[NodeTest] = []
    for key, key_node, value, value_path in scope.reader.entries(node, path, what):
        if _is_partition(scope, key):
            partitions.append(_read_partition_test(scope, key, key_node, value, value_path))
        else:
            nodes.append(_read_node_test(scope, key_node, value, value_path))
    if node.is_nothing:
        scope.reader.error("E105", f"{what} is empty", node.place, path=path, label="such as {t-0: {leader: b2}}")
    return StateTest(partitions=tuple(partitions), nodes=tuple(nodes))


def _is_partition(scope: Scope, key: str) -> bool:
    """Known nodes first: a broker may be called `rack-1`."""
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
    fields = reader.fields(node, path, f"the state of `{key}`", _PARTITION_FIELDS)

    return PartitionTest(
        partition=partition,
        leader=fields.read("leader", lambda n, p: scope.selector(n, p, "`leader`", BROKER), None),
        epoch=fields.number_test("epoch"),
        isr=fields.read("isr", lambda n, p: scope.selector(n, p, "`isr`", BROKER), None),
        elr=fields.read("elr", lambda n, p: scope.selector(n, p, "`elr`", BROKER), None),
        hw=fields.number_test("hw"),
        leo=fields.number_test("leo"),
        offline=fields.boolean("offline", None),
    )


def _read_node_test(scope: Scope, key_node: Scalar, node: Node, path: str) -> NodeTest:
    reader = scope.reader
    selector = scope.selector(key_node, path, "a node")
    what = f"the state of `{key_node.text}`"
    running = fenced = None
    replicas: list[ReplicaTest] = []
    for key, inner_key, value, value_path in reader.entries(node, path, what):
        if key == "running":
            running = reader.boolean(value, value_path, "`running`")
        elif key == "fenced":
            fenced = reader.boolean(value, value_path, "`fenced`")
        elif _is_partition(scope, key):
            replicas.append(_read_replica_test(scope, key, inner_key, value, value_path))
        else:
            reader.unknown_key(
                key, inner_key.place, path, what, (*_NODE_FIELDS, *(f"{topic}-0" for topic in scope.topics))
            )
    return NodeTest(node=selector, running=running, fenced=fenced, replicas=tuple(replicas))


def _read_replica_test(scope: Scope, key: str, key_node: Scalar, node: Node, path: str) -> ReplicaTest:
    reader = scope.reader
    partition = scope.partition_of(key, key_node.place, path)
    fields = reader.fields(node, path, f"the replica of `{key}`", _REPLICA_FIELDS)

    return ReplicaTest(
        partition=partition,
        hw=fields.number_test("hw"),
        leo=fields.number_test("leo"),
        epoch=fields.number_test("epoch"),
        leading=fields.boolean("leading", None),
    )


def read_records(scope: Scope, node: Node, path: str) -> tuple[RecordsTest, ...]:
    """`{acked: r0..r19, lost: none, missing: {at_least: r10..r14}, failed: {count: 3}}`"""
    fields = scope.reader.fields(node, path, "`records`", RECORD_KINDS)
    found = ((kind, fields.get(kind)) for kind in RECORD_KINDS)
    return tuple(_read_records_test(scope, kind, *value) for kind, value in found if value is not None)


def _read_records_test(scope: Scope, kind: str, node: Node, path: str) -> RecordsTest:
    what = f"`{kind}`"
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
    """`{t-0: "r0..r9"}` for the leader's log, `{t-0: {b1: "r0", b2: "r0, r2"}}` for each broker's."""
    tests: list[LogTest] = []
    for key, key_node, value, value_path in scope.reader.entries(node, path, "`logs`"):
        partition = scope.partition_of(key, key_node.place, value_path)
        if not isinstance(value, Mapping):
            tests.append(LogTest(partition=partition, node=None, records=scope.records(value, value_path, f"`{key}`")))
            continue
        for broker, broker_node, names, names_path in scope.reader.entries(value, value_path, f"`{key}`"):
            scope.check_node(broker, broker_node.place, names_path, BROKER)
            records = scope.records(names, names_path, f"`{broker}`")
            tests.append(LogTest(partition=partition, node=broker, records=records))
    return tuple(tests)
