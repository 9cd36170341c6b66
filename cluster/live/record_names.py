"""Gives names to records from outside clients: the content of a record if it is usable as a name, else a number.

A record has the same name for the whole run. A record that is sent again keeps its name, so it must be recognized:
* A batch of an idempotent producer is recognized by producer id, epoch, sequence numbers and partition. This holds even
  after its ack, because the client may not have received it. Otherwise a record that the broker correctly stored once
  would count as lost.
* Any other batch is recognized by its bytes.
* A record that was moved to another batch (after an error that splits batches or raises the producer's epoch, KIP-360)
  is recognized by its time, key and value until the client has its response.

Without idempotence, a client or two clients with one name may send the same content twice in a millisecond. The second
is another record, unless it is sent as retries are: over the same connection or one that replaces it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cluster.slices import paced
from replica.ids import OUTSIDE, TopicPartition
from replica.log.batches.records import BATCH_HEADER_BYTES, BatchHeader

NAME_CHARACTERS_MAX = 24
UNANSWERED_RECORDS_MAX = 100_000
UNANSWERED_BATCHES_MAX = 10_000
"""The maximum number of unanswered batches that are stored. The oldest ones are forgotten first."""
WORDS_MAX = 50_000
"""The maximum number of different words that are counted. Further records with new words are named by numbers."""
RECORD_BYTES_MIN = 7
COMPRESSED_RECORDS_PER_BYTE = 50
BATCH_RECORDS_MAX = 100_000
"""The maximum number of records in a batch whose records get events of their own."""

Names = tuple[str, ...]
Identity = tuple[str, TopicPartition, bytes]
"""The identity of a record: its client, its partition, and a digest of its timestamp, key and value."""


@dataclass(frozen=True, slots=True)
class RecordSeen:
    """A record's possible name (`word`) and the digest that identifies it."""

    word: str | None
    digest: bytes


def word_of(data: bytes | None) -> str | None:
    """Return a short text as a record's name, with `_` for unusual characters; None if the bytes are no such text."""
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
    """Return True if the record count is plausible for the batch's size, and low enough to process each record."""
    body_bytes = header.size_bytes - BATCH_HEADER_BYTES
    most = body_bytes * COMPRESSED_RECORDS_PER_BYTE if header.codec != "none" else body_bytes // RECORD_BYTES_MIN
    is_whole = header.last_offset_delta == header.record_count - 1
    return is_whole and 0 < header.record_count <= min(most, BATCH_RECORDS_MAX)


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """One connection of a client to a node, numbered in the order of arrival."""

    node: str
    number: int


@dataclass(frozen=True, slots=True)
class Sending:
    """The circumstances in which a batch was sent.

    Attributes:
        latest: number of the client connection opened last before the batch was sent, over all clients.
        producer_id: -1 without idempotence.
        refused: True after an error that makes an idempotent producer start again.
    """

    connection: ClientConnection
    latest: int
    producer_id: int
    refused: bool = False

    def may_be_repeated_by(self, other: Sending) -> bool:
        """Return True if `other`, a later sending of the same content, may be a retry of this one.

        An idempotent producer is known by its id, which changes only after an error. Any other producer retries over
        the same connection, on another broker, or over a new connection opened after this sending.
        """
        if self.producer_id >= 0 or other.producer_id >= 0:
            return self.producer_id == other.producer_id or (
                self.refused and min(self.producer_id, other.producer_id) >= 0
            )
        mine, theirs = self.connection, other.connection
        return mine == theirs or mine.node != theirs.node or theirs.number > self.latest


@dataclass(frozen=True, slots=True)
class NamedBatch:
    """The names of the records of one batch, in the order of their offsets.

    Attributes:
        new: names that are not in the trace yet.
        identities: identities of the records; () if the records cannot be read.
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
    """The names of outside clients' records.

    Args:
        is_taken: returns True if a record of this run already has this name.
        sequenced: known batches of idempotent producers.
    """

    def __init__(self, is_taken: Callable[[str], bool], sequenced: SequencedBatches) -> None:
        self._is_taken = is_taken
        self._sequenced = sequenced
        self._connections = 0
        self._numbered: dict[str, int] = {}
        self._repeated: dict[str, int] = {}
        # In a plain dict, finding the first key takes longer the more keys were deleted before it.
        self._unanswered_batches: OrderedDict[tuple[str, TopicPartition, int], NamedBatch] = OrderedDict()
        self._unanswered_records: OrderedDict[Identity, dict[str, Sending]] = OrderedDict()
        """Unanswered records, by identity and name.

        Records with equal content sent within a millisecond share an identity.
        """

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
        """Return names for the records of a batch that has arrived: new names, or the old ones after a retry.

        Args:
            records: () if they cannot be read.
        """
        sending = Sending(connection, self._connections, header.producer_id)
        identities = tuple((client, partition, record.digest) for record in records)
        again = self._again(client, sending, partition, header)
        if again is not None:
            named = NamedBatch(client, partition, header, sending, again, frozenset(), identities)
            self.may_come_again(named)
            return named
        known_again: dict[Identity, Iterator[str]] = {}
        names, new = [], []
        for index in paced(range(header.record_count)):
            name = self._known(identities[index], sending, known_again) if identities else None
            if name is None:
                name = self._new_name(client, records[index] if records else None)
                new.append(name)
            names.append(name)
        named = NamedBatch(client, partition, header, sending, tuple(names), frozenset(new), identities)
        self.may_come_again(named)
        return named

    def _again(self, client: str, sending: Sending, partition: TopicPartition, header: BatchHeader) -> Names | None:
        """Return the names of the batch if it was sent before, None if it is new."""
        if header.producer_id >= 0:
            return self._sequenced.names(partition, header)
        before = self._unanswered_batches.get((client, partition, header.crc))
        return before.names if before is not None and before.sending.may_be_repeated_by(sending) else None

    def _known(self, identity: Identity, sending: Sending, known_again: dict[Identity, Iterator[str]]) -> str | None:
        """Return the name of an unanswered record with this identity. Further calls return further names, at last None.

        Args:
            known_again: names not yet returned for this batch, by identity.
        """
        if identity not in known_again:
            unanswered = self._unanswered_records.get(identity, {})
            known_again[identity] = iter(
                [name for name, before in unanswered.items() if before.may_be_repeated_by(sending)]
            )
        return next(known_again[identity], None)

    def answered(self, batch: NamedBatch) -> None:
        """Forget a batch that succeeded and whose response the client has.

        Only an idempotent producer may resend it.
        """
        latest = self._unanswered_batches.get(batch.key)
        if latest is not None and latest.names == batch.names:
            del self._unanswered_batches[batch.key]
        for identity, name in zip(batch.identities, batch.names, strict=False):
            unanswered = self._unanswered_records.get(identity, {})
            if unanswered.pop(name, None) is not None and not unanswered:
                del self._unanswered_records[identity]

    def refused(self, batch: NamedBatch) -> None:
        """Remember a batch that got a final error, because the client may resend its records in another form."""
        self.may_come_again(replace(batch, sending=replace(batch.sending, refused=True)))

    def may_come_again(self, batch: NamedBatch) -> None:
        """Remember a batch that may be sent again, because the client does not know that it was written."""
        self._unanswered_batches[batch.key] = batch
        for identity, name in zip(batch.identities, batch.names, strict=False):
            self._unanswered_records.setdefault(identity, {})[name] = batch.sending
        self._forget_the_oldest()

    def _forget_the_oldest(self) -> None:
        batches, records = self._unanswered_batches, self._unanswered_records
        while len(batches) > UNANSWERED_BATCHES_MAX:
            batches.popitem(last=False)
        while len(records) > UNANSWERED_RECORDS_MAX:
            records.popitem(last=False)

    def _new_name(self, client: str, record: RecordSeen | None) -> str:
        word = None if record is None else record.word
        name = None if word is None else self._worded(word)
        return name or self._next_number(client)

    def _worded(self, word: str) -> str | None:
        """Count a record with this word, and return its name: `order`, then `order~2`; None at the limit of words."""
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


# ---------------------------------------------------------------------------------------------------- sequenced batches
#
# Batches of idempotent producers are recognized as by a broker, which answers a retry with the old offset.
#
# A broker knows the last five batches that it has appended of each producer in each partition
# (ProducerStateEntry.NUM_BATCHES_TO_RETAIN), and a client has at most five in flight. Here every batch that was sent
# counts, even a refused one, so more are kept. If a batch is forgotten nevertheless, because a client numbers its
# batches in its own way, the offset in the response still identifies it.


BATCHES_KEPT = 16
"""The number of batches that are stored for one producer in one partition."""
PRODUCERS_MAX = 50_000
"""The maximum number of producers, counted once for each partition. The one inactive for longest is forgotten first."""


class SequencedBatches:
    """The known batches of idempotent producers.

    Args:
        records_of: returns the names of the records in the batch with this number.
    """

    def __init__(self, records_of: Callable[[int], Names]) -> None:
        self._records_of = records_of
        self._producers: OrderedDict[tuple[int, TopicPartition], dict[tuple[int, int, int], int]] = OrderedDict()

    def names(self, partition: TopicPartition, header: BatchHeader) -> Names | None:
        """Return the names of a known batch, or None if the batch is new."""
        batches = self._producers.get((header.producer_id, partition), {})
        number = batches.get(_sequence(header))
        return None if number is None else self._records_of(number)

    def add(self, partition: TopicPartition, header: BatchHeader, number: int) -> None:
        """Remember a batch that has arrived."""
        producer = (header.producer_id, partition)
        batches = self._producers.pop(producer, {})
        self._producers[producer] = batches
        batches[_sequence(header)] = number
        if len(batches) > BATCHES_KEPT:
            del batches[next(iter(batches))]
        if len(self._producers) > PRODUCERS_MAX:
            self._producers.popitem(last=False)

    def topic_deleted(self, topic: str) -> None:
        """Forget the batches of a deleted topic. A new topic with its name accepts any sequence numbers."""
        for producer in [producer for producer in self._producers if producer[1].topic == topic]:
            del self._producers[producer]


def _sequence(header: BatchHeader) -> tuple[int, int, int]:
    """Return the fields that ProducerStateEntry.findDuplicateBatch compares: epoch, first sequence and record count."""
    return header.producer_epoch, header.base_sequence, header.record_count
