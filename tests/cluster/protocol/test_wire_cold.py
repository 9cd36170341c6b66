"""kio's messages through our own reader and writer: the same bytes and the same values as kio's reader and writer."""

import subprocess
import sys
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_oracles import kio_body, kio_decoded, kio_request, kio_response, served
from wire_strategies import plain_fields

from cluster.protocol.cold import (
    decode_request,
    decode_response,
    encode_body,
    encode_request,
    encode_response,
    field_names,
    make,
    milliseconds,
    request,
    request_class,
    response,
    response_class,
)
from cluster.protocol.entities import entity_reader
from cluster.protocol.versions import (
    ALTER_PARTITION,
    BROKER_HEARTBEAT,
    CREATE_TOPICS,
    LIST_OFFSETS,
    METADATA,
    VERSIONS,
    api_name,
    read_request_header,
)
from replica.errors import ErrorCode
from tests.soak import examples, one_row_in

COLD = [(key, version) for key in VERSIONS if key > 1 for version in served(key)]
ORDERS = UUID("5ba1c6b0-9a3f-4f6b-8f4e-2d4b8c1f0001")


@pytest.mark.parametrize("class_of", [request_class, response_class], ids=["request", "response"])
@pytest.mark.parametrize(
    ("key", "version"), one_row_in(12, COLD), ids=[f"{api_name(key)}-{version}" for key, version in COLD]
)
@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_bytes_and_values_are_kios(key, version, class_of, data):
    entity_type = class_of(key, version)
    entity = make(entity_type, **data.draw(plain_fields(entity_type)))
    body = encode_body(entity)
    assert body == kio_body(entity)
    decoded, end = entity_reader(entity_type)(bytearray(body), 0)
    assert end == len(body)
    assert decoded == entity == kio_decoded(entity_type, body)


def test_whole_frames():
    fields = {"topics": [{"name": "orders"}], "allow_auto_topic_creation": False}
    for version in served(METADATA):
        entity = request(METADATA, version, **fields)
        frame = encode_request(METADATA, version, 7, "c", entity)
        assert frame[4:] == kio_request(METADATA, version, 7, "c", **fields)
        assert decode_request(read_request_header(frame[4:]), frame[4:]) == entity
        answer = response(METADATA, version, brokers=[{"node_id": 1, "host": "b1", "port": 9092}], controller_id=1)
        frame = encode_response(METADATA, version, 7, answer)
        assert frame[4:] == kio_response(METADATA, version, 7, brokers=answer.brokers, controller_id=1)
        assert decode_response(METADATA, version, frame[4:]) == answer


def test_plain_values_become_kios():
    entity = request(
        ALTER_PARTITION,
        3,
        broker_id=1,
        broker_epoch=5,
        topics=[
            {
                "topic_id": str(ORDERS),
                "partitions": [{"partition_index": 0, "new_isr_with_epochs": ({"broker_id": 1, "broker_epoch": 5},)}],
            }
        ],
    )
    (topic,) = entity.topics
    assert topic.topic_id == ORDERS
    assert topic.partitions[0].new_isr_with_epochs[0].broker_epoch == 5
    assert topic.partitions[0].leader_epoch == 0, "not given: zero"
    create = request(CREATE_TOPICS, 7, timeout=1500)
    assert create.timeout == timedelta(milliseconds=1500)
    assert milliseconds(create.timeout) == 1500
    assert create.topics == ()


def test_entities_are_taken_as_they_are():
    inner = request(METADATA, 12, topics=[{"name": "orders"}]).topics
    assert request(METADATA, 12, topics=inner).topics == inner


def test_a_field_that_this_version_lacks_is_dropped():
    old = request(LIST_OFFSETS, 3, topics=[{"partitions": [{"partition_index": 1, "current_leader_epoch": 7}]}])
    assert old.topics[0].partitions[0].partition_index == 1
    assert not hasattr(old.topics[0].partitions[0], "current_leader_epoch")


@pytest.mark.parametrize("fields", [{"broker": 1}, {"throttle_time_ms": 1}])
def test_a_misspelt_field_is_an_error(fields):
    with pytest.raises(TypeError, match=r"has no field \w+; its fields are throttle_time, error_code"):
        response(BROKER_HEARTBEAT, 1, **fields)


def test_a_misspelt_nested_field_is_an_error():
    with pytest.raises(TypeError, match="MetadataRequestTopic has no field topic; its fields"):
        request(METADATA, 12, topics=[{"topic": "orders"}])


def test_a_version_we_do_not_speak_is_an_error():
    with pytest.raises(ValueError, match="Metadata version 14 is not supported; supported versions are 0 to 13"):
        request_class(METADATA, 14)


def test_error_codes_are_ours():
    for code in ErrorCode:
        body = encode_body(response(BROKER_HEARTBEAT, 1, error_code=code))
        assert entity_reader(response_class(BROKER_HEARTBEAT, 1))(body, 0)[0].error_code is code


def test_field_names_show_nested_fields():
    assert field_names(request_class(METADATA, 12))["topics"] == {"topic_id": "uuid", "name": "string"}


@pytest.mark.soak
def test_every_api_is_found():
    for key, version in COLD:
        assert request_class(key, version).__name__ == f"{api_name(key)}Request"


def test_importing_the_codecs_imports_no_message():
    """A run starts fast: kio's classes are imported one by one, when first used."""
    code = (
        "import sys, cluster.protocol.cold, cluster.protocol.api_00_produce\n"
        "import cluster.protocol.fetch_request_codec, cluster.protocol.fetch_response_codec\n"
        "assert 'kio' not in sys.modules\n"
        "cluster.protocol.cold.request_class(63, 1)\n"
        "assert 'kio.schema.broker_heartbeat.v1' in sys.modules\n"
        "assert not [name for name in sys.modules if name.startswith(('kio.serial', 'kio.schema.metadata'))]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("kind", "api_key", "version"), [("request", 18, 5), ("response", 28, 6), ("request", 3, 12)])
def test_no_message_imports_hypothesis(kind, api_key, version):
    code = f"import sys; from cluster.protocol import cold; cold.{kind}_class({api_key}, {version}); "
    code += "assert 'hypothesis' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
