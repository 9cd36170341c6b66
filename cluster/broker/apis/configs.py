"""Settings as this broker knows them: DescribeConfigs (32), ListConfigResources (74)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve, Values
from cluster.messages.admin.config_entries import (
    ConfigEntry,
    Dynamic,
    broker_entries,
    default_entries,
    group_entries,
    settings_of_all,
    topic_entries,
)
from cluster.messages.admin.config_requests import broker_of
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.config_resources import BROKER, BROKER_LOGGER, GROUP, TOPIC
from cluster.protocol.entities import Entity
from cluster.protocol.versions import DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES, RequestHeader
from cluster.slices import paced
from controller.features import is_elr_enabled
from controller.topics import check_legal
from replica.errors import ErrorCode, KafkaError
from replica.ids import EVERY_BROKER, BrokerId
from replica.rules import WITH_GROUP_SETTINGS


class DescribeConfigsHandler:
    """DescribeConfigs (32): the settings of topics, of groups and of this broker (KIP-133).

         1  synonyms and sources of a value (KIP-226): the oldest version that Kafka 4 takes
         2  a throttled client is answered first and held back then (KIP-219)
         3  types, and documentation on request (KIP-569)
         4  flexible

    source: KafkaApis.handleDescribeConfigsRequest, ConfigHelper.scala
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._broker_id = broker.base.identity.broker_id
        self._config = broker.base.config
        self._rules = broker.base.rules
        self._own_keys = broker.own_keys
        self._cache = broker.base.cache
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        # Differs from Kafka: a resource that is named twice in the same words is described once.
        resources = dict.fromkeys(request.resources)
        self._answer(connection, header, results=(self._described(request, one) for one in paced(resources)))

    def _described(self, request: Entity, resource: Entity) -> Values:
        kind, name = int(resource.resource_type), str(resource.resource_name)
        result: Values = {"resource_type": kind, "resource_name": name, "configs": ()}
        try:
            entries = self._entries(kind, name)
        except KafkaError as error:
            return {**result, "error_code": error.code, "error_message": error.message}
        wanted = frozenset(resource.configuration_keys or ())
        found = [entry for entry in entries if not wanted or entry.name in wanted]
        return {**result, "error_code": ErrorCode.NONE, "configs": [_config(request, entry) for entry in found]}

    def _entries(self, kind: int, name: str) -> Iterable[ConfigEntry]:
        """raises: KafkaError"""
        if kind == TOPIC:
            check_legal(name)
            topic = self._cache.image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            return topic_entries(topic.config, self._config, self._dynamic())
        if kind in (BROKER, BROKER_LOGGER):
            return self._broker_entries(kind, broker_of(name))
        if kind == GROUP and self._rules.release in WITH_GROUP_SETTINGS:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return group_entries(self._cache.image.group_config.get(name, {}), self._config)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings here")

    def _broker_entries(self, kind: int, broker_id: BrokerId) -> Iterable[ConfigEntry]:
        """raises: KafkaError"""
        if broker_id == EVERY_BROKER and kind == BROKER:
            return default_entries(self._dynamic().default)
        if broker_id != self._broker_id:
            who = f"this is broker {self._broker_id}; broker {broker_id} has to be asked itself"
            raise KafkaError(ErrorCode.INVALID_REQUEST, "no broker is named" if broker_id == EVERY_BROKER else who)
        if kind == BROKER_LOGGER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a broker has no loggers here whose level could be set")
        return broker_entries(self._config, self._rules, self._own_keys(), self._dynamic())

    def _dynamic(self) -> Dynamic:
        image = self._cache.image
        stored, has_elr = image.broker_config, is_elr_enabled(self._rules, image.feature_levels)
        of_all = settings_of_all(stored.get(EVERY_BROKER, {}), self._config, elr=has_elr)
        return Dynamic(stored.get(self._broker_id, {}), of_all)


def _config(request: Entity, entry: ConfigEntry) -> Values:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [synonym._asdict() for synonym in synonyms],
        "config_type": entry.type,
        "documentation": entry.documentation if getattr(request, "include_documentation", False) else None,
    }


CLIENT_METRICS = 16
SUPPORTED = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)
"""ListConfigResourcesRequest.supportedResourceTypes; of client metrics there are none here."""


class ListConfigResourcesHandler:
    """ListConfigResources (74): what has settings.

         0  client metrics alone, which there are none of (KIP-714)
         1  by type: topics, brokers, and groups that have settings of their own, too (KIP-1142)

    source: KafkaApis.handleListConfigResources
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._cache = broker.base.cache
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        wanted = getattr(request, "resource_types", None)
        if any(kind not in SUPPORTED for kind in wanted or ()):
            self._answer(connection, header, error_code=ErrorCode.UNSUPPORTED_VERSION)
            return
        image = self._cache.image
        brokers = [str(broker) for broker in sorted(image.brokers)]
        # Differs from Kafka: there GroupConfigManager keeps the name of a group whose settings are all taken back,
        # until the broker restarts.
        there = {
            TOPIC: sorted(image.topics),
            BROKER: brokers,
            BROKER_LOGGER: brokers,
            GROUP: sorted(image.group_config),
        }
        types = () if wanted is None else wanted or tuple(there)
        found = [
            {"resource_type": kind, "resource_name": name}
            for kind in sorted(set(types))
            for name in there.get(kind, ())
        ]
        self._answer(connection, header, error_code=ErrorCode.NONE, config_resources=found)


APIS: Final[Mapping[int, Serve]] = {
    DESCRIBE_CONFIGS: DescribeConfigsHandler,
    LIST_CONFIG_RESOURCES: ListConfigResourcesHandler,
}
