"""What stands after each verb of a step: one function per shape, one table from verb to function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

from replica.config import DynamicBrokerConfig, TopicConfig
from replica.errors import ErrorCode
from scenarios.language.conditions import NumberTest
from scenarios.language.parse.disk_verbs import (
    read_bitflip,
    read_bump_clock,
    read_fail_disk,
    read_fill_disk,
    read_slow_disk,
    read_strobe_clock,
)
from scenarios.language.parse.workloads import BATCH_MAX, RECORD_BYTES_MAX
from scenarios.language.record_sets import RECORDS_MAX
from scenarios.language.selectors import NOBODY, Selector
from scenarios.language.spec import Workload
from scenarios.language.steps import (
    AddLatency,
    CancelReassign,
    Check,
    Cut,
    Delay,
    Direction,
    Elect,
    EndOffsetTest,
    Flush,
    Heal,
    Hold,
    Kill,
    LimitBandwidth,
    Loss,
    PartitionNetwork,
    Pause,
    Payload,
    PowerOff,
    Produce,
    Reassign,
    Release,
    ResetPeer,
    Restart,
    Resume,
    Seek,
    SetConfig,
    Start,
    Stop,
    Tear,
    Throttle,
    Wipe,
)
from scenarios.language.values.condition_reading import read_logs, read_records, read_state
from scenarios.language.values.links import read_delay, read_sides
from scenarios.language.values.reading import Fields
from scenarios.language.values.scope import BROKER, LINK_END, NO_PARTITION, Scope
from scenarios.language.values.yaml_source import Mapping, Node, Scalar

HOLDABLE_APIS = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetForLeaderEpoch",
    "InitProducerId",
    "ApiVersions",
    "CreateTopics",
    "ElectLeaders",
    "AlterPartition",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "AllocateProducerIds",
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "ControlledShutdown",
    "ZooKeeper",
)
HEALABLE = ("partition", "cut", "latency", "bandwidth", "loss")
DIRECTIONS = ("both", "to", "from")

Read = Callable[[Scope, Node, str, dict[str, Workload]], Payload]


def _nodes(payload: Callable[[Selector], Payload], of: str = "a node") -> Read:
    """Verbs that take nodes and nothing else."""

    def read(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
        return payload(scope.some_nodes(node, path, "the target", of))

    return read


# ------------------------------------------------------------------------------------------------------- network


def _partition(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    items = scope.reader.items(node, path, "`partition`")
    islands = tuple(scope.some_nodes(item, item_path, "an island", LINK_END) for item, item_path in items)
    if len(islands) < 2:
        scope.reader.error(
            "E105", "`partition` needs two islands or more", node.place, path=path, label="such as [[b1], [b2, b3, c1]]"
        )
    _check_apart(scope, islands, node, path)
    return PartitionNetwork(islands)


def _check_apart(scope: Scope, sides: tuple[Selector, ...], node: Node, path: str) -> None:
    """The same node cannot stand on two sides."""
    seen: list[str] = []
    for side in sides:
        for name in side.plain_names or ():
            if name in seen:
                scope.reader.error("E134", f"`{name}` stands on both sides", node.place, path=path)
            seen.append(name)


def _between(
    scope: Scope, node: Node, path: str, what: str, extra: tuple[str, ...]
) -> tuple[Fields, Selector, Selector]:
    fields = scope.reader.fields(node, path, what, ("between", *extra), ("between",))
    sides = fields.read("between", lambda n, p: read_sides(scope, n, p), None)
    if sides is not None:
        _check_apart(scope, sides, node, path)
    side_a, side_b = sides or (NOBODY, NOBODY)
    return fields, side_a, side_b


def _direction(scope: Scope, fields: Fields) -> Direction:
    text = fields.choice("direction", "both", DIRECTIONS)
    return cast(Direction, text)


def _cut(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    fields, side_a, side_b = _between(scope, node, path, "`cut`", ("direction",))
    return Cut(side_a, side_b, _direction(scope, fields))


def _latency(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    fields, side_a, side_b = _between(scope, node, path, "`latency`", ("add", "direction"))
    _need(fields, "add", "200ms")
    add = fields.read("add", lambda n, p: read_delay(scope.reader, n, p, "`add`"), Delay("constant", 0))
    return AddLatency(side_a, side_b, add, _direction(scope, fields))


def _bandwidth(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    fields, side_a, side_b = _between(scope, node, path, "`bandwidth`", ("rate", "direction"))
    _need(fields, "rate", "50kB/s")
    rate = fields.bandwidth("rate", 1)
    return LimitBandwidth(side_a, side_b, rate, _direction(scope, fields))


def _loss(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    fields, side_a, side_b = _between(scope, node, path, "`loss`", ("rate", "direction"))
    _need(fields, "rate", "10%")
    rate = fields.share_ppm("rate", 0)
    return Loss(side_a, side_b, rate, _direction(scope, fields))


_OF_LINKS = ("between", "add", "rate", "direction")


def _need(fields: Fields, key: str, example: str) -> None:
    strange = [] if fields.node is None else [other for other in fields.node.entries if other not in _OF_LINKS]
    if key not in fields and "between" in fields and not strange:  # A misspelt key is one mistake, not two.
        fields.reader.error(
            "E105", f"missing `{key}` in {fields.what}", fields.place, label=f"add `{key}: {example}`", path=fields.path
        )


def _reset_peer(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    _, side_a, side_b = _between(scope, node, path, "`reset_peer`", ())
    return ResetPeer(side_a, side_b)


def _names(scope: Scope, node: Node, path: str, what: str, verbs: tuple[str, ...]) -> tuple[str, ...]:
    """`all`, a label, or a list of labels of steps that have one of `verbs`."""
    if isinstance(node, Scalar) and node.text == "all":
        return ()
    items = [(node, path)] if isinstance(node, Scalar) else scope.reader.items(node, path, what)
    known = [label for label, verb in scope.labels.items() if verb in verbs]
    names: list[str] = []
    for item, item_path in items:
        name = scope.reader.text(item, item_path, what).removeprefix("@")
        if name not in known and isinstance(item, Scalar):
            verb = scope.labels.get(name)
            title = (
                f"{what}: no {' or '.join(verbs)} is named `{name}`"
                if verb is None
                else f"{what}: `{name}` is a {verb}"
            )
            scope.unknown(title, name, [*known, "all"], item.place, item_path)
        names.append(name)
    if not names and not isinstance(node, Scalar):
        scope.reader.error("E105", f"{what} names nothing", node.place, path=path, label="a name, or `all`")
    return tuple(names)


def _heal(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    return Heal(_names(scope, node, path, "`heal`", HEALABLE))


def _release(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    return Release(_names(scope, node, path, "`release`", ("hold",)))


def _hold(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    reader = scope.reader
    fields = reader.fields(node, path, "`hold`", ("from", "to", "api", "part"), ("from", "to"))
    part = fields.choice("part", "both", ("request", "response", "body", "both"))
    api = fields.choice("api", None, HOLDABLE_APIS)
    if part == "body" and api != "Fetch":
        title = "only responses of `api: Fetch` have a body that comes from a file"
        reader.error("E135", title, fields.key_place("part"), path=f"{path}.part", label="add `api: Fetch`")
    return Hold(
        sender=fields.read("from", lambda n, p: scope.some_nodes(n, p, "`from`", LINK_END), NOBODY),
        receiver=fields.read("to", lambda n, p: scope.some_nodes(n, p, "`to`", LINK_END), NOBODY),
        api=api,
        part=None if part == "both" else cast(Literal["request", "response", "body"], part),
    )


# ---------------------------------------------------------------------------------------------------------- disk


def _flush(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    if not isinstance(node, Mapping):
        return Flush(scope.some_nodes(node, path, "`flush`", BROKER))
    fields = scope.reader.fields(node, path, "`flush`", ("brokers", "partition"), ("brokers",))
    return Flush(
        brokers=fields.read("brokers", lambda n, p: scope.some_nodes(n, p, "`brokers`", BROKER), NOBODY),
        partition=fields.read("partition", lambda n, p: scope.partition(n, p, "`partition`"), None),
    )


def _tear(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    reader = scope.reader
    fields = reader.fields(node, path, "`tear`", ("broker", "partition", "bytes"), ("broker", "partition", "bytes"))
    partition = fields.read("partition", lambda n, p: scope.partition(n, p, "`partition`"), NO_PARTITION)
    return Tear(
        broker=fields.read("broker", lambda n, p: scope.some_nodes(n, p, "`broker`", BROKER), NOBODY),
        partition=partition,
        size_bytes=fields.size("bytes", 1, low=1),
    )


# ------------------------------------------------------------------------------------------------------- cluster


def _elect(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    if isinstance(node, Scalar) and node.text == "preferred":
        return Elect()
    if not isinstance(node, Mapping):
        return Elect(broker=scope.some_nodes(node, path, "`elect`", BROKER))
    fields = scope.reader.fields(node, path, "`elect`", ("partition", "broker", "unclean"))
    return Elect(
        broker=fields.read("broker", lambda n, p: scope.some_nodes(n, p, "`broker`", BROKER), None),
        partition=fields.read("partition", lambda n, p: scope.partition(n, p, "`partition`"), None),
        unclean=fields.boolean("unclean", False),
    )


def _reassign(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    fields = scope.reader.fields(node, path, "`reassign`", ("partition", "to", "throttle"), ("partition", "to"))
    return Reassign(
        partition=fields.read("partition", lambda n, p: scope.partition(n, p, "`partition`"), NO_PARTITION),
        replicas=fields.read("to", lambda n, p: scope.some_nodes(n, p, "`to`", BROKER), NOBODY),
        bytes_per_second=fields.bandwidth("throttle", None),
    )


def _cancel_reassign(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    return CancelReassign(scope.partition(node, path, "`cancel_reassign`"))


def _topic(scope: Scope, node: Node, path: str) -> str:
    return scope.client(node, path, "`topic`", list(scope.topics), "topic")


def _throttle(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    known = ("brokers", "rate", "side", "topic")
    fields = scope.reader.fields(node, path, "`throttle`", known, ("brokers", "rate"))
    rate = fields.get("rate")
    is_none = rate is not None and isinstance(rate[0], Scalar) and rate[0].text == "none"
    side = fields.choice("side", "both", ("both", "leader", "follower"))
    return Throttle(
        brokers=fields.read("brokers", lambda n, p: scope.some_nodes(n, p, "`brokers`", BROKER), NOBODY),
        bytes_per_second=None if is_none else fields.bandwidth("rate", 1),
        side=cast(Literal["both", "leader", "follower"], side),
        topic=fields.read("topic", lambda n, p: _topic(scope, n, p), None),
    )


def _set_config(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    reader = scope.reader
    fields = reader.fields(node, path, "`set_config`", ("topic", "brokers", "config"), ("config",))
    if isinstance(node, Mapping) and ("topic" in fields) == ("brokers" in fields):
        title = "`set_config` needs either `topic` or `brokers`"
        reader.error("E105", title, node.place, path=path, label="such as topic: t")
    schema = DynamicBrokerConfig if "brokers" in fields else TopicConfig
    config = fields.read("config", lambda n, p: reader.config_changes(n, p, schema), {})
    return SetConfig(
        topic=fields.read("topic", lambda n, p: _topic(scope, n, p), None),
        brokers=fields.read("brokers", lambda n, p: scope.some_nodes(n, p, "`brokers`", BROKER), None),
        config=tuple(config.items()),
    )


# ------------------------------------------------------------------------------------------------------- clients


def _produce(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    reader = scope.reader
    known = ("from", "count", "batch", "size", "key", "partition")
    fields = reader.fields(node, path, "`produce`", known, ("from", "count"))
    producer = fields.read("from", lambda n, p: scope.client(n, p, "`from`", list(scope.producers), "producer"), "")
    workload = workloads.get(producer)
    partition = fields.integer("partition", None)
    count = scope.topics.get(scope.producers.get(producer, ""))
    if partition is not None and count is not None and partition >= count:
        reader.error(
            "E132",
            f"`{scope.producers[producer]}` has no partition {partition}",
            fields.key_place("partition"),
            path=f"{path}.partition",
            label=f"it has {count}",
        )
    return Produce(
        producer=producer,
        count=fields.integer("count", 1, 1, RECORDS_MAX),
        batch=fields.integer("batch", workload.batch if workload else 1, 1, BATCH_MAX),
        size_bytes=fields.size("size", workload.size_bytes if workload else 1, 1, RECORD_BYTES_MAX),
        key=fields.text("key", None),
        partition=partition,
    )


def _consumer(scope: Scope, node: Node, path: str) -> str:
    return scope.client(node, path, "`consumer`", list(scope.consumers), "consumer")


def _seek(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    reader = scope.reader
    fields = reader.fields(node, path, "`seek`", ("consumer", "partition", "to"), ("consumer", "partition", "to"))

    def read_to(value: Node, value_path: str) -> int | Literal["beginning", "end"]:
        if isinstance(value, Scalar) and value.text in ("beginning", "end"):
            return cast(Literal["beginning", "end"], value.text)
        return reader.integer(value, value_path, "`to`")

    partition = fields.read("partition", lambda n, p: scope.partition(n, p, "`partition`"), NO_PARTITION)
    consumer = fields.read("consumer", lambda n, p: _consumer(scope, n, p), "")
    if consumer in scope.consumers and partition.topic in scope.topics and scope.consumers[consumer] != partition.topic:
        reader.error(
            "E131",
            f"`{consumer}` reads `{scope.consumers[consumer]}`, not `{partition.topic}`",
            fields.key_place("partition"),
            path=f"{path}.partition",
        )
    return Seek(consumer, partition, fields.read("to", read_to, 0))


# -------------------------------------------------------------------------------------------------------- assert


def _check(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Payload:
    reader = scope.reader
    known = ("state", "logs", "records", "clock", "end_offset")
    fields = reader.fields(node, path, "`check`", known)
    if isinstance(node, Mapping) and not node.entries:
        reader.error("E105", "`check` is empty", node.place, path=path, label=f"one of: {', '.join(known)}")
    clock = fields.get("clock")
    clock_fields = None if clock is None else reader.fields(*clock, "`clock`", ("between", "after", "before"))
    return Check(
        state=fields.read("state", lambda n, p: read_state(scope, n, p, "`state`"), None),
        logs=fields.read("logs", lambda n, p: read_logs(scope, n, p), ()),
        records=fields.read("records", lambda n, p: read_records(scope, n, p), ()),
        clock=None if clock_fields is None else reader.bounds_of(clock_fields),
        end_offset=fields.read("end_offset", lambda n, p: _end_offset(scope, n, p), None),
    )


def _end_offset(scope: Scope, node: Node, path: str) -> EndOffsetTest:
    reader = scope.reader
    fields = reader.fields(
        node, path, "`end_offset`", ("consumer", "partition", "is", "error"), ("consumer", "partition")
    )
    if "is" in fields and "error" in fields:
        reader.error("E111", "`is` and `error` exclude each other", fields.key_place("error"), path=f"{path}.error")
    partition = fields.read("partition", lambda n, p: scope.partition(n, p, "`partition`"), NO_PARTITION)
    client = fields.read("consumer", lambda n, p: _consumer(scope, n, p), "")
    offset: NumberTest | None = fields.number_test("is")
    error = fields.choice("error", None, tuple(ErrorCode.__members__))
    return EndOffsetTest(client, partition, offset, error)


READ_VERB: dict[str, Read] = {
    "start": _nodes(Start),
    "stop": _nodes(Stop),
    "kill": _nodes(Kill),
    "power_off": _nodes(PowerOff, BROKER),
    "pause": _nodes(Pause),
    "resume": _nodes(Resume),
    "wipe": _nodes(Wipe, BROKER),
    "restart": _nodes(Restart),
    "partition": _partition,
    "cut": _cut,
    "heal": _heal,
    "latency": _latency,
    "bandwidth": _bandwidth,
    "loss": _loss,
    "reset_peer": _reset_peer,
    "hold": _hold,
    "release": _release,
    "flush": _flush,
    "tear": _tear,
    "bitflip": read_bitflip,
    "slow_disk": read_slow_disk,
    "fill_disk": read_fill_disk,
    "fail_disk": read_fail_disk,
    "bump_clock": read_bump_clock,
    "strobe_clock": read_strobe_clock,
    "elect": _elect,
    "reassign": _reassign,
    "cancel_reassign": _cancel_reassign,
    "throttle": _throttle,
    "set_config": _set_config,
    "produce": _produce,
    "seek": _seek,
    "check": _check,
}
