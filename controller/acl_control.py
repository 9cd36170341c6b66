"""The part of the controller that adds and removes ACLs. Source: AclControlManager, AclApis"""

from __future__ import annotations

from typing import Final
from uuid import NAMESPACE_OID, uuid5

from controller.access import CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, Permission, ResourceType, record_of
from controller.changes import Journal
from controller.inputs import CreateAcl, DeleteAcls, DeleteAclsReply, PlainReply
from controller.metadata import RemoveAccessControlEntryRecord
from replica.errors import ErrorCode

_NONE_OF_RULES: Final = ("UNKNOWN", "ANY")


class AclControl:
    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def create(self, event: CreateAcl) -> None:
        """Add a rule. If it exists already, nothing changes, and the reply has no error."""
        refusal = _refusal(event.acl)
        if not refusal and event.acl not in self._journal.image.acls:
            # Simplified: Kafka's id is random. This id is unique, too, since an offset is used once.
            acl_id = uuid5(NAMESPACE_OID, f"acl/{self._journal.next_offset}")
            self._journal.append(record_of(acl_id, event.acl))
        error = ErrorCode.INVALID_REQUEST if refusal else ErrorCode.NONE
        self._journal.reply(PlainReply(error=error, message=refusal))

    def delete(self, event: DeleteAcls) -> None:
        acls = self._journal.image.acls
        deleted = tuple(tuple(acl for acl in acls if wanted.matches(acl)) for wanted in event.filters)
        for acl in dict.fromkeys(acl for found in deleted for acl in found):
            self._journal.append(RemoveAccessControlEntryRecord(id=acls.id_of(acl)))
        self._journal.reply(DeleteAclsReply(deleted=deleted))


def _refusal(acl: Acl) -> str:
    """Return why a rule is invalid, or an empty text if it is valid. The checks have Kafka's order."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    # Differs from Kafka: a broker there closes the connection over a code that it does not know.
    if (kind := name_of(ResourceType, acl.resource_type)) in _NONE_OF_RULES:
        return f"Invalid resourceType {kind}"
    if (pattern := name_of(PatternType, acl.pattern_type)) not in ("LITERAL", "PREFIXED"):
        return f"Invalid patternType {pattern}"
    if (operation := name_of(Operation, acl.operation)) in _NONE_OF_RULES:
        return f"Invalid operation {operation}"
    if (permission := name_of(Permission, acl.permission_type)) not in ("DENY", "ALLOW"):
        return f"Invalid permissionType {permission}"
    if ":" not in acl.principal:
        missing = "(no colon is present separating the principal type from the principal name)"
        return f"Could not parse principal from `{acl.principal}` {missing}"
    return ""


def unknown_part(wanted: AclFilter) -> str:
    """Return which part of a filter has an unknown code, or an empty text if all codes are known.

    Source: validateFilter
    """
    if "UNKNOWN" in (name_of(ResourceType, wanted.resource_type), name_of(PatternType, wanted.pattern_type)):
        return "Unknown patternFilter."
    if "UNKNOWN" in (name_of(Operation, wanted.operation), name_of(Permission, wanted.permission_type)):
        return "Unknown entryFilter."
    return ""


def name_of(codes: type[ResourceType] | type[PatternType] | type[Operation] | type[Permission], code: int) -> str:
    """Return the name of a code; UNKNOWN if Kafka does not know it."""
    return next((item.name for item in codes if item.value == code), "UNKNOWN")
