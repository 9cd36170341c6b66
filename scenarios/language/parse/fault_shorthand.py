"""Words of a command line as a step of the language: `cut b1-b3 3s` is `{cut: {between: [b1, b3]}, for: 3s}`.

Nothing is judged here but the shape; what is wrong with a name or a number the language says, about the step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from replica.ids import OUTSIDE
from scenarios.language.diagnostics import did_you_mean
from scenarios.language.selectors import WORDS
from scenarios.language.steps import VERBS
from scenarios.language.values.synonyms import FIELD_SYNONYMS

Step = dict[str, Any]
_TIME = re.compile(r"\d+(\.\d+)?(us|ms|s|m)", re.ASCII)
_RATE = re.compile(r"\d.*/s|none", re.ASCII)
_PARTITION = re.compile(r"[a-zA-Z0-9._-]+-\d+", re.ASCII)
_CALL = re.compile(r"[a-z]+\([^()]*\)")
_SETTING = re.compile(r"([a-z][a-z0-9._]*)=(.*)", re.ASCII)


class ShorthandError(ValueError):
    """The words are no step; `fix` is a command that would be one."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(slots=True)
class ShorthandWords:
    """What stands after a verb, taken word by word. nodes: names of the running cluster"""

    verb: str
    left: list[str]
    nodes: Collection[str]

    def wrong(self, message: str) -> ShorthandError:
        return ShorthandError(message, f"for example: highwater fault {EXAMPLES[self.verb]}")

    def take(self, what: str) -> str:
        if not self.left:
            raise self.wrong(f"`{self.verb}` needs {what}")
        return self.left.pop(0)

    def take_if(self, fits: Callable[[str], object]) -> str | None:
        """The first word that fits, wherever it stands."""
        for place, word in enumerate(self.left):
            if fits(word):
                return self.left.pop(place)
        return None

    def take_all(self, what: str) -> list[str]:
        words, self.left = self.left, []
        if not words:
            raise self.wrong(f"`{self.verb}` needs {what}")
        return words

    def sides(self) -> tuple[str, str]:
        """`b1-b3`, `b1 b3`, `leader(t-0)-b3`, `b1,b2-b3`."""
        first = self.take("two sides, such as b1-b3")
        splits = [(first[:at], first[at + 1 :]) for at in _dashes(first) if first[:at] and first[at + 1 :]]
        is_unknown_client = first.startswith(OUTSIDE) and any(map(self.are_nodes, self.left))
        if not splits or self.are_nodes(first) or is_unknown_client:
            return first, self.take("two sides, such as b1-b3")
        known = [both for both in splits if all(self.are_nodes(side) for side in both)]
        # The name of a client has dashes as often as not; if it is unknown, the other side says where it ends.
        known = known or [both for both in splits if all(self.is_end(side) for side in both)]
        if len(splits) > 1 and len(known) != 1:
            raise self.wrong(f"`{first}` can be divided in more than one way: write the two sides as two words")
        return (known or splits)[0]

    def is_end(self, side: str) -> bool:
        """Nodes, or what may be a client from outside."""
        return side.startswith(OUTSIDE) or self.are_nodes(side)

    def are_nodes(self, side: str) -> bool:
        """Names of nodes or selectors, separated by commas."""
        return all(part in self.nodes or part in WORDS or _CALL.fullmatch(part) for part in _split(side))


def step_of(words: Sequence[str], nodes: Collection[str], lasts: str | None, label: str | None) -> Step:
    """The step that the words stand for.

    words: a verb and what it needs     nodes: names of the cluster     lasts, label: `for` and `as`
    raises: ShorthandError
    """
    verb = words[0].replace("-", "_")
    if verb not in VERBS:
        meant = did_you_mean(verb, VERBS, FIELD_SYNONYMS)
        hint = f"did you mean `{meant}`?" if meant else f"there are {', '.join(VERBS)}"
        raise ShorthandError(f"unknown fault `{words[0]}`", hint)
    given = ShorthandWords(verb, list(words[1:]), nodes)
    settings = _settings(given.left)
    if settings and verb != "set_config":
        # Any verb can be written with the language's own fields.
        plain = [word for word in given.left if not _SETTING.fullmatch(word)]
        if plain:
            raise given.wrong(
                f"`{plain[0]}` stands beside fields such as `{next(iter(settings))}=`: write one or the other"
            )
        value: object = {key: _listed(text) for key, text in settings.items()}
        given.left = []
    elif verb in FORMS:
        value = FORMS[verb](given)
    else:
        raise ShorthandError(
            f"`{verb}` has no short form", f"write its fields, FIELD=VALUE, or the step: --yaml '{{{verb}: ...}}'"
        )
    if lasts is None:
        lasts = given.take_if(_TIME.fullmatch)
    if given.left:
        raise given.wrong(f"`{verb}` has no use for `{given.left[0]}`")
    step: Step = {verb: value}
    if lasts is not None:
        step["for"] = lasts
    if label is not None:
        step["as"] = label
    return step


def _settings(words: Sequence[str]) -> dict[str, str]:
    """Of the words that look like KEY=VALUE."""
    return {found[1]: found[2] for word in words if (found := _SETTING.fullmatch(word))}


def _listed(text: str) -> object:
    """Nodes are separated by commas, but not those within a selector's brackets."""
    parts = _split(text)
    return parts if len(parts) > 1 else text


def _split(text: str) -> list[str]:
    return re.split(r",(?![^()]*\))", text)


def _dashes(text: str) -> list[int]:
    """Where dashes stand outside of brackets."""
    return [at for at, one in enumerate(text) if one == "-" and text.count("(", 0, at) == text.count(")", 0, at)]


# --------------------------------------------------------------------------------------------------------- the forms


def _nodes(words: ShorthandWords) -> object:
    lasts = words.take_if(_TIME.fullmatch)
    named = [part for word in words.take_all("a node") for part in _split(word)]
    words.left = [] if lasts is None else [lasts]
    return named if len(named) > 1 else named[0]


def _between(words: ShorthandWords) -> Step:
    one, two = words.sides()
    between: Step = {"between": [_listed(one), _listed(two)]}
    direction = words.take_if(("both", "to", "from").__contains__)
    if direction is not None:
        between["direction"] = direction
    return between


def _latency(words: ShorthandWords) -> Step:
    return {**_between(words), "add": words.take("how much, such as 200ms")}


def _rate(words: ShorthandWords) -> Step:
    return {**_between(words), "rate": words.take("a rate")}


def _partition(words: ShorthandWords) -> object:
    lasts = words.take_if(_TIME.fullmatch)
    islands = [_split(word) for word in words.take_all("islands")]
    words.left = [] if lasts is None else [lasts]
    return islands


def _names(words: ShorthandWords) -> object:
    names, words.left = words.left, []
    return names if names else "all"


def _hold(words: ShorthandWords) -> Step:
    sender, receiver = words.sides()
    hold: Step = {"from": _listed(sender), "to": _listed(receiver)}
    part = words.take_if(("request", "response", "body", "both").__contains__)
    api = words.take_if(lambda word: not _TIME.fullmatch(word))
    if api is not None:
        hold["api"] = api
    if part is not None:
        hold["part"] = part
    return hold


def _flush(words: ShorthandWords) -> object:
    brokers = _listed(words.take("a broker"))
    return {"brokers": brokers, "partition": words.take("a partition")} if words.left else brokers


def _tear(words: ShorthandWords) -> Step:
    return {
        "broker": words.take("a broker"),
        "partition": words.take("a partition"),
        "bytes": words.take("how many bytes"),
    }


def _bitflip(words: ShorthandWords) -> Step:
    return {
        "broker": words.take("a broker"),
        "partition": words.take("a partition"),
        "offset": words.take("an offset"),
    }


def _slow_disk(words: ShorthandWords) -> Step:
    slow: Step = {"brokers": _listed(words.take("a broker"))}
    rate = words.take_if(_RATE.fullmatch)
    if rate is not None:
        slow["throughput"] = rate
    else:
        slow["append"] = words.take("how long an append takes, such as 200ms, or a throughput, such as 50kB/s")
    return slow


def _clock(words: ShorthandWords) -> Step:
    return {"brokers": _listed(words.take("a broker")), "by": words.take("how far, such as 60s or -60s")}


def _elect(words: ShorthandWords) -> object:
    unclean = words.take_if("unclean".__eq__)
    partition = words.take_if(lambda word: _PARTITION.fullmatch(word) and word not in words.nodes)
    broker = words.left.pop(0) if words.left else None
    if partition is None and unclean is None:
        return broker or "preferred"
    fields = {"partition": partition, "broker": broker, "unclean": True if unclean else None}
    return {key: value for key, value in fields.items() if value is not None}


def _reassign(words: ShorthandWords) -> Step:
    move: Step = {"partition": words.take("a partition"), "to": _listed(words.take("replicas, such as b1,b2"))}
    rate = words.take_if(_RATE.fullmatch)
    return move if rate is None else {**move, "throttle": rate}


def _throttle(words: ShorthandWords) -> Step:
    throttle: Step = {"brokers": _listed(words.take("brokers")), "rate": words.take("a rate, such as 1MB/s, or none")}
    side = words.take_if(("both", "leader", "follower").__contains__)
    if side is not None:
        throttle["side"] = side
    if words.left:
        throttle["topic"] = words.left.pop(0)
    return throttle


def _set_config(words: ShorthandWords) -> Step:
    whose = words.take("a topic or brokers, and settings")
    config = _settings(words.left)
    words.left = [word for word in words.left if not _SETTING.fullmatch(word)]
    if not config:
        raise words.wrong("`set_config` needs settings, KEY=VALUE")
    brokers = words.are_nodes(whose)
    return {("brokers" if brokers else "topic"): _listed(whose) if brokers else whose, "config": config}


def _produce(words: ShorthandWords) -> Step:
    return {"from": words.take("a producer of the scenario"), "count": words.take("how many")}


def _seek(words: ShorthandWords) -> Step:
    return {
        "consumer": words.take("a consumer of the scenario"),
        "partition": words.take("a partition"),
        "to": words.take("an offset, beginning or end"),
    }


def _one(words: ShorthandWords) -> str:
    return words.take("a partition")


FORMS: dict[str, Callable[[ShorthandWords], object]] = {
    **dict.fromkeys(
        ("start", "stop", "kill", "power_off", "pause", "resume", "wipe", "restart", "fill_disk", "fail_disk"), _nodes
    ),
    "partition": _partition,
    "cut": _between,
    "reset_peer": _between,
    "heal": _names,
    "latency": _latency,
    "bandwidth": _rate,
    "loss": _rate,
    "hold": _hold,
    "release": _names,
    "flush": _flush,
    "tear": _tear,
    "bitflip": _bitflip,
    "slow_disk": _slow_disk,
    "bump_clock": _clock,
    "elect": _elect,
    "reassign": _reassign,
    "cancel_reassign": _one,
    "throttle": _throttle,
    "set_config": _set_config,
    "produce": _produce,
    "seek": _seek,
}
EXAMPLES: dict[str, str] = {
    "start": "start b1",
    "stop": "stop b1",
    "kill": "kill 'leader(orders-0)'",
    "power_off": "power_off b1 5s",
    "pause": "pause b2 3s",
    "resume": "resume b2",
    "wipe": "wipe b1",
    "restart": "restart b1",
    "fill_disk": "fill_disk b1 10s",
    "fail_disk": "fail_disk b1",
    "partition": "partition b1 b2,b3,c1",
    "cut": "cut b1-b3",
    "reset_peer": "reset_peer b1-b3",
    "heal": "heal",
    "latency": "latency b1-b2 200ms",
    "bandwidth": "bandwidth b1-b2 50kB/s",
    "loss": "loss b1-b2 5%",
    "hold": "hold b2-b1 Fetch request",
    "release": "release",
    "flush": "flush b1",
    "tear": "tear b1 orders-0 100B",
    "bitflip": "bitflip b1 orders-0 7",
    "slow_disk": "slow_disk b1 200ms",
    "bump_clock": "bump_clock b1 60s",
    "strobe_clock": "strobe_clock brokers=b1 by=60s period=1s",
    "elect": "elect orders-0 b1",
    "reassign": "reassign orders-0 b1,b2,b3",
    "cancel_reassign": "cancel_reassign orders-0",
    "throttle": "throttle b1 1MB/s",
    "set_config": "set_config orders min.insync.replicas=1",
    "produce": "produce p1 10",
    "seek": "seek c1r orders-0 beginning",
    "check": "--yaml '{check: {clock: {before: 60s}}}'",
}
