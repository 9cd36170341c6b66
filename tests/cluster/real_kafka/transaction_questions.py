"""Questions about transactions, asked on the wire: in old and new versions of each API, with right and wrong ids and
epochs, in each state. `python transaction_questions.py BOOT BOOT` asks two clusters and prints what differs.

Each cluster has one broker and SETTINGS. Producer ids are told by the order in which a story meets them.
"""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from raw_client import RawClient

from cluster.protocol.api_00_produce import ProduceRequest, decode_produce_response, encode_produce_request
from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.versions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    CREATE_TOPICS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    METADATA,
    TXN_OFFSET_COMMIT,
    UPDATE_FEATURES,
    WRITE_TXN_MARKERS,
)
from replica.errors import ErrorCode
from replica.log.batches.records import build_batch
from tests.waiting import wait_for

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "auto.create.topics.enable": "false",
    "broker.session.timeout.ms": "60000",
}
LAST_EPOCH = 32_766
AT_ONCE = 50
"""Requests that are on their way to a broker together."""
SAFE_DOWNGRADE, UPGRADE = 2, 1
Story = Callable[["Asker"], None]
STORIES: list[Story] = []
AT_EACH_LEVEL: list[Story] = []
"""Asked at transaction.version 2, 1 and 0."""


def story(told: Story) -> Story:
    STORIES.append(told)
    return told


def at_each_level(told: Story) -> Story:
    AT_EACH_LEVEL.append(told)
    return told


class Asker:
    """One cluster; `lines` is what it was asked and answered. Its verbs take names of transactional ids as they are
    told, which are made unique for each story."""

    def __init__(self, bootstrap: str) -> None:
        self.lines: list[str] = []
        self._client = RawClient.at(bootstrap, client_id="asker")
        self._story = ""
        self._run = f"{time.time_ns():x}"
        self._ids: dict[int, str] = {-1: "-"}

    def begin(self, title: str) -> None:
        self._story, self._ids = title, {-1: "-"}
        self.lines.append(f"# {title}")

    def name(self, transactional_id: str) -> str:
        return f"{self._story}.{self._run}.{transactional_id}" if transactional_id else ""

    def _id(self, producer_id: int) -> str:
        return self._ids.setdefault(int(producer_id), f"id{len(self._ids)}")

    def _tell(self, question: str, answer: str) -> None:
        self.lines.append(f"{question} -> {answer}")

    # ------------------------------------------------------------------------------------------------------- requests

    def init(self, x: str, id: int = -1, epoch: int = -1, timeout: int = 60_000, v: int = 5) -> tuple[int, int]:
        """(producer id, epoch)"""
        answer = self._client.ask(
            INIT_PRODUCER_ID, v,
            transactional_id=self.name(x), transaction_timeout=timeout, producer_id=id, producer_epoch=epoch,
        )  # fmt: skip
        told = f"{answer.error_code.name} {self._id(answer.producer_id)} epoch {answer.producer_epoch}"
        self._tell(f"InitProducerId v{v} {x or 'empty'} {self._id(id)} epoch {epoch} timeout {timeout}", told)
        return int(answer.producer_id), int(answer.producer_epoch)

    def add(self, x: str, id: int, epoch: int, *names: str, v: int = 3, verify: bool = False) -> None:
        topics: dict[str, list[int]] = {}
        for name in names:
            topic, _, number = name.rpartition("-")
            topics.setdefault(topic, []).append(int(number))
        listed = [{"name": topic, "partitions": numbers} for topic, numbers in topics.items()]
        if v < 4:
            answer = self._client.ask(
                ADD_PARTITIONS_TO_TXN, v,
                v3_and_below_transactional_id=self.name(x), v3_and_below_producer_id=id,
                v3_and_below_producer_epoch=epoch, v3_and_below_topics=listed,
            )  # fmt: skip
            results = answer.results_by_topic_v3_and_below
        else:
            one = {
                "transactional_id": self.name(x), "producer_id": id, "producer_epoch": epoch,
                "verify_only": verify, "topics": listed,
            }  # fmt: skip
            answer = self._client.ask(ADD_PARTITIONS_TO_TXN, v, transactions=[one])
            results = [topic for found in answer.results_by_transaction for topic in found.topic_results]
        told = sorted(
            f"{topic.name}-{part.partition_index} {part.partition_error_code.name}"
            for topic in results
            for part in topic.results_by_partition
        )
        what = "verify" if verify else "add"
        self._tell(
            f"AddPartitionsToTxn v{v} {what} {x or 'empty'} {self._id(id)} epoch {epoch} {' '.join(names)}",
            ", ".join(told),
        )

    def add_offsets(self, x: str, id: int, epoch: int, v: int = 3, group: str = "g") -> None:
        answer = self._client.ask(
            ADD_OFFSETS_TO_TXN, v,
            transactional_id=self.name(x), producer_id=id, producer_epoch=epoch, group_id=self.name(group),
        )  # fmt: skip
        self._tell(f"AddOffsetsToTxn v{v} {x} {self._id(id)} epoch {epoch}", answer.error_code.name)

    def commit_offsets(
        self, x: str, id: int, epoch: int, v: int = 3, topic: str = "t", partition: int = 0, **member: Any
    ) -> None:
        part = {"partition_index": partition, "committed_offset": 5, "committed_metadata": ""}
        answer = self._client.ask(
            TXN_OFFSET_COMMIT, v,
            **{
                "transactional_id": self.name(x), "group_id": self.name("g"), "producer_id": id,
                "producer_epoch": epoch, "generation_id": -1, "member_id": "",
                "topics": [{"name": topic, "partitions": [part]}], **member,
            },
        )  # fmt: skip
        told = ", ".join(one.error_code.name for topic in answer.topics for one in topic.partitions)
        by = "".join(f" {key} {value}" for key, value in member.items())
        self._tell(f"TxnOffsetCommit v{v} {x} {self._id(id)} epoch {epoch} {topic}-{partition}{by}", told)

    def end(self, x: str, id: int, epoch: int, commit: bool, v: int = 3, *, settles: bool = True) -> tuple[int, int]:
        """settles: wait for the markers"""
        answer = self._client.ask(
            END_TXN, v, transactional_id=self.name(x), producer_id=id, producer_epoch=epoch, committed=commit
        )
        given = int(getattr(answer, "producer_id", -1)), int(getattr(answer, "producer_epoch", -1))
        told = f"{answer.error_code.name} {self._id(given[0])} epoch {given[1]}"
        what = "commit" if commit else "abort"
        self._tell(f"EndTxn v{v} {what} {x or 'empty'} {self._id(id)} epoch {epoch}", told)
        if settles and answer.error_code is ErrorCode.NONE:
            self.settle(x)
        return given

    def produce(self, x: str | None, id: int, epoch: int, sequence: int = 0, v: int = 11, name: str = "t-0") -> None:
        topic, _, number = name.rpartition("-")
        batch = build_batch(
            [(None, b"x")],
            timestamp_ms=int(time.time() * 1000),
            producer_id=id, producer_epoch=epoch, base_sequence=sequence, transactional=True,
        )  # fmt: skip
        wanted = ProduceRequest(None if x is None else self.name(x), -1, 30_000, [(topic, [(int(number), batch)])])
        self._client._sock.sendall(encode_produce_request(v, 7, "asker", wanted))
        answer = decode_produce_response(v, memoryview(self._client._answer()))
        told = ", ".join(part.error.name for _, partitions in answer.topics for part in partitions)
        self._tell(f"Produce v{v} {x} {self._id(id)} epoch {epoch} sequence {sequence} {name}", told)

    def _described(self, x: str) -> Any:
        answer = self._client.ask(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.name(x)])
        (found,) = answer.transaction_states
        return found

    def describe(self, x: str) -> None:
        found = self._described(x)
        names = sorted(f"{topic.topic}-{number}" for topic in found.topics for number in topic.partitions)
        began = found.transaction_start_time
        has_begun = getattr(began, "timestamp", lambda: began)() not in (-1, -0.001)
        told = (
            f"{found.error_code.name} {found.transaction_state or '-'} {self._id(found.producer_id)} "
            f"epoch {found.producer_epoch} timeout {found.transaction_timeout} "
            f"{'begun' if has_begun else 'not begun'}: {' '.join(names)}"
        )
        self._tell(f"DescribeTransactions v0 {x or 'empty'}", told)

    def list(
        self,
        states: Sequence[str] = (),
        ids: Sequence[int] = (),
        longer: int = -1,
        pattern: str | None = None,
        v: int = 2,
    ) -> None:
        """pattern: {} stands for the story's part of each id"""
        answer = self._client.ask(
            LIST_TRANSACTIONS, v,
            state_filters=states, producer_id_filters=ids, duration_filter=longer,
            transactional_id_pattern=None if pattern is None else pattern.replace("{}", self.name(".")),
        )  # fmt: skip
        mine = sorted(
            f"{one.transactional_id.rpartition('.')[2]} {self._id(one.producer_id)} {one.transaction_state}"
            for one in answer.transaction_states
            if one.transactional_id.startswith(f"{self._story}.{self._run}.")
        )
        asked = f"{[*states]} {[self._id(one) for one in ids]} {longer} {pattern}"
        unknown = sorted(answer.unknown_state_filters)
        self._tell(f"ListTransactions v{v} {asked}", f"{answer.error_code.name} {mine} unknown {unknown}")

    def fence_coordinator(self, id: int, epoch: int, name: str, coordinator_epoch: int = 1000) -> None:
        """Markers of a later coordinator: those of the present one are refused from now on, so that what it decides is
        never complete."""
        topic, _, number = name.rpartition("-")
        marker = {
            "producer_id": id, "producer_epoch": epoch, "transaction_result": False,
            "coordinator_epoch": coordinator_epoch,
            "topics": [{"name": topic, "partition_indexes": [int(number)]}],
        }  # fmt: skip
        answer = self._client.ask(WRITE_TXN_MARKERS, 1, markers=[marker])
        told = [part.error_code.name for one in answer.markers for topic in one.topics for part in topic.partitions]
        self._tell(f"WriteTxnMarkers v1 {self._id(id)} epoch {epoch} {name} of {coordinator_epoch}", ", ".join(told))

    # -------------------------------------------------------------------------------------------------------- waiting

    def settle(self, x: str) -> None:
        """Until no marker is due."""
        wait_for(lambda: str(self._described(x).transaction_state), holds=lambda state: not state.startswith("Prepare"))

    def time_out(self, x: str) -> None:
        wait_for(lambda: str(self._described(x).transaction_state), holds=lambda state: state == "CompleteAbort")
        self.describe(x)

    def init_ready(self, x: str, **values: Any) -> tuple[int, int]:
        """Of a second instance: the first answer, and the last one, for which the first instance has to be aborted."""
        self.init(x, **values)
        self.settle(x)
        return self.init(x, **values)

    def use_up(self, x: str, id: int) -> None:
        """Raise the epoch from 0 to the last one that a producer may have. Markers have nothing to do with it."""
        asked = request(
            INIT_PRODUCER_ID, 5,
            transactional_id=self.name(x), transaction_timeout=60_000, producer_id=-1, producer_epoch=-1,
        )  # fmt: skip
        frame = encode_request(INIT_PRODUCER_ID, 5, 1, "asker", asked)
        epoch = 0
        while epoch < LAST_EPOCH:
            count = min(LAST_EPOCH - epoch, AT_ONCE)
            self._client._sock.sendall(frame * count)
            for _ in range(count):
                answer = decode_response(INIT_PRODUCER_ID, 5, self._client._answer())
                epoch = max(epoch, int(answer.producer_epoch))
        self.describe(x)

    def set_level(self, level: int) -> None:
        """transaction.version of the cluster"""
        update = {
            "feature": "transaction.version", "max_version_level": level,
            "upgrade_type": UPGRADE if level == 2 else SAFE_DOWNGRADE,
        }  # fmt: skip
        answer = self._client.ask(UPDATE_FEATURES, 2, timeout=30_000, feature_updates=[update], validate_only=False)
        self._tell(f"UpdateFeatures v2 transaction.version {level}", answer.error_code.name)
        time.sleep(1)  # For the broker to read it; nothing that it answers says so.

    def prepare(self) -> None:
        """Topics of the questions and of the coordinators."""
        topics = [
            {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
            for name, count in (("t", 4), ("u", 1))
        ]
        self._client.ask(CREATE_TOPICS, 5, topics=topics, timeout=30_000, validate_only=False)

        def leaders() -> bool:
            answer = self._client.ask(METADATA, 9, topics=[{"name": "t"}, {"name": "u"}])
            return all(
                topic.error_code is ErrorCode.NONE and all(part.leader_id >= 0 for part in topic.partitions)
                for topic in answer.topics
            )

        wait_for(leaders)
        for kind in (0, 1):
            wait_for(
                lambda kind=kind: self._client.ask(FIND_COORDINATOR, 3, key="any", key_type=kind).error_code,
                holds=lambda error: error is ErrorCode.NONE,
            )
        self._story = "prepare"
        self.set_level(2)
        wait_for(lambda: self.init("any")[0], holds=lambda found: found >= 0)
        wait_for(lambda: self._committed(), holds=lambda told: "COORDINATOR" not in told)
        self.lines.clear()

    def _committed(self) -> str:
        self.commit_offsets("any", -1, -1, v=3)
        return self.lines[-1]


# ------------------------------------------------------------------------------------------------------------- stories


@at_each_level
def beginnings(q: Asker) -> None:
    for v in range(6):
        q.init(f"v{v}", v=v)
        q.describe(f"v{v}")
    q.init("")
    for timeout in (0, -1, 900_000, 900_001):
        q.init("timeouts", timeout=timeout)
    q.init("half", id=4_000_000_001, epoch=-1)
    q.init("half", id=-1, epoch=5)
    q.init("unknown", id=4_000_000_000, epoch=7)
    id, epoch = q.init("x")
    id, epoch = q.init("x", id=id, epoch=epoch)
    q.init("x", id=id, epoch=epoch - 1)
    q.init("x", id=id, epoch=epoch - 1)
    for v in (3, 4, 5):
        q.init("x", id=id, epoch=epoch + 1, v=v)
        q.init("x", id=id + 1_000_000, epoch=epoch, v=v)
    q.init("x")
    for v in (3, 4, 5):
        q.init("x", id=id, epoch=epoch, v=v)
    q.describe("x")


@at_each_level
def adding(q: Asker) -> None:
    id, _ = q.init("x")
    for v in range(6):
        q.add("x", id, 0, "t-0", "t-1", v=v)
        q.add("x", id, 1, "t-0", v=v)
        q.add("x", id, -1, "t-0", v=v)
        q.add("x", id + 1_000_000, 0, "t-0", v=v)
        q.add("unknown", id, 0, "t-0", v=v)
        q.add("", id, 0, "t-0", v=v)
        q.add("x", id, 0, "t-2", "none-0", "t-9", v=v)
        q.add("x", id, 0, v=v)
    for v in (4, 5):
        q.add("x", id, 0, "t-0", "t-3", v=v, verify=True)
        q.add("x", id, 1, "t-0", v=v, verify=True)
        q.add("x", id + 1_000_000, 0, "t-0", v=v, verify=True)
        q.add("unknown", id, 0, "t-0", v=v, verify=True)
        q.add("", id, 0, "t-0", v=v, verify=True)
    q.describe("x")
    q.add("y", *q.init("y"), v=3)
    q.describe("y")


@at_each_level
def offsets(q: Asker) -> None:
    id, _ = q.init("x")
    for v in range(6):
        q.commit_offsets("x", id, 0, v=v)
        q.describe("x")
    q.end("x", id, 0, False)
    id, epoch = q.init("y")
    for v in range(5):
        q.add_offsets("y", id, epoch, v=v)
        q.add_offsets("y", id, epoch + 1, v=v)
        q.add_offsets("y", id + 1_000_000, epoch, v=v)
        q.add_offsets("unknown", id, epoch, v=v)
        q.add_offsets("", id, epoch, v=v)
    for v in range(6):
        q.commit_offsets("y", id, epoch, v=v)
        q.commit_offsets("y", id, epoch, v=v, topic="none")
        q.commit_offsets("y", id, epoch, v=v, partition=9)
        if v >= 3:
            q.commit_offsets("y", id, epoch, v=v, generation_id=3, member_id="nobody")
            q.commit_offsets("y", id, epoch, v=v, member_id="nobody")
    q.describe("y")
    q.end("y", id, epoch, True)
    q.describe("y")
    q.init("y")
    for v in range(6):
        q.commit_offsets("y", id, epoch, v=v)


def _each_end(q: Asker, x: str, id: int, epoch: int, v: int) -> None:
    """None of these ends a transaction."""
    for commit in (True, False):
        q.end(x, id, epoch + 1, commit, v=v)
        q.end(x, id, epoch - 2, commit, v=v)
        q.end(x, id + 1_000_000, epoch, commit, v=v)
    q.end("unknown", id, epoch, True, v=v)
    q.end("", id, epoch, True, v=v)


@at_each_level
def ends_of_old_clients(q: Asker) -> None:
    for v in (0, 1, 2, 3, 4):
        x = f"x{v}"
        id, epoch = q.init(x)
        for commit in (True, False):  # Empty.
            q.end(x, id, epoch, commit, v=v)
        _each_end(q, x, id, epoch, v)
        for commit in (True, False):
            q.add(x, id, epoch, "t-0", "t-1")
            _each_end(q, x, id, epoch, v)
            q.end(x, id, epoch, commit, v=v)
            q.describe(x)
            q.end(x, id, epoch, commit, v=v)
            q.end(x, id, epoch, not commit, v=v)
            _each_end(q, x, id, epoch, v)
        q.end(x, id, epoch, True, v=5)
        q.end(x, id, epoch, False, v=5)
        q.describe(x)


@at_each_level
def ends_of_new_clients(q: Asker) -> None:
    for first in (True, False):
        x = f"x{first}"
        id, epoch = q.init(x)
        q.end(x, id, epoch, True, v=5)
        q.end(x, id, epoch - 1, True, v=5)
        q.end(x, id, epoch - 1, False, v=5)
        _each_end(q, x, id, epoch, 5)
        id, epoch = q.end(x, id, epoch, False, v=5)
        q.describe(x)
        for commit in (first, not first):
            q.add(x, id, epoch, "t-0", v=4)
            _each_end(q, x, id, epoch, 5)
            before = epoch
            id, epoch = q.end(x, id, epoch, commit, v=5)
            q.describe(x)
            q.end(x, id, before, commit, v=5)
            q.end(x, id, before, not commit, v=5)
            q.end(x, id, epoch, True, v=5)
            _each_end(q, x, id, epoch, 5)
            for v in (1, 4):
                for again in (True, False):
                    q.end(x, id, before, again, v=v)
                    q.end(x, id, epoch, again, v=v)
            q.add(x, id, before, "t-0", v=3)
            q.produce(x, id, before, v=12)
        id, epoch = q.end(x, id, epoch, False, v=5)
        q.init(x, id=id, epoch=epoch - 1)
        q.init(x, id=id, epoch=epoch - 1)
        q.describe(x)


@at_each_level
def timeouts(q: Asker) -> None:
    for v in (0, 1, 2, 4, 5):
        for commit in (True, False):
            x = f"x{v}{commit}"
            id, epoch = q.init(x, timeout=300)
            q.add(x, id, epoch, "t-0")
            q.time_out(x)
            q.end(x, id, epoch, commit, v=v)
            q.end(x, id, epoch, commit, v=v)
    for v in (0, 1, 2, 3):
        q.add(x, id, epoch, "t-0", v=v)
        q.add_offsets(x, id, epoch, v=v)
    for v in (9, 11, 12):
        q.produce(x, id, epoch, v=v)
    for v in (3, 4, 5):
        q.commit_offsets(x, id, epoch, v=v)
    for v in (3, 4, 5):
        x = f"init{v}"
        id, epoch = q.init(x, timeout=300)
        q.add(x, id, epoch, "t-0")
        q.time_out(x)
        q.init(x, id=id, epoch=epoch, timeout=300, v=v)
        q.describe(x)
        q.init(x, id=id, epoch=epoch, timeout=300, v=v)
        q.init(x, timeout=300, v=v)
        q.init(x, id=id, epoch=epoch, timeout=300, v=v)
        q.describe(x)


@at_each_level
def second_instance(q: Asker) -> None:
    for v in (1, 3, 4, 5):
        x = f"x{v}"
        id, epoch = q.init(x)
        q.add(x, id, epoch, "t-0", "t-1")
        q.produce(x, id, epoch, v=9)
        q.init_ready(x)
        for again in (1, 2, 4, 5):
            q.end(x, id, epoch, True, v=again)
            q.end(x, id, epoch, False, v=again)
        q.init(x, id=id, epoch=epoch, v=v if v > 2 else 3)
        q.add(x, id, epoch, "t-0", v=1)
        q.add(x, id, epoch, "t-0", v=2)
        q.produce(x, id, epoch, sequence=1, v=9)
        q.produce(x, id, epoch, sequence=1, v=12)
        q.describe(x)
    x = "knows"
    id, epoch = q.init(x)
    q.add(x, id, epoch, "t-0")
    id, epoch = q.init_ready(x, id=id, epoch=epoch)
    q.describe(x)


@at_each_level
def producing(q: Asker) -> None:
    for v in (3, 9, 10, 11, 12):
        x = f"x{v}"
        id, epoch = q.init(x)
        q.produce(x, id, epoch, v=v)
        q.describe(x)
        q.add(x, id, epoch, "t-1")
        q.produce(x, id, epoch, v=v, name="t-1")
        q.produce(x, id, epoch, v=v, name="t-1")
        q.produce(x, id, epoch, v=v, name="t-1", sequence=5)
        q.produce(x, id, epoch + 1, v=v, name="t-1")
        q.produce(x, id, epoch - 1, v=v, name="t-1")
        q.produce("unknown", id, epoch, v=v, name="t-2")
        q.produce(None, id, epoch, v=v, name="t-2")
        q.produce(x, id + 1_000_000, epoch, v=v, name="t-2")
        q.end(x, id, epoch, True, v=3)
        q.produce(x, id, epoch, sequence=1, v=v, name="t-1")
        q.describe(x)


@at_each_level
def never_complete(q: Asker) -> None:
    """Decided, and its markers are refused for ever: nothing but the end of it may follow."""
    for number, v in enumerate((1, 3, 5)):
        for commit in (True, False):
            x = f"x{v}{commit}"
            id, epoch = q.init(x)
            q.add(x, id, epoch, f"t-{number}", v=3)
            q.fence_coordinator(id, epoch, f"t-{number}")
            q.end(x, id, epoch, commit, v=v, settles=False)
            q.describe(x)
            for again in (1, 2, 4, 5):
                for asked in (-1, 0, 1, 2):
                    q.end(x, id, epoch + asked, commit, v=again)
                    q.end(x, id, epoch + asked, not commit, v=again)
                q.end(x, id + 1_000_000, epoch, commit, v=again)
            for again in (1, 3, 4):
                for asked in (-1, 0, 1):
                    q.add(x, id, epoch + asked, "t-3", v=again)
                q.add(x, id + 1_000_000, epoch, "t-3", v=again)
            for asked in (0, 1):
                q.add(x, id, epoch + asked, f"t-{number}", v=5, verify=True)
                q.add_offsets(x, id, epoch + asked)
                q.commit_offsets(x, id, epoch + asked, v=5)
            q.init(x)
            q.init(x, id=id, epoch=epoch)
            q.init(x, id=id + 1_000_000, epoch=epoch)


@at_each_level
def told(q: Asker) -> None:
    ids = {}
    for x in ("empty", "open", "done", "undone"):
        ids[x] = q.init(x)
    for x in ("open", "done", "undone"):
        q.add(x, *ids[x], "t-0", "u-0")
    q.end("done", *ids["done"], True)
    q.end("undone", *ids["undone"], False)
    for x in (*ids, "", "unknown"):
        q.describe(x)
    for v in (0, 1, 2):
        q.list(v=v)
        q.list(states=["Ongoing", "Empty"], v=v)
        q.list(states=["Nothing", "Ongoing", "Dead", "PrepareEpochFence"], v=v)
        q.list(states=["ongoing"], v=v)
        q.list(ids=[ids["open"][0], ids["done"][0]], v=v)
        q.list(ids=[77], v=v)
        q.list(ids=[ids["open"][0]], states=["Empty"], v=v)
    q.list(longer=0, v=1)
    q.list(longer=3_600_000, v=1)
    q.list(longer=-5, v=1)
    for pattern in ("", ".*", "{}*n.*", "{}", "[", "open"):
        q.list(pattern=pattern, v=2)


@story
def rotation(q: Asker) -> None:
    """The epochs of a producer id are used up."""
    id, _ = q.init("begins")
    q.use_up("begins", id)
    q.init("begins", id=id, epoch=LAST_EPOCH - 1)
    later, _ = q.init("begins", id=id, epoch=LAST_EPOCH)
    q.describe("begins")
    q.init("begins", id=id, epoch=LAST_EPOCH)
    q.init("begins", id=id, epoch=LAST_EPOCH - 1)
    q.add("begins", later, 0, "t-0")
    q.end("begins", id, LAST_EPOCH, True, v=5)
    q.init("begins", id=id, epoch=LAST_EPOCH)

    id, _ = q.init("ends")
    q.use_up("ends", id)
    q.add("ends", id, LAST_EPOCH, "t-0", v=4)
    later, epoch = q.end("ends", id, LAST_EPOCH, True, v=5)
    q.describe("ends")
    for v in (4, 5):
        q.end("ends", id, LAST_EPOCH, True, v=v)
        q.end("ends", id, LAST_EPOCH, False, v=v)
    q.init("ends", id=id, epoch=LAST_EPOCH)
    q.describe("ends")
    q.end("ends", id, LAST_EPOCH, True, v=5)
    q.init("ends", id=id, epoch=LAST_EPOCH)
    q.init("ends", id=id, epoch=LAST_EPOCH)

    id, _ = q.init("fenced")
    q.use_up("fenced", id)
    q.add("fenced", id, LAST_EPOCH, "t-0")
    q.init("fenced")
    q.settle("fenced")
    q.describe("fenced")
    q.init("fenced", id=id, epoch=LAST_EPOCH)
    q.end("fenced", id, LAST_EPOCH, True, v=5)
    id, epoch = q.end("fenced", id, LAST_EPOCH, False, v=5)
    q.add("fenced", id, epoch, "t-1")
    q.end("fenced", id, epoch, True, v=5)
    q.init("fenced")
    q.end("fenced", id, epoch, True, v=3)
    q.init("fenced")
    q.describe("fenced")


def ask(bootstrap: str, *only: str) -> list[str]:
    """What a cluster answers. only: these stories"""
    asker = Asker(bootstrap)
    asker.prepare()
    for level in (2, 1, 0):
        told = [one for one in (STORIES if level == 2 else []) + AT_EACH_LEVEL if not only or one.__name__ in only]
        if level != 2:
            asker.set_level(level)
        for one in told:
            asker.begin(f"{one.__name__}@{level}")
            one(asker)
    asker.set_level(2)
    return asker.lines


def differences(first: list[str], second: list[str]) -> list[str]:
    return [
        line for line in difflib.unified_diff(first, second, lineterm="", n=1) if not line.startswith(("---", "+++"))
    ]


if __name__ == "__main__":
    answers = [ask(bootstrap, *sys.argv[3:]) for bootstrap in sys.argv[1:3]]
    print(f"{sum(' -> ' in line for line in answers[0])} questions")
    print("\n".join(differences(*answers)) or "nothing differs")
