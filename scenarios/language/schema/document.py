"""The whole schema. Editors check shape with it; `highwater check` checks meaning, too."""

from __future__ import annotations

from typing import Any

from replica.rules import PROFILES
from scenarios.language.parse.catalogue import LESSONS
from scenarios.language.parse.loading import REQUIRED_FIELDS, SEED_MAX, VARIANTS_MAX
from scenarios.language.parse.steps import MODIFIERS, TIMES_MAX
from scenarios.language.schema.definitions import definitions
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
from scenarios.language.values.links import Schema, array, integer, mapping, one_of, ref, text
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
