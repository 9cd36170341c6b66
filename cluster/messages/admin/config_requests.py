"""Converts IncrementalAlterConfigs and AlterConfigs requests to controller inputs, and replies to responses.

Source: ControllerApis.handleIncrementalAlterConfigs, .handleLegacyAlterConfigs; ConfigurationControlManager;
ConfigAdminManager.preprocess, which in Kafka runs on the broker
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from cluster.config import BrokerConfig
from cluster.messages.admin.config_entries import is_list
from cluster.messages.admin.requests import AdminRequest, Entry, RequestEntries, error_fields, refused
from cluster.protocol.config_resources import APPEND, BROKER, BROKER_LOGGER, DELETE, GROUP, SET, SUBTRACT, TOPIC
from cluster.protocol.entities import Entity
from cluster.slices import paced
from controller.inputs import ChangeBrokerConfig, ChangeConfig, ChangeGroupConfig, SingleReply
from controller.topics import check_legal
from replica.config import TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.ids import EVERY_BROKER

Changes = dict[str, str | None]


def incremental_alter_configs(asked: AdminRequest) -> RequestEntries:
    """Return the changes that set or delete single keys, or append to or subtract from lists. Other keys stay."""
    return _alter(asked, _incremental)


def alter_configs(asked: AdminRequest) -> RequestEntries:
    """Return the changes that replace all settings of a resource. Keys missing in the request get their defaults."""
    return _alter(asked, _complete)


def _alter(asked: AdminRequest, changes_of: Callable[[Mapping[str, str], Sequence[Entity]], Changes]) -> RequestEntries:
    resources = [
        (int(resource.resource_type), str(resource.resource_name), resource.configs)
        for resource in asked.request.resources
    ]
    counts = Counter((kind, name) for kind, name, _ in resources)
    entries = []
    for kind, name, configs in paced(resources):
        if counts[kind, name] > 1:
            refusal = refused(ErrorCode.INVALID_REQUEST, "the request names this resource more than once")
            entries.append(Entry(name, refusal, kind=kind))
            continue
        try:
            change = _change_of(asked, kind, name, configs, changes_of)
            entries.append(Entry(name, change, kind=kind))
        except KafkaError as error:
            entries.append(Entry(name, refused(error.code, error.message), kind=kind))

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        return {
            "responses": [
                {**error_fields(reply), "resource_type": entry.kind, "resource_name": entry.name}
                for entry, reply in zip(entries, replies, strict=True)
            ]
        }

    return RequestEntries(entries, values)


def _change_of(
    asked: AdminRequest,
    kind: int,
    name: str,
    configs: Sequence[Entity],
    changes_of: Callable[[Mapping[str, str], Sequence[Entity]], Changes],
) -> ChangeConfig | ChangeBrokerConfig | ChangeGroupConfig:
    """Return the change of one resource as a controller input.

    Raises:
        KafkaError: if the request is invalid.
    """
    now_us, validate_only = asked.now_us, bool(asked.request.validate_only)
    twice = [key for key, count in Counter(str(config.name) for config in configs).items() if count > 1]
    if twice:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request has these keys more than once: {', '.join(twice)}")
    if kind == TOPIC:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "settings cannot be changed for all topics at once")
        check_legal(name)
        topic = asked.image.topics.get(name)
        known = {} if topic is None else topic.config
        changes = changes_of(known, configs)
        return ChangeConfig(now_us=now_us, topic=name, config=_news(changes, known), validate_only=validate_only)
    if kind == BROKER:
        # Differs from Kafka, where a broker passes on its own settings only (validateResourceNameIsCurrentNodeId).
        broker_id = broker_of(name)
        known = asked.image.broker_config.get(broker_id, {})
        changes = changes_of(known, configs)
        return ChangeBrokerConfig(now_us=now_us, broker_id=broker_id, config=changes, validate_only=validate_only)
    if kind == GROUP:
        changes = changes_of(asked.image.group_config.get(name, {}), configs)
        return ChangeGroupConfig(now_us=now_us, group=name, config=changes, validate_only=validate_only)
    if kind == BROKER_LOGGER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "log levels of brokers are not supported")
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no configs")


def broker_of(name: str) -> int:
    """Return the broker id in a resource name. The empty name means all brokers.

    Raises:
        KafkaError: INVALID_REQUEST if the name is not a broker id.
    """
    if not name:
        return EVERY_BROKER
    if not (name.isascii() and name.isdigit() and len(name) < 10):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"`{name[:60]}` is not a broker id")
    return int(name)


def _news(changes: Changes, known: Mapping[str, str]) -> Changes:
    return {key: value for key, value in changes.items() if known.get(key) != value}


def _incremental(known: Mapping[str, str], configs: Sequence[Entity]) -> Changes:
    """Return the changes of an incremental request.

    Raises:
        KafkaError: if an operation is invalid.
    """
    changes: Changes = {}
    for config in configs:
        key, value = str(config.name), None if config.value is None else str(config.value)
        operation = int(config.config_operation)
        if operation == DELETE:
            changes[key] = None
        elif value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} has no value")
        elif operation == SET:
            changes[key] = value
        elif operation in (APPEND, SUBTRACT):
            changes[key] = _list(key, known, value, appends=operation == APPEND)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"config operation {operation} of {key} is unknown")
    return changes


def _list(key: str, known: Mapping[str, str], value: str, *, appends: bool) -> str:
    if not is_list(key):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key} is not a list, so values cannot be appended or subtracted")
    keys = {**TopicConfig.keys(), **BrokerConfig.keys()}
    default = str(keys[key].default) if key in keys else ""
    old, parts = _parts(known.get(key, default)), _parts(value)
    if appends:
        return ",".join(dict.fromkeys([*old, *parts]))
    return ",".join(part for part in old if part not in parts)


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _complete(known: Mapping[str, str], configs: Sequence[Entity]) -> Changes:
    """Return the changes of a request that replaces all settings.

    Raises:
        KafkaError: if a value is null.
    """
    changes: Changes = dict.fromkeys(known)
    for config in configs:
        if config.value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{config.name} has no value")
        changes[str(config.name)] = str(config.value)
    return changes
