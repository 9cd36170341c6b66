"""Typed reading of the node tree: every method takes a node, notes what is wrong with it, and returns a usable value.

A wrong value is replaced by a harmless one so that reading goes on and all errors are found at once; the result is
thrown away as soon as one error was noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from typing import TypeVar

from replica.config import SIZE_UNITS, Config, ConfigError
from scenarios.language.diagnostics import Diagnostic, Place, Problems, did_you_mean
from scenarios.language.expect import NumberTest, TimeTest
from scenarios.language.steps import DEFAULT
from scenarios.language.values.synonyms import FIELD_SYNONYMS
from scenarios.language.values.yaml_source import Mapping, Node, Scalar
from scenarios.language.values.yaml_source import Sequence as SequenceNode

T = TypeVar("T")
D = TypeVar("D")

NOWHERE: MappingType[str, str] = {}

TIME_MAX_US = 30 * 24 * 3600 * 1_000_000
NUMBER_MAX = 2**62
SIZE_MAX = 1 << 40

TIME_PATTERN = r"([0-9]{1,15})(?:\.([0-9]{1,9}))?(us|ms|s|m)"
SIZE_PATTERN = r"([0-9]{1,12})(?:\.([0-9]{1,3}))?\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?"
SHARE_PATTERN = r"(100(?=%|\.0+%)|0?[0-9]{1,2})(?:\.([0-9]{1,4}))?%"
SLUG_PATTERN = "[a-z0-9]+(-[a-z0-9]+)*"
"""The JSON Schema has them too."""

_TIME = re.compile(TIME_PATTERN)
_LONG_TIME = re.compile(TIME_PATTERN.replace("|m)", "|m|h)"))
_UNITS_US = {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_ENDLESS_NUMBER = re.compile(r"[+-]?0*[1-9]\d{19,}", re.ASCII)
_ENDLESS_TIME = re.compile(
    r"0*[1-9]\d{15,}(\.\d+)?(us|ms|s|m)?|[1-9]\d*(\.\d+)?[eE]\+?[1-9]\d{2,}(us|ms|s|m)", re.ASCII
)
_ENDLESS_SIZE = re.compile(r"0*[1-9]\d{13,}(\.\d+)?\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?", re.ASCII)
"""What has more digits than any bound."""
_SIZE = re.compile(SIZE_PATTERN, re.ASCII)
_SHARE = re.compile(SHARE_PATTERN)
SLUG = re.compile(SLUG_PATTERN)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]{1,40}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping whose keys are all known."""

    reader: Reader
    node: Mapping | None
    path: str
    what: str
    place: Place

    def get(self, key: str) -> tuple[Node, str] | None:
        """The value and its path, if given."""
        value = None if self.node is None else self.node.get(key)
        return None if value is None else (value, f"{self.path}.{key}" if self.path else key)

    def read(self, key: str, read: Callable[[Node, str], T], default: D) -> T | D:
        """The value as `read` makes it, or `default` when the key is not given."""
        found = self.get(key)
        return default if found is None else read(*found)

    def text(self, key: str, default: D) -> str | D:
        return self.read(key, lambda node, path: self.reader.text(node, path, f"`{key}`"), default)

    def boolean(self, key: str, default: D) -> bool | D:
        return self.read(key, lambda node, path: self.reader.boolean(node, path, f"`{key}`"), default)

    def integer(self, key: str, default: D, low: int = 0, high: int = NUMBER_MAX) -> int | D:
        return self.read(key, lambda node, path: self.reader.integer(node, path, f"`{key}`", low, high), default)

    def choice(self, key: str, default: D, choices: Sequence[str]) -> str | D:
        return self.read(key, lambda node, path: self.reader.choice(node, path, f"`{key}`", choices), default)

    def time(self, key: str, default: D, low: int = 0) -> int | D:
        return self.read(key, lambda node, path: self.reader.time(node, path, f"`{key}`", low), default)

    def size(self, key: str, default: D, low: int = 0, high: int = SIZE_MAX) -> int | D:
        return self.read(key, lambda node, path: self.reader.size(node, path, f"`{key}`", low, high), default)

    def bandwidth(self, key: str, default: D) -> int | D:
        return self.read(key, lambda node, path: self.reader.bandwidth(node, path, f"`{key}`"), default)

    def share_ppm(self, key: str, default: D) -> int | D:
        return self.read(key, lambda node, path: self.reader.share_ppm(node, path, f"`{key}`"), default)

    def number_test(self, key: str, low: int = 0) -> NumberTest | None:
        return self.read(key, lambda node, path: self.reader.number_test(node, path, f"`{key}`", low), None)

    def key_place(self, key: str) -> Place:
        entry = None if self.node is None else self.node.entries.get(key)
        return self.place if entry is None else entry[0].place

    def __contains__(self, key: str) -> bool:
        return self.node is not None and key in self.node.entries


class Reader:
    """Reads nodes; `problems` collects what is wrong, `places` where every path stands."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.places: dict[str, Place] = {}
        self.without_effect: dict[str, Place] = {}
        """keys of Kafka's that change nothing here"""

    def error(
        self,
        code: str,
        title: str,
        place: Place,
        *,
        label: str = "",
        suggestion: str | None = None,
        path: str = "",
        notes: Iterable[str] = (),
        follows: bool = False,
    ) -> None:
        if suggestion is not None and not label:
            label = f"did you mean `{suggestion}`?"
        self.problems.add(
            Diagnostic(
                code=code,
                title=title,
                place=place,
                label=label,
                suggestion=suggestion,
                path=path or None,
                notes=tuple(notes),
                follows=follows,
            )
        )

    # ------------------------------------------------------------------------------------------------ shapes

    def fields(
        self,
        node: Node,
        path: str,
        what: str,
        known: Sequence[str],
        required: Collection[str] = (),
        known_as: Sequence[str] = (),
        elsewhere: MappingType[str, str] = NOWHERE,
    ) -> Fields:
        """A mapping with only `known` keys; an empty value counts as an empty mapping.

        required: keys that must be there, perhaps each with an example of its value
        known_as: how the help lists them, where one list is not enough
        elsewhere: keys that have another place, and which
        """
        if isinstance(node, Scalar) and node.is_nothing:
            return self._required(Fields(self, None, path, what, node.place), required)
        if not isinstance(node, Mapping):
            self.error(
                "E111",
                f"{what} must be a mapping, not {kind_of(node)}",
                node.place,
                path=path,
                label=f"keys: {', '.join(known)}",
            )
            return Fields(self, None, path, what, node.place)
        for key, (key_node, _) in node.entries.items():
            self.places[f"{path}.{key}" if path else key] = key_node.place
            if key not in known:
                self.unknown_key(key, key_node.place, path, what, known, known_as, elsewhere)
        return self._required(Fields(self, node, path, what, node.place), required)

    def unknown_key(
        self,
        key: str,
        place: Place,
        path: str,
        what: str,
        known: Sequence[str],
        known_as: Sequence[str] = (),
        elsewhere: MappingType[str, str] = NOWHERE,
    ) -> None:
        suggestion = None if key in elsewhere else did_you_mean(key, known, FIELD_SYNONYMS)
        self.error(
            "E104",
            f"unknown field `{key}` in {what}",
            place,
            label=f"did you mean `{suggestion}`?" if suggestion else elsewhere.get(key, "no such field"),
            suggestion=suggestion,
            notes=known_as or [f"help: fields of {what}: {', '.join(known)}"],
            path=f"{path}.{key}" if path else key,
        )

    def _required(self, fields: Fields, required: Collection[str]) -> Fields:
        missing = [key for key in required if key not in fields]
        if missing and fields.node is not None:  # A misspelt key is one mistake, not two.
            keys = [key for key in fields.node.entries if key not in required]
            meant = [did_you_mean(key, required, FIELD_SYNONYMS) for key in keys]
            missing = [key for key in missing if key not in meant]
        if missing:
            names = ", ".join(f"`{key}`" for key in missing)
            title = f"missing {names} in {fields.what}"
            examples = required if isinstance(required, MappingType) else dict.fromkeys(missing, "...")
            label = f"add {', '.join(f'`{key}: {examples[key]}`' for key in missing)}"
            self.error("E105", title, fields.place, label=label, path=fields.path)
        return fields

    def entries(self, node: Node, path: str, what: str, example: str = "") -> Iterator[tuple[str, Scalar, Node, str]]:
        """(key, key node, value, path) of a mapping with free keys. example: the least that stands below one of them"""
        if isinstance(node, Scalar) and node.is_nothing:
            return
        if not isinstance(node, Mapping):
            label = _as_mapping(node, example) if isinstance(node, SequenceNode) else ""
            self.error("E111", f"{what} must be a mapping, not {kind_of(node)}", node.place, path=path, label=label)
            return
        for key, (key_node, value) in node.entries.items():
            self.places[f"{path}.{key}"] = key_node.place
            yield key, key_node, value, f"{path}.{key}"

    def items(self, node: Node, path: str, what: str) -> list[tuple[Node, str]]:
        """Items of a list with their paths, counted from 1."""
        if isinstance(node, SequenceNode):
            return [(item, f"{path}.{place}") for place, item in enumerate(node.items, 1)]
        if isinstance(node, Scalar) and node.is_empty:
            return []
        self.error("E111", f"{what} must be a list, not {kind_of(node)}", node.place, path=path)
        return []

    # ----------------------------------------------------------------------------------------------- scalars

    def text(self, node: Node, path: str, what: str) -> str:
        if isinstance(node, Scalar):
            return node.text
        self.error("E111", f"{what} must be text, not {kind_of(node)}", node.place, path=path)
        return ""

    def boolean(self, node: Node, path: str, what: str) -> bool:
        text = self.text(node, path, what)
        if text in ("true", "false"):
            return text == "true"
        if isinstance(node, Scalar):
            meant = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}
            self.error(
                "E111",
                f"{what} must be true or false, not `{text}`",
                node.place,
                path=path,
                suggestion=meant.get(text.lower(), text.lower() if text.lower() in ("true", "false") else None),
            )
        return False

    def integer(self, node: Node, path: str, what: str, low: int = 0, high: int = NUMBER_MAX) -> int:
        if isinstance(node, Scalar) and _ENDLESS_NUMBER.fullmatch(node.text):
            bound = f"below {low:,}" if node.text.startswith("-") else f"above {high:,}"
            self.error("E112", f"{what} is {shortened(node.text)}; it cannot be {bound}", node.place, path=path)
            return low
        if not isinstance(node, Scalar) or not _NUMBER.fullmatch(node.text):
            self.error("E111", f"{what} must be a whole number, not {kind_of(node)}", node.place, path=path)
            return low
        number = int(node.text)
        if number < low:
            self.error("E112", f"{what} is {number}; it cannot be below {low}", node.place, path=path)
            return low
        if number > high:
            self.error("E112", f"{what} is {number}; it cannot be above {high:,}", node.place, path=path)
            return low
        return number

    def choice(self, node: Node, path: str, what: str, choices: Sequence[str]) -> str:
        text = self.text(node, path, what)
        if text in choices:
            return text
        if isinstance(node, Scalar):
            suggestion = did_you_mean(text, choices)
            self.error(
                "E110",
                f"{what} cannot be `{text}`",
                node.place,
                path=path,
                suggestion=suggestion,
                label="" if suggestion else f"one of: {', '.join(choices)}",
                notes=[f"help: one of {', '.join(choices)}"] if suggestion else [],
            )
        return choices[0]

    def slug(self, node: Node, path: str, what: str) -> str:
        text = self.text(node, path, what)
        self.check_slug(text, node.place, path, what)
        return text

    def check_slug(self, text: str, place: Place, path: str, what: str) -> bool:
        if SLUG.fullmatch(text) and len(text) <= 60:
            return True
        self.error(
            "E113",
            f"{what} cannot be `{text[:80]}`",
            place,
            path=path,
            label="lower-case letters, digits and dashes, at most 60",
        )
        return False

    def time(self, node: Node, path: str, what: str, low: int = 0) -> int:
        """Microseconds."""
        text = self.text(node, path, what)
        if not isinstance(node, Scalar):
            return low
        found = parse_time(text)
        if found is None:
            self._bad_time(text, node.place, path, what)
            return low
        us, is_exact = found
        if not is_exact:
            self.error("E122", f"{what}: `{text}` is finer than a microsecond", node.place, path=path)
        if us > TIME_MAX_US:
            self.error("E112", f"{what}: `{text}` is longer than 30 days", node.place, path=path)
            return low
        if us < low:
            self.error("E112", f"{what} must be longer than 0", node.place, path=path)
            return low
        return us

    def _bad_time(self, text: str, place: Place, path: str, what: str) -> None:
        if re.fullmatch(r"\d{1,15}(\.\d+)?", text, re.ASCII):
            seconds = float(text)
            guesses = [f"`{text}ms`"] + ([f"`{seconds / 1000:g}s`"] if seconds >= 1000 else [f"`{text}s`"])
            self.error(
                "E121",
                f"`{text}` has no unit",
                place,
                path=path,
                label=f"did you mean {' or '.join(guesses)}?",
                suggestion=guesses[0].strip("`"),
            )
        elif _ENDLESS_TIME.fullmatch(text):
            title = f"{what}: `{shortened(text)}` is longer than 30 days"
            self.error("E112", title, place, path=path, label="write 10.5s, 250ms or 2m")
        elif text.startswith("-"):
            self.error("E112", f"{what} is {text}; a time cannot be negative", place, path=path)
        else:
            spaced = _TIME.fullmatch(text.replace(" ", "").replace("sec", "s").replace("min", "m"))
            self.error(
                "E122",
                f"{what}: `{text}` is not a time",
                place,
                path=path,
                suggestion=spaced[0] if spaced else None,
                label="" if spaced else "write 10.5s, 250ms or 2m",
            )

    def size(self, node: Node, path: str, what: str, low: int = 0, high: int = SIZE_MAX) -> int:
        """Bytes, from `100`, `100B`, `1kB`, `1.5MB`, `1MiB`."""
        text = self.text(node, path, what)
        if not isinstance(node, Scalar):
            return low
        found = _SIZE.fullmatch(text)
        if found is None and _ENDLESS_SIZE.fullmatch(text):
            title = f"{what} is {shortened(text)}; allowed are {low:,} to {high:,} bytes"
            self.error("E112", title, node.place, path=path)
            return low
        if found is None:
            self.error("E123", f"{what}: `{text}` is not a size", node.place, path=path, label="write 100B, 1kB or 1MB")
            return low
        whole, fraction, unit = found.groups()
        size = int(whole + (fraction or "")) * SIZE_UNITS[unit or "B"] // _power_of_ten(fraction)
        if not low <= size <= high:
            self.error("E112", f"{what} is {size:,} bytes; allowed are {low:,} to {high:,}", node.place, path=path)
            return low
        return size

    def bandwidth(self, node: Node, path: str, what: str) -> int:
        """Bytes per second, from `50kB/s`."""
        text = self.text(node, path, what)
        if not isinstance(node, Scalar):
            return 1
        if not text.endswith("/s"):
            self.error(
                "E123", f"{what}: `{text}` is not a bandwidth", node.place, path=path, label="write 50kB/s or 1MB/s"
            )
            return 1
        return self.size(Scalar(node.place, text[:-2]), path, what, low=1)

    def share_ppm(self, node: Node, path: str, what: str) -> int:
        """Parts per million, from `10%`."""
        text = self.text(node, path, what)
        if not isinstance(node, Scalar):
            return 0
        found = _SHARE.fullmatch(text)
        ppm = -1 if found is None else int(found[1] + (found[2] or "").ljust(4, "0"))
        if not 0 <= ppm <= 1_000_000:
            self.error(
                "E123", f"{what}: `{text}` is not a percentage", node.place, path=path, label="write 10% or 0.5%"
            )
            return 0
        return ppm

    # ------------------------------------------------------------------------------------------------- tests

    def number_test(self, node: Node, path: str, what: str, low: int = 0) -> NumberTest:
        """`11`, `{at_least: 8}`, `{at_most: 9}` or both."""
        if isinstance(node, Mapping):
            fields = self.fields(node, path, what, ("at_least", "at_most"))
            bounds = [
                fields.read(key, lambda n, p: self.integer(n, p, what, low), None) for key in ("at_least", "at_most")
            ]
            if bounds[0] is not None and bounds[1] is not None and bounds[0] > bounds[1]:
                self.error("E112", f"{what}: at_least {bounds[0]} is above at_most {bounds[1]}", node.place, path=path)
            return NumberTest(bounds[0], bounds[1])
        number = self.integer(node, path, what, low)
        return NumberTest(number, number)

    def window(self, node: Node, path: str, what: str) -> TimeTest:
        """`[45s, 46s]`"""
        items = self.items(node, path, what)
        if len(items) != 2:
            if isinstance(node, SequenceNode):
                self.error("E111", f"{what} must be two times, such as [45s, 46s]", node.place, path=path)
            return TimeTest()
        low, high = (self.time(item, item_path, what) for item, item_path in items)
        if low > high:
            self.error("E112", f"{what}: the window ends before it begins", node.place, path=path)
        return TimeTest(low, high)

    def bounds_of(
        self, fields: Fields, words: tuple[str, str, str] = ("between", "after", "before")
    ) -> TimeTest | None:
        """A TimeTest from three keys of which `between` excludes the others; None if none is given."""
        between, after, before = words
        if between in fields:
            for other in (after, before):
                if other in fields:
                    self.error(
                        "E111",
                        f"`{other}` beside `{between}` in {fields.what}",
                        fields.key_place(other),
                        label=f"`{between}` says it already",
                        path=f"{fields.path}.{other}",
                    )
            node, path = fields.get(between) or (fields.node, fields.path)
            assert node is not None
            return self.window(node, path, f"`{between}`")
        low = fields.read(after, lambda n, p: self.time(n, p, f"`{after}`"), None)
        high = fields.read(before, lambda n, p: self.time(n, p, f"`{before}`"), None)
        if low is not None and high is not None and low > high:
            self.error("E112", f"`{after}` is later than `{before}`", fields.key_place(after), path=fields.path)
        return None if low is None and high is None else TimeTest(low, high)

    # ---------------------------------------------------------------------------------------- config blocks

    def config_changes(self, node: Node, path: str, schema: type[Config]) -> dict[str, str | None]:
        """As `config`, of something that runs; the value `default` takes a key back (None)."""
        changes = self.config(node, path, schema, or_default=True)
        return {key: None if value == DEFAULT else value for key, value in changes.items()}

    def config(
        self,
        node: Node,
        path: str,
        schema: type[Config],
        *,
        or_default: bool = False,
        elsewhere: MappingType[str, str] = NOWHERE,
        example: Sequence[str] = (),
        other_names: MappingType[str, str] = NOWHERE,
        without_effect: Collection[str] = (),
    ) -> dict[str, str]:
        """Kafka keys and values as text, each checked by `schema`.

        elsewhere: keys that it lacks, and who has them     example: notes on one who has them
        other_names: what Kafka calls such a key in this block
        without_effect: keys that are noted in `self.without_effect` and left out
        """
        values: dict[str, str] = {}
        for key, key_node, value, value_path in self.entries(node, path, f"{schema.WHAT} `config`"):
            if key in without_effect:
                self.without_effect.setdefault(key, key_node.place)
                continue
            try:
                is_list = schema.require(key).metadata["is_list"]
            except ConfigError as error:
                known = [*schema.keys(), *sorted(without_effect)]
                suggestion = other_names.get(key) or did_you_mean(key, known, FIELD_SYNONYMS) or error.suggestion
                if key in elsewhere:
                    suggestion = None
                self.error(
                    "E126",
                    f"unknown {schema.WHAT} key `{key}`",
                    key_node.place,
                    path=value_path,
                    suggestion=suggestion,
                    label="" if suggestion else elsewhere.get(key, "no such key"),
                    notes=example if key in elsewhere else (),
                )
                continue
            text = self._joined(value) if is_list else value.text if isinstance(value, Scalar) else None
            if text is None:
                many = "one value, or a list of them" if is_list else "one value"
                self.error("E126", f"`{key}` must be {many}, not {kind_of(value)}", value.place, path=value_path)
                continue
            try:
                if not (or_default and text == DEFAULT):
                    schema.check(key, text)
            except ConfigError as error:
                self.error(
                    "E126", f"`{key}`: {error.message}", value.place, path=value_path, suggestion=error.suggestion
                )
                continue
            values[key] = text
        return values

    @staticmethod
    def _joined(value: Node) -> str | None:
        """A list as Kafka writes it; None if it is none."""
        items = value.items if isinstance(value, SequenceNode) else (value,)
        texts = [one.text for one in items if isinstance(one, Scalar)]
        return ", ".join(texts) if texts and len(texts) == len(items) else None


def kind_of(node: Node) -> str:
    """For messages: the user's text."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    return "nothing" if node.is_nothing else f"`{node.text[:40]}`"


def shortened(text: str) -> str:
    """For messages: a value of the file."""
    return text if len(text) <= 40 else f"{text[:37]}..."


def _as_mapping(node: SequenceNode, example: str) -> str:
    """How what stands in a list is written as a mapping: the fix of that mistake."""
    shown: list[str] = []
    for item in node.items[:2]:
        name, value = "", example
        if isinstance(item, Mapping):  # - {name: t, ...}, or - t: {...}
            given = item.get("name") or item.get("id")
            only, (_, inner) = next(iter(item.entries.items())) if len(item.entries) == 1 else ("", ("", item))
            name = given.text if isinstance(given, Scalar) else only
            value = inner.text if isinstance(inner, Scalar) and not given else "{...}"
        elif example and isinstance(item, Scalar):
            name = item.text
        if _PLAIN_NAME.fullmatch(name):
            shown.append(f"{name}: {value[:40]}")
    if not shown or len(shown) < len(node.items[:2]):
        return "one key for each, with its settings below it"
    return f"write {{{', '.join(shown)}{', ...' if len(node.items) > len(shown) else ''}}}: no list, one key for each"


def parse_time(text: str, *, hours: bool = False) -> tuple[int, bool] | None:
    """Parse `10.5s`, `250ms` or `2m`, for scenarios and for options of commands.

    Args:
        hours: accept `1h` as well; scenarios do not.

    Returns:
        Microseconds, rounded down, and whether nothing was rounded; None if `text` is no time.
    """
    found = (_LONG_TIME if hours else _TIME).fullmatch(text)
    if found is None:
        return None
    whole, fraction, unit = found.groups()
    us, rest = divmod(int(whole + (fraction or "")) * _UNITS_US[unit], _power_of_ten(fraction))
    return us, not rest


def _power_of_ten(fraction: str | None) -> int:
    return int("1" + "0" * len(fraction or ""))
