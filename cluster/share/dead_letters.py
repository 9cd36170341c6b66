"""The dead letter queues of share groups (KIP-1191), topics to which records are written that a group has given up.

1. A record that a member rejected, or that was delivered too often, becomes ARCHIVING in the share coordinator. Then
   its leader produces a dead letter, and then the record becomes ARCHIVED. A new leader begins with the dead letters of
   all ARCHIVING records, so a dead letter may be written twice.
2. The partition of a dead letter is the record's partition modulo the number of partitions of the queue.
3. Headers tell where the record is, and why it was given up. Key and value are null, unless
   errors.deadletterqueue.copy.record.enable is set and this broker can still read the record.
4. A request without an answer, NOT_LEADER_OR_FOLLOWER and a queue without a leader are retried, up to five attempts.
   After any other error, such as NOT_ENOUGH_REPLICAS, the records are archived without dead letters.

Simplified: each request has one range of records, while Kafka combines ranges for the same broker. This broker creates
the queue, while Kafka asks a random one. Retry delays are not random. The size of compressed records is not limited.

Source: ShareGroupDLQStateManager.java, ShareGroupDLQRecordFetcher.java (4.4)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.channel import Channels
from cluster.protocol import cold
from cluster.protocol.api_00_produce import (
    ProducePartitionResponse,
    ProduceRequest,
    decode_produce_response,
    encode_produce_request,
)
from cluster.protocol.versions import CREATE_TOPICS, PRODUCE, VERSIONS
from cluster.share.partition import Settled
from cluster.share.persister import MAX_ATTEMPTS, backoff_us
from replica.causes import DeadLetterCause, ShareCause
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.ids import Offset, TopicPartition
from replica.log.batches.records import (
    BATCH_HEADER_BYTES,
    Headers,
    Record,
    batches,
    build_batch,
    read_records,
    record_size_bytes,
)
from replica.trace.events import ShareDeadLettersSent
from replica.wording import shown

REQUEST_TIMEOUT_US, REPLICATION_TIMEOUT_MS = 30_000_000, 30_000
FETCH_BYTES = 1 << 20
TOPIC_NAME, COPY_RECORD = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
CONFIG = {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
"""Settings of a queue that is created automatically. Source: createTopicBuilder"""
REJECTED, DELIVERED_TOO_OFTEN = "Offset rejected by client.", "Offset delivery count exceeded the threshold."
CREATE_AGAIN = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
"""Results of CreateTopics after which the queue is looked for again."""
ReadLog = Callable[[TopicPartition, Offset, int, int], bytes]
"""Returns committed batches of this broker's log: (partition, offset, max_bytes, now_us). Raises KafkaError."""
GetSetting = Callable[[str, str, str], str]
"""Returns a group's own setting: (group_id, key, value if there is none)."""
Address = tuple[str, int]


@dataclass(slots=True, eq=False)
class _Letters:
    """The dead letters of the records [next, given_up.last] of a partition, which are not written yet.

    Attributes:
        copies: the records up to `read_to`, by offset, as far as they are to be copied and can be read.
        attempts: number of failed requests in a row, by API.
    """

    group_id: str
    name: TopicPartition
    given_up: Settled
    done: Callable[[int], None]
    next: Offset
    copies: Mapping[Offset, Record] = field(default_factory=dict)
    read_to: Offset = -1
    attempts: dict[int, int] = field(default_factory=dict)

    def headers(self, offset: Offset) -> Headers:
        texts = {
            "topic": self.name.topic,
            "partition": str(self.name.partition),
            "offset": str(offset),
            "group": self.group_id,
            "delivery.count": str(self.given_up.delivery_count),
            "message": REJECTED if self.given_up.cause is ShareCause.REJECTED else DELIVERED_TOO_OFTEN,
        }
        return tuple((f"__dlq.errors.{name}", text.encode()) for name, text in texts.items())


class DeadLetters:
    """Writes the dead letters of the share groups whose partitions this broker leads."""

    def __init__(self, base: BrokerBase, read: ReadLog, setting: GetSetting) -> None:
        self._base = base
        self._read = read
        self._setting = setting
        self._channels = Channels(base.outbox)

    def write(
        self, group_id: str, name: TopicPartition, given_up: Settled, done: Callable[[int], None], now_us: int
    ) -> None:
        """Write dead letters, and call `done(now_us)` once all are written, or the rest could not be."""
        letters = _Letters(group_id, name, given_up, done, given_up.first)
        self._resolve(letters, now_us)
        self._begin(letters, now_us)

    def _begin(self, letters: _Letters, now_us: int) -> None:
        problem = self._problem(letters.group_id)
        if problem is not None:
            self._finish(letters, now_us, problem)
        elif self._leader(letters) is not None:
            self._produce(letters, now_us)
        else:
            self._create(letters, now_us)

    def _problem(self, group_id: str) -> DeadLetterCause | None:
        """Return why a group's dead letters must not be written, None if they may be. Source: validateDlqTopic"""
        name, config = self._setting(group_id, TOPIC_NAME, ""), self._base.running.current
        known = self._base.cache.image.topics.get(name)
        if not name:
            return DeadLetterCause.NO_QUEUE
        if known is not None and not known.log_config.errors_deadletterqueue_group_enable:
            return DeadLetterCause.NOT_ENABLED
        if known is None and not config.errors_deadletterqueue_auto_create_topics_enable:
            return DeadLetterCause.NO_TOPIC
        if not name.startswith(config.errors_deadletterqueue_topic_name_prefix):
            return DeadLetterCause.OTHER_PREFIX
        return None

    def _leader(self, letters: _Letters) -> tuple[TopicPartition, Address] | None:
        """Return the dead letters' partition and its leader, None if one is missing. Source: populateDLQTopicData"""
        name, image = self._setting(letters.group_id, TOPIC_NAME, ""), self._base.cache.image
        known = image.topics.get(name)
        if known is None:
            return None
        queue = TopicPartition(name, letters.name.partition % len(known.partitions))
        registration = image.partition(*queue)
        leader = None if registration is None else image.brokers.get(registration.leader)
        return None if leader is None or leader.fenced else (queue, (leader.host, leader.port))

    # -------------------------------------------------------------------------------------------------------- requests

    def _create(self, letters: _Letters, now_us: int) -> None:
        """Create the queue, or only wait if it exists and has no leader. Source: handleCreateTopicsResponse"""
        name = self._setting(letters.group_id, TOPIC_NAME, "")
        configs = [{"name": key, "value": value} for key, value in CONFIG.items()]
        topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "configs": configs}
        version = VERSIONS[CREATE_TOPICS][1]
        entity = cold.request(CREATE_TOPICS, version, topics=[topic], timeout=REPLICATION_TIMEOUT_MS)

        def encode(correlation_id: int) -> bytes:
            return cold.encode_request(CREATE_TOPICS, version, correlation_id, self._base.node, entity)

        def answered(frame: bytearray | None, at_us: int) -> None:
            error = _created(version, frame)
            if error is ErrorCode.NONE and self._leader(letters) is not None:
                letters.attempts[CREATE_TOPICS] = 0
                self._produce(letters, at_us)
            elif error is None or error in CREATE_AGAIN:
                self._again(letters, CREATE_TOPICS, error or ErrorCode.REQUEST_TIMED_OUT, at_us)
            else:
                self._finish(letters, at_us, DeadLetterCause.REFUSED, error)

        own = self._base.identity.host, self._base.identity.port
        self._channels.request(own, CREATE_TOPICS, encode, answered, REQUEST_TIMEOUT_US, now_us)

    def _produce(self, letters: _Letters, now_us: int) -> None:
        """Write as many dead letters as one batch can have. Source: topicProduceData, handleProduceResponse"""
        found = self._leader(letters)
        assert found is not None, "a queue without a leader is looked for again first"
        queue, address = found
        topic = self._base.cache.image.topics[queue.topic]
        records: list[tuple[bytes | None, bytes | None]] = []
        headers: list[Headers] = []
        size = BATCH_HEADER_BYTES
        for offset in range(letters.next, max(letters.next, min(letters.given_up.last, letters.read_to)) + 1):
            copy, of_record = letters.copies.get(offset), letters.headers(offset)
            record = (None, None) if copy is None else (copy.key, copy.value)
            size += record_size_bytes(len(records), *record, of_record)
            if size > topic.log_config.max_message_bytes and records:
                break
            records.append(record)
            headers.append(of_record)
        last = letters.next + len(records) - 1
        timestamp_ms = self._base.clock.at(now_us) // 1000
        batch = build_batch(records, timestamp_ms=timestamp_ms, headers=headers)
        version = VERSIONS[PRODUCE][1]
        request = ProduceRequest(None, -1, REPLICATION_TIMEOUT_MS, [(topic.topic_id, [(queue.partition, batch)])])

        def answered(frame: bytearray | None, at_us: int) -> None:
            result = _produced(version, frame)
            if result is None or result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                error = ErrorCode.REQUEST_TIMED_OUT if result is None else result.error
                self._again(letters, PRODUCE, error, at_us)
            elif result.error is not ErrorCode.NONE:
                self._finish(letters, at_us, DeadLetterCause.REFUSED, result.error)
            else:
                letters.attempts[PRODUCE] = 0
                self._tell(letters, last, DeadLetterCause.WRITTEN, queue.partition, result.base_offset)
                letters.next = last + 1
                if last < letters.given_up.last:
                    self._resolve(letters, at_us)
                    self._begin(letters, at_us)
                else:
                    letters.done(at_us)

        def encode(correlation_id: int) -> bytes:
            return encode_produce_request(version, correlation_id, self._base.node, request)

        self._channels.request(address, PRODUCE, encode, answered, REQUEST_TIMEOUT_US, now_us)

    def _again(self, letters: _Letters, api: int, error: ErrorCode, now_us: int) -> None:
        attempts = letters.attempts[api] = letters.attempts.get(api, 0) + 1
        if attempts >= MAX_ATTEMPTS:
            self._finish(letters, now_us, DeadLetterCause.EXHAUSTED, error)
        else:
            self._base.outbox.timers.at(now_us + backoff_us(attempts), lambda at_us: self._begin(letters, at_us))

    # --------------------------------------------------------------------------------------------------------- results

    def _finish(
        self, letters: _Letters, now_us: int, outcome: DeadLetterCause, error: ErrorCode = ErrorCode.NONE
    ) -> None:
        self._tell(letters, letters.given_up.last, outcome, error=error)
        letters.done(now_us)

    def _tell(
        self,
        letters: _Letters,
        last: Offset,
        outcome: DeadLetterCause,
        queue_partition: int | None = None,
        queue_offset: Offset | None = None,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self._base.recorder.emit(
            ShareDeadLettersSent(
                self._base.node,
                *letters.name,
                group=shown(letters.group_id),
                first=letters.next,
                last=last,
                queue=shown(self._setting(letters.group_id, TOPIC_NAME, "")),
                queue_partition=queue_partition,
                queue_offset=queue_offset,
                outcome=outcome,
                error=None if error is ErrorCode.NONE else error.name,
            )
        )

    # ---------------------------------------------------------------------------------------------------------- copies

    def _resolve(self, letters: _Letters, now_us: int) -> None:
        """Read the records to copy, up to the size of one batch. Source: resolveRound, maybeFetchRecordData"""
        letters.copies, letters.read_to = {}, letters.given_up.last
        topic = self._base.cache.image.topics.get(self._setting(letters.group_id, TOPIC_NAME, ""))
        if self._setting(letters.group_id, COPY_RECORD, "") != "true":
            return
        limit = self._base.config.message_max_bytes if topic is None else topic.log_config.max_message_bytes
        found: dict[Offset, Record] = {}
        try:
            data = memoryview(self._read(letters.name, letters.next, FETCH_BYTES, now_us))
            for position, header in batches(data):
                letters.read_to = header.last_offset
                if not header.is_control:
                    for read_record in read_records(data[position : position + header.size_bytes], header=header):
                        if record_size_bytes(0, read_record.key, read_record.value, read_record.headers) <= limit:
                            found[read_record.offset] = read_record
        except KafkaError:
            letters.read_to = letters.given_up.last
        letters.copies = found


def _created(version: int, frame: bytearray | None) -> ErrorCode | None:
    """Return the result of a CreateTopics response, None if there is no readable response."""
    try:
        topics = [] if frame is None else cold.decode_response(CREATE_TOPICS, version, frame).topics
    except PeerViolation:
        return None
    return ErrorCode(topics[0].error_code) if topics else None


def _produced(version: int, frame: bytearray | None) -> ProducePartitionResponse | None:
    """Return the result of the only partition in a Produce response, None if there is no readable response."""
    try:
        topics = [] if frame is None else decode_produce_response(version, frame).topics
    except PeerViolation:
        return None
    return topics[0][1][0] if topics and topics[0][1] else None
