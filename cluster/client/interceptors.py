"""The interceptors of producers and consumers: their chain, the number of calls, and the time that they take.

An interceptor that raises an exception stops nothing: the client logs the exception and calls the next interceptor.
Source: ProducerInterceptors.java, ConsumerInterceptors.java
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cluster.config import THROWING
from replica.config import items_of

ON_SEND, ON_ACKNOWLEDGEMENT, ON_CONSUME, ON_COMMIT = "onSend", "onAcknowledgement", "onConsume", "onCommit"
UNCHANGED, CHANGED, THREW = "unchanged", "changed", "threw"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCpuTimes:
    """Microseconds of the application's thread per record: for each interceptor, and for (de)serializing key and value.

    Simplified: onAcknowledgement and onCommit take no time; in Java onAcknowledgement delays the sender's thread.
    """

    interceptor_us: int = 0
    serializer_us: int = 0
    deserializer_us: int = 0


NO_TIME = ClientCpuTimes()


class Interception(NamedTuple):
    """One call of one interceptor, with the fields of its trace event; `calls` counts its calls of this hook so far."""

    interceptor: str
    hook: str
    outcome: str
    calls: int
    took_us: int


class InterceptorChain:
    """The interceptors of a client, in the order of interceptor.classes."""

    def __init__(self, interceptor_classes: str) -> None:
        self.names = items_of(interceptor_classes) if interceptor_classes else ()
        self._calls: dict[tuple[str, str], int] = {}

    def called(self, interceptor: str, hook: str, took_us: int, *, changes: bool = False) -> Interception:
        calls = self._calls[interceptor, hook] = self._calls.get((interceptor, hook), 0) + 1
        outcome = CHANGED if changes else THREW if interceptor == THROWING else UNCHANGED
        return Interception(interceptor, hook, outcome, calls, took_us)
