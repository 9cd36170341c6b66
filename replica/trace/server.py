"""Events about the server of a broker: closed connections, refused requests, and the time spent on each request."""

from __future__ import annotations

from typing import Annotated, ClassVar

from replica.causes import CloseCause, InjectionCause, LeftOut
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ControlEvent, Frequent, TraceEvent
from replica.wording import duration, member_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionClosed(ControlEvent):
    """`node` closed a connection that `peer` had opened, because of a protocol violation, a limit or a timeout."""

    node: column.Node
    peer: column.Peer
    cause: Annotated[CloseCause, "why, see CloseCause"]
    message: Annotated[str | None, "how the request breaks the protocol; why it may not come in"] = None
    amount: Annotated[int | None, "what there was: bytes of a request, or connections from one address"] = None
    limit: Annotated[int | None, "what is allowed: bytes, or milliseconds without traffic"] = None

    def sentence(self) -> str:
        return f"{self.node} closed a connection of {self.peer}: {self._why()}"

    def _why(self) -> str:
        match self.cause:
            case CloseCause.VIOLATION:
                return self.message or self.cause.meaning
            case CloseCause.REQUEST_TOO_LARGE:
                return f"a request has {self.amount} bytes; socket.request.max.bytes allows {self.limit}"
            case CloseCause.REQUEST_MEMORY:
                return (
                    f"requests that arrive or wait for a handler take more than {self.limit or 0:,} bytes, and this "
                    f"one, with {self.amount or 0:,} bytes, has stalled for the longest time"
                )
            case CloseCause.TOO_MANY:
                address = self.peer.rpartition(":")[0] or self.peer
                return f"{address} already has {self.amount} connections, as many as it may have"
            case CloseCause.IDLE:
                return f"nothing moved on it for {self.limit} ms (connections.max.idle.ms)"
            case CloseCause.AUTHENTICATION_FAILED:
                return f"authentication failed: {self.message}"
            case _:
                return self.cause.meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCrashed(ControlEvent):
    """A request of `peer` hit a bug in Highwater. In a live cluster, only the connection of `peer` is closed."""

    node: column.Node
    peer: column.Peer
    bug: Annotated[str, "class of the exception"]
    raised_at: Annotated[str, "file and line"]
    message: Annotated[str, "text of the exception"]

    def sentence(self) -> str:
        bug = f"a bug in Highwater, {self.bug} in {self.raised_at}: {self.message}"
        return f"{self.node} gave up a request of {self.peer}: {bug}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseInjected(ControlEvent):
    """A step `fail` of the timeline replaced or delayed the response to a request, or closed its connection."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    fault: column.Fault
    cause: Annotated[InjectionCause, "what the broker did with the request, see InjectionCause"]
    error: Annotated[str | None, "the error of the response; null: it is the broker's own response"] = None
    waited_us: Annotated[int | None, "for how long the response is held back; null: not at all"] = None
    amount: Annotated[int | None, "throttle time of the response in milliseconds; null: that of the quotas"] = None
    how: Annotated[str | None, "after or instead: the connection ends after the response, or instead of it"] = None

    def sentence(self) -> str:
        request, does = f"{self.api} of {self.peer}", []
        if self.error is not None:
            is_applied = self.cause is InjectionCause.APPLIED
            did = "although it had carried it out" if is_applied else "and did not carry it out"
            does.append(f"answered {request} with {self.error} {did}")
        if self.waited_us is not None:
            does.append(f"kept the answer to {request} back for {duration(self.waited_us)}")
        if self.amount is not None:
            does.append(f"told {self.peer} to wait {self.amount} ms with the answer to {self.api} (throttle_time_ms)")
        if self.how is not None:
            when = "after the answer to" if self.how == "after" else "instead of answering"
            does.append(f"closed the connection {when} {request}")
        return f"{self.node} {' and '.join(does)}: `{self.fault}` asked for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(TraceEvent):
    """An essential request of a client was refused: to join a group, commit, get a producer id or authenticate."""

    TABLE: ClassVar[str] = "refusal"
    node: Annotated[str, "the node that refuses; the client itself, where it knows the answer without asking"]
    client: column.Client
    api: column.Api
    error: column.Error
    group: Annotated[str | None, "group id; null: the request names no group"]
    member: Annotated[str | None, "member id; null: the request names no member"]
    transactional_id: Annotated[str | None, "transactional.id; null: the request names none"] = None
    topic: Annotated[str | None, "the topic that the error is about; null: it is about none"] = None
    message: Annotated[str | None, "what the answer says beside the error"] = None

    def sentence(self) -> str:
        who = f"member {member_name(self.member, self.client)}" if self.member else self.client
        where = "" if self.group is None else f" for group {self.group}"
        where += "" if self.transactional_id is None else f" for transactional.id {self.transactional_id}"
        where += f" for topic {self.topic}" if self.topic and self.group is None else ""
        message = f" ({self.message})" if self.message else ""
        return f"{self.node} refused {self.api} of {who}{where} with {self.error}{message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRefused(RequestRefused):
    """An offset commit was refused, so records since the previous commit will be read again."""

    def sentence(self) -> str:
        """Return the sentence, which is different for a commit that the client itself refuses."""
        if self.node != self.client:
            return RequestRefused.sentence(self)
        why = f"it is no longer a member of group {self.group}"
        return f"{self.client} could not commit: {why} (CommitFailedException)"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsLeftOut(TraceEvent):
    """Some events of an external client were omitted, because the client causes more events than the trace keeps.

    `left_out` is the number of events omitted since the last event of this kind.
    """

    TABLE: ClassVar[str] = "request"
    node: column.Node
    peer: column.Peer
    left_out: Annotated[int, "events that there would have been"]
    cause: Annotated[LeftOut, "what it does too often, see LeftOut"]

    def sentence(self) -> str:
        node, peer = self.node, self.peer
        match self.cause:
            case LeftOut.CONNECTIONS:
                more = f"{peer} opened more connections to {node} than the trace keeps"
                return f"{more}: {self.left_out} connection ends were left out"
            case LeftOut.REQUESTS:
                return f"{peer} sent {node} more requests than the trace keeps: {self.left_out} were left out"
            case LeftOut.READS:
                return f"{peer} read the same records repeatedly: {self.left_out} events about that were left out"
            case LeftOut.REFUSALS:
                return f"{node} refused {peer} more often than the trace keeps: {self.left_out} refusals were left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCompleted(Frequent):
    """A broker has sent the response to a request, or finished a request without response.

    The times are those of Kafka's request metrics, which add up to the total. Fetches without records are not recorded.
    Source: Request.updateRequestMetrics
    """

    TABLE: ClassVar[str] = "request"
    node: column.Node
    peer: column.Peer
    api: column.Api
    api_version: Annotated[int, "version of the API"]
    correlation_id: Annotated[int, "number of the request, given by who asks"]
    connection: Annotated[int, "number of the connection at the node, in order of acceptance"]
    processor: Annotated[int, "network thread that the connection belongs to"]
    connected_us: Annotated[int, "when the connection was accepted"]
    received_us: Annotated[int, "when the whole request had come in"]
    request_bytes: Annotated[int, "bytes of the request, without its size prefix"]
    response_bytes: Annotated[int, "bytes of the answer, 0 if none was due"]
    request_queue_time_us: Annotated[int, "waited in the request channel for a handler"]
    local_time_us: Annotated[int, "in the handler"]
    remote_time_us: Annotated[int, "waited for others, in the purgatory"]
    throttle_time_us: Annotated[int, "the client is to keep silent for so long, by its quota"]
    response_queue_time_us: Annotated[int, "the answer waited for the network thread"]
    response_send_time_us: Annotated[int, "until the last byte was with the kernel"]
    total_time_us: Annotated[int, "from the whole request to the last byte of the answer"]
    sendfile_calls: Annotated[int, "system calls that sent records out of segment files"]
    sendfile_bytes: Annotated[int, "bytes of records that left by them"]

    def sentence(self) -> str:
        what = f"{self.api} {self.correlation_id} of {self.peer}"
        verb = "answered" if self.response_bytes else "completed"
        return f"{self.node} {verb} {what} after {duration(self.total_time_us)}"
