"""Quotas of clients: who may have one, which keys and values are legal, and how they are changed.

A quota belongs to an entity: a user, a client-id, or both; a name of None is the default of its type (KIP-13, KIP-55).
source: ClientQuotaControlManager, ClientQuotaEntity, QuotaConfig
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.changes import Journal
from controller.image import MetadataImage
from controller.inputs import AlterClientQuota, TopicReply
from controller.metadata import ClientQuotaRecord, QuotaEntity
from replica.config import NEVER
from replica.errors import ErrorCode, KafkaError
from replica.trace import events as trace

USER, CLIENT_ID = "user", "client-id"
ENTITY_TYPES: Final = (USER, CLIENT_ID)
PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE = "request_percentage", "controller_mutation_rate"
WHOLE_NUMBERS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
QUOTA_KEYS: Final = (*WHOLE_NUMBERS, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
_ALMOST_WHOLE: Final = 1e-6


def entity_of(names: Mapping[str, str | None]) -> QuotaEntity:
    """names: by type of entity, None for the default"""
    return tuple(sorted(names.items()))


def described(entity: QuotaEntity) -> str:
    """In words: `client-id p1`, `the default user, client-id p1`."""
    return ", ".join(f"the default {kind}" if name is None else f"{kind} {name}" for kind, name in reversed(entity))


def amount(value: float) -> str:
    """Without a fraction where there is none."""
    return str(int(value)) if value.is_integer() else str(value)


def check_entity(entity: QuotaEntity) -> None:
    """raises: KafkaError INVALID_REQUEST"""
    if not entity:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a quota has to belong to a user, a client-id or both")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            # Simplified: Kafka limits the rate of new connections of an IP address, too (KIP-612).
            known = " and ".join(ENTITY_TYPES)
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there are no quotas by `{kind[:60]}` here, only by {known}")
        if name == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the name of a {kind} is empty; the default has none at all")


def check_value(name: str, value: float) -> None:
    """raises: KafkaError INVALID_REQUEST"""
    if name not in QUOTA_KEYS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"`{name[:60]}` is no quota of clients; there are {', '.join(QUOTA_KEYS)}"
        )
    # Differs from Kafka, which takes "not a number" for a quota.
    if not value > 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} must be greater than 0, not {value:g}")
    if name in WHOLE_NUMBERS:
        if value > NEVER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{value:g} is more than {name} can be")
        if value % 1.0 > _ALMOST_WHOLE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is a whole number of bytes a second, not {value:g}")


class ClientQuotaControl:
    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def _image(self) -> MetadataImage:
        return self._journal.image

    def alter(self, given: AlterClientQuota) -> None:
        """Sets the keys of one entity, all or none; records only what changes."""
        try:
            check_entity(given.entity)
            for key, value in given.quotas.items():
                if value is not None:
                    check_value(key, value)
        except KafkaError as error:
            self._journal.reply(TopicReply(error=error.code, message=error.message))
            return
        if not given.validate_only:
            known = self._image.client_quotas.get(given.entity, {})
            changes = {key: value for key, value in given.quotas.items() if known.get(key) != value}
            for key, value in changes.items():
                self._change(given.entity, key, value)
        self._journal.reply(TopicReply(error=ErrorCode.NONE))

    def _change(self, entity: QuotaEntity, key: str, value: float | None) -> None:
        self._journal.append(ClientQuotaRecord(entity=entity, key=key, value=value))
        self._journal.tell(quota_altered(self._journal.node, entity, key, value))


def quota_altered(node: str, entity: QuotaEntity, key: str, value: float | None) -> trace.ClientQuotaAltered:
    """The event of a change."""
    whose, text = described(entity), None if value is None else amount(value)
    return trace.ClientQuotaAltered(node=node, entity=whose, key=key, value=text)
