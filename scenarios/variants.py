"""Variants and overrides as operations on node trees, so that every node keeps the line it was written in.

A variant's `patch` is merged into the file: mappings key by key, everything else replaced, `~` removes a key.
`--set path=value` puts one value into the tree; the path is the one error messages print.
"""

from __future__ import annotations

from scenarios.diagnostics import Diagnostic, Place, Problems, SourceText, did_you_mean
from scenarios.yaml_source import Mapping, Node, Scalar, Sequence, parse

PATH_STEPS_MAX = 20


def merge(base: Node, patch: Node) -> Node:
    """A new tree; neither argument is changed."""
    if not isinstance(base, Mapping) or not isinstance(patch, Mapping):
        return patch
    merged = Mapping(base.place, dict(base.entries))
    for key, (key_node, value) in patch.entries.items():
        if isinstance(value, Scalar) and value.is_null:
            merged.entries.pop(key, None)
        elif key in merged.entries:
            merged.entries[key] = (key_node, merge(merged.entries[key][1], value))
        else:
            merged.entries[key] = (key_node, value)
    return merged


def apply_variant(base: Mapping, variant: Mapping) -> Mapping:
    """The tree that a variant stands for: patched, its steps added, with its own `expect`, without `variants`."""
    tree = Mapping(base.place, {key: entry for key, entry in base.entries.items() if key != "variants"})
    patch = variant.get("patch")
    if isinstance(patch, Mapping):
        merged = merge(tree, patch)
        assert isinstance(merged, Mapping)
        tree = merged
    for key in ("title", "expect"):
        if key in variant.entries:
            tree.entries[key] = variant.entries[key]
    added = variant.get("add_timeline")
    if isinstance(added, Sequence):
        key_node, timeline = tree.entries.get("timeline", (variant.entries["add_timeline"][0], Sequence(added.place)))
        if isinstance(timeline, Sequence):
            tree.entries["timeline"] = (key_node, Sequence(timeline.place, [*timeline.items, *added.items]))
    return tree


def apply_override(tree: Mapping, override: str, problems: Problems) -> Mapping:
    """A copy of `tree` with `path=value` applied; unchanged after noting why the path leads nowhere."""
    source = SourceText.of(f"--set {override}", override)
    path, equals, value_text = override.partition("=")
    if not equals or not path.strip():
        note(problems, source, "E137", "`--set` needs path=value", "such as seed=7")
        return tree
    value_problems = Problems()
    value = parse(value_text, source.name, value_problems)
    for diagnostic in value_problems.found:
        problems.add(diagnostic)
    if value_problems.found:
        return tree
    shift(value, source, len(path) + 1)
    if value is None:
        value = Scalar(Place(source, 0, len(path) + 1), "")
    changed = _put(tree, path.strip(), value, source, problems)
    assert isinstance(changed, Mapping)
    return changed


def note(
    problems: Problems, source: SourceText, code: str, title: str, label: str, column: int = 0, length: int = 1
) -> None:
    problems.add(Diagnostic(code=code, title=title, place=Place(source, 0, column, max(1, length)), label=label))


def shift(node: Node | None, source: SourceText, columns: int) -> None:
    """Moves the places of a value parsed alone to where it stands behind `path=`."""
    if node is None:
        return
    node.place = Place(source, node.place.line, node.place.column + columns, node.place.length)
    children: list[Node] = []
    if isinstance(node, Sequence):
        children = node.items
    elif isinstance(node, Mapping):
        children = [child for entry in node.entries.values() for child in entry]
    for child in children:
        shift(child, source, columns)


def _put(node: Node, path: str, value: Node, source: SourceText, problems: Problems, depth: int = 0) -> Node:
    """`node` with the value at `path` replaced. Keys may hold dots (Kafka's do), so the longest known key wins."""
    column = source.lines[0].find(path)
    if depth > PATH_STEPS_MAX:
        note(problems, source, "E137", "the path is too long", "")
        return node
    if isinstance(node, Sequence):
        head, _, rest = path.partition(".")
        if not head.isascii() or not head.isdigit() or not 1 <= int(head[:9]) <= len(node.items):
            note(
                problems,
                source,
                "E137",
                f"`{head}` is no position in a list of {len(node.items)}",
                f"1 to {len(node.items)}",
                column,
                len(head),
            )
            return node
        items = list(node.items)
        items[int(head) - 1] = _put(items[int(head) - 1], rest, value, source, problems, depth + 1) if rest else value
        return Sequence(node.place, items)
    if not isinstance(node, Mapping):
        if isinstance(node, Scalar) and (node.is_empty or node.is_null):
            node = Mapping(node.place)
        else:
            note(problems, source, "E137", f"nothing lies below a plain value: `{path}`", "", column, len(path))
            return node
    return _put_in_mapping(node, path, value, source, problems, depth)


def _put_in_mapping(
    node: Mapping, path: str, value: Node, source: SourceText, problems: Problems, depth: int
) -> Mapping:
    entries = dict(node.entries)
    known = sorted((key for key in entries if path == key or path.startswith(f"{key}.")), key=len)
    if known:
        key = known[-1]
        rest = path[len(key) + 1 :]
        key_node, old = entries[key]
        if rest and isinstance(old, Scalar) and not (old.is_empty or old.is_null):
            # `acks` is there and `acks.level` is asked for: a new key of this mapping, judged by the parser.
            entries[path] = (Scalar(Place(source, 0, source.lines[0].find(path), len(path)), path), value)
        else:
            entries[key] = (key_node, _put(old, rest, value, source, problems, depth + 1) if rest else value)
        return Mapping(node.place, entries)
    head, _, rest = path.partition(".")
    column = source.lines[0].find(path)
    if rest and (suggestion := did_you_mean(head, entries)) is not None:
        note(problems, source, "E137", f"no `{head}` in this place", f"did you mean `{suggestion}`?", column, len(head))
        return node
    if rest and head in ("config", "protocol", "network", "expect", "cluster", "topics", "workloads"):
        key_node = Scalar(Place(source, 0, column, len(head)), head)
        entries[head] = (key_node, _put(Mapping(key_node.place), rest, value, source, problems, depth + 1))
    else:
        entries[path] = (Scalar(Place(source, 0, column, len(path)), path), value)
    return Mapping(node.place, entries)
