"""Events about the server of a broker: closed connections, refused requests, and the time spent on each request."""

from __future__ import annotations

from typing import Annotated, ClassVar

from replica.causes import CloseCause, InjectionCause, LeftOut
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ControlEvent, Frequent, TraceEvent
from replica.trace.ranges import counted
from replica.wording import duration, member_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionClosed(ControlEvent):
    """`node` closed a connection that `peer` had opened, because of a protocol violation, a limit or a timeout."""

    node: column.Node
    peer: column.Peer
    cause: Annotated[CloseCause, "why, see CloseCause"]
    message: Annotated[str | None, "how the request violates the protocol, or why authentication failed"] = None
    amount: Annotated[int | None, "bytes of the request, or number of connections from the address"] = None
    limit: Annotated[int | None, "the limit: bytes, or milliseconds without traffic"] = None

    def sentence(self) -> str:
        return f"{self.node} closed a connection from {self.peer}: {self._why()}"

    def _why(self) -> str:
        match self.cause:
            case CloseCause.VIOLATION:
                return self.message or self.cause.meaning
            case CloseCause.REQUEST_TOO_LARGE:
                return f"a request has {self.amount} bytes, but socket.request.max.bytes allows {self.limit}"
            case CloseCause.REQUEST_MEMORY:
                return (
                    f"incoming and queued requests took more than {self.limit or 0:,} bytes, and the request on "
                    f"this connection ({self.amount or 0:,} bytes) had stalled for the longest time"
                )
            case CloseCause.TOO_MANY:
                address = self.peer.rpartition(":")[0] or self.peer
                return f"{address} already has {self.amount} connections, as many as max.connections.per.ip allows"
            case CloseCause.IDLE:
                return f"it was idle for {self.limit} ms (connections.max.idle.ms)"
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
        return f"{self.node} could not handle a request from {self.peer}: {bug}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseInjected(ControlEvent):
    """A step `fail` of the timeline replaced or delayed the response to a request, or closed its connection."""

    node: column.Node
    peer: column.Peer
    api: column.Api
    fault: column.Fault
    cause: Annotated[InjectionCause, "what the broker did with the request, see InjectionCause"]
    error: Annotated[str | None, "the injected error; null: the response is the broker's own"] = None
    waited_us: Annotated[int | None, "microseconds that the response was delayed; null: no delay"] = None
    amount: Annotated[int | None, "injected throttle time in milliseconds; null: the quotas decide"] = None
    how: Annotated[str | None, "after or instead: the connection was closed after the response, or instead of it"] = (
        None
    )

    def sentence(self) -> str:
        request, does = f"{self.api} from {self.peer}", []
        if self.error is not None:
            is_applied = self.cause is InjectionCause.APPLIED
            did = "although it carried out the request" if is_applied else "without carrying out the request"
            does.append(f"answered {request} with {self.error} {did}")
        if self.waited_us is not None:
            does.append(f"delayed the answer to {request} by {duration(self.waited_us)}")
        if self.amount is not None:
            does.append(f"set throttle_time_ms={self.amount} in the answer to {request}")
        if self.how is not None:
            when = "after the answer to" if self.how == "after" else "instead of answering"
            does.append(f"closed the connection {when} {request}")
        return f"{self.node} {' and '.join(does)} (fault `{self.fault}`)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(TraceEvent):
    """An essential request of a client was refused: to join a group, commit, get a producer id or authenticate."""

    TABLE: ClassVar[str] = "refusal"
    node: Annotated[str, "the node that refused; the client itself, if it sent no request"]
    client: column.Client
    api: column.Api
    error: column.Error
    group: Annotated[str | None, "group id; null: the request names no group"]
    member: Annotated[str | None, "member id; null: the request names no member"]
    transactional_id: Annotated[str | None, "transactional.id; null: the request names none"] = None
    topic: Annotated[str | None, "the topic that the error is about; null: none"] = None
    message: Annotated[str | None, "error message in the answer"] = None

    def sentence(self) -> str:
        who = f"member {member_name(self.member, self.client)}" if self.member else self.client
        where = "" if self.group is None else f" for group {self.group}"
        where += "" if self.transactional_id is None else f" for transactional.id {self.transactional_id}"
        where += f" for topic {self.topic}" if self.topic and self.group is None else ""
        message = f" ({self.message})" if self.message else ""
        return f"{self.node} refused {self.api} from {who}{where} with {self.error}{message}"


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
    left_out: Annotated[int, "number of omitted events"]
    cause: Annotated[LeftOut, "kind of the omitted events, see LeftOut"]

    def sentence(self) -> str:
        node, peer = self.node, self.peer
        match self.cause:
            case LeftOut.CONNECTIONS:
                more = f"{peer} opened more connections to {node} than the trace keeps"
                return f"{more}; {counted(self.left_out, 'connection end')} omitted"
            case LeftOut.REQUESTS:
                more = f"{peer} sent {node} more requests than the trace keeps"
                return f"{more}; {counted(self.left_out, 'request')} omitted"
            case LeftOut.READS:
                return f"{peer} read the same records repeatedly; {counted(self.left_out, 'event')} omitted"
            case LeftOut.REFUSALS:
                more = f"{node} refused {peer} more often than the trace keeps"
                return f"{more}; {counted(self.left_out, 'refusal')} omitted"


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
    correlation_id: Annotated[int, "correlation id, chosen by the client"]
    connection: Annotated[int, "number of the connection at the node, in order of acceptance"]
    processor: Annotated[int, "number of the connection's network thread"]
    connected_us: Annotated[int, "when the connection was accepted, in microseconds"]
    received_us: Annotated[int, "when the last byte of the request arrived, in microseconds"]
    request_bytes: Annotated[int, "bytes of the request, without its size prefix"]
    response_bytes: Annotated[int, "bytes of the response; 0 if the request needs none"]
    request_queue_time_us: Annotated[int, "microseconds in the request queue, waiting for a handler"]
    local_time_us: Annotated[int, "microseconds in the request handler"]
    remote_time_us: Annotated[int, "microseconds in the purgatory, waiting for other brokers or for records"]
    throttle_time_us: Annotated[int, "throttle time of the client by its quotas, in microseconds"]
    response_queue_time_us: Annotated[int, "microseconds in the response queue, waiting for the network thread"]
    response_send_time_us: Annotated[int, "microseconds until the kernel had the last byte of the response"]
    total_time_us: Annotated[int, "microseconds from the last byte of the request to the last byte of the response"]
    sendfile_calls: Annotated[int, "number of sendfile calls, which send records from segment files"]
    sendfile_bytes: Annotated[int, "bytes of records that these calls sent"]

    def sentence(self) -> str:
        what = f"{self.api} {self.correlation_id} from {self.peer}"
        verb = "answered" if self.response_bytes else "completed"
        return f"{self.node} {verb} {what} after {duration(self.total_time_us)}"
