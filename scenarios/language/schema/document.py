"""The whole schema. Editors check shape with it; `highwater check` checks meaning, too."""

from __future__ import annotations

from dataclasses import Field
from typing import Any

from cluster.config import BrokerConfig, ConsumerConfig, ProducerConfig, TransformConfig
from cluster.dynamic_keys import PREFIXES_WITHOUT_EFFECT, WITHOUT_EFFECT
from replica.config import Config, TopicConfig
from replica.errors import ERRORS_WITHOUT_A_NUMBER, ErrorCode
from replica.rules import PROFILES, Rules
from scenarios.language.expect import RECORD_KINDS
from scenarios.language.parse.catalogue import LESSONS
from scenarios.language.parse.loading import REQUIRED_FIELDS, SEED_MAX, VARIANTS_MAX
from scenarios.language.parse.steps import MODIFIERS, TIMES_MAX
from scenarios.language.schema.static_half import (
    CLUSTER,
    CONSUMER,
    EXPECT,
    NETWORK,
    PRODUCER,
    QUESTION,
    SOURCE,
    TOPIC,
    TRANSFORM,
)
from scenarios.language.spec import SCHEMA
from scenarios.language.steps import QUESTIONS_MAX
from scenarios.language.values.links import (
    Schema,
    array,
    excluding,
    integer,
    mapping,
    one_of,
    pattern,
    ref,
    table,
    text,
)
from scenarios.language.values.reading import NUMBER_MAX, SHARE_PATTERN, SIZE_PATTERN, SLUG_PATTERN, TIME_PATTERN
from scenarios.language.verbs.every import VERBS


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
        "profile": {"enum": list(PROFILES), "description": "era of Kafka, the newest without it"},
        "protocol": ref("protocol"),
        "cluster": CLUSTER,
        "topics": {"type": "object", "propertyNames": ref("topicName"), "additionalProperties": TOPIC},
        "network": NETWORK,
        "workloads": {
            "type": "object",
            "propertyNames": ref("slug"),
            "additionalProperties": one_of(PRODUCER, CONSUMER, TRANSFORM),
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
    return mapping(properties, ("id", "expect"))


def _step() -> Schema:
    """One trigger, one verb, and modifiers."""
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
    undoable = [verb.name for verb in VERBS.values() if verb.undoable]
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
# What the parts of the schema refer to: values, selectors, conditions, configurations, rules.

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
        "transformConfig": TransformConfig,
    }
    schemas = {
        name: mapping({key: ref(_kind(one)) for key, one in block.keys().items()}, or_nothing=True)
        for name, block in blocks.items()
    }
    names = [*PREFIXES_WITHOUT_EFFECT, *(f"{name}$" for name in sorted(WITHOUT_EFFECT))]
    left_out = {"^(" + "|".join(names).replace(".", r"\.") + ")": ref("scalar")}
    return {**schemas, "brokerConfig": {**schemas["brokerConfig"], "patternProperties": left_out}}


def _kind(one: Field[Any]) -> str:
    return "scalarOrList" if one.metadata["is_list"] else "scalar"
