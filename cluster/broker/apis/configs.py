"""Queries of settings: DescribeConfigs (32), ListConfigResources (74)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from cluster.broker.apis.api import ApiHandler, BrokerParts, Serve, Values
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
from cluster.protocol.config_resources import BROKER, BROKER_LOGGER, GROUP, TOPIC
from cluster.protocol.entities import Entity
from cluster.protocol.versions import DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES
from cluster.server.responder import Call
from cluster.slices import paced
from controller.features import is_elr_enabled
from controller.topics import check_legal
from replica.errors import ErrorCode, KafkaError
from replica.ids import EVERY_BROKER, BrokerId
from replica.rules import NEXT_COORDINATOR_SINCE


class DescribeConfigsHandler(ApiHandler):
    """DescribeConfigs (32): return the settings of topics, of groups and of this broker (KIP-133).

         1  synonyms and sources of a value (KIP-226): the oldest version that Kafka 4 accepts
         2  a throttled client gets its response before the delay (KIP-219)
         3  types, and documentation on request (KIP-569)
         4  flexible

    Source: KafkaApis.handleDescribeConfigsRequest, ConfigHelper.scala
    """

    def __init__(self, broker: BrokerParts) -> None:
        super().__init__(broker)
        self._broker_id = broker.base.identity.broker_id
        self._config = broker.base.config
        self._rules = broker.base.rules

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        # Differs from Kafka: identical resources in one request are described once.
        resources = dict.fromkeys(request.resources)
        self._answer(call, results=(self._described(request, item) for item in paced(resources)))

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
        """Return the settings of a resource.

        Raises:
            KafkaError: if the resource does not exist or cannot be described by this broker.
        """
        if kind == TOPIC:
            check_legal(name)
            topic = self._cache.image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            return topic_entries(topic.config, self._config, self._dynamic())
        if kind in (BROKER, BROKER_LOGGER):
            return self._broker_entries(kind, broker_of(name))
        if kind == GROUP and self._rules.release >= NEXT_COORDINATOR_SINCE:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return group_entries(self._cache.image.group_config.get(name, {}), self._config)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no configs")

    def _broker_entries(self, kind: int, broker_id: BrokerId) -> Iterable[ConfigEntry]:
        """Return the settings of this broker, or the cluster-wide defaults if `broker_id` is EVERY_BROKER.

        Raises:
            KafkaError: INVALID_REQUEST if `broker_id` is another broker, or if loggers are requested.
        """
        if broker_id == EVERY_BROKER and kind == BROKER:
            return default_entries(self._dynamic().default)
        if broker_id != self._broker_id:
            who = f"broker {self._broker_id} cannot describe broker {broker_id}; send the request to that broker"
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the resource name must be a broker id" if broker_id == EVERY_BROKER else who
            )
        if kind == BROKER_LOGGER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "log levels of brokers are not supported")
        return broker_entries(self._config, self._rules, self._broker.own_keys(), self._dynamic())

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
"""Resource types that a request may name. Source: ListConfigResourcesRequest.supportedResourceTypes"""


class ListConfigResourcesHandler(ApiHandler):
    """ListConfigResources (74): return the resources that have settings.

         0  client metrics only, of which there are none (KIP-714)
         1  a filter by type, with topics, brokers, and groups with settings of their own (KIP-1142)

    Source: KafkaApis.handleListConfigResources
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        wanted = getattr(request, "resource_types", None)
        if any(kind not in SUPPORTED for kind in wanted or ()):
            self._answer(call, error_code=ErrorCode.UNSUPPORTED_VERSION)
            return
        image = self._cache.image
        brokers = [str(broker) for broker in sorted(image.brokers)]
        # Differs from Kafka: there GroupConfigManager keeps the name of a group without any settings left until the
        # broker restarts.
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
        self._answer(call, error_code=ErrorCode.NONE, config_resources=found)


APIS: Final[Mapping[int, Serve]] = {
    DESCRIBE_CONFIGS: DescribeConfigsHandler,
    LIST_CONFIG_RESOURCES: ListConfigResourcesHandler,
}
