"""Facts about a run as such: its nodes come and go, faults begin and end, messages are held, checks are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from replica.trace import columns as column
from replica.trace.columns import ControlFact


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(ControlFact):
    scenario: Annotated[str, "scenario id"]
    variant: Annotated[str | None, "variant id"]
    seed: Annotated[int, "seed of the run"]
    profile: Annotated[str, "era of Kafka"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(ControlFact):
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(ControlFact):
    node: column.Node
    role: Annotated[str, "broker, controller, producer or consumer (in `control`); leader or follower elsewhere"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped(ControlFact):
    node: column.Node
    how: Annotated[
        str, "stop, kill, power_off, halt (it gives up), crash (by our bug) or died (killed by somebody else)"
    ]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBegan(ControlFact):
    fault: column.Fault
    verb: column.Verb
    targets: column.Targets
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEnded(ControlFact):
    fault: column.Fault
    verb: column.Verb
    targets: column.Targets
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHeld(ControlFact):
    node: column.Node
    peer: column.Peer
    api: column.Api
    part: column.Part
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReleased(ControlFact):
    node: column.Node
    peer: column.Peer
    api: column.Api
    part: column.Part
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDropped(ControlFact):
    """What waited behind a hold or a cut will never arrive: its sender lost power, or the connection is over."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    part: column.Part
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLost(ControlFact):
    """`node` noticed that its connection to `peer` is gone."""

    node: column.Node
    peer: column.Peer
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMade(ControlFact):
    """A `check` step of the timeline, or a `when` that timed out."""

    held: Annotated[bool, "the check held"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantBroken(ControlFact):
    invariant: Annotated[str, "S1..S29 or L1.., as in replica/RULES.md"]
    promised: Annotated[bool, "the rules of the run promise it: our bug; else the reason names the missing rule"]
    reason: column.Reason
