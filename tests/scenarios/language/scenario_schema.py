"""Makes scenarios/scenario.schema.json, the JSON Schema of a scenario file, from the declarations of the language.

Editors use it to check the shape of a file. `highwater check` checks the meaning as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field
from typing import Any

from cluster.config import BrokerConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig, TransformConfig
from cluster.known_keys import BROKER_KEYS, BROKER_RACK, CLIENT_KEYS, PRODUCER_KEYS, SHARE_CONSUMER_KEYS, TOPIC_KEYS
from replica.config import Config, TopicConfig
from replica.errors import ERRORS_WITHOUT_A_NUMBER, ErrorCode
from replica.rules import DEFAULT_PROFILE, PROFILES, Rules
from scenarios.language.expect import ANOMALIES, LATENCY_STATISTICS, RECORD_KINDS
from scenarios.language.parse.catalogue import LESSONS
from scenarios.language.parse.cluster import BROKERS_MAX, CONTROLLERS, CONTROLLERS_MAX
from scenarios.language.parse.loading import REQUIRED_FIELDS, SEED_MAX, VARIANTS_MAX
from scenarios.language.parse.steps import TIMES_MAX
from scenarios.language.parse.workloads import (
    COMMIT_ORDERS,
    CPU_OF_CONSUMER,
    CPU_OF_PRODUCER,
    CPU_OF_TRANSFORM,
    WORKLOADS_MAX,
)
from scenarios.language.spec import (
    ABORT_EVERY_MAX,
    BATCH_MAX,
    PARTITIONS_MAX,
    SCHEMA,
    TRANSACTION_RECORDS_MAX,
)
from scenarios.language.steps import (
    ANSWER_KINDS,
    CHOICES_MAX,
    MODIFIERS,
    QUESTION_CHARACTERS_MAX,
    QUESTIONS_MAX,
    NamedThing,
)
from scenarios.language.values.links import Schema, ref
from scenarios.language.values.reading import NUMBER_MAX, SHARE_PATTERN, SIZE_PATTERN, SLUG_PATTERN, TIME_PATTERN
from scenarios.language.verbs.clients import HEADERS, RECORD_TIME
from scenarios.language.verbs.cluster import SetQuota
from scenarios.language.verbs.every import VERBS

# --------------------------------------------------------------------------------------------------------------- shapes
#
# The basic forms of JSON Schema, from which the others are built.


def text(description: str = "") -> Schema:
    return {"type": "string", **({"description": description} if description else {})}


def pattern(expression: str) -> Schema:
    return {"type": "string", "pattern": f"^{expression}$"}


def integer(low: int, high: int | None = None) -> Schema:
    return {"type": "integer", "minimum": low} | ({} if high is None else {"maximum": high})


def array(items: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": items} | ({"minItems": least} if least else {})


def one_of(*schemas: Schema) -> Schema:
    return {"oneOf": list(schemas)}


def mapping(properties: dict[str, Schema], required: Iterable[str] = (), *, or_nothing: bool = False) -> Schema:
    """Return the schema of a mapping that has no other keys than `properties`.

    Args:
        required: keys that must be present.
        or_nothing: whether an empty value stands for an empty mapping.
    """
    kind: Any = ["object", "null"] if or_nothing else "object"
    needed = {"required": list(required)} if required else {}
    return {"type": kind, "additionalProperties": False, **needed, "properties": dict(properties)}


def table(values: Schema, keys: Schema | None = None, *, or_nothing: bool = False) -> Schema:
    """Return the schema of a mapping with arbitrary keys.

    Args:
        values: schema of the values.
        keys: schema of the keys; None for any text.
        or_nothing: whether an empty value stands for an empty mapping.
    """
    kind: Any = ["object", "null"] if or_nothing else "object"
    return {"type": kind, **({} if keys is None else {"propertyNames": keys}), "additionalProperties": values}


def excluding(one: str, others: Iterable[str]) -> Schema:
    """Return a schema that refuses the key `one` together with any of the others."""
    return {"not": {"type": "object", "required": [one], "anyOf": [{"required": [other]} for other in others]}}


# ---------------------------------------------------------------------------------------------------- parts of a file

NONE: Schema = {"const": "none"}
_ANSWERED = {
    NamedThing.PARTITION: ref("partitionName"),
    NamedThing.RECORD: pattern("[a-z]{1,8}[0-9]{1,7}"),
    NamedThing.RECORDS: {"enum": list(RECORD_KINDS)},
}
_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": QUESTION_CHARACTERS_MAX}
_ANSWER_FROM = {
    **mapping({**{kind: _ANSWERED[declared.names] for kind, declared in ANSWER_KINDS.items()}, "by": ref("time")}),
    "oneOf": [
        {"required": [kind], **({} if declared.has_moment else {"not": {"required": ["by"]}})}
        for kind, declared in ANSWER_KINDS.items()
    ],
}
QUESTION = {
    **mapping(
        {
            "at": ref("time"),
            "before": text("an event of the trace"),
            "ask": _TEXT,
            "choices": {**array(_TEXT, 2), "maxItems": CHOICES_MAX, "uniqueItems": True},
            "answer": _TEXT,
            "answer_from": _ANSWER_FROM,
            "because": _TEXT,
        },
        ["ask"],
    ),
    "allOf": [
        {"oneOf": [{"required": [when]} for when in ("at", "before")]},
        {"oneOf": [{"required": ["answer", "choices", "because"]}, {"required": ["answer_from"]}]},
    ],
    "dependentRequired": {"choices": ["answer"]},
}
SOURCE = mapping({"ref": text(), "url": text(), "recalled": {"type": "boolean"}}, ["ref"])

CONFIG_FILE = text("a .properties file in the folder of the scenario; `config` counts before it")
_CPU_TIMES = {name: ref("time") for name in ("request", "produce", "fetch", "replicate", "connection")}
_BROKER = mapping(
    {
        "rack": text(),
        "disk": ref("serviceTime"),
        "cpu": mapping({**_CPU_TIMES, "connections_per_poll": one_of({"const": "all"}, integer(1))}),
        "config": ref("brokerConfig"),
        "config_file": CONFIG_FILE,
    },
    or_nothing=True,
)
CLUSTER = mapping(
    {
        "controllers": {**array(ref("slug"), min(CONTROLLERS)), "maxItems": CONTROLLERS_MAX},
        "initial_controllers": {
            "description": "who votes at first (KIP-853); the other controllers are observers until `add_voter`",
            **array(ref("slug"), 1),
        },
        "brokers": {**table(_BROKER, ref("slug")), "minProperties": 1, "maxProperties": BROKERS_MAX},
        "config": ref("brokerConfig"),
        "config_file": CONFIG_FILE,
        "phases": {
            "description": "where in their periods the periodic checks fall: random (from the seed), or a time each",
            **one_of({"const": "random"}, table(ref("time"), ref("slug"))),
        },
        "heartbeats": {
            "description": "where in their interval the heartbeats of brokers fall: random, or a time each",
            **one_of({"const": "random"}, table(ref("time"), ref("slug"))),
        },
        "quotas": {"description": "of clients, from the start on", **array(SetQuota.declaration.schema())},
    },
    ["brokers"],
)
_ASSIGNMENT = {**table(array(text(), 1), {"pattern": "^[0-9]+$"}), "minProperties": 1}
TOPIC = mapping(
    {
        "partitions": one_of(_ASSIGNMENT, integer(1, PARTITIONS_MAX)),
        "replication_factor": integer(1, BROKERS_MAX),
        "config": ref("topicConfig"),
        "config_file": CONFIG_FILE,
    },
    ["partitions"],
)
_LINK = mapping(
    {"between": ref("sides"), "latency": ref("delay"), "bandwidth": ref("bandwidth"), "loss": ref("share")},
    ["between"],
)
NETWORK = mapping(
    {
        "latency": ref("delay"),
        "jitter": ref("time"),
        "bandwidth": ref("bandwidth"),
        "card": ref("bandwidth"),
        "cards": table(ref("bandwidth")),
        "links": array(_LINK),
    }
)

_OF_ANY_CLIENT = {"topic": text(), "start": ref("time"), "stop": ref("time")}
_TRANSACTION = mapping(
    {"records": integer(1, TRANSACTION_RECORDS_MAX), "abort-every": integer(1, ABORT_EVERY_MAX)}, ["records"]
)


def _times(parts: tuple[str, ...]) -> Schema:
    return mapping({part: ref("time") for part in parts})


PRODUCER = mapping(
    {
        "kind": {"const": "producer"},
        **_OF_ANY_CLIENT,
        "rate": ref("rate"),
        "poisson": ref("rate"),
        "size": ref("size"),
        "batch": integer(1, BATCH_MAX),
        "prefix": pattern("[a-z]{1,8}"),
        "transaction": _TRANSACTION,
        "key": ref("scalarOrList"),
        "partition": integer(0),
        "timestamp": RECORD_TIME.schema,
        "headers": HEADERS.schema,
        "cpu": _times(CPU_OF_PRODUCER),
        "config": ref("producerConfig"),
        "config_file": CONFIG_FILE,
    },
    ["kind", "topic"],
)
_INPUTS = {"topics": {**array(text()), "minItems": 1, "uniqueItems": True}}


def _reads_topics(fields: Schema) -> Schema:
    """Return the schema `fields`, extended to require exactly one of the keys `topic` and `topics`."""
    one_of_them = {"anyOf": [{"required": ["topic"]}, {"required": ["topics"]}]}
    return {**fields, **excluding("topic", ["topics"]), **one_of_them}


_CONSUMER_FIELDS = mapping(
    {
        "kind": {"const": "consumer"},
        **_OF_ANY_CLIENT,
        **_INPUTS,
        "count": integer(1, WORKLOADS_MAX),
        "cpu": _times(CPU_OF_CONSUMER),
        "process": ref("time"),
        "config": ref("consumerConfig"),
        "config_file": CONFIG_FILE,
    },
    ["kind"],
)
CONSUMER = _reads_topics(_CONSUMER_FIELDS)
_HAS_CONFIG = {"allOf": [{"anyOf": [{"required": ["config"]}, {"required": ["config_file"]}]}]}
_RECORDS_OR_SHARE = {"anyOf": [ref("share"), ref("recordSet")]}
_SHARE_CONSUMER_FIELDS = mapping(
    {
        "kind": {"const": "share_consumer"},
        **_OF_ANY_CLIENT,
        **_INPUTS,
        "count": integer(1, WORKLOADS_MAX),
        "process": ref("time"),
        "release": _RECORDS_OR_SHARE,
        "reject": _RECORDS_OR_SHARE,
        "config": ref("shareConsumerConfig"),
        "config_file": CONFIG_FILE,
    },
    ["kind"],
)
SHARE_CONSUMER = {**_reads_topics(_SHARE_CONSUMER_FIELDS), **_HAS_CONFIG}
_TRANSFORM_FIELDS = mapping(
    {
        "kind": {"const": "transform"},
        **_OF_ANY_CLIENT,
        "topics": one_of(_INPUTS["topics"], mapping({"pattern": text()}, ["pattern"])),
        "to": text(),
        "batch": integer(1, BATCH_MAX),
        "prefix": pattern("[a-z]{1,8}"),
        "offsets": {"enum": list(COMMIT_ORDERS)},
        "flush": {"type": "boolean"},
        "group-metadata": {"enum": ["full", "id"]},
        "cpu": _times(CPU_OF_TRANSFORM),
        "process": ref("time"),
        "config": ref("transformConfig"),
        "config_file": CONFIG_FILE,
    },
    ["kind", "to"],
)
TRANSFORM = {**_reads_topics(_TRANSFORM_FIELDS), **_HAS_CONFIG}

_OF_ANOMALY = {"enum": list(ANOMALIES)}
_DIVERGED = mapping({"offsets": array(integer(0)), "replicas": array(text())}, ["offsets", "replicas"])
_BOUNDS = mapping({f"{word}_{end}": ref("time") for word in ("first", "last") for end in ("after", "before")})
_ERROR = one_of(NONE, integer(0), mapping({"count": ref("number"), **_BOUNDS["properties"]}))
_LATENCY = {
    **mapping({"between": ref("window"), "at_least": ref("time"), "at_most": ref("time")}),
    "minProperties": 1,
}
_MEASURED = {"anyOf": [{"enum": list(LATENCY_STATISTICS)}, pattern("[a-z]{1,8}[0-9]+")]}
_WINDOWS = one_of(NONE, array(mapping({"from": ref("time"), "to": ref("time"), "slack": ref("time")}, ["from", "to"])))
_EVENT = {
    "type": "object",
    "oneOf": [{"required": ["event"]}, {"required": ["never"]}],
    "properties": {
        "event": text(),
        "never": text(),
        "between": ref("window"),
        "after": ref("time"),
        "before": ref("time"),
        "count": ref("number"),
    },
}
EXPECT = mapping(
    {
        "verdict": one_of({"const": "ok"}, _OF_ANOMALY, array(_OF_ANOMALY, 1)),
        "records": ref("records"),
        "logs": ref("logs"),
        "diverged": one_of(NONE, table(_DIVERGED, ref("partitionName"))),
        "state": ref("state"),
        "events": array(_EVENT),
        "errors": table(one_of(NONE, table(_ERROR))),
        "latency": table(table(_LATENCY, _MEASURED)),
        "unavailable": table(mapping({"writes": _WINDOWS, "reads": _WINDOWS}), ref("partitionName")),
    }
)


def schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Highwater scenario, schema {SCHEMA}",
        "$comment": f"Schema {SCHEMA} of Highwater's scenario language, generated from scenarios/language.",
        **mapping(_properties(), REQUIRED_FIELDS),
        "$defs": {**definitions(), "step": _step(), "expect": EXPECT},
    }


def _properties() -> dict[str, Schema]:
    return {
        "schema": {"const": SCHEMA},
        "id": ref("slug"),
        "variant": ref("slug"),
        "title": text(),
        "question": text(),
        "questions": {**array(QUESTION), "maxItems": QUESTIONS_MAX},
        "sources": array(SOURCE),
        "lesson": integer(min(LESSONS), max(LESSONS)),
        "tags": array(ref("slug")),
        "seed": integer(0, SEED_MAX),
        "duration": ref("time"),
        "profile": {"enum": list(PROFILES), "description": f"era of Kafka, {DEFAULT_PROFILE} without it"},
        "protocol": ref("protocol"),
        "cluster": CLUSTER,
        "topics": {"type": "object", "propertyNames": ref("topicName"), "additionalProperties": TOPIC},
        "network": NETWORK,
        "workloads": {
            "type": "object",
            "propertyNames": ref("slug"),
            "additionalProperties": one_of(PRODUCER, CONSUMER, SHARE_CONSUMER, TRANSFORM),
        },
        "timeline": array(ref("step")),
        "expect": ref("expect"),
        "variants": {**array(_variant()), "maxItems": VARIANTS_MAX},
    }


def _variant() -> Schema:
    properties = {
        "id": {"allOf": [ref("slug"), {"not": {"const": "base"}}]},
        "title": text(),
        "patch": {"type": "object"},
        "add_timeline": array(ref("step")),
        "expect": ref("expect"),
    }
    return mapping(properties, ("id",))


def _step() -> Schema:
    modifiers: dict[str, Schema] = {
        "at": ref("time"),
        "when": ref("state"),
        "timeout": ref("time"),
        "every": ref("time"),
        "times": integer(1, TIMES_MAX),
        "for": ref("time"),
        "as": ref("slug"),
    }
    assert tuple(modifiers) == MODIFIERS
    verbs = {verb.name: verb.schema() for verb in VERBS.values()}
    undoable = [verb.name for verb in VERBS.values() if verb.effect.undoable]
    return {
        **mapping({**modifiers, **verbs}),
        "allOf": [
            {"oneOf": [{"required": [trigger]} for trigger in ("at", "when")]},
            {"oneOf": [{"required": [name]} for name in verbs]},
            {"if": {"required": ["for"]}, "then": {"anyOf": [{"required": [name]} for name in undoable]}},
        ],
        "dependentRequired": {"timeout": ["when"], "every": ["times"], "times": ["every"]},
    }


# ---------------------------------------------------------------------------------------------------------- definitions
#
# Definitions that the other parts of the schema refer to: values, selectors, conditions, configurations and rules.

SELECTORS = (
    "b1, [b1, b2], leader(t-0), followers(t-0), follower(t-0,1), isr(t-0), replicas(t-0), controller, brokers, clients,"
    ' rack(A), others(b1), coordinator(g), "@name"'
)
STATES = "t-0: {leader, epoch, isr, elr, hw, leo, offline}; b1: {running, fenced, t-0: {hw, leo, epoch, leading}}"
RECORD_NAMES = "r0..r9, r15 or none"


def definitions() -> dict[str, Schema]:
    return {**_values(), **_nodes(), **_conditions(), "protocol": _protocol(), **_configs()}


def _values() -> dict[str, Schema]:
    return {
        "slug": pattern(SLUG_PATTERN),
        "scalar": {"type": ["string", "number", "boolean"]},
        "scalarOrList": {"anyOf": [ref("scalar"), {"type": "array", "items": ref("scalar"), "minItems": 1}]},
        "time": pattern(TIME_PATTERN),
        "jump": pattern(f"-?{TIME_PATTERN}"),
        "window": {**array(ref("time"), 2), "maxItems": 2},
        "size": {"type": ["string", "integer"], "pattern": f"^{SIZE_PATTERN}$", "minimum": 0},
        "bandwidth": pattern(f"{SIZE_PATTERN}/s"),
        "share": pattern(SHARE_PATTERN),
        "rate": pattern(r"[0-9]{1,9}/([a-z]+|[0-9.]+[a-z]+)"),
        "delay": one_of(
            ref("time"),
            mapping({"constant": ref("time")}, ["constant"]),
            mapping({"uniform": ref("window")}, ["uniform"]),
            mapping({"exponential": ref("time"), "least": ref("time")}, ["exponential"]),
        ),
        "serviceTime": {
            **mapping({"append": ref("time"), "read": ref("time"), "throughput": ref("bandwidth")}),
            "minProperties": 1,
        },
    }


def _nodes() -> dict[str, Schema]:
    name = {"type": "string", "minLength": 1}
    return {
        "selector": {"description": f"{SELECTORS}; none", **one_of(name, array(ref("selector")))},
        "nodes": {
            "description": SELECTORS,
            **one_of({**name, "not": {"const": "none"}}, array(ref("selector"), 1)),
        },
        "sides": {**array(ref("nodes"), 2), "maxItems": 2},
        "direction": {"enum": ["both", "to", "from"], "description": "relative to the first side"},
        "labels": {"description": "a label, a list of labels, or all", **one_of(text(), array(text(), 1))},
        "partitionName": pattern("[a-zA-Z0-9._-]+-[0-9]{1,6}"),
        "topicName": {**pattern("[a-zA-Z0-9._-]{1,249}"), "not": {"enum": [".", ".."]}},
    }


def _conditions() -> dict[str, Schema]:
    number = integer(0, NUMBER_MAX)
    tests = {"hw": ref("number"), "leo": ref("number"), "epoch": ref("number"), "leading": {"type": "boolean"}}
    of_partition = {
        "leader": ref("selector"),
        "epoch": ref("number"),
        "isr": ref("selector"),
        "elr": ref("selector"),
        "hw": ref("number"),
        "leo": ref("number"),
        "offline": {"type": "boolean"},
    }
    of_node = {"running": {"type": "boolean"}, "fenced": {"type": "boolean"}}
    names = one_of(text(RECORD_NAMES), array(ref("recordNames")))
    bounds = {"between": ref("window"), "after": ref("time"), "before": ref("time")}
    end_offset = {
        "consumer": text(),
        "partition": ref("partitionName"),
        "is": ref("number"),
        "error": {"enum": [*ErrorCode.__members__, *ERRORS_WITHOUT_A_NUMBER]},
    }
    return {
        "number": one_of(number, {**mapping({"at_least": number, "at_most": number}), "minProperties": 1}),
        "recordNames": names,
        "recordSet": one_of(
            *names["oneOf"],
            {
                **mapping({"at_least": ref("recordNames"), "at_most": ref("recordNames"), "count": ref("number")}),
                "minProperties": 1,
            },
        ),
        "records": mapping({kind: ref("recordSet") for kind in RECORD_KINDS}, or_nothing=True),
        "logs": table(one_of(*names["oneOf"], table(ref("recordNames"))), ref("partitionName"), or_nothing=True),
        "state": {
            "description": STATES,
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {
                "type": ["object", "null"],
                "properties": {**of_partition, **of_node},
                "additionalProperties": mapping(tests, or_nothing=True),
            },
        },
        "timeBounds": {**mapping(bounds, or_nothing=True), **excluding("between", ["after", "before"])},
        "endOffset": {**mapping(end_offset, ["consumer", "partition"]), **excluding("is", ["error"])},
    }


def _protocol() -> Schema:
    return mapping(
        {
            name: {"enum": list(choices)} if choices else {"type": "boolean"}
            for name, (_, choices) in Rules.switches().items()
        }
    )


def _configs() -> dict[str, Schema]:
    blocks: dict[str, type[Config]] = {
        "brokerConfig": BrokerConfig,
        "topicConfig": TopicConfig,
        "producerConfig": ProducerConfig,
        "consumerConfig": ConsumerConfig,
        "shareConsumerConfig": ShareConsumerConfig,
        "transformConfig": TransformConfig,
    }
    schemas = {
        name: mapping({key: ref(_kind(one)) for key, one in block.keys().items()}, or_nothing=True)
        for name, block in blocks.items()
    }
    schemas["brokerConfig"]["properties"][BROKER_RACK] = text()
    lines = text("lines of a .properties file, below `config: |`")
    known_keys = (BROKER_KEYS, TOPIC_KEYS, PRODUCER_KEYS, CLIENT_KEYS, SHARE_CONSUMER_KEYS, CLIENT_KEYS)
    for name, known in zip(blocks, known_keys, strict=True):
        schemas[name] = one_of({**schemas[name], "patternProperties": {known.pattern(): ref("scalar")}}, lines)
    return schemas


def _kind(one: Field[Any]) -> str:
    return "scalarOrList" if one.metadata["is_list"] else "scalar"
