"""Converts CreateTopics, DeleteTopics and CreatePartitions requests to controller inputs, and replies to responses.

Source: ControllerApis.createTopics, .deleteTopics, .createPartitions; ReplicationControlManager.createTopic
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from uuid import UUID

from cluster.messages.admin.config_entries import Dynamic, settings_of_all, topic_entries
from cluster.messages.admin.requests import AdminRequest, Entry, RequestEntries, error_fields, refused
from cluster.protocol.entities import Entity
from cluster.slices import paced
from controller.image import MetadataImage
from controller.inputs import CreatePartitions, CreateTopic, CreateTopicReply, DeleteTopic, SingleReply
from controller.topics import check_name
from replica.errors import ErrorCode, KafkaError
from replica.ids import EVERY_BROKER, METADATA_TOPIC, BrokerId

MAX_RECORDS_PER_REQUEST = 10_000
"""A request that would write more metadata records is refused as a whole (QuorumController.MAX_RECORDS_PER_USER_OP)."""
DEFAULT = -1
"""The number of partitions or replicas in a request that asks for the default in the configuration."""


# -------------------------------------------------------------------------------------------------------- CreateTopics


def create_topics(asked: AdminRequest) -> RequestEntries:
    request = asked.request
    names = Counter(str(topic.name) for topic in request.topics)
    entries: list[Entry] = [
        Entry(name, refused(ErrorCode.INVALID_REQUEST, f"the request names topic {name} more than once"))
        for name, count in paced(names.items())
        if count > 1
    ]
    wanted = [topic for topic in request.topics if names[str(topic.name)] == 1]
    size = sum(1 + max(int(topic.num_partitions), len(topic.assignments)) for topic in wanted)
    for topic in paced(wanted):
        name = str(topic.name)
        try:
            _check_size(size)
            entries.append(Entry(name, _new_topic(asked, name, topic)))
        except KafkaError as error:
            entries.append(Entry(name, refused(error.code, error.message)))

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        return {"topics": [_created(asked, entry, reply) for entry, reply in zip(entries, replies, strict=True)]}

    return RequestEntries(entries, values)


def _check_size(records: int) -> None:
    """Refuse a request that would write too many metadata records.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    if records > MAX_RECORDS_PER_REQUEST:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"the request needs {records} metadata records; at most {MAX_RECORDS_PER_REQUEST} are allowed",
        )


def _new_topic(asked: AdminRequest, name: str, topic: Entity) -> CreateTopic:
    """Return the input that creates a topic.

    Raises:
        KafkaError: if the request is invalid.
    """
    if name == METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the internal topic {METADATA_TOPIC} cannot be created")
    check_name(asked.image, name)
    without_value = [str(config.name) for config in topic.configs if config.value is None]
    if without_value:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"these topic configs have no value: {', '.join(without_value)}")
    partitions, factor = int(topic.num_partitions), int(topic.replication_factor)
    assignment = None
    if topic.assignments:
        if (partitions, factor) != (DEFAULT, DEFAULT):
            what = "num_partitions and replication_factor must be -1 if replicas are assigned"
            raise KafkaError(ErrorCode.INVALID_REQUEST, what)
        assignment = _assignment(topic.assignments)
    return CreateTopic(
        now_us=asked.now_us,
        name=name,
        assignment=assignment,
        partitions=None if partitions == DEFAULT else partitions,
        replication_factor=None if factor == DEFAULT else factor,
        config={str(config.name): str(config.value) for config in topic.configs},
        validate_only=bool(asked.request.validate_only),
        quota=asked.quota,
    )


def _assignment(assignments: Sequence[Entity]) -> tuple[tuple[BrokerId, ...], ...]:
    """Return the replicas of each partition.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT if partitions are missing or repeated.
    """
    numbers = Counter(int(assignment.partition_index) for assignment in assignments)
    for number, count in numbers.items():
        if count > 1:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {number} is assigned more than once")
    by_number = {int(assignment.partition_index): tuple(map(int, assignment.broker_ids)) for assignment in assignments}
    if sorted(by_number) != list(range(len(by_number))):
        what = "the assigned partitions must be numbered from 0 without a gap"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, what)
    return tuple(by_number[number] for number in range(len(by_number)))


def _created(asked: AdminRequest, entry: Entry, reply: SingleReply) -> dict[str, object]:
    if not isinstance(reply, CreateTopicReply) or reply.error is not ErrorCode.NONE:
        return {
            "name": entry.name,
            **error_fields(reply),
            "num_partitions": -1,
            "replication_factor": -1,
            "configs": (),
        }
    stored = asked.image.broker_config.get(EVERY_BROKER, {})
    dynamic = Dynamic(default=settings_of_all(stored, asked.config, elr=asked.elr))
    return {
        "name": entry.name,
        "topic_id": reply.topic_id,
        "error_code": ErrorCode.NONE,
        "num_partitions": reply.partitions,
        "replication_factor": reply.replication_factor,
        "configs": [
            {
                "name": config.name,
                "value": config.value,
                "read_only": False,
                "config_source": config.source,
                "is_sensitive": False,
            }
            for config in topic_entries(reply.config, asked.config, dynamic)
        ],
    }


# -------------------------------------------------------------------------------------------------------- DeleteTopics


def delete_topics(asked: AdminRequest) -> RequestEntries:
    if not asked.config.delete_topic_enable:
        old = asked.header.api_version < FIRST_DELETE_WITH_DISABLED
        error = ErrorCode.INVALID_REQUEST if old else ErrorCode.TOPIC_DELETION_DISABLED
        refusal = refused(error, "topics cannot be deleted, because delete.topic.enable is false")
        entries = [Entry(name, refusal, topic_id) for name, topic_id in _named(asked.request)]
    else:
        entries = list(_deletions(asked))

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        return {
            "responses": [
                {"name": entry.name, "topic_id": entry.topic_id, **error_fields(reply)}
                for entry, reply in zip(entries, replies, strict=True)
            ]
        }

    return RequestEntries(entries, values)


FIRST_DELETE_WITH_DISABLED = 3


def _named(request: Entity) -> list[tuple[str | None, UUID | None]]:
    """Return topics by name or, from version 6 on, by id; either the name or the id is None."""
    if hasattr(request, "topic_names"):
        return [(str(name), None) for name in request.topic_names]
    return [(None if topic.name is None else str(topic.name), topic.topic_id) for topic in request.topics]


def _deletions(asked: AdminRequest) -> Iterator[Entry]:
    """Yield each topic once. A topic that occurs twice, by name or by id, is refused."""
    named = Counter(_named(asked.request))
    chosen = Counter(_resolved(asked.image, name, topic_id) for name, topic_id in paced(named))
    for (name, topic_id), count in paced(named.items()):
        resolved = _resolved(asked.image, name, topic_id)
        if name is None and topic_id is None:
            refusal = refused(ErrorCode.INVALID_REQUEST, "the request contains a topic without a name and an id")
        elif name is not None and topic_id is not None:
            refusal = refused(ErrorCode.INVALID_REQUEST, "the request contains a topic with both a name and an id")
        elif count > 1 or (resolved is not None and chosen[resolved] > 1):
            refusal = refused(ErrorCode.INVALID_REQUEST, "the request names this topic more than once")
        elif resolved is None and name is None:
            refusal = refused(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
        elif resolved is None:
            refusal = refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        else:
            known_id = asked.image.topics[resolved].topic_id
            yield Entry(resolved, DeleteTopic(now_us=asked.now_us, name=resolved, quota=asked.quota), known_id)
            continue
        yield Entry(name, refusal, topic_id)


def _resolved(image: MetadataImage, name: str | None, topic_id: UUID | None) -> str | None:
    if name is None:
        return None if topic_id is None else image.topic_names.get(topic_id)
    return name if name in image.topics else None


# ---------------------------------------------------------------------------------------------------- CreatePartitions


def create_partitions(asked: AdminRequest) -> RequestEntries:
    names = Counter(str(topic.name) for topic in asked.request.topics)
    size = sum(max(int(topic.count), 0) for topic in asked.request.topics)
    entries: list[Entry] = []
    for topic in asked.request.topics:
        name = str(topic.name)
        if names[name] > 1:
            if all(entry.name != name for entry in entries):
                refusal = refused(ErrorCode.INVALID_REQUEST, f"the request names topic {name} more than once")
                entries.append(Entry(name, refusal))
            continue
        try:
            _check_size(size)
        except KafkaError as error:
            entries.append(Entry(name, refused(error.code, error.message)))
            continue
        assignment = None
        if topic.assignments is not None:
            assignment = tuple(tuple(map(int, item.broker_ids)) for item in topic.assignments)
        event = CreatePartitions(
            now_us=asked.now_us,
            topic=name,
            count=int(topic.count),
            assignment=assignment,
            validate_only=bool(asked.request.validate_only),
            quota=asked.quota,
        )
        entries.append(Entry(name, event))

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        return {
            "results": [
                {"name": entry.name, **error_fields(reply)} for entry, reply in zip(entries, replies, strict=True)
            ]
        }

    return RequestEntries(entries, values)
