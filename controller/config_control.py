"""Settings of topics and brokers that are changed while they run (IncrementalAlterConfigs, AlterConfigs).

Source: ConfigurationControlManager, ControllerConfigurationValidator
"""

from __future__ import annotations

from controller import topics
from controller.image import MetadataImage
from controller.inputs import ChangeBrokerConfig, ChangeConfig, TopicReply
from controller.journal import Journal
from controller.metadata import BrokerConfigRecord, ConfigRecord
from controller.partitions import Partitions
from replica.config import ConfigError, DynamicBrokerConfig, TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.ids import EVERY_BROKER
from replica.trace import events as trace


class ConfigControl:
    __slots__ = ("_default_config", "_journal", "_partitions")

    def __init__(self, journal: Journal, partitions: Partitions, default_config: TopicConfig) -> None:
        self._journal = journal
        self._partitions = partitions
        self._default_config = default_config

    @property
    def _image(self) -> MetadataImage:
        return self._journal.image

    def change_topic(self, given: ChangeConfig) -> None:
        """A topic's keys, all or none."""
        if given.topic not in self._image.topics:
            self._refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {given.topic}")
            return
        try:
            complete = topics.complete_config(given.config, self._default_config)
        except KafkaError as error:
            self._refuse(error.code, error.message)
            return
        if given.validate_only:
            self._journal.reply(TopicReply(error=ErrorCode.NONE))
            return
        for key, value in given.config.items():
            self._journal.append(ConfigRecord(topic=given.topic, key=key, value=topics.as_stored(key, complete[key])))
            self._journal.tell(
                trace.ConfigAltered(
                    node=self._journal.node,
                    topic=given.topic,
                    key=key,
                    value=None if value is None else str(value),
                    min_isr=self._image.topics[given.topic].effective_min_isr,
                    reason=f"an operator sets {key} of topic {given.topic} {_to(value)}",
                )
            )
        if "min.insync.replicas" in given.config:
            self._partitions.min_isr_changed(given.topic)
        self._journal.reply(TopicReply(error=ErrorCode.NONE))

    def change_broker(self, given: ChangeBrokerConfig) -> None:
        """A broker need not be there to be configured."""
        try:
            for key, value in given.config.items():
                DynamicBrokerConfig.require(key)
                if value is not None:
                    DynamicBrokerConfig.check(key, value)
        except ConfigError as error:
            # Not INVALID_CONFIG, as of a topic (KAFKA-13609).
            self._refuse(ErrorCode.INVALID_REQUEST, str(error))
            return
        if given.validate_only:
            self._journal.reply(TopicReply(error=ErrorCode.NONE))
            return
        is_of_all = given.broker_id == EVERY_BROKER
        who = "every broker" if is_of_all else self._journal.names(given.broker_id)
        for key, value in given.config.items():
            text = None if value is None else str(value)
            self._journal.append(BrokerConfigRecord(broker_id=given.broker_id, key=key, value=text))
            self._journal.tell(
                trace.ConfigAltered(
                    node=self._journal.node,
                    broker=None if is_of_all else who,
                    key=key,
                    value=text,
                    reason=f"an operator sets {key} of {who} {_to(value)}",
                )
            )
        self._journal.reply(TopicReply(error=ErrorCode.NONE))

    def _refuse(self, error: ErrorCode, message: str) -> None:
        self._journal.reply(TopicReply(error=error, message=message))


def _to(value: object) -> str:
    return "back to its default" if value is None else f"to {value}"
