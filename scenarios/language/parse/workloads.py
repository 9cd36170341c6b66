"""Readers of a scenario's workloads: producers, consumers, transforms and share consumers."""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingType
from dataclasses import replace
from typing import TypeVar, cast

from cluster.client.interceptors import NO_TIME, ClientCpuTimes
from cluster.client.producer.config import producer_config_from
from cluster.config import (
    CLASSIC,
    CONSUMER,
    EXPLICIT,
    CommitOrder,
    ConsumerConfig,
    GroupConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
    TransformConfig,
)
from cluster.known_keys import CLIENT_KEYS, PRODUCER_KEYS, SHARE_CONSUMER_KEYS
from replica.config import Config, ConfigError
from replica.rules import SHARE_GROUPS_SINCE, first_era
from scenarios.language.diagnostics import did_you_mean
from scenarios.language.parse.cluster import new_node
from scenarios.language.spec import (
    ABORT_EVERY_MAX,
    BATCH_MAX,
    DEFAULT_RECORD_BYTES,
    NO_RECORDS,
    RECORD_BYTES_MAX,
    TRANSACTION_RECORDS_MAX,
    Arrival,
    ChosenRecords,
    RecordFields,
    TransactionPattern,
    Workload,
)
from scenarios.language.values.reading import NOWHERE, Fields, Reader, shortened
from scenarios.language.values.scope import Scope
from scenarios.language.values.synonyms import MEMBERS, own_config
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, Sequence
from scenarios.language.verbs.clients import HEADERS, RECORD_TIME
from scenarios.language.verbs.declaration import Given, Kind
from scenarios.language.verbs.kinds import TEXT, check_partition

T = TypeVar("T")

WORKLOADS_MAX = 250
PREFIXES = ("r", "s", "u", "v", "w", "x", "y", "z", *(f"r{second}" for second in "abcdefghijklmnopqrstuvwxyz"))

OUTPUT_PREFIX = "t"
"""The default prefix of the names of records that transforms write. It is not a default of producers."""
COMMIT_ORDERS = ("in-transaction", "after", "before")
DEFAULT_ORDER = {True: "in-transaction", False: "after"}
"""The default of `offsets` for a transform, by whether the transform uses transactions."""

_RATE = re.compile(r"(\d{1,9})/(\S+)", re.ASCII)
_ENDLESS_RATE = re.compile(r"0*[1-9]\d{9,}/(us|ms|s|m|\d{1,15}(us|ms|s|m))", re.ASCII)
"""Rates with too many digits for `_RATE`, which get an error of their own."""


def read_workloads(scope: Scope, node: Node, path: str) -> dict[str, Workload]:
    workloads: dict[str, Workload] = {}
    example = "{kind: producer, topic: t}"
    for name, key_node, value, value_path in scope.reader.entries(node, path, "`workloads`", example):
        if new_node(scope, name, key_node, value_path, "client"):
            workloads.update(_read_workloads(scope, name, key_node, value, value_path))
    _check_groups(scope, node, path, workloads)
    _name_outputs(scope, node, path, workloads)
    if len(workloads) > WORKLOADS_MAX:
        scope.reader.error(
            "E140",
            f"the scenario has {len(workloads)} workloads; at most {WORKLOADS_MAX} are allowed",
            node.place,
            path=path,
        )
    return workloads


def _read_workloads(scope: Scope, name: str, key_node: Scalar, node: Node, path: str) -> dict[str, Workload]:
    """Read one entry of `workloads`. A consumer with `count` becomes several equal consumers: c-1, c-2, and so on."""
    count_node = node.get("count") if isinstance(node, Mapping) else None
    workload = _read_workload(scope, name, node, path)
    if workload.kind not in COUNTED:
        return {name: workload}
    names = [name]
    if count_node is not None:
        count = scope.reader.integer(count_node, f"{path}.count", "`count`", 1, WORKLOADS_MAX)
        names = [f"{name}-{number}" for number in range(1, count + 1)]
        names = [copy for copy in names if new_node(scope, copy, key_node, path, "client")]
    if workload.kind == "consumer":
        scope.consumers.update(dict.fromkeys(names, workload.topics))
    else:
        scope.members += names
    return {copy: replace(workload, name=copy) for copy in names}


_COMMON_FIELDS = ("kind", "topic", "config", "config_file", "cpu", "start", "stop")
_CONSUMER_FIELDS = (*_COMMON_FIELDS, "topics", "count", "process")
_SHARE_CONSUMER_FIELDS = (*(key for key in _CONSUMER_FIELDS if key != "cpu"), "release", "reject")
_PRODUCER_FIELDS = (
    *_COMMON_FIELDS,
    "rate",
    "poisson",
    "size",
    "batch",
    "prefix",
    "transaction",
    "key",
    "partition",
    "timestamp",
    "headers",
)


CPU_OF_PRODUCER, CPU_OF_CONSUMER = ("interceptor", "serializer"), ("interceptor", "deserializer")
CPU_OF_TRANSFORM = ("interceptor", "serializer", "deserializer")
_TRANSFORM_FIELDS = (
    *_COMMON_FIELDS,
    "topics",
    "to",
    "batch",
    "prefix",
    "offsets",
    "flush",
    "group-metadata",
    "process",
)
_UNITS_OF_RATES = ("us", "ms", "s", "m")
_SPOKEN_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "m"),
}
COUNTED = ("consumer", "share_consumer")
"""The kinds of workloads that may have a `count`, which makes several equal clients."""
_KINDS = ("producer", *COUNTED, "transform")
_of_consumers, _of_members = ConsumerConfig.keys(), GroupConsumerConfig.keys()
A_MEMBER = (
    "help: `kind: consumer` reads all partitions alone; a group member reads its share and writes `to` a topic:",
    "help: m1: {kind: transform, topic: t, to: out, config: {group.id: g}}",
)
KEYS_OF_MEMBERS = {key: MEMBERS for key in (*_of_members, "to") if key not in _of_consumers}
OTHER_KINDS = {
    **dict.fromkeys(("group", "consumer_group", "group_consumer", "group_member", "member"), MEMBERS),
    "transactional_producer": "write `kind: producer` and `config: {transactional.id: orders}`",
    "idempotent_producer": "write `kind: producer` and `config: {enable.idempotence: true}`",
}
"""Common names of clients that are not values of `kind`, each with advice on what to write."""
_MANY = "limit a producer by `rate` and `stop`, or send records in a step: `produce: {from: p1, count: 10}`"


NOT_PLAYED = {
    "streams": "use `kind: transform` to copy one topic into another, exactly once or not",
    "connect": "use `kind: transform` to copy one topic into another",
    "mirror_maker": "a scenario has only one cluster; use `kind: transform` to copy within it",
}
"""Kinds of Kafka clients that the language lacks, each with an alternative."""


def _read_kind(fields: Fields) -> None:
    found = fields.get("kind")
    word = found[0].text.lower().replace("-", "_") if found is not None and isinstance(found[0], Scalar) else ""
    if found is not None and word in NOT_PLAYED:
        title = f"`kind: {word}` is not yet supported"
        fields.reader.error("E120", title, found[0].place, path=found[1], label=NOT_PLAYED[word])
    elif found is not None and word in OTHER_KINDS:
        notes = A_MEMBER if OTHER_KINDS[word] == MEMBERS else ()
        title = f"`kind` cannot be `{word}`"
        fields.reader.error("E110", title, found[0].place, path=found[1], label=OTHER_KINDS[word], notes=notes)
    else:
        fields.choice("kind", "producer", _KINDS)


def _read_config(
    reader: Reader, fields: Fields, schema: type[Config], elsewhere: MappingType[str, str]
) -> dict[str, str]:
    found = reader.config_node(fields)
    if found is None:
        return {}
    known = {ProducerConfig: PRODUCER_KEYS, ShareConsumerConfig: SHARE_CONSUMER_KEYS}.get(schema, CLIENT_KEYS)
    return reader.config(*found, schema, elsewhere=elsewhere, example=A_MEMBER, known=known)


def _read_workload(scope: Scope, name: str, node: Node, path: str) -> Workload:
    reader = scope.reader
    kind_node = node.get("kind") or node.get("type") if isinstance(node, Mapping) else None
    kind = (did_you_mean(kind_node.text, _KINDS) if isinstance(kind_node, Scalar) else None) or "producer"
    if kind == "transform":
        return _read_transform(scope, name, node, path)
    consumer = kind in COUNTED
    known, schema = _DECLARED[kind]
    what = f"{kind} `{name}`"
    elsewhere = KEYS_OF_MEMBERS if kind == "consumer" else {"count": _MANY} if kind == "producer" else {}
    required = {"kind": kind, _names_inputs_by(node) if consumer else "topic": next(iter(scope.topics), "t")}
    fields = reader.fields(node, path, what, known, required, elsewhere={**own_config(schema), **elsewhere})
    _read_kind(fields)
    start_us = fields.time("start", 0)
    stop_us = fields.time("stop", None)
    if stop_us is not None and stop_us <= start_us:
        reader.error("E112", f"{what} stops before it starts", fields.key_place("stop"), path=f"{path}.stop")
    config = _read_config(reader, fields, schema, elsewhere)
    if consumer:
        workload = Workload(
            name=name,
            kind="share_consumer" if kind == "share_consumer" else "consumer",
            topics=_read_inputs(scope, fields),
            config=config,
            start_us=start_us,
            stop_us=stop_us,
            cpu=fields.read("cpu", lambda n, p: _read_cpu(reader, n, p, CPU_OF_CONSUMER), NO_TIME),
            process_us=fields.time("process", 0),
            releases=fields.read("release", lambda n, p: _read_share(scope, n, p, "`release`"), NO_RECORDS),
            rejects=fields.read("reject", lambda n, p: _read_share(scope, n, p, "`reject`"), NO_RECORDS),
        )
        if kind == "share_consumer":
            _check_share_consumer(scope, workload, fields)
        return workload
    topic = fields.read("topic", lambda n, p: _read_topic_name(scope, n, p), "")
    workload = Workload(
        name=name,
        kind="producer",
        topics=(topic,),
        config=config,
        prefix=fields.read("prefix", lambda n, p: _read_prefix(scope, n, p), None) or _next_prefix(scope),
        arrival=_read_arrival(reader, fields.get("rate"), fields.get("poisson")),
        size_bytes=fields.size("size", DEFAULT_RECORD_BYTES, 1, RECORD_BYTES_MAX),
        batch=fields.integer("batch", 1, 1, BATCH_MAX),
        start_us=start_us,
        stop_us=stop_us,
        records=_read_record_fields(scope, fields, topic, start_us),
        cpu=fields.read("cpu", lambda n, p: _read_cpu(reader, n, p, CPU_OF_PRODUCER), NO_TIME),
        transaction=fields.read("transaction", lambda n, p: _read_transaction(reader, n, p), None)
        or (TransactionPattern(1) if config.get("transactional.id") else None),
    )
    if workload.transaction is not None and not config.get("transactional.id"):
        label = "add `config: {transactional.id: orders}`"
        place = fields.key_place("transaction")
        reader.error("E126", f"{what} has no `transactional.id`", place, path=f"{path}.transaction", label=label)
    scope.producers[name] = topic
    scope.prefixes[workload.prefix] = name
    _check_producer_config(scope, config, f"{path}.config", path)
    return workload


def _read_share(scope: Scope, node: Node, path: str, what: str) -> ChosenRecords:
    """Read a choice of records: their names, or a percentage of all deliveries such as 10%."""
    if isinstance(node, Scalar) and node.text.endswith("%"):
        return ChosenRecords(ppm=scope.reader.share_ppm(node, path, what))
    return ChosenRecords(scope.records(node, path, what))


def _check_share_consumer(scope: Scope, workload: Workload, fields: Fields) -> None:
    reader, path, what = scope.reader, fields.path, f"share_consumer `{workload.name}`"
    place = reader.places[path]
    if scope.release < SHARE_GROUPS_SINCE:
        label = f"use `profile: {first_era(SHARE_GROUPS_SINCE)}` or later"
        reader.error("E120", "share groups need Kafka 4.2 or later", place, path=path, label=label)
    if not workload.config.get("group.id"):
        label = "add `config: {group.id: jobs}`"
        reader.error("E126", f"{what} has no `group.id`", place, path=f"{path}.config", label=label)
    if workload.config.get("share.acknowledgement.mode") != EXPLICIT:
        for key in ("release", "reject"):
            if key in fields:
                title = f"{what} accepts all records, so `{key}` has no effect"
                label = f"add `share.acknowledgement.mode: {EXPLICIT}` to `config`"
                reader.error("E126", title, fields.key_place(key), path=f"{path}.{key}", label=label)


_DECLARED: dict[str, tuple[tuple[str, ...], type[Config]]] = {
    "producer": (_PRODUCER_FIELDS, ProducerConfig),
    "consumer": (_CONSUMER_FIELDS, ConsumerConfig),
    "share_consumer": (_SHARE_CONSUMER_FIELDS, ShareConsumerConfig),
}
"""By kind of workload: the fields that it may have, and the schema of its `config`."""


def _read_record_fields(scope: Scope, fields: Fields, topic: str, start_us: int) -> RecordFields:
    def read(key: str, kind: Kind[T], default: T) -> T:
        return fields.read(key, lambda node, path: kind.read(Given(scope, node, path, f"`{key}`", fields)), default)

    keys = fields.get("key")
    found = RecordFields(
        keys=() if keys is None else _read_keys(scope, *keys),
        partition=fields.integer("partition", None),
        time=read("timestamp", RECORD_TIME, None),
        headers=read("headers", HEADERS, ()),
    )
    check_partition(scope, fields, topic, found.partition)
    return found


def _read_keys(scope: Scope, node: Node, path: str) -> tuple[str, ...]:
    """Read the key of all records, or a list of keys that the records get in turn."""
    if not isinstance(node, Sequence):
        return (TEXT.read(Given(scope, node, path, "`key`")),)
    if not node.items:
        label = "for example [k1, k2]"
        scope.reader.error("E105", "the list `key` is empty", node.place, path=path, label=label)
    return tuple(
        TEXT.read(Given(scope, item, item_path, "a key")) for item, item_path in scope.reader.items(node, path, "`key`")
    )


def _read_transform(scope: Scope, name: str, node: Node, path: str) -> Workload:
    reader, what = scope.reader, f"transform `{name}`"
    named = isinstance(node, Mapping) and "config_file" in node.entries
    example = {"to": "...", **({} if named else {"config": "{group.id: g}"})}
    required = {"kind": "transform", _names_inputs_by(node): next(iter(scope.topics), "t"), **example}
    fields = reader.fields(node, path, what, _TRANSFORM_FIELDS, required, elsewhere=own_config(TransformConfig))
    fields.choice("kind", "transform", _KINDS)
    config = _read_config(reader, fields, TransformConfig, NOWHERE)
    transactional = bool(config.get("transactional.id"))
    commits_by_itself = config.get("enable.auto.commit", "").lower() == "true"
    start_us, stop_us = fields.time("start", 0), fields.time("stop", None)
    if stop_us is not None and stop_us <= start_us:
        reader.error("E112", f"{what} stops before it starts", fields.key_place("stop"), path=f"{path}.stop")
    topics, pattern = _read_subscription(scope, fields)
    workload = Workload(
        name=name,
        kind="transform",
        topics=topics,
        pattern=pattern,
        to=fields.read("to", lambda n, p: _read_topic_name(scope, n, p), ""),
        config=config,
        prefix=fields.read("prefix", lambda n, p: _read_letters(scope, n, p), None) or OUTPUT_PREFIX,
        batch=fields.integer("batch", 1, 1, BATCH_MAX),
        start_us=start_us,
        stop_us=stop_us,
        offsets=cast(
            CommitOrder,
            fields.choice("offsets", "auto" if commits_by_itself else DEFAULT_ORDER[transactional], COMMIT_ORDERS),
        ),
        flushes=fields.read("flush", lambda n, p: reader.boolean(n, p, "`flush`"), True),
        names_member=fields.choice("group-metadata", "full", ("full", "id")) == "full",
        cpu=fields.read("cpu", lambda n, p: _read_cpu(reader, n, p, CPU_OF_TRANSFORM), NO_TIME),
        process_us=fields.time("process", 0),
    )
    if not config.get("group.id"):
        label = "add `config: {group.id: billing}`"
        reader.error("E126", f"{what} has no `group.id`", reader.places[path], path=f"{path}.config", label=label)
    _check_group_config(reader, config, path)
    if workload.offsets == "in-transaction" and not transactional:
        label = "add `config: {transactional.id: billing-1}`"
        place = fields.key_place("offsets")
        reader.error("E126", f"{what} has no `transactional.id`", place, path=f"{path}.offsets", label=label)
    if commits_by_itself and workload.offsets != "auto":
        title = f"{what} would commit twice: with `enable.auto.commit: true`, its consumer commits"
        place = fields.key_place("offsets")
        reader.error("E126", title, place, path=f"{path}.offsets", label="drop `offsets`, or drop `enable.auto.commit`")
    if not workload.flushes and (transactional or not commits_by_itself):
        title = f"{what} must wait for its outputs before it commits"
        label = "drop `flush`, or use `enable.auto.commit: true` and no transactions"
        reader.error("E126", title, fields.key_place("flush"), path=f"{path}.flush", label=label)
    if workload.to in workload.topics and workload.to:
        title = f"{what} would read its own output"
        reader.error("E112", title, fields.key_place("to"), path=f"{path}.to")
    scope.members.append(name)
    known = ProducerConfig.keys()
    of_producer = {key: value for key, value in config.items() if key in known}
    _check_producer_config(scope, of_producer, f"{path}.config", path)
    return workload


NOT_OF_CONSUMER_PROTOCOL = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")


def _check_group_config(reader: Reader, config: dict[str, str], path: str) -> None:
    """Report combinations of group settings that Kafka refuses.

    Source: ConsumerConfig.checkUnsupportedConfigsPostProcess
    """
    is_consumer = config.get("group.protocol") == CONSUMER
    wrong = NOT_OF_CONSUMER_PROTOCOL if is_consumer else ("group.remote.assignor",)
    for key in wrong:
        if key in config:
            title = f"`{key}` cannot be set with `group.protocol: {CONSUMER if is_consumer else CLASSIC}`"
            place = reader.places.get(f"{path}.config.{key}", reader.places[path])
            reader.error("E126", title, place, path=f"{path}.config.{key}", label="drop it")
    known = GroupConsumerConfig.keys()
    try:
        GroupConsumerConfig.from_mapping({key: value for key, value in config.items() if key in known})
    except ConfigError as error:
        _refuse_both(reader, error, config, f"{path}.config", path)


def _check_groups(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> None:
    """Report members of one classic group that read different topics.

    In a classic group, the group leader assigns only the topics that it reads itself.
    """
    first_of: dict[str, Workload] = {}
    for workload in workloads.values():
        if workload.kind == "transform" and workload.config.get("group.protocol") != CONSUMER and workload.topics:
            first = first_of.setdefault(workload.config.get("group.id", ""), workload)
            if sorted(workload.topics) != sorted(first.topics):
                place = scope.reader.places.get(f"{path}.{workload.name}", node.place)
                title = f"`{workload.name}` and `{first.name}` are in one group but read different topics"
                label = "give both clients the same topics, or `group.protocol: consumer`"
                scope.reader.error("E126", title, place, path=f"{path}.{workload.name}", label=label)


def _name_outputs(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> None:
    """Reserve the prefixes of the transforms' outputs, and report those that a producer already uses.

    The output for the record r7 is named tr7, the same for all members of a group.
    """
    for workload in workloads.values():
        inputs = [
            other.prefix for other in workloads.values() if other.kind == "producer" and other.topic in workload.topics
        ]
        for prefix in inputs if workload.kind == "transform" else ():
            taken = scope.prefixes.setdefault(f"{workload.prefix}{prefix}", workload.name)
            if taken in scope.producers:
                title = f"the outputs of `{workload.name}` would be named like the records of `{taken}`"
                place = scope.reader.places.get(f"{path}.{workload.name}", node.place)
                scope.reader.error("E134", title, place, path=f"{path}.{workload.name}.prefix")


def _read_cpu(reader: Reader, node: Node, path: str, keys: tuple[str, ...]) -> ClientCpuTimes:
    fields = reader.fields(node, path, "`cpu`", keys)
    return ClientCpuTimes(
        interceptor_us=fields.time("interceptor", 0),
        serializer_us=fields.time("serializer", 0) if "serializer" in keys else 0,
        deserializer_us=fields.time("deserializer", 0) if "deserializer" in keys else 0,
    )


def _read_transaction(reader: Reader, node: Node, path: str) -> TransactionPattern:
    many = f"write {{records: {node.text}}}" if isinstance(node, Scalar) and node.text.isdigit() else ""
    fields = reader.fields(node, path, "`transaction`", ("records", "abort-every"), ("records",), example=many)
    return TransactionPattern(
        fields.integer("records", 1, 1, TRANSACTION_RECORDS_MAX), fields.integer("abort-every", 0, 1, ABORT_EVERY_MAX)
    )


def _names_inputs_by(node: Node) -> str:
    return "topics" if isinstance(node, Mapping) and "topics" in node.entries else "topic"


def _read_inputs(scope: Scope, fields: Fields) -> tuple[str, ...]:
    """Read `topic` or `topics`, the topics that a consumer or a transform reads."""
    if "topics" not in fields:
        return (fields.read("topic", lambda n, p: _read_topic_name(scope, n, p), ""),)
    if "topic" in fields:
        place, path = fields.key_place("topics"), f"{fields.path}.topics"
        scope.reader.error(
            "E111", "`topic` and `topics` cannot be used together", place, path=path, label="drop one of the two"
        )
        return ()
    return fields.read("topics", lambda n, p: _read_topic_names(scope, n, p), ())


def _read_subscription(scope: Scope, fields: Fields) -> tuple[tuple[str, ...], str]:
    """Read `topic`, `topics`, or `topics: {pattern: orders-.*}`.

    Returns:
        The topics of the file that are read, and the pattern, which is empty if there is none.
    """
    found = fields.get("topics")
    if found is None or not isinstance(found[0], Mapping) or "topic" in fields:
        return _read_inputs(scope, fields), ""
    node, path = found
    value = scope.reader.fields(node, path, "`topics`", ("pattern",), ("pattern",)).get("pattern")
    if value is None:
        return (), ""
    text_node, path = value
    from cluster.topic_pattern import WHAT_IT_MAY_HAVE, TopicPattern

    text = scope.reader.text(text_node, path, "`pattern`")
    try:
        pattern = TopicPattern(text)
    except ValueError as error:
        title, label = f"`{text[:40]}` is not a topic pattern: {error}", f"a pattern may have {WHAT_IT_MAY_HAVE}"
        scope.reader.error("E113", title, text_node.place, path=path, label=label)
        return (), ""
    topics = tuple(filter(pattern.matches, scope.topics))
    if not topics:
        title, label = f"`{text[:40]}` matches no topic of the file", f"the topics are {', '.join(scope.topics)}"
        scope.reader.error("E131", title, text_node.place, path=path, label=label)
    return topics, text


def _read_topic_names(scope: Scope, node: Node, path: str) -> tuple[str, ...]:
    if not isinstance(node, Sequence) or not node.items:
        by_pattern = isinstance(node, Mapping) and "pattern" in node.entries
        label = (
            "only `kind: transform`, a member of a group, can have a pattern"
            if by_pattern
            else "for example [orders, payments]"
        )
        scope.reader.error("E111", "`topics` must be a list of topics", node.place, path=path, label=label)
        return ()
    topics: dict[str, None] = {}
    for item, item_path in scope.reader.items(node, path, "`topics`"):
        topic = _read_topic_name(scope, item, item_path)
        if topic in topics:
            scope.reader.error("E112", f"`topics` lists `{topic}` twice", item.place, path=item_path, label="drop it")
        topics[topic] = None
    return tuple(topics)


def _read_topic_name(scope: Scope, node: Node, path: str) -> str:
    return scope.client(node, path, "`topic`", list(scope.topics), "topic")


def _read_letters(scope: Scope, node: Node, path: str) -> str:
    prefix = scope.reader.text(node, path, "`prefix`")
    if re.fullmatch(r"[a-z]{1,8}", prefix):
        return prefix
    scope.reader.error(
        "E113", f"`prefix` cannot be `{prefix[:40]}`", node.place, path=path, label="use 1 to 8 lower-case letters"
    )
    return ""


def _read_prefix(scope: Scope, node: Node, path: str) -> str:
    prefix = _read_letters(scope, node, path)
    if prefix in scope.prefixes:
        scope.reader.error(
            "E134", f"the prefix `{prefix}` is already used by `{scope.prefixes[prefix]}`", node.place, path=path
        )
    return prefix


def _next_prefix(scope: Scope) -> str:
    """Return the default prefix for the next producer of the file, skipping prefixes that are taken."""
    free = [prefix for prefix in PREFIXES[len(scope.producers) :] if prefix not in scope.prefixes]
    return free[0] if free else f"p{len(scope.producers)}".translate(str.maketrans("0123456789", "abcdefghij"))


def _read_arrival(reader: Reader, rate: tuple[Node, str] | None, poisson: tuple[Node, str] | None) -> Arrival | None:
    if rate is not None and poisson is not None:
        reader.error("E111", "`rate` and `poisson` cannot be used together", poisson[0].place, path=poisson[1])
    found = rate or poisson
    if found is None:
        return None
    node, path = found
    text = reader.text(node, path, "`rate`")
    match = _RATE.fullmatch(text)
    if match is None and _ENDLESS_RATE.fullmatch(text):
        label = "at most 999,999,999 records per period, and one per microsecond, are allowed"
        reader.error("E112", f"the rate `{shortened(text)}` is too large", node.place, path=path, label=label)
        return None
    if match is None or int(match[1]) < 1 or (match[2].isalpha() and match[2] not in _UNITS_OF_RATES):
        spoken = re.fullmatch(r"([1-9][0-9]{0,8})(?: ?(?:/|per) ?([a-z]+))?", text, re.ASCII)
        unit = _SPOKEN_UNITS.get(spoken[2] or "s") if spoken else None
        meant = f"{spoken[1]}/{unit}" if spoken and unit else None
        label = "" if meant else "write 10/s, 100/m or 1/500ms"
        reader.error("E123", f"`{text}` is not a rate", node.place, path=path, suggestion=meant, label=label)
        return None
    unit = match[2]
    period_us = reader.time(Scalar(node.place, f"1{unit}" if unit.isalpha() else unit), path, "the rate's period", 1)
    if int(match[1]) > period_us:
        reader.error("E112", f"the rate `{text}` is more than one record per microsecond", node.place, path=path)
    return Arrival(int(match[1]), period_us, poisson is not None and rate is None)


def _check_producer_config(scope: Scope, config: dict[str, str], path: str, workload_path: str) -> None:
    """Report settings with which the Java producer refuses to start."""
    try:
        producer_config_from(config, scope.release)
    except ConfigError as error:
        _refuse_both(scope.reader, error, config, path, workload_path)


def _refuse_both(reader: Reader, error: ConfigError, config: dict[str, str], path: str, workload_path: str) -> None:
    """Report keys that contradict each other, at the position of the last one, which may come from a variant."""
    keys = [key for key in config if key == error.key or key in error.message]
    places = [reader.places[f"{path}.{key}"] for key in keys if f"{path}.{key}" in reader.places]
    place = max(places, key=lambda place: (place.line, place.column), default=reader.places[workload_path])
    reader.error("E126", f"`{error.key}`: {error.message}", place, path=f"{path}.{error.key}")
