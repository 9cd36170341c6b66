"""Events about client quotas: their changes, and clients that exceed them."""

from __future__ import annotations

from typing import Annotated

from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import QuotaEvent

_KEY = "Kafka's name of the quota"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaAltered(QuotaEvent):
    """An operator set or removed one quota of a user, a client-id or both (KIP-546)."""

    node: column.Node
    entity: Annotated[str, "owner of the quota, such as `client-id p1`"]
    key: Annotated[str, _KEY]
    value: Annotated[str | None, "the new limit; null: the quota was removed"]

    def sentence(self) -> str:
        if self.value is None:
            return f"an operator removed the quota {self.key} of {self.entity}"
        return f"an operator set the quota {self.key} of {self.entity} to {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientThrottled(QuotaEvent):
    """A client began to exceed a quota and is throttled. Its RequestCompleted events have the throttle times."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    key: Annotated[str, _KEY]
    throttle_time_us: Annotated[int, "throttle time of the first response, in microseconds"]
    used: Annotated[int, "the client's use per second: bytes, or microseconds of handler time"]
    limit: Annotated[int, "the quota per second, in the unit of `used`"]

    def sentence(self) -> str:
        wait = f"{self.node} throttled {self.peer} for {self.throttle_time_us // 1000:,} ms"
        return f"{wait}: it used {self._amount(self.used)}, but its {self.key} is {self._amount(self.limit)}"

    def _amount(self, amount: int) -> str:
        if self.key == "request_percentage":
            return f"{amount / 10_000:,.1f} % of a handler"
        return f"{amount:,} bytes per second"
