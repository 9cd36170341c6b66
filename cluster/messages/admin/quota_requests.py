"""Converts AlterClientQuotas and DescribeClientQuotas requests and their responses (KIP-546).

Source: AlterClientQuotasRequest.entries, ClientQuotaControlManager.alterClientQuotas, ClientQuotasImage.describe
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cluster.messages.admin.requests import AdminRequest, Entry, RequestEntries, error_fields, refused
from cluster.protocol.entities import Entity
from controller.client_quotas import ENTITY_TYPES, entity_of
from controller.inputs import AlterClientQuota, PlainReply, SingleReply
from controller.metadata import QuotaEntity
from replica.errors import ErrorCode, KafkaError

EXACT, DEFAULT, SPECIFIED = range(3)
"""Values of DescribeClientQuotasRequest.MATCH_TYPE_*."""
Quotas = Mapping[QuotaEntity, Mapping[str, float]]
Values = dict[str, object]


# --------------------------------------------------------------------------------------------------- AlterClientQuotas


def alter_client_quotas(asked: AdminRequest) -> RequestEntries:
    """Return the changes in a request, one for each entity.

    If an entity occurs twice, its first change is made and the response is an error.
    """
    entities = [
        entity_of({str(part.entity_type): part.entity_name for part in entry.entity}) for entry in asked.request.entries
    ]
    entries: list[Entry] = []
    of: dict[QuotaEntity, int] = {}
    twice: dict[QuotaEntity, str] = {}
    for entity, item in zip(entities, asked.request.entries, strict=True):
        if entity in of:
            twice[entity] = "the request contains this quota entity more than once"
            continue
        of[entity] = len(entries)
        entries.append(Entry(None, _change(asked, entity, item.ops)))

    def values(replies: Sequence[SingleReply]) -> Values:
        return {"entries": [_altered(entity, replies[index], twice.get(entity)) for entity, index in of.items()]}

    return RequestEntries(entries, values)


def _change(asked: AdminRequest, entity: QuotaEntity, ops: Sequence[Entity]) -> AlterClientQuota | PlainReply:
    keys = [str(op.key) for op in ops]
    for key, count in Counter(keys).items():
        if count > 1:
            return refused(ErrorCode.INVALID_REQUEST, f"the request contains {key} more than once")
    return AlterClientQuota(
        now_us=asked.now_us,
        entity=entity,
        quotas={str(op.key): None if op.remove else float(op.value) for op in ops},
        validate_only=bool(asked.request.validate_only),
    )


def _altered(entity: QuotaEntity, reply: SingleReply, twice: str | None) -> Values:
    answer = reply if twice is None else refused(ErrorCode.INVALID_REQUEST, twice)
    return {**error_fields(answer), "entity": named(entity)}


def named(entity: QuotaEntity) -> list[Values]:
    """Return the entity in the form in which messages contain it."""
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]


# ------------------------------------------------------------------------------------------------ DescribeClientQuotas


def describe_client_quotas(request: Entity, quotas: Quotas) -> Values:
    """Return the quotas of every entity that matches the filter.

    Raises:
        KafkaError: if the filter is invalid.
    """
    exact, specified = _filter(request.components)
    return {
        "error_code": ErrorCode.NONE,
        "entries": [
            {"entity": named(entity), "values": [{"key": key, "value": value} for key, value in found.items()]}
            for entity, found in quotas.items()
            if _matches(dict(entity), exact, specified, strict=bool(request.strict))
        ],
    }


def _filter(components: Sequence[Entity]) -> tuple[dict[str, str | None], list[str]]:
    """Return the filter's entity names by type, None for a default, and the types that an entity must have."""
    exact: dict[str, str | None] = {}
    specified: list[str] = []
    for component in components:
        kind, match, how = str(component.entity_type), component.match, int(component.match_type)
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a component of the quota filter has no entity type")
        if kind in exact or kind in specified:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"entity type {kind} occurs more than once in the filter")
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"quotas by entity type `{kind[:60]}` are not supported")
        if how not in (EXACT, DEFAULT, SPECIFIED):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"match type {how} of entity type {kind} is unknown")
        if (match is None) != (how != EXACT):
            name = "no name" if match is None else f"the name `{str(match)[:60]}`"
            rule = "requires one" if how == EXACT else "allows none"
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"the filter has {name} for entity type {kind}, but its match type {rule}"
            )
        if how == SPECIFIED:
            specified.append(kind)
        else:
            exact[kind] = None if match is None else str(match)
    return exact, specified


def _matches(
    names: Mapping[str, str | None], exact: Mapping[str, str | None], specified: Sequence[str], *, strict: bool
) -> bool:
    if strict and len(names) != len(exact) + len(specified):
        return False
    return all(kind in names and names[kind] == name for kind, name in exact.items()) and all(
        kind in names for kind in specified
    )
