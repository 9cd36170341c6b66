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

    def sentence(self) -> str:
        if self.value is None:
            return f"an operator takes {self.key} from {self.entity}"
        return f"an operator sets {self.key} of {self.entity} to {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientThrottled(QuotaEvent):
    """A client begins to exceed a quota, and has to wait; for how long each time, its requests show."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    key: Annotated[str, _KEY]
    throttle_time_us: Annotated[int, "how long it has to wait the first time"]
    used: Annotated[int, "what it uses a second: bytes, or microseconds of a handler's time"]
    limit: Annotated[int, "what it may use"]

    def sentence(self) -> str:
        wait = f"{self.node} has {self.peer} wait {self.throttle_time_us // 1000:,} ms"
        return f"{wait}: it uses {self._amount(self.used)}, more than its {self.key} of {self._amount(self.limit)}"

    def _amount(self, amount: int) -> str:
        if self.key == "request_percentage":
            return f"{amount / 10_000:,.1f} % of a handler"
        return f"{amount:,} bytes a second"
