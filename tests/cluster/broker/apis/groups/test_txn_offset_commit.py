"""TxnOffsetCommit on a real broker: every version, what is fetched meanwhile, markers, a coordinator that moves."""

from __future__ import annotations

import pytest
from group_world import Consumer, coordinating

from cluster.broker.replicas.transaction_checks import TransactionQuestion
from cluster.protocol import versions as v
from replica.errors import ErrorCode
from replica.ids import OFFSETS_TOPIC, TopicPartition
from replica.trace.events import HeldBackOffsetDropped, OffsetCommitted, OffsetHeldBack

LOG = TopicPartition(OFFSETS_TOPIC, 0)
ERA = {**dict.fromkeys(range(4), "kafka-3.5"), 4: "kafka-3.9", 5: "kafka-4.1", 6: "kafka-4.4"}
"""A release of KRaft that offers each version, as its newest one or among others."""


class Committer(Consumer):
    """A consumer whose producer commits for it."""

    def commit_in_transaction(self, offset, version=3, *, producer_id=5, epoch=0, topic="t", metadata="", **values):
        one = {"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}
        me = {**self._me(), **values} if version >= 3 else {"group_id": self.group}
        answer = self.ask(
            v.TXN_OFFSET_COMMIT,
            version,
            transactional_id="tx",
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[{"name": topic, "topic_id": self._topic_id, "partitions": [one]}],
            **me,
        )
        return None if answer is None else self.commit_error()

    def end(self, committed, *, producer_id=5):
        marker = {
            "producer_id": producer_id,
            "producer_epoch": 0,
            "transaction_result": committed,
            "topics": [{"name": OFFSETS_TOPIC, "partition_indexes": [0]}],
            "coordinator_epoch": 0,
        }
        answer = self.ask(v.WRITE_TXN_MARKERS, 1, markers=[marker])
        return answer.markers[0].topics[0].partitions[0].error_code


@pytest.fixture
def world(tmp_path):
    """Of an era that verifies nothing."""
    return coordinating(tmp_path, "kafka-3.5")


def grant(world, error=ErrorCode.NONE) -> list[TransactionQuestion]:
    """The transaction's coordinator answers at once. returns: what it is asked"""
    asked: list[TransactionQuestion] = []

    def answer(question, now_us):
        asked.append(question)
        question.answered(dict.fromkeys(question.partitions, error), now_us)

    world.broker.replicas.transaction_checks.ask = answer
    return asked


@pytest.mark.parametrize("version", ERA)
def test_every_version_in_its_era(version, tmp_path):
    world = coordinating(tmp_path, ERA[version])
    asked = grant(world)
    client = Committer(world, "c1")
    assert client.commit_in_transaction(7, version) == ErrorCode.NONE
    assert client.committed(3) == (-1, 0)
    assert client.end(True) == ErrorCode.NONE
    assert client.committed(3) == (7, 0)
    assert [one.adds for one in asked] == {4: [False], 5: [True], 6: [True]}.get(version, [])


def test_a_consumer_that_wants_stable_offsets_waits(world):
    client = Committer(world, "c1")
    client.commit(3)
    client.commit_in_transaction(7)
    assert client.committed(7) == (3, 0)
    assert [client.committed(version, stable=True) for version in (7, 8)] == [
        (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT),
    ] * 2
    client.end(False)
    assert client.committed(8, stable=True) == (3, 0)
    kinds = (OffsetHeldBack, HeldBackOffsetDropped, OffsetCommitted)
    assert [len(world.events(kind)) for kind in kinds] == [1, 1, 1]


def test_a_coordinator_that_has_read_its_log_knows_what_waits(world):
    client = Committer(world, "c1")
    client.commit_in_transaction(7)
    client.commit_in_transaction(9, producer_id=6)
    client.end(True)
    world.kill()
    world.start()
    world.run(20_000)
    client = Committer(world, "c1")
    assert client.committed() == (7, 0)
    assert client.committed(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    client.end(True, producer_id=6)
    assert client.committed(stable=True) == (9, 0)


def test_offsets_are_not_stable_below_the_last_stable_offset_alone(world):
    """A marker of a producer that has committed nothing for this group changes nothing."""
    client = Committer(world, "c1")
    client.commit_in_transaction(7)
    client.end(True, producer_id=6)
    assert client.committed(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_a_transaction_that_is_not_open_takes_no_offsets(error, answered, tmp_path):
    world = coordinating(tmp_path, "kafka-3.9")
    (asked,) = [grant(world, error)]
    client = Committer(world, "c1")
    assert client.commit_in_transaction(7, 4) == answered
    assert [(one.transactional_id, one.partitions) for one in asked] == [("tx", (LOG,))]
    assert world.broker.replicas.partitions[LOG].log.log_end_offset == 0


def test_a_marker_between_the_question_and_the_commit(tmp_path):
    """KAFKA-14402: such a commit would begin a transaction that nothing ends."""
    world = coordinating(tmp_path, "kafka-3.9")
    asked: list[TransactionQuestion] = []
    world.broker.replicas.transaction_checks.ask = lambda question, now_us: asked.append(question)
    client = Committer(world, "c1")
    assert client.commit_in_transaction(7, 4) is None
    assert Committer(world, "b2").end(False) == ErrorCode.NONE
    asked[0].answered({LOG: ErrorCode.NONE}, world.now_us)
    world.to_broker("tick")
    assert client.commit_error() == ErrorCode.INVALID_TXN_STATE


def test_who_commits_is_checked(world):
    client = Committer(world, "c1")
    assert client.commit_in_transaction(7, generation_id=3) == ErrorCode.ILLEGAL_GENERATION
    assert client.commit_in_transaction(7, group_id="") == ErrorCode.INVALID_GROUP_ID
    assert client.commit_in_transaction(7, topic="nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.commit_in_transaction(7, metadata="x" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert client.commit_in_transaction(7) == ErrorCode.NONE
    assert client.commit_in_transaction(7, epoch=1) == ErrorCode.NONE
    assert client.commit_in_transaction(7, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("version", "error"), [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
)
def test_old_producers_do_not_know_that_a_coordinator_may_be_loading(version, error, world):
    """KAFKA-7296"""
    world.broker.groups.coordinator.index.loading[0] = 9
    assert Committer(world, "c1").commit_in_transaction(7, version) == error


def test_without_a_producer_id_it_is_a_commit_like_any_other(world):
    client = Committer(world, "c1")
    assert client.commit_in_transaction(7, producer_id=-1) == ErrorCode.NONE
    assert client.committed(stable=True) == (7, 0)
