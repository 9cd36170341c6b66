"""The machine of one Java client. Its process is a part of the JVM of all clients: what ends is the client in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from cluster.config import ProducerConfig
from cluster.kafka.clients.consumer import JavaConsumer
from cluster.kafka.clients.orders import Order
from cluster.kafka.clients.producer import JavaProducer
from cluster.kafka.clients.sight import ConnectionSight
from cluster.network.host import Host, Process
from cluster.network.world import Fabric
from cluster.node import Action
from cluster.operated import ClientOrder
from replica.trace.events import TraceLog


class ClientsOrders(Protocol):
    """What the hosts of all clients share. bootstrap: of the cluster, as the JVM reaches it"""

    @property
    def bootstrap(self) -> str: ...

    def tell(self, order: Order) -> None: ...


class JavaClientHost(Host):
    """A client that is killed closes its connections, as its kernel would. It cannot be paused alone."""

    def __init__(self, fabric: Fabric, name: str, jvm: ClientsOrders, recorder: TraceLog) -> None:
        super().__init__(fabric, name)
        self._jvm = jvm
        self._recorder = recorder
        self._client: JavaProducer | JavaConsumer | None = None

    def call(self, method: Callable[[int], list[Action]]) -> None:
        """To its stand-in."""
        method(self.time.now_us)

    def client_stand_in(self, order: ClientOrder) -> JavaProducer | JavaConsumer:
        make = JavaProducer if isinstance(order.config, ProducerConfig) else JavaConsumer
        self._client = make(self.name, order, self._recorder, self._jvm.tell, self._begin)
        return self._client

    def _begin(self) -> str:
        assert self.process is None, f"{self.name} runs already"
        self.powered, self.paused = True, False
        self.process = Process()
        self.fabric.move_on()
        return self._jvm.bootstrap

    def sight(self, peer: str) -> ConnectionSight | None:
        """For a connection that it has opened; None: it does not run any more."""
        return None if self._client is None or self.process is None else ConnectionSight(self._client, peer)

    def heard(self, event: dict[str, Any]) -> None:
        if self._client is not None and self.process is not None:
            self._client.heard(event)

    async def kill(self) -> None:
        self._close()
        self._end_process()

    async def power_off(self) -> None:
        self.powered = False
        self._close()
        self._vanish()

    def _close(self) -> None:
        if self.process is not None:
            self._jvm.tell({"do": "close", "client": self.name})
