"""The effects of one input: records applied to the image as they are appended, and events, in causal order.

Source: ControllerResult (records and a response), and the controller's replay of its own records.
"""

from __future__ import annotations

from controller.changes import ChangeEvents, PartitionChange
from controller.image import MetadataImage, PartitionRegistration
from controller.inputs import Action, AppendRecord, EmitNumbered, Reply
from controller.metadata import MetadataRecord
from replica.ids import BrokerEpoch, BrokerId, Names, Offset, TopicPartition
from replica.settings import KAFKAS_OWN, NodeSettings
from replica.trace.events import TraceEvent


class Journal:
    """Shared by the parts of the controller; `take` hands out the actions of the input in progress."""

    __slots__ = ("_actions", "_events", "image", "names", "node", "teller")

    def __init__(self, names: Names, controller_id: BrokerId, settings: NodeSettings = KAFKAS_OWN) -> None:
        self.names = names
        self.node = names(controller_id)
        self.image = MetadataImage(settings, controller_id)
        self.teller = ChangeEvents(node=self.node, names=names)
        self._actions: list[Action] = []
        self._events = 0

    @property
    def next_offset(self) -> Offset:
        return self.image.offset + 1

    def append(self, record: MetadataRecord) -> None:
        offset = self.next_offset
        self.image.apply(record, offset)
        self._actions.append(AppendRecord(offset=offset, record=record))

    def tell(self, event: TraceEvent, cause: int | None = None) -> int:
        """returns: the event's number, a `cause` for later events of the same input"""
        number = self._events
        self._events += 1
        self._actions.append(EmitNumbered(event=event, number=number, cause=cause))
        return number

    def stale_epoch(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> str | None:
        """Why a request with this broker epoch is stale; None: it is not. Source: checkBrokerEpoch"""
        broker, who = self.image.brokers.get(broker_id), self.names(broker_id)
        if broker is None:
            return f"{who} is not registered"
        if broker.broker_epoch != broker_epoch:
            return f"{who} is registered with epoch {broker.broker_epoch}, not with epoch {broker_epoch}"
        return None

    def reply(self, reply: Reply) -> None:
        self._actions.append(reply)

    def change_partition(
        self, topic_partition: TopicPartition, change: PartitionChange, occasion: str, cause: int | None = None
    ) -> None:
        """Append the change, then the events of its election and ISR; `occasion` ends their reasons."""
        before, after = self.append_change(topic_partition, change)
        choice, gone = change.choice, change.struck_out
        for event in self.teller.events(topic_partition, before, after, choice, occasion, gone, has_elr=change.has_elr):
            self.tell(event, cause)

    def append_change(
        self, topic_partition: TopicPartition, change: PartitionChange
    ) -> tuple[PartitionRegistration, PartitionRegistration]:
        """returns: the partition before and after"""
        partitions = self.image.topics[topic_partition.topic].partitions
        before = partitions[topic_partition.partition]
        self.append(change.record)
        return before, partitions[topic_partition.partition]

    def take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions
