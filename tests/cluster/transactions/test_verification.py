"""A leader that asks a transaction's coordinator: how long it asks again, and which questions travel."""

from __future__ import annotations

import pytest

from cluster.broker.replicas.transaction_checks import TransactionQuestion
from cluster.node import Outbox
from cluster.transactions.verification import TransactionVerifier
from controller.image import BrokerRegistration
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.trace.events import BatchRefused, RecordAcked
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

SCENARIO = """\
schema: 1
id: asked-again
title: The markers of a transaction take long, and the next one has begun
duration: 12s
profile: kafka-4.1
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {transaction.state.log.num.partitions: 1, add.partitions.to.txn.retry.backoff.max.ms: MAX}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads:
  p1:
    kind: producer
    topic: t
    config: {acks: all, enable.idempotence: true, transactional.id: x, linger.ms: 0}
    rate: 2/s
    start: 1s
    stop: 5s
    transaction: {records: 1}
timeline:
  - {at: 2s, hold: {from: brokers, to: brokers, api: WriteTxnMarkers}, as: markers, for: 1s}
"""


@pytest.mark.parametrize(("max_ms", "is_told"), [(100, True), (20_000, False)])
def test_a_producer_is_told_of_the_transaction_before_once_the_leader_has_asked_long_enough(
    max_ms: int, is_told: bool
) -> None:
    """The leader asks the coordinator again for add.partitions.to.txn.retry.backoff.max.ms, then the producer asks."""
    scenario = load_text(SCENARIO.replace("MAX", str(max_ms)), "test.yaml").scenario
    rows = run_scenario(scenario, runs_dir=None, keep_rows=True).rows
    refused = [row.event.error for row in rows if isinstance(row.event, BatchRefused)]
    assert set(refused) == ({ErrorCode.CONCURRENT_TRANSACTIONS.name} if is_told else set())
    assert sum(isinstance(row.event, RecordAcked) for row in rows) == 8


COORDINATOR = BrokerRegistration(
    broker_id=2,
    incarnation_id="a",
    broker_epoch=1,
    registration_offset=1,
    rack=None,
    host="b2",
    port=9092,
    fenced=False,
    in_controlled_shutdown=False,
)


class Answers:
    """What the verifier says of each question, by its name."""

    def __init__(self) -> None:
        self.given: list[tuple[str, ErrorCode]] = []

    def question(self, name: str, epoch: int, number: int = 0) -> TransactionQuestion:
        return TransactionQuestion(
            transactional_id="x",
            producer_id=5,
            producer_epoch=epoch,
            partitions=(TopicPartition("t", number),),
            adds=True,
            aborts=True,
            answered=lambda errors, now_us: self.given.extend((name, error) for error in errors.values()),
        )


@pytest.mark.parametrize(
    ("epoch", "told"),
    [
        (3, [("second", ErrorCode.NETWORK_EXCEPTION)]),
        (4, [("second", ErrorCode.INVALID_PRODUCER_EPOCH)]),
        (2, [("third", ErrorCode.INVALID_PRODUCER_EPOCH)]),
    ],
)
def test_of_a_producer_one_question_waits_for_the_next_request(epoch: int, told: list[tuple[str, ErrorCode]]) -> None:
    """source: AddPartitionsToTxnManager.addTxnData"""
    outbox, answers = Outbox(), Answers()
    verifier = TransactionVerifier(
        node="b1",
        outbox=outbox,
        find=lambda transactional_id, now_us: COORDINATOR,
        request_timeout_us=30_000_000,
    )
    verifier.ask(answers.question("first", 3), 0)  # It travels.
    verifier.ask(answers.question("second", 3, 1), 0)
    verifier.ask(answers.question("third", epoch, 2), 0)
    assert answers.given == told
