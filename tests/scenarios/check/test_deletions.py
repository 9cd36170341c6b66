"""Records that an operator deletes are not lost, and those that are lost stay lost."""

from __future__ import annotations

import pytest
from trace_script import HERE, TraceScript

from replica.causes import DataLossCause, RetentionCause
from replica.ids import TopicPartition
from replica.trace import events as trace


def delete_records(script: TraceScript, start: int, *followers: str) -> None:
    for node in (script.leader, *followers):
        script.state(trace.LogStartOffsetAdvanced, node=node, log_start_offset=start)


def find(script: TraceScript, node: str, start: int, *names: str) -> None:
    """The rest of the log on the disk of `node`; `names` begin at `start`."""
    script.find(node, *names, start=start, leader=node == script.leader)


def test_deleted_records_are_neither_lost_nor_dirty() -> None:
    script = TraceScript()
    script.replicate("r0", "r1", "r2", acks=-1)
    script.read("r0", 0)
    delete_records(script, 2, "b2", "b3")
    for node in ("b1", "b2", "b3"):
        find(script, node, 2, "r2")
    assert script.broken() == []
    assert script.verdict().ok
    assert set(script.mirror.deleted) == {"r0", "r1"}


def test_what_was_lost_before_the_deletion_stays_lost() -> None:
    script = TraceScript()
    script.replicate("r0", "r1")
    script.send("r2")
    script.request("r2")
    script.append("b1", 2, "r2")
    script.ack("r2", 2)
    script.fail_over("b2", "b2", "b3")
    script.replicate("r3", via=("b3",))
    delete_records(script, 3)
    find(script, "b2", 3)
    find(script, "b3", 3)
    assert script.verdict().records["lost"] == ("r2",)


@pytest.mark.parametrize(
    ("goes_on_at", "skipped"), [pytest.param(2, (), id="expired"), pytest.param(3, ("r2",), id="expired, and one more")]
)
def test_what_had_expired_on_the_replica_that_was_read_was_not_skipped(
    goes_on_at: int, skipped: tuple[str, ...]
) -> None:
    """b2, which leads at the end, has r0 and r1 still."""
    script = TraceScript()
    script.replicate("r0", "r1", "r2", "r3", acks=-1)
    script.read("r0", 0)
    script.state(trace.RecordsExpired, node="b1", log_start_offset=2, size_bytes=200, cause=RetentionCause.TIME)
    script.reset(goes_on_at, error="OFFSET_OUT_OF_RANGE")
    script.read(f"r{goes_on_at}", goes_on_at)
    script.fail_over("b2", "b2", "b3")
    script.find("b2", "r0", "r1", "r2", "r3", leader=True)
    assert [one.records for one in script.verdict().of("poll-skip")] == ([skipped] if skipped else [])


def test_a_new_replica_begins_where_the_deletion_has_left_off() -> None:
    """It has all records that count, so it may join the ISR."""
    script = TraceScript(brokers=("b1", "b2", "b3"))
    script.replicate("r0", "r1", "r2", via=("b2",))
    script.commit_isr("b1", "b2")
    delete_records(script, 2, "b2")
    script.truncate("b3", 2, hw=2)
    script.append("b3", 2, "r2")
    script.fetch("b3", 3)
    script.propose(("b1", "b2", "b3"))
    script.commit_isr("b1", "b2", "b3")
    assert "S6" not in script.broken()


def test_a_deleted_topic_takes_its_records_along_and_is_not_judged_again() -> None:
    script = TraceScript()
    script.replicate("r0", "r1", acks=-1)
    script.end_offset(2)
    script.emit(trace.TopicDeleted(node="c1", topic="t"))
    script.append("b1", 2, "r2")
    for node in ("b1", "b2", "b3"):
        script.emit(trace.ReplicaDeleted(node=node, **HERE, previous_log_end_offset=2))
        script.empty(node)
    script.emit(
        trace.PartitionCreated(
            node="c1", **HERE, broker="b2", replicas=("b2", "b3"), isr=("b2", "b3"), leader_epoch=0, partition_epoch=0,
            min_isr=1,
    )
    )  # fmt: skip
    script.isr = ("b2", "b3")
    script.leads("b2", 0, 0)
    script.end_offset(0)
    assert script.broken() == []
    verdict = script.verdict()
    assert verdict.ok
    assert verdict.records["lost"] == ()


def make_again(script: TraceScript) -> None:
    """t, with other records; no broker but the controllers has heard of it so far."""
    script.emit(trace.TopicDeleted(node="c1", topic="t"))
    script.create(1)


def hear(script: TraceScript) -> None:
    """That the topic was deleted and made again."""
    for node in script.brokers:
        script.emit(trace.ReplicaDeleted(node=node, **HERE, previous_log_end_offset=3))
        script.empty(node)
    script.leads("b1", 0, 0, hw=0)
    for node in ("b2", "b3"):
        script.follows(node, "b1", 0, 0)


def test_a_new_disk_has_no_log_of_the_former_topic() -> None:
    """b1 was down meanwhile. Of the new topic it has r1, which is lost with it."""
    script = TraceScript()
    script.replicate("r0", acks=-1)
    script.stop("b1")
    make_again(script)
    for node in ("b2", "b3"):
        script.emit(trace.ReplicaDeleted(node=node, **HERE, previous_log_end_offset=1))
        script.empty(node)
    script.lose("b1", -1, DataLossCause.DISK_REPLACED)
    script.start("b1")
    script.leads("b1", 0, 0, hw=0)
    script.replicate("r1", via=())
    script.fail_over("b2", "b2", "b3")
    script.find("b2", leader=True)
    assert script.verdict().records["lost"] == ("r1",)
    assert script.verdict().records["deleted"] == ("r0",)


def test_a_leader_that_has_not_heard_of_the_new_topic_still_tells_the_end_of_the_former_one() -> None:
    script = TraceScript()
    script.replicate("r0", "r1", "r2", acks=-1)
    script.end_offset(3)
    make_again(script)
    script.end_offset(3)
    hear(script)
    script.end_offset(0)
    assert script.verdict().of("offset-regression") == ()
    script.end_offset(2)
    script.end_offset(1)
    assert [one.offsets for one in script.verdict().of("offset-regression")] == [(2, 1)]


def test_a_record_of_the_new_topic_may_be_read_before_its_broker_is_seen_to_have_heard() -> None:
    """What is seen of a real Kafka comes from several places."""
    script = TraceScript()
    script.replicate("r0", acks=-1)
    script.read("r0", 0)
    make_again(script)
    script.read("r4", 0)
    hear(script)
    script.read("r5", 1)
    script.find("b1", "r4", "r5")
    assert script.verdict().of("poll-skip") == ()


@pytest.mark.parametrize(("has_heard", "skipped"), [(False, ("r4", "r5")), (True, ())], ids=["unheard", "heard"])
def test_what_was_read_of_the_former_topic_is_not_read_of_the_new_one(
    has_heard: bool, skipped: tuple[str, ...]
) -> None:
    """The reader goes on at offset 2 of the new topic, once its leader has heard of it."""
    script = TraceScript()
    script.replicate("r0", "r1", "r2", acks=-1)
    script.read("r0", 0)
    make_again(script)
    if has_heard:
        hear(script)
        script.read("r4", 0)
    script.read("r5" if has_heard else "r1", 1)
    if not has_heard:
        hear(script)
    script.read("r6", 2)
    script.find("b1", "r4", "r5", "r6")
    assert [one.records for one in script.verdict().of("poll-skip")] == ([skipped] if skipped else [])


@pytest.mark.parametrize("kind", [trace.LogStartOffsetAdvanced, trace.RecordsExpired])
def test_a_log_begins_where_its_broker_says_in_the_middle_of_a_run(kind: type) -> None:
    """Whatever the others hold."""
    script = TraceScript()
    script.replicate("r0", "r1", "r2", acks=-1)
    more = {"size_bytes": 200, "cause": RetentionCause.TIME} if kind is trace.RecordsExpired else {}
    script.state(kind, node="b1", log_start_offset=2, **more)
    assert [name for _, name, _ in script.mirror.records(TopicPartition("t", 0), "b1")] == ["r2"]
    assert [name for _, name, _ in script.mirror.records(TopicPartition("t", 0), "b2")] == ["r0", "r1", "r2"]
