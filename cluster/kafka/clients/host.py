"""The host of one Java client. All clients share one JVM, so a kill closes the client and leaves the JVM running."""

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
    """The clients' shared JVM. `bootstrap` lists the brokers' addresses as this JVM reaches them."""

    @property
    def bootstrap(self) -> str: ...

    def tell(self, order: Order) -> None: ...


class JavaClientHost(Host):
    """The host of one Java client.

    A killed client closes its connections, as its kernel would. It cannot be paused alone.
    """

    def __init__(self, fabric: Fabric, name: str, jvm: ClientsOrders, recorder: TraceLog) -> None:
        super().__init__(fabric, name)
        self._jvm = jvm
        self._recorder = recorder
        self._client: JavaProducer | JavaConsumer | None = None

    def call(self, method: Callable[[int], list[Action]]) -> None:
        """Call a method of the Python object that controls the Java client."""
        method(self.time.now_us)

    def client_stand_in(self, order: ClientOrder) -> JavaProducer | JavaConsumer:
        make = JavaProducer if isinstance(order.config, ProducerConfig) else JavaConsumer
        self._client = make(self.name, order, self._recorder, self._jvm.tell, self._begin)
        return self._client

    def _begin(self) -> str:
        assert self.process is None, f"{self.name} is already running"
        self.powered, self.paused = True, False
        self.process = Process()
        self.fabric.move_on()
        return self._jvm.bootstrap

    def sight(self, peer: str) -> ConnectionSight | None:
        """Return a new observer for a connection that the client has opened to `peer`; None if the client has ended."""
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
