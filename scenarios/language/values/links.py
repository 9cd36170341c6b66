"""Readers and writers of the links between nodes, message delays and disk times; helpers for the JSON Schema."""

from __future__ import annotations

import re
from typing import Any

from replica.log.files.disk import ServiceTime
from scenarios.language.selectors import WORDS, Selector
from scenarios.language.spec import DEFAULT_LATENCY
from scenarios.language.steps import Delay
from scenarios.language.values.reading import Fields, Reader
from scenarios.language.values.scope import LINK_END, Scope
from scenarios.language.values.trees import Tree, bandwidth_text, given, selector_tree, time_text
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, Sequence

DELAY_KEYS = ("constant", "uniform", "exponential", "least")
Sides = tuple[Selector, Selector]


def read_sides(scope: Scope, node: Node, path: str) -> Sides | None:
    """Read two sides `[A, B]`, each a node, a list or a selector. Return None if there are not two."""
    meant = sides_meant(scope, node)
    label = f"write {meant}" if meant else "for example [b1, [b2, b3]]"
    items = scope.reader.items(node, path, "`between`", label)
    if len(items) != 2:
        if is_short_list(node):
            title = f"`between` needs two sides, not {len(items)}"
            scope.reader.error("E111", title, node.place, path=path, label=label)
        return None
    first, second = (scope.some_nodes(item, item_path, "a side", LINK_END) for item, item_path in items)
    return first, second


def is_short_list(node: Node) -> bool:
    """Return True for a list or an empty value. `Reader.items` reads an empty value as a list without items."""
    return isinstance(node, Sequence) or (isinstance(node, Scalar) and node.is_empty)


def sides_meant(scope: Scope, node: Node) -> str | None:
    """Return the correct form, such as `[b1, b3]`, of two sides that a user wrote; None if unclear.

    Known forms are `[A, B]`, `b1-b3`, `{from: b1, to: b2}`, and a single side to be separated from the rest.
    """
    if isinstance(node, Mapping):
        values = [value for _, value in node.entries.values()]
        return sides_meant(scope, values[0] if len(values) == 1 else Sequence(node.place, values))
    if isinstance(node, Sequence):
        names = [item.text for item in node.items if isinstance(item, Scalar)]
        if len(names) < len(node.items):
            return None
    else:
        sides = [re.split(r"[\s,]+", side) for side in _BETWEEN_SIDES.split(node.text.strip())]
        if len(sides) == 2 and all(name in scope.nodes for side in sides for name in side):
            return f"[{', '.join(map(_flow, sides))}]"
        names = [node.text] if scope.cut_off(node.text) else [part for part in _BETWEEN_NAMES.split(node.text) if part]
    selectors = [scope.meant(name) or name for name in names]
    if not selectors or not all(
        _CALL.fullmatch(selector) or selector in (*WORDS, *scope.nodes) for selector in selectors
    ):
        return None
    first, *others = selectors
    if not others:
        return scope.cut_off(first)
    return f"[{first}, {_flow(others)}]"


def _flow(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


_BETWEEN_NAMES = re.compile(r"\s*(?:-|,|\||\s(?:and|from|to)\s)\s*")
_CALL = re.compile(r"[a-z]+\([A-Za-z0-9._-]{1,40}\)", re.ASCII)
_BETWEEN_SIDES = re.compile(r"\s*(?:\||/|<->|\bvs\b)\s*")


def sides_tree(sides: Sides) -> list[Any]:
    return [selector_tree(side) for side in sides]


def read_delay(reader: Reader, node: Node, path: str, what: str) -> Delay:
    """Read a delay: `5ms`, `{constant: 5ms}`, `{uniform: [1ms, 5ms]}` or `{exponential: 5ms, least: 1ms}`."""
    if not isinstance(node, Mapping):
        return Delay("constant", reader.time(node, path, what))
    fields = reader.fields(node, path, what, DELAY_KEYS)
    kinds = [kind for kind in ("constant", "uniform", "exponential") if kind in fields]
    if len(kinds) != 1:
        if all(key in DELAY_KEYS for key in node.entries):  # An unknown key was reported already.
            reader.error(
                "E105", f"{what} needs exactly one of `constant`, `uniform`, `exponential`", node.place, path=path
            )
        return DEFAULT_LATENCY
    if "least" in fields and kinds[0] != "exponential":
        reader.error(
            "E104",
            f"`least` is allowed only with `exponential`, not with `{kinds[0]}`",
            fields.key_place("least"),
            path=path,
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
    """Return a description such as `1ms to 5ms` or `1ms plus 4ms on average`."""
    least = time_text(delay.least_us)
    if delay.kind == "uniform":
        return f"{least} to {time_text(delay.least_us + delay.spread_us)}"
    if delay.kind == "exponential":
        return f"{least} plus {time_text(delay.spread_us)} on average"
    return least


# -------------------------------------------------------------------------------------------------------- service times
#
# How long a disk takes, as in a broker's `disk` and in the verb `slow_disk`.

SERVICE_TIME_KEYS = ("append", "read", "throughput")


def read_service_time(fields: Fields) -> ServiceTime:
    """Read the keys `append`, `read` and `throughput`. At least one must be present."""
    if fields.node is not None and not any(key in fields for key in SERVICE_TIME_KEYS):
        fields.reader.error(
            "E105", f"{fields.what} has no delay", fields.place, label="add `append: 2s`", path=fields.path
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
    """Return a description such as `2s per append, 50,000 B/s`."""
    parts = [f"{time_text(us)} per {what}" for us, what in ((time.append_us, "append"), (time.read_us, "read")) if us]
    return ", ".join(parts + ([f"{time.bytes_per_second:,} B/s"] if time.bytes_per_second is not None else []))


# --------------------------------------------------------------------------------------------------------------- shapes
#
# The basic forms of JSON Schema, from which the others are built.

Schema = dict[str, Any]


def ref(definition: str) -> Schema:
    return {"$ref": f"#/$defs/{definition}"}
