"""Converts requests about ACLs and SCRAM credentials, and their responses.

Source: AclApis.scala, DescribeAclsResponse.aclsResources, DeleteAclsResponse.filterResult,
ScramControlManager.alterCredentials, ScramImage.describe
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from cluster.messages.admin.requests import AdminRequest, Entry, RequestEntries, error_fields, refused
from cluster.protocol.entities import Entity
from cluster.slices import paced
from controller.access import Acl, AclFilter
from controller.acl_control import unknown_part
from controller.image import MetadataImage
from controller.inputs import AlterScramCredential, CreateAcl, DeleteAcls, DeleteAclsReply, SingleReply
from replica.errors import ErrorCode

Values = dict[str, object]


def create_acls(asked: AdminRequest) -> RequestEntries:
    entries = [Entry(None, CreateAcl(now_us=asked.now_us, acl=_acl(creation))) for creation in asked.request.creations]

    def values(replies: Sequence[SingleReply]) -> Values:
        return {"results": [error_fields(reply) for reply in replies]}

    return RequestEntries(entries, values)


def _acl(entity: Entity) -> Acl:
    return Acl(
        resource_type=int(entity.resource_type),
        resource_name=str(entity.resource_name),
        pattern_type=int(entity.resource_pattern_type),
        principal=str(entity.principal),
        host=str(entity.host),
        operation=int(entity.operation),
        permission_type=int(entity.permission_type),
    )


def delete_acls(asked: AdminRequest) -> RequestEntries:
    filters = [filter_of(item) for item in asked.request.filters]
    unknown = [unknown_part(item) for item in filters]
    known = tuple(item for item, part in zip(filters, unknown, strict=True) if not part)
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


def filter_of(entity: Entity) -> AclFilter:
    """Return the filter in a DescribeAcls request, or one of the filters in a DeleteAcls request."""
    name, principal, host = entity.resource_name_filter, entity.principal_filter, entity.host_filter
    return AclFilter(
        resource_type=int(entity.resource_type_filter),
        resource_name=None if name is None else str(name),
        pattern_type=int(entity.pattern_type_filter),
        principal=None if principal is None else str(principal),
        host=None if host is None else str(host),
        operation=int(entity.operation),
        permission_type=int(entity.permission_type),
    )


def described(acls: Iterable[Acl]) -> Values:
    """Return the fields of a DescribeAcls response, with the ACLs grouped by resource pattern."""
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


def alter_user_scram_credentials(asked: AdminRequest) -> RequestEntries:
    """Return the changes of credentials in a request, at most one for each user."""
    request, now_us = asked.request, asked.now_us
    alterations = [
        AlterScramCredential(now_us=now_us, user=str(deletion.name), mechanism=int(deletion.mechanism))
        for deletion in request.deletions
    ] + [
        AlterScramCredential(
            now_us=now_us,
            user=str(upsertion.name),
            mechanism=int(upsertion.mechanism),
            iterations=int(upsertion.iterations),
            salt=bytes(upsertion.salt),
            salted_password=bytes(upsertion.salted_password),
        )
        for upsertion in request.upsertions
    ]
    counts = Counter(alteration.user for alteration in alterations)
    twice = refused(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    by_user = {alteration.user: alteration for alteration in alterations}
    entries = [Entry(user, item if counts[user] == 1 else twice) for user, item in paced(by_user.items())]

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        answered = zip(entries, replies, strict=True)
        return {"results": [{"user": entry.name, **error_fields(reply)} for entry, reply in answered]}

    return RequestEntries(entries, values)


def describe_user_scram_credentials(request: Entity, image: MetadataImage) -> dict[str, object]:
    """Return the fields of a DescribeUserScramCredentials response."""
    named = [str(user.name) for user in request.users or ()] or [user for user, _ in image.scram]
    counts = Counter(named) if request.users else Counter(dict.fromkeys(named, 1))
    return {
        "error_code": ErrorCode.NONE,
        "results": ({"user": user, **_described(user, counts[user], image)} for user in counts),
    }


def _described(user: str, times: int, image: MetadataImage) -> dict[str, object]:
    if times > 1:
        twice = "Cannot describe SCRAM credentials for the same user twice in a single request: "
        return {"error_code": ErrorCode.DUPLICATE_RESOURCE, "error_message": twice + user}
    found = [
        {"mechanism": mechanism, "iterations": credential.iterations}
        for (name, mechanism), credential in image.scram.items()
        if name == user
    ]
    if not found:
        missing = "Attempt to describe a user credential that does not exist: "
        return {"error_code": ErrorCode.RESOURCE_NOT_FOUND, "error_message": missing + user}
    return {"error_code": ErrorCode.NONE, "credential_infos": found}
