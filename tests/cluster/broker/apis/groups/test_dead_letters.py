"""Dead letter queues of share groups (KIP-1191): what is written, where, and what becomes of the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from broker_world import B1, B2
from share_world import Shares

from controller.features import SHARE_VERSION, UNSAFE_DOWNGRADE
from controller.inputs import ChangeFeatureLevels, ChangeGroupConfig
from replica.causes import DeadLetterCause
from replica.log.batches.records import batches, read_records
from replica.trace.events import ShareDeadLettersSent, ShareRecordsSettled

REJECT = 3
TOPIC_NAME, COPY = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
IS_QUEUE = {"errors_deadletterqueue_group_enable": "true"}


class Queue(Shares):
    """The group g with the dead letter queue dlq.q, and one member."""

    def __init__(self, root: Path, name: str = "dlq.q", *, copies: bool = False, **config: str) -> None:
        super().__init__(root, **config)
        self.world.decide(ChangeGroupConfig(now_us=0, group="g", config={TOPIC_NAME: name, COPY: str(copies).lower()}))
        self.world.run(10)
        self.alter(0)
        self.beat(0)
        self.member = self.world.call("consumer")

    def create(self, *replicas: int, topic: str = "dlq.q", **config: str) -> None:
        self.world.create(*replicas, topic=topic, **config)
        self.world.run(10)

    def reject(self, first: int, last: int) -> None:
        """Read all records, reject some, and release the others."""
        self.read(self.member)
        given = [{"first_offset": first, "last_offset": last, "acknowledge_types": [REJECT]}]
        self.close(self.member, acknowledgement_batches=given)

    def letters(self, topic: str = "dlq.q") -> list[Any]:
        self.member.fetch(0, topic=topic)
        data = self.member.fetched().records
        return [
            record
            for at, header in batches(data)
            for record in read_records(memoryview(data)[at : at + header.size_bytes])
        ]

    def sent(self) -> list[tuple[int, int, DeadLetterCause, str | None]]:
        return [(one.first, one.last, one.outcome, one.error) for one in self.world.events(ShareDeadLettersSent)]

    def kept(self) -> list[tuple[int, int, str]]:
        """Return the batches that the share coordinator has: (first offset, last offset, state)."""
        (state,) = self.world.broker._coordinators.share_states._coordinator._states.values()
        return [(one.first, one.last, one.state.name) for one in state.batches]

    def states(self) -> list[str]:
        return [one.state for one in self.world.events(ShareRecordsSettled)]


@pytest.mark.parametrize("copies", [False, True])
def test_a_dead_letter_has_the_place_of_its_record_and_the_reason(tmp_path: Path, copies: bool) -> None:
    queue = Queue(tmp_path, copies=copies)
    queue.create(B1, **IS_QUEUE)
    queue.reject(3, 4)
    assert queue.sent() == [(3, 4, DeadLetterCause.WRITTEN, None)]
    third, fourth = queue.letters()
    records = [(None, b"r3"), (None, b"r4")] if copies else [(None, None)] * 2
    assert [(one.key, one.value) for one in (third, fourth)] == records
    assert third.headers == (
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"3"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )
    assert dict(fourth.headers)["__dlq.errors.offset"] == b"4"


def test_dead_letters_that_do_not_fit_into_a_batch_are_written_with_several(tmp_path: Path) -> None:
    queue = Queue(tmp_path, copies=True)
    queue.create(B1, max_message_bytes="450", **IS_QUEUE)
    queue.reject(0, 4)
    written = DeadLetterCause.WRITTEN
    assert queue.sent() == [(0, 1, written, None), (2, 3, written, None), (4, 4, written, None)]
    assert [one.value for one in queue.letters()] == [b"r0", b"r1", b"r2", b"r3", b"r4"]


@pytest.mark.parametrize(
    "name, config, outcome",
    [
        ("dlq.q", None, DeadLetterCause.NO_TOPIC),
        ("dlq.q", {}, DeadLetterCause.NOT_ENABLED),
        ("q", IS_QUEUE, DeadLetterCause.OTHER_PREFIX),
    ],
)
def test_what_cannot_be_written_is_archived_all_the_same(
    tmp_path: Path, name: str, config: dict[str, str] | None, outcome: DeadLetterCause
) -> None:
    queue = Queue(tmp_path, name)
    if config is not None:
        queue.create(B1, topic=name, **config)
    queue.reject(0, 0)
    assert queue.sent() == [(0, 0, outcome, None)]
    assert queue.kept()[0] == (0, 0, "ARCHIVED")


def test_any_name_is_allowed_without_a_prefix(tmp_path: Path) -> None:
    queue = Queue(tmp_path, "q", errors_deadletterqueue_topic_name_prefix="")
    queue.create(B1, topic="q", **IS_QUEUE)
    queue.reject(0, 0)
    assert queue.sent() == [(0, 0, DeadLetterCause.WRITTEN, None)]


def test_a_refused_write_is_not_repeated(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.create(B1, max_message_bytes="100", **IS_QUEUE)
    queue.reject(0, 0)
    assert queue.sent() == [(0, 0, DeadLetterCause.REFUSED, "MESSAGE_TOO_LARGE")]
    assert queue.kept()[0] == (0, 0, "ARCHIVED")


def test_a_queue_that_does_not_answer_is_tried_five_times(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.world.join(B2)
    queue.create(B2, B1, **IS_QUEUE)
    queue.reject(0, 0)
    tried_ms = 5 * 30_000 + 2000 + 4000 + 8000 + 16_000
    queue.world.run(tried_ms - 1000)
    assert (queue.sent(), queue.kept()[0]) == ([], (0, 0, "ARCHIVING"))
    queue.world.run(2000)
    queue.relay()
    assert queue.sent() == [(0, 0, DeadLetterCause.EXHAUSTED, "REQUEST_TIMED_OUT")]
    assert queue.kept()[0] == (0, 0, "ARCHIVED")


def test_without_level_2_of_share_version_there_are_no_dead_letters(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.create(B1, **IS_QUEUE)
    queue.world.decide(
        ChangeFeatureLevels(now_us=0, levels={SHARE_VERSION: 1}, upgrade_types={SHARE_VERSION: UNSAFE_DOWNGRADE})
    )
    queue.world.run(10)
    queue.reject(0, 0)
    assert (queue.sent(), queue.states()[0]) == ([], "archived")
