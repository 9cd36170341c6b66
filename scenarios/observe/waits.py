"""The waits of clients that could not write to or read from a partition: their causes, sentences and advice.

1. A wait is divided into parts (Stretch), each with one decisive cause.
2. Problems of the cluster come first: no serving leader, an ISR below min.insync.replicas, followers that do not fetch.
   While these last, no setting of a client can help.
3. In the rest of the time the cluster was ready, and a timeout, a backoff or a quota of the client was decisive.
4. If the events do not show the cause, it is `unknown`, and the sentence says what was observed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from replica.causes import WaitCause
from replica.frozen import dataclass
from replica.ids import TopicPartition
from replica.wording import duration, listed, set_of


class DiskLoss(NamedTuple):
    """A loss of records on the disks of all replicas that may lead, while another replica still has these records.

    Attributes:
        nodes: members of the ISR, else of the ELR, else every replica that lost records.
        end: largest log end offset of `nodes`.
        is_back: True if one of `nodes` is in the ISR and live again.
        longest, longest_end: the replica with the longest log, and its log end offset.
        leader_end: log end offset of the last leader.
    """

    nodes: tuple[str, ...]
    end: int
    is_back: bool
    longest: str
    longest_end: int
    leader_end: int

    def advice(self) -> str:
        nodes = listed(self.nodes)
        better = f"{self.longest} has the longest log, up to {self.longest_end}"
        gone = f"; offsets {self.longest_end} to {self.leader_end - 1} are lost" * (self.longest_end < self.leader_end)
        left = f"records up to {self.end}" if self.end else "nothing"
        disks = "its disk has" if len(self.nodes) == 1 else "their disks have"
        return (
            f"{nodes} must not lead: {disks} {left}, and the other replicas would be truncated to that. "
            f"{better}: elect it (kafka-leader-election.sh --election-type unclean){gone}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a wait with one cause, with the names and numbers for a sentence about it.

    Attributes:
        nodes: brokers or members concerned: leader, silent broker, ISR, or followers that are behind.
        leader: leader during the wait, if it is not in `nodes`.
        setting: decisive Kafka setting, None if there is none.
        value_ms: value of that setting, None if unknown.
        holder: client, broker or topic whose setting this is.
        elapsed_us: how long the client had waited for `nodes` before this part began, for a timeout.
        seen: detail of the event: how a node went down, the API of the request, the error, or an id.
        count: min.insync.replicas, or the producer id of the open transaction.
        disk_loss: for a partition without a leader, the reason why its ISR must not lead; None if it may.
    """

    from_us: int
    to_us: int
    cause: WaitCause
    who: str
    nodes: tuple[str, ...] = ()
    leader: str | None = None
    setting: str | None = None
    value_ms: int | None = None
    holder: str | None = None
    elapsed_us: int = 0
    seen: str = ""
    count: int = 0
    disk_loss: DiskLoss | None = None

    @property
    def length_us(self) -> int:
        return self.to_us - self.from_us

    @property
    def governed_by(self) -> str:
        """Return the decisive setting, such as `request.timeout.ms=30000 of p1`, or "" if there was none."""
        if self.setting is None:
            return ""
        value = "" if self.value_ms is None else f"={self.value_ms}"
        return f"{self.setting}{value}" + (f" of {self.holder}" if self.holder else "")

    def sentence(self) -> str:
        """Return the cause as a sentence without its time and without a full stop."""
        nodes, by = listed(self.nodes), self.governed_by
        match self.cause:
            case WaitCause.NO_LEADER if self.disk_loss is not None and self.disk_loss.is_back:
                new = "its log directory was new to the controller when it was unfenced"
                back = f"{listed(self.disk_loss.nodes)} {'was' if len(self.disk_loss.nodes) == 1 else 'were'} back"
                return f"there was no leader: {back}, but not elected, since {new}"
            case WaitCause.NO_LEADER if not self.nodes:
                return "there was no leader: no broker was left that could be elected cleanly"
            case WaitCause.NO_LEADER:
                return f"there was no leader: no broker of the ISR {set_of(self.nodes)} was live"
            case WaitCause.LEADER_DOWN:
                return f"the leader {nodes} {_WENT_DOWN.get(self.seen, 'was down')}, but was not replaced yet ({by})"
            case WaitCause.LEADER_STARTING:
                return f"{nodes} was elected leader, but did not serve yet"
            case WaitCause.NO_CONTROLLER:
                return "no controller was active, so leader and ISR stayed as they were"
            case WaitCause.ISR_PENDING:
                leader, behind = self.nodes[0], listed(self.nodes[1:])
                return f"{leader} had proposed an ISR without {behind}, but the controller had not accepted it"
            case WaitCause.MIN_ISR:
                return f"the ISR {set_of(self.nodes)} was below min.insync.replicas={self.count}"
            case WaitCause.FOLLOWER_BEHIND:
                if not self.nodes:
                    return "the high watermark stood still" + (f": {self.seen}" if self.seen else "")
                where = self.seen or "in the ISR,"
                return f"{nodes}, {where} did not fetch the records ({by})"
            case WaitCause.SLOW_ANSWER:
                return f"{nodes} took this long to answer" + (f": {self.seen}" if self.seen else "")
            case WaitCause.LEADER_SILENT:
                return f"the leader {nodes} was running, but did not answer" + (f": {self.seen}" if self.seen else "")
            case WaitCause.REQUEST_TIMEOUT:
                what = f"{self.who} waited for the response of {nodes} to {self.seen} until {by} had passed"
                return f"{what}{self._meanwhile}"
            case WaitCause.NO_ANSWER:
                return f"{self.who} waited for a response of {nodes}, for less than {by}{self._meanwhile}"
            case WaitCause.SETUP_TIMEOUT:
                return f"{self.who} waited for a connection to {nodes} ({by}){self._meanwhile}"
            case WaitCause.RETRY_BACKOFF:
                return f"{self.who} waited before its next attempt ({by})" + (
                    f" after {self.seen}" if self.seen else ""
                )
            case WaitCause.STALE_METADATA:
                return f"{self.who} still used {nodes}, as its metadata was out of date ({by}){self._meanwhile}"
            case WaitCause.THROTTLED:
                return f"{nodes} throttled {self.who} by its quota {self.seen}"
            case WaitCause.TRANSACTION:
                return f"{self.who} waited for the coordinator of its transaction" + (
                    f": {self.seen}" if self.seen else ""
                )
            case WaitCause.CLIENT_DOWN:
                return f"{self.who} itself was paused"
            case WaitCause.FETCH_REFUSED:
                return f"{nodes} answered the fetches of {self.who} with {self.seen}"
            case WaitCause.LINGER:
                return f"the batch of {self.who} waited for more records ({by})"
            case WaitCause.LAST_STABLE_OFFSET if self.setting is None:
                open_ = f"an open transaction of producer id {self.count} held back the last stable offset"
                return f"{open_}; its coordinator does not know the transaction, so no timeout ends it"
            case WaitCause.LAST_STABLE_OFFSET:
                return f"an open transaction of {self.seen} held back the last stable offset ({by})"
            case WaitCause.REBALANCE:
                awaited = f" and waited for {nodes}" if self.nodes else ""
                return f"the group {self.who} was rebalancing{awaited}" + (f" ({by})" if by else "")
            case WaitCause.MEMBER_DOWN:
                member = f"static member {self.seen} ({nodes})" if self.seen else nodes
                return f"{member} owned the partition, but was not running ({by})"
            case WaitCause.UNASSIGNED:
                return f"no member of the group {self.who} owned the partition"
            case _:
                return f"the events do not show why {self.who} waited" + (f": {self.seen}" if self.seen else "")

    @property
    def _meanwhile(self) -> str:
        if self.leader is None:
            return ""
        was = "was reachable again" if self.leader in self.nodes else "was the leader"
        return f"; {self.leader} {was}"

    def advice(self) -> str:
        """Return advice to shorten the wait as a sentence, or "" if there is none."""
        nodes = listed(self.nodes)
        match self.cause:
            case WaitCause.REQUEST_TIMEOUT | WaitCause.NO_ANSWER:
                return self._shorter_timeout()
            case WaitCause.NO_CONTROLLER | WaitCause.ISR_PENDING | WaitCause.CLIENT_DOWN:
                return ""
            case WaitCause.NO_LEADER if self.disk_loss is not None:
                return self.disk_loss.advice()
            case WaitCause.NO_LEADER:
                return f"bring {'one of ' * (len(self.nodes) > 1)}{nodes} back" if nodes else ""
            case WaitCause.MIN_ISR:
                return f"bring replicas back into the ISR: no timeout of {self.who} ends this"
            case WaitCause.LAST_STABLE_OFFSET if self.setting is None:
                return "abort it with kafka-transactions.sh --abort"
            case WaitCause.THROTTLED:
                return f"a larger quota for {self.who}, or less traffic, would have avoided this"
            case WaitCause.LEADER_SILENT:
                return f"no timeout of {self.who} ends this, since {nodes} was the leader"
        is_much_shorter = self.length_us < (self.value_ms or 0) * 1000 // 3
        if self.setting is None or (is_much_shorter and self.cause is not WaitCause.STALE_METADATA):
            return ""
        return f"a smaller {self.setting}{f' of {self.holder}' if self.holder else ''} could have ended this earlier"

    def _shorter_timeout(self) -> str:
        """Return advice with the smallest timeout, in whole seconds, that would not have expired before this part."""
        setting = self.setting or "request.timeout.ms"
        least_s = max(LEAST_TIMEOUT_S, -(-self.elapsed_us // 1_000_000))
        saved_us = self.elapsed_us + self.length_us - least_s * 1_000_000
        if saved_us < 500_000:
            return ""
        was = "" if self.value_ms is None else f" was {duration(self.value_ms * 1000)}"
        end = f"with {duration(least_s * 1_000_000)} {self.who} would have tried again {duration(saved_us)} earlier"
        return f"{setting} of {self.holder or self.who}{was}; {end}"

    def as_json(self) -> dict[str, Any]:
        return {
            "from_us": self.from_us,
            "to_us": self.to_us,
            "cause": self.cause.value,
            "nodes": list(self.nodes),
            "setting": self.setting,
            "value_ms": self.value_ms,
            "holder": self.holder,
            "sentence": self.sentence(),
            "advice": self.advice(),
        }


LEAST_TIMEOUT_S = 5
"""The smallest request.timeout.ms that advice recommends, in seconds."""

_WENT_DOWN = {
    "power_off": "had lost power",
    "kill": "had been killed",
    "pause": "was paused",
    "stop": "had been shut down",
    "silent": "was cut off from the controller",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A time in which a client could not write to a partition, or not read from it.

    Attributes:
        what: `writes` or `reads`.
        client: name of the client, or of the group for reads by a group.
        ended_by: `success`, `given_up` (its records failed), `stopped` (the client ended), or `run` (the run was over).
    """

    what: str
    client: str
    partition: TopicPartition
    stretches: tuple[Stretch, ...]
    ended_by: str

    @property
    def from_us(self) -> int:
        return self.stretches[0].from_us

    @property
    def to_us(self) -> int:
        return self.stretches[-1].to_us

    @property
    def longest(self) -> Stretch:
        return max(self.stretches, key=lambda stretch: stretch.length_us)

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "client": self.client,
            "partition": str(self.partition),
            "from_us": self.from_us,
            "to_us": self.to_us,
            "ended_by": self.ended_by,
            "stretches": [stretch.as_json() for stretch in self.stretches],
        }
