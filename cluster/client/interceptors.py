"""What both clients share of their interceptors: the chain, its counts, and the time of the application's thread.

An interceptor that throws stops nothing: the client logs the exception and goes on with the next one.

Source: ProducerInterceptors.java, ConsumerInterceptors.java.
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
    """Microseconds of the application's thread for each record: of each interceptor, of the serializers of key and
    value together, of the deserializers.

    Simplified: onAcknowledgement and onCommit take no time; in Java the first one holds up the sender's thread.
    """

    interceptor_us: int = 0
    serializer_us: int = 0
    deserializer_us: int = 0


NO_TIME = ClientCpuTimes()


class Interception(NamedTuple):
    """One call of one interceptor, as its trace events state it. calls: of the same hook so far, with this one"""

    interceptor: str
    hook: str
    outcome: str
    calls: int
    took_us: int


class InterceptorChain:
    """names: in the order of interceptor.classes"""

    def __init__(self, interceptor_classes: str) -> None:
        self.names = items_of(interceptor_classes) if interceptor_classes else ()
        self._calls: dict[tuple[str, str], int] = {}

    def called(self, interceptor: str, hook: str, took_us: int, *, changes: bool = False) -> Interception:
        calls = self._calls[interceptor, hook] = self._calls.get((interceptor, hook), 0) + 1
        outcome = CHANGED if changes else THREW if interceptor == THROWING else UNCHANGED
        return Interception(interceptor, hook, outcome, calls, took_us)
