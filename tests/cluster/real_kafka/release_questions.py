"""Questions that releases from 4.1 to 4.4 answer differently: about late markers, old epochs, features, assignments,
commits and the log cleaner. `python release_questions.py BOOT` prints the answers of a cluster, of one broker with
SETTINGS.
"""

from __future__ import annotations

import struct
import sys
import time
from typing import Any

import group_questions
import transaction_questions

from cluster.protocol.api_00_produce import ProduceRequest, decode_produce_response, encode_produce_request
from cluster.protocol.api_01_fetch import READ_COMMITTED, FetchedPartition, FetchPartition, FetchRequest
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.versions import (
    API_VERSIONS,
    CREATE_TOPICS,
    DESCRIBE_CLUSTER,
    SHARE_GROUP_HEARTBEAT,
    WRITE_TXN_MARKERS,
    api_name,
)
from replica.errors import ErrorCode
from replica.log.batches.records import BatchHeader, build_batch, read_header
from tests.waiting import wait_for

SETTINGS = group_questions.SETTINGS | {"log.cleaner.backoff.ms": "500"}
VERSION = {"client_software_name": "asker", "client_software_version": "1"}
TRANSACTION_VERSION = 2
BIG = bytes(600_000)
"""Two of them do not fit into a segment of 1 MiB, the smallest that Kafka 4 takes."""


class Asker(transaction_questions.Asker):
    def ask(self, api: int, version: int, **fields: Any) -> Any:
        return self._client.ask(api, version, **fields)

    def newest(self, api: int) -> int:
        """The newest version that the cluster has."""
        answer = self.ask(API_VERSIONS, 4, **VERSION)
        return int(next(one.max_version for one in answer.api_keys if one.api_key == api))

    def abort(self, id: int, epoch: int) -> None:
        """A marker as the coordinator of a cluster of this release sends it."""
        version = self.newest(WRITE_TXN_MARKERS)
        marker = {
            "producer_id": id, "producer_epoch": epoch, "transaction_result": False, "coordinator_epoch": 0,
            "topics": [{"name": "t", "partition_indexes": [0]}],
        }  # fmt: skip
        if version > 1:
            marker["transaction_version"] = TRANSACTION_VERSION
        answer = self.ask(WRITE_TXN_MARKERS, version, markers=[marker])
        told = [part.error_code.name for one in answer.markers for topic in one.topics for part in topic.partitions]
        self._tell(f"WriteTxnMarkers {self._id(id)} epoch {epoch}", ", ".join(told))

    def fetch(self, topic: str) -> FetchedPartition:
        wanted = FetchRequest(isolation=READ_COMMITTED, topics=[(topic, [FetchPartition(0, max_bytes=4 << 20)])])
        self._client._sock.sendall(encode_fetch_request(12, 7, "asker", wanted))
        answer = decode_fetch_response(12, memoryview(self._client._answer()))
        return answer.topics[0][1][0]

    def tell_open(self) -> None:
        found = self.fetch("t")
        self._tell("is a transaction open in t-0", str(found.last_stable_offset < found.high_watermark))

    def keyed(self, id: int, epoch: int, sequence: int, key: bytes, value: bytes, topic: str) -> None:
        batch = build_batch(
            [(key, value)],
            timestamp_ms=int(time.time() * 1000),
            producer_id=id, producer_epoch=epoch, base_sequence=sequence, transactional=True,
        )  # fmt: skip
        wanted = ProduceRequest(self.name("x"), -1, 30_000, [(topic, [(0, batch)])])
        self._client._sock.sendall(encode_produce_request(12, 7, "asker", wanted))
        (answer,) = decode_produce_response(12, memoryview(self._client._answer())).topics
        self._tell(f"Produce {topic} sequence {sequence}", answer[1][0].error.name)

    def reach(self, cluster_id: str | None, node_id: int) -> str:
        """ApiVersions 5, in which a client names whom it means."""
        named = b"\0" if cluster_id is None else bytes([len(cluster_id) + 1]) + cluster_id.encode()
        body = b"\x06asker\x021" + named + struct.pack(">i", node_id) + b"\0"
        frame = struct.pack(">hhih", API_VERSIONS, 5, 7, 5) + b"asker\0" + body
        self._client._sock.sendall(struct.pack(">i", len(frame)) + frame)
        return ErrorCode(*struct.unpack_from(">h", self._client._answer(), 4)).name


def late_marker(q: Asker) -> None:
    """The marker of the last transaction comes again, in the next one of the same producer."""
    id, epoch = q.init("x")
    q.produce("x", id, epoch, v=12)
    id, epoch = q.end("x", id, epoch, False, v=5)
    q.produce("x", id, epoch, v=12)
    q.tell_open()
    q.abort(id, epoch)
    q.tell_open()
    q.end("x", id, epoch, True, v=5)
    q.tell_open()


def old_epoch(q: Asker) -> None:
    """A producer whose transaction was given up goes on."""
    id, epoch = q.init("x", timeout=300)
    q.add("x", id, epoch, "t-0")
    q.produce("x", id, epoch)
    q.time_out("x")
    for v in (9, 11, 12):
        q.produce("x", id, epoch, 1, v=v)


def features(q: Asker) -> None:
    answer = q.ask(API_VERSIONS, 4, **VERSION)
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    told = ", ".join(f"{name} {level}" for name, level in sorted(levels.items()) if name != "kraft.version")
    q._tell("features", told)
    beat = {
        "group_id": q.name("g"), "member_id": "m", "member_epoch": 0, "rack_id": None, "subscribed_topic_names": ["t"],
    }  # fmt: skip
    q._tell(api_name(SHARE_GROUP_HEARTBEAT), q.ask(SHARE_GROUP_HEARTBEAT, 1, **beat).error_code.name)


def destination(q: Asker) -> None:
    known = q.ask(DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=False)
    cluster_id, node_id = str(known.cluster_id), int(known.brokers[0].broker_id)
    for what, cluster, node in (
        ("nobody", None, -1), ("it", cluster_id, node_id), ("another broker", cluster_id, node_id + 1),
        ("another cluster", "other", node_id), ("no broker", cluster_id, -1), ("no cluster", None, node_id),
    ):  # fmt: skip
        q._tell(f"ApiVersions 5 that means {what}", q.reach(cluster, node))


def emptied_batch(q: Asker) -> None:
    """The last batch of a round of the cleaner is of an aborted transaction, and not the last one of its producer."""
    config = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
    topic = {
        "name": "compacted", "num_partitions": 1, "replication_factor": 1, "assignments": [],
        "configs": [{"name": name, "value": value} for name, value in config.items()],
    }  # fmt: skip
    q.ask(CREATE_TOPICS, 5, topics=[topic], timeout=30_000, validate_only=False)
    wait_for(lambda: q.fetch("compacted").error, holds=lambda error: error is ErrorCode.NONE)
    id, epoch = q.init("x")
    q.keyed(id, epoch, 0, b"a", BIG, "compacted")
    q.keyed(id, epoch, 1, b"b", BIG, "compacted")
    q.end("x", id, epoch, False, v=5)

    def first() -> BatchHeader:
        return read_header(q.fetch("compacted").records)

    wait_for(first, holds=lambda batch: batch.base_offset > 0 or not batch.record_count)
    q._tell("the first batch that is left", f"at {first().base_offset}, of {first().record_count}")


def assigned_a_moment_ago(q: group_questions.Asker) -> None:
    q.beat("a")
    q.beat("a", epoch=-1)
    q.beat("b")
    time.sleep(1.1)  # The interval of the assignments.
    q.beat("b")


def another_assignor(q: group_questions.Asker) -> None:
    q.beat("a")
    time.sleep(1.1)
    for assignor in ("uniform", "range", "range"):
        q.beat("a", server_assignor=assignor, subscribed_topic_names=["t"])


def epoch_of_a_commit(q: group_questions.Asker) -> None:
    """b gets two of the four partitions of a, which commits at the epoch that it had before."""
    q.beat("a")
    time.sleep(1.1)
    before = q.epochs["a"]
    q.beat("b")
    q.beat("a")
    q.beat("a", topic_partitions=q.owning(0, 1))
    for partition in (0, 1, 2, 3):
        q.commit("a", partition=partition)
        q.commit("a", partition=partition, generation_id_or_member_epoch=before)
        q.commit("a", partition=partition, generation_id_or_member_epoch=before + 5)


def ask(bootstrap: str) -> list[str]:
    groups = group_questions.Asker(bootstrap)
    groups.prepare()
    for of_groups in (assigned_a_moment_ago, another_assignor, epoch_of_a_commit):
        groups.begin(of_groups.__name__)
        of_groups(groups)
    others = Asker(bootstrap)
    for one in (late_marker, old_epoch, features, destination, emptied_batch):
        others.begin(one.__name__)
        one(others)
    return groups.lines + others.lines


if __name__ == "__main__":
    print("\n".join(ask(sys.argv[1])))
