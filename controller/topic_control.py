"""Creation, extension and deletion of one topic at a time (CreateTopics, CreatePartitions, DeleteTopics).
Source: ReplicationControlManager.createTopic, .createPartitions, .deleteTopic
"""

from __future__ import annotations

from uuid import NAMESPACE_OID, UUID, uuid5

from controller import topics
from controller.changes import Journal
from controller.image import MetadataImage
from controller.inputs import CreatePartitions, CreateTopic, CreateTopicReply, DeleteTopic, PlainReply
from controller.metadata import PartitionRecord, RemoveTopicRecord, TopicRecord
from controller.placement import place
from replica.causes import PlacementCause
from replica.errors import ErrorCode, KafkaError
from replica.ids import BrokerId, Offset
from replica.trace import events as trace
from replica.trace.ranges import counted


class TopicControl:
    """The part of the controller that creates, extends and deletes topics.

    Args:
        num_partitions: number of partitions of a new topic, if the request has none.
        default_replication_factor: replication factor of a new topic, if the request has none.
        max_partitions: limit for the partitions of the whole cluster.
    """

    __slots__ = ("_default_replication_factor", "_journal", "_max_partitions", "_names", "_num_partitions")

    def __init__(
        self,
        journal: Journal,
        *,
        num_partitions: int,
        default_replication_factor: int,
        max_partitions: int,
    ) -> None:
        self._journal = journal
        self._names = journal.names
        self._num_partitions = num_partitions
        self._default_replication_factor = default_replication_factor
        self._max_partitions = max_partitions

    @property
    def _image(self) -> MetadataImage:
        return self._journal.image

    # ------------------------------------------------------------------------------------------------------- create

    def create(self, event: CreateTopic) -> None:
        try:
            topics.check_name(self._image, event.name)
            config = topics.own_config(event.config)
            assignment, how = self._assignment(event)
            topics.check_room(self._image, len(assignment), self._max_partitions)
            _charge(event, len(assignment))
        except KafkaError as error:
            self._journal.reply(CreateTopicReply(error=error.code, message=error.message))
            return
        # With the offset, a topic that is created again gets another id.
        topic_id = _topic_id(event.name, self._journal.next_offset)
        if not event.validate_only:
            self._journal.append(TopicRecord(name=event.name, topic_id=topic_id, config=config))
            for number, replicas in enumerate(assignment):
                self._create_partition(event.name, number, replicas, how)
        self._journal.reply(
            CreateTopicReply(
                error=ErrorCode.NONE,
                topic_id=topic_id,
                partitions=len(assignment),
                replication_factor=len(assignment[0]),
                config=config,
            )
        )

    def _assignment(self, event: CreateTopic) -> tuple[topics.Assignment, PlacementCause]:
        """Return the replicas of every partition, and whether the request or the controller has chosen them.

        Raises:
            KafkaError: if the request is invalid.
        """
        if event.assignment:
            topics.check_assignment(self._image, event.assignment, self._names)
            return event.assignment, PlacementCause.ASSIGNED
        replication_factor = event.replication_factor
        if replication_factor is None:
            replication_factor = self._default_replication_factor
        number = self._num_partitions if event.partitions is None else event.partitions
        if replication_factor > 0 >= number:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"a topic needs at least one partition, not {number}")
        return self._placed(number, replication_factor)

    def _placed(self, number: int, replication_factor: int) -> tuple[topics.Assignment, PlacementCause]:
        existing = self._image.partition_count
        usable = topics.usable_brokers(self._image)
        return tuple(place(usable, number, replication_factor, start=existing)), PlacementCause.PLACED

    def _create_partition(self, topic: str, number: int, replicas: tuple[BrokerId, ...], how: PlacementCause) -> None:
        """Create a partition. The ISR has all active replicas, and its first member leads."""
        in_sync_replicas = tuple(broker_id for broker_id in replicas if self._image.is_active(broker_id))
        self._journal.append(
            PartitionRecord(
                topic=topic,
                partition=number,
                replicas=replicas,
                in_sync_replicas=in_sync_replicas,
                leader=in_sync_replicas[0],
            )
        )
        teller = self._journal.teller
        self._journal.tell(
            trace.PartitionCreated(
                self._journal.node,
                topic,
                number,
                broker=self._names(in_sync_replicas[0]),
                replicas=teller.named(replicas),
                isr=teller.named(in_sync_replicas),
                leader_epoch=0,
                partition_epoch=0,
                min_isr=self._image.topics[topic].log_config.min_insync_replicas,
                cause=how,
            )
        )

    # --------------------------------------------------------------------------------------------------------- grow

    def create_partitions(self, event: CreatePartitions) -> None:
        try:
            assignment, how = self._further_assignment(event)
            topics.check_room(self._image, len(assignment), self._max_partitions)
            _charge(event, len(assignment))
        except KafkaError as error:
            self._journal.reply(PlainReply(error=error.code, message=error.message))
            return
        if not event.validate_only:
            first = len(self._image.topics[event.topic].partitions)
            for number, replicas in enumerate(assignment, start=first):
                self._create_partition(event.topic, number, replicas, how)
        self._journal.reply(PlainReply(error=ErrorCode.NONE))

    def _further_assignment(self, event: CreatePartitions) -> tuple[topics.Assignment, PlacementCause]:
        """Return the replicas of the added partitions, and whether the request or the controller has chosen them.

        Raises:
            KafkaError: if the request is invalid.
        """
        topic = self._image.topics.get(event.topic)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {event.topic}")
        existing = len(topic.partitions)
        additional = event.count - existing
        if additional <= 0:
            already = (
                f"topic {event.topic} already has {counted(existing, 'partition')}; {event.count} is not an increase"
            )
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, already)
        replication_factor = len(topic.partitions[0].replicas)
        if event.assignment is None:
            return self._placed(additional, replication_factor)
        if len(event.assignment) != additional:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"the request adds {counted(additional, 'partition')}, but assigns replicas to {len(event.assignment)}",
            )
        topics.check_assignment(self._image, event.assignment, self._names, existing, replication_factor)
        return event.assignment, PlacementCause.ASSIGNED

    # ------------------------------------------------------------------------------------------------------- delete

    def delete(self, event: DeleteTopic) -> None:
        topic = self._image.topics.get(event.name)
        if topic is None:
            message = f"there is no topic {event.name}"
            self._journal.reply(PlainReply(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=message))
            return
        try:
            _charge(event, len(topic.partitions))
        except KafkaError as error:
            self._journal.reply(PlainReply(error=error.code, message=error.message))
            return
        self._journal.append(RemoveTopicRecord(name=event.name, topic_id=topic.topic_id))
        self._journal.tell(trace.TopicDeleted(node=self._journal.node, topic=event.name))
        self._journal.reply(PlainReply(error=ErrorCode.NONE))


def _charge(event: CreateTopic | CreatePartitions | DeleteTopic, partitions: int) -> None:
    """Count partitions against the client's quota.

    Raises:
        KafkaError: THROTTLING_QUOTA_EXCEEDED if the quota is exceeded.

    Source: ControllerRequestContext.applyPartitionChangeQuota
    """
    if event.quota is not None and not event.quota.record(partitions, event.now_us):
        raise KafkaError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            "the client exceeded its quota controller_mutation_rate for creating and deleting partitions",
        )


def _topic_id(name: str, offset: Offset) -> UUID:
    return uuid5(NAMESPACE_OID, f"{name}/{offset}")
