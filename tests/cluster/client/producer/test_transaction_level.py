"""transaction.version as a producer learns it from its brokers: what it sends by which level, and when that changes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, cast

import pytest

from cluster.client.api_versions import Allowed, ApiVersions, NodeApiVersions
from cluster.client.connections import Answered, ClientConnections
from cluster.client.events import ClientEvents
from cluster.client.metadata_cache import ClientMetadata
from cluster.client.producer.idempotence import GroupMetadata, IdempotenceState, ProducerState
from cluster.client.producer.transactions import TransactionManager
from cluster.config import ProducerConfig
from cluster.protocol.cold import response
from cluster.protocol.versions import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
    VERSIONS,
    api_name,
)
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.trace.events import TraceLog

TP = TopicPartition("t", 0)


class Connections:
    """To one broker, which is always ready, names itself as coordinator, and answers as told."""

    def __init__(self, offers: Mapping[int, tuple[int, int]] = VERSIONS) -> None:
        self.metadata = ClientMetadata(
            [("b1", 9092)], max_age_ms=300_000, retry_backoff_ms=100, retry_backoff_max_ms=100, rng=random.Random(1)
        )
        brokers = [{"node_id": 1, "host": "b1", "port": 9092}]
        self.metadata.update(response(3, 12, brokers=brokers, topics=[]), 0)
        self.versions = ApiVersions()
        self.offers = offers
        self.sent: list[tuple[str, int | None]] = []
        self.error = ErrorCode.NONE

    def tells(self, level: int, epoch: int) -> None:
        self.versions.update(1, NodeApiVersions(self.offers, {"transaction.version": level}, epoch))

    def least_loaded(self, now_us: int) -> int:
        return 1

    def ready(self, node_id: int, now_us: int) -> bool:
        return True

    def ask(
        self,
        node_id: int,
        api_key: int,
        values: Mapping[str, Any],
        answered: Answered,
        now_us: int,
        *,
        timeout_us: int | None = None,
        allowed: Allowed | None = None,
    ) -> None:
        version = self.versions.of(node_id).usable(api_key, allowed)
        self.sent.append((api_name(api_key), version))
        if version is None:
            answered(None, ErrorCode.UNSUPPORTED_VERSION, now_us)
            return
        error = ErrorCode.NONE if api_key == FIND_COORDINATOR else self.error
        fields: dict[str, Any] = {"error_code": error, "producer_id": 7, "producer_epoch": 1}
        if api_key == FIND_COORDINATOR:
            fields = {"error_code": error, "node_id": 1, "host": "b1", "port": 9092}
        elif api_key in (ADD_PARTITIONS_TO_TXN, TXN_OFFSET_COMMIT):
            fields = {}
        answer = response(api_key, version, **fields)
        answered(answer, getattr(answer, "error_code", ErrorCode.NONE), now_us)


class Producer:
    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        config = ProducerConfig(transactional_id="x")
        events = ClientEvents("p1", TraceLog([]))
        self.manager = TransactionManager(
            config, cast(ClientConnections, connections), events, IdempotenceState(transactional=True)
        )
        self.run()

    def run(self) -> list[tuple[str, int | None]]:
        """What it has sent."""
        while self.manager.run_once(0, has_incomplete=False):
            pass
        sent, self.connections.sent = self.connections.sent, []
        return sent

    def transaction(self) -> list[tuple[str, int | None]]:
        self.manager.begin()
        self.manager.sends_to(TP)
        began = self.run()
        self.manager.end(commit=True)
        return began + self.run()


def producer(level: int, epoch: int = 5) -> Producer:
    connections = Connections()
    connections.tells(level, epoch)
    return Producer(connections)


def test_without_level_2_partitions_are_added_and_older_versions_sent() -> None:
    one = producer(level=0)
    assert one.manager.level.produces().latest == 11
    assert one.transaction() == [("AddPartitionsToTxn", 3), ("EndTxn", 4)]


def test_with_level_2_producing_adds_them() -> None:
    one = producer(level=2)
    assert one.manager.level.produces().latest == 12
    assert one.transaction() == [("EndTxn", 5)]


def test_a_new_level_counts_from_the_next_transaction_on_which_has_an_epoch_of_its_own() -> None:
    one = producer(level=0)
    one.manager.begin()
    one.manager.sends_to(TP)
    one.run()
    one.connections.tells(2, epoch=9)
    assert one.manager.level.produces().latest == 11, "not within a transaction"
    one.manager.end(commit=True)
    assert one.run() == [("EndTxn", 4), ("InitProducerId", 5)]
    assert one.transaction() == [("EndTxn", 5)]


def test_an_older_epoch_of_the_metadata_changes_nothing() -> None:
    one = producer(level=2)
    one.connections.tells(0, epoch=4)
    one.transaction()
    assert one.transaction() == [("EndTxn", 5)]


def test_a_level_that_was_taken_back_is_heeded() -> None:
    one = producer(level=2)
    one.connections.tells(0, epoch=9)
    assert one.transaction() == [("EndTxn", 5)]
    assert one.transaction() == [("AddPartitionsToTxn", 3), ("EndTxn", 4)]


@pytest.mark.parametrize(("highest", "state"), [(1, ProducerState.FATAL_ERROR), (4, ProducerState.ABORTABLE_ERROR)])
def test_lost_sequences_are_fatal_where_no_coordinator_gives_an_epoch(highest: int, state: ProducerState) -> None:
    """Before KIP-360 (2.5)."""
    connections = Connections({**VERSIONS, INIT_PRODUCER_ID: (0, highest)})
    connections.tells(0, 5)
    one = Producer(connections)
    one.manager.begin()
    one.manager.sends_to(TP)
    one.run()
    one.manager.sequences_lost()
    assert one.manager.state is state


def test_a_member_cannot_be_named_before_2_5() -> None:
    connections = Connections({**VERSIONS, TXN_OFFSET_COMMIT: (0, 2)})
    connections.tells(2, 5)
    one = Producer(connections)
    one.manager.begin()
    one.manager.send_offsets({TP: 3}, GroupMetadata("g", 1, "m"))
    assert one.run()[-1] == ("TxnOffsetCommit", None)
    assert (one.manager.state, one.manager.error) == (ProducerState.FATAL_ERROR, ErrorCode.UNSUPPORTED_VERSION)
    assert one.run() == []


def test_a_group_alone_can() -> None:
    connections = Connections({**VERSIONS, TXN_OFFSET_COMMIT: (0, 2), END_TXN: (0, 5)})
    connections.tells(2, 5)
    one = Producer(connections)
    one.manager.begin()
    one.manager.send_offsets({TP: 3}, GroupMetadata("g"))
    assert one.run()[-1] == ("TxnOffsetCommit", 2)
    assert one.manager.state is ProducerState.IN_TRANSACTION
