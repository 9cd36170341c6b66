"""What can be seen of a cluster of Kafka brokers, put into the trace of a run while it goes on.

Files are looked at every few milliseconds, and before any step of the run whose clock asks for it, so that a record is
in a log before its ack is in the trace. Nothing is written, and no broker is asked for more than a consumer would ask.
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from cluster.kafka.observe.observed import ObservedNode, RunTime
from replica.trace.events import TraceLog

LOOK_S = 0.01
SAMPLE_US = 100_000
"""High watermarks are sampled so often."""


class KafkaObserver:
    """nodes: by name; any of them may be down, paused or without a disk at any time"""

    def __init__(self, trace: TraceLog, time: RunTime, nodes: Mapping[str, ObservedNode]) -> None:
        self._trace = trace
        self._time = time
        self._nodes = dict(nodes)
        self._running: dict[str, None] = {}

    def started(self, name: str) -> None:
        """A process of this node begins. What its directory held until now was not its doing."""
        self._running[name] = None

    def stopped(self, name: str) -> None:
        """Its process is over, or stands still until it dies: a last look is taken, and no other until it starts."""
        self.look()
        self._running.pop(name, None)

    def look(self) -> None:
        """Put into the trace what the files say that they did not say before; the time of the step in progress."""

    async def watch(self) -> None:
        """Never ends."""
        while True:
            self._time.enter()
            self.look()
            await trio.sleep(LOOK_S)

    def finish(self) -> None:
        """A last look, when every client is quiet."""
        self.look()
