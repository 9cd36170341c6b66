"""A live session in which topics, groups, members and transactions come and go by the thousand, and its verdict.

`pytest -m soak tests/live/parts/test_live_forgetting.py`; HIGHWATER_FORGETTING_S=600 lasts longer than 90 s.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from raw_client import RawClient
from serving import program, serving
from verdicts import expect_nothing_broken

from cluster.protocol import versions as v
from replica.errors import ErrorCode

LASTS_S = int(os.environ.get("HIGHWATER_FORGETTING_S", "90"))
GROUPS_PER_ROUND, MEMBERS, TOPICS_PER_ROUND, TRANSACTIONS_PER_ROUND = 5, 3, 4, 3

COUNTING = """
import json, scenarios.run.runner as runner, scenarios.observe.availability as gone
from tests.entries import entries_in

drop = gone.GoneTopics._drop

def dropped(self):
    drop(self)
    mirror, ledger, story, invariants, _, waits, dashboard = self._forgetful
    stays = (ledger.records, mirror.sent.names, ledger.taken_by, story.lines)
    seen = {{id(one) for one in (*stays, self._view.deleted_topics)}}
    with open({file!r}, "a") as counted:
        kept = [mirror, ledger, story, waits, dashboard, *invariants.invariants]
        counted.write(json.dumps(entries_in(kept, seen)) + "\\n")

gone.GoneTopics._drop = dropped
"""
"""What is kept each time that something was forgotten, for a test outside."""


class Session:
    def __init__(self, bootstrap: str) -> None:
        self.random = random.Random(38)
        self.raw = RawClient.at(bootstrap)
        self.bootstrap = bootstrap
        self.done: Counter[str] = Counter()
        self.producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "worker", "linger.ms": 0})
        self.producer.init_transactions(20)

    def round(self, number: int) -> None:
        # Names come again, of topics as of groups: what is known of one may stay.
        names = [f"t{number % 9}-{one}" for one in range(TOPICS_PER_ROUND)]
        wanted = [
            {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            for name in names
        ]
        made = self.raw.ask(v.CREATE_TOPICS, 5, topics=wanted, timeout=10_000, validate_only=False)
        assert [topic.error_code.value for topic in made.topics] == [0] * len(names), made
        for _ in range(TRANSACTIONS_PER_ROUND):
            self._transact(names)
        self._read(names[0])
        for one in range(GROUPS_PER_ROUND):
            self._group(f"g{number % 8}-{one}")
        gone = self.raw.ask(v.DELETE_TOPICS, 5, topic_names=names, timeout=10_000)
        assert [answer.error_code.value for answer in gone.responses] == [0] * len(names), gone
        self.done["topics"] += len(names)

    def _transact(self, names: list[str]) -> None:
        self.producer.begin_transaction()
        for name in names:
            self.producer.produce(name, b"v%d" % self.done["records"], partition=0)
            self.done["records"] += 1
        # librdkafka 2.16 counts on where a topic is made again, and a leader that knows nothing of a producer takes any
        # first sequence. But an abort purges what is still queued: where that was all for a partition, its marker is
        # the first that the new log has of the producer. From then on 0 is expected, by Kafka 4.1.2 too
        # (ProducerAppendInfo.checkSequence), and librdkafka ends with OUT_OF_ORDER_SEQUENCE_NUMBER. An abort of nothing
        # may end it with INVALID_TXN_STATE (confluentinc/librdkafka 4849). So each partition gets a batch before.
        self.producer.flush(20)
        if self.random.random() < 0.7:
            self.producer.commit_transaction(20)
            self.done["committed"] += len(names)
        else:
            self.producer.abort_transaction(20)
        self.done["transactions"] += 1

    def _read(self, name: str) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False})
        consumer.assign([TopicPartition(name, 0, 0)])
        consumer.consume(2, 0.3)
        consumer.close()

    def _joined(self, group: str) -> Any:
        """The answer to JoinGroup; a coordinator that has just begun to lead is asked again, as clients do."""
        for _ in range(50):
            joined = self.raw.ask(
                v.JOIN_GROUP, 3, group_id=group, session_timeout=10_000, rebalance_timeout=10_000, member_id="",
                protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}],
            )  # fmt: skip
            if joined.error_code.value != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                break
            time.sleep(0.1)
        return joined

    def _group(self, group: str) -> None:
        """Members that come one after the other, and leave; then it is deleted."""
        for _ in range(MEMBERS):
            joined = self._joined(group)
            assert joined.error_code.value == 0, joined
            own = [{"member_id": joined.member_id, "assignment": b""}]
            self.raw.ask(
                v.SYNC_GROUP, 2, group_id=group, generation_id=joined.generation_id, member_id=joined.member_id,
                assignments=own,
            )  # fmt: skip
            self.raw.ask(v.LEAVE_GROUP, 2, group_id=group, member_id=joined.member_id)
            self.done["members"] += 1
        deleted = self.raw.ask(v.DELETE_GROUPS, 1, groups_names=[group])
        assert deleted.results[0].error_code.value == 0, deleted
        self.done["groups"] += 1


@pytest.mark.soak
@pytest.mark.live
@pytest.mark.timeout(300 + LASTS_S)
def test_what_is_gone_is_forgotten_and_the_verdict_is_said(tmp_path: Path) -> None:
    record, counted = tmp_path / "runs", tmp_path / "counted"
    record.mkdir()
    first = COUNTING.format(file=str(counted))
    settings = [
        word
        for setting in ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1",
                        "transaction.state.log.num.partitions=1")
        for word in ("--set", f"cluster.config.{setting}")
    ]  # fmt: skip
    with serving(record, *settings, brokers=1, program=program(tmp_path / "program", first)) as served:
        session, rounds, until_s = Session(served.bootstrap), 0, time.monotonic() + LASTS_S
        while time.monotonic() < until_s:
            session.round(rounds)
            rounds += 1
        served.stop()
    kept = [json.loads(line) for line in counted.read_text().splitlines()]
    print(f"{rounds} rounds: {dict(session.done)}; entries kept: {kept}")
    expect_nothing_broken(served.summary)
    assert len(served.summary["records"]["acked"]) >= session.done["committed"]
    assert "NOTHING LOST" in served.output
    assert len(kept) > 4 and kept[-1] < 1.1 * kept[len(kept) // 2], kept
