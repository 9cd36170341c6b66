"""Valid names and settings of topics in clients' requests: exactly those that Kafka allows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from controller_world import new_state, start_brokers
from hypothesis import given
from hypothesis import strategies as st

from controller.inputs import ChangeConfig, CreateTopic
from controller.metadata import decode_record, encode_record
from controller.snapshot import snapshot_of
from controller.topics import check_legal
from replica.config import TopicConfig
from replica.errors import ErrorCode, KafkaError

KEYS = sorted(TopicConfig.keys())
NASTY = st.text(max_size=12) | st.sampled_from(
    [
        "../x",
        "a/b",
        "..",
        ".",
        "",
        "a" * 249,
        "a" * 250,
        "a\x00",
        "a\n",
        "\u0661",
        "ä",
        "%s",
        "{0}",
        "<b>",
        "__x",
        "-",
        "a.b_c-9",
    ]
)


@given(NASTY)
def test_a_name_is_legal_iff_kafka_says_so(name: str) -> None:
    """source: Topic.validate"""
    legal = bool(re.fullmatch(r"[a-zA-Z0-9._-]+", name)) and name not in (".", "..") and len(name) <= 249
    if legal:
        check_legal(name)
    else:
        with pytest.raises(KafkaError) as refused:
            check_legal(name)
        assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@given(st.sampled_from([*KEYS, "nonsense", "", "Segment.Bytes"]), NASTY | st.integers().map(str))
def test_whatever_value_is_taken_is_kept_and_means_the_same_to_everybody(key: str, value: str) -> None:
    """Or it is refused, and nothing has happened."""
    state = new_state()
    start_brokers(state, 1)
    state.step(CreateTopic(now_us=0, name="t", partitions=1, replication_factor=1))
    actions: list[Any] = state.step(ChangeConfig(now_us=0, topic="t", config={key: value}))
    *done, reply = actions
    assert reply.error in (ErrorCode.NONE, ErrorCode.INVALID_CONFIG)
    if reply.error is ErrorCode.INVALID_CONFIG:
        assert not done
        assert key in reply.message
        return
    for action in done:
        if hasattr(action, "record"):
            assert decode_record(encode_record(action.record)) == action.record
    kept = state.image.topics["t"].config.get(key)
    if kept is not None:
        again: Any = state.step(ChangeConfig(now_us=0, topic="t", config={key: kept}))[-1]
        assert (again.error, state.image.topics["t"].config[key]) == (ErrorCode.NONE, kept)


@pytest.mark.parametrize(
    ("key", "value", "is_taken"),
    [
        ("min.insync.replicas", "0", False),
        ("min.insync.replicas", str(2**31 - 1), True),
        ("min.insync.replicas", str(2**31), False),
        ("retention.ms", str(2**63 - 1), True),
        ("retention.ms", str(2**63), False),
        ("retention.ms", "-2", False),
        ("segment.ms", "1e3", False),
        ("segment.ms", " 1000 ", True),
        ("segment.ms", "+1000", True),
        ("segment.ms", "1_000", False),
        ("segment.ms", "\u0661\u0662", False),
        ("min.cleanable.dirty.ratio", "0.75", True),
        ("min.cleanable.dirty.ratio", "1.5", False),
        ("min.cleanable.dirty.ratio", "nan", False),
        ("min.cleanable.dirty.ratio", "1" * 300_000 + "x", False),
        ("preallocate", "TRUE", True),
        ("preallocate", "yes", False),
        ("cleanup.policy", "compact,delete", True),
        ("cleanup.policy", "compact,", False),
        ("cleanup.policy", " compact , delete", True),
        ("cleanup.policy", "", True),
        ("cleanup.policy", ",", False),
        ("compression.type", "snappy", True),
        ("compression.type", "rar", False),
        ("leader.replication.throttled.replicas", "0:1,1:2", True),
        ("leader.replication.throttled.replicas", "0:b1", False),
    ],
)
def test_types_and_ranges(key: str, value: str, is_taken: bool) -> None:
    state = new_state()
    start_brokers(state, 1)
    event = CreateTopic(now_us=0, name="t", partitions=1, replication_factor=1, config={key: value})
    reply: Any = state.step(event)[-1]
    assert (reply.error is ErrorCode.NONE) is is_taken


def test_a_snapshot_keeps_settings_and_the_next_producer_id() -> None:
    from controller.inputs import AllocateProducerIds
    from controller.quorum.messages import OffsetAndEpoch

    state = new_state()
    start_brokers(state, 1)
    config = {"retention.ms": "5", "segment.bytes": "2048"}
    state.step(CreateTopic(now_us=0, name="t", partitions=1, replication_factor=1, config=config))
    state.step(AllocateProducerIds(now_us=0, broker_id=1, broker_epoch=0))
    image = snapshot_of(state.image, OffsetAndEpoch(1, state.next_offset), 0).image()
    assert image.topics["t"].config == config
    assert image.topics["t"].log_config.segment_bytes == 2048
    assert image.next_producer_id == 1000
