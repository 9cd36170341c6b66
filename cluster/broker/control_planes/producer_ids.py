"""Producer ids, which are unique in the cluster. Source: RPCProducerIdManager (KIP-730)"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from cluster.broker.control_planes.forwarding import Forwarding
from cluster.clocks import Timers
from cluster.node import Action
from cluster.protocol import cold
from cluster.protocol.versions import ALLOCATE_PRODUCER_IDS
from replica.errors import ErrorCode, PeerViolation
from replica.ids import BrokerEpoch, BrokerId

PREFETCH_THRESHOLD = 0.9
"""Fraction of a block that is used when the next block is requested."""
IDS_PER_REGISTRATION = 1_000_000


Give = Callable[[int | None], None]
"""Called with a producer id, or with None if none came in time and the producer has to retry."""


class ProducerIds(Protocol):
    def next(self, give: Give, now_us: int) -> None: ...


class IdsOfRegistration:
    """Producer ids in the ZooKeeper era.

    Simplified: Kafka's brokers allocate blocks of ids in the registry (/latest_producer_id_block). Here the block is
    numbered by the broker epoch, which differs in each registration of a broker; so the ids are unique too.
    """

    def __init__(self, broker_epoch: Callable[[], BrokerEpoch]) -> None:
        self._broker_epoch = broker_epoch
        self._given = 0

    def next(self, give: Give, now_us: int) -> None:
        self._given += 1
        give(self._broker_epoch() * IDS_PER_REGISTRATION + self._given - 1)


class _Block(NamedTuple):
    first: int
    length: int


class IdsOfController:
    """Producer ids in KRaft: the controller allocates blocks, and the next one is requested before a block is used up.

    Differs from Kafka 3.6 and later (KAFKA-14694): if no id is left, a producer waits for the next block, as in earlier
    releases. There it gets an error, and retries after retry.backoff.ms.
    """

    def __init__(
        self,
        *,
        node: str,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
        forwarding: Forwarding,
        timers: Timers[Action],
        max_wait_us: int,
    ) -> None:
        self._node = node
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._forwarding = forwarding
        self._timers = timers
        self._max_wait_us = max_wait_us
        self._block = _Block(0, 0)
        self._given = 0
        self._next_block: _Block | None = None
        self._is_asked = False
        self._waiting: deque[Give] = deque()

    def next(self, give: Give, now_us: int) -> None:
        producer_id = self._claim(now_us)
        if producer_id is None:
            self._waiting.append(give)
            self._timers.at(now_us + self._max_wait_us, lambda now_us: self._give_up(give))
        else:
            give(producer_id)

    def _claim(self, now_us: int) -> int | None:
        if self._given == self._block.length:
            if self._next_block is None:
                self._ask(now_us)
                return None
            self._block, self._next_block, self._given = self._next_block, None, 0
        if self._given == int(self._block.length * PREFETCH_THRESHOLD):
            self._ask(now_us)
        self._given += 1
        return self._block.first + self._given - 1

    def _give_up(self, give: Give) -> None:
        if give in self._waiting:
            self._waiting.remove(give)
            give(None)

    def _ask(self, now_us: int) -> None:
        if self._is_asked or self._next_block is not None:
            return
        self._is_asked = True
        entity = cold.request(ALLOCATE_PRODUCER_IDS, 0, broker_id=self._broker_id, broker_epoch=self._broker_epoch())

        def encode(correlation_id: int) -> bytes:
            return cold.encode_request(ALLOCATE_PRODUCER_IDS, 0, correlation_id, self._node, entity)

        self._forwarding.ask(ALLOCATE_PRODUCER_IDS, encode, self._answered, now_us)

    def _answered(self, frame: bytearray | None, now_us: int) -> None:
        """Serve waiting producers from the block in a response. Without a block, they wait for a later response."""
        self._is_asked = False
        self._next_block = None if frame is None else _block_in(frame)
        if self._next_block is not None:
            waiting, self._waiting = self._waiting, deque()
            for give in waiting:
                producer_id = self._claim(now_us)
                if producer_id is None:
                    self._waiting.append(give)
                else:
                    give(producer_id)


def _block_in(frame: bytearray) -> _Block | None:
    """Return the block in a response; None if it has an error, such as a stale broker epoch."""
    try:
        answer = cold.decode_response(ALLOCATE_PRODUCER_IDS, 0, frame)
    except PeerViolation:
        return None
    if answer.error_code is not ErrorCode.NONE:
        return None
    return _Block(int(answer.producer_id_start), int(answer.producer_id_len))
