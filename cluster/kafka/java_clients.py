"""Runs the Java clients' shared JVM, and passes each of its events to the client concerned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.kafka.clients.helper import MAIN, ClientsJvm
from cluster.kafka.clients.host import JavaClientHost
from cluster.kafka.clients.orders import Order
from cluster.kafka.jvm import java_command
from replica.trace.events import TraceLog

if TYPE_CHECKING:
    from cluster.kafka.fabric import KafkaFabric

HEAP_MB = 128
LOGGING = """<Configuration status="OFF">
<Appenders><Console name="c" target="SYSTEM_ERR">
<PatternLayout pattern="%d{UNIX_MILLIS} %p %m (%c{1})%n"/>
</Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="c"/></Root></Loggers>
</Configuration>
"""


class JavaClients:
    """The Java clients of a run.

    Args:
        classes: the compiled program of the clients.
        names: names of all clients.
    """

    def __init__(self, fabric: KafkaFabric, trace: TraceLog, classes: Path, names: Sequence[str]) -> None:
        self.names = names
        self._fabric = fabric
        self._trace = trace
        self._classes = classes
        self._jvm: ClientsJvm | None = None

    def host(self, name: str) -> JavaClientHost:
        return JavaClientHost(self._fabric, name, self, self._trace)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._fabric.brokers)

    def start(self, folder: Path) -> None:
        """Start the JVM, with its files in `folder`, and a task that reads its events."""
        hosts, logging = folder / "clients.hosts", folder / "clients.xml"
        hosts.write_text(self._fabric.addresses.hosts_file(None), encoding="ascii")
        logging.write_text(LOGGING, encoding="ascii")
        properties = {"jdk.net.hosts.file": str(hosts), "log4j2.configurationFile": str(logging)}
        command = java_command(self._fabric.home, [MAIN], properties=properties, heap_mb=HEAP_MB)
        index = command.index("-cp") + 1
        command[index] = f"{command[index]}{os.pathsep}{self._classes}"
        self._jvm = ClientsJvm(command, folder / "clients.log", self._heard)
        self._fabric.nursery.start_soon(self._jvm.run)

    @property
    def is_ready(self) -> bool:
        return self._jvm is not None and self._jvm.is_ready

    @property
    def died_of(self) -> str | None:
        return None if self._jvm is None else self._jvm.died_of

    def tell(self, order: Order) -> None:
        assert self._jvm is not None, "the JVM of the Java clients is not running"
        self._jvm.tell(order)

    def _heard(self, event: dict[str, Any]) -> None:
        self._fabric.time.enter()
        host = self._fabric.hosts.get(event["client"])
        if isinstance(host, JavaClientHost):
            host.heard(event)

    def stand_still(self) -> None:
        """Stop the JVM at the end of the run."""
        if self._jvm is not None:
            self._jvm.stop()

    def end_at_once(self) -> None:
        if self._jvm is not None:
            self._jvm.end_at_once()
