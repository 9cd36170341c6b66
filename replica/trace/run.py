"""Events about a run as such: its nodes come and go, faults begin and end, messages are held, checks are made."""

from __future__ import annotations

from typing import Annotated

from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ControlEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(ControlEvent):
    scenario: Annotated[str, "scenario id"]
    variant: Annotated[str | None, "variant id"]
    seed: Annotated[int, "seed of the run"]
    profile: Annotated[str, "era of Kafka"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(ControlEvent):
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(ControlEvent):
    node: column.Node
    role: Annotated[str, "broker, controller, producer or consumer (in `control`); leader or follower elsewhere"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped(ControlEvent):
    node: column.Node
    how: Annotated[
        str, "stop, kill, power_off, halt (it gives up), crash (a bug in Highwater) or died (killed from outside)"
    ]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBegan(ControlEvent):
    fault: column.Fault
    verb: column.Verb
    targets: column.Targets
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEnded(ControlEvent):
    fault: column.Fault
    verb: column.Verb
    targets: column.Targets
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHeld(ControlEvent):
    node: column.Node
    peer: column.Peer
    api: column.Api
    part: column.Part
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReleased(ControlEvent):
    node: column.Node
    peer: column.Peer
    api: column.Api
    part: column.Part
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDropped(ControlEvent):
    """Messages held back by a hold or a cut will never arrive: the sender lost power, or the connection is over."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    part: column.Part
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLost(ControlEvent):
    """`node` noticed that its connection to `peer` is gone."""

    node: column.Node
    peer: column.Peer
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMade(ControlEvent):
    """A `check` step of the timeline, or a `when` that timed out."""

    held: Annotated[bool, "the check held"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantBroken(ControlEvent):
    invariant: Annotated[str, "S1..S35 or L1.., as in replica/RULES.md"]
    promised: Annotated[
        bool, "the rules of the run promise it: a bug in Highwater; else the reason names the missing rule"
    ]
    reason: column.Reason
