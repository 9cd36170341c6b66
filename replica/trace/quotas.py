"""Events about client quotas: their changes, and clients that exceed them."""

from __future__ import annotations

from typing import Annotated

from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import QuotaEvent

_KEY = "which quota, as Kafka spells it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaAltered(QuotaEvent):
    """An operator set or removed one quota of a user, a client-id or both (KIP-546)."""

    node: column.Node
    entity: Annotated[str, "whose quota, such as `client-id p1`"]
    key: Annotated[str, _KEY]
    value: Annotated[str | None, "the most that is allowed; absent: no quota any more"]

    def sentence(self) -> str:
        if self.value is None:
            return f"an operator removed {self.key} of {self.entity}"
        return f"an operator set {self.key} of {self.entity} to {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientThrottled(QuotaEvent):
    """A client began to exceed a quota and is throttled. Its RequestCompleted events have the throttle times."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    key: Annotated[str, _KEY]
    throttle_time_us: Annotated[int, "how long it has to wait the first time"]
    used: Annotated[int, "what it uses a second: bytes, or microseconds of a handler's time"]
    limit: Annotated[int, "what it may use"]

    def sentence(self) -> str:
        wait = f"{self.node} throttled {self.peer} for {self.throttle_time_us // 1000:,} ms"
        return f"{wait}: it uses {self._amount(self.used)}, more than its {self.key} of {self._amount(self.limit)}"

    def _amount(self, amount: int) -> str:
        if self.key == "request_percentage":
            return f"{amount / 10_000:,.1f} % of a handler"
        return f"{amount:,} bytes a second"
