"""Quotas of clients: their entities, their keys and legal values, and how they are changed.
A quota belongs to an entity: a user, a client id, or both. A name of None is the default of its type (KIP-13, KIP-55).
Source: ClientQuotaControlManager, ClientQuotaEntity, QuotaConfig
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.changes import Journal
from controller.image import MetadataImage
from controller.inputs import AlterClientQuota, PlainReply
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
    """Return the entity with these names by type (`user`, `client-id`). A name of None is the default of the type."""
    return tuple(sorted(names.items()))


def described(entity: QuotaEntity) -> str:
    """Describe an entity, e.g. `client-id p1` or `the default user, client-id p1`."""
    return ", ".join(f"the default {kind}" if name is None else f"{kind} {name}" for kind, name in reversed(entity))


def amount(value: float) -> str:
    """Format the value of a quota, without a fraction if it is a whole number."""
    return str(int(value)) if value.is_integer() else str(value)


def check_entity(entity: QuotaEntity) -> None:
    """Check that an entity has one or two known types and no empty name.

    Raises:
        KafkaError: INVALID_REQUEST otherwise.
    """
    if not entity:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a quota must belong to a user, a client-id or both")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            # Simplified: Kafka limits the rate of new connections of an IP address, too (KIP-612).
            known = " and ".join(ENTITY_TYPES)
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"quotas by entity type `{kind[:60]}` are not supported, only by {known}"
            )
        if name == "":
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"the name of the {kind} is empty; the default {kind} must be null"
            )


def check_value(name: str, value: float) -> None:
    """Check that a quota has a known key and a valid value.

    Raises:
        KafkaError: INVALID_REQUEST otherwise.
    """
    if name not in QUOTA_KEYS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"`{name[:60]}` is not a client quota; choose one of {', '.join(QUOTA_KEYS)}"
        )
    # Differs from Kafka, which takes "not a number" for a quota.
    if not value > 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} must be greater than 0, not {value:g}")
    if name in WHOLE_NUMBERS:
        if value > NEVER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} must be at most {NEVER}, not {value:g}")
        if value % 1.0 > _ALMOST_WHOLE:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{name} must be a whole number of bytes per second, not {value:g}"
            )


class ClientQuotaControl:
    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def _image(self) -> MetadataImage:
        return self._journal.image

    def alter(self, event: AlterClientQuota) -> None:
        """Set or remove quotas of one entity, all or none. Only quotas whose value changes get a metadata record."""
        try:
            check_entity(event.entity)
            for key, value in event.quotas.items():
                if value is not None:
                    check_value(key, value)
        except KafkaError as error:
            self._journal.reply(PlainReply(error=error.code, message=error.message))
            return
        if not event.validate_only:
            known = self._image.client_quotas.get(event.entity, {})
            changes = {key: value for key, value in event.quotas.items() if known.get(key) != value}
            for key, value in changes.items():
                self._change(event.entity, key, value)
        self._journal.reply(PlainReply(error=ErrorCode.NONE))

    def _change(self, entity: QuotaEntity, key: str, value: float | None) -> None:
        self._journal.append(ClientQuotaRecord(entity=entity, key=key, value=value))
        self._journal.tell(quota_altered(self._journal.node, entity, key, value))


def quota_altered(node: str, entity: QuotaEntity, key: str, value: float | None) -> trace.ClientQuotaAltered:
    """Return the event of a changed quota."""
    whose, text = described(entity), None if value is None else amount(value)
    return trace.ClientQuotaAltered(node=node, entity=whose, key=key, value=text)
