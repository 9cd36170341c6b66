"""Produce: our bytes are kio's and kafka-python's bytes, at every version and in both directions."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import NAMESPACE_DNS, uuid5

import pytest
from kafka.protocol.producer import ProduceRequest as KafkaPythonRequest
from kafka.protocol.producer import ProduceResponse as KafkaPythonResponse
from wire_oracles import kafka_python, kio_request, kio_response, served

from cluster.protocol.api_00_produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    decode_produce_request,
    decode_produce_response,
    encode_produce_request,
    encode_produce_response,
)
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint
from cluster.protocol.versions import PRODUCE, read_request_header
from replica.errors import ErrorCode

BATCH = bytes(range(256)) * 3
TOPICS = [("orders", [(0, BATCH), (3, b""), (4, None)]), ("größe", [(1, b"x")]), ("none", [])]
IDS = {name: uuid5(NAMESPACE_DNS, name) for name, _ in TOPICS}


def topics_at(version, named):
    """Topics by name or by id, whichever the version wants."""
    return [(IDS[topic] if version >= 13 else topic, rest) for topic, rest in named]


def kio_topic(topic):
    return {"name" if isinstance(topic, str) else "topic_id": topic}


def kio_fields(request):
    return {
        "transactional_id": request.transactional_id,
        "acks": request.acks,
        "timeout": request.timeout_ms,
        "topic_data": [
            {
                **kio_topic(topic),
                "partition_data": [{"index": index, "records": records} for index, records in partitions],
            }
            for topic, partitions in request.topics
        ],
    }


@pytest.mark.parametrize("version", served(PRODUCE))
@pytest.mark.parametrize("transactional_id", [None, "tx"])
def test_request_is_what_others_write(version, transactional_id):
    request = ProduceRequest(transactional_id, -1, 30_000, topics_at(version, TOPICS))
    frame = encode_produce_request(version, 77, "p1", request)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4:] == kio_request(PRODUCE, version, 77, "p1", **kio_fields(request))
    seen, again = kafka_python(KafkaPythonRequest, version, frame[4:])
    assert again == frame[4:]
    assert (seen["acks"], seen["timeout_ms"], seen["transactional_id"]) == (-1, 30_000, transactional_id)


@pytest.mark.parametrize("version", served(PRODUCE))
def test_request_round_trip(version):
    request = ProduceRequest(None, 1, 1500, topics_at(version, TOPICS))
    frame = bytearray(kio_request(PRODUCE, version, 77, "p1", **kio_fields(request)))
    decoded = decode_produce_request(read_request_header(frame), frame)
    assert decoded == request
    assert decoded.topics == topics_at(version, TOPICS)


def test_records_are_stamped_in_place():
    frame = bytearray(encode_produce_request(9, 1, "p1", ProduceRequest(None, 1, 0, [("orders", [(0, b"abc")])]))[4:])
    ((_, ((_, records),)),) = decode_produce_request(read_request_header(frame), frame).topics
    assert isinstance(records, bytearray | memoryview)
    records[0:1] = b"z"
    assert b"zbc" in frame and b"abc" not in frame


def partitions_of(version):
    """Responses that only carry what the version can say."""
    plain = ProducePartitionResponse(0, ErrorCode.NONE, 17, 1_700_000_000_000)
    refused = ProducePartitionResponse(5, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if version >= 5:
        plain = replace(plain, log_start_offset=3)
    if version >= 8:
        errors = ((0, "bad timestamp"), (7, None))
        refused = replace(refused, error_message="moved", record_errors=errors)
    if version >= 10:
        refused = replace(refused, current_leader=LeaderIdAndEpoch(2, 9))
    return [plain, refused]


ENDPOINTS = (NodeEndpoint(2, "b2", 9092, "rack-a"), NodeEndpoint(3, "b3", 9092))


def utc(milliseconds):
    return None if milliseconds < 0 else datetime.fromtimestamp(milliseconds / 1000, UTC)


def kio_response_fields(topics, endpoints):
    def partition(part):
        fields = {
            "index": part.partition,
            "error_code": part.error,
            "base_offset": part.base_offset,
            "log_append_time": utc(part.log_append_time_ms),
            "log_start_offset": part.log_start_offset,
            "record_errors": [
                {"batch_index": index, "batch_index_error_message": message} for index, message in part.record_errors
            ],
            "error_message": part.error_message,
        }
        if part.current_leader is not None:
            fields["current_leader"] = part.current_leader._asdict()
        return fields

    return {
        "throttle_time": 12,
        "responses": [
            {**kio_topic(topic), "partition_responses": [partition(part) for part in partitions]}
            for topic, partitions in topics
        ],
        "node_endpoints": [endpoint._asdict() for endpoint in endpoints],
    }


@pytest.mark.parametrize("version", served(PRODUCE))
def test_response_is_what_others_write(version):
    topics = topics_at(version, [("orders", partitions_of(version)), ("none", [])])
    endpoints = ENDPOINTS if version >= 10 else ()
    frame = encode_produce_response(version, 77, topics, 12, endpoints)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4:] == kio_response(PRODUCE, version, 77, **kio_response_fields(topics, endpoints))
    seen, again = kafka_python(KafkaPythonResponse, version, frame[4:])
    assert again == frame[4:]
    assert seen["responses"][0]["partition_responses"][1]["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert decode_produce_response(version, frame[4:]) == ProduceResponse(topics, 12, endpoints)


def test_response_of_an_old_version_may_have_any_tag():
    frame = encode_produce_response(10, 77, [], 12, ENDPOINTS)
    assert decode_produce_response(10, frame[4:]) == ProduceResponse([], 12, ENDPOINTS)
    assert decode_produce_response(9, frame[4:]) == ProduceResponse([], 12, ())


@pytest.mark.parametrize("version", served(PRODUCE))
def test_response_leaves_out_what_the_version_cannot_say(version):
    topics = topics_at(version, [("orders", partitions_of(10))])
    frame = encode_produce_response(version, 77, topics, 12, ENDPOINTS)
    assert frame[4:] == kio_response(PRODUCE, version, 77, **kio_response_fields(topics, ENDPOINTS))


def test_unknown_error_code_is_unknown_server_error():
    frame = bytearray(encode_produce_response(7, 1, [("t", [ProducePartitionResponse(0, ErrorCode.NONE)])])[4:])
    at = frame.index(b"\x00\x01t") + 3 + 4 + 4
    frame[at : at + 2] = (3000).to_bytes(2, "big")
    assert decode_produce_response(7, frame).topics[0][1][0].error is ErrorCode.UNKNOWN_SERVER_ERROR
