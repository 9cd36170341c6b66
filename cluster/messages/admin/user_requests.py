"""AlterUserScramCredentials and DescribeUserScramCredentials between their messages, the controller and the metadata.

source: ScramControlManager.alterCredentials, ScramImage.describe
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cluster.messages.admin.requests import AdminRequest, Entry, RequestEntries, error_fields, refused
from cluster.protocol.entities import Entity
from cluster.slices import paced
from controller.image import MetadataImage
from controller.inputs import AlterScramCredential, SingleReply
from replica.errors import ErrorCode


def alter_user_scram_credentials(asked: AdminRequest) -> RequestEntries:
    """One credential of each user at most."""
    request, now_us = asked.request, asked.now_us
    alterations = [
        AlterScramCredential(now_us=now_us, user=str(one.name), mechanism=int(one.mechanism))
        for one in request.deletions
    ] + [
        AlterScramCredential(
            now_us=now_us,
            user=str(one.name),
            mechanism=int(one.mechanism),
            iterations=int(one.iterations),
            salt=bytes(one.salt),
            salted_password=bytes(one.salted_password),
        )
        for one in request.upsertions
    ]
    counts = Counter(one.user for one in alterations)
    twice = refused(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    by_user = {one.user: one for one in alterations}
    entries = [Entry(user, one if counts[user] == 1 else twice) for user, one in paced(by_user.items())]

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        told = zip(entries, replies, strict=True)
        return {"results": [{"user": entry.name, **error_fields(reply)} for entry, reply in told]}

    return RequestEntries(entries, values)


def describe_user_scram_credentials(request: Entity, image: MetadataImage) -> dict[str, object]:
    """The answer to such a request."""
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
