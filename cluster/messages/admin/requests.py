"""Splits admin clients' requests into one input or one refusal for each topic, partition or resource.

The controller decides the inputs. Its replies are joined to one response.

Source: ControllerApis.scala
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
from controller.inputs import PartitionQuota, PlainReply, Several, SingleInput, SingleReply
from replica.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """An admin client's request, with what is needed to decode it.

    Attributes:
        image: metadata of the active controller.
        config: configuration of the controller, which the brokers share.
        elr: True if the cluster has eligible leader replicas (KIP-966).
        all_features_or_none: True if one invalid feature level fails the whole request.
        quota: quota of new and deleted partitions; None if the client has none.
    """

    header: RequestHeader
    request: Entity
    image: MetadataImage
    config: BrokerConfig
    now_us: int
    elr: bool = False
    all_features_or_none: bool = False
    quota: PartitionQuota | None = None


def refused(error: ErrorCode, message: str) -> PlainReply:
    """Return the reply that refuses an entry. The controller decides nothing then."""
    return PlainReply(error=error, message=message)


class Entry(NamedTuple):
    """One topic, partition or resource of a request. It has either an input for the controller or a refusal."""

    name: str | None
    what: SingleInput | PlainReply
    topic_id: UUID | None = None
    partition: int = -1
    kind: int = 0


class RequestEntries(NamedTuple):
    """The entries of a request, and the function that joins their replies to the fields of the response.

    The response is built in slices, with a possible pause after each entry.
    """

    entries: Sequence[Entry]
    values: Callable[[Sequence[SingleReply]], dict[str, object]]

    def as_input(self, now_us: int) -> Several:
        inputs = (entry.what for entry in paced(self.entries) if not isinstance(entry.what, PlainReply))
        return Several(now_us=now_us, inputs=tuple(inputs))

    def answer(self, decided: Iterable[SingleReply]) -> dict[str, object]:
        """Return the response's fields.

        Args:
            decided: replies to the inputs (`as_input`), in their order.
        """
        replies = iter(decided)
        results = (entry.what if isinstance(entry.what, PlainReply) else next(replies) for entry in paced(self.entries))
        return self.values(Items(results))


def error_fields(reply: SingleReply) -> dict[str, object]:
    """Return the `error_code` and `error_message` of a response's entry."""
    return {"error_code": reply.error, "error_message": reply.message or None}
