"""Requests of admin clients to the controller, taken apart: for each topic, partition or resource of a request an
input to decide, or a refusal that needs no decision; and how the replies become one answer again.

source: ControllerApis.scala
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from cluster.config import BrokerConfig
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
from cluster.slices import Items, paced
from controller.image import MetadataImage
from controller.inputs import PartitionQuota, Several, SingleInput, SingleReply, TopicReply
from replica.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """image: the active controller's own     config: of the controller, which is that of the brokers, too
    elr: whether the cluster has eligible leader replicas (KIP-966)
    all_features_or_none: whether one feature that cannot have its level spoils all of a request
    quota: of new and deleted partitions; None: its client has none
    """

    header: RequestHeader
    request: Entity
    image: MetadataImage
    config: BrokerConfig
    now_us: int
    elr: bool = False
    all_features_or_none: bool = False
    quota: PartitionQuota | None = None


def refused(error: ErrorCode, message: str) -> TopicReply:
    """A reply that needs no decision."""
    return TopicReply(error=error, message=message)


class Entry(NamedTuple):
    """One topic, partition or resource of a request: its name there, and the decision to make about it."""

    name: str | None
    what: SingleInput | TopicReply
    topic_id: UUID | None = None
    partition: int = -1
    kind: int = 0


class RequestEntries(NamedTuple):
    """values: the fields of the answer, of one reply for each entry; it pauses where it goes from one to the next"""

    entries: Sequence[Entry]
    values: Callable[[Sequence[SingleReply]], dict[str, object]]

    def as_input(self, now_us: int) -> Several:
        inputs = (entry.what for entry in paced(self.entries) if not isinstance(entry.what, TopicReply))
        return Several(now_us=now_us, inputs=tuple(inputs))

    def answer(self, decided: Iterable[SingleReply]) -> dict[str, object]:
        """decided: the replies to `as_input`, in its order"""
        replies = iter(decided)
        told = (entry.what if isinstance(entry.what, TopicReply) else next(replies) for entry in paced(self.entries))
        return self.values(Items(told))


def error_fields(reply: SingleReply) -> dict[str, object]:
    """`error_code` and `error_message`, as every entry of an answer has them."""
    return {"error_code": reply.error, "error_message": reply.message or None}
