"""For any input a decoder returns a message or raises PeerViolation, at a cost bounded by the bytes sent."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from segments import joined
from wire_oracles import kio_body, kio_header, kio_request, kio_response, served
from wire_strategies import damaged, plain_fields

from cluster.protocol.api_00_produce import (
    ProducePartitionResponse,
    ProduceRequest,
    decode_produce_request,
    decode_produce_response,
    encode_produce_request,
    encode_produce_response,
)
from cluster.protocol.api_01_fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from cluster.protocol.cold import (
    decode_request,
    decode_response,
    make,
    request_class,
    response_class,
)
from cluster.protocol.entities import least_bytes
from cluster.protocol.fetch_request_codec import decode_fetch_request, encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response, fetch_response_segments
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint
from cluster.protocol.primitives import (
    _uuid_of,
    read_count,
    read_string,
    read_tagged,
    read_uvarint,
    string,
    tagged,
    uvarint,
)
from cluster.protocol.versions import (
    BROKER_HEARTBEAT,
    CREATE_TOPICS,
    FETCH,
    METADATA,
    PRODUCE,
    VERSIONS,
    read_request_header,
    response_body_position,
    response_correlation_id,
    response_frame,
)
from replica.errors import ErrorCode, PeerViolation
from tests.soak import examples, one_row_in

TOPIC_ID = _uuid_of(bytes(range(16)))
HINTS = [NodeEndpoint(2, "b2", 9092, "rack")]
QUICK = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def decode_any_request(frame):
    """A broker's handling of a frame."""
    header = read_request_header(frame)
    match header.api_key:
        case 0:
            return decode_produce_request(header, frame)
        case 1:
            return decode_fetch_request(header, frame)
        case 18 if header.api_version > VERSIONS[18][1]:
            return None
    return decode_request(header, frame)


def decode_any_response(api_key, version, frame):
    """A client's handling of a frame."""
    response_correlation_id(frame)
    match api_key:
        case 0:
            return decode_produce_response(version, frame)
        case 1:
            return decode_fetch_response(version, frame)
    return decode_response(api_key, version, frame)


def may_violate(decode, *args):
    try:
        decode(*args)
    except PeerViolation as violation:
        assert str(violation), "a violation says what is wrong"


def hot_request(api_key, version):
    if api_key == PRODUCE:
        topic = TOPIC_ID if version >= 13 else "orders"
        topics = [(topic, [(0, b"records"), (1, None)]), (topic, [])]
        return encode_produce_request(version, 1, "p1", ProduceRequest("tx", -1, 100, topics))[4:]
    topic = TOPIC_ID if version >= 13 else "orders"
    asked = [(topic, [FetchPartition(0), FetchPartition(1, directory_id=TOPIC_ID, high_watermark=7)])]
    return encode_fetch_request(version, 1, "b2", FetchRequest(2, 7, topics=asked, forgotten=[(topic, (1, 2))]))[4:]


def hot_response(api_key, version):
    leader = LeaderIdAndEpoch(2, 5)
    if api_key == PRODUCE:
        part = ProducePartitionResponse(0, ErrorCode.NONE, 17, 1, 0, "text", ((0, "bad"),), leader)
        topic = TOPIC_ID if version >= 13 else "orders"
        return encode_produce_response(version, 1, [(topic, [part, part])], 0, HINTS)[4:]
    topic = TOPIC_ID if version >= 13 else "orders"
    fetched = FetchPartitionResponse(0, ErrorCode.NONE, 9, 9, 0, (3, 4), leader, b"records", ((1, 2), (3, 4)))
    return joined(fetch_response_segments(version, 1, [(topic, [fetched, fetched])], endpoints=HINTS))[4:]


HOT = [(key, version) for key in (PRODUCE, FETCH) for version in served(key)]
COLD = [(key, version) for key in VERSIONS if key > 1 for version in served(key)]


@QUICK
@given(frame=st.binary(max_size=120))
def test_random_bytes(frame):
    may_violate(decode_any_request, frame)


@pytest.mark.parametrize(("api_key", "version"), one_row_in(12, HOT + COLD))
@settings(QUICK, max_examples=10)
@given(body=st.binary(max_size=120))
def test_random_bodies(api_key, version, body):
    may_violate(decode_any_request, kio_header(api_key, version, 1, "c") + body)
    may_violate(decode_any_response, api_key, version, response_frame(api_key, version, 1, body)[4:])


@pytest.mark.parametrize(("api_key", "version"), HOT)
@QUICK
@given(data=st.data())
def test_damaged_produce_and_fetch(api_key, version, data):
    may_violate(decode_any_request, data.draw(damaged(hot_request(api_key, version))))
    may_violate(decode_any_response, api_key, version, data.draw(damaged(hot_response(api_key, version))))


@pytest.mark.parametrize(("api_key", "version"), one_row_in(12, COLD))
@settings(QUICK, max_examples=examples(12))
@given(data=st.data())
def test_damaged_cold_messages(api_key, version, data):
    request = kio_body(
        make(request_class(api_key, version), **data.draw(plain_fields(request_class(api_key, version))))
    )
    frame = kio_header(api_key, version, 1, "c") + request
    decode_any_request(frame)
    may_violate(decode_any_request, data.draw(damaged(frame)))
    response = make(response_class(api_key, version), **data.draw(plain_fields(response_class(api_key, version))))
    frame = response_frame(api_key, version, 1, kio_body(response))[4:]
    decode_any_response(api_key, version, frame)
    may_violate(decode_any_response, api_key, version, data.draw(damaged(frame)))


@pytest.mark.parametrize(("api_key", "version"), HOT)
def test_every_cut_is_a_violation_and_of_responses_every_excess(api_key, version):
    """A strict prefix of a message is never a message, and neither is a response with something behind it."""
    frame = hot_request(api_key, version)
    for end in range(len(frame)):
        with pytest.raises(PeerViolation):
            decode_any_request(frame[:end])
    decode_any_request(frame + b"\x00")
    frame = hot_response(api_key, version)
    for damaged_frame in [*(frame[:end] for end in range(len(frame))), frame + b"\x00"]:
        with pytest.raises(PeerViolation):
            decode_any_response(api_key, version, damaged_frame)


@pytest.mark.parametrize(("api_key", "version"), one_row_in(12, COLD))
def test_every_cut_of_a_cold_message_is_a_violation(api_key, version):
    frame = kio_request(api_key, version, 1, "c")
    start = read_request_header(frame).body_position
    for end in range(start, len(frame)):
        with pytest.raises(PeerViolation):
            decode_any_request(frame[:end])
    decode_any_request(frame + b"\x00")
    frame = kio_response(api_key, version, 1)
    start = response_body_position(api_key, version, frame)
    for damaged_frame in [*(frame[:end] for end in range(start, len(frame))), frame + b"\x00"]:
        with pytest.raises(PeerViolation):
            decode_any_response(api_key, version, damaged_frame)


@pytest.mark.parametrize("version", [1, 9])
def test_a_count_does_not_reserve_memory(version):
    """kio's own reader allocates room for as many items as an array claims, and aborts the process when it cannot."""
    count = b"\x7f\xff\xff\xff" if version == 1 else b"\xff\xff\xff\xff\x07"
    with pytest.raises(PeerViolation, match="claims 214748364"):
        decode_any_request(kio_header(METADATA, version, 1, "c") + count)


def test_a_count_is_held_against_the_size_of_an_item():
    """Eight claimed partitions of at least 26 bytes cannot be in 100 bytes, so not even the first is read."""
    with pytest.raises(PeerViolation, match="claims 8 items, but only 100 bytes"):
        read_count(bytes(3) + b"\x08" + bytes(100), 0, False, 26)
    assert read_count(bytes(3) + b"\x03" + bytes(100), 0, False, 26) == (3, 4)


@pytest.mark.parametrize(("api_key", "version"), one_row_in(12, COLD))
def test_least_bytes_is_what_an_empty_message_takes(api_key, version):
    for cls in (request_class(api_key, version), response_class(api_key, version)):
        # A null array or string takes as many bytes as an empty one.
        assert least_bytes(cls) == len(kio_body(make(cls)))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\x00\x00\x00\x01\xff\xff", "null"),
        (b"\x00\x00\x00\x01\xff\xfe", "length -2"),
        (b"\x00\x00\x00\x01\x00\x02\xc3\x28", "not UTF-8"),
        (b"\x00\x00\x00\x01\x00\x09ab", "claims 9 bytes, but only 2 are left"),
        (b"\xff\xff\xff\xfe", "claims -2 items"),
        (b"\x00\x00", "cut short"),
    ],
)
def test_the_reason_is_told(body, why):
    with pytest.raises(PeerViolation, match=why):
        decode_any_request(kio_header(METADATA, 1, 1, "c") + body)


def test_null_where_kafka_has_none():
    body = kio_body(make(request_class(CREATE_TOPICS, 2)))
    assert body[:4] == bytes(4)
    with pytest.raises(PeerViolation, match="a non-nullable array is null"):
        decode_any_request(kio_header(CREATE_TOPICS, 2, 1, "c") + b"\xff\xff\xff\xff" + body[4:])


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**28 - 1, 2**28, 2**31 - 1])
def test_varints(value):
    data = uvarint(value)
    assert read_uvarint(data + b"rest", 0) == (value, len(data))


@pytest.mark.parametrize("data", [b"\x80\x80\x80\x80\x80\x00", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08"])
def test_varints_beyond_31_bits(data):
    with pytest.raises(PeerViolation):
        read_uvarint(data, 0)


@given(text=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=300), flexible=st.booleans())
def test_strings(text, flexible):
    data = string(text, flexible)
    assert read_string(b"ab" + data + b"rest", 2, flexible) == (text, 2 + len(data))


@given(fields=st.dictionaries(st.integers(0, 2**31 - 1), st.binary(max_size=200), max_size=5))
def test_tagged_sections(fields):
    data = tagged(fields)
    assert read_tagged(data + b"rest", 0) == (fields, len(data))


def test_a_tag_may_not_reach_past_its_frame():
    with pytest.raises(PeerViolation, match="claims 9 bytes, but only 2 are left"):
        read_tagged(b"\x01\x00\x09ab", 0)


@pytest.mark.parametrize(
    ("api_key", "version", "tag"),
    [
        (FETCH, 12, b"\x00\x0d" + (3).to_bytes(4, "big") + (4).to_bytes(8, "big") + b"\x00"),  # diverging_epoch
        (FETCH, 12, b"\x01\x09" + bytes(3) + b"\x02" + bytes(3) + b"\x05\x00"),  # current_leader
        (PRODUCE, 10, b"\x00\x09" + bytes(3) + b"\x02" + bytes(3) + b"\x05\x00"),  # current_leader
        (FETCH, 16, b"\x00\x12\x02" + bytes(3) + b"\x02\x03b2" + bytes(2) + b"\x23\x84\x05rack\x00"),  # node_endpoints
    ],
)
def test_a_tagged_structure_fills_its_field(api_key, version, tag):
    """One byte more than the structure takes: the ends disagree about the layout."""
    frame = hot_response(api_key, version)
    longer = frame.replace(tag, bytes((tag[0], tag[1] + 1)) + tag[2:] + b"!", 1)
    assert len(longer) == len(frame) + 1
    with pytest.raises(PeerViolation, match="left over"):
        decode_any_response(api_key, version, longer)


def test_a_tagged_value_of_a_cold_message_fills_its_field():
    frame = kio_request(BROKER_HEARTBEAT, 1, 1, "c", offline_log_dirs=[TOPIC_ID])
    tag = b"\x01\x00\x11\x02" + TOPIC_ID.bytes
    assert frame.endswith(tag)
    with pytest.raises(PeerViolation, match="tagged field 0 claims 18 bytes, but its value has 17"):
        decode_any_request(frame.removesuffix(tag) + b"\x01\x00\x12" + tag[3:] + b"!")


def test_tags_ascend_whatever_order_they_came_in():
    assert tagged({7: b"b", 2: b"a"}) == b"\x02\x02\x01a\x07\x01b"
