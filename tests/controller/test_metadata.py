"""Records of the metadata log: canonical bytes, and an image that is a function of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.metadata import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from replica.errors import PeerViolation

_IDS = st.integers(-1, 2**31 - 1)
_OFFSETS = st.integers(-1, 2**63 - 1)
_REPLICAS = st.lists(_IDS).map(tuple)
_FLAGS = st.none() | st.booleans()

RECORDS: st.SearchStrategy[MetadataRecord] = st.one_of(
    st.builds(
        RegisterBrokerRecord,
        broker_id=_IDS,
        incarnation_id=st.text(),
        broker_epoch=_OFFSETS,
        rack=st.none() | st.text(),
        host=st.text(),
        port=_IDS,
        fenced=st.booleans(),
    ),
    st.builds(
        BrokerRegistrationChangeRecord,
        broker_id=_IDS,
        broker_epoch=_OFFSETS,
        fenced=_FLAGS,
        in_controlled_shutdown=_FLAGS,
    ),
    st.builds(TopicRecord, name=st.text(), topic_id=st.uuids(), config=st.dictionaries(st.text(), st.text())),
    st.builds(RemoveTopicRecord, name=st.text(), topic_id=st.uuids()),
    st.builds(ConfigRecord, topic=st.text(), key=st.text(), value=st.none() | st.text()),
    st.builds(
        PartitionRecord,
        topic=st.text(),
        partition=_IDS,
        replicas=_REPLICAS,
        in_sync_replicas=_REPLICAS,
        leader=_IDS,
    ),
    st.builds(
        PartitionChangeRecord,
        topic=st.text(),
        partition=_IDS,
        in_sync_replicas=st.none() | _REPLICAS,
        leader=st.none() | _IDS,
        replicas=st.none() | _REPLICAS,
        recovering=_FLAGS,
    ),
)


@given(RECORDS)
def test_every_record_survives_the_log(record: MetadataRecord) -> None:
    data = encode_record(record)
    assert decode_record(memoryview(data)) == record
    assert encode_record(decode_record(data)) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'"text"',
        b"{}",
        b'{"type":"NoSuchRecord"}',
        b'{"type":["TopicDeleted"]}',
        b'{"type":"TopicDeleted","name":"t"}',
        b'{"type":"TopicDeleted","name":"t","topic_id":7}',
        b'{"type":"TopicDeleted","name":"t","topic_id":"no uuid"}',
        b'{"type":"PartitionChanged","topic":"t","partition":0,"replicas":3}',
        b'{"type":"PartitionChanged","topic":"t","partition":0,"surprise":3}',
    ],
)
def test_garbage_is_a_violation_and_no_crash(data: bytes) -> None:
    with pytest.raises(PeerViolation):
        decode_record(data)
