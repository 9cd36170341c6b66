"""The few forms of JSON Schema that the others are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Schema = Mapping[str, Any]


def ref(definition: str) -> Schema:
    return {"$ref": f"#/$defs/{definition}"}


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


def mapping(properties: Mapping[str, Schema], required: Iterable[str] = (), *, or_nothing: bool = False) -> Schema:
    """With these keys only. or_nothing: an empty value stands for a mapping without keys"""
    kind: Any = ["object", "null"] if or_nothing else "object"
    needed = {"required": list(required)} if required else {}
    return {"type": kind, "additionalProperties": False, **needed, "properties": dict(properties)}


def table(values: Schema, keys: Schema | None = None, *, or_nothing: bool = False) -> Schema:
    """A mapping with free keys."""
    kind: Any = ["object", "null"] if or_nothing else "object"
    return {"type": kind, **({} if keys is None else {"propertyNames": keys}), "additionalProperties": values}


def excluding(one: str, others: Iterable[str]) -> Schema:
    """The key `one` beside none of the others."""
    return {"not": {"type": "object", "required": [one], "anyOf": [{"required": [other]} for other in others]}}
