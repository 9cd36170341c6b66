"""The errors and warnings of a scenario, each with a code, a position, the source line and a suggestion.

All problems of a file are reported together, errors before warnings, each sorted by line. A problem with a code `E...`
is an error, which keeps the scenario from running; `W...` is a warning. EXPLANATIONS describes each code.
"""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

SHOWN_AT_MOST = 100
KEPT_AT_MOST = 500
"""Number of problems after which reading stops, because a file with more is probably not a scenario."""
_LINE_WIDTH = 80
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # the line breaks of YAML


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text and the name that messages print for it: the path as the user gave it, or `--set path`."""

    name: str
    lines: tuple[str, ...]

    @classmethod
    def of(cls, name: str, text: str) -> SourceText:
        return cls(name, tuple(_LINE_BREAK.split(text)))


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a source text. Line and column count from 0.

    Attributes:
        length: number of characters to underline, at least 1.
    """

    source: SourceText
    line: int
    column: int
    length: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One error or warning.

    Attributes:
        label: text printed beside the caret.
        path: path of the value in the scenario, such as `workloads.p1.config.acks`.
        notes: further lines, each with its own heading.
        file: name of the file, for a diagnostic without a place.
        variants: variants that have the problem, with `base` for the file itself; empty if it concerns the whole file.
        follows: whether the problem is a consequence of another error; it is not shown then.
    """

    code: str
    title: str
    place: Place | None
    label: str = ""
    suggestion: str | None = None
    path: str | None = None
    notes: tuple[str, ...] = ()
    file: str = ""
    variants: tuple[str, ...] = ()
    follows: bool = False

    @property
    def severity(self) -> Literal["error", "warning"]:
        return "error" if self.code.startswith("E") else "warning"

    @property
    def only_in(self) -> str:
        """Return the variants that have the problem, such as `variant short`; empty if the file itself has it too."""
        if not self.variants or "base" in self.variants:
            return ""
        return f"variant{'' if len(self.variants) == 1 else 's'} {', '.join(self.variants)}"

    @property
    def where(self) -> str:
        if self.place is None:
            return self.file
        return f"{self.place.source.name}:{self.place.line + 1}:{self.place.column + 1}"


@dataclass(slots=True)
class Problems:
    """A collector of diagnostics.

    Variants contain most of their file, so a problem at one position is kept once, with the names of its variants.

    Attributes:
        found: the diagnostics so far, in the order in which they were added.
        variant: the variant that is being read, `base` for the file itself.
    """

    found: list[Diagnostic] = field(default_factory=list)
    variant: str | None = None
    _seen: dict[tuple[object, ...], int] = field(default_factory=dict)

    def add(self, diagnostic: Diagnostic) -> None:
        place = diagnostic.place
        spot = (diagnostic.file,) if place is None else (place.source.name, place.line, place.column)
        key = (diagnostic.code, *spot, diagnostic.title if diagnostic.severity == "error" else "")
        if key not in self._seen:
            self._seen[key] = len(self.found)
            self.found.append(diagnostic)
        if self.variant is not None:
            index = self._seen[key]
            known = self.found[index]
            self.found[index] = replace(known, variants=tuple(dict.fromkeys((*known.variants, self.variant))))
        if len(self.found) > KEPT_AT_MOST:
            raise TooManyProblems

    def take_back(self, count: int) -> None:
        """Forget all diagnostics but the first `count`."""
        del self.found[count:]
        self._seen = {key: index for key, index in self._seen.items() if index < count}

    @property
    def any_error(self) -> bool:
        return any(diagnostic.severity == "error" for diagnostic in self.found)

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Return the diagnostics that do not follow from another one: errors before warnings, each by position.

        Those without a position come first.
        """

        def key(diagnostic: Diagnostic) -> tuple[bool, str, int, int]:
            place = diagnostic.place
            spot = (diagnostic.file, -1, -1) if place is None else (place.source.name, place.line, place.column)
            return (diagnostic.severity != "error", *spot)

        return tuple(sorted((item for item in self.found if not item.follows), key=key))


class TooManyProblems(Exception):
    """Raised to stop reading after KEPT_AT_MOST problems; the problems found so far are reported."""


class ScenarioInvalid(Exception):
    """Raised if a scenario has errors and cannot run. It carries every diagnostic, warnings included."""

    def __init__(self, file: str, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(count_line(file, diagnostics, "Nothing was run."))
        self.file = file
        self.diagnostics = tuple(diagnostics)


# ------------------------------------------------------------------------------------------------------ suggestions


def did_you_mean(
    word: str, candidates: Iterable[str], synonyms: Mapping[str, str] | None = None, alike: float = 0.7
) -> str | None:
    """Return the candidate that the user probably meant, or None.

    Curated synonyms are tried before spelling, because edit distance alone often picks the wrong word.

    Args:
        alike: similarity to `word` that a candidate must have, from 0 to 1.
    """
    known = tuple(candidates)
    return other_spelling(word, known, synonyms or {}) or _closest(word, known, alike)


def other_spelling(word: str, known: Sequence[str], synonyms: Mapping[str, str]) -> str | None:
    """Return the candidate for which the word is a synonym, or another spelling such as `groupId` for `group.id`."""
    meant = synonyms.get(re.sub("[-_ ]", ".", word.lower()), "").split()
    folded = {_fold(candidate): candidate for candidate in reversed(known)}
    return next((item for item in meant if item in known), None) or folded.get(_fold(word))


@lru_cache(maxsize=2000)  # Variants repeat the mistakes of the file.
def _closest(word: str, known: tuple[str, ...], alike: float) -> str | None:
    close = difflib.get_close_matches(word[:100], known, n=1, cutoff=alike)
    # Swapped letters in a short word can fall below the cutoff, so a word with the same letters counts, too.
    return close[0] if close else next((item for item in known if sorted(item) == sorted(word)), None)


def _fold(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "").replace(".", "").replace(" ", "")


# -------------------------------------------------------------------------------------------------------- rendering


def printable(text: str) -> str:
    """Return `text` for a terminal: each tab becomes a space, every other control character a visible mark."""
    return "".join(character if character.isprintable() else (" " if character == "\t" else "�") for character in text)


def render(diagnostic: Diagnostic, shown: Container[str] = ()) -> str:
    """Return a diagnostic as text for a screen, without a trailing newline.

    Args:
        shown: notes that were already printed and are left out.
    """
    lines = _wrapped(f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.title}", "", "    ")
    place = diagnostic.place
    width = len(str(place.line + 1)) if place is not None else 0
    lines.append(f"{' ' * width}--> {printable(diagnostic.where)}")
    if place is not None:
        lines.extend(_snippet(place, width, printable(diagnostic.label)))
    notes = list(diagnostic.notes)
    if diagnostic.path:
        notes.append(f"path: {diagnostic.path}")
    if diagnostic.only_in:
        notes.append(f"only in {diagnostic.only_in}")
    notes.append(_more(diagnostic))
    for note in notes:
        if note in shown:
            continue
        lines += _wrapped(note, f"{' ' * width} = ", f"{' ' * width}   ")
    return "\n".join(lines)


def _more(diagnostic: Diagnostic) -> str:
    return f"more: highwater explain {diagnostic.code}"


def render_briefly(diagnostic: Diagnostic) -> str:
    """Return the title and the place of a diagnostic, to be printed before other output."""
    title = _wrapped(f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.title}", "", "    ")
    where = [printable(diagnostic.where), *([diagnostic.only_in] if diagnostic.only_in else [])]
    return "\n".join([*title, f"  --> {', '.join(where)}"])


def _wrapped(text: str, first: str, then: str) -> list[str]:
    """Wrap text to the width of the screen. A word longer than a line stays whole, because it may be a path.

    Args:
        first: prefix of the first line.
        then: prefix of the other lines.
    """
    return textwrap.wrap(
        printable(text),
        _LINE_WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [first]


def _snippet(place: Place, width: int, label: str) -> list[str]:
    text = place.source.lines
    if place.line >= len(text):
        return []
    room = _LINE_WIDTH - width - 3
    line = text[place.line]
    length = max(1, min(place.length, len(line) - place.column, room // 2))
    # A line of a hostile file can be a megabyte long, so only the part around the caret is shown.
    shift = 0 if place.column + length <= room - 3 else place.column - room // 3
    margin = f"{' ' * width} | "
    out = [margin.rstrip()]
    if place.line > 0 and text[place.line - 1].strip():
        out.append(f"{place.line:>{width}} | {_cropped(text[place.line - 1], shift, room)}".rstrip())
    out.append(f"{place.line + 1:>{width}} | {_cropped(line, shift, room)}")
    start = place.column - shift
    carets = " " * start + "^" * length
    if start + length + 1 + len(label) <= room:
        out.append(f"{margin}{carets} {label}".rstrip())
    else:
        indent = " " * max(0, min(start, room - len(label)))
        out += [margin + carets, *_wrapped(label, margin + indent, margin + indent)]
    out.append(margin.rstrip())
    return out


def _cropped(line: str, shift: int, room: int) -> str:
    """Return `room` characters of a line from index `shift`, with dots where the line continues."""
    part = printable(line[shift : shift + room])
    if shift > 0:
        part = "..." + part[3:]
    return f"{part[:-3]}..." if len(line) > shift + room else part


def count_line(file: str, diagnostics: Sequence[Diagnostic], ending: str = "") -> str:
    """Return a summary such as `Found 3 errors and 1 warning in x.yaml. Nothing was run.`

    It names `--set path=value` instead of the file if all diagnostics are about that option.
    """
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    warnings = len(diagnostics) - errors
    parts = [
        f"{number} {word}{'' if number == 1 else 's'}"
        for number, word in ((errors, "error"), (warnings, "warning"))
        if number
    ]
    sources = {diagnostic.place.source.name if diagnostic.place else file for diagnostic in diagnostics}
    where = sources.pop() if len(sources) == 1 else file
    return f"Found {' and '.join(parts) if parts else 'no problem'} in {printable(where)}. {ending}".rstrip()


def format_text(file: str, diagnostics: Sequence[Diagnostic], ending: str = "Nothing was run.") -> str:
    """Return up to SHOWN_AT_MOST diagnostics as text for a screen, then a summary that ends with `ending`.

    A note shared by several diagnostics is printed once.
    """
    screens: list[str] = []
    helped: set[str] = set()
    for diagnostic in diagnostics[:SHOWN_AT_MOST]:
        screens.append(render(diagnostic, helped))
        helped.update((*diagnostic.notes, _more(diagnostic)))
    if len(diagnostics) > SHOWN_AT_MOST:
        screens.append(f"... and {len(diagnostics) - SHOWN_AT_MOST} more")
    return "\n\n".join([*screens, count_line(file, diagnostics, ending)])


def as_dict(diagnostic: Diagnostic) -> dict[str, object]:
    """Return a diagnostic as a dictionary for JSON. Line and column count from 1."""
    place = diagnostic.place
    return {
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "message": diagnostic.title,
        "label": diagnostic.label,
        "file": diagnostic.file if place is None else place.source.name,
        "line": None if place is None else place.line + 1,
        "column": None if place is None else place.column + 1,
        "length": None if place is None else place.length,
        "path": diagnostic.path,
        "variants": list(diagnostic.variants),
        "suggestion": diagnostic.suggestion,
        "notes": list(diagnostic.notes),
    }


def format_json(files: Sequence[tuple[str, Sequence[Diagnostic]]]) -> str:
    """Return one JSON document with the diagnostics of each checked file.

    Args:
        files: name and diagnostics of each file.
    """
    every = [diagnostic for _, diagnostics in files for diagnostic in diagnostics]
    errors = sum(diagnostic.severity == "error" for diagnostic in every)
    document = {
        "files": [
            {
                "file": file,
                "valid": all(d.severity != "error" for d in diagnostics),
                "diagnostics": [as_dict(d) for d in diagnostics],
            }
            for file, diagnostics in files
        ],
        "errors": errors,
        "warnings": len(every) - errors,
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def format_github(diagnostics: Sequence[Diagnostic]) -> str:
    """Return workflow commands that GitHub shows as annotations."""
    return "\n".join(_github_line(diagnostic) for diagnostic in diagnostics)


def _github_line(diagnostic: Diagnostic) -> str:
    def escaped(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def in_property(text: str) -> str:
        return escaped(text).replace(":", "%3A").replace(",", "%2C")

    place = diagnostic.place
    fields = [f"file={in_property(diagnostic.file if place is None else place.source.name)}"]
    if place is not None:
        fields += [f"line={place.line + 1}", f"col={place.column + 1}"]
    fields.append(f"title={diagnostic.code}")
    message = diagnostic.title + (f" ({diagnostic.label})" if diagnostic.label else "")
    return f"::{diagnostic.severity} {','.join(fields)}::{escaped(message)}"


# ---------------------------------------------------------------------------------------------------------------- codes
#
# The explanation of each diagnostic code, as `highwater explain E104` prints it. Codes are stable.

EXPLANATIONS: dict[str, str] = {
    "E101": "The file cannot be read. It is missing, not a plain file, not readable, or\n"
    "not UTF-8 text. A `config_file` must lie in the folder of the scenario or below\n"
    "it, and must not be a symbolic link to a file elsewhere.",
    "E102": "The file is too large, too deeply nested, or has too many nodes. The\n"
    "limits for a scenario are 1 MiB, 40 levels and 50,000 nodes, because scenarios\n"
    "may come from strangers. Split the file, or use `every` and `times`.",
    "E103": "The text is not valid YAML. Usual causes are a missing quote, wrong\n"
    "indentation, a bracket that is not closed, or a colon inside plain text. Quote a\n"
    'text with a colon, as in title: "a: b".',
    "E104": "The language has no such key at this position. Unknown keys are never\n"
    "ignored, because a typo could then change the run without notice.",
    "E105": "A required key or value is missing. Add it.",
    "E106": "The line has a tab character where YAML requires spaces. Set your editor\nto insert spaces.",
    "E107": "A mapping has the same key twice. Many YAML parsers silently keep only the\n"
    "last value, so Highwater refuses such a file. Remove one of the two keys.",
    "E108": "Anchors (&x), aliases (*x) and merge keys (<<) are not allowed. A few\n"
    "lines of them can stand for gigabytes, and a scenario should read from top to\n"
    "bottom. Repeat the text, or use `variants`.",
    "E109": "YAML tags such as !!python/object and !x are not allowed, because a\n"
    "scenario is plain data. Remove the tag.",
    "E110": "The value is not one of the words that are allowed here.",
    "E111": "The value has the wrong shape, or two keys exclude each other. Shapes are\n"
    "a mapping {key: value}, a list [a, b], a text, a whole number, and true or\n"
    "false. `timeline` and `variants` are lists of mappings. `brokers`, `topics` and\n"
    "`workloads` are mappings with one key for each item. Only `true` and `false` are\n"
    "booleans; yes, no, on and off are not.",
    "E112": "A number or time is out of range, or two of them contradict each other,\n"
    "such as a window that ends before it begins. Counts, offsets, sizes and times\n"
    "are never negative, and all have an upper limit.",
    "E113": "The name is not allowed. A topic's name becomes a directory, so it follows\n"
    "Kafka's rule: 1 to 249 of the characters a-z A-Z 0-9 . _ - but not `.` or `..`.\n"
    "Names of nodes, scenarios and labels have only lower-case letters, digits and\n"
    "dashes.",
    "E120": "Kafka has this, but Highwater does not support it yet. It is a verb, a\n"
    "kind of client or a block that the language lacks, or an operation that is not\n"
    "possible with the `profile` of this file.",
    "E121": "The time has no unit. Write the unit, so that nothing is left to guess:\n1500ms, 1.5s, 2m or 250us.",
    "E122": "The value is not a time. Write a number and one of the units us, ms, s and\n"
    "m, such as 10.5s. A form such as 1:30 is not a time here.",
    "E123": "The value is not a rate, size, bandwidth or percentage. Write a rate as\n"
    "10/s or 100/m, a size as 100B, 1kB or 1MB, a bandwidth as 50kB/s, and a\n"
    "percentage as 10%.",
    "E124": 'The value is not a set of records. Write r0..r9, "r0..r9, r15", none,\n'
    "{at_least: r3..r5}, {at_most: r0..r9} or {count: 5}.",
    "E125": "The value is not a selector of nodes, or it selects no node that the step\n"
    "can use. Write a name, a list of names, leader(t-0), followers(t-0),\n"
    "follower(t-0,1), isr(t-0), replicas(t-0), controller, brokers, clients, rack(A),\n"
    'others(b1), coordinator(GROUP), or "@name" after a step with `as: name`.',
    "E126": "Kafka does not accept this key or value in this `config` block. Keys and\n"
    "units are Kafka's own, and numbers have no suffix: replica.lag.time.max.ms:\n"
    "30000. The word `never` stands for the largest number.",
    "E127": "Two rules exclude each other. A file without `profile` has the rules of\n"
    "the newest era. An older `profile` undoes every rule that came after it.",
    "E130": "The step can do nothing at its time. It starts a node that is not down,\n"
    "wipes or tears a log of a running broker, creates a topic that exists, or\n"
    "deletes a topic that does not exist. Steps are ordered by time, not by their\n"
    "position in the file.",
    "E131": "No node, client, topic, rack, labelled step, event or feature of Kafka has\n"
    "this name. A plain name is a node; write rack(A) for the brokers of rack A, and\n"
    "leader(t-0) for the leader of a partition.",
    "E132": "The topic has no partition with this number.",
    "E133": "`@name` stands for the nodes that an earlier step with `as: name` has\n"
    "chosen. There is no such step, or its time is later.",
    "E134": "A name is used twice where it must be unique. All nodes and clients of a\n"
    "scenario need different names, as do the labels of steps and the ids of\n"
    "variants. A broker can be listed only once in a partition, and a node only on\n"
    "one side of a link or in one island.",
    "E135": "Every step has exactly one trigger (`at` or `when`) and exactly one verb.\n"
    "`timeout` needs `when`, `every` and `times` need each other, and `for` needs a\n"
    "verb that can be undone. Some keys of a verb exclude each other, or need another\n"
    "key.",
    "E136": "The `patch` of a variant has the wrong shape, or a key that cannot be\npatched.",
    "E137": "The path of `--set` or `--vary` does not exist in the scenario. Write the\n"
    "path as error messages print it, such as workloads.p1.config.acks or\n"
    "timeline.3.at (steps count from 1).",
    "E140": "The scenario exceeds a limit, such as 10,000,000 records, 31 brokers,\n"
    "1,000 partitions, 2,000 steps, 10,000 firings of these steps, or 8 questions.",
    "W201": "acks=all waits for all in-sync replicas, however few there are. With\n"
    "min.insync.replicas=1, that can be the leader alone. With three replicas, set\n"
    "min.insync.replicas to 2.",
    "W202": "If min.insync.replicas equals the replication factor, one slow or stopped\n"
    "broker makes the leader refuse every acks=all write. Since Kafka 3.7, a larger\n"
    "value counts as the replication factor; before, it makes the leader refuse all\n"
    "such writes.",
    "W203": "This is planned for a time after the end of the run (`duration`), so it\n"
    "never happens. Choose an earlier time, or a longer `duration`.",
    "W204": "Without `expect`, the run can neither pass nor fail. It only reports what\nhappened.",
    "W205": "The step has no effect, or the key has none in the era of the run. For\n"
    "example, a dead leader stays leader(t-0) until its session ends, so a second\n"
    "kill of leader(t-0) hits the same broker.",
    "W206": "The run ends before a follower can be dropped from the ISR. The check runs\n"
    "every half of replica.lag.time.max.ms, so the ISR shrinks 1 to 1.5 times\n"
    "replica.lag.time.max.ms after a link is cut.",
    "W207": "The expectation names a record that no producer sends. Correct the name,\nor add a `produce` step.",
    "W208": "A group or a transaction needs a coordinator, whose topic has three\n"
    "replicas by default. With fewer brokers, set offsets.topic.replication.factor or\n"
    "transaction.state.log.replication.factor in cluster.config.",
    "W209": "The topic has been deleted by then. The producer looks for it until\n"
    "delivery.timeout.ms or max.block.ms is over, and then the records fail. Move the\n"
    "step, or create the topic again with `create_topic`.",
    "W210": "A transactional.id belongs to one producer at a time. A later producer\n"
    "with the same id fences the earlier one, which can then only be closed. Give\n"
    "each producer its own id, or give one of them a later `start` if the lesson is\n"
    "about a zombie.",
    "W211": "Highwater ignores these keys of Kafka, because no record, replica or\n"
    "client here would notice their values. They concern sockets, threads, listeners,\n"
    "paths, ids, ZooKeeper, security and tiered storage, so a server.properties can\n"
    "be pasted or named by `config_file` as it is. Keys of such a file that Kafka\n"
    "does not have are ignored as well, as Kafka does.",
    "W212": "Highwater ignores these keys of Kafka, but a real cluster would act\n"
    "differently with these values. Do not draw conclusions from the run about what\n"
    "these keys decide.",
    "W213": "`restart` kills a broker (kill -9) and starts it again. Clients wait until\n"
    "the controller notices the crash, and no step waits until the broker has caught\n"
    "up. `rolling_restart: [b1, b2, b3]` stops and starts one broker after another,\n"
    "and waits until the ISR is complete. If you want the crashes, ignore this\n"
    "warning.",
    "W214": "Kafka's brokers never return this error for this API, so clients need not\n"
    "be able to handle it. The step is performed nevertheless.",
}

MISTAKES = ("W202", "W203", "W205", "W207", "W208", "W209", "W210", "W211", "W212", "W213", "W214")
"""Codes of the warnings that are printed before a run: the file probably does not do what its author wanted.

The other warnings are left out, because the run itself shows their effects.
"""
