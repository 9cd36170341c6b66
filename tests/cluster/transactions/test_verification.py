"""A leader that asks a transaction's coordinator: how long it asks again, and which questions travel."""

from __future__ import annotations

import pytest
from peers import Peers

from cluster.broker.replicas.transaction_checks import TransactionQuestion
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


class Questions:
    """Of the leader b1, with what it is told, by the name of each."""

    def __init__(self, coordinator: BrokerRegistration | None = COORDINATOR) -> None:
        self.told: list[tuple[str, ErrorCode]] = []
        self.again: list[str] = []
        self.peers = Peers()
        self.verifier = TransactionVerifier(
            node="b1",
            outbox=self.peers.outbox,
            find=lambda transactional_id, now_us: coordinator,
            request_timeout_us=30_000_000,
        )

    def ask(self, name: str, epoch: int = 3, number: int = 0, *, id: str = "x", aborts: bool = True) -> None:
        again = self.again.append
        question = TransactionQuestion(
            transactional_id=id,
            producer_id=5,
            producer_epoch=epoch,
            partitions=(TopicPartition("t", number),),
            adds=True,
            aborts=aborts,
            answered=lambda errors, now_us: self.told.extend((name, error) for error in errors.values()),
            again=(lambda now_us: again(name)) if name == "patient" else None,
            backoff_us=20_000,
            until_us=100_000,
        )
        self.verifier.ask(question, 0)
        self.peers.listen()

    def answer(self, *errors: tuple[str, int, ErrorCode], now_us: int = 0) -> None:
        """errors: (transactional id, partition of t, error)"""
        results = [
            {
                "transactional_id": name,
                "topic_results": [
                    {
                        "name": "t",
                        "results_by_partition": [{"partition_index": number, "partition_error_code": error}],
                    }
                ],
            }
            for name, number, error in errors
        ]
        self.peers.answer(now_us, results_by_transaction=results)


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
    questions = Questions()
    questions.ask("first", 3)  # It travels.
    questions.ask("second", 3, 1)
    questions.ask("third", epoch, 2)
    assert questions.told == told


def test_questions_of_many_travel_together_and_nothing_is_asked_where_there_is_none() -> None:
    questions = Questions()
    questions.ask("first")
    questions.ask("second", id="y")
    questions.ask("third", id="z")
    questions.answer(("x", 0, ErrorCode.NONE))
    questions.answer(("z", 0, ErrorCode.NOT_COORDINATOR))
    of_each = [[str(one.transactional_id) for one in asked.transactions] for _, asked in questions.peers.asked]
    assert of_each == [["x"], ["y", "z"]]
    assert questions.told == [
        ("first", ErrorCode.NONE),
        ("second", ErrorCode.NETWORK_EXCEPTION),  # The answer does not name it.
        ("third", ErrorCode.NOT_COORDINATOR),
    ]


@pytest.mark.parametrize(
    ("error", "aborts", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_a_client_hears_what_its_version_knows(error: ErrorCode, aborts: bool, told: ErrorCode) -> None:
    questions = Questions()
    questions.ask("first", aborts=aborts)
    questions.answer(("x", 0, error))
    assert questions.told == [("first", told)]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_an_error_of_the_whole_request_is_that_of_each_question(error: ErrorCode, told: ErrorCode) -> None:
    """source: AddPartitionsToTxnHandler.onComplete"""
    questions = Questions()
    questions.ask("first")
    questions.peers.answer(error_code=error)
    assert questions.told == [("first", told)]


def test_without_a_coordinator_and_without_an_answer() -> None:
    questions = Questions(coordinator=None)
    questions.ask("first")
    assert questions.told == [("first", ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    questions = Questions()
    questions.ask("first")
    questions.peers.hang_up()
    assert questions.told == [("first", ErrorCode.NETWORK_EXCEPTION)]


@pytest.mark.parametrize(("now_us", "is_asked_again"), [(99_999, True), (100_000, False)])
def test_the_end_of_the_transaction_before_is_waited_for_so_long(now_us: int, is_asked_again: bool) -> None:
    questions = Questions()
    questions.ask("patient")
    questions.answer(("x", 0, ErrorCode.CONCURRENT_TRANSACTIONS), now_us=now_us)
    questions.peers.run(now_us + 19_999)
    assert questions.again == []
    questions.peers.run(now_us + 20_000)
    assert questions.again == (["patient"] if is_asked_again else [])
    assert questions.told == ([] if is_asked_again else [("patient", ErrorCode.CONCURRENT_TRANSACTIONS)])
