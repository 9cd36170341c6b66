"""Events about the run itself: starts and stops of nodes, faults, held messages, and results of checks."""

from __future__ import annotations

from typing import Annotated

from replica.causes import ConnectionEnd, DropCause
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ControlEvent
from replica.wording import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(ControlEvent):
    scenario: Annotated[str, "scenario id"]
    variant: Annotated[str | None, "variant id"]
    seed: Annotated[int, "seed of the run"]
    profile: Annotated[str, "profile: the Kafka version whose rules apply"]
    title: Annotated[str, "title of the scenario"]

    def sentence(self) -> str:
        """Return the sentence without the scenario's title, which often reveals the outcome."""
        variant = f", variant {self.variant}" if self.variant else ""
        return f"The run of {self.scenario}{variant} began (seed {self.seed}, {self.profile})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(ControlEvent):
    lasted_us: Annotated[int, "virtual duration of the run, in microseconds"]

    def sentence(self) -> str:
        return f"the run ended at {self.lasted_us / 1e6:.3f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(ControlEvent):
    node: column.Node
    role: Annotated[str, "broker, controller, producer or consumer (in `control`); leader or follower elsewhere"]
    incarnation: Annotated[int | None, "number of starts so far, including this one; null: unknown"] = None

    def sentence(self) -> str:
        match self.incarnation:
            case None:
                return f"{self.node} is running"
            case 1:
                return f"{self.node} started"
            case _:
                return f"{self.node} started again"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped(ControlEvent):
    node: column.Node
    how: Annotated[
        str, "stop, kill, power_off, halt (it gives up), crash (a bug in Highwater) or died (killed from outside)"
    ]
    role: Annotated[str | None, "role of the node at its start; null: unknown"] = None
    last_words: Annotated[str | None, "last message of a process that ended by itself, or its exit code"] = None

    def sentence(self) -> str:
        words = f": {self.last_words}" if self.last_words else ""
        match self.how:
            case "kill":
                survived = "; its page cache survived" if self.role in ("broker", "controller") else ""
                return f"{self.node} was killed (kill -9){survived}"
            case "power_off":
                return f"{self.node} lost power; all data that was not flushed is lost"
            case "stop":
                return f"{self.node} ended{words}" if words else f"{self.node} shut down cleanly"
            case _:
                return f"{self.node} halted; its page cache survived{words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBegan(ControlEvent):
    fault: column.Fault
    verb: column.Verb
    targets: column.Targets
    effect: column.Effect

    def sentence(self) -> str:
        return self.effect


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEnded(ControlEvent):
    fault: column.Fault
    verb: column.Verb
    targets: column.Targets
    effect: column.Effect
    ended_by: Annotated[str | None, "the step that ended the fault; null: the fault ended by itself"] = None

    def sentence(self) -> str:
        return self.effect


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHeld(ControlEvent):
    node: column.Node
    peer: column.Peer
    api: column.Api
    part: column.Part
    fault: column.Fault

    def sentence(self) -> str:
        return f"`{self.fault}` held back the {self.api} {self.part} from {self.node} to {self.peer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReleased(ControlEvent):
    node: column.Node
    peer: column.Peer
    api: column.Api
    part: column.Part

    def sentence(self) -> str:
        return f"the {self.api} {self.part} from {self.node} to {self.peer} was released"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDropped(ControlEvent):
    """A message that was held back by a fault (hold or cut) is lost, because its sender or connection has ended."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    part: column.Part
    cause: Annotated[DropCause, "why, see DropCause"]
    end: Annotated[ConnectionEnd | None, "how the connection ended, if that is the cause"] = None

    def sentence(self) -> str:
        return f"the {self.api} {self.part} from {self.node} to {self.peer} was lost on its way: {self._why()}"

    def _why(self) -> str:
        match self.cause:
            case DropCause.CONNECTION_ENDED:
                return f"the connection was {self.end.meaning if self.end else 'ended'}"
            case DropCause.CONNECTION_CLOSED:
                return f"{self.node} closed the connection while the link was cut"
            case DropCause.CONNECTION_RESET:
                return f"{self.node} reset the connection while the link was cut"
            case DropCause.NOT_SENT:
                return f"{self.node} stopped before it sent the body"
            case DropCause.POWER_LOST:
                return f"{self.node} lost power"
            case DropCause.PROCESS_GONE:
                return f"it was in the memory of {self.node}, whose process ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLost(ControlEvent):
    """`node` noticed that its connection to `peer` has ended."""

    node: column.Node
    peer: column.Peer
    cause: Annotated[ConnectionEnd, "how it ended, see ConnectionEnd"]
    message: Annotated[str | None, "error message of TLS, if TLS failed"] = None

    def sentence(self) -> str:
        why = self.cause.meaning
        if self.cause is ConnectionEnd.TLS_FAILED:
            plain = self.message in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")
            hint = "; the peer may be a client without TLS" if plain else ""
            why = f"TLS failed ({self.message or 'the handshake ended early'}){hint}"
        return f"{self.node} lost its connection to {self.peer}: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMade(ControlEvent):
    """The result of a `check` step of the timeline, or a `when` that timed out."""

    held: Annotated[bool, "true: the check passed"]
    checked: Annotated[str, "the `check` or `when`, as a phrase"]
    finding: Annotated[str, "what the check found, as a sentence"]

    def sentence(self) -> str:
        return f"{self.checked}: {self.finding}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantBroken(ControlEvent):
    invariant: Annotated[str, "S1..S37 or L1.., as in replica/RULES.md"]
    promised: Annotated[bool, "true: the rules of the run promise it, so this is a bug in Highwater"]
    finding: Annotated[str, "what the check found, as a sentence"]
    missing_rules: Annotated[tuple[str, ...], "reasons why the rules of the run do not promise the invariant"] = ()

    def sentence(self) -> str:
        why = f"; the rules of this run do not promise this: {listed(self.missing_rules)}" if self.missing_rules else ""
        return f"{self.finding}{why}"
