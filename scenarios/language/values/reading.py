"""Readers of typed values from the node tree.

Each method takes a node, reports its errors, and returns a usable value. A wrong value is replaced by a harmless one,
so that reading continues and all errors are found in one pass. The result is discarded if there was any error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from typing import TypeVar

from cluster.known_keys import KnownKeys, Standing
from replica.config import SIZE_UNITS, SPOKEN_BOOLEANS, Config, ConfigError
from scenarios.language.diagnostics import Diagnostic, Place, Problems, did_you_mean, other_spelling
from scenarios.language.expect import NumberTest, TimeTest
from scenarios.language.steps import DEFAULT
from scenarios.language.values.config_files import ConfigFiles, pasted_properties, unpasted
from scenarios.language.values.synonyms import FIELD_SYNONYMS, MEMBERS, NOT_PLAYED, of_others
from scenarios.language.values.yaml_source import Mapping, Node, PropertyKey, Scalar, described
from scenarios.language.values.yaml_source import Sequence as SequenceNode

T = TypeVar("T")
D = TypeVar("D")

NOWHERE: MappingType[str, str] = {}

TIME_MAX_US = 30 * 24 * 3600 * 1_000_000
NUMBER_MAX = 2**62
SIZE_MAX = 1 << 40
MISSPELT = 0.8
"""A key of a .properties file is taken as a misspelt key of Kafka if their similarity is at least this."""

TIME_PATTERN = r"([0-9]{1,15})(?:\.([0-9]{1,9}))?(us|ms|s|m)"
SIZE_PATTERN = r"([0-9]{1,12})(?:\.([0-9]{1,3}))?\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?"
SHARE_PATTERN = r"(100(?=%|\.0+%)|0?[0-9]{1,2})(?:\.([0-9]{1,4}))?%"
SLUG_PATTERN = "[a-z0-9]+(-[a-z0-9]+)*"
"""This and the three patterns above are part of the JSON Schema."""

_TIME = re.compile(TIME_PATTERN)
_LONG_TIME = re.compile(TIME_PATTERN.replace("|m)", "|m|h)"))
_UNITS_US = {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_ENDLESS_NUMBER = re.compile(r"[+-]?0*[1-9]\d{19,}", re.ASCII)
_ENDLESS_TIME = re.compile(
    r"0*[1-9]\d{15,}(\.\d+)?(us|ms|s|m)?|[1-9]\d*(\.\d+)?[eE]\+?[1-9]\d{2,}(us|ms|s|m)", re.ASCII
)
_ENDLESS_SIZE = re.compile(r"0*[1-9]\d{13,}(\.\d+)?\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?", re.ASCII)
"""This and the two patterns above match numbers with too many digits, which get an error of their own."""
_SIZE = re.compile(SIZE_PATTERN, re.ASCII)
_SHARE = re.compile(SHARE_PATTERN)
_PERCENT = re.compile("[1-9][0-9]|[2-9]|100", re.ASCII)
"""Numbers that are probably a percentage without `%`. `1` is ambiguous, because it may mean 100%."""
SLUG = re.compile(SLUG_PATTERN)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]{1,40}", re.ASCII)
_OF_IMAGES = re.compile(r"^KAFKA_(CFG_)?")
"""The prefix before a Kafka key in the environment variables of Kafka's Docker images."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping whose keys have been checked.

    Attributes:
        node: the mapping; None if the value was empty or is not a mapping.
        path: path of the mapping, as messages print it.
        what: name of the mapping in messages.
    """

    reader: Reader
    node: Mapping | None
    path: str
    what: str
    place: Place

    def get(self, key: str) -> tuple[Node, str] | None:
        """Return the value of a key and its path; None if the key is not given."""
        value = None if self.node is None else self.node.get(key)
        return None if value is None else (value, f"{self.path}.{key}" if self.path else key)

    def read(self, key: str, read: Callable[[Node, str], T], default: D) -> T | D:
        """Return the value of a key as `read` converts it, or `default` if the key is not given."""
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
    """A reader of values from YAML nodes, which reports every error.

    Attributes:
        problems: collects the errors and warnings.
        places: the position of every path that was read.
    """

    def __init__(self, problems: Problems, files: ConfigFiles | None = None) -> None:
        self.problems = problems
        self.places: dict[str, Place] = {}
        self.inert: dict[Standing, dict[str, Place]] = {"neutral": {}, "not yet": {}}
        """Kafka's keys in the file that have no effect here, with their positions, by the reason."""
        self._files = files or ConfigFiles()

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
        example: str = "",
    ) -> Fields:
        """Read a mapping that may have only the keys in `known`. An empty value counts as an empty mapping.

        Args:
            required: keys that must be present; a mapping also gives an example of each value.
            known_as: notes on the keys for the error about an unknown key, if a plain list is not enough.
            elsewhere: hints for keys that belong in another block.
            example: advice in the error for a value that is not a mapping; by default the list of keys.
        """
        if isinstance(node, Scalar) and node.is_nothing:
            return self._required(Fields(self, None, path, what, node.place), required, known)
        if not isinstance(node, Mapping):
            name = path.rpartition(".")[2]
            if name in known:  # The key is one level too high: the name above it is missing.
                example = f"indent `{name}` below the name that it belongs to"
            self.error(
                "E111",
                f"{what} must be a mapping, not {kind_of(node)}",
                node.place,
                path=path,
                label=example or f"keys: {', '.join(known)}",
            )
            return Fields(self, None, path, what, node.place)
        for key, (key_node, _) in node.entries.items():
            self.places[f"{path}.{key}" if path else key] = key_node.place
            if key not in known:
                self.unknown_key(key, key_node.place, path, what, known, known_as, elsewhere)
        return self._required(Fields(self, node, path, what, node.place), required, known)

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
        instead = NOT_PLAYED.get(key.lower().replace("-", "_"))
        if instead is not None and key not in elsewhere:
            path = f"{path}.{key}" if path else key
            self.error("E120", f"`{key}` is not yet supported in {what}", place, label=instead, path=path)
            return
        suggestion = None if key in elsewhere else other_spelling(key, known, FIELD_SYNONYMS)
        label = elsewhere.get(key, "")
        if not label and suggestion is None:
            moved = other_spelling(key, tuple(elsewhere), FIELD_SYNONYMS)
            hint = elsewhere.get(moved or "", "")
            label = hint if moved is None or moved in hint else f"did you mean `{moved}`? {hint}"
        if not label and suggestion is None:
            suggestion = did_you_mean(key, known)
        self.error(
            "E104",
            f"unknown field `{key}` in {what}",
            place,
            label=f"did you mean `{suggestion}`?" if suggestion else label or "no such field",
            suggestion=suggestion,
            notes=known_as or [f"help: fields of {what}: {', '.join(known)}"],
            path=f"{path}.{key}" if path else key,
        )

    def _required(self, fields: Fields, required: Collection[str], known: Sequence[str]) -> Fields:
        missing = [key for key in required if key not in fields]
        if missing and fields.node is not None:  # A misspelt key was reported already.
            keys = [key for key in fields.node.entries if key not in known]
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
        """Yield (key, key node, value, path) of a mapping with arbitrary keys.

        Args:
            example: the shortest possible value of a key, for messages; or advice that begins with `for example`.
        """
        if isinstance(node, Scalar) and node.is_nothing:
            return
        if not isinstance(node, Mapping):
            label = _as_mapping(node, example) if isinstance(node, SequenceNode) else ""
            label = example if example.startswith(("for example ", "write ")) else label
            self.error("E111", f"{what} must be a mapping, not {kind_of(node)}", node.place, path=path, label=label)
            return
        for key, (key_node, value) in node.entries.items():
            self.places[f"{path}.{key}"] = key_node.place
            yield key, key_node, value, f"{path}.{key}"

    def items(self, node: Node, path: str, what: str, example: str = "") -> list[tuple[Node, str]]:
        """Return the items of a list with their paths, which count from 1.

        Args:
            example: advice in the error for a value that is not a list.
        """
        if isinstance(node, SequenceNode):
            return [(item, f"{path}.{place}") for place, item in enumerate(node.items, 1)]
        if isinstance(node, Scalar) and node.is_empty:
            return []
        if not example and isinstance(node, Scalar) and not node.is_nothing:
            example = f"write [{shortened(node.text)}]"
        self.error("E111", f"{what} must be a list, not {kind_of(node)}", node.place, path=path, label=example)
        return []

    # ----------------------------------------------------------------------------------------------- scalars

    def text(self, node: Node, path: str, what: str) -> str:
        if isinstance(node, Scalar):
            return node.text
        only = node.items[0] if isinstance(node, SequenceNode) and len(node.items) == 1 else None
        label = f"write {shortened(only.text)}" if isinstance(only, Scalar) else ""
        self.error("E111", f"{what} must be text, not {kind_of(node)}", node.place, path=path, label=label)
        return ""

    def boolean(self, node: Node, path: str, what: str) -> bool:
        text = self.text(node, path, what)
        if text in ("true", "false"):
            return text == "true"
        if isinstance(node, Scalar):
            meant = SPOKEN_BOOLEANS.get(text.lower())
            label = f"write `{path.rpartition('.')[2]}: {meant}`" if meant else ""
            title = f"{what} must be true or false, not `{text}`"
            self.error("E111", title, node.place, path=path, suggestion=meant, label=label)
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
            suggestion = did_you_mean(text, choices, FIELD_SYNONYMS)
            self.error(
                "E110",
                f"{what} cannot be `{text}`",
                node.place,
                path=path,
                suggestion=suggestion,
                label="" if suggestion else f"choose one of {', '.join(choices)}",
                notes=[f"help: choose one of {', '.join(choices)}"] if suggestion else [],
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
            label="use at most 60 lower-case letters, digits and dashes",
        )
        return False

    def time(self, node: Node, path: str, what: str, low: int = 0) -> int:
        """Read a time. Return it in microseconds."""
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
            self._guessed("E121", f"`{text}` has no unit", place, path, guesses)
        elif (clock := re.fullmatch(r"(\d{1,3}):(\d\d)", text, re.ASCII)) is not None:
            number = int(clock[1]) * 60 + int(clock[2])
            self._guessed("E122", f"{what}: `{text}` is not a time", place, path, [f"`{number}s`", f"`{number}m`"])
        elif _ENDLESS_TIME.fullmatch(text):
            title = f"{what}: `{shortened(text)}` is longer than 30 days"
            self.error("E112", title, place, path=path, label="write 10.5s, 250ms or 2m")
        elif text.startswith("-"):
            self.error("E112", f"{what} is {text}; a time cannot be negative", place, path=path)
        else:
            meant = _in_units(text)
            self.error(
                "E122",
                f"{what}: `{text}` is not a time",
                place,
                path=path,
                suggestion=meant,
                label="" if meant else "write 10.5s, 250ms or 2m",
            )

    def _guessed(self, code: str, title: str, place: Place, path: str, guesses: Sequence[str]) -> None:
        label = f"did you mean {' or '.join(guesses)}?"
        self.error(code, title, place, path=path, label=label, suggestion=guesses[0].strip("`"))

    def size(self, node: Node, path: str, what: str, low: int = 0, high: int = SIZE_MAX) -> int:
        """Read a size such as `100`, `100B`, `1kB`, `1.5MB` or `1MiB`. Return it in bytes."""
        text = self.text(node, path, what)
        if not isinstance(node, Scalar):
            return low
        match = _SIZE.fullmatch(text)
        if match is None and _ENDLESS_SIZE.fullmatch(text):
            title = f"{what} is {shortened(text)}; {low:,} to {high:,} bytes are allowed"
            self.error("E112", title, node.place, path=path)
            return low
        if match is None:
            meant = _with_unit(text, r"([0-9.]+) ?([kKMG])i?[bB]?", {"k": "kB", "K": "kB", "M": "MB", "G": "GB"})
            label = "" if meant else "write 100B, 1kB or 1MB"
            title = f"{what}: `{text}` is not a size"
            self.error("E123", title, node.place, path=path, suggestion=meant, label=label)
            return low
        whole, fraction, unit = match.groups()
        size = int(whole + (fraction or "")) * SIZE_UNITS[unit or "B"] // _power_of_ten(fraction)
        if not low <= size <= high:
            self.error("E112", f"{what} is {size:,} bytes; {low:,} to {high:,} are allowed", node.place, path=path)
            return low
        return size

    def bandwidth(self, node: Node, path: str, what: str) -> int:
        """Read a bandwidth such as `50kB/s`. Return it in bytes per second."""
        text = self.text(node, path, what)
        if not isinstance(node, Scalar):
            return 1
        if not text.endswith("/s"):
            meant = f"{text}/s" if _SIZE.fullmatch(text) and not text.isdigit() else None
            title, label = f"{what}: `{text}` is not a bandwidth", "" if meant else "write 50kB/s or 1MB/s"
            self.error("E123", title, node.place, path=path, suggestion=meant, label=label)
            return 1
        return self.size(Scalar(node.place, text[:-2]), path, what, low=1)

    def share_ppm(self, node: Node, path: str, what: str) -> int:
        """Read a percentage such as `10%`. Return it in parts per million."""
        text = self.text(node, path, what)
        if not isinstance(node, Scalar):
            return 0
        match = _SHARE.fullmatch(text)
        ppm = -1 if match is None else int(match[1] + (match[2] or "").ljust(4, "0"))
        if not 0 <= ppm <= 1_000_000:
            fraction = re.fullmatch(r"0?(\.[0-9]{1,6})", text, re.ASCII)
            meant = f"{float(fraction[1]) * 100:g}%" if fraction else f"{text}%" if _PERCENT.fullmatch(text) else None
            title, label = f"{what}: `{text}` is not a percentage", "" if meant else "write 10% or 0.5%"
            self.error("E123", title, node.place, path=path, suggestion=meant, label=label)
            return 0
        return ppm

    # ------------------------------------------------------------------------------------------------- tests

    def number_test(self, node: Node, path: str, what: str, low: int = 0) -> NumberTest:
        """Read a condition on a number: `11`, `{at_least: 8}`, `{at_most: 9}` or both bounds."""
        if isinstance(node, Mapping):
            fields = self.fields(node, path, what, ("at_least", "at_most"))
            bounds = [
                fields.read(key, lambda n, p: self.integer(n, p, what, low), None) for key in ("at_least", "at_most")
            ]
            if bounds[0] is not None and bounds[1] is not None and bounds[0] > bounds[1]:
                self.error(
                    "E112", f"{what}: `at_least` {bounds[0]} is above `at_most` {bounds[1]}", node.place, path=path
                )
            return NumberTest(bounds[0], bounds[1])
        meant = bounds_meant(node.text) if isinstance(node, Scalar) else None
        if meant is not None:
            title = f"{what} must be a whole number or a mapping with bounds, not {kind_of(node)}"
            self.error("E111", title, node.place, path=path, label=f"write {meant}")
            return NumberTest(low, low)
        number = self.integer(node, path, what, low)
        return NumberTest(number, number)

    def window(self, node: Node, path: str, what: str) -> TimeTest:
        """Read a window of time such as `[45s, 46s]`."""
        items = self.items(node, path, what)
        if len(items) != 2:
            if isinstance(node, SequenceNode):
                self.error("E111", f"{what} must be a list of two times, such as [45s, 46s]", node.place, path=path)
            return TimeTest()
        low, high = (self.time(item, item_path, what) for item, item_path in items)
        if low > high:
            self.error("E112", f"{what}: the window ends before it begins", node.place, path=path)
        return TimeTest(low, high)

    def bounds_of(
        self, fields: Fields, words: tuple[str, str, str] = ("between", "after", "before")
    ) -> TimeTest | None:
        """Read bounds of time from up to three keys; None if none of them is present.

        Args:
            words: the keys for both bounds, for the lower and for the upper bound. The first excludes the other two.
        """
        between, after, before = words
        if between in fields:
            for other in (after, before):
                if other in fields:
                    self.error(
                        "E111",
                        f"`{other}` and `{between}` cannot be used together in {fields.what}",
                        fields.key_place(other),
                        label=f"drop it: `{between}` has both bounds",
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
        """Read changes to a configuration at run time. The value `default`, which resets a key, becomes None."""
        changes = self.config(unpasted(node), path, schema, or_default=True)
        return {key: None if value == DEFAULT else value for key, value in changes.items()}

    def config_node(self, fields: Fields) -> tuple[Node, str] | None:
        """Return the settings of `config_file`, overridden by `config`, and their path; None if there is neither."""
        own, named = fields.get("config"), fields.get("config_file")
        path = f"{fields.path}.config"
        above: Node | None = None if own is None else own[0]
        if isinstance(above, Scalar) and "=" in above.text:
            pasted = pasted_properties(above)
            if pasted is None:
                lines = "write `config: |`, and indent the lines of the .properties file below it"
                label = described(above.text) or lines
                self.error("E111", f"{fields.what}: `config` must be a mapping", above.place, label=label, path=path)
            above = pasted or Mapping(above.place)
        if named is None:
            return None if above is None else (above, path)
        self.places.setdefault(path, fields.key_place("config_file"))
        name, name_path = named
        entries: dict[str, tuple[Scalar, Node]] = {}
        if isinstance(name, Scalar):
            below = self._files.read(name, name_path, self.problems)
            entries = {} if below is None else below.entries
        else:
            self.text(name, name_path, "`config_file`")
        if above is not None and not above.is_nothing:
            if not isinstance(above, Mapping):
                return above, path
            entries = {**entries, **above.entries}
        return Mapping(name.place, entries), path

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
        known: KnownKeys | None = None,
    ) -> dict[str, str]:
        """Read a block of Kafka's keys. Return those whose value `schema` accepts, with the values as text.

        Args:
            or_default: whether a key may have the value `default`, which resets the key.
            elsewhere: hints for keys that belong in another kind of block.
            example: notes for the error about a key that only members of groups have.
            other_names: the correct key for each key that has another name in this block.
            known: Kafka's keys that have no effect here. They are recorded in `inert`, and left out if `schema` lacks
                them.
        """
        values: dict[str, str] = {}
        for key, key_node, value, value_path in self.entries(node, path, f"{schema.WHAT} `config`"):
            if known is not None:
                standing = known.standing_of(key, self._joined(value) or "")
                if standing != "acts":
                    self.inert[standing].setdefault(key, key_node.place)
                    if key not in schema.keys():  # noqa: SIM118  A class, not a mapping.
                        continue
            try:
                is_list = schema.require(key).metadata["is_list"]
            except ConfigError as error:
                names = [*schema.keys(), *(sorted(known.names) if known is not None else ())]
                word = _OF_IMAGES.sub("", key)
                owners = {**of_others(schema), **elsewhere}
                suggestion = other_names.get(key) or other_spelling(word, names, FIELD_SYNONYMS)
                owned = None if suggestion else other_spelling(word, tuple(owners), FIELD_SYNONYMS)
                hint = owners.get(owned or "", "no such key")
                if not suggestion and not owned and isinstance(key_node, PropertyKey):
                    suggestion = did_you_mean(word, names, alike=MISSPELT)
                    if not suggestion:
                        self.inert["neutral"].setdefault(key, key_node.place)
                        continue
                elif not suggestion and not owned:
                    suggestion = did_you_mean(word, names) or error.suggestion
                self.error(
                    "E126",
                    f"unknown {schema.WHAT} key `{key}`",
                    key_node.place,
                    path=value_path,
                    suggestion=suggestion,
                    label="" if suggestion else hint if owned in (key, None) else f"did you mean `{owned}`? {hint}",
                    notes=example if hint == MEMBERS else (),
                )
                continue
            text = self._joined(value) if is_list else value.text if isinstance(value, Scalar) else None
            if text is None:
                many = "one value, or a list of them" if is_list else "one value"
                title, joined = f"`{key}` must be {many}, not {kind_of(value)}", self._joined(value)
                label = f'write "{shortened(joined)}"' if joined else ""
                self.error("E126", title, value.place, path=value_path, label=label)
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
        """Return a list as Kafka writes it, separated by commas; None if the value is not a list of texts."""
        items = value.items if isinstance(value, SequenceNode) else (value,)
        texts = [item.text for item in items if isinstance(item, Scalar)]
        return ", ".join(texts) if texts and len(texts) == len(items) else None


def kind_of(node: Node) -> str:
    """Describe a node for messages: `a mapping`, `a list`, `nothing`, or the beginning of its text."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    return "nothing" if node.is_nothing else f"`{node.text[:40]}`"


def plain_text(node: Node) -> str | None:
    """Return the text of a node that is a plain name or number; None for anything else."""
    return node.text if isinstance(node, Scalar) and _PLAIN_NAME.fullmatch(node.text) else None


def shortened(text: str) -> str:
    """Return the text, cut to 40 characters for messages."""
    return text if len(text) <= 40 else f"{text[:37]}..."


def bounds_meant(text: str) -> str | None:
    """Return bounds such as `{at_least: 10}` for a comparison such as `>= 10`, `10+` or `< 5`; None for other texts."""
    match = re.fullmatch(r"(>=?|<=?|≥|≤)? ?([0-9]{1,9})(\+)?", text.strip())
    if match is None or not (match[1] or match[3]):
        return None
    sign, number = match[1] or ">=", int(match[2])
    is_lower = sign[0] in ">≥"
    strict = (1 if is_lower else -1) if sign in "<>" else 0
    return f"{{{'at_least' if is_lower else 'at_most'}: {max(0, number + strict)}}}"


def _as_mapping(node: SequenceNode, example: str) -> str:
    """Return advice on how to write a list as a mapping with one key for each item."""
    shown: list[str] = []
    for item in node.items[:2]:
        name, value = "", example
        if isinstance(item, Mapping):  # - {name: t, ...}, or - t: {...}
            values = item.get("name") or item.get("id")
            only, (_, inner) = next(iter(item.entries.items())) if len(item.entries) == 1 else ("", ("", item))
            name = values.text if isinstance(values, Scalar) else only
            value = inner.text if isinstance(inner, Scalar) and not values else "{...}"
        elif example and isinstance(item, Scalar):
            name = item.text
        if _PLAIN_NAME.fullmatch(name):
            shown.append(f"{name}: {value[:40]}")
    if not shown or len(shown) < len(node.items[:2]):
        return "use one key for each item, with its settings below it"
    return f"write {{{', '.join(shown)}{', ...' if len(node.items) > len(shown) else ''}}}, not a list"


def parse_time(text: str, *, hours: bool = False) -> tuple[int, bool] | None:
    """Parse a time such as `10.5s`, `250ms` or `2m`, from a scenario or from an option of a command.

    Args:
        hours: accept `1h` as well; scenarios do not.

    Returns:
        Microseconds, rounded down, and whether the value is exact; None if `text` is not a time.
    """
    found = (_LONG_TIME if hours else _TIME).fullmatch(text)
    if found is None:
        return None
    whole, fraction, unit = found.groups()
    us, rest = divmod(int(whole + (fraction or "")) * _UNITS_US[unit], _power_of_ten(fraction))
    return us, not rest


_SPOKEN_UNITS = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), ("us", 1)),
    **dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds"), ("ms", 1)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), ("s", 1)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), ("m", 1)),
    **dict.fromkeys(("h", "hr", "hour", "hours"), ("m", 60)),
    **dict.fromkeys(("d", "day", "days"), ("m", 1440)),
}


_SPOKEN_TIME = r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([a-z]+)"


def _in_units(text: str) -> str | None:
    """Convert a time such as `1 hour`, `1m30` or `00:01:30` to the language's units; None if the text is not a time."""
    spoken = text.lower().removeprefix("pt")
    if (clock := re.fullmatch(r"([0-9]{1,3}):([0-9]{2}):([0-9]{2}(?:\.[0-9]{1,3})?)", spoken, re.ASCII)) is not None:
        spoken = f"{clock[1]}h{clock[2]}m{clock[3]}s"
    spoken = f"{spoken}s" if re.search("m(in)? ?[0-9]{1,2}$", spoken) else spoken
    if len(spoken) > 40 or not re.fullmatch(f"(?:{_SPOKEN_TIME} ?)+", spoken, re.ASCII):
        return None
    parts = [(float(number), *_SPOKEN_UNITS.get(unit, ("", 0))) for number, unit in re.findall(_SPOKEN_TIME, spoken)]
    if not all(unit for _, unit, _ in parts):
        return None
    (number, unit, factor), *more = parts
    us = sum(number * factor * _UNITS_US[unit] for number, unit, factor in parts)
    return f"{us / 1_000_000:.12g}s" if more else f"{number * factor:.12g}{unit}"


def _with_unit(text: str, pattern: str, units: MappingType[str, str]) -> str | None:
    match = re.fullmatch(pattern, text, re.ASCII)
    return f"{match[1]}{units[match[2]]}" if match else None


def _power_of_ten(fraction: str | None) -> int:
    return int("1" + "0" * len(fraction or ""))
