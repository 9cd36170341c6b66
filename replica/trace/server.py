"""Events about the server of a broker: which connections it closed and why, and how long each request took where."""

from __future__ import annotations

from typing import Annotated, ClassVar

from replica.causes import CloseCause, LeftOut
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ControlEvent, TraceEvent
from replica.wording import member_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionClosed(ControlEvent):
    """`node` closed a connection that `peer` had opened: a protocol violation, a limit, or nothing heard for long."""

    node: column.Node
    peer: column.Peer
    cause: Annotated[CloseCause, "why, see CloseCause"]
    message: Annotated[str | None, "how the request breaks the protocol; why it may not come in"] = None
    amount: Annotated[int | None, "what there was: bytes of a request, or connections from one address"] = None
    limit: Annotated[int | None, "what is allowed: bytes, or milliseconds without traffic"] = None

    def sentence(self) -> str:
        return f"{self.node} closes a connection of {self.peer}: {self._why()}"

    def _why(self) -> str:
        match self.cause:
            case CloseCause.VIOLATION:
                return self.message or self.cause.meaning
            case CloseCause.REQUEST_TOO_LARGE:
                return f"a request of {self.amount} bytes, {self.limit} are allowed (socket.request.max.bytes)"
            case CloseCause.REQUEST_MEMORY:
                return (
                    f"requests that come in or wait for a handler take more than {self.limit or 0:,} bytes, and this "
                    f"one, with {self.amount or 0:,}, has stalled for longest"
                )
            case CloseCause.TOO_MANY:
                address = self.peer.rpartition(":")[0] or self.peer
                return f"{address} has {self.amount} connections already, as many as it may"
            case CloseCause.IDLE:
                return f"nothing moved on it for {self.limit} ms (connections.max.idle.ms)"
            case CloseCause.AUTHENTICATION_FAILED:
                return f"authentication failed: {self.message}"
            case _:
                return self.cause.meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCrashed(ControlEvent):
    """A request of `peer` hit a bug in Highwater; in a live run its connection is closed and all others go on."""

    node: column.Node
    peer: column.Peer
    bug: Annotated[str, "class of the exception"]
    raised_at: Annotated[str, "file and line"]
    message: Annotated[str, "text of the exception"]

    def sentence(self) -> str:
        bug = f"a bug in Highwater, {self.bug} in {self.raised_at}: {self.message}"
        return f"{self.node} gives up a request of {self.peer}: {bug}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(TraceEvent):
    """A client was refused what it cannot work without: its place in a group, a commit, a producer id, a login."""

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
        return f"{self.node} refuses {self.api} of {who}{where}: {self.error}{message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRefused(RequestRefused):
    """The same of a commit: what was read since the last one will be read again."""

    def sentence(self) -> str:
        """A member that has left its group knows it by itself."""
        if self.node != self.client:
            return RequestRefused.sentence(self)
        why = f"it is no member of group {self.group} any more"
        return f"{self.client} cannot commit: {why} (CommitFailedException)"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsLeftOut(TraceEvent):
    """A client from outside does more than the trace has room for; so many events were left out since the last one."""

    TABLE: ClassVar[str] = "request"
    node: column.Node
    peer: column.Peer
    left_out: Annotated[int, "events that there would have been"]
    cause: Annotated[LeftOut, "what it does too often, see LeftOut"]

    def sentence(self) -> str:
        node, peer = self.node, self.peer
        match self.cause:
            case LeftOut.CONNECTIONS:
                more = f"{peer} opens more connections to {node} than the trace keeps"
                return f"{more}: {self.left_out} ends were left out"
            case LeftOut.REQUESTS:
                return f"{peer} sends {node} more requests than the trace keeps: {self.left_out} were left out"
            case LeftOut.READS:
                return f"{peer} reads the same records repeatedly: {self.left_out} events about that were left out"
            case LeftOut.REFUSALS:
                return f"{node} refuses {peer} more than the trace keeps: {self.left_out} refusals were left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCompleted(TraceEvent):
    """The answer to a request has left, or none was due. Not stated: fetches that found nothing.

    The times are those of Kafka's request metrics, which add up to the total. source: Request.updateRequestMetrics
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
