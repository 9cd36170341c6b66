"""Fetch: our bytes are kio's and kafka-python's bytes, at every version and in both directions."""

import socket
from dataclasses import replace
from uuid import UUID

import pytest
from kafka.protocol.consumer.fetch import FetchRequest as KafkaPythonRequest
from kafka.protocol.consumer.fetch import FetchResponse as KafkaPythonResponse
from segments import joined
from wire_oracles import kafka_python, kio_request, kio_response, served

from cluster.protocol.api_01_fetch import (
    EpochEndOffset,
    FetchedPartition,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    SnapshotId,
)
from cluster.protocol.fetch_request_codec import decode_fetch_request, encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response, fetch_response_segments
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint
from cluster.protocol.versions import FETCH, read_request_header
from replica.errors import ErrorCode
from replica.log.files.open_files import FileSlice

ORDERS = UUID("5ba1c6b0-9a3f-4f6b-8f4e-2d4b8c1f0001")
EMPTY = UUID("5ba1c6b0-9a3f-4f6b-8f4e-2d4b8c1f0002")


def topics_at(version, named):
    """Topics by name or by id, whichever the version wants."""
    ids = {"orders": ORDERS, "empty": EMPTY}
    return [(ids[topic] if version >= 13 else topic, rest) for topic, rest in named]


def request_at(version):
    """A request that only says what the version can say."""
    partition = FetchPartition(3, fetch_offset=17, max_bytes=1 << 20)
    if version >= 5:
        partition = replace(partition, log_start_offset=2)
    if version >= 9:
        partition = replace(partition, current_leader_epoch=4)
    if version >= 12:
        partition = replace(partition, last_fetched_epoch=3)
    if version >= 17:
        partition = replace(partition, directory_id=EMPTY)
    if version >= 18:
        partition = replace(partition, high_watermark=-1)
    request = FetchRequest(
        replica_id=2,
        replica_epoch=9 if version >= 15 else -1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10 << 20,
        isolation=1,
        topics=topics_at(version, [("orders", [partition, replace(partition, partition=4)]), ("empty", [])]),
        forgotten=[],
    )
    if version >= 7:
        forgotten = topics_at(version, [("empty", (1, 2, 5))])
        request = replace(request, session_id=123, session_epoch=6, forgotten=forgotten)
    return replace(request, rack="rack-a") if version >= 11 else request


def kio_request_fields(version, request):
    topic_field = "topic_id" if version >= 13 else "topic"
    state = {"replica_id": request.replica_id, "replica_epoch": request.replica_epoch}
    fields = {
        "replica_id": request.replica_id,
        "replica_state": state,
        "max_wait": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "rack_id": request.rack,
        "topics": [
            {
                topic_field: topic,
                "partitions": [
                    {
                        "partition": part.partition,
                        "current_leader_epoch": part.current_leader_epoch,
                        "fetch_offset": part.fetch_offset,
                        "last_fetched_epoch": part.last_fetched_epoch,
                        "log_start_offset": part.log_start_offset,
                        "partition_max_bytes": part.max_bytes,
                        "replica_directory_id": part.directory_id,
                        "high_watermark": part.high_watermark,
                    }
                    for part in partitions
                ],
            }
            for topic, partitions in request.topics
        ],
        "forgotten_topics_data": [{topic_field: topic, "partitions": indexes} for topic, indexes in request.forgotten],
    }
    return fields


@pytest.mark.parametrize("version", served(FETCH))
def test_request_is_what_others_write(version):
    request = request_at(version)
    frame = encode_fetch_request(version, 77, "b2", request)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4:] == kio_request(FETCH, version, 77, "b2", **kio_request_fields(version, request))
    seen, again = kafka_python(KafkaPythonRequest, version, frame[4:])
    assert again == frame[4:]
    assert seen["topics"][0]["partitions"][1]["fetch_offset"] == 17
    if version >= 15:
        assert (seen["replica_state"]["replica_id"], seen["replica_state"]["replica_epoch"]) == (2, 9)
    assert decode_fetch_request(read_request_header(frame[4:]), frame[4:]) == request


def test_consumer_says_nothing_about_replicas():
    frame = encode_fetch_request(16, 1, "c1", FetchRequest())
    assert frame.endswith(b"\x01\x01\x01\x00"), "no topics, none forgotten, no rack, no tags"
    decoded = decode_fetch_request(read_request_header(frame[4:]), frame[4:])
    assert (decoded.replica_id, decoded.replica_epoch) == (-1, -1)


def test_cluster_id_and_unknown_tags_are_passed_over():
    fields = kio_request_fields(16, request_at(16))
    frame = kio_request(FETCH, 16, 1, "b2", cluster_id="elsewhere", **fields)
    assert decode_fetch_request(read_request_header(frame), frame) == request_at(16)


RECORDS = b"no batch, but nobody looks" * 20


def responses_at(version):
    """Partitions that only carry what the version can say; the first one has records."""
    full = FetchPartitionResponse(3, ErrorCode.NONE, 20, 19, slice=RECORDS, aborted_transactions=((9, 12), (10, 13)))
    moved = FetchPartitionResponse(4, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    split = FetchPartitionResponse(5, ErrorCode.NONE, 20, 20, aborted_transactions=())
    if version >= 5:
        full, split = replace(full, log_start_offset=2), replace(split, log_start_offset=1)
    if version >= 11:
        full = replace(full, preferred_read_replica=3)
    if version >= 12:
        split = replace(split, diverging_epoch=EpochEndOffset(3, 15))
        moved = replace(moved, current_leader=LeaderIdAndEpoch(2, 8))
    return [full, moved, split, replace(split, partition=6, slice=b"x", current_leader=moved.current_leader)]


ENDPOINTS = (NodeEndpoint(2, "b2", 9092, "rack-a"), NodeEndpoint(3, "b3", 9092))


def kio_response_fields(version, error, session_id, topics, endpoints):
    def partition(part):
        fields = {
            "partition_index": part.partition,
            "error_code": part.error,
            "high_watermark": part.high_watermark,
            "last_stable_offset": part.last_stable_offset,
            "log_start_offset": part.log_start_offset,
            "preferred_read_replica": part.preferred_read_replica,
            "records": part.slice if isinstance(part.slice, bytes) else b"",
            "aborted_transactions": None,
        }
        if part.aborted_transactions is not None:
            aborted = [{"producer_id": who, "first_offset": offset} for who, offset in part.aborted_transactions]
            fields["aborted_transactions"] = aborted
        if part.diverging_epoch is not None:
            fields["diverging_epoch"] = part.diverging_epoch._asdict()
        if part.current_leader is not None:
            fields["current_leader"] = part.current_leader._asdict()
        return fields

    return {
        "throttle_time": 12,
        "error_code": error,
        "session_id": session_id,
        "responses": [
            {
                "topic_id" if version >= 13 else "topic": topic,
                "partitions": [partition(part) for part in partitions],
            }
            for topic, partitions in topics
        ],
        "node_endpoints": [endpoint._asdict() for endpoint in endpoints],
    }


def as_received(part):
    return FetchedPartition(
        part.partition,
        part.error,
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        part.diverging_epoch,
        part.current_leader,
        memoryview(part.slice if isinstance(part.slice, bytes) else b""),
        part.aborted_transactions,
        part.preferred_read_replica,
    )


@pytest.mark.parametrize("version", served(FETCH))
def test_response_is_what_others_write(version):
    topics = topics_at(version, [("orders", responses_at(version)), ("empty", [])])
    error, session_id = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 123) if version >= 7 else (ErrorCode.NONE, 0)
    endpoints = ENDPOINTS if version >= 16 else ()
    frame = joined(fetch_response_segments(version, 77, topics, error, session_id, 12, endpoints))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    fields = kio_response_fields(version, error, session_id, topics, endpoints)
    assert frame[4:] == kio_response(FETCH, version, 77, **fields)
    seen, again = kafka_python(KafkaPythonResponse, version, frame[4:])
    assert again == frame[4:]
    assert bytes(seen["responses"][0]["partitions"][0]["records"]) == RECORDS
    received = [(topic, [as_received(part) for part in partitions]) for topic, partitions in topics]
    assert decode_fetch_response(version, frame[4:]) == FetchResponse(error, session_id, received, 12, endpoints)


@pytest.mark.parametrize("version", served(FETCH))
def test_messages_leave_out_what_the_version_cannot_say(version):
    request = replace(
        request_at(16), topics=topics_at(version, [("orders", request_at(16).topics[0][1])]), forgotten=[]
    )
    frame = encode_fetch_request(version, 77, "b2", request)
    assert frame[4:] == kio_request(FETCH, version, 77, "b2", **kio_request_fields(version, request))
    topics = topics_at(version, [("orders", responses_at(16))])
    frame = joined(fetch_response_segments(version, 77, topics, ErrorCode.NONE, 5, 12, ENDPOINTS))
    fields = kio_response_fields(version, ErrorCode.NONE, 5, topics, ENDPOINTS)
    assert frame[4:] == kio_response(FETCH, version, 77, **fields)


@pytest.mark.parametrize("version", served(FETCH))
def test_slices_stay_in_their_file(version, tmp_path):
    """The segments name file ranges; sent by sendfile they make the same frame as bytes held in memory."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"before" + RECORDS + b"after")
    with path.open("rb") as file:
        on_disk = FileSlice(file.fileno(), 6, len(RECORDS))
        in_file = [replace(part, slice=on_disk) if part.slice == RECORDS else part for part in responses_at(version)]
        segments = fetch_response_segments(version, 77, topics_at(version, [("orders", in_file)]))
        assert [segment for segment in segments if isinstance(segment, FileSlice)] == [on_disk]
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for segment in segments:
                if isinstance(segment, FileSlice):
                    assert segment.sendfile(ours.fileno(), 0) == segment.length
                else:
                    ours.sendall(segment)
            ours.shutdown(socket.SHUT_WR)
            sent = b"".join(iter(lambda: theirs.recv(1 << 16), b""))
    in_memory = fetch_response_segments(version, 77, topics_at(version, [("orders", responses_at(version))]))
    assert sent == joined(in_memory)


@pytest.mark.parametrize("version", [4, 12])
def test_no_segment_is_empty_and_slices_stand_alone(version):
    """A slice at the very end of an old version has nothing behind it; a flexible one has at least the tags."""
    part = FetchPartitionResponse(0, ErrorCode.NONE, 1, 1, slice=FileSlice(9, 0, 100))
    segments = fetch_response_segments(version, 1, [("orders", [part, part])])
    kinds = ["slice" if isinstance(segment, FileSlice) else "bytes" for segment in segments]
    assert kinds == ["bytes", "slice", "bytes", "slice"] + (["bytes"] if version == 12 else [])
    assert all(isinstance(segment, FileSlice) or len(segment) for segment in segments)


def test_read_uncommitted_is_answered_null_aborted_transactions():
    frame = joined(fetch_response_segments(12, 1, [("t", [FetchPartitionResponse(0, ErrorCode.NONE, 1, 1, 0)])]))
    ((_, (part,)),) = decode_fetch_response(12, frame[4:]).topics
    assert part.aborted_transactions is None
    assert len(part.records) == 0


def test_snapshot_id_is_read():
    """Tag 2 belongs to the metadata log of KRaft; it must not disturb tag 0."""
    fields = kio_response_fields(12, ErrorCode.NONE, 0, [("orders", responses_at(12))], ())
    fields["responses"][0]["partitions"][2]["snapshot_id"] = {"end_offset": 4, "epoch": 1}
    frame = kio_response(FETCH, 12, 1, **fields)
    parts = decode_fetch_response(12, frame).topics[0][1]
    expected = [as_received(part) for part in responses_at(12)]
    expected[2] = replace(expected[2], snapshot_id=SnapshotId(4, 1))
    assert parts == expected
