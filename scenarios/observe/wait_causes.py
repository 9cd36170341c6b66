"""Find the cause of each part of a client's wait from the events of the cluster, of connections and of groups.

1. A wait is divided wherever anything relevant changes. The cause of a part is decided for the time of its start.
2. Leader, ISR and followers are examined first (`ClusterCauses`), then what the client itself waited for.
3. A timeout is a cause only if an event shows that the client has waited: a batch that was sent and not answered, or
   ClientTimedOut. A backoff is a cause only within the bounds of the client's settings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from cluster.config import KRAFT_SESSION, REGISTRY_SESSION
from replica.causes import FailureCause, WaitCause
from replica.ids import ACKS_ALL, TRANSACTIONS_TOPIC, TopicPartition, partition_of
from replica.trace import events as trace
from scenarios.language.spec import Scenario
from scenarios.observe.waits import DiskLoss, Stretch

KEPT = 500
"""Number of latest changes of each kind that are kept."""
SHORTEST_US = 100_000
"""A shorter part is merged with the previous part, in microseconds."""
SHORT_UNKNOWN_US = 500_000
"""A shorter part with an unknown cause is merged with the previous part, in microseconds."""
NEVER = 1 << 62
SETUP_TIMEOUT = "socket.connection.setup.timeout.ms"
SESSION_TIMEOUT, MAX_POLL_INTERVAL = "session.timeout.ms", "max.poll.interval.ms"
JITTER = 1.2
"""The largest factor by which a backoff can exceed its setting."""

T = TypeVar("T")


def latest() -> deque[Any]:
    return deque(maxlen=KEPT)


class NodeSpan(NamedTuple):
    """A fact (`what`) about a node that held from `from_us` to `to_us`."""

    from_us: int
    to_us: int
    node: str
    what: str = ""

    def covers(self, at_us: int) -> bool:
        return self.from_us <= at_us < self.to_us


class Led(NamedTuple):
    """The leader and ISR of a partition according to the controller.

    `serves` is True once the broker has begun to lead.
    """

    leader: str | None = None
    serves: bool = False
    isr: tuple[str, ...] = ()
    min_isr: int = 1
    disk_loss: DiskLoss | None = None


class Owned(NamedTuple):
    """The owner of a partition in a consumer group; `client` is None if there is none."""

    is_rebalancing: bool = False
    client: str | None = None
    instance: str | None = None


class Stable(NamedTuple):
    """The last stable offset of a partition while it is below the high watermark, otherwise NEVER."""

    offset: int = NEVER
    producer_id: int | None = None


@dataclass(slots=True)
class Attempt:
    """An attempt to send a batch.

    Attributes:
        number: 1 for the first attempt.
        end: why the attempt failed, None if it has not failed.
        error: error in the answer, "" if there is none.
    """

    peer: str
    number: int
    acks: int
    records: tuple[str, ...]
    sent_us: int
    ended_us: int = NEVER
    end: FailureCause | None = None
    error: str = ""


@dataclass(slots=True)
class PartitionEvidence:
    """The facts about a partition that can explain waits.

    Attributes:
        stalls: (start, end, followers) of times in which the leader had records above the high watermark that these
            followers lacked.
        lost: log end offset of each replica after its disk last lost records.
    """

    led: deque[tuple[int, Led]] = field(default_factory=latest)
    stable: deque[tuple[int, Stable]] = field(default_factory=latest)
    proposals: deque[tuple[int, tuple[str, ...]]] = field(default_factory=latest)
    stalls: deque[tuple[int, int, tuple[str, ...]]] = field(default_factory=latest)
    end: int = 0
    high_watermark: int = 0
    stalled_us: int = NEVER
    behind: dict[str, None] = field(default_factory=dict)
    fetched: dict[str, int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    acked: deque[int] = field(default_factory=latest)
    lost: dict[str, int] = field(default_factory=dict)

    def stalls_until(self, end_us: int) -> list[tuple[int, int, tuple[str, ...]]]:
        """Return the stalls, including one that began before `end_us` and still lasts."""
        still = [] if self.stalled_us >= end_us else [(self.stalled_us, NEVER, tuple(self.behind))]
        return [*self.stalls, *still]


@dataclass(slots=True)
class PartitionReader:
    """A consumer or consumer group that reads a partition.

    Attributes:
        since_us: time since which there have been unread records, NEVER if there are none.
        failures: failed fetches of the reader.
    """

    client: str
    group: str | None
    position: int = 0
    peer: str = ""
    since_us: int = NEVER
    failures: deque[NodeSpan] = field(default_factory=latest)


# ------------------------------------------------------------------------------------------------------------- evidence


class Settings:
    """Values of the clients' and brokers' settings, by Kafka's names; None if a value is unknown."""

    def __init__(self, scenario: Scenario | None) -> None:
        self._scenario = scenario
        self._configs: dict[str, tuple[Any, ...]] = {}

    def of_client(self, client: str, key: str) -> int | None:
        value = self.text_of_client(client, key)
        return None if value is None else int(value)

    def text_of_client(self, client: str, key: str) -> Any:
        configs = self._configs.get(client)
        if configs is None:
            configs = self._configs[client] = self._configs_of(client)
        attribute = key.replace(".", "_")
        return next((getattr(config, attribute) for config in configs if hasattr(config, attribute)), None)

    def _configs_of(self, client: str) -> tuple[Any, ...]:
        workload = None if self._scenario is None else self._scenario.workloads.get(client)
        if self._scenario is None or workload is None:
            return ()
        release = self._scenario.rules.release
        producer = (workload.producer_config(release),) if workload.kind in ("producer", "transform") else ()
        return producer if workload.kind == "producer" else (workload.consumer_config(release), *producer)

    def of_broker(self, broker: str, key: str) -> int | None:
        if self._scenario is None or broker not in self._scenario.cluster.brokers:
            return None
        config = self._scenario.cluster.broker_config(broker, self._scenario.rules.release)
        return int(getattr(config, key.replace(".", "_")))

    def broker_session(self, broker: str) -> tuple[str, int | None]:
        """Return the timeout setting after which a controller fences a silent broker, and its value in milliseconds."""
        in_registry = self._scenario is not None and self._scenario.rules.membership == "zk-session"
        key = REGISTRY_SESSION if in_registry else KRAFT_SESSION
        return key, self.of_broker(broker, key)


@dataclass(slots=True)
class Evidence:
    """The facts about nodes, connections, groups and transactions that can explain waits.

    Attributes:
        down: times in which each node did not run or was paused, and how it went down.
        silent: brokers that a controller fenced, each from the time at which the controller last heard from it.
        faults: network faults by name.
        timeouts: waits of each client that timed out, with the broker it waited for.
        answers: requests of each client that were slow, throttled, or other than Produce and Fetch.
        owned: owners of each partition, by group and partition.
        sessions: for each client that a group removed, the timeout setting, its milliseconds, and the removal time.
        transactions: latest state change of each transaction, by producer id.
        refusals: refusals by a transaction coordinator, by transactional.id.
        throttled: times in which a broker throttled each client.
        members: group of each client.
        controllers: active controller over time, None for none.
        partitions: evidence about each partition.
    """

    settings: Settings
    down: dict[str, deque[NodeSpan]] = field(default_factory=dict)
    silent: deque[NodeSpan] = field(default_factory=latest)
    faults: dict[str, NodeSpan] = field(default_factory=dict)
    timeouts: dict[str, deque[NodeSpan]] = field(default_factory=dict)
    answers: dict[str, deque[tuple[int, trace.RequestCompleted]]] = field(default_factory=dict)
    owned: dict[tuple[str, str], deque[tuple[int, Owned]]] = field(default_factory=dict)
    sessions: dict[str, tuple[str, int | None, int]] = field(default_factory=dict)
    producer_ids: dict[str, int] = field(default_factory=dict)
    transactions: dict[int, trace.TransactionStateChanged] = field(default_factory=dict)
    refusals: dict[str, deque[NodeSpan]] = field(default_factory=dict)
    throttled: dict[str, deque[NodeSpan]] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    controllers: deque[tuple[int, str | None]] = field(default_factory=latest)
    partitions: dict[TopicPartition, PartitionEvidence] = field(default_factory=dict)


def _at(changes: deque[tuple[int, T]], at_us: int) -> T | None:
    return next((value for since_us, value in reversed(changes) if since_us <= at_us), None)


def _covering(spans: Iterator[NodeSpan] | deque[NodeSpan], at_us: int) -> NodeSpan | None:
    return next((span for span in spans if span.covers(at_us)), None)


Found = Mapping[str, Any]
"""Values for the fields of a Stretch; empty if no cause was found."""


def _is_short(values: Found, length_us: int) -> bool:
    return length_us < (SHORT_UNKNOWN_US if values["cause"] is WaitCause.UNKNOWN else SHORTEST_US)


class ClusterCauses:
    """Base class for finding the causes of one client's waits at one partition."""

    def __init__(self, seen: Evidence, client: str, partition: PartitionEvidence) -> None:
        self.seen, self.client, self.partition = seen, client, partition

    def stretches(self, from_us: int, to_us: int) -> tuple[Stretch, ...]:
        """Divide a wait into parts with one cause each. A short part is merged with the previous one."""
        inside = sorted({at_us for at_us in self._cuts(to_us) if from_us < at_us < to_us})
        found: list[dict[str, Any]] = []
        for since_us, until_us in zip([from_us, *inside], [*inside, to_us], strict=True):
            values = {"who": self.client, **self._cause(since_us, until_us)}
            last = found[-1] if found else None
            is_same = last is not None and all(
                last.get(key) == values.get(key) for key in ("cause", "nodes", "setting", "leader", "seen", "disk_loss")
            )
            if last is not None and (is_same or _is_short(values, until_us - since_us)):
                last["to_us"] = until_us
            elif last is not None and len(found) == 1 and _is_short(last, last["to_us"] - last["from_us"]):
                found = [{**values, "from_us": last["from_us"], "to_us": until_us}]
            else:
                found.append({**values, "from_us": since_us, "to_us": until_us})
        return tuple(Stretch(**values) for values in found)

    def _cuts(self, end_us: int) -> Iterator[int]:
        its = self.partition
        for changed in (its.led, its.stable):
            yield from (at_us for at_us, _ in changed)
        for since_us, until_us, _ in its.stalls_until(end_us):
            yield from (since_us, until_us)
        spans = [self.seen.silent, *self.seen.down.values(), self.seen.faults.values(), self._timeouts, self._throttled]
        for span in (span for some in spans for span in some):
            yield from (span.from_us, span.to_us)
        yield from (at_us for at_us, _ in self.seen.controllers)
        yield from (at_us for at_us, _ in its.proposals)

    @property
    def _timeouts(self) -> deque[NodeSpan]:
        return self.seen.timeouts.get(self.client) or deque()

    @property
    def _throttled(self) -> deque[NodeSpan]:
        return self.seen.throttled.get(self.client) or deque()

    @property
    def _answers(self) -> deque[tuple[int, trace.RequestCompleted]]:
        return self.seen.answers.get(self.client) or deque()

    def _cause(self, at_us: int, until_us: int) -> Found:
        if _covering(self.seen.down.get(self.client, deque()), at_us) is not None:
            return {"cause": WaitCause.CLIENT_DOWN}
        led = _at(self.partition.led, at_us)
        if led is None:
            return {"cause": WaitCause.UNKNOWN, "seen": "the partition was not known yet"}
        return self._of_leader(led, at_us) or self._of_client(led, at_us, until_us)

    def _of_leader(self, led: Led, at_us: int) -> Found:
        if led.leader is None:
            return self._of_controller(at_us) or {
                "cause": WaitCause.NO_LEADER, "nodes": led.isr, "disk_loss": led.disk_loss,
            }  # fmt: skip
        down = _covering(self.seen.down.get(led.leader, deque()), at_us)
        if down is not None and (found := self._of_controller(at_us)):
            return found
        if down is not None or self._is_cut_off(led.leader, at_us):
            return self._leader_down(led.leader, "silent" if down is None else down.what)
        if not led.serves:
            return {"cause": WaitCause.LEADER_STARTING, "nodes": (led.leader,)}
        return {}

    def _of_controller(self, at_us: int) -> Found:
        active = _at(self.seen.controllers, at_us)
        if active is not None and _covering(self.seen.down.get(active, deque()), at_us) is None:
            return {}
        return {"cause": WaitCause.NO_CONTROLLER} if self.seen.controllers else {}

    def _leader_down(self, leader: str, how: str) -> Found:
        setting, value_ms = self.seen.settings.broker_session(leader)
        return {
            "cause": WaitCause.LEADER_DOWN, "nodes": (leader,), "setting": setting, "value_ms": value_ms, "seen": how,
        }  # fmt: skip

    def _is_cut_off(self, leader: str, at_us: int) -> bool:
        """Return True if the leader does not answer the client, and the controller will fence it for its silence."""
        return self._will_be_fenced(leader, at_us) and self._gets_no_answer(leader, at_us)

    def _will_be_fenced(self, leader: str, at_us: int) -> bool:
        """Return True if the controller will fence the leader for its silence, although the leader runs."""
        silent = next((item for item in self.seen.silent if item.node == leader and item.covers(at_us)), None)
        its = self.seen.down.get(leader, ())
        return silent is not None and not any(at_us < down.from_us < silent.to_us for down in its)

    def _gets_no_answer(self, leader: str, at_us: int) -> bool:
        return any(span.node == leader and span.covers(at_us) for span in self._timeouts)

    def _of_client(self, led: Led, at_us: int, until_us: int) -> Found:
        raise NotImplementedError

    def _of_followers(self, at_us: int, until_us: int, leader: str) -> Found:
        for since_us, to_us, behind in self.partition.stalls_until(until_us):
            if since_us <= at_us < to_us:
                if self._will_be_fenced(leader, at_us):
                    return self._leader_down(leader, "silent")
                proposed = any(
                    since_us <= at <= at_us for at, isr in self.partition.proposals if set(behind) - set(isr)
                )
                if proposed and behind:
                    return self._of_controller(at_us) or {"cause": WaitCause.ISR_PENDING, "nodes": (leader, *behind)}
                if not behind:
                    return {"cause": WaitCause.FOLLOWER_BEHIND}
                led = _at(self.partition.led, at_us)
                in_isr = led is None or any(node in led.isr for node in behind)
                setting, holder = "replica.lag.time.max.ms", leader
                value_ms = self.seen.settings.of_broker(leader, setting)
                if any(item.node in behind and item.covers(at_us) for item in self.seen.silent):
                    setting, value_ms = self.seen.settings.broker_session(leader)
                    holder = ""
                return {
                    "cause": WaitCause.FOLLOWER_BEHIND, "nodes": behind, "setting": setting, "value_ms": value_ms,
                    "holder": holder, "seen": "" if in_isr else "no longer in the ISR, but caught up until then,",
                }  # fmt: skip
        return {}

    def _of_connection(self, led: Led, at_us: int) -> Found:
        """Return the cause if the client was throttled, or if its wait for a connection or an answer timed out."""
        throttled = _covering(self._throttled, at_us)
        if throttled is not None:
            return {"cause": WaitCause.THROTTLED, "nodes": (throttled.node,), "seen": throttled.what}
        span = _covering(self._timeouts, at_us)
        return (
            {}
            if span is None
            else self._timed_out(led, span.node, span.from_us, at_us, span.what, span.to_us - span.from_us)
        )

    def _timed_out(self, led: Led, peer: str, since_us: int, at_us: int, api: str, waited_us: int = 0) -> Found:
        if peer == led.leader and not self._was_away(peer, since_us, at_us):
            return self._silence(peer, at_us)
        cause, setting = WaitCause.REQUEST_TIMEOUT, "request.timeout.ms"
        if not api:
            cause, setting = WaitCause.SETUP_TIMEOUT, SETUP_TIMEOUT
            # The timeout doubles with each failure (KIP-601).
            first_ms = self.seen.settings.of_client(self.client, SETUP_TIMEOUT)
            if first_ms is not None and waited_us > first_ms * JITTER * 1000:
                setting = "socket.connection.setup.timeout.max.ms"
        return {
            "cause": cause, "nodes": (peer,), "leader": led.leader, "setting": setting, "holder": self.client,
            "value_ms": self.seen.settings.of_client(self.client, setting), "elapsed_us": at_us - since_us, "seen": api,
        }  # fmt: skip

    def _slow(self, at_us: int, until_us: int) -> Found:
        """Return the cause if a broker answered late and its RequestCompleted event says where the time went."""
        for _, answer in self._answers:
            in_time = answer.received_us < until_us and answer.received_us + answer.total_time_us > at_us
            if in_time and answer.total_time_us >= SHORTEST_US and answer.api != "Fetch":
                parts = {
                    "the request waited for a handler": answer.request_queue_time_us,
                    "the request was in the handler": answer.local_time_us,
                    "the request waited for other brokers": answer.remote_time_us,
                    "the response waited to be sent": answer.response_queue_time_us + answer.response_send_time_us,
                }
                longest = max(parts, key=parts.__getitem__)
                return {"cause": WaitCause.SLOW_ANSWER, "nodes": (answer.node,), "seen": f"{answer.api}: {longest}"}
        return {}

    def _silence(self, leader: str, at_us: int) -> Found:
        return {"cause": WaitCause.LEADER_SILENT, "nodes": (leader,), "seen": self._disturbance(leader, at_us)}

    def _was_away(self, peer: str, since_us: int, at_us: int) -> bool:
        """Return True if the peer was down or cut off for a time that ended after `since_us`, and lost the request."""
        faults = (fault for fault in self.seen.faults.values() if {peer, self.client} & set(fault.node.split(",")))
        spans = [*self.seen.down.get(peer, ()), *faults]
        return any(since_us < span.to_us <= at_us for span in spans)

    def _disturbance(self, node: str, at_us: int) -> str:
        """Return a text about the network fault or quota that affected a node, or "" if there was none."""
        faults = (
            fault.what for fault in self.seen.faults.values() if node in fault.node.split(",") and fault.covers(at_us)
        )
        quotas = (f"{node} throttles it" for item in self._throttled if item.node == node and item.from_us <= at_us)
        return next(faults, "") or next(quotas, "")


class WriteCauses(ClusterCauses):
    """Find the causes of a producer's waits. `attempts` are its attempts since the last success."""

    def __init__(
        self, seen: Evidence, client: str, partition: PartitionEvidence, attempts: tuple[Attempt, ...]
    ) -> None:
        super().__init__(seen, client, partition)
        self.attempts = attempts
        self.acks = attempts[-1].acks if attempts else None

    def _cuts(self, end_us: int) -> Iterator[int]:
        yield from super()._cuts(end_us)
        for attempt in self.attempts:
            yield from (attempt.sent_us, attempt.ended_us)
            if attempt.ended_us != NEVER:
                yield attempt.ended_us + self._backoff_us(attempt)

    def _backoff_us(self, attempt: Attempt) -> int:
        """Return how long the backoff after an attempt can last at most, in microseconds."""
        first = self.seen.settings.of_client(self.client, "retry.backoff.ms")
        most = self.seen.settings.of_client(self.client, "retry.backoff.max.ms")
        if first is None or most is None:
            return 0
        return int(min(first * 2 ** min(attempt.number - 1, 40) * JITTER, max(first, most)) * 1000)

    def _gets_no_answer(self, leader: str, at_us: int) -> bool:
        attempt = self._in_flight(at_us)
        is_lost = attempt is not None and attempt.peer == leader and attempt.end in _NO_ANSWER
        return is_lost or super()._gets_no_answer(leader, at_us)

    def _in_flight(self, at_us: int) -> Attempt | None:
        """Return the oldest attempt in flight, which is answered first, or None if there is none."""
        return next((attempt for attempt in self.attempts if attempt.sent_us <= at_us < attempt.ended_us), None)

    def _of_client(self, led: Led, at_us: int, until_us: int) -> Found:
        leader = led.leader or ""
        attempt = self._in_flight(at_us)
        if self.acks == ACKS_ALL and len(led.isr) < led.min_isr and not self._goes_elsewhere(leader, at_us):
            return {"cause": WaitCause.MIN_ISR, "nodes": led.isr, "count": led.min_isr}
        if attempt is None:
            return self._of_connection(led, at_us) or self._between_attempts(led, at_us, until_us)
        if attempt.peer != leader:
            if attempt.end is FailureCause.ERROR and attempt.ended_us - attempt.sent_us < SHORTEST_US:
                return self._stale(attempt.peer, leader)
            if attempt.end is not FailureCause.REQUEST_TIMEOUT and attempt.ended_us != NEVER:
                return {
                    "cause": WaitCause.NO_ANSWER, "nodes": (attempt.peer,), "leader": leader,
                    "setting": "request.timeout.ms", "holder": self.client, "elapsed_us": at_us - attempt.sent_us,
                    "value_ms": self.seen.settings.of_client(self.client, "request.timeout.ms"),
                }  # fmt: skip
            return self._timed_out(led, attempt.peer, attempt.sent_us, at_us, "Produce")
        if self.acks == ACKS_ALL and (found := self._of_followers(at_us, until_us, leader)):
            return found
        if attempt.end in _NO_ANSWER or attempt.ended_us == NEVER:
            return self._timed_out(led, leader, attempt.sent_us, at_us, "Produce")
        return self._slow(at_us, until_us) or {
            "cause": WaitCause.SLOW_ANSWER, "nodes": (leader,), "seen": self._disturbance(leader, at_us),
        }  # fmt: skip

    def _goes_elsewhere(self, leader: str, at_us: int) -> bool:
        """Return True if the client waits for an answer from a broker that is not the leader."""
        attempt = self._in_flight(at_us)
        return attempt is not None and attempt.peer != leader

    def _stale(self, peer: str, leader: str) -> Found:
        setting = "metadata.max.age.ms"
        return {
            "cause": WaitCause.STALE_METADATA, "nodes": (peer,), "leader": leader, "setting": setting,
            "value_ms": self.seen.settings.of_client(self.client, setting), "holder": self.client,
        }  # fmt: skip

    def _between_attempts(self, led: Led, at_us: int, until_us: int) -> Found:
        before = next((attempt for attempt in reversed(self.attempts) if attempt.ended_us <= at_us), None)
        after = next((attempt for attempt in self.attempts if attempt.sent_us >= until_us), None)
        if before is None:
            return self._before_first(at_us, until_us)
        if after is not None and after.peer == before.peer != led.leader and before.end is FailureCause.ERROR:
            return self._stale(before.peer, led.leader or "")
        if at_us < before.ended_us + self._backoff_us(before):
            setting = "retry.backoff.ms"
            return {
                "cause": WaitCause.RETRY_BACKOFF, "setting": setting, "holder": self.client, "seen": before.error,
                "value_ms": self.seen.settings.of_client(self.client, setting),
            }  # fmt: skip
        return self._of_unsent(at_us, until_us)

    def _before_first(self, at_us: int, until_us: int) -> Found:
        linger_ms = self.seen.settings.of_client(self.client, "linger.ms") or 0
        if linger_ms and linger_ms * 1000 + SHORTEST_US >= until_us - at_us:
            setting = "linger.ms"
            return {"cause": WaitCause.LINGER, "setting": setting, "value_ms": linger_ms, "holder": self.client}
        return self._of_unsent(at_us, until_us)

    def _of_unsent(self, at_us: int, until_us: int) -> Found:
        """Return the cause if the client had nothing in flight: a transaction, a slow answer, a refresh, or UNKNOWN."""
        found = self._of_transaction(at_us, until_us) or self._slow(at_us, until_us) or self._of_refresh(at_us)
        return found or {"cause": WaitCause.UNKNOWN, "seen": "it sent nothing"}

    def _of_transaction(self, at_us: int, until_us: int) -> Found:
        """Return the cause if the transaction coordinator refused a request, or had no leader that could answer."""
        name = self.seen.settings.text_of_client(self.client, "transactional.id")
        if not name:
            return {}
        for refused in self.seen.refusals.get(name, ()):
            if at_us < refused.from_us <= until_us + SHORTEST_US:
                seen = f"{refused.node} answered {refused.what}"
                return {"cause": WaitCause.TRANSACTION, "nodes": (refused.node,), "seen": seen}
        count = sum(partition.topic == TRANSACTIONS_TOPIC for partition in self.seen.partitions)
        sender = TopicPartition(TRANSACTIONS_TOPIC, partition_of(name, count)) if count else None
        led = None if sender is None else _at(self.seen.partitions[sender].led, at_us)
        if led is not None and sender is not None and (found := self._of_leader(led, at_us)):
            return {"cause": WaitCause.TRANSACTION, "nodes": found.get("nodes", ()), "seen": found["cause"].meaning}
        return {}

    def _of_refresh(self, at_us: int) -> Found:
        """Return the cause if the client found the new leader late because of the backoff between Metadata requests.

        Source: Metadata.timeToNextUpdate
        """
        before = next((attempt for attempt in reversed(self.attempts) if attempt.ended_us <= at_us), None)
        after = next((attempt for attempt in self.attempts if attempt.sent_us > at_us), None)
        most_ms = self.seen.settings.of_client(self.client, "retry.backoff.max.ms")
        if before is None or after is None or before.peer == after.peer or most_ms is None:
            return {}
        if after.sent_us - at_us > most_ms * JITTER * 1000 + SHORTEST_US:
            return {}
        return {
            "cause": WaitCause.RETRY_BACKOFF, "setting": "retry.backoff.max.ms", "value_ms": most_ms,
            "holder": self.client, "seen": "Metadata without the new leader",
        }  # fmt: skip


_NO_ANSWER = (FailureCause.REQUEST_TIMEOUT, FailureCause.CONNECTION_LOST)


class ReadCauses(ClusterCauses):
    """Find the causes of a reader's waits. A reader is a consumer, or all members of a group.

    Args:
        name: name of the partition.
    """

    def __init__(self, seen: Evidence, reader: PartitionReader, name: str, partition: PartitionEvidence) -> None:
        super().__init__(seen, reader.client, partition)
        self.reader = reader
        self.owned = seen.owned.get((reader.group or "", name)) or deque()

    def _cuts(self, end_us: int) -> Iterator[int]:
        yield from super()._cuts(end_us)
        yield from (at_us for at_us, _ in self.owned)
        yield from (failure.from_us for failure in self.reader.failures)

    def _cause(self, at_us: int, until_us: int) -> Found:
        return self._of_group(at_us) or super()._cause(at_us, until_us)

    def _of_group(self, at_us: int) -> Found:
        owned, group = _at(self.owned, at_us), self.reader.group
        if owned is None:
            return {}
        if owned.is_rebalancing and owned.client is None:
            awaited = [
                client for client, its in self.seen.members.items() if its == group and self._is_awaited(client, at_us)
            ]
            setting, value_ms = self._session(awaited[0]) if awaited else (None, None)
            return {
                "cause": WaitCause.REBALANCE, "who": group, "nodes": tuple(awaited), "setting": setting,
                "value_ms": value_ms, "holder": _holder(awaited[0], setting) if awaited else None,
            }  # fmt: skip
        if owned.client is None:
            return {"cause": WaitCause.UNASSIGNED, "who": group}
        self.client = owned.client
        if _covering(self.seen.down.get(owned.client, deque()), at_us) is None:
            return {}
        setting, value_ms = self._session(owned.client)
        return {
            "cause": WaitCause.MEMBER_DOWN, "who": group, "nodes": (owned.client,), "setting": setting,
            "value_ms": value_ms, "holder": _holder(owned.client, setting), "seen": owned.instance or "",
        }  # fmt: skip

    def _is_awaited(self, client: str, at_us: int) -> bool:
        """Return True if a group waits for this member, which does not run or has not rejoined in time."""
        ended = self.seen.sessions.get(client)
        is_late = ended is not None and ended[0] == MAX_POLL_INTERVAL and ended[2] > at_us
        return is_late or _covering(self.seen.down.get(client, deque()), at_us) is not None

    def _session(self, client: str) -> tuple[str, int | None]:
        """Return the timeout setting after which a group removes this client, and its value in milliseconds."""
        setting, value_ms, _ = self.seen.sessions.get(client) or (SESSION_TIMEOUT, None, 0)
        return setting, self.seen.settings.of_client(client, setting) if value_ms is None else value_ms

    def _of_client(self, led: Led, at_us: int, until_us: int) -> Found:
        leader = led.leader or ""
        held = _at(self.partition.stable, at_us)
        level = self.seen.settings.text_of_client(self.client, "isolation.level")
        unread = min(
            (item for item in self.partition.acked if item >= self.reader.position), default=self.reader.position
        )
        if held is not None and held.offset <= unread and level != "read_uncommitted":
            return self._of_open_transaction(held)
        return (
            self._of_followers(at_us, until_us, leader)
            or self._of_connection(led, at_us)
            or self._of_failures(led, at_us)
            or {"cause": WaitCause.UNKNOWN, "seen": self._last_peer(leader)}
        )

    def _last_peer(self, leader: str) -> str:
        peer = self.reader.peer
        return f"it had last read from {peer}, and {leader} was the leader" if peer and peer != leader else ""

    def _of_open_transaction(self, held: Stable) -> Found:
        if held.producer_id is None:
            return {"cause": WaitCause.FOLLOWER_BEHIND, "seen": "the end of a transaction was not replicated"}
        known = self.seen.transactions.get(held.producer_id)
        found = {"cause": WaitCause.LAST_STABLE_OFFSET, "count": held.producer_id}
        if known is None or known.state in ("Empty", "CompleteCommit", "CompleteAbort", "Dead"):
            return found
        setting = "transaction.timeout.ms"
        return {**found, "setting": setting, "value_ms": known.timeout_ms, "seen": known.transactional_id}

    def _of_failures(self, led: Led, at_us: int) -> Found:
        last = next((failure for failure in reversed(self.reader.failures) if failure.from_us <= at_us), None)
        if last is None:
            return {}
        if last.node != led.leader:
            setting = "metadata.max.age.ms"
            return {
                "cause": WaitCause.STALE_METADATA, "nodes": (last.node,), "leader": led.leader, "setting": setting,
                "value_ms": self.seen.settings.of_client(self.client, setting), "holder": self.client,
            }  # fmt: skip
        return {"cause": WaitCause.FETCH_REFUSED, "nodes": (last.node,), "seen": last.what}


def _holder(client: str, setting: str | None) -> str | None:
    """Return the client if it has this setting itself, or None: with KIP-848 groups or brokers set sessions."""
    return client if setting in (SESSION_TIMEOUT, MAX_POLL_INTERVAL) else None
