"""Dynamic settings of topics, brokers and groups (IncrementalAlterConfigs, AlterConfigs), and levels of features.
Source: ConfigurationControlManager, ControllerConfigurationValidator
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller import topics
from controller.changes import Journal
from controller.features import ELR_VERSION, KRAFT_UPGRADE_SINCE, UPGRADE, finalized, refusal
from controller.image import MetadataImage
from controller.inputs import ChangeBrokerConfig, ChangeConfig, ChangeFeatureLevels, ChangeGroupConfig, PlainReply
from controller.metadata import (
    KRAFT_VERSION,
    BrokerConfigRecord,
    ConfigRecord,
    FeatureLevelRecord,
    GroupConfigRecord,
    VotersRecord,
)
from controller.partitions import Partitions
from replica.causes import ConfigCause
from replica.config import NodeSettings
from replica.errors import ErrorCode, KafkaError
from replica.ids import EVERY_BROKER, BrokerId
from replica.rules import NEXT_COORDINATOR_SINCE, Rules
from replica.trace import events as trace
from replica.wording import shown

MIN_ISR = "min.insync.replicas"


class ConfigControl:
    """The part of a controller that changes dynamic settings. `settings` are the static settings of its node."""

    __slots__ = ("_journal", "_partitions", "_rules", "_settings", "_upgraded_voters")

    def __init__(
        self,
        journal: Journal,
        partitions: Partitions,
        settings: NodeSettings,
        rules: Rules,
        upgraded_voters: Callable[[], VotersRecord | None],
    ) -> None:
        self._journal = journal
        self._partitions = partitions
        self._settings = settings
        self._rules = rules
        self._upgraded_voters = upgraded_voters

    @property
    def _image(self) -> MetadataImage:
        return self._journal.image

    def change_topic(self, event: ChangeConfig) -> None:
        """Change settings of a topic, all or none. A key that already has its new value gets no metadata record.

        Source: ConfigurationControlManager.incrementalAlterConfigResource
        """
        if event.topic not in self._image.topics:
            self._refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {event.topic}")
            return
        try:
            stored = topics.checked_config(event.config)
        except KafkaError as error:
            self._refuse(error.code, error.message)
            return
        if event.validate_only:
            self._journal.reply(PlainReply(error=ErrorCode.NONE))
            return
        known = self._image.topics[event.topic].config
        changed = {key: value for key, value in event.config.items() if stored[key] != known.get(key)}
        for key, value in changed.items():
            self._journal.append(ConfigRecord(topic=event.topic, key=key, value=stored[key]))
            self._journal.tell(
                trace.ConfigAltered(
                    node=self._journal.node,
                    topic=event.topic,
                    key=key,
                    value=None if value is None else str(value),
                    min_isr=self._image.topics[event.topic].log_config.min_insync_replicas,
                    cause=ConfigCause.OPERATOR,
                )
            )
        if MIN_ISR in changed:
            self._partitions.min_isr_changed([event.topic])
        self._journal.reply(PlainReply(error=ErrorCode.NONE))

    def change_broker(self, event: ChangeBrokerConfig) -> None:
        """Change settings of one broker, which need not be registered, or of all brokers."""
        of_all = event.broker_id == EVERY_BROKER
        try:
            self._check_min_isr(event.config, of_all=of_all)
            known = self._image.dynamic_config(event.broker_id)
            stored = self._settings.check(event.config, known, of_all=of_all)
        except KafkaError as error:
            self._refuse(error.code, error.message)
            return
        if event.validate_only:
            self._journal.reply(PlainReply(error=ErrorCode.NONE))
            return
        before = self._min_isrs() if MIN_ISR in stored else {}
        for key, value in stored.items():
            self._set(event.broker_id, key, value, ConfigCause.OPERATOR)
        if MIN_ISR in stored:
            self._tell_min_isrs(before)
            self._partitions.min_isr_changed(list(self._image.topics))
        self._journal.reply(PlainReply(error=ErrorCode.NONE))

    def change_group(self, event: ChangeGroupConfig) -> None:
        """Change settings of one group, which need not exist.

        A key that already has its new value gets no metadata record.
        """
        known = self._image.group_config.get(event.group, {})
        try:
            if self._rules.release < NEXT_COORDINATOR_SINCE:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "groups have no settings before Kafka 4.0")
            if not event.group:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            stored = self._settings.check_group(event.config, known)
        except KafkaError as error:
            self._refuse(error.code, error.message)
            return
        if not event.validate_only:
            for key, value in stored.items():
                if value != known.get(key):
                    self._set_of_group(event.group, key, value)
        self._journal.reply(PlainReply(error=ErrorCode.NONE))

    def _set_of_group(self, group: str, key: str, value: str | None) -> None:
        self._journal.append(GroupConfigRecord(group=group, key=key, value=value))
        self._journal.tell(
            trace.ConfigAltered(
                node=self._journal.node,
                group=shown(group),
                key=key,
                value=value,
                cause=ConfigCause.OPERATOR,
            )
        )

    def _set(self, broker_id: BrokerId, key: str, value: str | None, by: ConfigCause) -> None:
        self._journal.append(BrokerConfigRecord(broker_id=broker_id, key=key, value=value))
        self._journal.tell(
            trace.ConfigAltered(
                node=self._journal.node,
                broker=None if broker_id == EVERY_BROKER else self._journal.names(broker_id),
                key=key,
                value=value,
                cause=by,
            )
        )

    def _min_isrs(self) -> dict[str, int]:
        """Return the min.insync.replicas of each topic. If the defaults of brokers differ, the lowest is used."""
        image = self._image
        settings = [image.dynamic_config(broker_id) for broker_id in (EVERY_BROKER, *image.broker_config)]
        lowest = min(self._settings.topic_defaults(dynamic).min_insync_replicas for dynamic in settings)
        return {
            name: topic.log_config.min_insync_replicas if MIN_ISR in topic.config else lowest
            for name, topic in image.topics.items()
        }

    def _tell_min_isrs(self, before: Mapping[str, int]) -> None:
        """Emit an event for each topic whose min.insync.replicas differs from `before`, since a default has changed."""
        for topic, min_isr in self._min_isrs().items():
            if min_isr != before[topic]:
                event = trace.ConfigAltered(
                    node=self._journal.node,
                    topic=topic,
                    key=MIN_ISR,
                    value=str(min_isr),
                    min_isr=min_isr,
                    cause=ConfigCause.DEFAULT,
                )
                self._journal.tell(event)

    def _check_min_isr(self, config: Mapping[str, object], *, of_all: bool) -> None:
        """Check that min.insync.replicas stays equal on all brokers if the cluster has an ELR.

        Raises:
            KafkaError: INVALID_CONFIG otherwise.

        Source: ConfigurationControlManager.isDisallowedBrokerMinIsrTransition, .isDisallowedClusterMinIsrTransition
        """
        if not self._partitions.has_elr or MIN_ISR not in config:
            return
        if not of_all:
            message = f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        if config[MIN_ISR] is None:
            message = f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)

    def update_features(self, event: ChangeFeatureLevels) -> None:
        """Change the levels of features.

        Source: FeatureControlManager.updateFeatures, ConfigurationControlManager.updateFeatures
        """
        known = {item.name: item for item in finalized(self._rules, self._image.feature_levels)}
        for name, level in event.levels.items():
            upgrade_type = event.upgrade_types.get(name, UPGRADE)
            if why := refusal(self._image.node_id, known.get(name), name, level, upgrade_type):
                self._refuse(ErrorCode.INVALID_UPDATE_VERSION, why)
                return
        new_voters = None
        levels: Mapping[str, int] = event.levels
        if self._rules.release >= KRAFT_UPGRADE_SINCE and KRAFT_VERSION in levels:
            # Its level is not in a FeatureLevelRecord: the voters in the log are kraft.version 1.
            levels = {name: level for name, level in levels.items() if name != KRAFT_VERSION}
            if event.levels[KRAFT_VERSION] > known[KRAFT_VERSION].level:
                new_voters = self._upgraded_voters()
                if new_voters is None:
                    why = f"Invalid upgrade of {KRAFT_VERSION} to 1 because not all of the voters support it"
                    self._refuse(ErrorCode.INVALID_UPDATE_VERSION, why)
                    return
        if event.validate_only:
            self._journal.reply(PlainReply(error=ErrorCode.NONE))
            return
        if new_voters is not None:
            self._journal.append(new_voters)
        if levels.get(ELR_VERSION, 0) > 0:
            self._make_min_isr_the_same()
        for name, level in levels.items():
            self._journal.append(FeatureLevelRecord(name=name, feature_level=level))
            altered = trace.ConfigAltered(
                node=self._journal.node, key=name, value=str(level), cause=ConfigCause.FEATURE
            )
            self._journal.tell(altered)
        self._journal.reply(PlainReply(error=ErrorCode.NONE))

    def _make_min_isr_the_same(self) -> None:
        """Replace the min.insync.replicas of single brokers by one value for all, since the ELR depends on it.

        Source: ConfigurationControlManager.maybeGenerateElrSafetyRecords
        """
        before, settings, by = self._min_isrs(), self._image.broker_config, ConfigCause.ELR
        if MIN_ISR not in settings.get(EVERY_BROKER, {}):
            own = self._settings.topic_defaults({}).min_insync_replicas
            self._set(EVERY_BROKER, MIN_ISR, str(own), by)
        for broker_id in sorted(broker_id for broker_id, config in settings.items() if MIN_ISR in config):
            if broker_id != EVERY_BROKER:
                self._set(broker_id, MIN_ISR, None, by)
        self._tell_min_isrs(before)

    def _refuse(self, error: ErrorCode, message: str) -> None:
        self._journal.reply(PlainReply(error=error, message=message))
