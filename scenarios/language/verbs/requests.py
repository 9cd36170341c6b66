"""The verb of requests: a broker answers the next requests with an error, answers late, or closes the connection."""

from __future__ import annotations

import re
from typing import Any, Literal

from cluster.protocol.answer_errors import ERRORS
from cluster.protocol.versions import FORWARDED, api_key, api_name
from cluster.request_faults import Closing
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.wording import listed
from scenarios.language.diagnostics import Diagnostic, did_you_mean
from scenarios.language.selectors import Selector, Term
from scenarios.language.values.reading import Fields
from scenarios.language.values.scope import Scope
from scenarios.language.values.trees import time_text
from scenarios.language.values.yaml_source import Scalar
from scenarios.language.verbs.command_words import PARTITION_WORD, ShorthandWords, split
from scenarios.language.verbs.declaration import LASTING, Given, Kind, Verb, key, verb
from scenarios.language.verbs.kinds import BROKERS, PARTITION, choice, integer, time

FAILABLE_APIS = tuple(api_name(key) for key in ERRORS)
ERROR_NAMES = tuple(code.name for code in ErrorCode if code is not ErrorCode.NONE)
REQUESTS_MAX = 10_000
ALL = "all"
EVERY_BROKER = Selector((Term("brokers"),))
_ERROR_WORD = re.compile(r"[A-Z][A-Z_]+(,[A-Z][A-Z_]+)*", re.ASCII)
_MS_US = 1_000


def _items(value: Given) -> list[tuple[Any, str]]:
    if isinstance(value.node, Scalar):
        return [(value.node, value.path)]
    if value.node.is_nothing:
        value.reader.error("E105", f"{value.what} names nothing", value.node.place, path=value.path)
        return []
    return value.reader.items(value.node, value.path, value.what)


def _read_errors(value: Given) -> tuple[str, ...]:
    names = []
    for node, path in _items(value):
        name = value.reader.text(node, path, value.what)
        if name in ERROR_NAMES:
            names.append(name)
        elif isinstance(node, Scalar):
            title = f"Kafka has no error `{name}`"
            label = "use an error of Kafka's protocol, such as NOT_LEADER_OR_FOLLOWER"
            meant = did_you_mean(name, ERROR_NAMES)
            value.reader.error(
                "E110", title, node.place, path=path, suggestion=meant, label="" if meant is not None else label
            )
    return tuple(names)


_ONE_ERROR = {"enum": list(ERROR_NAMES)}
ERROR_LIST: Kind[tuple[str, ...]] = Kind(
    read=_read_errors,
    write=list,
    schema={"oneOf": [_ONE_ERROR, {"type": "array", "minItems": 1, "items": _ONE_ERROR}]},
    blank=(),
    example="[NOT_LEADER_OR_FOLLOWER]",
    asked="errors",
)
PARTITIONS: Kind[tuple[TopicPartition, ...]] = Kind(
    read=lambda value: tuple(value.scope.partition(node, path, value.what) for node, path in _items(value)),
    write=lambda partitions: list(map(str, partitions)),
    schema={"oneOf": [PARTITION.schema, {"type": "array", "minItems": 1, "items": PARTITION.schema}]},
    blank=(),
    example="[t-0]",
    asked="partitions",
)
_COUNT = integer(1, REQUESTS_MAX, example="3")
TIMES: Kind[int | None] = Kind(
    read=lambda value: None if value.says(ALL) else _COUNT.read(value),
    write=lambda value: ALL if value is None else value,
    schema={"oneOf": [_COUNT.schema, {"const": ALL}]},
    blank=1,
    example="3",
    asked="a number of times, or `all`",
)


@verb(
    "fail",
    example="{api: Produce, errors: [NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT]}",
    more={
        "{api: Produce, broker: b1, errors: NOT_LEADER_OR_FOLLOWER, times: 3, when: after, partitions: [t-0]}": (
            "Fail three requests at one broker `after` they were carried out, and only for these partitions."
        ),
        "{api: OffsetCommit, errors: COORDINATOR_NOT_AVAILABLE, times: all}": (
            "Fail all requests from now on, until `for` is over."
        ),
        "{api: Fetch, delay: 2s, times: all}": "Delay the answers, with or without an error.",
        "{api: Produce, throttle: 500ms}": (
            "Put this throttle time into the answer and mute the connection for as long (KIP-219), whatever the quotas."
        ),
        "{api: Produce, close: instead}": (
            "Carry the request out and close the connection `instead` of answering, or `after` the answer."
        ),
    },
    usage="fail Produce NOT_LEADER_OR_FOLLOWER 3 after",
    effect=LASTING,
    any_of=("errors", "delay", "throttle", "close"),
)
class Fail(Verb):
    """Answer the next requests of clients to an API with errors, one for each. With `when: before`, the default,
    the requests are not carried out.
    """

    api: str = key(choice(*FAILABLE_APIS))
    errors: tuple[str, ...] = key(ERROR_LIST, default=())
    broker: Selector = key(BROKERS, default=EVERY_BROKER)
    partitions: tuple[TopicPartition, ...] = key(PARTITIONS, default=())
    times: int | None = key(TIMES, default=1)
    when: Literal["before", "after"] = key(choice("before", "after"), default="before")
    delay_us: int = key(time(example="200ms"), "delay", default=0)
    throttle_us: int = key(time(_MS_US, example="500ms"), "throttle", default=0)
    close: Closing | None = key(choice("after", "instead"), default=None)

    @property
    def is_applied(self) -> bool:
        """Return True if the broker carries out the affected requests."""
        return not self.errors or self.when == "after"

    @property
    def requests(self) -> int | None:
        """Return the number of requests that the step affects; None for all."""
        return None if self.times is None else self.times * max(1, len(self.errors))

    def effect(self, where: str) -> str:
        """Return a description of the affected requests and of what happens to them.

        Args:
            where: the brokers, as text.
        """
        count = self.requests
        which = "every" if count is None else "the next" if count == 1 else f"the next {count}"
        is_one = count in (None, 1)
        requests = f"{which} {self.api} request{'' if is_one else 's'} at {where}"
        parts = []
        if self.errors:
            they, are = ("it", "is") if is_one else ("they", "are")
            how = f"after {they} {are} carried out" if self.is_applied else f"and {are} not carried out"
            of = f" for {listed(list(map(str, self.partitions)))}" if self.partitions else ""
            parts.append(f"{'gets' if is_one else 'get'} {listed(list(dict.fromkeys(self.errors)))}{of} {how}")
        if self.delay_us:
            parts.append(f"{'is' if is_one else 'are'} answered {time_text(self.delay_us)} late")
        if self.throttle_us:
            parts.append(
                f"{'throttles its client' if is_one else 'throttle their clients'} for {time_text(self.throttle_us)}"
            )
        if self.close is not None:
            when = "after" if self.close == "after" else "instead of"
            parts.append(f"{'ends its connection' if is_one else 'end their connections'} {when} the answer")
        return f"{requests} {', '.join(parts)}"

    def sentence(self) -> str:
        return f"fail: {self.effect(str(self.broker))}"

    def judge(self, scope: Scope, fields: Fields) -> None:
        known = ERRORS[api_key(self.api)]

        def refuse(name: str, title: str, label: str) -> None:
            scope.reader.error("E135", title, fields.key_place(name), path=f"{fields.path}.{name}", label=label)

        if self.partitions and not known.by_partition:
            refuse("partitions", f"{self.api} has one error for the whole request", "drop `partitions`")
        if "when" in fields and "errors" not in fields:
            refuse("when", "`when` has no meaning without `errors`", "add `errors`, or drop `when`")
        if self.when == "after" and api_key(self.api) in FORWARDED:
            refuse("when", f"{self.api} is carried out by the controller", "use `when: before`")
        if self.close == "instead" and self.errors:
            refuse("close", "with `close: instead`, the client gets no error", "drop `errors` or `close`")
        for name in dict.fromkeys(self.errors):
            if ErrorCode[name] not in known.codes:
                title = f"Kafka's brokers do not answer {self.api} with {name}"
                place, path = fields.key_place("errors"), f"{fields.path}.errors"
                scope.reader.problems.add(Diagnostic(code="W214", title=title, place=place, path=path))

    @classmethod
    def of_words(cls, words: ShorthandWords) -> object:
        tree: dict[str, object] = {"api": words.take("an API, such as Produce")}
        optional = {
            "errors": words.take_if(_ERROR_WORD.fullmatch),
            "times": words.take_if(lambda word: word.isdigit() or word == ALL),
            "when": words.take_if(("before", "after").__contains__),
        }
        tree |= {name: word for name, word in optional.items() if word is not None}
        if "errors" in tree:
            tree["errors"] = split(str(tree["errors"]))
        if (broker := words.take_if(words.are_nodes)) is not None:
            tree["broker"] = split(broker)
        if (partitions := words.take_if(lambda word: all(map(PARTITION_WORD.fullmatch, split(word))))) is not None:
            tree["partitions"] = split(partitions)
        return tree
