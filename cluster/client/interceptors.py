"""What both clients share of their interceptors: the chain, its counts, and the time of the application's thread.

An interceptor that throws stops nothing: the client logs the exception and goes on with the next one.

Source: ProducerInterceptors.java, ConsumerInterceptors.java.
"""

from __future__ import annotations

from dataclasses import dataclass

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


class InterceptorChain:
    """names: in the order of interceptor.classes"""

    def __init__(self, interceptor_classes: str) -> None:
        self.names = items_of(interceptor_classes) if interceptor_classes else ()
        self._calls: dict[tuple[str, str], int] = {}

    def count(self, interceptor: str, hook: str) -> int:
        """One more call. returns: how many there were"""
        calls = self._calls.get((interceptor, hook), 0) + 1
        self._calls[interceptor, hook] = calls
        return calls


def outcome_of(interceptor: str) -> str:
    """Of a call that changes nothing."""
    return THREW if interceptor == THROWING else UNCHANGED


def reason_of(interceptor: str, hook: str, outcome: str, what: str, calls: int) -> str:
    """what: the call was about, such as "r3" """
    if outcome == THREW:
        return f"{interceptor} throws in {hook} of {what}; the client logs it and goes on"
    if outcome == CHANGED:
        return f"{interceptor} changes the value of {what} in {hook}"
    return f"{interceptor} counts {hook} of {what}: call {calls}"
