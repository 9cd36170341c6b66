"""Which records every batch holds that some producer has sent, and who sent it, by the CRC of the batch."""

from __future__ import annotations

from array import array
from bisect import bisect_left

from scenarios.observe.name_index import NameIndex

_RECENT_MIN = 1024
_RECENT_SHARE = 16
"""Of so many entries one may be in the dict: merging then costs a microsecond or two for each."""


class CrcMap:
    """Small numbers by CRC (32 bits, unsigned), eight bytes an entry where a dict takes a hundred and fifty.

    The latest entries are in a dict; when there are enough, they are merged into two arrays in the order of the CRCs.
    """

    __slots__ = ("_crcs", "_numbers", "_recent")

    def __init__(self) -> None:
        self._crcs = array("I")
        self._numbers = array("i")
        self._recent: dict[int, int] = {}

    def get(self, crc: int) -> int:
        """-1 if there is none."""
        found = self._recent.get(crc)
        if found is not None:
            return found
        at = bisect_left(self._crcs, crc)
        return self._numbers[at] if at < len(self._crcs) and self._crcs[at] == crc else -1

    def __setitem__(self, crc: int, number: int) -> None:
        self._recent[crc] = number
        if len(self._recent) > max(_RECENT_MIN, len(self._crcs) // _RECENT_SHARE):
            self._merge()

    def _merge(self) -> None:
        crcs, numbers, copied = array("I"), array("i"), 0
        for crc, number in sorted(self._recent.items()):
            at = bisect_left(self._crcs, crc, copied)
            crcs += self._crcs[copied:at]
            numbers += self._numbers[copied:at]
            crcs.append(crc)
            numbers.append(number)
            copied = at + 1 if at < len(self._crcs) and self._crcs[at] == crc else at
        self._crcs, self._numbers = crcs + self._crcs[copied:], numbers + self._numbers[copied:]
        self._recent = {}


class SentBatches:
    """Every batch of every producer, some twenty-five bytes for each and sixteen for each of its records.

    names: of every record that was in some batch; others may add theirs, to keep their facts by place
    """

    def __init__(self) -> None:
        self.names = NameIndex()
        self._numbers = CrcMap()
        self._senders: list[str] = []
        # Of each batch: who sent it, and where its records begin; those end where the next batch's begin.
        self._sender = array("h")
        self._first = array("i", [0])
        self._records = array("i")

    def add(self, crc: int, client: str, records: tuple[str, ...]) -> None:
        """What was sent last counts; a batch that is sent again is the same one."""
        if self.client(crc) == client and self.records(crc) == records:
            return
        if client not in self._senders:
            self._senders.append(client)
        self._numbers[crc] = len(self._sender)
        self._sender.append(self._senders.index(client))
        self._records.extend(map(self.names.place_or_add, records))
        self._first.append(len(self._records))

    def records(self, crc: int) -> tuple[str, ...]:
        """In the order of their offsets; () for a batch that nobody sent."""
        number = self._numbers.get(crc)
        if number < 0:
            return ()
        return tuple(map(self.names.name, self._records[self._first[number] : self._first[number + 1]]))

    def record(self, crc: int, index: int) -> str | None:
        """One of them; None for a batch that nobody sent."""
        number = self._numbers.get(crc)
        return None if number < 0 else self.names.name(self._records[self._first[number] + index])

    def client(self, crc: int) -> str | None:
        """Who sent it last; None for a batch that nobody sent."""
        number = self._numbers.get(crc)
        return None if number < 0 else self._senders[self._sender[number]]
