"""Names for records that a client from outside sends: its own words where they make a name, else a number.

A name is one record's for good. A record that is sent again is the same record, and so it is known again:

* a batch of an idempotent producer by producer id, epoch, sequence numbers and partition, also after its ack: the
  client may not have seen that. Without this rule a record would be called lost that the broker rightly stored once;
* any other batch by its bytes, and a record that was put into another batch (after an error that splits batches, or
  that raises the producer's epoch, KIP-360) by its time, key and value: until the client has had its answer.

Without idempotence a client may say the same thing twice in a millisecond, or two clients of one name may: that is
another record, unless it comes as a retry does, over the same connection or one that replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cluster.live.sequenced_batches import SequencedBatches
from cluster.slices import paced
from replica.ids import OUTSIDE, TopicPartition
from replica.log.batches.records import BATCH_HEADER_BYTES, BatchHeader

NAME_CHARACTERS_MAX = 24
UNANSWERED_RECORDS_MAX = 100_000
UNANSWERED_BATCHES_MAX = 10_000
"""So many without an answer are remembered; the oldest are forgotten first."""
WORDS_MAX = 50_000
"""Of so many words that several records have is it remembered how often; later records with others get numbers."""
RECORD_BYTES_MIN = 7
COMPRESSED_RECORDS_PER_BYTE = 50
BATCH_RECORDS_MAX = 100_000
"""A batch that promises more is not told of record by record."""

Names = tuple[str, ...]
Identity = tuple[str, TopicPartition, bytes]
"""(client, partition, digest of time stamp, key and value)"""


@dataclass(frozen=True, slots=True)
class RecordSeen:
    """word: its possible name     digest: identifies it"""

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
    """Whether a batch can hold as many records as it says: else nothing may be done for each of them."""
    body_bytes = header.size_bytes - BATCH_HEADER_BYTES
    most = body_bytes * COMPRESSED_RECORDS_PER_BYTE if header.codec != "none" else body_bytes // RECORD_BYTES_MIN
    is_whole = header.last_offset_delta == header.record_count - 1
    return is_whole and 0 < header.record_count <= min(most, BATCH_RECORDS_MAX)


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """One connection of a client to a node.     number: connections are counted in the order in which they came"""

    node: str
    number: int


@dataclass(frozen=True, slots=True)
class Sending:
    """How a batch came.

    latest: the number of the latest connection at that moment     producer_id: -1 without idempotence
    refused: with an error after which an idempotent producer begins anew
    """

    connection: ClientConnection
    latest: int
    producer_id: int
    refused: bool = False

    def may_be_repeated_by(self, other: Sending) -> bool:
        """Whether the same words may be the same records once more. Several clients of one name speak side by side.

        An idempotent producer says who it is, and becomes another only after an error. Any other retries over the same
        connection, or goes to another broker, or has given the connection up and opened one.
        """
        if self.producer_id >= 0 or other.producer_id >= 0:
            return self.producer_id == other.producer_id or (
                self.refused and min(self.producer_id, other.producer_id) >= 0
            )
        mine, theirs = self.connection, other.connection
        return mine == theirs or mine.node != theirs.node or theirs.number > self.latest


@dataclass(frozen=True, slots=True)
class NamedBatch:
    """Names of the records of one batch, in the order of their offsets.

    new: those not in the trace yet     identities: () where the records cannot be read
    """

    client: str
    topic_partition: TopicPartition
    header: BatchHeader
    sending: Sending
    names: Names
    new: frozenset[str]
    identities: tuple[Identity, ...]

    @property
    def key(self) -> tuple[str, TopicPartition, int]:
        return self.client, self.topic_partition, self.header.crc


class RecordNames:
    """is_taken: whether a record of this run has a name already     sequenced: batches of idempotent producers"""

    def __init__(self, is_taken: Callable[[str], bool], sequenced: SequencedBatches) -> None:
        self._is_taken = is_taken
        self._sequenced = sequenced
        self._connections = 0
        self._numbered: dict[str, int] = {}
        self._repeated: dict[str, int] = {}
        self._unanswered_batches: dict[tuple[str, TopicPartition, int], NamedBatch] = {}
        self._unanswered_records: dict[Identity, dict[str, Sending]] = {}
        """Several, where an application says the same thing more than once in a millisecond."""

    def connected(self, node: str) -> ClientConnection:
        self._connections += 1
        return ClientConnection(node, self._connections)

    def of(
        self,
        client: str,
        connection: ClientConnection,
        partition: TopicPartition,
        header: BatchHeader,
        records: Sequence[RecordSeen],
    ) -> NamedBatch:
        """The batch, new or known again; from now on unanswered. records: () where they cannot be read"""
        sending = Sending(connection, self._connections, header.producer_id)
        identities = tuple((client, partition, record.digest) for record in records)
        again = self._again(client, sending, partition, header)
        if again is not None:
            named = NamedBatch(client, partition, header, sending, again, frozenset(), identities)
            self.may_come_again(named)
            return named
        known_again: dict[Identity, Iterator[str]] = {}
        names, new = [], []
        for place in paced(range(header.record_count)):
            name = self._known(identities[place], sending, known_again) if identities else None
            if name is None:
                name = self._new_name(client, records[place] if records else None)
                new.append(name)
            names.append(name)
        named = NamedBatch(client, partition, header, sending, tuple(names), frozenset(new), identities)
        self.may_come_again(named)
        return named

    def _again(self, client: str, sending: Sending, partition: TopicPartition, header: BatchHeader) -> Names | None:
        """Names of a batch that has come before."""
        if header.producer_id >= 0:
            return self._sequenced.names(partition, header)
        before = self._unanswered_batches.get((client, partition, header.crc))
        return before.names if before is not None and before.sending.may_be_repeated_by(sending) else None

    def _known(self, identity: Identity, sending: Sending, known_again: dict[Identity, Iterator[str]]) -> str | None:
        """The next record of this identity that has no answer and is not yet in this batch."""
        if identity not in known_again:
            unanswered = self._unanswered_records.get(identity, {})
            known_again[identity] = iter(
                [name for name, before in unanswered.items() if before.may_be_repeated_by(sending)]
            )
        return next(known_again[identity], None)

    def answered(self, batch: NamedBatch) -> None:
        """The client got the answer that it is written, and will not send it again unless as an idempotent producer."""
        latest = self._unanswered_batches.get(batch.key)
        if latest is not None and latest.names == batch.names:
            del self._unanswered_batches[batch.key]
        for identity, name in zip(batch.identities, batch.names, strict=False):
            unanswered = self._unanswered_records.get(identity, {})
            if unanswered.pop(name, None) is not None and not unanswered:
                del self._unanswered_records[identity]

    def refused(self, batch: NamedBatch) -> None:
        """For good: the client repeats these records in other batches or as another producer."""
        self.may_come_again(replace(batch, sending=replace(batch.sending, refused=True)))

    def may_come_again(self, batch: NamedBatch) -> None:
        """As far as the client knows, it may not be written."""
        self._unanswered_batches[batch.key] = batch
        for identity, name in zip(batch.identities, batch.names, strict=False):
            self._unanswered_records.setdefault(identity, {})[name] = batch.sending
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
