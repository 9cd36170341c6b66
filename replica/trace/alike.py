"""One sentence for those that say the same of several partitions, on the terminal and on the report's page.

Names decide: who leads now, who left. Only these may differ: numbers that are no names, the members of a set and
their order (not how many they are), which leader wants a broker in the ISR or out of it, and the name of the partition
itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

TOGETHER_US = 1_000_000
"""Sentences about different partitions within this time of the first are one."""
SETS_NAMED = 2
BROKERS_NAMED = 8
"""of sets that are too many to name"""

Place = tuple[str, int]
"""Topic and number of a partition, as in TopicPartition."""


class Told(NamedTuple):
    """place: None if it is about no partition     number: by which the caller knows it     sign: before it, if any"""

    at_us: int
    text: str
    place: Place | None
    number: int
    sign: str = ""


class Alike:
    """Sentences that are one.

    told: by place, in the order in which they came     numbers: of all, with those that say the same of the same place
    """

    def __init__(self, first: Told) -> None:
        self.first = first
        self.told = {first.place: first}
        self.numbers = [first.number]

    @property
    def places(self) -> list[Place]:
        return [place for place in self.told if place is not None]

    @property
    def text(self) -> str:
        """The sentence itself if all say the same; else one with ranges, about `the partition`."""
        texts = list(dict.fromkeys(told.text for told in self.told.values()))
        return texts[0] if len(texts) == 1 else _merged([_pieces(told) for told in self.told.values()])

    def takes(self, told: Told) -> bool:
        """One of the same skeleton and sign, that was not said yet. A second one about the same place is news."""
        is_soon = told.at_us - self.first.at_us <= TOGETHER_US
        is_one = is_soon and None not in (told.place, self.first.place) and told.place not in self.told
        if is_one:
            self.told[told.place] = told
            self.numbers.append(told.number)
        return is_one


def together(all_told: Iterable[Told], names: Collection[str] = ()) -> list[Alike]:
    """Every sentence is in one group, and the groups are in the order of their first ones. What is said of one place at
    one time in the same words is one whatever its sign, such as an election and the ISR that it writes.

    all_told: in order of time      names: of brokers, topics and clients, which may be all digits
    """
    groups: list[Alike] = []
    latest: dict[tuple[str, str], Alike] = {}
    said: dict[tuple[int, str, Place | None], Alike] = {}
    for told in all_told:
        if (known := said.get(told[:3])) is not None:
            known.numbers.append(told.number)
            continue
        kind = (told.sign, _skeleton(told, names))
        if (group := latest.get(kind)) is None or not group.takes(told):
            latest[kind] = group = Alike(told)
            groups.append(group)
        said[told[:3]] = group
    return groups


# ------------------------------------------------------------------------------------------------------- sentences

_PARTITION = "the partition"
_WANTS = " wants"
_MAY_DIFFER = re.compile(
    r"(\{[^{}]*\}"  # a set
    r"|(?:^|(?<=: ))[\w.-]+ wants(?= )"  # a leader
    r"|(?<![\w.#-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w-]|[.,]\d|\.\.))"  # a number, but no end of `3..5`
)


def _pieces(told: Told) -> list[str]:
    """Every second one may differ."""
    text = told.text
    if told.place is not None:
        name = re.escape(f"{told.place[0]}-{told.place[1]}")
        text = re.sub(rf"(?<![\w.-]){name}(?![\w-])", _PARTITION, text)
    return _MAY_DIFFER.split(text)


def _skeleton(told: Told, names: Collection[str]) -> str:
    pieces = _pieces(told)
    pieces[1::2] = [piece if piece in names else _kind(piece) for piece in pieces[1::2]]
    return "\0".join(pieces)


def _kind(piece: str) -> str:
    if piece.startswith("{"):
        return f"{{{len(_members(piece))}}}"
    return _WANTS if piece.endswith(_WANTS) else "#"


def _members(written: str) -> list[str]:
    return [name for name in written[1:-1].split(", ") if name]


def _merged(sentences: Sequence[Sequence[str]]) -> str:
    columns = [list(dict.fromkeys(column)) for column in zip(*sentences, strict=True)]
    return "".join(column[0] if len(column) == 1 else _range(column) for column in columns)


def _range(different: Sequence[str]) -> str:
    """Of pieces of one kind."""
    if different[0].startswith("{"):
        return _sets(different)
    if different[0].endswith(_WANTS):
        return f"each leader{_WANTS}"
    in_order = sorted(different, key=lambda number: float(number.replace(",", "")))
    return f"{in_order[0]}..{in_order[-1]}"


def _sets(different: Sequence[str]) -> str:
    """`{b2}, {b3} or {b4}`; of many larger sets `{2 of b1, b2, b3}`, and of very many brokers how many they are."""
    sets = list({tuple(sorted(_members(written))): written for written in reversed(different)}.values())[::-1]
    size = len(_members(sets[0]))
    if len(sets) <= (BROKERS_NAMED if size == 1 else SETS_NAMED):
        *others, last = sets
        return f"{', '.join(others)} or {last}" if others else last
    brokers = sorted({name for written in sets for name in _members(written)}, key=lambda name: (len(name), name))
    known = ", ".join(brokers) if len(brokers) <= BROKERS_NAMED else f"{len(brokers)} brokers"
    return f"{{{size} of {known}}}"
