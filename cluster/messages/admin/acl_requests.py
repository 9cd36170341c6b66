"""DescribeAcls, CreateAcls and DeleteAcls between their messages, the controller and the metadata.

source: AclApis.scala, DescribeAclsResponse.aclsResources, DeleteAclsResponse.filterResult
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cluster.messages.admin.requests import AdminRequest, Entry, RequestEntries, error_fields
from cluster.protocol.entities import Entity
from controller.access import Acl, AclFilter
from controller.acl_control import unknown_part
from controller.inputs import CreateAcl, DeleteAcls, DeleteAclsReply, SingleReply
from replica.errors import ErrorCode

Values = dict[str, object]


def create_acls(asked: AdminRequest) -> RequestEntries:
    entries = [Entry(None, CreateAcl(now_us=asked.now_us, acl=_acl(one))) for one in asked.request.creations]

    def values(replies: Sequence[SingleReply]) -> Values:
        return {"results": [error_fields(reply) for reply in replies]}

    return RequestEntries(entries, values)


def _acl(one: Entity) -> Acl:
    return Acl(
        resource_type=int(one.resource_type),
        resource_name=str(one.resource_name),
        pattern_type=int(one.resource_pattern_type),
        principal=str(one.principal),
        host=str(one.host),
        operation=int(one.operation),
        permission_type=int(one.permission_type),
    )


def delete_acls(asked: AdminRequest) -> RequestEntries:
    filters = [filter_of(one) for one in asked.request.filters]
    unknown = [unknown_part(one) for one in filters]
    known = tuple(one for one, part in zip(filters, unknown, strict=True) if not part)
    entry = Entry(None, DeleteAcls(now_us=asked.now_us, filters=known))

    def values(replies: Sequence[SingleReply]) -> Values:
        (reply,) = replies
        assert isinstance(reply, DeleteAclsReply)
        deleted = iter(reply.deleted)
        return {"filter_results": [_refused(part) if part else _deleted(next(deleted)) for part in unknown]}

    return RequestEntries([entry], values)


def _refused(message: str) -> Values:
    return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": message, "matching_acls": ()}


def _deleted(acls: Iterable[Acl]) -> Values:
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "matching_acls": [{"error_code": ErrorCode.NONE, **acl._asdict()} for acl in acls],
    }


def filter_of(one: Entity) -> AclFilter:
    """Of DescribeAcls, or one of DeleteAcls."""
    name, principal, host = one.resource_name_filter, one.principal_filter, one.host_filter
    return AclFilter(
        resource_type=int(one.resource_type_filter),
        resource_name=None if name is None else str(name),
        pattern_type=int(one.pattern_type_filter),
        principal=None if principal is None else str(principal),
        host=None if host is None else str(host),
        operation=int(one.operation),
        permission_type=int(one.permission_type),
    )


def described(acls: Iterable[Acl]) -> Values:
    """The answer to DescribeAcls: by pattern."""
    patterns: dict[tuple[int, str, int], list[Values]] = {}
    for acl in acls:
        entry: Values = {
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission_type,
        }
        patterns.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(entry)
    resources = [
        {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": entries}
        for (kind, name, pattern), entries in patterns.items()
    ]
    return {"error_code": ErrorCode.NONE, "error_message": None, "resources": resources}
