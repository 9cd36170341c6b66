"""Events about quotas of clients: who sets them, and which clients exceed them."""

from __future__ import annotations

from typing import Annotated

from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import QuotaEvent

_KEY = "which quota, as Kafka spells it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaAltered(QuotaEvent):
    """An operator set one quota of a user, a client-id or both, or took it away (KIP-546)."""

    node: column.Node
    entity: Annotated[str, "whose quota, such as `client-id p1`"]
    key: Annotated[str, _KEY]
    value: Annotated[str | None, "the most that is allowed; absent: no quota any more"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientThrottled(QuotaEvent):
    """A client begins to exceed a quota, and has to wait; for how long each time, its requests show."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    key: Annotated[str, _KEY]
    throttle_time_us: Annotated[int, "how long it has to wait the first time"]
    reason: column.Reason
