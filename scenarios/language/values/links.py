"""Links in a step or in the `network` block: their two sides, how long a message travels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replica.log.files.disk import ServiceTime
from scenarios.language.selectors import Selector
from scenarios.language.spec import DEFAULT_LATENCY
from scenarios.language.steps import Delay
from scenarios.language.values.reading import Fields, Reader
from scenarios.language.values.scope import LINK_END, Scope
from scenarios.language.values.trees import Tree, bandwidth_text, given, selector_tree, time_text
from scenarios.language.values.yaml_source import Mapping, Node, Scalar

DELAY_KEYS = ("constant", "uniform", "exponential", "least")
Sides = tuple[Selector, Selector]


def read_sides(scope: Scope, node: Node, path: str) -> Sides | None:
    """`[A, B]`, each side a node, a list or a selector."""
    items = scope.reader.items(node, path, "`between`")
    if len(items) != 2:
        if not isinstance(node, Scalar):
            scope.reader.error(
                "E111",
                f"`between` needs two sides, not {len(items)}",
                node.place,
                path=path,
                label="such as [b1, [b2, b3]]",
            )
        return None
    first, second = (scope.some_nodes(item, item_path, "a side", LINK_END) for item, item_path in items)
    return first, second


def sides_tree(sides: Sides) -> list[Any]:
    return [selector_tree(side) for side in sides]


def read_delay(reader: Reader, node: Node, path: str, what: str) -> Delay:
    """`5ms`, `{constant: 5ms}`, `{uniform: [1ms, 5ms]}`, `{exponential: 5ms, least: 1ms}`."""
    if not isinstance(node, Mapping):
        return Delay("constant", reader.time(node, path, what))
    fields = reader.fields(node, path, what, DELAY_KEYS)
    kinds = [kind for kind in ("constant", "uniform", "exponential") if kind in fields]
    if len(kinds) != 1:
        if all(key in DELAY_KEYS for key in node.entries):  # An unknown key is one mistake, not two.
            reader.error("E105", f"{what} needs one of constant, uniform, exponential", node.place, path=path)
        return DEFAULT_LATENCY
    if "least" in fields and kinds[0] != "exponential":
        reader.error(
            "E104", f"`least` belongs to `exponential`, not to `{kinds[0]}`", fields.key_place("least"), path=path
        )
    found = fields.get(kinds[0])
    assert found is not None
    if kinds[0] == "uniform":
        window = reader.window(*found, "`uniform`")
        low, high = window.low_us or 0, window.high_us or 0
        return Delay("uniform", low, max(0, high - low))
    value = reader.time(*found, f"`{kinds[0]}`")
    if kinds[0] == "constant":
        return Delay("constant", value)
    return Delay("exponential", fields.time("least", 0), value)


def delay_tree(delay: Delay) -> Any:
    least, spread = time_text(delay.least_us), time_text(delay.spread_us)
    match delay.kind:
        case "constant":
            return least
        case "uniform":
            return {"uniform": [least, time_text(delay.least_us + delay.spread_us)]}
        case "exponential":
            return {"exponential": spread, "least": least}


def delay_text(delay: Delay) -> str:
    """`1ms to 5ms`, `1ms plus 4ms on average`"""
    least = time_text(delay.least_us)
    if delay.kind == "uniform":
        return f"{least} to {time_text(delay.least_us + delay.spread_us)}"
    if delay.kind == "exponential":
        return f"{least} plus {time_text(delay.spread_us)} on average"
    return least


# -------------------------------------------------------------------------------------------------------- service times
#
# How long a disk takes, as a broker's `disk` and the verb `slow_disk` say it.

SERVICE_TIME_KEYS = ("append", "read", "throughput")


def read_service_time(fields: Fields) -> ServiceTime:
    """`append: 2s`, `read: 2s`, `throughput: 50kB/s`; at least one of them."""
    if fields.node is not None and not any(key in fields for key in SERVICE_TIME_KEYS):
        fields.reader.error(
            "E105", f"{fields.what} slows nothing", fields.place, label="add `append: 2s`", path=fields.path
        )
    return ServiceTime(fields.time("append", 0, 1), fields.time("read", 0, 1), fields.bandwidth("throughput", None))


def service_time_tree(time: ServiceTime) -> Tree:
    return given(
        {
            "append": time_text(time.append_us) if time.append_us else None,
            "read": time_text(time.read_us) if time.read_us else None,
            "throughput": None if time.bytes_per_second is None else bandwidth_text(time.bytes_per_second),
        }
    )


def service_time_text(time: ServiceTime) -> str:
    """`2s per append, 50,000 B/s`"""
    parts = [f"{time_text(us)} per {what}" for us, what in ((time.append_us, "append"), (time.read_us, "read")) if us]
    return ", ".join(parts + ([f"{time.bytes_per_second:,} B/s"] if time.bytes_per_second is not None else []))


# --------------------------------------------------------------------------------------------------------------- shapes
#
# The few forms of JSON Schema that the others are made of.

Schema = dict[str, Any]


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


def mapping(properties: dict[str, Schema], required: Iterable[str] = (), *, or_nothing: bool = False) -> Schema:
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
