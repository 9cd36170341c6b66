"""Names for records that a client of somebody else's sends: its own words where they make a name, else a number.

A name is one record's for good. A record that is sent again is the same record: it is known again as long as the client
has had no answer to it, by its batch, or by its time, key and value where the client has put its batches together anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from replica.ids import OUTSIDE, TopicPartition
from replica.log.records import BATCH_HEADER_BYTES, BatchHeader

NAME_CHARACTERS_MAX = 24
UNANSWERED_RECORDS_MAX = 100_000
UNANSWERED_BATCHES_MAX = 10_000
"""So many without an answer are remembered; the oldest are forgotten first."""
WORDS_MAX = 50_000
"""Of so many words that several records have is it remembered how often; later records with others get numbers."""
RECORD_BYTES_MIN = 7
COMPRESSED_RECORDS_PER_BYTE = 50
"""A compressed batch that promises more is not believed: nobody has decompressed it yet."""

Names = tuple[str, ...]
Identity = tuple[str, TopicPartition, bytes]
"""(client, partition, digest of time stamp, key and value)"""


@dataclass(frozen=True, slots=True)
class RecordSeen:
    """word: what it may be called     digest: what it is known again by"""

    word: str | None
    digest: bytes


def word_of(data: bytes | None) -> str | None:
    """Bytes as a name: short text, with `_` for what would not do in a list or a page; None if they are none."""
    if not data or len(data) > 4 * NAME_CHARACTERS_MAX:
        return None
    try:
        text = data.decode("utf-8").strip()
    except UnicodeDecodeError:
        return None
    word = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in text)
    named = len(word) <= NAME_CHARACTERS_MAX and text.isprintable() and any(letter.isalnum() for letter in word)
    return word if named else None


def is_believable(header: BatchHeader) -> bool:
    """Whether a batch can hold as many records as it says; checked before a name is made for each."""
    body_bytes = header.size_bytes - BATCH_HEADER_BYTES
    most = body_bytes * COMPRESSED_RECORDS_PER_BYTE if header.codec != "none" else body_bytes // RECORD_BYTES_MIN
    return 0 < header.record_count <= most and header.last_offset_delta == header.record_count - 1


@dataclass(frozen=True, slots=True)
class NamedBatch:
    """Names of the records of one batch, in the order of their offsets.

    new: those that nobody has heard of yet     identities: () where the records cannot be read
    """

    client: str
    topic_partition: TopicPartition
    crc: int
    names: Names
    new: Names
    identities: tuple[Identity, ...]


class RecordNames:
    """is_taken: whether a record of this run has a name already"""

    def __init__(self, is_taken: Callable[[str], bool]) -> None:
        self._is_taken = is_taken
        self._numbered: dict[str, int] = {}
        self._repeated: dict[str, int] = {}
        self._unanswered_batches: dict[tuple[str, TopicPartition, int], NamedBatch] = {}
        self._unanswered_records: dict[Identity, list[str]] = {}
        """Several, where an application says the same thing more than once in a millisecond."""

    def of(
        self, client: str, partition: TopicPartition, crc: int, record_count: int, records: Sequence[RecordSeen]
    ) -> NamedBatch:
        """The batch, new or known again; from now on unanswered. records: () where they cannot be read"""
        key = (client, partition, crc)
        again = self._unanswered_batches.get(key)
        if again is not None:
            return replace(again, new=())
        identities = tuple((client, partition, record.digest) for record in records)
        names, new = [], []
        known_again: dict[Identity, int] = {}
        for place in range(record_count):
            name = self._known(identities[place], known_again) if identities else None
            if name is None:
                name = self._new_name(client, records[place] if records else None)
                new.append(name)
                if identities:
                    self._unanswered_records.setdefault(identities[place], []).append(name)
                    known_again[identities[place]] = len(self._unanswered_records[identities[place]])
            names.append(name)
        named = NamedBatch(client, partition, crc, tuple(names), tuple(new), identities)
        self._unanswered_batches[key] = named
        self._forget_the_oldest()
        return named

    def _known(self, identity: Identity, known_again: dict[Identity, int]) -> str | None:
        """The next record of this identity that has no answer and is not yet in this batch."""
        unanswered, count = self._unanswered_records.get(identity, ()), known_again.get(identity, 0)
        if count >= len(unanswered):
            return None
        known_again[identity] = count + 1
        return unanswered[count]

    def answered(self, batch: NamedBatch) -> None:
        """The client knows what became of it, and will not send it again."""
        self._unanswered_batches.pop((batch.client, batch.topic_partition, batch.crc), None)
        for identity, name in zip(batch.identities, batch.names, strict=False):
            unanswered = self._unanswered_records.get(identity, [])
            if name in unanswered:
                unanswered.remove(name)
                if not unanswered:
                    del self._unanswered_records[identity]

    def may_come_again(self, batch: NamedBatch) -> None:
        """Its answer was on its way when the connection ended: perhaps the client has not seen it."""
        self._unanswered_batches.setdefault((batch.client, batch.topic_partition, batch.crc), batch)
        for identity, name in zip(batch.identities, batch.names, strict=False):
            unanswered = self._unanswered_records.setdefault(identity, [])
            if name not in unanswered:
                unanswered.append(name)
        self._forget_the_oldest()

    def _forget_the_oldest(self) -> None:
        batches, records = self._unanswered_batches, self._unanswered_records
        while len(batches) > UNANSWERED_BATCHES_MAX:
            del batches[next(iter(batches))]
        while len(records) > UNANSWERED_RECORDS_MAX:
            del records[next(iter(records))]

    def _new_name(self, client: str, record: RecordSeen | None) -> str:
        word = None if record is None else record.word
        name = None if word is None else self._worded(word)
        return name or self._next_number(client)

    def _worded(self, word: str) -> str | None:
        """The word itself, or `order~2` for the second record that has it; None: there are too many to count."""
        count = self._repeated.get(word, 0) + 1
        if count == 1 and len(self._repeated) >= WORDS_MAX:
            return None
        self._repeated[word] = count
        return word if count == 1 and not self._is_taken(word) else f"{word}~{max(count, 2)}"

    def _next_number(self, client: str) -> str:
        short = client.removeprefix(OUTSIDE)[:NAME_CHARACTERS_MAX]
        number = self._numbered.get(short, 0)
        while self._is_taken(f"{short}-{number}"):
            number += 1
        self._numbered[short] = number + 1
        return f"{short}-{number}"
