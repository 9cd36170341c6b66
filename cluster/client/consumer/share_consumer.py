"""A consumer in a share group (KIP-932), without I/O; it behaves like KafkaShareConsumer 4.3.

The application polls, processes the returned records, and polls again. In implicit mode the next poll accepts all
records of the last one; in explicit mode the application acknowledges each record first. Records of the last poll
before `close` are not accepted implicitly.
Source: ShareConsumerImpl.java, ShareMembershipManager.java, ShareHeartbeatRequestManager.java
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from cluster.client.connections import ClientConnections
from cluster.client.consumer.consumer import CLOSE_TIMEOUT_US, MAX_IN_FLIGHT
from cluster.client.consumer.consumer_membership import ShareHeartbeatMembership
from cluster.client.consumer.share_sessions import MemberSessions, ShareRecord
from cluster.client.events import ClientEvents
from cluster.client.metadata_cache import ClientMetadata
from cluster.client.node import ClientBase, ClientNode, ExponentialBackoff
from cluster.clocks import Timer
from cluster.config import EXPLICIT, ShareConsumerConfig
from cluster.node import Action, EndProcess
from replica.config import NEVER
from replica.log.files.checkpoints import as_kafka_spells
from replica.rules import Rules
from replica.trace.events import ShareRecordRead

ACCEPT, RELEASE, REJECT = 1, 2, 3
"""Types of acknowledgements. Source: AcknowledgeType.java"""


class ShareConsumerCore(ClientNode):
    """One member of a share group with its application.

    Args:
        outcome: returns the type of acknowledgement for a record's name; used in explicit mode.
        process_us: how long the application processes each record, in microseconds.
    """

    def __init__(
        self,
        base: ClientBase,
        config: ShareConsumerConfig,
        topics: Sequence[str],
        rules: Rules,
        outcome: Callable[[str], int],
        process_us: int,
    ) -> None:
        self._config = config
        self._outcome = outcome
        self._process_us = process_us
        self._outbox = base.outbox
        self._metadata = ClientMetadata(
            base.bootstrap,
            max_age_ms=config.metadata_max_age_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            rng=base.rng,
        )
        for topic in topics:
            self._metadata.add_topic(topic)
        self._connections = ClientConnections(base, config, self._metadata, max_in_flight=MAX_IN_FLIGHT)
        self._events = ClientEvents(base.name, base.recorder)
        backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, base.rng)
        self._sessions = MemberSessions(config, self._connections, self._events, backoff)
        member_id = as_kafka_spells(UUID(int=base.rng.getrandbits(128), version=4))
        self.group = ShareHeartbeatMembership(
            config, topics, self._connections, lambda found: None, lambda revoked: None, rules, member_id
        )
        self._sessions.member_id = member_id
        self._in_hand: list[ShareRecord] = []
        """The records of the last poll, which are not acknowledged yet."""
        self._busy_until_us = 0
        self._wake: Timer | None = None
        self._closes_by_us: int | None = None
        self._running = False

    def close(self, now_us: int) -> list[Action]:
        """Finish processing, end the sessions, leave the group and exit. Source: ShareConsumerImpl.close"""
        self._events.begin_step(from_outside=False)
        if not self._running:
            return self._exit()
        self._closes_by_us = max(now_us, self._busy_until_us) + CLOSE_TIMEOUT_US
        return self._run(now_us)

    def _exit(self, refused: str = "") -> list[Action]:
        self._running = False
        self._connections.close()
        return [*self._outbox.take(), EndProcess(refused=refused)]

    # --------------------------------------------------------------------------------------------------------- the loop

    def _run(self, now_us: int) -> list[Action]:
        if not self._running:
            return self._outbox.take()
        if self.group.refused:
            return self._exit(self.group.refused)
        is_busy = now_us < self._busy_until_us
        if self._closes_by_us is not None and not is_busy:
            return self._shut_down(self._closes_by_us, now_us)
        goes_on = True
        while goes_on:
            goes_on = self._work(now_us)
            self.group.may_join = now_us >= self._busy_until_us
            goes_on |= self.group.run_once(now_us)
            self._sessions.assigned = self.group.assigned
            goes_on |= self._sessions.run_once(now_us)
            goes_on |= self._connections.poll(now_us)  # Last, because earlier calls may have requested new metadata.
        self._arm(now_us, self._busy_until_us if now_us < self._busy_until_us else NEVER)
        return self._outbox.take()

    def _work(self, now_us: int) -> bool:
        """Let the application poll if it is not busy, and return True if the poll returned records."""
        if now_us < self._busy_until_us:
            return False
        has_more = bool(self._sessions.fetched)
        if self._in_hand:
            self._acknowledge(alone=has_more)
        if not has_more:
            self._sessions.wants_more = True
            return False
        self._in_hand = self._sessions.take(self._config.max_poll_records)
        self._sessions.wants_more = False
        for item in self._in_hand:
            self._events.emit(
                ShareRecordRead(
                    self._events.client,
                    *item.name,
                    peer=self._connections.name(item.node_id),
                    group=self._config.group_id,
                    offset=item.offset,
                    record=item.record,
                    delivery_count=item.delivery_count,
                )
            )
        self._busy_until_us = now_us + len(self._in_hand) * self._process_us
        return True

    def _acknowledge(self, *, alone: bool) -> None:
        is_explicit = self._config.share_acknowledgement_mode == EXPLICIT
        outcomes = [(item, self._outcome(item.record) if is_explicit else ACCEPT) for item in self._in_hand]
        self._in_hand = []
        self._sessions.acknowledge(outcomes, alone=alone)

    def _shut_down(self, by_us: int, now_us: int) -> list[Action]:
        if self._config.share_acknowledgement_mode == EXPLICIT:
            self._acknowledge(alone=True)
        while self._sessions.close_once(now_us) or self._connections.poll(now_us):
            pass
        if self._sessions.has_closed:
            self.group.leave()
            while self.group.run_once(now_us) or self._connections.poll(now_us):
                pass
        if self.group.has_left or now_us >= by_us:
            return self._exit()
        self._arm(now_us, by_us)
        return self._outbox.take()

    def _arm(self, now_us: int, due_us: int) -> None:
        metadata_us = self._connections.next_poll_us(now_us)
        deadlines = [due_us, self._sessions.next_deadline_us, self.group.next_deadline_us]
        if self._wake is not None:
            self._wake.cancel()
        at_us = min(*deadlines, NEVER if metadata_us is None else metadata_us)
        self._wake = None if at_us >= NEVER else self._outbox.timers.at(at_us, lambda _: None)
